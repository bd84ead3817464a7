"""OtherColumns: numbers and categories beside a text, and what was learned of them from the training rows."""

import keyword
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from keras_bert.layers.column_vector import ColumnVector
from keras_bert.tasks.columns.tables import named_columns
from keras_bert.tasks.columns.value_columns import category_column, mean_and_deviation, number_column
from keras_bert.text.tensors import tf
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")

MOST = 1000  # known categories of a column, each of which has weights of its own
BLANKS = "[" + "".join(blank for blank in map(chr, range(0x3001)) if blank.isspace()) + "]+"  # as `str.strip`
TEXTS = ("text", "text_pair")  # what the texts of a row are called in tables and in requests


@dataclass(frozen=True)
class OtherColumns:
    """The numbers and categories that a `TextClassifier` or a `TextRegressor` reads beside the text.

    numbers: the mean and the standard deviation of each column, by its name. categories: the known values of each
    column, the most frequent first. Another value is unknown, which has weights of its own too.

    >>> table = {"price": [1.0, 3.0, 5.0], "brand": ["b", "a", "b"]}
    >>> OtherColumns.learn(table, numbers=["price"], categories=["brand"]).categories
    {'brand': ('b', 'a')}
    """

    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("numbers", "categories"):  # JSON makes lists of tuples
            object.__setattr__(self, name, {one: tuple(values) for one, values in getattr(self, name).items()})
        names = names_of(self)
        if not names:
            raise ValueError(
                "OtherColumns needs at least one column. Name some in `numbers` or `categories`. Received: no columns"
            )
        if len({*TEXTS, *fields_of(self)}) < len(TEXTS) + len(names):
            raise ValueError(
                "An export turns all but the letters and digits of a column's name into _. After that, no two names "
                "may be the same, and none may be text or text_pair. Rename a column. "
                f"Received: {', '.join(map(repr, names))}"
            )

    @classmethod
    def learn(
        cls, table: Any, *, numbers: Iterable[str] = (), categories: Iterable[str] = (), place: str = "the table"
    ) -> "OtherColumns":
        """What the columns of these names in the training rows hold.

        Args:
            table: of pandas or datasets, a dict of columns, or a list of rows as dicts.
            place: what errors call it.
        """
        for what, given in (("numbers", numbers), ("categories", categories)):
            if isinstance(given, str):
                raise TypeError(f"`{what}` must be a list of names. Write [{given!r}]. Received: {what}={given!r}")
        names, others = tuple(numbers), tuple(categories)
        columns = named_columns(table, (*names, *others))
        if not all(columns):
            raise ValueError(f"There are no rows in {place}. Pass at least two. Received: an empty column")
        return cls(
            {name: mean_and_deviation(name, one, place) for name, one in zip(names, columns, strict=False)},
            {name: _known(name, one) for name, one in zip(others, columns[len(names) :], strict=True)},
        )


def names_of(columns: OtherColumns) -> tuple[str, ...]:
    """The names of the columns, in the order in which `x` has them after the texts."""
    return (*columns.numbers, *columns.categories)


def fields_of(columns: OtherColumns) -> list[str]:
    """What an export calls the columns: their names in letters, digits and _.

    >>> fields_of(OtherColumns({"price (EUR)": (0.0, 1.0)}, {"2": ("a",), "class": ("b",)}))
    ['price__EUR_', 'column_2', 'column_class']
    """
    words = [re.sub(r"\W", "_", name) for name in names_of(columns)]
    # The clients of an export have an argument of each name, and one called signature.
    is_free = [word[:1].isalpha() and not keyword.iskeyword(word) and word != "signature" for word in words]
    return [word if free else f"column_{word}" for word, free in zip(words, is_free, strict=True)]


def checked_columns(given: Any) -> OtherColumns | None:
    """The argument `other_columns` of a task, also as a saved file has it."""
    if isinstance(given, Mapping):
        return OtherColumns(**given)
    if given is None or isinstance(given, OtherColumns):
        return given
    raise TypeError(
        "other_columns must be an OtherColumns. Make one with OtherColumns.learn(table, numbers=..., categories=...). "
        f"Received: other_columns={given!r}"
    )


# === What is learned ===


