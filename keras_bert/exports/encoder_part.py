"""The encoder SavedModel: TF-Hub's Encoder API for BERT, from ids to vectors, to serve or to train further."""

import os
from typing import Any

import keras

from keras_bert.exports.saved_functions import (
    checked_rows,
    input_specs,
    saved_function,
    saved_model,
    tracked_variables,
)
from keras_bert.lazy import tf


def encoder(model: Any, vocab_file: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures, for a `Bert` or for a `Pretrainer`, whose heads are in `.mlm`.

    vocab_file: saved as an asset, beside the rule `do_lower_case`, for users who tokenize text themselves.
    """
    bert = getattr(model, "bert", model)
    root = saved_model(bert, training=True)
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    root.do_lower_case = tf.Variable(bert.preprocessor.lowercase, trainable=False, name="do_lower_case")
    longest = bert.config.max_position_embeddings
    signatures = {"serving_default": _signature(bert, root.__call__, ("pooled_output", "sequence_output"), longest)}
    if model is not bert:
        mlm = keras.Model(model.input, {**bert.output, **model.output})
        root.mlm = saved_model(mlm, training=True)
        root.named_weights = tracked_variables(model)
        signatures["mlm"] = _signature(mlm, root.mlm.__call__, tuple(model.output), longest)
    return root, signatures


def _signature(model: keras.Model, call: Any, outputs: tuple[str, ...], longest: int) -> Any:
    """The call without training, where each input of the model is an argument, with these outputs only.

    longest: the positions of the model.
    """

    def answer(**inputs: Any) -> dict[str, Any]:
        found = call(checked_rows(inputs, longest), training=False)
        return {name: found[name] for name in outputs}

    return saved_function(answer, input_specs(model))
