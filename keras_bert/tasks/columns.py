"""The columns that users pass, as plain lists. Errors name the row."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from types import GeneratorType
from typing import Any

import keras
import numpy as np

from keras_bert.inputs import INPUTS, OTHER_NAMES, renaming
from keras_bert.text.texts import utf8


def column(values: Any, what: str = "text") -> list[str]:
    """A column of texts as a list: from a list, an array, a pandas or datasets column, or a string tensor.

    >>> import numpy as np
    >>> column(np.array(["one", "two"]))
    ['one', 'two']
    """
    rows = rows_of(values, what)
    for row, text in enumerate(rows):
        if is_missing(text):
            raise ValueError(f"The {what} at index {row} is missing. Drop the row, or write ''. Received: {text!r}")
        if isinstance(text, bytes):
            rows[row] = _decoded(text, f"{what} at index {row}")
        elif isinstance(text, str):
            utf8(text, f" at index {row}")
        else:
            raise TypeError(
                f"The {what} at index {row} is not a string. For pairs, pass a tuple of two columns; convert any other "
                f"value with str(). Received: {text!r}"
            )
    return rows


def _decoded(text: bytes, where: str) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"The {where} is bytes that are not UTF-8. Decode it first, such as with text.decode('cp949'). Received: "
            f"{error.object[error.start : error.end]!r} at byte {error.start}"
        ) from None


def as_batch(texts: Any) -> tuple[Any, bool]:
    """Columns, and whether a single text or pair was given instead of columns."""
    if texts is None:
        raise TypeError("The text is missing. Pass a text, a tuple of two texts, or columns of texts. Received: None")
    if isinstance(texts, str | bytes):
        return [texts], True
    if isinstance(texts, dict) and isinstance(texts.get("text"), str):  # a row of a table
        return [texts], True
    if isinstance(texts, tuple) and texts and isinstance(texts[0], str):
        return tuple([text] for text in texts), True
    return texts, False


def two_columns(x: Any, first: str, second: str) -> tuple[Any, Any]:
    """The columns of a task that reads two of them."""
    if not isinstance(x, tuple) or len(x) != 2:
        raise TypeError(
            f"x must be a tuple of two columns. Pass the {first} and the {second}. Received: {type(x).__name__}"
        )
    return x


def rows_of(values: Any, what: str) -> list[Any]:
    """The rows of a column of any type."""
    rank = getattr(values, "ndim", 1)
    if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(values, Iterable) or rank == 0:
        raise TypeError(
            f"Each {what} must be an element of a list, an array or a column of a table. Put a single {what} in a "
            f"list. Received: {values if values is None or isinstance(values, int | float) else type(values).__name__}"
        )
    if rank == 2 and hasattr(values, "columns"):  # a DataFrame gives its columns' names
        raise TypeError(
            f"A whole table was passed, but each {what} must be a value of one column. Pass table[name]. "
            f"Received: {type(values).__name__}"
        )
    values = values.numpy() if hasattr(values, "numpy") else values
    return list(values.tolist() if hasattr(values, "tolist") else values)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas's NA or NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def check_lengths(**columns: Any) -> int:
    """The number of rows, which must be the same in all columns that are not None."""
    lengths = {name: len(rows) for name, rows in columns.items() if rows is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` of length {length}" for name, length in lengths.items())
        raise ValueError(f"The columns differ in length. Pass a value for each row in each column. Received: {listed}")
    return next(iter(lengths.values()))


def check_scored(true: Any, predicted: Any) -> None:
    """Refuse predictions that are not one for each example."""
    if len(true) != len(predicted) or not len(true):
        raise ValueError(
            "The predictions and the examples differ in number, or there are none. Pass one prediction for each "
            f"example. Received: {len(predicted)} predictions for {len(true)} examples"
        )


def count_of(what: str, given: int | None, default: int) -> int:
    """A batch size or a number of epochs as given, or else its default."""
    if given is not None and not hasattr(given, "__index__"):
        raise TypeError(f"`{what}` must be a whole number, without quotes. Received: {what}={given!r}")
    if given is not None and given < 1:
        raise ValueError(f"`{what}` must be at least 1. Use a larger value. Received: {what}={given}")
    return default if given is None else given


def is_packed(x: Any) -> bool:
    """Whether these are ids already: inputs of the encoder, or something that yields batches of them to Keras."""
    if isinstance(x, tuple) and x:
        x = x[0]
    if isinstance(x, Mapping):
        return not is_table(x)
    if isinstance(x, keras.utils.PyDataset) or hasattr(x, "__next__"):
        return True
    return _is_dataset(x) and isinstance(_example(x.element_spec)[0], dict)


def packed_batches(x: Any) -> Any:
    """What is given to Keras in place of x; an error if the first batch of a PyDataset or a generator has texts."""
    if isinstance(x, keras.utils.PyDataset):
        batch = x[0] if x.num_batches != 0 else None
    elif isinstance(x, GeneratorType):
        read = list(itertools.islice(x, 1))
        batch, x = read[0] if read else None, (one for one in itertools.chain(read, x))
    else:
        return x
    for value in keras.tree.flatten(batch[0] if isinstance(batch, tuple) else batch):
        dtype = getattr(value, "dtype", None)
        if isinstance(value, str | bytes) or dtype == "string" or getattr(dtype, "kind", None) in ("U", "S", "O"):
            raise TypeError(
                "A PyDataset or a generator yields texts, but it must yield packed ids. Pass the texts as a list or a "
                f"tf.data, or yield dicts that `task.bert.preprocessor` returns. Received: {type(x).__name__}"
            )
    return x


def columns_of(x: Any, y: Any = None, weights: Any = None, *, ranks: tuple[int, ...] = (0,)) -> tuple[Any, Any, Any]:
    """The columns x, y and weight, also of a tf.data of them, which is read to its end.

    ranks: the ranks that the tensor of one text (or of its words) can have there. Other elements are batches.
    """
    if not _is_dataset(x):
        return x, y, weights
    if int(x.cardinality()) == -1:  # tf.data.INFINITE_CARDINALITY
        raise ValueError(
            "The tf.data of text never ends, but all of it is tokenized before training begins. Use x.take(n). "
            "Received: an infinite tf.data"
        )
    if y is not None or weights is not None:
        raise ValueError(
            "y or sample_weight was passed with a tf.data, which must yield (x, y, weight) itself. Put them in the "
            "tf.data. Received: a tf.data and y or sample_weight"
        )
    first = _example(x.element_spec)[0]
    spec = first[0] if isinstance(first, tuple) else first
    if spec.shape.rank not in ranks:
        x = x.unbatch()
    rows = [_example(row) for row in x.as_numpy_iterator()]
    if not rows:
        raise ValueError("The tf.data is empty. Pass at least one example. Received: an empty tf.data")
    # A batch of texts looks like a list of words, except that texts have spaces.
    words = (word for row in rows for word in row[0]) if spec.shape.rank == 1 and 1 in ranks else ()
    if text := next((word for word in words if len(word.split()) > 1), None):
        raise ValueError(
            "An element of the tf.data is a batch of texts, but a tagger reads a list of strings as the words of "
            f"one text. Pass texts unbatched. Received: {text.decode('utf-8', 'replace')!r}"
        )
    found = [list(column) for column in zip(*rows, strict=True)]
    if isinstance(first, tuple):
        found[0] = tuple(list(column) for column in zip(*found[0], strict=True))  # type: ignore[call-overload]
    x, y, weights = [*found, None, None][:3]
    return x, y and [_plain(value) for value in y], weights


def _plain(value: Any) -> Any:
    """The value of a tensor of a tf.data in Python's own types."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _named(value: Any, feature: Any) -> Any:
    """The names of ids if a table of datasets has names, since its ids need not be the task's."""
    if hasattr(feature, "int2str"):
        # datasets uses -1 where there is no label.
        return None if is_missing(value) or value == -1 else feature.int2str(value)
    inner = getattr(feature, "feature", None)
    return [_named(one, inner) for one in value] if isinstance(value, list) and inner is not None else value


