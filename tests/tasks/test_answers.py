"""What the methods that answer take: nothing at all, and tables, as `fit` does."""

import numpy as np
import pandas as pd
import pytest

from keras_bert.tasks.rows.labelled_rows import LabelledRows
from tests.tasks.small import answers, columns, small_task

pytestmark = pytest.mark.usefixtures("eager")


@pytest.mark.parametrize("kind", ["classifier", "several", "regressor", "tagger", "pieces"])
def test_no_texts_have_no_answers(kind):
    task = small_task(kind)
    ask = {"regressor": "score", "tagger": "tag", "pieces": "tag"}.get(kind, "classify")
    assert list(getattr(task, ask)([])) == []
    assert list(getattr(task, ask)(np.array([], str))) == []


def test_the_default_batch_size(monkeypatch):
    """None is the default, as in Keras."""
    sizes, by_length = [], LabelledRows.by_length
    monkeypatch.setattr(LabelledRows, "by_length", lambda rows, size: sizes.append(size) or by_length(rows, size))
    for kind in ("classifier", "windows"):
        x, _ = columns(kind)
        small_task(kind).classify(x, batch_size=None)
    assert set(sizes) == {32}


def test_no_pairs_have_no_answers():
    for kind, ask in (("classifier", "classify"), ("cosine", "score"), ("answerer", "answer"), ("choice", "choose")):
        task = small_task(kind)
        given = ([], []) if kind in ("answerer", "choice") else (([], []),)
        assert list(getattr(task, ask)(*given)) == []


TABLES = {
    "classifier": (("text",), "label"),
    "tagger": (("text",), "label"),
    "answerer": (("question", "context"), "answers"),
    "choice": (("prompt", "choices"), "label"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_is_asked_as_it_is_learned(kind):
    """With the label or without it."""
    task, (x, y), (texts, label) = small_task(kind), columns(kind), TABLES[kind]
    x = x if isinstance(x, tuple) else (x,)
    table = pd.DataFrame({**dict(zip(texts, x, strict=True)), label: y})
    task.fit(table, epochs=1, verbose=0)
    ask = {"classifier": "classify", "tagger": "tag", "answerer": "answer", "choice": "choose"}[kind]
    options = {"top_k": 2} if kind == "answerer" else {}
    assert getattr(task, ask)(table, **options) == answers(kind, task)
    assert getattr(task, ask)(table.drop(columns=label), **options) == answers(kind, task)


def test_a_table_of_numbers():
    task, table = small_task("regressor"), pd.DataFrame({"text": ["good", "bad"], "label": [1.0, 0.0]})
    assert task.score(table).tolist() == task.score(["good", "bad"]).tolist()
    with pytest.raises(ValueError, match=r"The table lacks the column 'text'\."):
        task.score(table[["label"]])


def test_a_table_of_texts_to_embed():
    task, table = small_task("embedder"), pd.DataFrame({"text": ["good", "bad"], "label": ["a", "b"]})
    np.testing.assert_array_equal(task.embed(table), task.embed(["good", "bad"]))
    with pytest.raises(ValueError, match="For pairs of texts, x is a tuple of two such columns"):
        task.fit(table.rename(columns={"label": "positive"}), verbose=0)
