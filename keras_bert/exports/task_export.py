"""The text SavedModel of a task: strings in, answers out, under the same names that the task's own answers have."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keras_bert.compat import trackable
from keras_bert.exports.answering import answer
from keras_bert.exports.classify import of_examples
from keras_bert.exports.encoder_export import serve, specs, traced
from keras_bert.exports.tagging import tag
from keras_bert.exports.text_export import of_texts, pack
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.task import Task
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger

if TYPE_CHECKING:
    import tensorflow as tf

Logits = Callable[[dict[str, Any]], Any]


def task_text(task: Task, seq_length: int, vocab_file: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures: the task's own for strings, and `logits` for ids."""
    import tensorflow as tf

    root = traced(task, training=False)
    run = root.__call__
    answers = next(signatures for kind, signatures in _KINDS.items() if isinstance(task, kind))
    signatures = answers(task, lambda rows: run(rows, training=False), seq_length)
    signatures["logits"] = serve(lambda **rows: {"logits": run(rows, training=False)}, specs(task))
    root.logits = trackable()
    root.logits.__call__ = run
    root.__call__ = signatures["serving_default"]
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    return root, signatures


def _classify(task: TextClassifier, logits: Logits, seq_length: int) -> dict[str, Any]:
    import tensorflow as tf

    labels = tf.constant(task.labels)  # [C]

    def answer(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        rows, truncated = pack(task.bert.preprocessor, columns, seq_length)
        found = logits(rows)  # [B, C]
        scores = tf.sigmoid(found) if task.multi_label else tf.nn.softmax(found)
        return {
            "label": tf.gather(labels, tf.argmax(scores, axis=1)),
            "score": tf.reduce_max(scores, axis=1),
            "labels": tf.repeat(labels[tf.newaxis], tf.shape(scores)[0], axis=0),  # [B, C]
            "scores": scores,
            "truncated": truncated,
        }

    return of_texts(answer) | of_examples(answer)


def _score(task: TextRegressor, logits: Logits, seq_length: int) -> dict[str, Any]:
    import tensorflow as tf

    def answer(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        rows, truncated = pack(task.bert.preprocessor, columns, seq_length)
        return {"score": logits(rows)[:, 0], "truncated": truncated}

    def compare(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        both = tf.reshape(tf.stack([text, text_pair], axis=1), [-1])  # [B * 2]
        rows, truncated = pack(task.bert.preprocessor, [both], seq_length)
        return {"score": logits(_grouped(rows, 2))[:, 0], "truncated": tf.reduce_any(tf.reshape(truncated, [-1, 2]), 1)}

    if task.pairs == "together":
        return of_texts(answer)
    columns = {name: tf.TensorSpec([None], tf.string, name) for name in ("text", "text_pair")}
    return {"serving_default": serve(compare, columns)}


def _choose(task: MultipleChoice, logits: Logits, seq_length: int) -> dict[str, Any]:
    import tensorflow as tf

    count = task.choices

    def answer(prompt: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = [tf.repeat(prompt, count), tf.reshape(choices, [-1])]  # [B * C]
        rows, truncated = pack(task.bert.preprocessor, columns, seq_length)
        scores = tf.nn.softmax(logits(_grouped(rows, count)))  # [B, C]
        index = tf.argmax(scores, axis=1, output_type=tf.int32)
        return {
            "index": index,
            "choice": tf.gather(choices, index, batch_dims=1),
            "score": tf.reduce_max(scores, axis=1),
            "scores": scores,
            "truncated": tf.reduce_any(tf.reshape(truncated, [-1, count]), axis=1),
        }

    prompt, choices = tf.TensorSpec([None], tf.string, "prompt"), tf.TensorSpec([None, count], tf.string, "choices")
    return {"serving_default": serve(answer, {"prompt": prompt, "choices": choices})}


def _grouped(rows: dict[str, "tf.Tensor"], count: int) -> dict[str, "tf.Tensor"]:
    """From [B * count, S] to [B, count, S]."""
    import tensorflow as tf

    return {name: tf.reshape(x, [-1, count, tf.shape(x)[1]]) for name, x in rows.items()}


_KINDS: dict[type, Callable[..., dict[str, Any]]] = {
    TextClassifier: _classify,
    TextRegressor: _score,
    TokenTagger: tag,
    QuestionAnswerer: answer,
    MultipleChoice: _choose,
}
