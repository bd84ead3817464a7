"""A trained `Bert` with more pieces in its vocabulary, for longer texts, or with fewer blocks."""

import logging
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_bert.checks import count_of
from keras_bert.layers.dense import blank_weights
from keras_bert.named_weights import named_weights
from keras_bert.text.vocabulary import SPECIAL, Vocabulary
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")


def add_tokens(vocabulary: Vocabulary, tokens: Iterable[str]) -> Vocabulary:
    """The vocabulary with these pieces added: first in place of [unusedN] slots, which have untrained vectors, then
    at the end.

    >>> vocabulary = Vocabulary(["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]"])
    >>> add_tokens(vocabulary, ["covid", "##19"]).tokens
    ('[PAD]', 'covid', '[UNK]', '[CLS]', '[SEP]', '##19')
    """
    if isinstance(tokens, str):
        raise TypeError(f'`tokens` must be a list of pieces, such as ["covid"]. Received: {tokens!r}')
    pieces = list(vocabulary.tokens)
    slots = [i for i, piece in enumerate(pieces) if is_slot(piece)]
    new = [token for token in dict.fromkeys(tokens) if token not in vocabulary]
    for slot, token in zip(slots, new, strict=False):
        pieces[slot] = token
    return Vocabulary([*pieces, *new[len(slots) :]])


def is_slot(piece: str) -> bool:
    """Whether this is [unusedN], a place for a piece."""
    return piece.startswith("[unused") and piece.endswith("]")


def kept_blocks(layers: int, count: int) -> tuple[int, ...]:
    """The blocks, from 0, that are kept when a model of so many becomes one of `count`: evenly spread, with the last.

    >>> kept_blocks(12, 4)
    (2, 5, 8, 11)
    """
    return tuple((number + 1) * layers // count - 1 for number in range(count))


def resize(
    bert: Any,
    *,
    vocabulary: Vocabulary | None = None,
    max_position_embeddings: int | None = None,
    num_hidden_layers: int | None = None,
) -> Any:
    """A new `Bert` with this vocabulary and this many positions and blocks, and the weights of `bert`.

    A piece keeps its vector wherever it is in the new vocabulary. The vectors of new pieces and positions are drawn at
    random, as before training; the log says how many. Of the blocks, those of `kept_blocks` are copied, and the others
    are left out.
    """
    settings = bert.get_config()
    rows: dict[str, list[int]] = {}  # of each changed table: where a row was before, -1 if it is new
    if vocabulary is not None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                "`vocabulary` must be a Vocabulary. To add tokens to the model's vocabulary, use "
                "keras_bert.resize.add_tokens(bert.preprocessor.vocabulary, tokens). "
                f"Received: {type(vocabulary).__name__}"
            )
        places = {piece: i for i, piece in enumerate(bert.preprocessor.vocabulary.tokens)}
        rows["word_embeddings/embeddings"] = [places.get(piece, -1) for piece in vocabulary.tokens]
        settings["config"]["vocab_size"] = len(vocabulary)
        settings["preprocessor"]["config"]["vocabulary"] = list(vocabulary.tokens)
    if max_position_embeddings is not None:
        count_of("max_position_embeddings", max_position_embeddings, 1)
        old = bert.config.max_position_embeddings
        rows["position_embeddings/embeddings"] = [i if i < old else -1 for i in range(max_position_embeddings)]
        settings["config"]["max_position_embeddings"] = max_position_embeddings
    layers = bert.config.num_hidden_layers
    if num_hidden_layers is not None:
        if not 1 <= num_hidden_layers <= layers:
            raise ValueError(
                f"`num_hidden_layers` must be from 1 to {layers}, the number of blocks of the model. Use a number in "
                f"this range. Received: num_hidden_layers={num_hidden_layers}"
            )
        settings["config"]["num_hidden_layers"] = num_hidden_layers
    if settings["preprocessor"] is not None:
        text = settings["preprocessor"]["config"]
        if max_position_embeddings is not None:
            text["max_length"] = max_position_embeddings
        if isinstance(text["seq_length"], int):
            text["seq_length"] = min(text["seq_length"], text["max_length"])
    del settings["name"]
    weights = named_weights(bert)
    with blank_weights():
        resized = type(bert).from_config({**settings, "changed_layers": {}})
    kept = enumerate(kept_blocks(layers, resized.config.num_hidden_layers))
    blocks = [(resized.block(number), bert.block(block)) for number, block in kept]
    # Where the weights of a layer of a kept block are from.
    names = {new.name: old.name for pair in blocks for new, old in zip(*pair, strict=True)}
    rng = np.random.default_rng(0)
    for name, new_weight in named_weights(resized).items():
        layer, _, weight = name.partition("/")
        x = weights[f"{names.get(layer, layer)}/{weight}"].read()
        if name in rows:
            x = _rows(x, np.array(rows[name]), bert.config.initializer_range, rng)
            what = "pieces" if name.startswith("word") else "positions"
            logger.info("%d of %d %s are new; their vectors are drawn at random.", rows[name].count(-1), len(x), what)
        new_weight.variable.assign(x)
    if vocabulary is not None and settings["preprocessor"] is not None:
        new = set(resized.preprocessor.vocabulary.tokens) - set(bert.preprocessor.vocabulary.tokens) - set(SPECIAL)
        _warn_of_unreachable(resized.preprocessor.plain_tokenizer, new)
    return resized


def _warn_of_unreachable(tokenizer: Any, pieces: Iterable[str]) -> None:
    """Log which pieces no text can contain. Slots are left out."""
    never = [
        piece
        for piece in sorted(pieces)
        if not is_slot(piece) and (piece == "##" or not tokenizer.is_word(re.sub("^##", "a", piece)))
    ]
    if never:
        rules = (
            "It lowercases texts. " * tokenizer.lowercase
            + "It removes accents, which splits Hangul into its letters. " * tokenizer.strip_accents
            + f"It splits texts at white space{', Chinese characters' * tokenizer.split_cjk} and punctuation."
        )
        logger.warning(
            "The tokenizer never produces these new pieces: %s. %s Write them in the form that it produces, or leave "
            "them out.",
            listed(list(map(repr, never)), 8),
            rules,
        )


def _rows(table: np.ndarray, rows: np.ndarray, deviation: float, rng: np.random.Generator) -> np.ndarray:
    """The table with these rows of the old one, -1 for a new one."""
    x = table[rows]  # [V, H]
    new = rows < 0
    x[new] = np.clip(rng.standard_normal((int(new.sum()), x.shape[1])), -2, 2) * deviation
    return x
