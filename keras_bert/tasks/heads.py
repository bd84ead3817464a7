"""Parts of heads: their Dense layer, and an encoder that reads several rows for each example."""

from typing import Any

import keras
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.dense import dense
from keras_bert.layers.plain import Plain
from keras_bert.model import Model


def check_bert(bert: Any) -> None:
    """Refuse anything but an encoder."""
    if not isinstance(bert, Bert):
        raise TypeError(
            f'`bert` must be a Bert (an encoder). Load one, as in keras_bert.load("base"). Received: bert={bert!r}'
        )


def head_layer(units: int, bert: Bert, name: str) -> keras.layers.Dense:
    """The Dense layer of a head, in float32 under any policy, because a loss needs exact logits."""
    return dense(units, bert.config, dtype="float32", name=name)


def encode_rows(bert: Bert, output: str, *, rows: int) -> tuple[dict[str, Any], Any]:
    """Inputs [B, rows, S], several rows for each example, and an output of the encoder for each row [B * rows, ...]."""
    inputs = {name: keras.Input((rows, None), dtype="int32", name=name) for name in bert.input}
    flat = {name: FlatRows(name=f"{name}_rows")(x) for name, x in inputs.items()}  # [B * rows, S]
    encoder = keras.Model(bert.input, bert.output[output], name="encoder")
    return inputs, encoder(flat)


def pooled_encoder(bert: Bert) -> keras.Model:
    """The encoder, whose output is the pooled output."""
    return Model(bert.input, bert.output["pooled_output"], name="encoder")


@keras.saving.register_keras_serializable("keras_bert")
class FlatRows(Plain):
    """From [B, rows, S] to [B * rows, S]."""

    def call(self, x: Any) -> Any:
        return ops.reshape(x, (-1, ops.shape(x)[-1]))

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor((None, x.shape[-1]), dtype=x.dtype)