def _known(name: str, values: Any) -> tuple[str, ...]:
    """The categories of a column, the most frequent first; those of the same frequency by name."""
    counts = Counter(category_column(values, f"category in column {name!r}"))
    known = sorted(counts, key=lambda category: (-counts[category], category))
    if len(known) > MOST:
        logger.warning(
            "Column %r has %d categories. The model knows the %d most frequent ones; the others, in %d of %d rows, are "
            "unknown to it.",
            name, len(known), MOST, sum(counts[category] for category in known[MOST:]), counts.total(),
        )  # fmt: skip
    return tuple(known[:MOST])


# === What the model reads ===


def with_columns(inputs: dict[str, Any], vectors: Any, other_columns: Any) -> tuple[dict[str, Any], Any]:
    """The inputs of a task, and the vector of each text [B, H]; with other columns both have a part for them."""
    columns = checked_columns(other_columns)
    if columns is None:
        return inputs, vectors
    more: dict[str, Any] = {}
    if columns.numbers:
        more["numbers"] = keras.Input((len(columns.numbers),), dtype="float32", name="numbers")  # [B, N]
    if columns.categories:
        more["categories"] = keras.Input((len(columns.categories),), dtype="int32", name="categories")  # [B, C]
    statistics = columns.numbers.values()
    layer = ColumnVector(
        vectors.shape[-1],
        means=[mean for mean, _ in statistics],
        deviations=[deviation for _, deviation in statistics],
        values=sum(len(known) + 1 for known in columns.categories.values()),
        dtype="float32",
        name="other_columns",
    )
    joined = keras.layers.Concatenate(dtype="float32", name="text_and_columns")([vectors, layer(more)])  # [B, 2H]
    return {**inputs, **more}, joined


def column_arrays(columns: OtherColumns, values: Sequence[Any]) -> dict[str, np.ndarray]:
    """The model's inputs from a column for each name: `numbers`, float32 [n, N], and `categories`, int32 [n, C]."""
    found: dict[str, np.ndarray] = {}
    rest = iter(values)
    if columns.numbers:
        of_names = [number_column(next(rest), f"number in column {name!r}") for name in columns.numbers]
        found["numbers"] = np.stack(of_names, axis=1)
    if columns.categories:
        found["categories"] = np.stack([_ids(*known, next(rest)) for known in _ranges(columns)], axis=1)
    return found


def _ids(name: str, known: Sequence[str], start: int, values: Any) -> np.ndarray:
    ids = {category: id for id, category in enumerate(known, start + 1)}
    names = category_column(values, f"category in column {name!r}")
    found = np.array([ids.get(category, start) for category in names], "int32")
    if len(unknown := np.flatnonzero(found == start)):
        logger.warning(
            "Column %r has unknown categories in %d of %d %s, the first at row %d, counted from 0: %r. "
            "The model does not distinguish unknown categories.",
            name, len(unknown), len(names), plural("row", len(names)), unknown[0], names[unknown[0]],
        )  # fmt: skip
    return found


def _ranges(columns: OtherColumns) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """The name of each column of categories, what is known of it, and its first id, that of the unknown."""
    start = 0
    for name, known in columns.categories.items():
        yield name, known, start
        start += len(known) + 1


# === The same in an export ===


def column_specs(columns: OtherColumns) -> dict[str, Any]:
    """The inputs of a signature for the columns, by their fields."""
    dtypes = [*[tf.float32] * len(columns.numbers), *[tf.string] * len(columns.categories)]
    return {name: tf.TensorSpec([None], dtype, name) for name, dtype in zip(fields_of(columns), dtypes, strict=True)}


def columns_in_graph(columns: OtherColumns, given: Mapping[str, Any]) -> dict[str, Any]:
    """What `column_arrays` returns, from a tensor [B] for each field."""
    found: dict[str, Any] = {}
    rest = (given[name] for name in fields_of(columns))
    if columns.numbers:
        found["numbers"] = tf.stack([next(rest) for _ in columns.numbers], axis=1)  # [B, N]
    if columns.categories:
        ids = []
        for _, known, start in _ranges(columns):
            names = tf.strings.regex_replace(next(rest), f"^{BLANKS}|{BLANKS}$", "")  # as `category_of`
            same = tf.equal(names[:, tf.newaxis], tf.constant(known))  # [B, K]
            place = tf.argmax(tf.cast(same, tf.int32), axis=1, output_type=tf.int32)
            ids.append(start + tf.where(tf.reduce_any(same, axis=1), 1 + place, 0))
        found["categories"] = tf.stack(ids, axis=1)  # [B, C]
    return found
