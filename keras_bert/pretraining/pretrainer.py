"""Pretrainer: a `Bert` with the heads of pretraining, for masked words and next sentences."""

import dataclasses
import inspect
import os
from typing import Any

import keras
from keras import ops

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.inputs import check_inputs, check_positions, refuse_keywords
from keras_bert.layers.dense import dense
from keras_bert.layers.mlm_head import mlm_head
from keras_bert.model import HeadedModel
from keras_bert.pretraining.fill_mask import fill_mask, is_next
from keras_bert.training.measure import Measure
from keras_bert.training.optimizer import AdamW
from keras_bert.training.strategy import scope_of
from keras_bert.weights.heads import assign_head, load_head, load_saved

POSITIONS = "masked_lm_positions"  # int32 [B, P]
TARGETS = {"masked_lm": "mlm_logits", "next_sentence": "nsp_logits"}  # each objective, and its output


@keras.saving.register_keras_serializable("keras_bert")
class Pretrainer(HeadedModel):
    """BERT's pretraining model (Devlin et al. 2018, section 3.1) on a `Bert`, whose weights it trains in place.

    The inputs are those of the Bert and `masked_lm_positions` [B, P]. The outputs are `mlm_logits` [B, P, V], for the
    pieces at these positions, and `nsp_logits` [B, 2], where 0 is the next sentence and 1 a random one. A training
    batch is `(x, y, sample_weight)`; `y` and `sample_weight` have the names of the outputs as keys, and a position of
    weight 0 is padding.

    nsp: whether there is a head for next sentences. mlm_config: of the head for masked words, if it differs from the
    encoder's, as in presets of KerasHub.

    >>> import tempfile
    >>> from keras_bert import Preprocessor, Vocabulary
    >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "here"])
    >>> pretrainer = Pretrainer(Bert(BertConfig.from_size("tiny", vocab_size=6), Preprocessor(vocabulary)))
    >>> {name: logits.shape for name, logits in pretrainer.output.items()}
    {'mlm_logits': (None, None, 6), 'nsp_logits': (None, 2)}
    >>> len(pretrainer.fill_mask("[MASK] and here", top_k=2)[0])
    2
    >>> pretrainer.is_next("Here", "and here").is_next in (True, False)
    True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pretrainer.save(f"{folder}/pretrainer.keras")
    ...     Pretrainer.load(f"{folder}/pretrainer.keras").heads
    ('mlm', 'nsp')
    """

    def __init__(self, bert: Bert, *, nsp: bool = True, mlm_config: BertConfig | None = None, **kwargs: Any) -> None:
        if not isinstance(bert, Bert):
            raise TypeError(
                "`bert` must be a keras_bert.Bert. Make one with keras_bert.load(source) or Bert(config). "
                f"Received: {type(bert).__name__}"
            )
        policy = bert.dtype_policy

        # === Layers ===
        next_sentence = dense(2, bert.config, dtype="float32", name="nsp") if nsp else None  # for an exact loss

        # === Functional model ===
        inputs = {**bert.input, POSITIONS: keras.Input((None,), dtype="int32", name=POSITIONS)}
        sequence, head_config = bert.output["sequence_output"], mlm_config or bert.config
        outputs = {"mlm_logits": mlm_head(sequence, inputs[POSITIONS], bert.word_embeddings, head_config, policy)}
        if next_sentence is not None:
            outputs["nsp_logits"] = next_sentence(bert.output["pooled_output"])  # [B, 2]
        super().__init__(bert, inputs, outputs, **kwargs)

        # === Config ===
        self.nsp = nsp
        self.mlm_config = mlm_config
        measured = [name for name, output in TARGETS.items() if output in outputs]
        self._averages = [
            keras.metrics.Mean(name=f"{name}_{kind}") for name in measured for kind in ("loss", "accuracy")
        ]

    def __call__(self, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        refuse_keywords(kwargs)
        inputs = check_inputs(inputs, self.bert.config, more=(POSITIONS,))
        check_positions(inputs[POSITIONS], inputs["input_word_ids"])
        return super().__call__(inputs, *args, **kwargs)

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of its heads in checkpoints."""
        return ("mlm", "nsp") if self.nsp else ("mlm",)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "nsp": self.nsp,
            "mlm_config": self.mlm_config and dataclasses.asdict(self.mlm_config),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "Pretrainer":
        mlm_config = config["mlm_config"]
        return super().from_config({**config, "mlm_config": mlm_config and BertConfig(**mlm_config)}, custom_objects)

    @classmethod
    def load(
        cls,
        source: Any,
        *,
        nsp: bool | None = None,
        dtype: Any = None,
        seq_length: int | str | None = None,
        cache_dir: str | os.PathLike | None = None,
        local_only: bool = False,
    ) -> "Pretrainer":
        """The encoder of `source` with its head for masked words, and its head for next sentences if it has one.

        nsp: True adds a new head for next sentences if the source has none; False drops the one it has.
        The other arguments are those of `keras_bert.load`.
        """
        settings = {} if nsp is None else {"nsp": nsp}
        saved = load_saved(cls, source, dtype=dtype, seq_length=seq_length, **settings)
        if saved is not None:
            return saved
        options: Any = {"dtype": dtype, "seq_length": seq_length, "cache_dir": cache_dir, "local_only": local_only}
        checkpoint, bert = load_head(source, ("mlm",), **options)
        nsp = "nsp" in checkpoint.heads if nsp is None else nsp
        pretrainer = cls(bert, nsp=nsp, mlm_config=checkpoint.heads["mlm"].config)
        assign_head(pretrainer, checkpoint)
        return pretrainer

    # === Training ===

    @property
    def objective(self) -> tuple[str, ...]:
        """The names of the measures whose means add up to the loss."""
        return tuple(f"{name}_loss" for name, output in TARGETS.items() if output in self.output)

    def measures(self, batch: Any, training: bool = False) -> dict[str, Measure]:
        """The losses and accuracies of a batch `(x, y, sample_weight)`, as totals and counts."""
        x, y, sample_weight = batch
        scores = self._scores(self(x, training=training), y, sample_weight)
        return {name: Measure(ops.sum(x * weights), ops.sum(weights)) for name, (x, weights) in scores.items()}

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As in Keras; without `compile`, with the default optimizer. x: batches of `read_examples`."""
        given = inspect.signature(super().fit).bind(x, *args, **kwargs).arguments
        if hasattr(x, "as_numpy_iterator"):  # a tf.data
            if int(x.cardinality()) == -1 and given.get("steps_per_epoch") is None:  # INFINITE_CARDINALITY
                raise ValueError(
                    "The tf.data repeats its examples forever, so an epoch would not end. Pass `steps_per_epoch`, or "
                    "read them once: read_examples(..., epochs=1). Received: an infinite tf.data"
                )
            if "shuffle" not in given:
                kwargs["shuffle"] = False  # Keras warns that the default, True, is ignored
        if not self.compiled:
            with scope_of(self):
                self.compile()
        return super().fit(x, *args, **kwargs)

    def compile(self, optimizer: Any = None, **kwargs: Any) -> None:
        """As in Keras, but with BERT's losses. The default is AdamW at 1e-4 with gradients clipped to a norm of 1."""
        if kwargs.get("loss") is not None:
            raise ValueError(
                "`loss` cannot be set: a Pretrainer has its own losses. Leave it out. "
                f"Received: loss={kwargs['loss']!r}"
            )
        super().compile(optimizer or AdamW(1e-4, global_clipnorm=1.0), **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        scores = self._scores(y_pred, y, sample_weight)
        for average in self._averages:
            values, weights = scores[average.name]
            average.update_state(values, weights)
        losses = [scores[name] for name in self.objective]
        return sum(_WeightedMean()(values, values, weights) for values, weights in losses)

    def _scores(self, outputs: Any, y: Any, sample_weight: Any) -> dict[str, tuple[Any, Any]]:
        """For each measure, its values and their weights; float32 [B, P] or [B]."""
        _check_targets(outputs, y, sample_weight)
        scores = {}
        for name, output in TARGETS.items():
            if output in outputs:
                ids, logits = y[output], ops.cast(outputs[output], "float32")
                weights = ops.cast(sample_weight[output], "float32")
                right = ops.equal(ops.argmax(logits, -1), ops.cast(ids, "int32"))
                losses = ops.sparse_categorical_crossentropy(ids, logits, from_logits=True)
                scores[f"{name}_loss"] = losses, weights
                scores[f"{name}_accuracy"] = ops.cast(right, "float32"), weights
        return scores

    # === Text ===

    fill_mask = fill_mask
    is_next = is_next


class _WeightedMean(keras.losses.Loss):
    """The weighted mean of values that are already losses; Keras divides it by the replicas of a strategy."""

    def __init__(self) -> None:
        super().__init__(name="weighted_mean", reduction="mean_with_sample_weight")

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return y_pred


def _check_targets(outputs: Any, y: Any, sample_weight: Any) -> None:
    for what, given in (("y", y), ("sample_weight", sample_weight)):
        missing = [name for name in outputs if not isinstance(given, dict) or name not in given]
        if missing:
            has = f"a dict with the keys {list(given)}" if isinstance(given, dict) else type(given).__name__
            raise ValueError(
                f"`{what}` must be a dict that has the keys {missing}. Use batches of "
                "keras_bert.pretraining.read_examples, or Pretrainer(bert, nsp=False) for data without next sentences. "
                f"Received: {has}"
            )