def is_table(x: Any) -> bool:
    """Whether this is a whole table: of pandas or datasets, a dict of columns, or a list of rows as dicts."""
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
            f"The table must have the columns {', '.join(map(repr, names))}, but does not have "
            f"{', '.join(map(repr, missing))}. Rename its columns, or pass table[name] for x and for y. "
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


def _is_dataset(x: Any) -> bool:
    return hasattr(x, "element_spec") and hasattr(x, "as_numpy_iterator")


def _example(element: Any) -> tuple[Any, ...]:
    """(x,), (x, y) or (x, y, weight); an element of tf.data that is a tuple begins with x, as in Keras."""
    return element if isinstance(element, tuple) else (element,)


def split_columns(columns: Sequence[Any], fraction: float) -> tuple[list[Any], list[Any]]:
    """The rows to learn from, and the last `fraction` of the rows, as with Keras's validation_split."""
    if not 0 < fraction < 1:
        raise ValueError(f"validation_split must be more than 0 and less than 1. Received: validation_split={fraction}")
    first = columns[0][0] if isinstance(columns[0], tuple) else columns[0]
    count = len(rows_of(first, "example"))
    kept = math.floor(count * (1 - fraction))
    if not 0 < kept < count:
        raise ValueError(
            "validation_split leaves no rows for training or no rows for validation. Use another fraction. "
            f"Received: validation_split={fraction} of {count} rows"
        )
    return part_of(columns, slice(kept)), part_of(columns, slice(kept, None))


def part_of(columns: Sequence[Any], part: slice) -> list[Any]:
    """Some rows of each column."""
    return [
        tuple(part_of(column, part)) if isinstance(column, tuple) else column if column is None else _part(column, part)
        for column in columns
    ]


def _part(column: Any, part: slice) -> Any:
    if getattr(column, "ndim", 1) == 2:  # a matrix of labels stays one
        return np.asarray(column)[part]
    return rows_of(column, "example")[part]
