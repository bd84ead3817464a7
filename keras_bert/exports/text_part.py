"""The text SavedModel: strings in, and out the vectors of a Bert or the answers of a task.

Each batch is as long as its longest text.
"""

import os
from collections.abc import Callable
from typing import Any

import keras

from keras_bert.compat import trackable
from keras_bert.exports.pieces_signatures import piece_names
from keras_bert.exports.pretrainer_signatures import pretrainer_signatures
from keras_bert.exports.saved_functions import (
    checked_rows,
    input_specs,
    saved_function,
    saved_functions,
    saved_model,
    tracked_variables,
)
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.tasks.signature import Logits, Signature, check_rows_of_answers, pack_texts, text_signatures
from keras_bert.tasks.task import Task
from keras_bert.text.tensors import tf
from keras_bert.vectors import Pooling, features

SERVED = ("embedding", "pooled_output", "truncated")


def vectors_of_texts(
    model: Any, seq_length: int, vocab_file: str | os.PathLike, attention: bool = False
) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures, for a `Bert` or for a `Pretrainer`, whose heads answer too.

    The object called on texts returns only the embedding, float32 [B, D], as TF-Hub's API for text embeddings wants it.
    attention: see `_attention`.
    """
    bert = getattr(model, "bert", model)
    root = saved_model(text_model(model), training=False)
    run = root.__call__
    asked = signatures_of(model, lambda rows: run(rows, training=False), seq_length)
    answer = asked["serving_default"].function
    root.__call__ = tf.function(
        lambda text: answer(text)["embedding"], input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    if isinstance(model, Pretrainer):
        root.heads = tracked_variables(model)
    return root, saved_functions(asked | _attention(bert, seq_length, attention))


def answers_to_texts(
    task: Task, seq_length: int, vocab_file: str | os.PathLike, attention: bool = False
) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures: those of the task for strings, and `logits` for ids.

    The object called on strings returns the answers by name, as `serving_default` does.
    """
    root = saved_model(task, training=False)
    run = root.__call__
    asked = signatures_of(task, lambda rows: run(rows, training=False), seq_length)
    signatures = saved_functions(asked | _attention(task.bert, seq_length, attention))
    if set(asked["serving_default"].inputs) == {"text"}:  # a graph does not know how many rows its outputs have
        found = signatures["serving_default"](text=tf.constant(["a", "a b", "a b c"]))
        check_rows_of_answers(task, {name: x.shape for name, x in found.items()}, 3)
    longest = task.bert.config.max_position_embeddings

    def logits(**rows: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"logits": run(checked_rows(rows, longest), training=False)}

    signatures["logits"] = saved_function(logits, input_specs(task))
    root.logits = trackable(run)
    root.__call__ = signatures["serving_default"]
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    return root, signatures


def text_model(model: Any) -> keras.Model:
    """What runs on packed rows: a task itself; of a `Bert`, a model whose `embedding` is what `bert.embed` returns."""
    if isinstance(model, Task):
        return model
    bert = getattr(model, "bert", model)
    pooling = bert.pooling or Pooling()
    embedding = features(bert, (-1,), "concat", pooling.pooling, pooling.normalize)
    return keras.Model(bert.input, {**bert.output, "embedding": embedding})


def signatures_of(
    model: Any, run: Logits, seq_length: int, run_of: Callable[[keras.Model], Logits] = lambda head: head
) -> dict[str, Signature]:
    """The signatures for strings of a task, a `Bert` or a `Pretrainer`.

    run: its `text_model`. run_of: from a model, a head of the `Pretrainer`, to what runs it.
    """
    if isinstance(model, Task):
        return model.signatures(run, seq_length)
    preprocessor = getattr(model, "bert", model).preprocessor

    def answer(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        rows, truncated = pack_texts(preprocessor, columns, seq_length)
        found = {**run(rows), "truncated": truncated}
        return {name: found[name] for name in SERVED}

    signatures = text_signatures(answer)
    if isinstance(model, Pretrainer):
        signatures |= pretrainer_signatures(model, run, seq_length, run_of)
    return signatures


def _attention(bert: Any, seq_length: int, wanted: bool) -> dict[str, Signature]:
    """If wanted, `attention`: for a batch of one text its `piece` [1, S] and the maps [1, L, A, S, S].

    One text at a time, because the maps of a batch would fill the memory. They are rounded to 1/1024: a float64 of
    Python, which JSON is made of, then has few digits.
    """
    if not wanted:
        return {}

    def attention(text: tf.Tensor) -> dict[str, tf.Tensor]:
        rows, truncated = pack_texts(bert.preprocessor, [text], seq_length)
        longest = tf.reduce_max(tf.reduce_sum(rows["input_mask"], axis=1))  # TF Serving may join requests to a batch
        rows = {name: x[:, :longest] for name, x in rows.items()}
        maps = tf.stack([tf.cast(x, tf.float32) for x in bert.attention_maps(rows)], axis=1)
        return {
            "piece": tf.gather(tf.constant(piece_names(bert.preprocessor.vocabulary)), rows["input_word_ids"]),
            "attention": tf.round(maps * 1024) / 1024,  # [1, L, A, S, S]
            "truncated": truncated,
        }

    return {"attention": Signature(attention, {"text": tf.TensorSpec([1], tf.string, "text")})}
