"""QuestionAnswerer: its windows, its spans, and what is wrong with answers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import Bert, Preprocessor
from keras_bert.tasks.decoding.answer_spans import find_answer, token_spans, true_texts
from keras_bert.tasks.decoding.decode_answers import BEST, best_spans, decode_answers
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
    for nothing in (None, "", {"text": [], "answer_start": []}, {"text": None}, {}):
        assert true_texts(nothing) in ([], [""])
        assert find_answer(context, nothing, 0) == (0, 0)
    starts = ({"text": ["ran"], "answer_start": []}, {"text": "ran", "answer_start": [5]})
    for wrong in (5, ("ran", 0.5), ["ran"], *starts):
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
    windows, expected, null = {"start": [], "end": [], "best": [], "example": [0, 0]}, {}, np.inf
    logits = rng.standard_normal((2, 2, 11)).astype("float32")
    for first, own_logits in zip((0, 4), logits, strict=True):
        start = np.r_[-1, -1, np.arange(first, first + 8) * 2, -1]
        end = np.where(start < 0, -1, start + 1)
        own = start >= (0 if first == 0 else 8)  # each token is one window's own
        own &= (start < 10) | (first > 0)
        for name, values in (("start", start), ("end", end), ("best", own)):
            windows[name].append(values)
        null = min(null, own_logits[0, 0] + own_logits[1, 0])
        for i in np.flatnonzero(own):
            for j in range(i, min(i + 3, 10)):
                span = start[i], end[j]
                expected[span] = max(expected.get(span, -np.inf), own_logits[0, i] + own_logits[1, j])
    windows = as_windows(**windows)
    _, start, end, scores = (x.numpy() for x in best_spans(windows, logits, 3))
    ranked = sorted(expected.items(), key=lambda item: -item[1])[:20]
    assert [*zip(start, end, strict=True)] == [span for span, _ in ranked]
    assert scores == pytest.approx([score for _, score in ranked], rel=1e-6)
    settings = {"top_k": 21, "max_answer_length": 3}
    found = decode_answers(
        windows, logits, tf.constant(["x" * 40]), null_threshold=tf.constant(-1e6, "float64"), **settings
    )
    chances = np.exp([null, *(score for _, score in ranked)])
    assert found["start"].numpy()[0].tolist()[: len(chances)] == [-1, *(start for (start, _), _ in ranked)]
    assert found["score"].numpy()[0, : len(chances)] == pytest.approx(chances / chances.sum(), rel=1e-6)


def as_windows(example, start, end, best):
    columns = {"example": example, "start": start, "end": end}
    return {name: tf.constant(np.array(values, "int32")) for name, values in columns.items()} | {
        "best": tf.constant(np.array(best))
    }


def spans_one_by_one(example, start, end, best, logits, max_answer_length):
    """By question, what google-research's run_squad keeps: a loop over starts and ends, the first of equal scores."""
    found = {}
    for number, starts, ends, own, (of_start, of_end) in zip(example, start, end, best, logits, strict=True):
        spans = found.setdefault(number, {})
        first = [i for i in np.argsort(-of_start, kind="stable") if own[i] and starts[i] >= 0][:BEST]
        last = [i for i in np.argsort(-of_end, kind="stable") if starts[i] >= 0][:BEST]
        for i in first:
            for j in last:
                if 1 <= j - i + 1 <= max_answer_length:
                    span = (starts[i], ends[j])
                    spans[span] = max(spans.get(span, -np.inf), of_start[i] + of_end[j])
    return {number: sorted(spans.items(), key=lambda item: -item[1])[:BEST] for number, spans in found.items() if spans}


