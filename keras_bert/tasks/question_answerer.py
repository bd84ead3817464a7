"""QuestionAnswerer: the part of a context that answers a question."""

import itertools
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.checks import count_of
from keras_bert.tasks.columns.text_columns import check_lengths, column, rows_of, two_columns
from keras_bert.tasks.columns.value_columns import check_not_nan, weight_column
from keras_bert.tasks.decoding.answer_spans import answer_spans, token_spans, true_texts
from keras_bert.tasks.decoding.decode_answers import MAX_ANSWER_LENGTH, answer_decoder, decode_answers
from keras_bert.tasks.decoding.in_batches import in_batches
from keras_bert.tasks.heads import check_bert, head_layer
from keras_bert.tasks.metrics import answer_scores, korquad_scores
from keras_bert.tasks.readers import Reading, Rows, tab_columns
from keras_bert.tasks.readers.squad import question_rows
from keras_bert.tasks.reports.findings import Findings, columns_by_name
from keras_bert.tasks.reports.span_findings import answer_findings
from keras_bert.tasks.rows.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.signature import Logits, Signature, strings
from keras_bert.tasks.task import Task
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.split_hangul import warn_of_split_hangul
from keras_bert.text.tensors import tf
from keras_bert.text.tokenized_rows import quickly
from keras_bert.text.windows import question_limit
from keras_bert.text_encoding import is_blank

logger = logging.getLogger("keras_bert")

LISTED = 5  # answers of the signature `answers`
CHUNK = 64  # questions whose windows are made at a time
PLACES = ("example", "start", "end", "best")
NOWHERE = -1e9


@dataclass(frozen=True)
class Answer:
    """The text `context[start:end]`, its probability among the candidates, and the next best answers.

    If the context does not answer the question (SQuAD 2.0), the text is empty, and start and end are None.
    """

    text: str
    start: int | None
    end: int | None
    score: float
    others: tuple["Answer", ...] = ()


@dataclass(frozen=True)
class Windows:
    """The contexts of some questions, and for all their windows the question and the characters of the pieces.

    places: `example` [W], `start`, `end` and `best` [W, S] of `Preprocessor.windows`.
    """

    contexts: list[str]
    places: dict[str, np.ndarray]


