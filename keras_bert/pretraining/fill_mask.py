"""What a pretrained model says of text: what may stand at a [MASK], and whether one text follows another."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from keras import ops

from keras_bert.compat import set_untracked
from keras_bert.text.preprocessor import text_columns
from keras_bert.text.texts import as_texts
from keras_bert.text.tokenizer import Tokenizer

MASK = "[MASK]"
BATCH = 32  # texts at a time


@dataclass(frozen=True)
class Filling:
    """One piece that may stand at a [MASK], its probability, and the text with it, other masks left as they are."""

    token: str
    id: int
    score: float
    text: str


@dataclass(frozen=True)
class NextSentence:
    """Whether a text follows another, and the probability that it does."""

    is_next: bool
    score: float


def fill_mask(pretrainer: Any, texts: Any, top_k: int = 5) -> list:
    """For one text a list with the `top_k` fillings of each mask; for several texts a list of such lists."""
    if isinstance(texts, tuple):
        raise ValueError("fill_mask takes one text or a list of texts, no pairs. Join the two. Received: a tuple")
    size = pretrainer.bert.config.vocab_size
    if not hasattr(top_k, "__index__") or not 1 <= top_k <= size:
        raise ValueError(f"top_k must be 1 to {size}, the number of pieces. Received: top_k={top_k}")
    column = as_texts(texts)
    rows = np.atleast_1d(column.numpy())
    given = [row.decode("utf-8", "ignore") for row in rows]
    found = []
    for start in range(0, len(given), BATCH):
        found += _fill(pretrainer, given[start : start + BATCH], start, top_k)
    return found[0] if column.shape.rank == 0 else found


def _fill(pretrainer: Any, texts: list[str], start: int, top_k: int) -> list[list[list[Filling]]]:
    vocabulary = pretrainer.bert.preprocessor.vocabulary
    if MASK not in vocabulary:
        raise ValueError(f"The vocabulary must have the token {MASK}. Load a model that was trained with it.")
    mask = vocabulary[MASK]
    ids = _tokenizer(pretrainer).tokenize(texts).merge_dims(1, 2)  # [B, (pieces)]
    inputs = _packed(pretrainer, [ids])
    places = [np.flatnonzero(row == mask) for row in inputs["input_word_ids"]]  # of each text
    for i, (text, row, place) in enumerate(zip(texts, ids, places, strict=True)):
        if MASK not in text:
            raise ValueError(f"A text to fill must have a {MASK}. Write it where a word is sought. Received: {text!r}")
        if len(place) < np.count_nonzero(row.numpy() == mask):
            raise ValueError(
                f"Every {MASK} must stand within the model's {pretrainer.bert.config.max_position_embeddings} "
                f"positions. Shorten the text. Received: {len(row) + 2} pieces in the text at index {start + i}"
            )
    positions = np.zeros((len(texts), max(map(len, places))), "int32")  # [B, P]
    for row, place in zip(positions, places, strict=True):
        row[: len(place)] = place
    logits = pretrainer({**inputs, "masked_lm_positions": positions}, training=False)["mlm_logits"]
    scores = _softmax(logits)  # [B, P, V]
    return [
        [
            [
                Filling(vocabulary.token(int(id)), int(id), float(row[id]), _filled(text, i, vocabulary.token(int(id))))
                for id in np.argsort(-row, kind="stable")[:top_k]
            ]
            for i, row in enumerate(scores[n, : len(place)])
        ]
        for n, (text, place) in enumerate(zip(texts, places, strict=True))
    ]


def _filled(text: str, index: int, token: str) -> str:
    """The text with the token in place of one mask; a piece that goes on a word stands right behind it."""
    parts = text.split(MASK)
    before, after = MASK.join(parts[: index + 1]), MASK.join(parts[index + 1 :])
    return before.rstrip() + token[2:] + after if token.startswith("##") else before + token + after


def is_next(pretrainer: Any, first: Any, second: Any) -> Any:
    """A `NextSentence` of two texts, a list of them of two columns of texts."""
    if not pretrainer.nsp:
        raise ValueError(
            "This Pretrainer has no head of next sentences. Load a source that has one, or train "
            "Pretrainer(bert, nsp=True). Received: nsp=False"
        )
    columns = text_columns((first, second))
    found = list(_next(pretrainer, [column[None] if column.shape.rank == 0 else column for column in columns]))
    return found[0] if columns[0].shape.rank == 0 else found


def _next(pretrainer: Any, columns: list[Any]) -> Iterator[NextSentence]:
    for start in range(0, len(columns[0]), BATCH):
        tokenize = pretrainer.bert.preprocessor.tokenize
        inputs = _packed(pretrainer, [tokenize(column[start : start + BATCH]).merge_dims(1, 2) for column in columns])
        positions = np.zeros((len(inputs["input_mask"]), 1), "int32")
        logits = pretrainer({**inputs, "masked_lm_positions": positions}, training=False)["nsp_logits"]
        for score in _softmax(logits)[:, 0]:  # label 0 is the next sentence
            yield NextSentence(bool(score >= 0.5), float(score))


def _tokenizer(pretrainer: Any) -> Tokenizer:
    """The preprocessor's rules, but with [MASK] in a text as the special token; made once."""
    layer = pretrainer.bert.preprocessor
    rules = (layer.vocabulary, layer.lowercase, layer.strip_accents, layer.split_cjk)
    if getattr(pretrainer, "mask_tokenizer", (None,))[0] != rules:
        set_untracked(pretrainer, "mask_tokenizer", (rules, Tokenizer(*rules, special_tokens_in_text=True)))
    return pretrainer.mask_tokenizer[1]


def _packed(pretrainer: Any, segments: list[Any]) -> dict[str, np.ndarray]:
    """Rows as long as the longest text, up to the model's positions."""
    import tensorflow as tf

    limit = pretrainer.bert.config.max_position_embeddings
    packer = replace(pretrainer.bert.preprocessor.packer, max_length=limit)
    with tf.device("CPU:0"):
        return {name: x.numpy() for name, x in packer.pack(segments, "longest").items()}


def _softmax(logits: Any) -> np.ndarray:
    """float32 probabilities of the last axis."""
    return np.asarray(ops.convert_to_numpy(ops.softmax(ops.cast(logits, "float32"))))
