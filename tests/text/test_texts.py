import datasets
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert.tasks.columns.tables import is_table
from keras_bert.tasks.columns.text_columns import rows_of
from keras_bert.tasks.columns.value_columns import number_column
from keras_bert.text.texts import as_texts


class PolarsFrame(list):
    """What a DataFrame of polars has: a list of columns, and a shape, but no ndim."""

    columns = ("label",)
    shape = (1, 1)


class LazyFrame:
    def collect(self):
        raise AssertionError


@pytest.mark.parametrize(
    "texts",
    [
        ["é", "b"],
        ("é", "b"),
        np.array(["é", "b"]),
        np.array(["é", "b"], object),
        np.array(["é".encode(), b"b"]),
        pd.Series(["é", "b"], index=[7, 3]),
        pd.Series(["é", "b"], dtype="string"),
        tf.constant(["é", "b"]),
        (text for text in ("é", "b")),
    ],
)
def test_batches(texts):
    assert as_texts(texts).numpy().tolist() == ["é".encode(), b"b"]


@pytest.mark.parametrize("text", ["é", "é".encode(), np.array("é"), np.str_("é"), tf.constant("é")])
def test_one_text(text):
    assert as_texts(text).shape == []
    assert as_texts(text).numpy() == "é".encode()


def test_an_empty_list():
    assert as_texts([]).shape == [0]
    assert as_texts([]).dtype == tf.string


@pytest.mark.parametrize(
    ("texts", "received"),
    [
        (None, r"None \(NoneType\)$"),
        (3, r"3 \(int\)$"),
        ({"text": "a"}, "dict with the keys text$"),
        (["a", None], r"if it is missing, leave it out, .*None \(NoneType\) at index 1$"),
        (["a", 2.5], r"2.5 \(float\) at index 1$"),
        (pd.Series(["a", None]), "at index 1$"),
        (pd.Series(["a", pd.NA], dtype="string"), "at index 1$"),
        ([["a"], ["b"]], r"\['a'\] \(list\) at index 0$"),
        ([("a", "b")], r"For pairs, .*\('a', 'b'\) \(tuple\) at index 0$"),
        ({"a"}, r"\(set\)$"),
        (np.array([["a"], ["b"]]), r"such as array\[:, 0\].*ndarray of shape \(2, 1\)$"),
        (pd.DataFrame({"a": ["b"], "c": ["d"]}), r"table\[name\].*DataFrame of shape \(1, 2\)$"),
        (PolarsFrame(["b"]), r"table\[name\].*PolarsFrame of shape \(1, 1\)$"),
        (datasets.Dataset.from_dict({"a": ["b"]}), r"table\[name\].*Dataset of shape \(1, 1\)$"),
        (np.array([1, 2]), "at index 0$"),
        (tf.constant([1, 2]), "dtype=int32$"),
    ],
)
def test_values_that_are_not_texts(texts, received):
    with pytest.raises(TypeError, match=r"must be (a string|strings|one column of strings)\. .*" + received):
        as_texts(texts)


def test_a_lazy_table():
    for read in (as_texts, is_table):
        with pytest.raises(TypeError, match=r"A lazy table has no rows yet\. Pass table\.collect\(\)\. Received: Lazy"):
            read(LazyFrame())
    assert is_table(pd.DataFrame({"collect": ["a"]}))


def test_a_table_in_place_of_a_column():
    for table in (PolarsFrame(["good"]), datasets.Dataset.from_dict({"label": ["good"]})):
        with pytest.raises(TypeError, match=r"A whole table was passed in place of one column.*Received: (Pol|Data)"):
            rows_of(table, "label")
    with pytest.raises(TypeError, match="A whole table was passed in place of one column"):
        number_column(datasets.Dataset.from_dict({"score": [1.0]}), "score")


def test_a_dataset():
    with pytest.raises(TypeError, match=r"dataset\.map\(preprocessor\).*Received: _TensorSliceDataset$"):
        as_texts(tf.data.Dataset.from_tensor_slices(["a"]))


def test_half_of_a_surrogate_pair():
    with pytest.raises(ValueError, match=r"U\+D83D at position 1 of the text at index 1$"):
        as_texts(["a", "b\ud83d"])
    repaired = "b\ud83d".encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # as the message says
    assert as_texts(repaired).numpy().decode() == "b\ufffd"


def test_a_tensor_of_columns():
    with pytest.raises(ValueError, match=r"shape=\(1, 2\)$"):
        as_texts(tf.constant([["a", "b"]]))
