"""TextPredictor: Keras's `predict`, and answers, for models that take text."""

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from keras_bert.checks import count_of
from keras_bert.inputs import INPUTS, check_ids, check_names, refuse_keywords
from keras_bert.tasks.columns.packed_inputs import is_packed
from keras_bert.tasks.columns.tables import column_names, is_table, table_columns
from keras_bert.tasks.columns.text_columns import rows_of
from keras_bert.tasks.columns.tf_datasets import columns_of
from keras_bert.tasks.columns.value_columns import check_not_nan
from keras_bert.tasks.packed_task import PackedTask
from keras_bert.tasks.readers import Reading, Rows
from keras_bert.tasks.rows.labelled_rows import LabelledRows

_READERS = (
    "In Python, columns, an encoding and the like are arguments of the readers in keras_bert.tasks.readers, as in "
    "task.fit(read_labels(path, text=..., label=..., encoding=...)). Others are read_scores, read_choices, read_conll "
    "and read_squad."
)


class TextPredictor(PackedTask):
    """The part of a `Task` that runs on rows of text; the rest of the task says what they are."""

    table: tuple[tuple[str, ...], str] = (("text",), "label")  # the columns x and y of a table
    example_ranks: tuple[int, ...] = (0,)  # the ranks of the first tensor of x in an element of a tf.data
    length_axis: int | None = None  # the axis of an example's logits that is as long as its row, if there is one
    beyond_length: float = 0.0  # the logits after the end of a row that is shorter than others

    @property
    def default_reading(self) -> Reading:
        """How a file is read of which only the path is known."""
        return Reading()

    def table_texts(self, table: Any) -> tuple[str, ...]:
        """The columns of `x` in a table."""
        return self.table[0]

    def table_label(self, table: Any) -> str | None:
        """The column of `y` in a table to learn from; None if such a table needs none."""
        return self.table[1]

    def __call__(self, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        refuse_keywords(kwargs)
        if not isinstance(inputs, Mapping):  # a dict, or the BatchEncoding of transformers
            raise TypeError(
                f"{type(self).__name__} was called on something other than packed inputs. Call it on a dict of "
                f"{', '.join(self.input)}; for text, use predict(x) or a method such as classify(x). "
                f"Received: {type(inputs).__name__}"
            )
        check_names(type(self).__name__, self.input, inputs)
        check_ids(inputs, self.bert.config)
        return super().__call__(dict(inputs), *args, **kwargs)

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any) -> Any:
        """Logits in the order of the examples; for tokens, `beyond_length` after the end of a row."""
        check_steps(options)
        if is_packed(x):
            x = self._packed(x)
            if isinstance(x, Mapping) and not set(INPUTS) - set(x):
                check_ids(x, self.bert.config)
            return super().predict(x, batch_size, verbose, **options)
        refuse_options(options, "On text")
        rows = count_of("batch_size", batch_size, 32)
        logits = self.logits(self._examples_to_answer(self._columns(x, labels=False)[0]), rows)
        return self.stack_logits(logits) if logits else np.zeros([size or 0 for size in self.output_shape], "float32")

    def stack_logits(self, logits: list[np.ndarray]) -> np.ndarray:
        """The logits of examples as one array; for tokens, padded to the longest row."""
        if self.length_axis is None:
            return np.stack(logits)
        axis, shape = self.length_axis, list(logits[0].shape)
        shape[axis] = max(row.shape[axis] for row in logits)
        found = np.full((len(logits), *shape), self.beyond_length, "float32")
        for place, row in zip(found, logits, strict=True):
            np.moveaxis(place, axis, 0)[: row.shape[axis]] = np.moveaxis(row, axis, 0)
        return found

    def logits(self, examples: LabelledRows, batch_size: int = 32) -> list[np.ndarray]:
        """The logits of each example, in their order; of tokens, as long as the batch that it was in."""
        batch_size = count_of("batch_size", batch_size, 32)
        run = self.text_runner()
        found: list[Any] = [None] * len(examples)
        for index in examples.by_length(batch_size):
            for number, logits in zip(index, self._logits_of(run(examples, index), examples, index), strict=True):
                found[number] = logits
        return found

    def _logits_of(self, outputs: Any, examples: LabelledRows, index: Any) -> Any:
        """The logits of these examples, from what the `text_runner` computes of their texts."""
        return outputs

    def text_runner(self) -> Any:
        """What computes texts: the logits, or the vectors of which `logits` makes them."""
        return self.runners.get("logits", self, lambda: self)

    def answers(self, x: Any, batch_size: int = 32) -> list[Any]:
        """What `decode` returns for `x`, as `fit` takes it."""
        x = self._columns(list(x) if isinstance(x, Iterator) else x, labels=False)[0]
        rows = rows_of(x[0] if isinstance(x, tuple) and x else x, "text")
        if not rows:
            return []
        with self._answering(rows):
            examples = self._examples_to_answer(x)
            logits = self.logits(examples, batch_size)
            check_not_nan(logits)
            return self.decoded(examples, logits, len(rows))

    def decoded(self, examples: LabelledRows, logits: list[np.ndarray], rows: int, **options: Any) -> list[Any]:
        """The answers to so many rows. options: of `decode`."""
        answers = self.decode(examples, logits, **options)
        found = len(answers) if hasattr(answers, "__len__") else None
        if found != rows:
            received = f"a {type(answers).__name__}" if found is None else f"{found} answers"
            raise ValueError(
                f"{type(self).__name__}.decode must return one answer for each row. Return a list with an answer for "
                f"each. Received: {'None' if answers is None else received} for {rows} rows"
            )
        return answers

    def _answering(self, rows: list[Any]) -> AbstractContextManager[None]:
        """The block in which rows are read and answered."""
        return nullcontext()

    def _examples_to_answer(self, x: Any) -> LabelledRows:
        """The examples of columns without targets. A warning says how many rows are cut."""
        examples = self.examples(x)
        examples.warn_of_cuts()
        return examples

    def _opened(self, x: Any, *, labels: bool = True) -> Any:
        """The rows of a file, if `x` is its path."""
        if not isinstance(x, str | os.PathLike):
            return x
        if not os.path.isfile(x):
            there = "a folder" if os.path.isdir(x) else "no file"
            raise FileNotFoundError(
                f"A string in place of columns must be the path of a file, but this is {there}. Correct the path, or "
                f"put a single text in a list. Received: {os.fspath(x)!r}"
            )
        try:
            return self.read_rows(x, self.default_reading, labels=labels)
        except ValueError as error:  # which may speak of options of the command line
            error.add_note(_READERS)
            raise

    def _columns(self, x: Any, *given: Any, labels: bool = True) -> tuple[Any, Any, Any]:
        x = self._opened(x, labels=labels)
        if isinstance(x, Rows) or is_table(x):
            y = given[0] if given else None
            if y is not None and (isinstance(x, Rows) or self.table[1] in column_names(x)):
                raise ValueError(
                    "y was passed with a table, which has its own labels. Leave y out, or pass columns. "
                    "Received: a table and y"
                )
            if isinstance(x, Rows):
                x, own = x.x, x.y
            else:
                label = self.table_label(x) if labels and y is None else None
                x, own = table_columns(x, self.table_texts(x), label)
            given = (own if labels and y is None else y, *given[1:])
        return columns_of(x, *given, ranks=self.example_ranks)


def check_steps(options: dict[str, Any]) -> None:
    """Refuse a number of batches that is not at least 1."""
    for name in ("steps", "steps_per_epoch", "validation_steps"):
        if name in options:
            count_of(name, options[name], 1)


def refuse_options(options: dict[str, Any], where: str) -> None:
    """Raise an error for options of Keras that have no use where each row is read once."""
    if options:
        raise TypeError(
            f"{where}, every row is read once, so {', '.join(options)} cannot be used. Leave it out. Received: "
            f"{', '.join(options)}"
        )
