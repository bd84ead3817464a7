"""Attention maps: what each piece of some texts attends to, in every layer and attention head."""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.inputs import check_inputs
from keras_bert.layers.attention import AttentionMap
from keras_bert.layers.padding import Padding


@dataclass(frozen=True)
class Attention:
    """Attention maps: `maps[layer, text, head, i, j]` is how much piece i of a text attends to piece j."""

    pieces: list[list[str]]
    maps: np.ndarray  # [L, B, A, S, S]


def attention(bert: Any, texts: Any) -> Attention:
    """The maps of a `Bert` for texts."""
    inputs = {name: np.atleast_2d(ops.convert_to_numpy(x)) for name, x in bert.preprocessor(texts).items()}
    lengths = inputs["input_mask"].sum(-1)
    if not len(lengths):
        raise ValueError("`texts` must hold at least one text. Pass a text or a list of them. Received: an empty list")
    inputs = check_inputs({name: x[:, : lengths.max()] for name, x in inputs.items()}, bert.config)
    token = bert.preprocessor.vocabulary.token
    rows = zip(inputs["input_word_ids"].tolist(), lengths, strict=True)
    pieces = [[token(id) for id in ids[:length]] for ids, length in rows]
    # Without predict, whose graph would be used again after quantize() or enable_lora().
    maps = [ops.convert_to_numpy(ops.cast(x, "float32")) for x in bert.attention_maps(inputs)]
    return Attention(pieces, np.stack(maps))  # [L, B, A, S, S]


def map_model(bert: Any) -> keras.Model:
    """A model from the inputs of a `Bert` to `maps`, a map of each block."""
    # Not the model's own layer, whose dict Keras would return as a flat list.
    padding = Padding(dtype=bert.dtype_policy, name="map_padding")(bert.input["input_mask"])
    blocks = [bert.get_layer(f"layer_{i}_attention_qkv").output for i in range(bert.config.num_hidden_layers)]
    heads = bert.config.num_attention_heads
    maps = [AttentionMap(heads, dtype=bert.dtype_policy)(qkv, padding) for qkv in blocks]
    return keras.Model(bert.input, {"maps": maps})  # a plain list of one output Keras would return as that output
