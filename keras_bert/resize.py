"""More tokens and longer texts for a `Bert` that is trained already."""

import dataclasses
import logging
from collections.abc import Iterable

import numpy as np

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.names import Stored

logger = logging.getLogger("keras_bert")


def add_tokens(vocabulary: Vocabulary, tokens: Iterable[str]) -> Vocabulary:
    """The vocabulary with more tokens: the [unusedN] slots first, whose vectors are there but untrained, then the end.

    >>> vocabulary = Vocabulary(["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]"])
    >>> add_tokens(vocabulary, ["covid", "##19"]).tokens
    ('[PAD]', 'covid', '[UNK]', '[CLS]', '[SEP]', '##19')
    """
    pieces = list(vocabulary.tokens)
    slots = [i for i, piece in enumerate(pieces) if piece.startswith("[unused") and piece.endswith("]")]
    new = [token for token in dict.fromkeys(tokens) if token not in vocabulary]
    for slot, token in zip(slots, new, strict=False):
        pieces[slot] = token
    return Vocabulary([*pieces, *new[len(slots) :]])


def resize(
    bert: Bert, *, vocabulary: Vocabulary | None = None, max_position_embeddings: int | None = None, seed: int = 0
) -> Bert:
    """A new `Bert` with this vocabulary and this many positions, and the weights of `bert`.

    A piece keeps its vector wherever it stands in the new vocabulary; the vectors of new pieces and positions are drawn
    as at the start of training. The log says how many are new.
    """
    old, config = bert.config, bert.config
    checkpoint = Checkpoint.of(bert)
    weights = dict(checkpoint.weights)
    rng = np.random.default_rng(seed)
    if vocabulary is not None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                "vocabulary must be a Vocabulary. Make one with keras_bert.resize.add_tokens(vocabulary, "
                f"tokens). Received: {type(vocabulary).__name__}"
            )
        config = dataclasses.replace(config, vocab_size=len(vocabulary))
        places = {piece: i for i, piece in enumerate(bert.preprocessor.vocabulary.tokens)}
        rows = [places.get(piece, -1) for piece in vocabulary.tokens]
        weights["word_embeddings/embeddings"] = _rows(
            weights["word_embeddings/embeddings"], rows, config, rng, "pieces"
        )
    if max_position_embeddings is not None:
        config = dataclasses.replace(config, max_position_embeddings=max_position_embeddings)
        rows = [i if i < old.max_position_embeddings else -1 for i in range(max_position_embeddings)]
        name = "position_embeddings/embeddings"
        weights[name] = _rows(weights[name], rows, config, rng, "positions")
    resized = Bert(
        config,
        _preprocessor(bert, vocabulary, config.max_position_embeddings),
        dtype=bert.dtype_policy,
        remat=bert.remat,
        pooling=bert.pooling,
    )
    dataclasses.replace(checkpoint, config=config, weights=weights).assign_to(resized)
    return resized


def _rows(table: Stored, rows: list[int], config: BertConfig, rng: np.random.Generator, what: str) -> Stored:
    """The table with these rows of the old one, -1 for a new one."""
    chosen = np.array(rows)
    new = chosen < 0
    x = table.read()[chosen]  # [V, H]
    x[new] = np.clip(rng.standard_normal((int(new.sum()), x.shape[1])), -2, 2) * config.initializer_range
    logger.info("%d of %d %s are new and drawn at random.", new.sum(), len(rows), what)
    return Stored.of(x)


def _preprocessor(bert: Bert, vocabulary: Vocabulary | None, positions: int) -> Preprocessor | None:
    if bert._preprocessor is None:
        return None
    settings = bert.preprocessor.get_config() | {"max_length": positions}
    settings.pop("name")
    if vocabulary is not None:
        settings["vocabulary"] = list(vocabulary.tokens)
    if isinstance(settings["seq_length"], int):
        settings["seq_length"] = min(settings["seq_length"], positions)
    return Preprocessor.from_config(settings)
