"""Attention as an HTML page: a small map for each head, and lines between the tokens for the chosen head."""

import base64
import logging
import zlib
from typing import Any

import numpy as np
from keras import ops

from keras_bert.pictures.one_file_page import one_file_page, script_json

logger = logging.getLogger("keras_bert")

LIMIT = 1 << 27  # weights on a page; the large model has 100 million for 512 tokens


def attention_page(bert: Any, text: str, pair: str | None = None, *, model: str = "") -> str:
    """The HTML of a page that shows what each token attends to, in every layer and head.

    The page needs no other file and no network. A text longer than `bert.preprocessor.seq_length` is truncated, which
    the log and the page report.

    Args:
        text, pair: the text, or the two texts of a pair.
        model: a name to show at the top of the page.

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
                "`text` and `pair` must be strings: a page shows one text or one pair. Make a page for each text. "
                f"Received: {given!r} ({type(given).__name__})"
            )
    row = text if pair is None else (text, pair)
    packed = {name: ops.convert_to_numpy(value) for name, value in bert.preprocessor(row).items()}  # each [S]
    count = int(packed["input_mask"].sum())
    layers, heads = bert.config.num_hidden_layers, bert.config.num_attention_heads
    if layers * heads * count**2 > LIMIT:
        raise ValueError(
            f"The text is too long for a page, which holds at most {LIMIT:,} attention weights. Shorten the text, or "
            f"lower the preprocessor's seq_length. "
            f"Received: {layers} layers x {heads} heads x {count} x {count} tokens"
        )
    cut = bool(ops.convert_to_numpy(bert.preprocessor.is_cut(row)).any())
    if cut:
        logger.warning("The text is truncated to %d tokens.", count)
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
    return one_file_page("attention", data=script_json(data))


def _packed(maps: np.ndarray) -> str:
    """One layer's maps [A, S, S] in 8 bits, as square roots, which keep the many small weights of a long text apart."""
    codes = np.rint(255 * np.sqrt(maps)).astype("uint8")
    return base64.b64encode(zlib.compress(codes.tobytes())).decode()
