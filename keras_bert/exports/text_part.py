"""The text SavedModel: strings in, and out the vectors of a Bert or the answers of a task.

Each batch is as long as its longest text.
"""

import os
from typing import TYPE_CHECKING, Any

import keras

from keras_bert.bert import Bert
from keras_bert.compat import trackable
from keras_bert.exports.encoder_part import specs, trace, traced
from keras_bert.tasks.signature import pack_texts, text_signatures
from keras_bert.tasks.task import Task
from keras_bert.vectors import Pooling, features

if TYPE_CHECKING:
    pass

SERVED = ("embedding", "pooled_output", "truncated")


def vectors_of_texts(bert: Bert, seq_length: int, vocab_file: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures: `embedding` is what `bert.embed` returns for texts that fit."""
    import tensorflow as tf

    pooling = getattr(bert, "pooling", None) or Pooling()
    embedding = features(bert, (-1,), "concat", pooling.pooling, pooling.normalize)
    root = traced(keras.Model(bert.input, {**bert.output, "embedding": embedding}), training=False)
    encode = root.__call__

    def outputs(*columns: tf.Tensor) -> dict[str, Any]:
        rows, truncated = pack_texts(bert.preprocessor, columns, seq_length)
        return {**encode(rows, training=False), "truncated": truncated}

    def answer(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        found = outputs(*columns)
        return {name: found[name] for name in SERVED}

    root.__call__ = tf.function(
        lambda text: outputs(text), input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    signatures = text_signatures(answer)
    return root, {name: trace(signature.function, signature.inputs) for name, signature in signatures.items()}


def answers_to_texts(task: Task, seq_length: int, vocab_file: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures: those of the task for strings, and `logits` for ids."""
    import tensorflow as tf

    root = traced(task, training=False)
    run = root.__call__
    asked = task.signatures(lambda rows: run(rows, training=False), seq_length)
    signatures = {name: trace(signature.function, signature.inputs) for name, signature in asked.items()}
    signatures["logits"] = trace(lambda **rows: {"logits": run(rows, training=False)}, specs(task))
    root.logits = trackable()
    root.logits.__call__ = run
    root.__call__ = signatures["serving_default"]
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    return root, signatures
