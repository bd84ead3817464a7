"""Whole tables: of pandas or datasets, a dict of columns, or a list of rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.inputs import INPUTS, OTHER_NAMES, renaming
from keras_bert.tasks.columns.text_columns import is_missing, rows_of
from keras_bert.text.texts import refuse_lazy
from keras_bert.wording import listed, plural


def is_table(x: Any) -> bool:
    """Whether this is a whole table: of pandas or datasets, a dict of columns, or a list of rows as dicts.

    An error for a lazy one, such as a LazyFrame of polars.
    """
    refuse_lazy(x)
    if isinstance(x, Mapping):
        return not set(INPUTS) & set(x)
    if isinstance(x, list):
        return bool(x) and all(isinstance(row, dict) for row in x)
    return hasattr(x, "column_names") or (hasattr(x, "columns") and getattr(x, "ndim", 2) == 2)


def column_names(table: Any) -> list[str]:
    """The names of the columns of a table."""
    if isinstance(table, list):
        return list(dict.fromkeys(name for row in table for name in row))
    return list(getattr(table, "column_names", None) or getattr(table, "columns", table))


def by_labels(table: Any, labels: Sequence[str]) -> Any:
    """The columns of a table of 0 and 1, [n, C], in the order of the labels; as they are if they have no names."""
    names = column_names(table)
    if len(names) != len(labels) or set(map(str, names)) != set(labels):
        if names == list(range(len(labels))):
            return table
        raise ValueError(
            "y is a table whose columns are not the task's labels. Name each column after its label, or pass a matrix "
            f"with the columns in the order of the labels, {listed(list(map(repr, labels)), 8)}. "
            f"Received: {listed(list(map(repr, names)), 8)}"
        )
    columns = dict(zip(map(str, names), named_columns(table, names), strict=True))
    return np.transpose([columns[label] for label in labels])


def named_columns(table: Any, names: Sequence[str]) -> list[list[Any]]:
    """The columns of these names."""
    known = column_names(table)
    if missing := [name for name in names if name not in known]:
        if isinstance(table, Mapping) and set(OTHER_NAMES) & set(known):
            raise ValueError(
                "These are the ids of a tokenizer of another package, but a task takes text and makes the ids itself. "
                f"Pass the texts. Only the model itself takes ids, as in task(inputs): {renaming(table)}. "
                f"Received: {', '.join(known)}"
            )
        raise ValueError(
            f"The table lacks the {plural('column', len(missing))} {', '.join(map(repr, missing))}. Add or "
            "rename columns, or pass table[name] for x and for y. For pairs of texts, x is a tuple of two such "
            "columns. "
            f"Received: columns {', '.join(map(repr, known))}"
        )
    if isinstance(table, list):
        return [[row.get(name) for row in table] for name in names]
    return [rows_of(table[name], f"value in column {name!r}") for name in names]


def table_columns(table: Any, texts: tuple[str, ...], label: str | None) -> tuple[Any, Any]:
    """x and y from the columns of these names; without a label, only x."""
    columns = named_columns(table, [*texts, *([label] if label else [])])
    if label and isinstance(getattr(table, "features", None), dict):  # a frame may have a column of that name
        columns[-1] = [_named(value, table.features[label]) for value in columns[-1]]
    x = tuple(columns[: len(texts)]) if len(texts) > 1 else columns[0]
    return x, columns[-1] if label else None


def _named(value: Any, feature: Any) -> Any:
    """The names of ids if a table of datasets has names, since its ids need not be the task's."""
    if hasattr(feature, "int2str"):
        # datasets uses -1 where there is no label.
        return None if is_missing(value) or value == -1 else feature.int2str(value)
    inner = getattr(feature, "feature", None)
    return [_named(one, inner) for one in value] if isinstance(value, list) and inner is not None else value
