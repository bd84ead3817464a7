"""The encoder SavedModel: TF-Hub's Encoder API for BERT, from ids to vectors, to serve or to train further."""

import os
from typing import Any

import keras

from keras_bert import kernels
from keras_bert.compat import trackable
from keras_bert.lazy import tf
from keras_bert.named_weights import by_layer
from keras_bert.tasks.signature import Signature


def encoder(model: Any, vocab_file: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures, for a `Bert` or for a `Pretrainer`, whose heads are in `.mlm`.

    vocab_file: saved as an asset, beside the rule `do_lower_case`, for users who tokenize text themselves.
    """
    bert = getattr(model, "bert", model)
    root = traced(bert, training=True)
    root.vocab_file = tf.saved_model.Asset(os.fspath(vocab_file))
    root.do_lower_case = tf.Variable(bert.preprocessor.lowercase, trainable=False, name="do_lower_case")
    signatures = {"serving_default": signature(bert, root.__call__, ("pooled_output", "sequence_output"))}
    if model is not bert:
        mlm = keras.Model(model.input, {**bert.output, **model.output})
        root.mlm = traced(mlm, training=True)
        root.named_weights = tracked(model)
        signatures["mlm"] = signature(mlm, root.mlm.__call__, tuple(model.output))
    return root, signatures


def traced(model: keras.Model, *, training: bool) -> Any:
    """An object with the model's call, traced on any batch and length, and its variables.

    `named_weights` has them by layer and name, under which `load` reads the checkpoint back.

    training: also trace the call with training=True, and keep custom gradients and trainable variables, for an encoder;
    a SavedModel that takes text is not trained further.
    """

    @tf.function(autograph=False)
    def call(inputs: dict[str, tf.Tensor], training: bool = False) -> Any:
        outputs = model(inputs, training=training)
        return tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), outputs)  # JSON has no bfloat16

    with kernels.portable(custom_gradients=training):
        for mode in (False, True) if training else (False,):
            call.get_concrete_function(specs(model), training=mode)
    root = trackable(call)
    root.variables = [variable.value for variable in model.variables]
    root.trainable_variables = [variable.value for variable in model.trainable_variables if training]
    root.regularization_losses = []
    root.named_weights = tracked(model)
    return root


def tracked(model: keras.Model) -> dict[str, dict[str, Any]]:
    """The variables by layer and name; for a task, also those of its encoder that the head does not use."""
    return {
        layer: {name: variable.value for name, variable in variables.items()}
        for layer, variables in by_layer(model).items()
    }


def signature(model: keras.Model, call: Any, outputs: tuple[str, ...]) -> Any:
    """The call without training, where each input of the model is an argument, with these outputs only."""

    def answer(**inputs: Any) -> dict[str, Any]:
        found = call(inputs, training=False)
        return {name: found[name] for name in outputs}

    return trace(answer, specs(model))


def trace(function: Any, inputs: dict[str, Any]) -> Any:
    """A signature: the function, traced with these inputs by their names."""
    return tf.function(function, autograph=False).get_concrete_function(**inputs)


def trace_all(signatures: dict[str, Signature]) -> dict[str, Any]:
    """The signatures of a part, as they are saved."""
    return {name: trace(signature.function, signature.inputs) for name, signature in signatures.items()}


def specs(model: keras.Model) -> dict[str, Any]:
    """The `tf.TensorSpec` of each of the model's inputs, for any batch and length."""
    return {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in model.input.items()}
