"""The text SavedModel of a Bert: strings in, vectors out, each batch as long as its longest text."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras

from keras_bert.bert import Bert
from keras_bert.hub.encoder import trainable
from keras_bert.text.embed import features
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.weights.checkpoint import Pooling

if TYPE_CHECKING:
    import tensorflow as tf

SERVED = ("embedding", "pooled_output", "truncated")


def text(bert: Bert, seq_length: int, vocab_file: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures: `embedding` is what `bert.embed` gives; the call gives every output."""
    import tensorflow as tf

    pooling = getattr(bert, "pooling", None) or Pooling()
    embedding = features(bert, (-1,), "concat", pooling.pooling, pooling.normalize)
    root = trainable(keras.Model(bert.input, {**bert.output, "embedding": embedding}))
    encode = root.__call__
    first, second = (tf.TensorSpec([None], tf.string, name) for name in ("text", "text_pair"))

    @tf.function(autograph=False)
    def call(text: tf.Tensor, training: bool = False) -> dict[str, Any]:
        rows, truncated = pack(bert.preprocessor, [text], seq_length)
        return {**encode(rows, training=training), "truncated": truncated}

    def served(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        rows, truncated = pack(bert.preprocessor, columns, seq_length)
        found = {**encode(rows, training=False), "truncated": truncated}
        return {name: found[name] for name in SERVED}

    @tf.function(input_signature=[first], autograph=False)
    def serve(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return served(text)

    @tf.function(input_signature=[first, second], autograph=False)
    def pair(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        return served(text, text_pair)

    for training in (False, True):
        call.get_concrete_function(first, training=training)
    root.__call__ = call
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    return root, {"serving_default": serve, "pair": pair}


def pack(
    preprocessor: Preprocessor, columns: Sequence["tf.Tensor"], seq_length: int
) -> tuple[dict[str, "tf.Tensor"], "tf.Tensor"]:
    """Rows as long as the batch's longest, at most `seq_length`, and which of them lost pieces, bool [B]."""
    import tensorflow as tf

    packer = replace(preprocessor.packer, max_length=seq_length)
    segments = [preprocessor.tokenize(column).merge_dims(1, 2) for column in columns]
    return packer.pack(segments, "longest"), tf.reduce_any(packer.cut(segments, "longest"), axis=1)