@keras.saving.register_keras_serializable("keras_bert")
class QuestionAnswerer(Task):
    """A Dense layer on each token that scores where the answer starts and ends (Devlin et al. 2018, sections 4.2, 4.3).

    Logits [B, 2, S], for the start and for the end, lowest at padding. `x` is a tuple of a column of questions and a
    column of contexts of any length, which are read in overlapping windows; `predict` returns a row for each window.
    `y` has an answer for each question: a text in the context, a tuple (text, start), a dict {"text", "answer_start"}
    as in SQuAD (the first of several answers is learned), or None or "" if there is none.

    Args:
        stride: pieces from one window to the next; by default a third of the preprocessor's seq_length.
        max_question_length: the most pieces of a question.
        null_threshold: how much higher than the best answer "no answer" must score to win; None: always answer.
        freeze: train only the head.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "anna", "ran"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=7)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> answer = QuestionAnswerer(bert).answer("Who ran?", "Anna ran.")
    >>> answer.text == "Anna ran."[answer.start : answer.end]
    True
    """

    command: str = "answer"
    reader = staticmethod(question_rows)
    best_score = "f1"
    long: str = "windows"
    max_question_length: int = 64
    formats: tuple[str, ...] = ("squad", "korquad")
    reading_fields: tuple[str, ...] = ("format",)
    run_fields: tuple[str, ...] = ()
    usage: str = 'task.answer("a question", "a context")'
    default_seq_length: int = 384
    heads: tuple[str, ...] = ("qa",)
    table: tuple[tuple[str, ...], str] = (("question", "context"), "answers")
    length_axis: int | None = 1
    has_even_labels: bool = False  # the positions of a row
    beyond_length: float = NOWHERE

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
        if null_threshold is not None and (not isinstance(null_threshold, Real) or not math.isfinite(null_threshold)):
            raise ValueError(
                "`null_threshold` must be a finite number. Leave it out, so that every question is answered. "
                f"Received: null_threshold={null_threshold!r}"
            )

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

    # === Files and the command line ===

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "QuestionAnswerer":
        some_without = any(not answers["text"] for answers in rows.y)
        return cls(bert, null_threshold=0.0 if some_without else None)

    def read_lines(self, lines: Sequence[tuple[int, str]], reading: Reading) -> Any:
        questions, contexts = tab_columns(lines, 2)
        for (number, _), question in zip(lines, questions, strict=True):
            if is_blank(question):
                raise ValueError(f"Line {number} has no question. Fill it in. Received: {question!r} in line {number}")
        return questions, contexts

    def report(self, y: Any, answers: list[Answer], *, characters: bool = False) -> dict[str, float]:
        """characters: score answers by characters, as KorQuAD does, and not by words, as SQuAD does."""
        true = [true_texts(answer) for answer in rows_of(y, "answer")]
        return (korquad_scores if characters else answer_scores)(true, [answer.text for answer in answers])

    def findings(self, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> Findings:
        true, answers = rows_of(y, "answer"), self.decoded(examples, logits, len(y))
        f1 = [self.report([one], [answer], **options)["f1"] for one, answer in zip(true, answers, strict=True)]
        return answer_findings(columns_by_name(x, self.table[0]), true, answers, np.array(f1), examples, logits)

    @classmethod
    def report_options(cls, reading: Reading) -> dict[str, Any]:
        return {"characters": reading.format == "korquad"}

    # === Training ===

    def _target_ids_below(self, x: dict[str, Any]) -> int | None:
        return np.shape(x["input_word_ids"])[1]  # a target is the place of a piece

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        self.class_weight_ids(class_weight)  # refuses it
        questions, contexts = _texts(x)
        if y is None:
            return self._examples(questions, contexts)
        spans = answer_spans(contexts, y)
        learned = [number for number, span in enumerate(spans) if span is not None]
        asked, given, known = ([column[number] for number in learned] for column in (questions, contexts, spans))
        return self._with_spans((asked, given), known, weight_column(sample_weight, len(spans))[learned])

    def held_out_examples(self, x: Any, y: Any, sample_weight: Any = None) -> LabelledRows:
        """All questions; those whose answer is not in the context have weight 0, and count in the scores."""
        x = _texts(x)
        spans = answer_spans(x[1], y)
        there = np.array([span is not None for span in spans], "float32")
        return self._with_spans(x, [span or (0, 0) for span in spans], weight_column(sample_weight, len(spans)) * there)

    def _with_spans(self, x: tuple[Any, Any], spans: list[Any], weight: np.ndarray) -> LabelledRows:
        examples = self._examples(*x)
        places = examples.decoding.places
        edges = np.searchsorted(places["example"], range(len(spans) + 1))  # the windows of each question
        targets = [
            token_spans(places["start"][first:last], places["end"][first:last], span)
            for span, (first, last) in zip(spans, itertools.pairwise(edges), strict=True)
        ]
        by_window = weight[places["example"]].astype("float32")  # [W]
        return replace(examples, targets=np.concatenate(targets), weights=np.stack([by_window, by_window], axis=1))

    def _examples(self, questions: list[str], contexts: list[str]) -> LabelledRows:
        limit = packer_of(self.bert).max_length
        warn_of_split_hangul([*questions, *contexts], self.bert.preprocessor)
        chunks = []
        for first in range(0, max(len(questions), 1), CHUNK):  # a few questions at a time
            part = slice(first, first + CHUNK)
            rows = self._read(questions[part], contexts[part], limit)
            found = {name: ops.convert_to_numpy(value) for name, value in rows.items()}
            chunks.append(found | {"example": found["example"] + first})
        places = {name: np.concatenate([rows[name] for rows in chunks]) for name in PLACES}
        return LabelledRows(_segments(chunks), packer_of(self.bert), decoding=Windows(contexts, places))

    def _read(self, questions: Any, contexts: Any, seq_length: int) -> dict[str, Any]:
        """The windows of questions and their contexts; see `Preprocessor.windows`."""
        return self.bert.preprocessor.windows(
            questions,
            contexts,
            seq_length=seq_length,
            stride=max(1, seq_length // 3) if self.stride is None else self.stride,
            max_question_length=question_limit(self.max_question_length, seq_length),
        )

    # === Answers ===

    def answer(
        self,
        questions: Any,
        contexts: Any = None,
        *,
        top_k: int = 1,
        max_answer_length: int = MAX_ANSWER_LENGTH,
        batch_size: int = 32,
    ) -> Any:
        """An `Answer` to each question from its context; for a single question, one `Answer`.

        questions: or, without `contexts`, a table with both columns. top_k: the number of candidates to return, the
        best one and `top_k - 1` others. max_answer_length: in pieces.
        """
        one = isinstance(questions, str)
        top_k = count_of("top_k", top_k, 1)
        max_answer_length = count_of("max_answer_length", max_answer_length, 1)
        x = ([questions], [contexts]) if one else questions if contexts is None else (questions, contexts)
        answers = self.answers(x, batch_size, top_k=top_k, max_answer_length=max_answer_length)
        return answers[0] if one else answers

    def answers(self, x: Any, batch_size: int = 32, **options: int) -> list[Answer]:
        """As of every task, a few questions at a time. The options are those of `decode`."""
        questions, contexts = _texts(self._columns(x, labels=False)[0])
        found: list[Answer] = []
        for first in range(0, len(questions), CHUNK):
            part = slice(first, first + CHUNK)
            with quickly(self.bert.preprocessor, questions[part]):
                examples = self._examples_to_answer((questions[part], contexts[part]))
                logits = self.logits(examples, batch_size)
                check_not_nan(logits)
                found += self.decoded(examples, logits, len(questions[part]), **options)
        return found

    def decode(
        self,
        examples: LabelledRows,
        logits: list[np.ndarray],
        *,
        top_k: int = 1,
        max_answer_length: int = MAX_ANSWER_LENGTH,
    ) -> list[Answer]:
        """An `Answer` to each question; see `answer`. `logits` has a row for each window."""
        windows: Windows = examples.decoding
        with tf.device("CPU:0"):
            found = answer_decoder()(
                windows.places,
                self.stack_logits(logits) if logits else np.zeros((0, 2, 1), "float32"),  # [W, 2, S]
                tf.constant(windows.contexts, tf.string),
                null_threshold=self._threshold(),
                top_k=tf.constant(top_k),
                max_answer_length=tf.constant(max_answer_length),
            )
        columns = (np.asarray(found[name]).tolist() for name in ("text", "start", "end", "score", "count"))
        return [_answer(*row) for row in zip(*columns, strict=True)]

    def _threshold(self) -> "tf.Tensor":
        """`null_threshold` as `decode_answers` takes it, NaN for None."""
        return tf.constant(float("nan") if self.null_threshold is None else self.null_threshold, tf.float64)

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        """`text`, `start`, `end`, `score` [B]; without an answer the text is empty, and start and end are -1.

        `truncated`: the question was truncated. A context never is: it is read in as many windows as it takes.
        The signature `answers` has the same for the best five, [B, 5], of which `count` [B] are answers.
        """
        room = question_limit(self.max_question_length, seq_length)

        def answers(question: tf.Tensor, context: tf.Tensor, top_k: int) -> dict[str, tf.Tensor]:
            windows = self._read(question, context, seq_length)
            of_windows = in_batches(logits, {name: windows[name] for name in self.bert.input}, (2, None))  # [W, 2, S]
            found = decode_answers(windows, of_windows, context, null_threshold=self._threshold(), top_k=top_k)
            lengths = without_words(self.bert.preprocessor.tokenize(question)).row_lengths()
            return {**found, "score": tf.cast(found["score"], tf.float32), "truncated": lengths > room}

        def listed(question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
            return answers(question, context, LISTED)

        def best(question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
            found = answers(question, context, 1)
            first = {name: found[name][:, 0] for name in ("text", "start", "end", "score")}
            return {**first, "truncated": found["truncated"]}

        inputs = strings("question", "context")
        return {"serving_default": Signature(best, inputs), "answers": Signature(listed, inputs)}


def _answer(texts: list[bytes], starts: list[int], ends: list[int], scores: list[float], count: int) -> Answer:
    columns = zip(texts[:count], starts, ends, scores, strict=False)
    best, *others = (
        Answer(text.decode(), None if start < 0 else start, None if end < 0 else end, score)
        for text, start, end, score in columns
    )
    return replace(best, others=tuple(others))


def _texts(x: Any) -> tuple[list[str], list[str]]:
    given = two_columns(x, "questions", "contexts")
    questions, contexts = column(given[0], "question"), column(given[1], "context")
    check_lengths(questions=questions, contexts=contexts)
    for row, question in enumerate(questions):
        if is_blank(question):
            raise ValueError(f"The question at row {row} is empty. Fill it in, or drop the row. Received: {question!r}")
    return questions, contexts


def _segments(windows: list[dict[str, np.ndarray]]) -> list[Any]:
    """The question and the part of the context of each window, ragged ids [W, (pieces)]."""
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
