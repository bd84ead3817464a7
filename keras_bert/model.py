"""Model, HeadedModel: what `Bert` and the models with a head on one add to a functional keras.Model."""

import contextlib
import os
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import keras
from keras import ops

from keras_bert import kernels
from keras_bert.compat import expect_tracing, set_untracked
from keras_bert.inputs import check_names
from keras_bert.installation import need
from keras_bert.layers.dense import blank_weights
from keras_bert.layers.int8_dense import refuse_int8
from keras_bert.named_weights import by_layer
from keras_bert.policy import check_trainable
from keras_bert.runner import Runners, asked_runners
from keras_bert.saving import changed_layers, restore_layers
from keras_bert.storage import errors_about, is_remote, new_keras_file
from keras_bert.text.shared_rows import SHARED_ROWS


class Model(keras.Model):
    """A functional model that refuses to train in a dtype too coarse for the steps.

    With `shared_rows` among its inputs, texts of the batch share rows; see `text/shared_rows.py`.

    long: what the model does with a text that is too long for a row: "truncate", "head-tail", or read it in "windows".
    max_question_length: the most pieces of the first of two texts, if it has a limit of its own.
    """

    long: str = "truncate"
    max_question_length: int | None = None

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any) -> Any:
        if isinstance(inputs, dict):
            check_names(type(self).__name__, self.input, inputs)
        if not (isinstance(inputs, dict) and SHARED_ROWS in inputs):
            return super().call(inputs, training=training, mask=mask, **kwargs)
        inputs = dict(inputs)
        with kernels.sharing_rows(inputs.pop(SHARED_ROWS)):
            return super().call(inputs, training=training, **kwargs)

    def stateless_call(
        self,
        trainable_variables: Any,
        non_trainable_variables: Any,
        *args: Any,
        return_losses: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As Keras's; on JAX, in training on several devices, gradients are summed in float32."""
        call = super().stateless_call
        if keras.backend.backend() != "jax" or not kwargs.get("training"):
            return call(trainable_variables, non_trainable_variables, *args, return_losses=return_losses, **kwargs)
        from keras_bert.jax_devices import called_on_each_device

        outputs, others, losses = called_on_each_device(
            call, trainable_variables, non_trainable_variables, *args, **kwargs
        )
        return (outputs, others, losses) if return_losses else (outputs, others)

    @property
    def runners(self) -> Runners:
        """What this model keeps between calls that read text, so that its graphs are built once.

        Those of another engine, while `keras_bert.inference` asks the model.
        """
        return asked_runners.get() or self.own_runners

    @cached_property
    def own_runners(self) -> Runners:
        return Runners()

    def get_compile_config(self) -> dict[str, Any] | None:
        """As Keras's, without `jit_compile`: what is right on one backend is slow on another, or fails there."""
        config = super().get_compile_config()
        return config and {name: value for name, value in config.items() if name != "jit_compile"}

    def make_train_function(self, force: bool = False) -> None:
        refuse_int8(self.layers)
        check_trainable(self.trainable_variables)
        if self.optimizer is not None and not self.optimizer.built and self.trainable_variables:
            self.optimizer.build(self.trainable_variables)  # else the first step would, and be traced twice
        super().make_train_function(force)
        if keras.backend.backend() == "tensorflow":
            expect_tracing(self.train_function)

    def _exported_outputs(self) -> Any:
        """The outputs that `export` writes."""
        return self.output

    def export(self, filepath: Any, format: str = "tf_saved_model", **kwargs: Any) -> None:
        """As in Keras, also before the first call. In ONNX, a single output is called `output`."""
        outputs = self._exported_outputs()
        with contextlib.nullcontext() if format in ("tf_saved_model", "tf") else kernels.static_shapes():
            model = keras.Model(self.input, outputs, name=self.name)
            model(self.input)  # Keras cannot write ONNX of a model that was never called
            model.export(filepath, format=format, **kwargs)
        if format == "onnx":
            _name_outputs(filepath, outputs if isinstance(outputs, dict) else ["output"])

    def save(self, filepath: Any, overwrite: bool = True, **options: Any) -> None:
        """As in Keras; the .keras file appears completely or not at all."""
        path = os.fspath(filepath)
        asks = not overwrite and os.path.exists(path)  # Keras asks the user
        if path.endswith(".keras") and not (asks or options or is_remote(path)):
            with new_keras_file(path) as temporary:
                return super().save(temporary)
        try:
            with errors_about("save", path):
                return super().save(filepath, overwrite=overwrite, **options)
        except EOFError:
            raise FileExistsError(
                "The file exists, and there is no terminal to ask whether to replace it. Choose another path, or pass "
                f"overwrite=True. Received: {path}"
            ) from None

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, **kwargs: Any) -> None:
        """As in Keras; without `filters` only the Dense layers, which do nearly all the work.

        This saves memory, but no time. For fast answers in int8, see `keras_bert.export` and `keras_bert.inference`.
        """
        filters = filters or (lambda layer: isinstance(layer, keras.layers.Dense))
        super().quantize(mode, config=config, filters=filters, **kwargs)


