"""SentenceEmbedder: a vector for each text, trained so that texts that belong together are close to each other."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.checks import check_choice, check_flag, check_no_class
from keras_bert.choices import POOLING
from keras_bert.nearest import cosines_of_pairs
from keras_bert.tasks.cached_task import CachedTask
from keras_bert.tasks.columns.other_columns import TEXTS
from keras_bert.tasks.columns.tables import column_names, is_table, named_columns
from keras_bert.tasks.columns.text_columns import check_lengths, column
from keras_bert.tasks.columns.value_columns import number_column, weight_column
from keras_bert.tasks.fitting.continued import cannot_change, loss_settings
from keras_bert.tasks.heads import check_bert
from keras_bert.tasks.losses import LOSSES, SentenceLoss, name_of
from keras_bert.tasks.losses.sentence_loss import by_row
from keras_bert.tasks.metrics.classification import number_scores
from keras_bert.tasks.metrics.retrieval import neighbour_scores, retrieval_scores
from keras_bert.tasks.readers import TABLE_FIELDS, Reading, Rows, RowStream
from keras_bert.tasks.readers.sentences import read_sentences, read_training_sentences, stream_sentences
from keras_bert.tasks.reports.findings import Findings, columns_by_name
from keras_bert.tasks.reports.number_findings import sentence_findings
from keras_bert.tasks.rows.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.rows.sentence_forms import (
    BY_FORM,
    OF_LOSSES,
    SCORES,
    check_batch_size,
    check_form,
    check_label_count,
    check_sentences,
    form_of,
)
from keras_bert.tasks.rows.sentence_rows import SentenceRows, make_targets
from keras_bert.tasks.signature import Logits, Signature
from keras_bert.text.tokenized_rows import pieces
from keras_bert.training.all_replicas import of_all_replicas
from keras_bert.training.measure import Measure
from keras_bert.vectors import Pooling, features
from keras_bert.wording import first_line


@keras.saving.register_keras_serializable("keras_bert")
class SentenceEmbedder(CachedTask):
    """A vector [B, H] for each text, as `bert.embed` returns it, trained on pairs, scores, labels or plain texts.

    The arguments of `fit` decide what is learned:

    - `fit((queries, positives))` and `fit((queries, positives, negatives))`: each query is closest to its positive.
    - `fit((a, b), scores)`: the cosine of each pair is its score.
    - `fit(texts, labels)`: texts of one label are close.
    - `fit(texts)`: each text is closest to itself under another dropout (SimCSE, Gao et al. 2021).

    `evaluate` and validation accept all but the last, in any form: (a, b) with scores gives Spearman's correlation;
    pairs give recall and mean reciprocal rank (mrr); labels give the share of texts whose nearest neighbour has the
    same label. Held-out pairs without scores are the tuple `((queries, positives), None)`. Texts are truncated to the
    preprocessor's seq_length.

    Args:
        pooling: "mean", "cls" or "max"; None is the Bert's own pooling, or else the mean.
        normalize: whether the vectors have length 1.

    Both are set as `bert.pooling` too, so that `bert.embed`, `keras-bert embed` and converted models do the same.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> SentenceEmbedder(bert).embed(["good", "bad good"]).shape
    (2, 128)
    """

    command: str = "embed"
    reader = staticmethod(read_sentences)
    default_batch_size: int = 32  # the ranking compares each text with all others of its batch
    reading_fields: tuple[str, ...] = (*TABLE_FIELDS, "scale", "lines")
    run_fields: tuple[str, ...] = ("loss", "temperature", "symmetric", "pooling", "cache_batch", "stream")
    learns_texts: bool = True
    compares_rows: bool = True
    usage: str = 'task.embed(["some text"])'
    form: str = "pairs"  # of the rows that it was last trained on
    chosen_loss: SentenceLoss | None = None
    keeps_loss: bool = False  # whether the `fit` that runs keeps the loss that the user compiled with

    def __init__(
        self, bert: Bert, pooling: str | None = None, *, normalize: bool = True, name: str | None = None
    ) -> None:
        check_bert(bert)
        own = bert.pooling.pooling if bert.pooling else "mean"
        pooling = own if pooling is None else pooling
        check_choice("pooling", pooling, POOLING)
        check_flag("normalize", normalize)
        vectors = features(bert, (-1,), "concat", pooling, normalize)  # [B, H]
        super().__init__(bert, bert.input, vectors, name=name)

        # === Config ===
        self.pooling = pooling
        self.normalize = normalize
        limit = packer_of(bert).max_length if bert.has_preprocessor else None
        limit = None if limit == bert.config.max_position_embeddings else limit
        bert.pooling = Pooling(pooling, normalize, limit)

    # === Files and the command line ===

    @classmethod
    def read_training_rows(cls, path: str | os.PathLike, reading: Reading) -> Rows:
        reading.check_format(cls.command, cls.formats)
        return read_training_sentences(path, reading)

    @classmethod
    def stream_rows(cls, path: str | os.PathLike, reading: Reading | None = None) -> RowStream:
        reading = reading or Reading()
        reading.check_format(cls.command, cls.formats)
        return stream_sentences(path, reading)

    @classmethod
    def check_run(cls, rows: Rows | RowStream, settings: Any) -> None:
        check_sentences(rows, settings.loss)

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "SentenceEmbedder":
        return cls(bert, settings.pooling)

    @classmethod
    def fit_options(cls, settings: Any) -> dict[str, Any]:
        options = {name: getattr(settings, name) for name in OF_LOSSES if getattr(settings, name)}
        loss = None if settings.loss is None else LOSSES[settings.loss](**options)
        return {"loss": loss, "cache_batch": settings.cache_batch}

    def read_lines(self, lines: Sequence[tuple[int, str]], reading: Reading) -> Any:
        return [line for _, line in lines]

    def as_json(self, answer: Any) -> dict[str, Any]:
        return {"vector": answer.tolist()}

    # === Rows ===

    def table_texts(self, table: Any) -> tuple[str, ...]:
        return TEXTS if TEXTS[1] in column_names(table) else TEXTS[:1]

    def table_label(self, table: Any) -> str | None:
        """None for pairs with nothing beside them, which are matches; another column may have their scores."""
        return None if {*column_names(table)} == {*TEXTS} else super().table_label(table)

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> SentenceRows:
        columns = [column(values) for values in (x if isinstance(x, tuple) else (x,))]
        if len(columns) > 3:
            raise ValueError(
                "x must be texts, pairs, or pairs with negatives. Pass one column of texts, or a tuple of two or three "
                f"columns. Received: {len(columns)} columns"
            )
        check_lengths(**dict(zip(("texts", "second_texts", "third_texts"), columns, strict=False)))
        self.class_weight_ids(class_weight)  # an error if it is given
        form = form_of(columns, y)
        if form == "pairs" and len(columns) == 1:  # each text is a match of itself
            columns *= 2
        targets = weight = None
        if form:
            targets = make_targets(form, columns, y)
            check_lengths(x=columns[0], y=targets)
            weight = weight_column(sample_weight, len(targets))
        in_turn = [text for row in zip(*columns, strict=True) for text in row]
        segments = [pieces(self.bert.preprocessor, in_turn)]
        return SentenceRows(segments, packer_of(self.bert), len(columns), targets, weight, columns, form=form)

    def labelled_examples(self, columns: Any, class_weight: Any = None, *, held_out: bool = False) -> SentenceRows:
        x, y, sample_weight = columns
        y = [] if y is None else y
        if held_out and not len(y) and not (isinstance(x, tuple) and len(x) > 1):
            raise ValueError(
                "Texts without labels can be trained on, but not evaluated. To evaluate, pass pairs, scores or "
                "labels. Received: one column of texts, without y"
            )
        rows: Any = super().labelled_examples((x, y, sample_weight), class_weight, held_out=held_out)
        if rows.form == "labels" and held_out and rows.targets.max():
            check_label_count(rows.targets.max() + 1, len(rows), "y")
        return rows

    # === Training ===

    def fit(
        self, x: Any = None, y: Any = None, *arguments: Any, loss: SentenceLoss | str | None = None, **options: Any
    ) -> keras.callbacks.History:
        """As that of other tasks, also with `cache_batch`: compute so many texts at a time, see `CachedTask.fit`.

        Args:
            loss: "ranking", "cosine", "cosent" or "triplet", or a loss of `keras_bert.tasks.losses` with its options.
                By default the ranking for pairs, the cosine for scores and the triplet for labels.
        """
        if isinstance(loss, str):
            check_choice("loss", loss, tuple(LOSSES))
            loss = LOSSES[loss]()
        check_no_class(loss)
        self.keeps_loss = self.compiled and (self.recipe or options.get("recipe")) is None
        if loss is not None and self.keeps_loss:
            raise ValueError(
                "`loss` was passed to `fit`, but the model was compiled with another loss. Pass it to `compile`. "
                f"Received: loss={type(loss).__name__}"
            )
        if options.get("initial_epoch") and self.compiled and isinstance(self.loss, SentenceLoss):
            if loss is not None and loss_settings(loss) != loss_settings(self.loss):
                raise cannot_change("loss", type(loss).__name__)
            loss = self.loss
        self.chosen_loss = loss
        return super().fit(x, y, *arguments, **options)

    def check_learnable(self, examples: Any) -> None:
        if not self.trainable_variables:
            raise ValueError(
                "There is nothing to train: the encoder is frozen, and a SentenceEmbedder has no other weights. "
                "Unfreeze some blocks, or use bert.embed. Received: no trainable weights"
            )
        sample = examples.sample
        self.form = sample.form
        if sample.is_own_match and not self.bert.config.hidden_dropout_prob:
            raise ValueError(
                "To train on texts without labels, the Bert needs dropout, which gives each text two different "
                "vectors to compare. Make the Bert with a hidden_dropout_prob, or pass pairs, scores or labels. "
                "Received: hidden_dropout_prob=0"
            )
        if sample.form == "labels":
            check_label_count(sample.targets.max() + 1, len(examples), "y")
        loss = self._loss_to_learn
        if isinstance(loss, SentenceLoss):
            check_form(name_of(loss), loss.form, sample.form)
            loss.check(dataclasses.replace(sample, targets=examples.targets))
        elif self.is_distributed:
            raise ValueError(
                "On several devices, a SentenceEmbedder learns only with the losses of keras_bert.tasks.losses. "
                f"Compile it with one of them, or build it outside of the strategy. Received: {loss!r}"
            )
        elif callable(loss) or isinstance(loss, str):
            self._check_other_loss(loss, sample)

    def check_batch_size(self, examples: Any, batch_size: int) -> None:
        compares = getattr(self._loss_to_learn, "compares_rows", False)  # unknown of a loss of the user's own
        check_batch_size(batch_size, examples.sample.rows_per_example, compares_rows=compares)

    @property
    def _loss_to_learn(self) -> Any:
        """The loss that the `fit` that runs learns with."""
        return self.loss if self.keeps_loss else self.default_loss()

    def _check_other_loss(self, loss: Any, sample: SentenceRows) -> None:
        """Compute a loss of another package for a few rows, which shows whether it accepts their vectors."""
        y, texts = sample.targets[:3], sample.rows_per_example
        try:
            keras.losses.get(loss)(y, np.zeros((len(y) * texts, *self.output_shape[1:]), "float32"))
        except Exception as error:
            word = BY_FORM[sample.form]
            raise ValueError(
                f"The loss does not accept the vectors of {sample.form}, of which a row has {texts}. Use "
                f"loss={word!r} or {LOSSES[word].__name__}() of keras_bert.tasks.losses. Received: {loss!r}: "
                f"{first_line(error)}"
            ) from error

    # === Loss and scores ===

    def default_loss(self) -> SentenceLoss:
        return self.chosen_loss or LOSSES[BY_FORM[self.form]]()

    def soft_loss(self, theirs: Any, ours: Any, temperature: float) -> Any:
        return ops.sum(super().soft_loss(theirs, ours, temperature), axis=-1)  # [B * C], 2 - 2 cosines at length 1

    def held_out_loss(self, examples: Any, y: Any, logits: Any, weight: Any) -> Any:
        """The compiled loss, or the default one where the rows are of another form than those of the training."""
        if getattr(self.loss, "form", examples.form) == examples.form:
            return super().held_out_loss(examples, y, logits, weight)
        return LOSSES[BY_FORM[examples.form]]()(y, logits, weight)

    def measures(self, batch: Any, training: bool = False) -> dict[str, Measure]:
        """This replica's share of the loss of the whole batch, in which each text is compared with those of all.

        Without training only the counts are of use, see `Trainer`, and no vectors are sent for them.
        """
        x, y, weight = batch
        x = {name: ops.reshape(value, (-1, value.shape[-1])) for name, value in x.items()}  # [B * C, S]
        vectors = by_row(self(x, training=training), y)  # [B, C, H]
        replicas = 1
        if training:
            vectors, y, weight = of_all_replicas(vectors, y, weight)
            replicas = self.distribute_strategy.num_replicas_in_sync
        loss = self.loss.call(y, vectors, real=weight >= 0)
        weight = ops.maximum(weight, 0)
        return {"loss": Measure(ops.sum(loss * weight) / replicas, ops.sum(weight) / replicas)}

    def held_out_measures(self, examples: Any, y: Any, logits: Any, weight: Any) -> dict[str, Measure]:
        count = ops.sum(weight)
        return {"loss": Measure(self.held_out_loss(examples, y, logits, weight) * count, count)}

    @property
    def best_score(self) -> str:
        return SCORES[self.form][0]

    def best_score_of(self, examples: Any) -> str:
        return SCORES[examples.form][0]  # which may be another form than that of the training

    def report_logits(
        self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any
    ) -> dict[str, float]:
        vectors = np.stack(logits)  # [n, H], or [n, C, H]
        if vectors.ndim == 2:
            return neighbour_scores(make_targets("labels", [], y), vectors)
        if y is None or not len(y):
            return retrieval_scores(examples.decoding, vectors)
        return number_scores(number_column(y, "score").tolist(), cosines_of_pairs(vectors).tolist())

    def findings(self, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> Findings:
        return sentence_findings(columns_by_name(x, ("text",)), y, np.stack(logits))

    # === Answers ===

    def embed(self, texts: Any, batch_tokens: int = 4096) -> np.ndarray:
        """A vector for each text, float32 [n, H].

        texts: a list, an array, a column, or a table with the column `text`.
        batch_tokens: how many pieces, with padding, a batch may have.
        """
        if is_table(texts):
            texts = named_columns(texts, ("text",))[0]
        texts = column([texts] if isinstance(texts, str) else texts)
        options: Any = {"pooling": self.pooling, "normalize": self.normalize, "batch_tokens": batch_tokens}
        return self.bert.embed(texts, max_length=packer_of(self.bert).max_length, **options)

    def logits(self, examples: LabelledRows, batch_size: int = 32) -> list[np.ndarray]:
        """The vector [H] of each row, or the vectors [C, H] of its C texts."""
        count = examples.rows_per_example
        vectors = super().logits(LabelledRows(examples.segments, examples.packer), batch_size)
        if count == 1:
            return vectors
        return [np.stack(vectors[start : start + count]) for start in range(0, len(vectors), count)]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        return {"serving_default": super().signatures(logits, seq_length)["serving_default"]}

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        return {"embedding": logits}
