"""The text SavedModel of a Bert: strings in, vectors out, each batch as long as its longest text."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras

from keras_bert.bert import Bert
from keras_bert.exports.encoder_export import serve, traced
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.vectors import Pooling, features

if TYPE_CHECKING:
    import tensorflow as tf

SERVED = ("embedding", "pooled_output", "truncated")


def text(bert: Bert, seq_length: int, vocab_file: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures: `embedding` is what `bert.embed` gives of texts that are not cut."""
    import tensorflow as tf

    pooling = getattr(bert, "pooling", None) or Pooling()
    embedding = features(bert, (-1,), "concat", pooling.pooling, pooling.normalize)
    root = traced(keras.Model(bert.input, {**bert.output, "embedding": embedding}), training=False)
    encode = root.__call__

    def outputs(*columns: tf.Tensor) -> dict[str, Any]:
        rows, truncated = pack(bert.preprocessor, columns, seq_length)
        return {**encode(rows, training=False), "truncated": truncated}

    def answer(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        found = outputs(*columns)
        return {name: found[name] for name in SERVED}

    root.__call__ = tf.function(
        lambda text: outputs(text), input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    return root, of_texts(answer)


def of_texts(answer: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The signatures of what answers a column of texts or two: `serving_default` and `pair`."""
    import tensorflow as tf

    text, text_pair = (tf.TensorSpec([None], tf.string, name) for name in ("text", "text_pair"))
    return {
        "serving_default": serve(lambda text: answer(text), {"text": text}),
        "pair": serve(lambda text, text_pair: answer(text, text_pair), {"text": text, "text_pair": text_pair}),
    }


def pack(
    preprocessor: Preprocessor, columns: Sequence["tf.Tensor"], seq_length: int
) -> tuple[dict[str, "tf.Tensor"], "tf.Tensor"]:
    """Rows as long as the batch's longest, at most `seq_length`, and which of them lost pieces, bool [B]."""
    import tensorflow as tf

    packer = replace(preprocessor.packer, max_length=seq_length)
    segments = [preprocessor.tokenize(column).merge_dims(1, 2) for column in columns]
    return packer.pack(segments, "longest"), tf.reduce_any(packer.cut(segments, "longest"), axis=1)