class HeadedModel(Model):
    """A model over a `Bert`. Saving it saves the Bert too: config, changes to the layers, and all weights."""

    def __init__(self, bert: Any, inputs: Any, outputs: Any, **kwargs: Any) -> None:
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        # Its layers are nodes of this model already, all but a pooler that the head does not use.
        set_untracked(self, "bert", bert)
        self.dtype_policy = bert.dtype_policy

    def get_config(self) -> dict[str, Any]:
        return {
            "bert": keras.saving.serialize_keras_object(self.bert),
            "name": self.name,
            "changed_layers": changed_layers(self, but=self.bert),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        config = dict(config)
        changes = config.pop("changed_layers")
        model = cls(keras.saving.deserialize_keras_object(config.pop("bert"), custom_objects), **config)
        restore_layers(model, changes)
        return model

    def save_own_variables(self, store: Any) -> None:
        for number, weight in enumerate(self._left_over()):
            store[str(number)] = ops.convert_to_numpy(weight)

    def load_own_variables(self, store: Any) -> None:
        for number, weight in enumerate(self._left_over()):
            weight.assign(store[str(number)])

    def _left_over(self) -> list[Any]:
        """The encoder's weights that this model lacks: those of the pooler, if the head does not use it."""
        own = {id(weight) for weight in self.weights}
        return [weight for weight in self.bert.weights if id(weight) not in own]


def _name_outputs(path: Any, names: Iterable[str]) -> None:
    """Give these names to the outputs of an ONNX file, which torch numbers."""
    onnx = need("onnx", "An ONNX file", "onnxruntime")
    model = onnx.load(path, load_external_data=False)
    names = keras.tree.flatten({name: name for name in names})  # in the order of the outputs
    for output, name in zip(model.graph.output, names, strict=True):
        if output.name != name:
            model.graph.node.append(onnx.helper.make_node("Identity", [output.name], [name]))
            output.name = name
    onnx.save(model, path)


def with_dtype(model: Any, dtype: Any) -> Any:
    """A copy of a `Bert`, or of a model over one, that computes in this Keras policy."""
    refuse_int8(model.layers)
    config = model.get_config()
    of_bert = config["bert"]["config"] if "bert" in config else config
    of_bert["dtype"] = keras.dtype_policies.serialize(keras.dtype_policies.get(dtype))
    with blank_weights():
        copy = type(model).from_config(config)
    # In the order of the layers, since Keras gives new names to those that a task does not name.
    for ours, theirs in zip(by_layer(copy).values(), by_layer(model).values(), strict=True):
        for name, variable in ours.items():
            variable.assign(ops.cast(theirs[name].value, variable.dtype))
    return copy
