"""StreamedRows: the batches of a `RowStream`, whose rows are read and tokenized shortly before they are used."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_bert.prefetching import prefetched
from keras_bert.tasks.readers import RowStream
from keras_bert.tasks.rows.class_weight import BALANCED, class_weights, label_weights
from keras_bert.tasks.rows.labelled_rows import LabelledRows, RowBatches, filled, mixed_batches
from keras_bert.text.tensors import tf, uses_tensorflow

AHEAD = 1024  # rows that are read and tokenized together


class StreamedRows:
    """What `fit` needs of `LabelledRows`, without the tokenized rows. The batches are the same, in the same order.

    Only on backends that compute padding, the order of `LabelledRows` depends on the lengths of all rows, and this one
    does not.

    sample: the tokenized rows of the stream's sample. class_weight: with the numbers that "balanced" is for all rows.
    """

    def __init__(self, task: Any, stream: RowStream, class_weight: Any = None) -> None:
        self._task = task
        self._stream = stream
        self._checked = self._warned = False
        self.sample: LabelledRows = task.examples(stream.sample.x, stream.sample.y, None, class_weight)
        if stream.numbers is not None:
            task.target_ids(stream.numbers)  # an error now, and not in the middle of an epoch
        self.class_weight = class_weight
        if isinstance(class_weight, str) and class_weight == BALANCED:
            times = np.bincount(stream.codes, minlength=len(self.sample))
            weigh = label_weights if task.weighs_labels_in_loss else class_weights
            weights = weigh(BALANCED, task.labels, self.sample.targets, times)
            self.class_weight = dict(zip(task.labels, weights.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self._stream)

    @property
    def targets(self) -> Any:
        """All scores, or each other target that occurs, once."""
        return self.sample.targets if self._stream.numbers is None else self._stream.numbers

    @property
    def widest(self) -> int:
        """A width into which every row fits."""
        return self.sample.packer.max_length

    def batch(self, index: Any, width: int | str = "longest") -> tuple[Any, Any, Any]:
        """The batch of the rows with these numbers."""
        return self._examples(np.asarray(index)).batch(np.arange(len(index)), width)

    def batches(self, batch_size: int) -> Any:
        """The batches of all rows, in their order, as those of `LabelledRows`."""
        order = filled(np.arange(len(self)), batch_size)
        return self._dataset(batch_size, lambda epoch: order, 0, 0)

    def shuffled(self, batch_size: int, *, seed: int, epoch: Any, start: Any = 0, share: bool = False) -> Any:
        """One epoch's batches, as those of `LabelledRows`, but never of shared rows."""

        def order(number: int) -> np.ndarray:
            with tf.device("CPU:0"):
                return np.asarray(mixed_batches(len(self), batch_size, seed, number))

        return self._dataset(batch_size, order, epoch, start)

    def _dataset(self, batch_size: int, order: Callable[[int], np.ndarray], epoch: Any, start: Any) -> Any:
        steps = -(-len(self) // batch_size)
        if not uses_tensorflow():
            return RowBatches(self, order, steps, epoch, start)

        def batches() -> Iterator[Any]:
            number, first = int(epoch), int(start)
            while True:  # the steps of a resumed epoch that are left are fewer, and then the rest is not used
                yield from self._packed(order(number)[first:], batch_size)
                number, first = number + 1, 0

        x, *targets = self.sample.batches(1).element_spec
        x = {name: tf.TensorSpec(self._shape(spec.shape), spec.dtype) for name, spec in x.items()}
        with tf.device("CPU:0"):
            dataset = tf.data.Dataset.from_generator(batches, output_signature=(x, *targets))
            dataset = dataset.take(steps).apply(tf.data.experimental.assert_cardinality(steps))
            return prefetched(dataset)

    def _shape(self, of_sample: Any) -> list[int | None]:
        """The shape of the inputs of any rows. Only the number of rows of an example is the same for all."""
        rows = self.sample.rows_per_example
        return [size if size == rows > 1 else None for size in of_sample]

    def _packed(self, order: np.ndarray, batch_size: int) -> Iterator[Any]:
        """The batches of an order, of which some are read together."""
        together = max(1, AHEAD // batch_size)
        for begin in range(0, len(order), together):
            part = order[begin : begin + together]
            real = part >= 0
            examples = self._examples(part[real])
            for index in np.split(np.arange(len(examples)), np.cumsum(real.sum(axis=1))[:-1]):
                yield examples.batch(index)

    def _examples(self, numbers: np.ndarray) -> LabelledRows:
        rows = self._stream.read(numbers)
        examples: LabelledRows = self._task.examples(rows.x, rows.y, None, self.class_weight)
        if not self._checked:
            self._checked = True
            examples.warn_of_unknown(self._task.bert.preprocessor.vocabulary["[UNK]"])
        if not self._warned and examples.cut:
            self._warned = True
            examples.warn_of_cuts("training rows that are read together")
        return examples
