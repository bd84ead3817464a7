"""The forms in which users pass texts, as one checked string tensor."""

from collections.abc import Mapping, Set
from numbers import Integral
from typing import Any

from keras_bert.text.tensors import tf


def as_texts(texts: Any) -> Any:
    """One text, or a list, tuple, numpy array, pandas column or tensor of texts, as a string tensor.

    >>> as_texts("one text").shape, as_texts(["two", "texts"]).shape
    (TensorShape([]), TensorShape([2]))
    """
    if tf.is_tensor(texts):
        return _checked(texts)
    texts = texts.numpy() if hasattr(texts, "numpy") else texts
    if isinstance(texts, str | bytes):
        return tf.constant(utf8(texts, ""), tf.string)
    if rank_of(texts) == 0:
        texts = texts.item()
        return tf.constant(utf8(texts, ""), tf.string)
    texts = texts.to_pylist() if hasattr(texts, "to_pylist") and rank_of(texts) == 1 else texts  # a column of pyarrow
    if hasattr(texts, "element_spec"):
        raise TypeError(
            "Texts must not be a tf.data.Dataset here. Use dataset.map(preprocessor), or pass "
            f"list(dataset.as_numpy_iterator()). Received: {type(texts).__name__}"
        )
    if isinstance(texts, Mapping):
        raise TypeError(
            "Every text must be a string. Pass texts instead of a dict; for ids, call the model itself. "
            f"Received: {type(texts).__name__} with the keys {', '.join(map(str, texts))}"
        )
    refuse_lazy(texts)
    refuse_row(texts)
    if isinstance(texts, Set) or not (hasattr(texts, "__iter__") or has_names(texts)):
        utf8(texts, "")  # which raises, since this is no string
    if rank_of(texts) > 1:  # iterating over a DataFrame would return the names of its columns
        if has_names(texts):
            advice = "Pass table[name], or a tuple of two columns for pairs."
        else:
            advice = "Pass one column, such as array[:, 0]; for pairs, (array[:, 0], array[:, 1])."
        raise TypeError(
            f"Texts must be one column of strings. {advice} "
            f"Received: {type(texts).__name__} of shape {tuple(texts.shape)}"
        )
    texts = list(texts)
    try:
        column = [text if isinstance(text, bytes) else str.encode(text) for text in texts]
    except (TypeError, UnicodeEncodeError):
        column = [utf8(text, f" at index {index}") for index, text in enumerate(texts)]  # the error names the text
    return tf.constant(column, tf.string, name="texts")


def rank_of(values: Any) -> int:
    """The number of axes of an array or a table: 1 if it has neither `ndim` nor `shape`, 2 for a frame of polars."""
    rank = getattr(values, "ndim", None)
    return len(getattr(values, "shape", (0,))) if rank is None else rank


def has_names(values: Any) -> bool:
    """Whether this is a table whose columns have names: of pandas or polars, or of datasets."""
    return hasattr(values, "columns") or hasattr(values, "column_names")


def refuse_lazy(values: Any) -> None:
    """Refuse a table that has not been computed, such as a LazyFrame of polars."""
    if hasattr(type(values), "collect"):  # pandas has an attribute for each column
        raise TypeError(f"A lazy table has no rows yet. Pass table.collect(). Received: {type(values).__name__}")


def refuse_row(values: Any) -> None:
    """Refuse a row of a pandas table in place of a column: its name is a number, and "text" is in its index."""
    if isinstance(getattr(values, "name", None), Integral) and hasattr(values, "iloc") and "text" in values.index:
        raise TypeError(
            "A row of a table was passed in place of a column. Pass its text, row['text'], or the column, "
            f"table['text']. Received: a {type(values).__name__} with the index {', '.join(map(str, values.index[:8]))}"
        )


def _checked(texts: Any) -> Any:
    if texts.dtype != "string":
        raise TypeError(f"Texts must be strings. Pass a tensor of dtype tf.string. Received: dtype={texts.dtype.name}")
    if texts.shape.rank not in (0, 1):
        raise ValueError(
            "Texts must be one string or a batch of strings. Reshape them to [batch], or pass each column separately. "
            f"Received: shape={texts.shape}"
        )
    return texts


def utf8(text: Any, where: str) -> bytes:
    """A text as UTF-8. `where` ends the error, such as " at index 3"."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, list | tuple) and where:
        raise TypeError(
            "Every text must be a string. For pairs, pass a tuple of two columns: (texts_a, texts_b). "
            f"Received: {text!r} ({type(text).__name__}){where}"
        )
    if not isinstance(text, str):
        raise TypeError(
            "Every text must be a string. Convert it with str(); if it is missing, leave it out, or write ''. "
            f"Received: {text!r} ({type(text).__name__}){where}"
        )
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            "A text contains half of a surrogate pair, which is not a character. Repair the text with "
            'text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"). '
            f"Received: U+{ord(text[error.start]):04X} at position {error.start} of the text{where}"
        ) from None
