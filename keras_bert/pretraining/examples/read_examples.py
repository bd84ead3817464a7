"""Examples as batches for training: ours, dynamic or static, and static records that others wrote."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from keras_bert.pretraining.examples.example_settings import sha256_of
from keras_bert.pretraining.examples.examples_directory import FINISHED, UNFINISHED, read_directory, text_beside
from keras_bert.pretraining.examples.masking import Masker, Masking
from keras_bert.pretraining.examples.order import shards_at, windows
from keras_bert.pretraining.examples.records import describe, parse_dynamic, parse_static
from keras_bert.pretraining.examples.tfrecords import count_whole, first_record, records_of
from keras_bert.storage import exists
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary

DAMAGED = ("stop", "skip")


def read_examples(
    source: str | os.PathLike | Iterable[str | os.PathLike],
    *,
    batch_size: int,
    seed: int = 0,
    start: int = 0,
    part: tuple[int, int] = (0, 1),
    epochs: int | None = None,
    vocabulary: Vocabulary | None = None,
    masking: Masking | None = None,
    damaged: str = "stop",
) -> Any:
    """A tf.data.Dataset of batches (x, y, sample_weight), whose order and masks depend on the seed and step alone.

    source: a directory of `write_examples`; or files, patterns or a folder of static records in the spelling of
        google-research/bert or Model Garden.
    batch_size: of the global batch.
    start: the first step (global batch) to give.
    part: (i, n) gives the i-th of n equal parts of each global batch.
    epochs: None goes on for ever; a last batch that is not full is left out.
    vocabulary: of the model; one that does not fit the records is an error.
    masking: how dynamic examples are masked; None: as they were written for.
    damaged: what to do with a shard that is cut off or damaged: "stop" with its name, or "skip" the rest of it.
    """
    examples = Examples.open(source, vocabulary=vocabulary, masking=masking, damaged=damaged)
    return examples.batches(batch_size, seed=seed, start=start, part=part, epochs=epochs)


@dataclass(frozen=True)
class Examples:
    """Shards of examples, and what they are like."""

    paths: tuple[str, ...]
    counts: tuple[int, ...]  # examples of each shard
    seq_length: int
    predictions: int  # P
    nsp: bool
    mode: str
    garden: bool = False  # whether static records are in Model Garden's spelling
    vocabulary: Vocabulary | None = None
    rules: TextRules | None = None
    masking: Masking | None = None

    @classmethod
    def open(
        cls,
        source: str | os.PathLike | Iterable[str | os.PathLike],
        *,
        vocabulary: Vocabulary | None = None,
        masking: Masking | None = None,
        damaged: str = "stop",
    ) -> "Examples":
        """Look at the shards, and whether they are whole; see `read_examples`."""
        if damaged not in DAMAGED:
            raise ValueError(f"damaged must be one of {', '.join(DAMAGED)}. Received: damaged={damaged!r}")
        if isinstance(source, str | os.PathLike) and _is_ours(os.fspath(source)):
            return _open_ours(os.fspath(source), vocabulary, masking, damaged)
        return _open_theirs(source, vocabulary, masking, damaged)

    def __len__(self) -> int:
        return sum(self.counts)

    def batches(
        self,
        batch_size: int,
        *,
        seed: int = 0,
        start: int = 0,
        part: tuple[int, int] = (0, 1),
        epochs: int | None = None,
        fill: bool = False,
    ) -> Any:
        """See `read_examples`; with `fill` the last batch is filled up with rows that weigh nothing."""
        import tensorflow as tf

        index, parts = part
        if parts < 1 or not 0 <= index < parts or batch_size < 1 or batch_size % parts:
            raise ValueError(
                "The global batch must fall into equal parts. Choose a multiple of the parts. "
                f"Received: batch_size={batch_size}, part={part}"
            )
        if start < 0:
            raise ValueError(f"start must be a step, at least 0. Received: start={start}")
        if epochs is not None and not fill and len(self) * epochs < batch_size:
            raise ValueError(
                f"A batch must not be larger than the data. Lower batch_size, or take more examples. Received: "
                f"batch_size={batch_size}, {len(self)} examples of {self.paths[0]}, epochs={epochs}"
            )
        rows = batch_size // parts

        def parse(step: Any, records: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
            count = tf.size(records)
            at = tf.range(rows * index, rows * (index + 1))  # [B]
            records = tf.gather(records, tf.minimum(at, count - 1))  # [B]
            x, y, weight = self._triple(records, [seed, step], part)
            real = tf.cast(at < count, tf.float32)  # [B]
            return x, y, {name: w * tf.reshape(real, [-1] + [1] * (w.shape.rank - 1)) for name, w in weight.items()}

        dataset = tf.data.Dataset.from_generator(
            lambda: self._windows(seed, start * batch_size, epochs), output_signature=tf.TensorSpec([None], tf.string)
        )
        # A window is read while the one before it is used.
        dataset = dataset.prefetch(1).rebatch(batch_size, drop_remainder=not fill).enumerate(start)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF  # `part` does it
        dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)

    def shards_at(self, step: int, batch_size: int, seed: int = 0) -> list[str]:
        """The files that the batch of this step comes from."""
        found = shards_at(self.counts, seed, step * batch_size, (step + 1) * batch_size)
        return [self.paths[shard] for shard in found]

    def _windows(self, seed: int, first: int, epochs: int | None) -> Iterator[Any]:
        for window in windows(self.counts, seed, first, epochs):
            records = records_of([(self.paths[shard], self.counts[shard]) for shard in window.shards])
            yield records[window.order]

    def _triple(self, records: Any, seed: Any, part: tuple[int, int]) -> tuple[dict, dict, dict]:
        import tensorflow as tf

        if self.mode == "dynamic":
            assert self.vocabulary is not None
            assert self.masking is not None
            end, pad = self.vocabulary["[SEP]"], self.vocabulary["[PAD]"]
            row = parse_dynamic(records, self.seq_length, len(self.vocabulary), end, pad, self.nsp)
            row |= Masker(self.masking, self.vocabulary, self.seq_length)(row["input_ids"], seed, part)
        else:
            row = parse_static(records, self.seq_length, self.predictions, self.nsp, self.garden)
            if self.vocabulary is not None:
                row["input_ids"] = _checked(row["input_ids"], len(self.vocabulary))
        x = {
            "input_word_ids": row["input_ids"],
            "input_mask": row["input_mask"],
            "input_type_ids": row["segment_ids"],
            "masked_lm_positions": row["masked_lm_positions"],
        }
        y = {"mlm_logits": row["masked_lm_ids"]}
        weight = {"mlm_logits": row["masked_lm_weights"]}
        if self.nsp:
            y["nsp_logits"] = row["next_sentence_labels"]
            weight["nsp_logits"] = tf.ones_like(y["nsp_logits"], tf.float32)
        return x, y, weight


def _is_ours(path: str) -> bool:
    return any(exists(os.path.join(path, name)) for name in (FINISHED, UNFINISHED))


def _open_ours(directory: str, vocabulary: Vocabulary | None, masking: Masking | None, damaged: str) -> Examples:
    settings, shards = read_directory(directory)
    if vocabulary is not None and sha256_of(vocabulary) != settings.vocabulary_sha256:
        raise ValueError(
            "The model's vocabulary must be the examples'. Write the examples again with it, or build the model with "
            f"vocab.txt of the examples. Received: {len(vocabulary)} pieces, where {directory} was written with "
            f"{settings.vocabulary_size} of another digest"
        )
    if masking is not None and settings.mode == "static":
        raise ValueError(
            f"Static examples have their masks. Leave masking out, or write dynamic ones. Received: {directory}"
        )
    beside, rules = text_beside(directory)
    masking = masking or settings.masking
    files = [(os.path.join(directory, shard.name), shard.examples, shard.size) for shard in shards]
    found = _filled(files, damaged, directory)
    return Examples(
        paths=tuple(path for path, _ in found),
        counts=tuple(count for _, count in found),
        seq_length=settings.seq_length,
        predictions=masking.predictions(settings.seq_length),
        nsp=settings.nsp,
        mode=settings.mode,
        vocabulary=beside,
        rules=rules,
        masking=masking,
    )


def _open_theirs(source: Any, vocabulary: Vocabulary | None, masking: Masking | None, damaged: str) -> Examples:
    from keras_bert.pretraining.examples.tfrecords import find_records

    if masking is not None:
        raise ValueError("Static records have their masks. Leave masking out. Received: masking")
    found = _filled([(path, None, None) for path in find_records(source)], damaged, source)
    return Examples(
        paths=tuple(path for path, _ in found),
        counts=tuple(count for _, count in found),
        mode="static",
        vocabulary=vocabulary,
        **describe(first_record(found[0][0]), found[0][0]),
    )


def _filled(files: Iterable[tuple[str, int | None, int | None]], damaged: str, source: Any) -> list[tuple[str, int]]:
    """The files that have an example, and how many each; of `files` the name, and examples and bytes where known."""
    found = [(path, count_whole(path, examples, size, damaged)) for path, examples, size in files]
    found = [(path, count) for path, count in found if count]
    if not found:
        raise ValueError(f"Records must hold an example at least. Take others. Received: {source}, which hold none")
    return found


def _checked(ids: Any, size: int) -> Any:
    import tensorflow as tf

    message = (
        f"The model's vocabulary must have every id of the records. Take the one they were written with. It has {size} "
        "pieces; the largest id is"
    )
    most = tf.reduce_max(ids)
    with tf.control_dependencies([tf.debugging.Assert(most < size, [message, most])]):
        return tf.identity(ids)
