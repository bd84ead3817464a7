"""ColumnTask: a task whose rows can have numbers and categories beside the text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from keras import ops

from keras_bert.tasks.columns.other_columns import (
    TEXTS,
    OtherColumns,
    column_arrays,
    column_specs,
    columns_in_graph,
    names_of,
)
from keras_bert.tasks.columns.tables import column_names
from keras_bert.tasks.columns.text_columns import check_lengths
from keras_bert.tasks.heads import pooled_encoder
from keras_bert.tasks.readers import Reading, Rows, tab_columns
from keras_bert.tasks.readers.columns import number_of
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.tasks.signature import Logits, Signature, pack_texts, text_signatures
from keras_bert.tasks.task import Task


class ColumnTask(Task):
    """What `TextClassifier` and `TextRegressor` do with other columns. Without them, they are like any other task.

    A row of `x` then has a text or two, and a value for each of the other columns. `x` is a table with these columns
    and `text`, and for pairs `text_pair`; or a tuple of the columns: the texts, the numbers, the categories.
    """

    other_columns: OtherColumns | None = None

    def get_config(self) -> dict[str, Any]:
        columns = self.other_columns
        if columns is None:
            return super().get_config()
        kept = {name: {key: list(one) for key, one in values.items()} for name, values in vars(columns).items()}
        return super().get_config() | {"other_columns": kept}

    @property
    def other_names(self) -> tuple[str, ...]:
        return () if self.other_columns is None else names_of(self.other_columns)

    # === Files and tables ===

    @classmethod
    def _learned(cls, rows: Rows, reading: Reading) -> OtherColumns | None:
        """What training rows hold beside the texts."""
        names = [str(name) for name in reading.others]
        if not names:
            return None
        table, count = dict(zip(names, rows.x[-len(names) :], strict=True)), len(reading.number)
        return OtherColumns.learn(table, numbers=names[:count], categories=names[count:], place=rows.path)

    @property
    def default_reading(self) -> Reading:
        columns = self.other_columns
        return Reading() if columns is None else Reading(number=(*columns.numbers,), category=(*columns.categories,))

    def table_texts(self, table: Any) -> tuple[str, ...]:
        known = column_names(table)
        return (*(name for name in TEXTS if name in known or name == TEXTS[0]), *self.other_names)

    def read_lines(self, lines: Sequence[tuple[int, str]], reading: Reading) -> Any:
        if self.other_columns is None:
            return super().read_lines(lines, reading)
        columns: list[Any] = tab_columns(lines, len(reading.text) + len(self.other_names))
        for place, name in enumerate(self.other_columns.numbers, len(reading.text)):
            columns[place] = [
                number_of(value, f"Line {line}: the number for {name!r}", remedy="Correct it")
                for (line, _), value in zip(lines, columns[place], strict=True)
            ]
        return tuple(columns)

    # === Rows ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        texts, others = self._split(x)
        rows = super().examples(texts, y, sample_weight, class_weight)
        return replace(rows, others=others) if others else rows

    def _names(self, x: Any) -> tuple[str, ...]:
        """The names of the columns of `x`."""
        texts = (len(x) if isinstance(x, tuple) else 1) - len(self.other_names)
        return (*TEXTS[:texts], *self.other_names)

    def _split(self, x: Any) -> tuple[Any, dict[str, np.ndarray]]:
        """The columns of the texts, and what the model reads beside them."""
        if self.other_columns is None:
            return x, {}
        names = self.other_names
        x = self._columns(x, labels=False)[0]
        texts = x[: -len(names)] if isinstance(x, tuple) else ()
        if len(texts) not in (1, 2):
            raise ValueError(
                f"x must have one or two columns of texts, and then the columns {', '.join(map(repr, names))}. Pass a "
                "tuple of columns, or a table whose column of texts is called 'text'. Received: "
                f"{f'{len(x)} columns' if isinstance(x, tuple) else type(x).__name__}"
            )
        check_lengths(text=texts[0], **dict(zip(names, x[len(texts) :], strict=True)))
        return texts, column_arrays(self.other_columns, x[len(texts) :])

    # === Logits ===

    def _logits_of(self, outputs: Any, examples: LabelledRows, index: Any) -> Any:
        if self.other_columns is None:
            return outputs
        vectors = np.asarray(outputs, "float32")  # [B, H]
        others = {name: one[index] for name, one in examples.others.items()}
        return ops.convert_to_numpy(self._of_vectors(vectors, others))

    def text_runner(self) -> Any:
        return super().text_runner() if self.other_columns is None else self._vector_runner()

    def _vector_runner(self) -> Any:
        return self.runners.get("vectors", self, lambda: pooled_encoder(self.bert))

    def _of_vectors(self, vectors: Any, others: dict[str, Any]) -> Any:
        """The logits [B, C] of the vectors of texts [B, H] and their other columns."""
        if others:
            vectors = self.get_layer("text_and_columns")([vectors, self.get_layer("other_columns")(others)])
        return self.get_layer(type(self).heads[0])(vectors)

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        columns, packer = self.other_columns, self.packer
        if columns is None:
            return super().signatures(logits, seq_length)

        def answer(*texts: Any, **fields: Any) -> dict[str, Any]:
            rows, truncated = pack_texts(self.bert.preprocessor, texts, seq_length, packer=packer)
            found = logits({**rows, **columns_in_graph(columns, fields)})
            return {**self.answers_in_graph(found, texts), "truncated": truncated}

        return text_signatures(answer, column_specs(columns))
