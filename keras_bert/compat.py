"""Private APIs of Keras and TensorFlow. All uses are here, and tests/test_compat.py fails if one of them changes."""

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import keras
from keras import ops

from keras_bert.lazy import tf

# === Keras: models ===


def set_untracked(model: Any, name: str, value: Any) -> None:
    """Set an attribute that Keras neither tracks nor saves with a model.

    Keras's `__setattr__` makes every layer that is assigned a part of the model, wraps lists and dicts, and under torch
    registers modules. There is no public way to avoid this. What a model computes only once belongs in a
    `functools.cached_property`, which does not go through `__setattr__`.
    """
    object.__setattr__(model, name, value)


def highest_is_best(metric: type) -> type:
    """A class of metrics of which callbacks such as EarlyStopping look for the highest value."""
    metric._direction = "up"  # type: ignore[attr-defined]
    return metric


def compiled_metrics(model: keras.Model) -> Iterator[Any]:
    """The metrics that `compile` was given. Publicly, Keras lists a model's metrics only once they have been built."""
    compiled = model._compile_metrics  # None if there are none
    if compiled is not None:
        given = [compiled._user_metrics, compiled._user_weighted_metrics]
        yield from (metric for metric in keras.tree.flatten(given) if metric is not None)


def expect_tracing(function: Any) -> None:
    """Let TensorFlow not warn that a `train_function` is traced often: Keras makes a new one for each model."""
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, tf.types.experimental.PolymorphicFunction):
            cell.cell_contents._omit_frequent_tracing_warning = True


# === Keras: data ===


def epochs_that_end_early(batches: keras.utils.PyDataset) -> Any:
    """What `fit` accepts in place of batches if a callback ends an epoch, but not the training, before its last batch.

    With Keras's own adapter, the next epoch would be an error, because nothing called `on_epoch_end`.
    """
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    class EndsEarly(PyDatasetAdapter):
        def on_epoch_begin(self) -> None:
            if self._within_epoch:
                self.on_epoch_end()
            super().on_epoch_begin()

    return EndsEarly(batches)


# === Keras: optimizers ===


def number_of(optimizer: Any, variable: Any) -> int:
    """The place of a variable, or of the tf.Variable in it, among those that the optimizer was built with."""
    return optimizer._get_variable_index(variable)


def inner_optimizer(optimizer: Any) -> Any:
    """The optimizer inside the one that scales the loss, if there is one."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def averages_of(optimizer: Any) -> list[tuple[Any, Any]]:
    """Each trained variable with its moving average; none without `use_ema`."""
    optimizer = inner_optimizer(optimizer)
    if not getattr(optimizer, "use_ema", False):
        return []
    pairs = zip(optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True)
    return [(variable, average) for variable, average in pairs if average is not None]


def moments_of(optimizer: Any, variable: Any) -> tuple[Any, Any]:
    """The first and the second moment of a variable in Keras's Adam or Lamb, which has them in private lists."""
    index = number_of(optimizer, variable)
    return optimizer._momentums[index], optimizer._velocities[index]


def decays(optimizer: Any, variable: Any) -> bool:
    """Whether weight decay applies to a variable: whether `exclude_from_weight_decay` has not excluded it."""
    return optimizer._use_weight_decay(variable)


@contextmanager
def summed_gradients(optimizer: Any) -> Iterator[None]:
    """A block in which `apply` takes gradients that are already summed over the replicas of a tf.distribute strategy.

    Keras sums them in `apply`, after it has clipped them, and has no public way to leave that out.
    """
    inner = inner_optimizer(optimizer)
    set_untracked(inner, "_all_reduce_sum_gradients", lambda gradients_and_variables: gradients_and_variables)
    try:
        yield
    finally:
        object.__delattr__(inner, "_all_reduce_sum_gradients")


class WithoutSeparateDecay:
    """A base for optimizers whose `update_step` decays the weights itself.

    Keras's own decay would come on top. `weight_decay=None` would turn that off, but it must be in the config.
    """

    decays_in_update = True

    def _apply_weight_decay(self, variables: Any) -> None:
        if not self.decays_in_update:
            super()._apply_weight_decay(variables)  # type: ignore[misc]


