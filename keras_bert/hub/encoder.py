"""The encoder SavedModel: TF-Hub's Encoder API for BERT, from ids to vectors, to be served or trained further."""

import os
from typing import Any

import keras

from keras_bert import kernels
from keras_bert.bert import Bert


def encoder(bert: Bert, vocab_file: str | os.PathLike, mlm: keras.Model | None = None) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures.

    vocab_file: goes along as an asset, with the rule `do_lower_case`, for users who cut text themselves.
    mlm: the same encoder with the logits of `masked_lm_positions` among its outputs.
    """
    import tensorflow as tf

    root = trainable(bert)
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    root.do_lower_case = tf.Variable(bert.preprocessor.lowercase, trainable=False, name="do_lower_case")
    signatures = {"serving_default": signature(bert, root.__call__, ("pooled_output", "sequence_output"))}
    if mlm is not None:
        root.mlm = trainable(mlm)
        signatures["mlm"] = signature(mlm, root.mlm.__call__, ("mlm_logits",))
    return root, signatures


def trainable(model: keras.Model) -> Any:
    """An object with the model's call, traced for training and inference on any batch and length, and its variables.

    `named_weights` holds the same variables by layer and name: under these names a checkpoint can be read back.
    """
    import tensorflow as tf

    @tf.function(autograph=False)
    def call(inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        outputs = model(inputs, training=training)
        return tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), outputs)  # JSON has no bfloat16

    with kernels.portable():
        for training in (False, True):
            call.get_concrete_function(specs(model), training=training)
    root = tf.__internal__.tracking.AutoTrackable()
    root.__call__ = call
    root.variables = [variable.value for variable in model.variables]
    root.trainable_variables = [variable.value for variable in model.trainable_variables]
    root.regularization_losses = []
    root.named_weights = {
        layer.name: {variable.name: variable.value for variable in layer.variables}
        for layer in model.layers
        if layer.variables
    }
    return root


def signature(model: keras.Model, call: Any, outputs: tuple[str, ...]) -> Any:
    """The call without training, with each of the model's inputs a plain name and these outputs alone."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def serve(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        found = call(inputs, training=False)
        return {name: found[name] for name in outputs}

    return serve.get_concrete_function(**specs(model))


def specs(model: keras.Model) -> dict[str, Any]:
    """The model's inputs, of any batch and length."""
    import tensorflow as tf

    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in model.input}
