"""Predictions of a pretrained model about text: the piece at a [MASK], and whether one text follows another."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.model import Model
from keras_bert.text.packing import Packer
from keras_bert.text.plain_tokenizer import PlainTokenizer
from keras_bert.text.preprocessor import text_columns
from keras_bert.text.rules import TextRules
from keras_bert.text.tensors import uses_tensorflow
from keras_bert.text.texts import as_texts
from keras_bert.text.tokenized_rows import TokenizedRows, pieces
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

MASK = "[MASK]"
BATCH = 32  # texts at a time
MASKS = 512  # masks at a time, each of which has a score for each piece of the vocabulary


@dataclass(frozen=True)
class Filling:
    """A piece for a [MASK], its probability, and the text with it. Other masks in the text stay as they are."""

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
    """The most likely pieces for each [MASK] in a text, best first: a list of `Filling` for each mask.

    For a list of texts, one such list for each text.
    """
    if isinstance(texts, tuple):
        raise ValueError(
            "`texts` must be one text or a list of texts, not a pair. Join the texts of the pair. Received: a tuple"
        )
    size = len(pretrainer.bert.preprocessor.vocabulary)
    if not hasattr(top_k, "__index__") or not 1 <= top_k <= size:
        raise ValueError(
            f"`top_k` must be a whole number from 1 to {size}, the size of the vocabulary. Received: top_k={top_k!r}"
        )
    column = as_texts(texts)
    given = [row.decode("utf-8", "ignore") for row in np.atleast_1d(np.asarray(column))]
    found = []
    for start in range(0, len(given), BATCH):
        found += _fill(pretrainer, given[start : start + BATCH], start, top_k)
    return found if len(column.shape) else found[0]


def _fill(pretrainer: Any, texts: list[str], start: int, top_k: int) -> list[list[list[Filling]]]:
    """The fillings of a batch of texts, the first of which has index `start`."""
    vocabulary = pretrainer.bert.preprocessor.vocabulary
    if MASK not in vocabulary:
        raise ValueError(
            f"The vocabulary has no {MASK}. Load a model that was trained with {MASK}. Received: {vocabulary}"
        )
    ids = pieces(mask_tokenizer(pretrainer.bert.preprocessor), texts)  # [B, (pieces)]
    packed = TokenizedRows([ids], _packer(pretrainer)).pack(np.arange(len(texts)))
    inputs = {name: np.asarray(x) for name, x in packed.items()}
    places = [np.flatnonzero(row == vocabulary[MASK]) for row in inputs["input_word_ids"]]  # of each text
    for index, (text, row, place) in enumerate(zip(texts, ids, places, strict=True), start):
        if MASK not in text:
            raise ValueError(
                f"The text at index {index} has no {MASK}. Write {MASK} in place of a word. Received: {text!r}"
            )
        if len(place) < np.count_nonzero(np.asarray(row) == vocabulary[MASK]):
            raise ValueError(
                f"The text at index {index} has a {MASK} beyond the model's "
                f"{pretrainer.bert.config.max_position_embeddings} positions. Shorten the text. "
                f"Received: {len(row) + 2} pieces"
            )

    def fillings(text: str, mask: int, row: np.ndarray) -> list[Filling]:
        best = [(int(id), vocabulary.token(int(id))) for id in np.argsort(-row, kind="stable")[:top_k]]
        return [Filling(token, id, float(row[id]), _filled(text, mask, token)) for id, token in best]

    found: list[list[list[Filling]]] = [[] for _ in texts]
    for group in _groups(np.array([len(place) for place in places])):
        rows = {name: x[group] for name, x in inputs.items()}
        scores = _scores(pretrainer, rows, [places[n] for n in group])[..., : len(vocabulary)]  # [G, P, V]
        for n, of_text in zip(group, scores, strict=True):
            found[n] = [fillings(texts[n], mask, of_text[mask]) for mask in range(len(places[n]))]
    return found


def _groups(masks: np.ndarray) -> Iterator[np.ndarray]:
    """The numbers of the texts in groups of at most `MASKS` masks, or of one text. P is the most masks of a group.

    masks: of each text.
    """
    order = np.argsort(-masks, kind="stable")
    while len(order):
        size = max(1, MASKS // masks[order[0]])
        yield np.sort(order[:size])
        order = order[size:]


def _scores(pretrainer: Any, inputs: dict[str, np.ndarray], places: list[np.ndarray]) -> np.ndarray:
    """The probability of each of the model's word vectors at each mask: [G, P, V]."""
    positions = np.zeros((len(places), max(map(len, places))), "int32")  # [G, P]
    for row, place in zip(positions, places, strict=True):
        row[: len(place)] = place
    run = pretrainer.runners.get(
        "fill_mask", pretrainer, lambda: keras.Model(pretrainer.input, pretrainer.output["mlm_logits"])
    )
    return _softmax(run.on_inputs({**inputs, "masked_lm_positions": positions}))


def _filled(text: str, mask: int, token: str) -> str:
    """The text with the token in place of one mask; a piece that continues a word is joined to it."""
    parts = text.split(MASK)
    before, after = MASK.join(parts[: mask + 1]), MASK.join(parts[mask + 1 :])
    return before.rstrip() + token[2:] + after if token.startswith("##") else before + token + after


def is_next(pretrainer: Any, first: Any, second: Any) -> Any:
    """Whether the second text follows the first: a `NextSentence`, or a list of them for two lists of texts."""
    if not pretrainer.nsp:
        raise ValueError(
            "This Pretrainer has no head for next sentences. Load a source that has one, or train "
            "Pretrainer(bert, nsp=True). Received: nsp=False"
        )
    columns = text_columns((first, second))
    texts = [column if len(column.shape) else column[None] for column in columns]
    rows = TokenizedRows([pieces(pretrainer.bert.preprocessor, column) for column in texts], _packer(pretrainer))
    rows.warn_of_cuts("pairs", "the number of the model's positions")
    run = pretrainer.runners.get(
        "is_next", pretrainer, lambda: Model(pretrainer.bert.input, pretrainer.output["nsp_logits"])
    )
    logits = np.zeros((len(rows), 2), "float32")
    for index in rows.by_length(BATCH):
        logits[index] = run(rows, index)
    scores = _softmax(logits)[:, 0].tolist()  # label 0 is the next sentence
    found = [NextSentence(score >= 0.5, score) for score in scores]
    return found if len(columns[0].shape) else found[0]


def mask_tokenizer(preprocessor: Any) -> Tokenizer:
    """A tokenizer that takes [MASK] in a text as the special token, and also [SEP] and the others."""
    rules = TextRules.of(preprocessor)
    kind = Tokenizer if uses_tensorflow() else PlainTokenizer
    return _mask_tokenizer(kind, preprocessor.vocabulary, rules, preprocessor.max_word_length)


@lru_cache(maxsize=2)
def _mask_tokenizer(kind: type[Tokenizer], vocabulary: Vocabulary, rules: TextRules, longest: int) -> Tokenizer:
    return kind(vocabulary, **vars(rules), special_tokens_in_text=True, max_word_length=longest)


def _packer(pretrainer: Any) -> Packer:
    """Packs rows up to the number of the model's positions."""
    return replace(pretrainer.bert.preprocessor.packer, max_length=pretrainer.bert.config.max_position_embeddings)


def _softmax(logits: Any) -> np.ndarray:
    """float32 probabilities of the last axis."""
    return np.asarray(ops.convert_to_numpy(ops.softmax(ops.cast(logits, "float32"))))
