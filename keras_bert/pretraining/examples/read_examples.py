"""read_examples: batches for training, from our examples or from static records that other code wrote."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from keras_bert.checks import check_choice
from keras_bert.installation import need_tensorflow
from keras_bert.lazy import tf
from keras_bert.prefetching import prefetched
from keras_bert.pretraining.examples.example_order import examples_in, groups_of_part, shards_at
from keras_bert.pretraining.examples.examples_directory import is_examples_directory, read_settings, read_shards
from keras_bert.pretraining.examples.masking import Masker, Masking
from keras_bert.pretraining.examples.record_files import RecordRange, find_records, read_records, readable_ranges
from keras_bert.pretraining.examples.record_format import LABELS, describe_alike, parse_dynamic, parse_static
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
    """A tf.data.Dataset of batches (x, y, sample_weight). Their order and masks depend only on the seed and the step.

    source: a directory of `write_examples`; or files, patterns or a folder of static records with the feature names of
        google-research/bert or Model Garden.
    batch_size: of the global batch.
    start: the step (global batch) to start at.
    part: (i, n) reads part i of the n equal parts of each global batch.
    epochs: None repeats the data forever; a last batch that is not full is dropped.
    vocabulary: of the model; an error if it does not fit the records.
    masking: how dynamic examples are masked; None: as chosen when they were written.
    damaged: at a shard that is cut off or damaged, "stop" with an error that names it, or "skip" the rest of it.
    """
    need_tensorflow("`read_examples`")
    reader = ExampleReader.open(source, vocabulary=vocabulary, masking=masking, damaged=damaged)
    return reader.batches(batch_size, seed=seed, start=start, part=part, epochs=epochs)


@dataclass(frozen=True)
class ExampleReader:
    """Shards of examples and their properties."""

    shards: tuple[RecordRange, ...]  # none of them empty
    seq_length: int
    predictions: int  # P
    nsp: bool
    garden: bool = False  # whether static records have Model Garden's feature names
    vocabulary: Vocabulary | None = None
    rules: TextRules | None = None
    masking: Masking | None = None  # None: the records are static

    @classmethod
    def open(
        cls,
        source: str | os.PathLike | Iterable[str | os.PathLike],
        *,
        vocabulary: Vocabulary | None = None,
        masking: Masking | None = None,
        damaged: str = "stop",
    ) -> "ExampleReader":
        """Find and check the shards; the arguments are those of `read_examples`."""
        check_choice("damaged", damaged, DAMAGED)
        files: list[tuple[str, int | None, int | None]]
        if isinstance(source, str | os.PathLike) and is_examples_directory(directory := os.fspath(source)):
            files, properties = _of_directory(directory, vocabulary, masking)
        else:
            files, properties = [(path, None, None) for path in find_records(source)], {}
        if masking is not None and properties.get("masking") is None:
            raise ValueError(f"The examples in {source} are masked already. Leave out `masking`. Received: {masking}")
        shards = tuple(found for file in files for found in readable_ranges(*file, damaged))
        if not shards:
            raise ValueError(
                f"{source} holds no example. Name another folder or other files. Received: {len(files)} files"
            )
        if not properties:
            properties = {"vocabulary": vocabulary, **describe_alike(list(dict.fromkeys(one.path for one in shards)))}
        return cls(shards=shards, **properties)

    @property
    def paths(self) -> list[str]:
        """The file of each shard."""
        return [shard.path for shard in self.shards]

    @property
    def counts(self) -> list[int]:
        """The examples of each shard."""
        return [shard.count for shard in self.shards]

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
        """See `read_examples`; with `fill`, the last batch is filled up with rows of weight 0."""
        index, parts = part
        if parts < 1 or not 0 <= index < parts:
            raise ValueError(
                "`part` must be two numbers: the index of this process, from 0, and the number of processes. For one "
                f"process, use (0, 1). Received: part={part}"
            )
        if batch_size < 1 or batch_size % parts:
            raise ValueError(
                "`batch_size` must be a multiple of the number of processes that share it. "
                f"Received: batch_size={batch_size}, {parts} processes"
            )
        if start < 0:
            raise ValueError(f"`start` must be at least 0. Received: start={start}")
        if epochs is not None and not fill and len(self) * epochs < batch_size:
            raise ValueError(
                f"`batch_size` is larger than the data in {self.paths[0]} and the files beside it. Lower it, or write "
                f"more examples. Received: batch_size={batch_size}, {len(self)} examples, epochs={epochs}"
            )
        rows = batch_size // parts
        total = examples_in(self.counts, epochs)

        def parse(step: Any, records: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
            x, y, weight = self._parse(records, [seed, step], part)
            places = step * batch_size + tf.range(rows * index, rows * (index + 1), dtype=tf.int64)  # [B]
            real = tf.cast(places < total, tf.float32)  # [B]
            return x, y, {name: w * tf.reshape(real, [-1] + [1] * (w.shape.rank - 1)) for name, w in weight.items()}

        def groups() -> Iterator[Any]:
            wanted: dict[str, Any] = {"start": start, "part": part, "epochs": epochs, "fill": fill}
            for shards, chosen in groups_of_part(self.counts, seed, batch_size=batch_size, **wanted):
                yield read_records([self.shards[shard] for shard in shards], chosen)

        dataset = tf.data.Dataset.from_generator(groups, output_signature=tf.TensorSpec([None], tf.string))
        dataset = dataset.prefetch(1)  # reads a group while the one before it is used
        dataset = dataset.rebatch(rows, drop_remainder=True).enumerate(start)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF  # `part` does it
        dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        steps = -(-total // batch_size) if fill else total // batch_size
        steps = tf.data.INFINITE_CARDINALITY if epochs is None else max(0, steps - start)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
        return prefetched(dataset.with_options(options))

    def once(self, batch_size: int, *, seed: int = 0) -> Callable[[int, tuple[int, int]], Any]:
        """A function from a step and a part to batches of all examples, for a validation."""
        return lambda _, part: self.batches(batch_size, seed=seed, part=part, epochs=1, fill=True)

    def shards_at(self, step: int, batch_size: int, seed: int = 0) -> list[str]:
        """The files that the batch of a step is read from."""
        found = shards_at(self.counts, seed, step * batch_size, (step + 1) * batch_size)
        return list(dict.fromkeys(self.shards[shard].path for shard in found))

    def _parse(self, records: Any, seed: Any, part: tuple[int, int]) -> tuple[dict, dict, dict]:
        """x, y and sample_weight of a batch of records."""
        if self.masking is None:
            row = parse_static(records, self.seq_length, self.predictions, self.nsp, self.garden)
            if self.vocabulary is not None:
                row |= {name: _checked(row[name], len(self.vocabulary)) for name in ("input_ids", "masked_lm_ids")}
        else:
            assert self.vocabulary is not None  # examples that are masked here have theirs
            row = parse_dynamic(records, self.seq_length, self.vocabulary, self.nsp)
            row |= Masker(self.masking, self.vocabulary, self.seq_length)(row["input_ids"], seed, part)
        x = {
            "input_word_ids": row["input_ids"],
            "input_mask": row["input_mask"],
            "input_type_ids": row["segment_ids"],
            "masked_lm_positions": row["masked_lm_positions"],
        }
        y = {"mlm_logits": row["masked_lm_ids"]}
        weight = {"mlm_logits": row["masked_lm_weights"]}
        if self.nsp:
            y["nsp_logits"] = row[LABELS]
            weight["nsp_logits"] = tf.ones_like(y["nsp_logits"], tf.float32)
        return x, y, weight


def _checked(ids: Any, size: int) -> Any:
    message = (
        f"The records have ids beyond the {size} pieces of the model's vocabulary. Use the vocabulary they were "
        "written with. Received: an id of"
    )
    most = tf.reduce_max(ids)
    with tf.control_dependencies([tf.debugging.Assert(most < size, [message, most])]):
        return tf.identity(ids)


def _of_directory(
    directory: str, vocabulary: Vocabulary | None, masking: Masking | None
) -> tuple[list[tuple[str, int | None, int | None]], dict[str, Any]]:
    """The files of a directory of `write_examples`, with their examples and bytes, and the fields of their reader."""
    shards = read_shards(directory)
    settings, own = read_settings(directory)
    if vocabulary is not None and vocabulary != own:
        pairs = zip(vocabulary, own, strict=False)
        equal = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        raise ValueError(
            f"The model's vocabulary is not that of the examples in {directory}. Write the examples again with the "
            "model's vocabulary, or build the model with the examples' vocab.txt. Received: "
            f"{len(vocabulary)} pieces of the model and {len(own)} of the examples; the first {equal} are the same"
        )
    properties = {
        "seq_length": settings.seq_length,
        "predictions": (masking or settings.masking).predictions(settings.seq_length),
        "nsp": settings.nsp,
        "vocabulary": own,
        "rules": settings.rules,
        "masking": None if settings.mode == "static" else masking or settings.masking,
    }
    return [(os.path.join(directory, shard.name), shard.examples, shard.size) for shard in shards], properties
