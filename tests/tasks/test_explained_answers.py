"""What the pieces of a report speak for, in the answers of taggers, question answerers and sentence embedders."""

import keras
import numpy as np
import pytest

from tests.tasks.small import VOCABULARY, small_task

pytestmark = pytest.mark.usefixtures("eager")


def test_the_first_wrong_label_is_explained(tmp_path):
    """Also in the second part of a long text; of a word with several pieces, its first piece is named."""
    keras.utils.set_random_seed(0)
    task = small_task("tagger")
    words = ["anna", "lives", "in", "rome"] * 6  # 30 pieces
    answered = task.tag_words([words])[0]
    for place, name, example in ((0, "an", 0), (1, "lives", 0), (20, "an", 1)):
        true = [*answered]
        true[place] = "B-PER" if answered[place] == "O" else "O"
        other = task.tag_words([["film"]])[0]  # a shorter row, which is right
        report = task.write_report(tmp_path / str(place), [words, ["film"]], [true, other])
        (row,) = report["worst"]["rows"]
        assert row["for"] == f"{answered[place]} in place of {true[place]} at “{name}”"
        examples = task.examples([words], [true])
        assert row["pieces"][1:-1] == row_of_pieces(examples, example)
        explained = task.findings([words], [true], examples, task.logits(examples)).explain(0)
        assert explained.example == example


def row_of_pieces(examples, number):
    return [VOCABULARY.token(int(id)) for id in np.asarray(examples.segments[0][number])]


@pytest.mark.parametrize("right", ["Rome", "film", None])
def test_answers_are_explained_against_the_right_ones(right):
    keras.utils.set_random_seed(0)
    task = small_task("answerer")
    x = (["who lives in rome?"], ["the film was good. " * 6 + "Anna lives in Rome."])
    answer = task.answer(*x)[0]
    examples = task.held_out_examples(x, [right])
    logits = task.logits(examples)
    explained = task.findings(x, [right], examples, logits).explain(0)
    window, size = explained.example, logits[0].shape[1]
    weights = np.reshape([float(explained.value(one.reshape(1, 2, size))) for one in np.eye(2 * size)], (2, size))
    for row, name, target in zip(weights, ("start", "end"), examples.targets[window], strict=True):
        (place,) = np.flatnonzero(row > 0)
        assert examples.decoding.places[name][window][place] == getattr(answer, name)
        assert np.flatnonzero(row < 0) == [target]


def test_the_nearest_text_with_another_label_is_explained(tmp_path):
    """By the cosine with it."""
    keras.utils.set_random_seed(0)
    task = small_task("embedder")
    texts, labels = ["good", "good .", "bad", "bad ."], ["a", "b", "b", "a"]
    examples = task.labelled_examples((texts, labels, None), held_out=True)
    vectors = np.stack(task.logits(examples))
    explained = task.findings(texts, labels, examples, list(vectors)).explain(0)
    assert explained.example == 0
    assert float(explained.value(3 * vectors[[0, 0]])) == pytest.approx(2 * (vectors[1:] @ vectors[0]).max(), rel=1e-5)
    rows = task.write_report(tmp_path / "report", texts, labels)["worst"]["rows"]
    assert rows
    for one in rows:
        assert one["for"] == "a high cosine with the nearest text"
        assert len(one["pieces"]) == len(one["added"])
        assert any(one["added"])


def test_answers_from_windows_of_different_lengths(tmp_path):
    keras.utils.set_random_seed(0)
    task = small_task("answerer")
    context = "Anna lives in Rome."
    x = (["who lives in rome?"] * 3, [context, context * 2, "the film was good. " * 6 + context])
    y = [next(word for word in ("film", "Rome", "Anna") if word not in answer.text) for answer in task.answer(*x)]
    y = [right if right in text else "Rome" for right, text in zip(y, x[1], strict=True)]
    rows = task.write_report(tmp_path / "report", x, y)["worst"]["rows"]
    assert len({len(row["pieces"]) for row in rows}) > 1
