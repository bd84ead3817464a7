"""QuestionAnswerer: the part of a context that answers a question."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.tasks.columns import check_lengths, column, is_missing, rows_of, weights
from keras_bert.tasks.decoding.answer_spans import Candidate, best_spans, find_answer, text_and_start, token_spans
from keras_bert.tasks.heads import check_bert, head_layer
from keras_bert.tasks.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.task import Task
from keras_bert.text.offsets import behind_marks

logger = logging.getLogger("keras_bert")

CHUNK = 64  # questions whose windows are made at a time
NOWHERE = -1e9


@dataclass(frozen=True)
class Answer:
    """context[start:end], its probability among the candidates, and the next best ones.

    Where there is no answer (SQuAD 2.0), the text is empty, and start and end are None.
    """

    text: str
    start: int | None
    end: int | None
    score: float
    others: tuple["Answer", ...] = ()


@keras.saving.register_keras_serializable("keras_bert")
class QuestionAnswerer(Task):
    """A Dense layer on each token that tells where the answer starts and ends (Devlin et al. 2018, sections 4.2, 4.3).

    Logits [B, 2, S], of the start and of the end, lowest at padding. `x` is a tuple of a column of questions and a
    column of contexts of any length, which are read in overlapping windows; `predict` gives a row for each window.
    `y` has for each question the answer: a text of the context, a tuple (text, start), a dict {"text", "answer_start"}
    as SQuAD has it (of several answers the first is learned), or None or "" where there is none.

    Arguments: stride: pieces from one window to the next, by default a third of the preprocessor's seq_length, as in
    the paper. max_question_length: pieces of the question that are kept. null_threshold: how much better than the best
    answer "no answer" must score to be the one; None: always answer. freeze: train the head alone.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "anna", "ran"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=7)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> answer = QuestionAnswerer(bert).answer("Who ran?", "Anna ran.")
    >>> answer.text == "Anna ran."[answer.start : answer.end]
    True
    """

    heads: tuple[str, ...] = ("qa",)
    table: tuple[tuple[str, ...], str] = (("question", "context"), "answers")
    length_axis: int | None = 1

    def __init__(
        self,
        bert: Bert,
        *,
        stride: int | None = None,
        max_question_length: int = 64,
        null_threshold: float | None = None,
        freeze: bool = False,
        name: str | None = None,
    ) -> None:
        check_bert(bert)

        # === Layers ===
        qa = head_layer(2, bert, name="qa")

        # === Functional model ===
        logits = ops.swapaxes(qa(bert.output["sequence_output"]), 1, 2)  # [B, 2, S]
        real = ops.expand_dims(ops.not_equal(bert.input["input_mask"], 0), 1)  # [B, 1, S]
        logits = ops.where(real, logits, NOWHERE)  # [B, 2, S]
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)

        # === Config ===
        self.stride = stride
        self.max_question_length = max_question_length
        self.null_threshold = null_threshold

    def get_config(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in ("stride", "max_question_length", "null_threshold")}
        return {**super().get_config(), **settings}

    # === Training ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        if class_weight is not None:
            raise ValueError("class_weight is for labels. Give sample_weight. Received: class_weight for answers")
        questions, contexts = _texts(x)
        packer = packer_of(self.bert)
        if y is None:
            windows = [rows for _, rows in self._windows(questions, contexts)]
            return LabelledRows(_segments(windows), packer)
        answers = [None if is_missing(answer) else answer for answer in rows_of(y, "answer")]
        spans = _spans(contexts, answers)
        weight = weights(sample_weight, len(questions))
        kept = [number for number, span in enumerate(spans) if span is not None]
        windows, targets, own = [], [], []
        for part, rows in self._windows([questions[i] for i in kept], [contexts[i] for i in kept]):
            windows.append(rows)
            for number, question in enumerate(kept[part : part + CHUNK]):
                shown = rows["example"] == number
                targets.append(token_spans(rows["start"][shown], rows["end"][shown], spans[question] or (0, 0)))
                own.append(np.full(targets[-1].shape, weight[question], "float32"))
        return LabelledRows(_segments(windows), packer, targets=np.concatenate(targets), weights=np.concatenate(own))

    def _windows(self, questions: list[str], contexts: list[str]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The number of the first question of each chunk, and the chunk's windows; see `Preprocessor.windows`."""
        limit = packer_of(self.bert).max_length
        for first in range(0, len(questions), CHUNK):
            part = slice(first, first + CHUNK)
            rows = self.bert.preprocessor.windows(
                questions[part],
                contexts[part],
                seq_length=limit,
                stride=max(1, limit // 3) if self.stride is None else self.stride,
                max_question_length=min(self.max_question_length, limit // 2),
            )
            yield first, {name: ops.convert_to_numpy(value) for name, value in rows.items()}

    # === Answers ===

    def answer(
        self, questions: Any, contexts: Any, *, top_k: int = 1, max_answer_length: int = 30, batch_size: int = 32
    ) -> Any:
        """An `Answer` to each question out of its context; to one question, the one.

        top_k: how many candidates to tell, the best and `top_k - 1` others. max_answer_length: in pieces.
        """
        one = isinstance(questions, str)
        asked, given = _texts(([questions], [contexts]) if one else (questions, contexts))
        if top_k < 1 or max_answer_length < 1:
            raise ValueError(
                f"top_k and max_answer_length must be at least 1. Received: {top_k} and {max_answer_length}"
            )
        packer = packer_of(self.bert)
        answers: list[Answer] = []
        for first, rows in self._windows(asked, given):
            logits = self.logits(LabelledRows(_segments([rows]), packer), batch_size)
            for number in range(len(given[first : first + CHUNK])):
                own = np.flatnonzero(rows["example"] == number)
                spans = [(rows["start"][i], rows["end"][i], rows["best"][i], logits[i]) for i in own]
                found = best_spans(spans, max_answer_length)
                answers.append(self._answer(given[first + number], *found, top_k))
        return answers[0] if one else answers

    def _answer(self, context: str, candidates: list[Candidate], null: float, top_k: int) -> Answer:
        if self.null_threshold is not None or not candidates:
            nothing = Candidate(null, None, None)
            wins = not candidates or null - candidates[0].score > (self.null_threshold or 0.0)
            best = nothing if wins else candidates[0]
            candidates = sorted([nothing, *candidates], key=lambda one: (one is not best, -one.score))
        scores = np.array([candidate.score for candidate in candidates])
        scores = np.exp(scores - scores.max())
        scores /= scores.sum()
        told = [_told(context, candidate, float(score)) for candidate, score in zip(candidates, scores, strict=True)]
        first, *others = told[:top_k]
        return Answer(first.text, first.start, first.end, first.score, tuple(others))


def _told(context: str, candidate: Candidate, score: float) -> Answer:
    start, end = candidate.start, candidate.end
    if start is None or end is None:
        return Answer("", None, None, score)
    end = behind_marks(context, end)
    return Answer(context[start:end], start, end, score)


def _texts(x: Any) -> tuple[list[str], list[str]]:
    if not isinstance(x, tuple) or len(x) != 2:
        raise TypeError("x must be a tuple: a column of questions and a column of contexts.")
    questions, contexts = column(x[0], "question"), column(x[1], "context")
    check_lengths(questions=questions, contexts=contexts)
    for row, question in enumerate(questions):
        if not question.strip():
            raise ValueError(f"A question must not be empty. Drop the row. Received: {question!r} at row {row}")
    return questions, contexts


def _spans(contexts: list[str], y: list[Any]) -> list[tuple[int, int] | None]:
    """The characters of each answer, (0, 0) where there is none; None for what is not in its context, which is told."""
    check_lengths(questions=contexts, answers=y)
    spans = [find_answer(context, given, row) for row, (context, given) in enumerate(zip(contexts, y, strict=True))]
    lost = [row for row, span in enumerate(spans) if span is None]
    if len(lost) == len(spans):
        raise ValueError(
            f"An answer must be a part of its context. Received: {y[0]!r}, which none holds, nor the others"
        )
    if lost:
        named = ", ".join(f"{text_and_start(y[row], row)[0]!r} at row {row}" for row in lost[:5])
        logger.warning("%d of %d answers are not in their contexts and left out: %s", len(lost), len(spans), named)
    return spans


def _segments(windows: list[dict[str, np.ndarray]]) -> list[Any]:
    """The question and the part of the context of each window, ragged ids [W, (pieces)]."""
    import tensorflow as tf

    question, context, sizes = [], [], []
    for rows in windows:
        ids, real = rows["input_word_ids"], rows["input_mask"] != 0
        second = rows["input_type_ids"] == 1
        asked = real & ~second
        asked[:, 0] = False
        asked[np.arange(len(ids)), (real & ~second).sum(1) - 1] = False  # [SEP]
        shown = rows["start"] >= 0
        question.append(ids[asked])
        context.append(ids[shown])
        sizes.append(np.stack([asked.sum(1), shown.sum(1)]))  # [2, W]
    lengths = np.concatenate(sizes, axis=1)
    with tf.device("CPU:0"):
        return [
            tf.RaggedTensor.from_row_lengths(np.concatenate(values), rows)
            for values, rows in zip((question, context), lengths, strict=True)
        ]
