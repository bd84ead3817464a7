"""What the parts of an export save: a model's call, traced, with its variables; and functions as signatures."""

from typing import Any

import keras

from keras_bert import kernels
from keras_bert.compat import trackable
from keras_bert.inputs import INPUTS
from keras_bert.lazy import tf
from keras_bert.named_weights import by_layer
from keras_bert.pretraining.pretrainer import POSITIONS
from keras_bert.tasks.signature import Signature


def saved_model(model: keras.Model, *, training: bool) -> Any:
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
            call.get_concrete_function(input_specs(model), training=mode)
    root = trackable(call)
    root.variables = [variable.value for variable in model.variables]
    root.trainable_variables = [variable.value for variable in model.trainable_variables if training]
    root.regularization_losses = []
    root.named_weights = tracked_variables(model)
    return root


def tracked_variables(model: keras.Model) -> dict[str, dict[str, Any]]:
    """The variables by layer and name; for a task, also those of its encoder that the head does not use."""
    return {
        layer: {name: variable.value for name, variable in variables.items()}
        for layer, variables in by_layer(model).items()
    }


def saved_function(function: Any, inputs: dict[str, Any]) -> Any:
    """A signature: the function, traced with these inputs by their names."""
    return tf.function(function, autograph=False).get_concrete_function(**inputs)


def saved_functions(signatures: dict[str, Signature]) -> dict[str, Any]:
    """The signatures of a part, as they are saved."""
    return {name: saved_function(signature.function, signature.inputs) for name, signature in signatures.items()}


def checked_rows(rows: dict[str, Any], longest: int) -> dict[str, Any]:
    """The inputs of a signature for ids, with checks in the graph.

    A row must not be longer than the positions of the model: padding takes memory too, up to the square of its length.
    Masked positions must be inside their own row, because others would read that of another client.
    """
    length = tf.shape(rows[INPUTS[0]])[-1]
    rule = f"A row may have at most {longest} ids, padding included: the model has no more positions."
    checks = [tf.debugging.assert_less_equal(length, longest, rule)]
    if POSITIONS in rows:
        rule = f"`{POSITIONS}` must be from 0 to the number of ids in a row, minus 1. Use 0 for padding."
        checks.append(tf.debugging.assert_non_negative(rows[POSITIONS], rule))
        checks.append(tf.debugging.assert_less(rows[POSITIONS], length, rule))
    with tf.control_dependencies(checks):
        return {name: tf.identity(x) for name, x in rows.items()}


def input_specs(model: keras.Model) -> dict[str, Any]:
    """The `tf.TensorSpec` of each of the model's inputs, for any batch and length."""
    return {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in model.input.items()}
