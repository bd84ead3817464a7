"""What is said of numbers and categories that cannot be used."""

import datetime
import logging

import pytest

from keras_bert import OtherColumns, TextRegressor
from keras_bert.tasks.readers import read_labels
from tests.tasks.priced_reviews import UNSEEN, learned, small, some
from tests.tasks.small import small_bert


def bad_files(tmp_path):
    head = "text\tprice\tbrand\tlabel"
    cells = {"nan": "nan", "text": "cheap", "infinite": "1e99", "empty": "", "comma": "1,5"}
    for name, cell in cells.items():
        path = tmp_path / f"{name}.tsv"
        path.write_text(f"{head}\na\t1\tx\tyes\nb\t{cell}\ty\tno\nc\t3\tz\tno\n")
        yield path


def test_bad_numbers_in_files(tmp_path, caplog):
    for path in bad_files(tmp_path):
        where = rf"{path.name}, line 3: the value in column 'price'"
        with pytest.raises(ValueError, match=f"{where} is not a finite float32 number"):
            read_labels(path, number=["price"])
        rows = read_labels(path, number=["price"], category=["brand"], skip_bad=True)
        assert rows.x == (["a", "c"], [1.0, 3.0], ["x", "z"])
        assert rows.y == ["yes", "no"]
        assert "Dropped 1 row" in caplog.text
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "x", "brand": ["b"]}\n')
    with pytest.raises(ValueError, match=r"a.jsonl, line 1: the value in column 'brand' is neither"):
        read_labels(path, category=["brand"])
    with pytest.raises(ValueError, match=r"has no column 'price'. Name one of its columns: 'text', 'label', 'brand'"):
        read_labels(path, number=["price"])


def test_bad_columns():
    with pytest.raises(ValueError, match=r'Use pairs="together"'):
        TextRegressor(small_bert(), pairs="cosine", other_columns=learned())
    with pytest.raises(TypeError, match=r"must be an OtherColumns.*Received: other_columns=\['price'\]"):
        TextRegressor(small_bert(), other_columns=["price"])
    for names in ({"numbers": ["text"]}, {"numbers": ["a b"], "categories": ["a_b"]}):
        rows = {name: [1, 2] for name in ("text", "a b", "a_b")}
        with pytest.raises(ValueError, match="no two names may be the same"):
            OtherColumns.learn(rows, **names)
    with pytest.raises(ValueError, match="needs at least one column"):
        OtherColumns()
    for unit in (1e-9, 1e30):
        with pytest.raises(ValueError, match=r"'a' of the table are too small or too large for float32.*deviation of"):
            OtherColumns.learn({"a": [unit, 2 * unit]}, numbers=["a"])
    with pytest.raises(ValueError, match="no rows in the table"):
        OtherColumns.learn({"a": []}, numbers=["a"])
    with pytest.raises(ValueError, match=r"The table lacks the column 'b'\."):
        OtherColumns.learn({"a": [1]}, numbers=["b"])
    task, rows = small(), some(UNSEEN)
    wrong = {
        r"number in column 'price' at row 2 is a string": {"price": [1.0, 2.0, "3", 4.0, 5.0, 6.0, 7.0]},
        r"number in column 'year' at row 0 is not a finite": {"year": [None, 1, 2, 3, 4, 5, 6]},
        r"number in column 'year' at row 1 is not a finite": {"year": [1, float("inf"), 2, 3, 4, 5, 6]},
        r"number in column 'year' at row 1 .*datetime.date": {"year": [1, datetime.date(2026, 1, 1), 2, 3, 4, 5, 6]},
        r"category in column 'kind' at row 1 is neither": {"kind": [1, 0.5, 2, 3, 4, 5, 6]},
        r"differ in length.*`text` of length 7, `price` of length 6": {"price": [1.0] * 6},
    }
    for message, change in wrong.items():
        with pytest.raises((ValueError, TypeError), match=message):
            task.predict(rows | change)
    for x in (["a text"], ("a", "b"), ["a text"] * 2):
        with pytest.raises(ValueError, match=r"and then the columns 'price', 'year', 'brand', 'kind'. Pass a tuple"):
            task.predict(x)
    with pytest.raises(ValueError, match=r"The table lacks the columns 'year', 'brand', 'kind'\."):
        task.predict({"text": ["a"], "price": [1.0]})


@pytest.mark.usefixtures("eager")
def test_unknown_categories_are_counted_once(caplog):
    task = small()
    task.predict(some(UNSEEN))
    said = [record.getMessage() for record in caplog.records if "unknown categories" in record.getMessage()]
    assert said[0].startswith(
        "Column 'brand' has unknown categories in 3 of 7 rows, the first at row 1, counted from 0: 'none'."
    )
    assert said[1].startswith(
        "Column 'kind' has unknown categories in 1 of 7 rows, the first at row 1, counted from 0: '9'."
    )
    assert len(said) == 2


def test_categories_without_end_are_bounded(caplog):
    """Of a column with a name for each row, the model knows some, and has weights for no more."""
    caplog.set_level(logging.WARNING)
    names = ["often", *map(str, range(300_000))] * 2 + ["often"]
    columns = OtherColumns.learn({"id": names}, categories=["id"])
    assert len(columns.categories["id"]) == 1000
    assert columns.categories["id"][0] == "often"
    assert "Column 'id' has 300001 categories. The model knows the 1000 most frequent ones" in caplog.text
    task = TextRegressor(small_bert(), other_columns=columns)
    assert task.get_layer("other_columns").kernel.shape == (1001, 8)