class CountsUpdates:
    """A base for optimizers that count updates of the weights where the gradients of several batches make one update.

    Keras's own schedule and moving averages count batches.
    """

    def _get_current_learning_rate(self) -> Any:
        schedule = self._learning_rate  # type: ignore[attr-defined]
        if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            return schedule(self.iterations)  # type: ignore[attr-defined]
        return super()._get_current_learning_rate()  # type: ignore[misc]

    def _update_model_variables_moving_average(self, variables: Any) -> None:
        optimizer: Any = self
        batches = optimizer.gradient_accumulation_steps
        if not batches:
            super()._update_model_variables_moving_average(variables)  # type: ignore[misc]
            return
        is_update = (optimizer._iterations + 1) % batches == 0
        keep = ops.where(is_update, optimizer.ema_momentum, 1.0)
        keep = ops.where(optimizer.iterations > 0, keep, 0.0)  # the first average is the weights themselves
        for variable, average in averages_of(optimizer):
            average.assign(keep * average + (1.0 - keep) * variable)


# === TensorFlow ===


def is_eager(tensor: Any) -> bool:
    """Whether a tensor of TensorFlow has a value. In graphs `tf.executing_eagerly()` says nothing about a tensor."""
    return isinstance(tensor, tf.__internal__.EagerTensor)


def is_compiled_by_xla() -> bool:
    """Whether XLA will compile the graph that is being traced, so that shapes must be static."""
    from tensorflow.python.ops import control_flow_util

    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def quantized_product(levels: tuple[Any, Any, Any], kernel: Any, kernel_limit: Any, bias: Any, gelu: str | None) -> Any:
    """The product [N, M] in float32 of quantized inputs, with their least and largest number, and a qint8 kernel.

    kernel_limit: the number that 127 stands for in each column of the kernel. gelu: "gelu_tanh", "gelu_erf" or None.

    oneDNN's op has no public name. The public ones take unsigned inputs and one scale for the whole kernel.
    """
    in_graph = not tf.executing_eagerly()
    product = _product if in_graph else _traced_product()
    return product(*levels, kernel, kernel_limit, bias, gelu=gelu, frozen=in_graph)


@functools.cache
def _traced_product() -> Any:
    """For a call that is not in a graph, a graph of its own: the op cannot be called otherwise."""
    return tf.function(_product, autograph=False, reduce_retracing=True)


def _product(
    x: Any, least: Any, largest: Any, kernel: Any, kernel_limit: Any, bias: Any, *, gelu: str | None, frozen: bool
) -> Any:
    """frozen: the op gets the same weights at each call, and arranges them once."""
    from tensorflow.python.framework import op_def_library

    activation = {"gelu_tanh": ["GeluApproximate"], "gelu_erf": ["GeluExact"], None: []}[gelu]
    outputs, _ = op_def_library.apply_op(
        "_QuantizedMatMul",
        name="int8_product",
        device_inputs=[x, kernel, bias],
        host_inputs=[least, largest, -kernel_limit, kernel_limit],
        Tdevice_outputs=[tf.float32],
        Thost_outputs=[],
        fused_ops=["BiasAdd", *activation, "Dequantize"],
        is_weight_const=frozen,
        is_bias_const=frozen,
        transpose_a=False,
        transpose_b=False,
        input_quant_mode="SCALED",
        output_quant_mode="SCALED",
        leakyrelu_alpha=0.2,
        T1=tf.qint8,
        T2=tf.qint8,
        Tbias=tf.float32,
        U=tf.float32,
        Tout=tf.float32,
    )
    return outputs[0]


def trackable(call: Any) -> Any:
    """An object to hang functions and variables on, to be saved as a SavedModel; once it is loaded, it does `call`.

    `tf.Module` reserves `name`, `variables` and `trainable_variables`, which TF-Hub's API wants as plain attributes.
    Before it is saved, Python ignores its `__call__`.
    """
    root = tf.__internal__.tracking.AutoTrackable()
    root.__call__ = call
    return root


def saving_with(options: Any) -> AbstractContextManager[Any]:
    """Trace functions as `tf.saved_model.save` does with these options.

    It looks up traces by this context: functions traced outside it would be traced, and written, a second time.
    """
    from tensorflow.python.saved_model.save_context import save_context

    return save_context(options)


def read_object_graph(content: bytes) -> Any:
    """The object graph of a checkpoint. No public function gives the names in it."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    return trackable_object_graph_pb2.TrackableObjectGraph.FromString(content)


def read_saved_model(content: bytes) -> Any:
    """The content of a saved_model.pb, whose signatures can be read so without loading the model."""
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString(content)
