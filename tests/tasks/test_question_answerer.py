"""QuestionAnswerer: its windows, its spans, and what is wrong with answers."""

import dataclasses

import numpy as np
import pytest

from keras_bert import Bert, Preprocessor
from keras_bert.tasks.decoding.answer_spans import Candidate, best_spans, find_answer, token_spans
from keras_bert.tasks.question_answerer import QuestionAnswerer
from tests.tasks.small import QUESTIONS, VOCABULARY, small_bert, small_task

pytestmark = pytest.mark.usefixtures("eager")


def test_where_answers_stand():
    context = "ran, Anna ran"
    assert find_answer(context, "ran", 0) == (0, 3)
    assert find_answer(context, ("ran", 9), 0) == (10, 13)  # the nearest
    assert find_answer(context, {"text": "ran", "answer_start": 10}, 0) == (10, 13)
    assert find_answer(context, {"text": ["Anna", "ran"], "answer_start": np.array([5, 10])}, 0) == (5, 9)
    assert find_answer(context, "Paul", 0) is None
    assert find_answer(context, (" ran ", 9), 0) == (10, 13)  # no token holds the spaces
    for nothing in (None, "", {"text": [], "answer_start": []}):
        assert find_answer(context, nothing, 0) == (0, 0)
    for wrong in (5, ("ran", 0.5), ["ran"]):
        with pytest.raises(TypeError, match="row 7"):
            find_answer(context, wrong, 7)


def test_token_spans():
    start = np.array([[-1, -1, 0, 4, 9, -1], [-1, -1, 9, 15, -1, -1]])
    end = np.array([[-1, -1, 3, 8, 12, -1], [-1, -1, 12, 18, -1, -1]])
    assert token_spans(start, end, (4, 12)).tolist() == [[3, 4], [0, 0]]
    assert token_spans(start, end, (5, 6)).tolist() == [[3, 3], [0, 0]]  # a part of a token
    assert token_spans(start, end, (9, 14)).tolist() == [[4, 4], [2, 2]]  # no piece at 12 and 13
    assert token_spans(start, end, (4, 16)).tolist() == [[0, 0], [0, 0]]  # goes on behind either window
    assert token_spans(start, end, (20, 22)).tolist() == [[0, 0], [0, 0]]
    assert token_spans(start, end, (0, 0)).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("answer", ["Rome\u200b", "\u200bRome", "Rome\u0301", "Rome\ufe0f\u00ad"])
def test_characters_without_pieces_at_an_answer_s_ends(answer):
    bert = small_bert()
    task = small_task("answerer", Bert(bert.config, Preprocessor(VOCABULARY, seq_length=16)))
    x = ["where?"], [f"Anna lives in {answer} ."]
    assert task.examples(x, [answer]).targets.tolist() == [[8, 8]]  # [CLS] where ? [SEP] an ##na lives in


def test_best_spans_against_all_spans():
    rng = np.random.default_rng(0)
    windows, expected, null = [], {}, np.inf
    for first in (0, 4):
        start = np.r_[-1, -1, np.arange(first, first + 8) * 2, -1]
        end = np.where(start < 0, -1, start + 1)
        own = start >= (0 if first == 0 else 8)  # each token is one window's own
        own &= (start < 10) | (first > 0)
        logits = rng.standard_normal((2, len(start))).astype("float32")
        windows.append((start, end, own, logits))
        null = min(null, logits[0, 0] + logits[1, 0])
        for i in np.flatnonzero(own):
            for j in range(i, min(i + 3, 10)):
                span = start[i], end[j]
                expected[span] = max(expected.get(span, -np.inf), logits[0, i] + logits[1, j])
    found, lowest = best_spans(windows, max_length=3)
    ranked = sorted(expected.items(), key=lambda item: -item[1])[:20]
    assert [(c.start, c.end) for c in found] == [span for span, _ in ranked]
    assert [c.score for c in found] == pytest.approx([score for _, score in ranked], rel=1e-6)
    assert lowest == pytest.approx(null)


def test_targets_point_at_the_answer_in_each_window():
    task = small_task("answerer")
    context = "the film was good . " * 6 + "Anna lives in Rome ."
    examples = task.examples((["who lives?"], [context]), ["Rome"])
    rome = task.bert.preprocessor.vocabulary["rome"]
    held = 0
    for x, y, weight in examples.batches(1, by_length=False)[1]:
        ids, (start, end) = x["input_word_ids"].numpy()[0], y.numpy()[0]
        assert (rome in ids) == (start > 0)
        assert start == end
        if start:
            assert ids[start] == rome
        held += bool(start)
        assert weight.numpy().tolist() == [[1, 1]]
    assert held >= 1
    assert len(examples) > 3


def test_answers_of_a_context_of_a_hundred_thousand_characters():
    task = small_task("answerer", small_bert(seq_length=32))
    context = "the film was good . " * 5000
    answer = task.answer("who?", context, top_k=3)
    assert len(context) == 100_000
    assert all(context[one.start : one.end] == one.text for one in (answer, *answer.others))
    assert len(answer.others) == 2
    assert answer.score >= answer.others[0].score
    assert set(dataclasses.asdict(answer)) == {"text", "start", "end", "score", "others"}


def test_no_answer_is_one_where_it_is_asked_for():
    task = small_task("answerer")
    assert task.answer(*QUESTIONS)[0].text
    task.null_threshold = -1e6
    answer = task.answer(*QUESTIONS)[0]
    assert (answer.text, answer.start, answer.end) == ("", None, None)
    task.null_threshold = 1e6
    assert task.answer(*QUESTIONS)[0].text
    assert task.answer("who?", "").text == ""  # nothing to copy from


def test_candidates_are_in_order_and_hold_their_marks():
    task = small_task("answerer")
    task.null_threshold = 0.0
    told = task._answer("Rome\u0301 and Anna", [Candidate(3.0, 0, 4), Candidate(1.0, 10, 14)], null=2.0, top_k=3)
    assert [(one.text, one.end) for one in (told, *told.others)] == [("Rome\u0301", 5), ("", None), ("Anna", 14)]
    assert told.score > told.others[0].score > told.others[1].score
    task.null_threshold = -4.0
    told = task._answer("Rome", [Candidate(3.0, 0, 4)], null=0.0, top_k=2)
    assert [told.text, told.others[0].text] == ["", "Rome"]
    assert task._answer("", [], null=0.0, top_k=2).text == ""


def test_answers_that_are_not_in_their_contexts_are_counted_and_named(caplog):
    task = small_task("answerer")
    task.fit(QUESTIONS, ["Rome", "Paris"], epochs=1, verbose=0)
    assert "1 of 2 answers are not in their contexts" in caplog.text
    assert "'Paris' at row 1" in caplog.text
    with pytest.raises(ValueError, match="part of its context"):
        task.fit(QUESTIONS, ["London", "Paris"], verbose=0)


def test_bad_examples():
    task = small_task("answerer")
    with pytest.raises(ValueError, match=r"question must not be empty.*row 1"):
        task.answer(["who?", " "], ["a", "b"])
    with pytest.raises(ValueError, match="2 questions, 1 contexts"):
        task.answer(["who?", "where?"], ["a"])
    with pytest.raises(ValueError, match="top_k"):
        task.answer("who?", "a", top_k=0)
    with pytest.raises(TypeError, match="tuple"):
        task.fit(["who?"], ["a"], verbose=0)
    with pytest.raises(TypeError, match="must be a Bert"):
        QuestionAnswerer("base")