@pytest.mark.parametrize("seed", range(8))
def test_best_spans_of_several_questions(seed):
    """Equal scores too; and several pieces of one character, as of 온, whose letters may be cut apart."""
    rng = np.random.default_rng(seed)
    example = np.sort(rng.integers(0, 3, 5))
    start = np.full((5, 40), -1)
    start[:, 4:37] = np.sort(rng.integers(0, 12, (5, 33)))
    start[rng.integers(5)] = -1  # a window without a piece
    end = np.where(start >= 0, start + 1, -1)
    own = rng.random((5, 40)) < 0.7
    logits = rng.standard_normal((5, 2, 40)).astype("float32")
    if seed % 2:
        logits = np.round(logits)  # ties
    found = best_spans(as_windows(example, start, end, own), tf.constant(logits), 30)
    question, first, last, scores = (x.numpy().tolist() for x in found)
    expected = spans_one_by_one(example, start, end, own, logits, 30)
    listed = [(number, *span, score) for number, spans in expected.items() for span, score in spans]
    assert [*zip(question, first, last, scores, strict=True)] == listed


def test_targets_point_at_the_answer_in_each_window():
    task = small_task("answerer")
    context = "the film was good . " * 6 + "Anna lives in Rome ."
    examples = task.examples((["who lives?"], [context]), ["Rome"])
    rome = task.bert.preprocessor.vocabulary["rome"]
    held = 0
    for x, y, weight in examples.batches(1):
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


def answers_of(task, context, spans, null, top_k):
    """The answer where these spans (score, start, end) are the best candidates, and no answer has this score."""
    examples = task.examples((["who?"], [context]))
    places = examples.decoding.places
    logits = np.full((len(places["example"]), 2, places["start"].shape[1]), -np.inf, "float32")
    logits[:, :, 0] = null / 2
    for number, (score, start, end) in enumerate(spans):
        first, last = (np.argwhere(places[name] == at)[0, 1] for name, at in (("start", start), ("end", end)))
        logits[0, 0, first], logits[0, 1, last] = score + 10 * number, -10 * number  # a longer span is worse
    return task.decode(examples, list(logits), top_k=top_k)[0]


def test_candidates_are_in_order_and_hold_their_marks():
    bert = small_bert()
    task = small_task("answerer", Bert(bert.config, Preprocessor(VOCABULARY, seq_length=16)))  # strips accents
    task.null_threshold = 0.0
    context = "Rome\u0301 . Rome"
    told = answers_of(task, context, [(3.0, 0, 4), (1.0, 8, 12)], null=2.0, top_k=3)
    assert [(one.text, one.end) for one in (told, *told.others)] == [("Rome\u0301", 5), ("", None), ("Rome", 12)]
    assert told.score > told.others[0].score > told.others[1].score
    task.null_threshold = -4.0
    told = answers_of(task, "Rome", [(3.0, 0, 4)], null=0.0, top_k=2)
    assert [told.text, told.others[0].text] == ["", "Rome"]
    assert told.score < told.others[0].score
    assert answers_of(task, "", [], null=0.0, top_k=2).text == ""
    assert answers_of(task, "", [], null=0.0, top_k=2).others == ()


def test_answers_that_are_not_in_their_contexts_are_counted_and_named(caplog):
    task = small_task("answerer")
    task.fit(QUESTIONS, ["Rome", "Paris"], epochs=1, verbose=0)
    assert "do not count in the loss: 1 of 2, such as" in caplog.text
    assert "'Paris' at row 1" in caplog.text
    with pytest.raises(ValueError, match="in its context"):
        task.fit(QUESTIONS, ["London", "Paris"], verbose=0)


def test_bad_examples():
    task = small_task("answerer")
    with pytest.raises(ValueError, match=r"question at row 1 is empty"):
        task.answer(["who?", " "], ["a", "b"])
    with pytest.raises(ValueError, match="`questions` of length 2, `contexts` of length 1"):
        task.answer(["who?", "where?"], ["a"])
    with pytest.raises(ValueError, match="top_k"):
        task.answer("who?", "a", top_k=0)
    with pytest.raises(TypeError, match="tuple"):
        task.fit(["who?"], ["a"], verbose=0)
    with pytest.raises(TypeError, match="must be a Bert"):
        QuestionAnswerer("base")
    for threshold in ("high", float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="`null_threshold` must be a finite number"):
            QuestionAnswerer(task.bert, null_threshold=threshold)
