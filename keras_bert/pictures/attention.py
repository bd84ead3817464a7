"""Attention as one page of HTML: a small map for each head, and the chosen head as lines between the tokens."""

import base64
import hashlib
import json
import logging
import zlib
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from keras import ops

logger = logging.getLogger(__name__)

LIMIT = 1 << 27  # weights on a page; the large model at 512 tokens has 100 million


def attention_page(bert: Any, text: str, pair: str | None = None, *, model: str = "") -> str:
    """A page that shows what each token of a text, or of a pair, attends to, in every layer and head.

    The page is whole in itself and uses no network. A text longer than `bert.preprocessor.seq_length` is cut, which
    is logged and said on the page. model: a name for the page's head.

    >>> from keras_bert import Bert, BertConfig, Preprocessor, Vocabulary
    >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "on", "the", "mat"])
    >>> page = attention_page(Bert(BertConfig.from_size("tiny"), Preprocessor(vocabulary)), "On the mat.")
    >>> page[:15]
    '<!DOCTYPE html>'
    """
    texts = [text] if pair is None else [text, pair]
    for given in texts:
        if not isinstance(given, str):
            raise TypeError(
                "A page shows one text, or one pair; text and pair are each a str. Make a page for each text. "
                f"Received: {given!r} ({type(given).__name__})"
            )
    row = text if pair is None else (text, pair)
    packed = {name: ops.convert_to_numpy(value) for name, value in bert.preprocessor(row).items()}  # each [S]
    count = int(packed["input_mask"].sum())
    layers, heads = bert.config.num_hidden_layers, bert.config.num_attention_heads
    if layers * heads * count**2 > LIMIT:
        raise ValueError(
            f"A page holds at most {LIMIT:,} weights. Shorten the text, or lower the preprocessor's seq_length. "
            f"Received: {layers} layers x {heads} heads x {count} x {count} tokens"
        )
    cut = bool(ops.convert_to_numpy(bert.preprocessor.is_cut(row)).any())
    if cut:
        logger.warning("The text is cut to %d tokens.", count)
    attention = bert.attention(row)
    data = {
        "model": model,
        "texts": texts,
        "cut": cut,
        "pieces": attention.pieces[0],
        "second": int((packed["input_type_ids"] == 0)[:count].sum()) if pair is not None else None,
        "layers": layers,
        "heads": heads,
        "maps": [_packed(maps[0]) for maps in attention.maps],
    }
    style, script = (_file(f"attention.{suffix}") for suffix in ("css", "js"))
    return Template(_file("attention.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        # No text can end the element that holds it.
        data=json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
    )


def _packed(maps: np.ndarray) -> str:
    """One layer's maps [A, S, S] in 8 bits. Square roots keep small weights apart, of which long texts have many."""
    codes = np.rint(255 * np.sqrt(maps)).astype("uint8")
    return base64.b64encode(zlib.compress(codes.tobytes())).decode()


def _hash(source: str) -> str:
    """By which the page's policy lets this source run, and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _file(name: str) -> str:
    return files("keras_bert.pictures").joinpath(name).read_text(encoding="utf-8")
