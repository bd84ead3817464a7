"""How the operations of keras.ops that heads and pooling use are written in ONNX.

A rule gets the graph, the operation's config, and the arguments of the call: a `Value` for each tensor.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NoReturn

import keras
import numpy as np

from keras_bert.onnx_graph.graph import Graph, Value, code

_END = np.iinfo("int64").max


def shape_of(graph: Graph, x: str, start: int = 0, end: int | None = None) -> str:
    """The sizes of the axes from `start` to `end`, int64."""
    return graph("Shape", x, start=start, **({} if end is None else {"end": end}))


def shape_with(graph: Graph, x: str, first: list[int], last: int) -> str:
    """A shape: these sizes, followed by those of the last axes of x."""
    return graph("Concat", graph.constant(first), shape_of(graph, x, -last), axis=0)


def normalized(graph: Graph, x: Value, axis: Any, order: int = 2, epsilon: float | None = 1e-12) -> str:
    """x divided by its norm along an axis or axes, of which the square is at least the square of `epsilon`."""
    if order not in (1, 2):
        refuse({"name": "normalize", "order": order}, "order", "Use 1 or 2.")
    norm = graph(f"ReduceL{order}", x.name, graph.constant(np.atleast_1d(axis)), keepdims=1)
    epsilon = keras.config.epsilon() if epsilon is None else epsilon
    return graph("Div", x.name, graph("Max", norm, graph.constant(np.float32(epsilon))))


def refuse(config: dict[str, Any], setting: str, advice: str) -> NoReturn:
    """Refuse a layer or an operation with a setting for which there is no rule."""
    raise ValueError(
        f"The layer or operation {config['name']!r} cannot be written as ONNX with this {setting}. {advice} "
        f"Received: {setting}={config[setting]!r}"
    )


def _operand(graph: Graph, x: Any, dtype: str) -> str:
    """A tensor or a number as a tensor of this dtype."""
    if not isinstance(x, Value):
        return graph.constant(np.asarray(x, dtype))
    return x.name if x.dtype == dtype else graph("Cast", x.name, to=code(dtype))


def float_dtype(dtype: str) -> str:
    return "float32" if "float" in dtype else dtype  # the graph has one float dtype


def _binary(op: str, *, floats: bool = False) -> Callable[..., str]:
    def rule(graph: Graph, config: Any, x: Any, y: Any = None) -> str:
        terms = x if isinstance(x, list) else [x, y]  # of the layer of this name, or of the operation
        dtypes = [one.dtype if isinstance(one, Value) else type(one) for one in terms]
        dtype = "float32" if floats else float_dtype(keras.backend.result_type(*dtypes))
        return reduce(lambda one, other: graph(op, one, other), [_operand(graph, one, dtype) for one in terms])

    return rule


def _unary(op: str) -> Callable[..., str]:
    return lambda graph, config, x: graph(op, x.name)


def _reduce(op: str) -> Callable[..., str]:
    def rule(graph: Graph, config: Any, x: Value) -> str:
        axis = config.get("axis")
        if config.get("initial") is not None:
            refuse(config, "initial", "Leave it out, and use keras.ops.where.")
        axes = [] if axis is None else [graph.constant(np.atleast_1d(axis))]
        return graph(op, x.name, *axes, keepdims=int(config.get("keepdims", False)))

    return rule


def _softmax(graph: Graph, config: Any, x: Value, mask: Any = None) -> str:
    """Of the operation, or of the layer, which also takes several axes and a mask."""
    if mask is not None:
        refuse(config | {"mask": "a tensor"}, "mask", "Use keras.ops.where before it.")
    if not isinstance(config["axis"], int):
        refuse(config, "axis", "Give one axis.")
    return graph("Softmax", x.name, axis=config["axis"])


def _squeeze(graph: Graph, config: Any, x: Value) -> str:
    axis = config["axis"]
    axes = [at for at, size in enumerate(x.shape) if size == 1] if axis is None else np.atleast_1d(axis)
    return graph("Squeeze", x.name, graph.constant(axes))


def _get_item(graph: Graph, config: Any, x: Value, key: Any) -> str:
    name, axis = x.name, 0
    keys = list(key) if isinstance(key, list | tuple) else [key]
    if ... in keys:
        at = keys.index(...)
        keys[at : at + 1] = [slice(None)] * (len(x.shape) - len([one for one in keys if one is not None]) + 1)
    for one in keys:
        if isinstance(one, slice):
            if one != slice(None):
                step = one.step or 1
                first, last = (0, _END) if step > 0 else (_END, -_END)
                first, last = (end if given is None else given for given, end in ((one.start, first), (one.stop, last)))
                name = graph("Slice", name, *(graph.constant([number]) for number in (first, last, axis, step)))
            axis += 1
        elif one is None:
            name = graph("Unsqueeze", name, graph.constant([axis]))
            axis += 1
        else:
            name = graph("Gather", name, graph.constant(int(one)), axis=axis)
    return name


def _transpose(graph: Graph, config: Any, x: Value) -> str:
    axes = config.get("axes") or range(len(x.shape))[::-1]
    return graph("Transpose", x.name, perm=[axis % len(x.shape) for axis in axes])


def _swap_axes(graph: Graph, config: Any, x: Value) -> str:
    axes = list(range(len(x.shape)))
    one, other = config["axis1"], config["axis2"]
    axes[one], axes[other] = axes[other], axes[one]
    return graph("Transpose", x.name, perm=axes)


def _reshape(graph: Graph, config: Any, x: Value) -> str:
    """Of the operation, or of the layer, which keeps the first axis."""
    shape = config["newshape"] if "newshape" in config else [0, *config["target_shape"]]
    return graph("Reshape", x.name, graph.constant(list(shape)))


def _where(graph: Graph, config: Any, condition: Value, x: Any, y: Any) -> str:
    return graph("Where", condition.name, _operand(graph, x, "float32"), _operand(graph, y, "float32"))


def _cast(graph: Graph, config: Any, x: Value) -> str:
    dtype = float_dtype(config["dtype"] if isinstance(config["dtype"], str) else config["dtype"]["config"]["name"])
    return x.name if dtype == float_dtype(x.dtype) else graph("Cast", x.name, to=code(dtype))


def _joined(graph: Graph, config: Any, terms: list[Value]) -> str:
    return graph("Concat", *(term.name for term in terms), axis=config.get("axis", -1))


def _not_equal(graph: Graph, config: Any, x: Any, y: Any) -> str:
    return graph("Not", OPS["Equal"](graph, config, x, y))


OPS: dict[str, Callable[..., Any]] = {
    "Absolute": _unary("Abs"),
    "Add": _binary("Add"),
    "Cast": _cast,
    "Concatenate": _joined,
    "Divide": _binary("Div", floats=True),
    "Equal": _binary("Equal"),
    "ExpandDims": lambda graph, config, x: graph("Unsqueeze", x.name, graph.constant(np.atleast_1d(config["axis"]))),
    "GetItem": _get_item,
    "Greater": _binary("Greater"),
    "Less": _binary("Less"),
    "Matmul": _binary("MatMul"),
    "Max": _reduce("ReduceMax"),
    "Mean": _reduce("ReduceMean"),
    "Min": _reduce("ReduceMin"),
    "Multiply": _binary("Mul"),
    "Normalize": lambda graph, config, x: normalized(graph, x, config["axis"], config["order"], config["epsilon"]),
    "NotEqual": _not_equal,
    "Relu": _unary("Relu"),
    "Reshape": _reshape,
    "Sigmoid": _unary("Sigmoid"),
    "Softmax": _softmax,
    "Sqrt": _unary("Sqrt"),
    "Squeeze": _squeeze,
    "Subtract": _binary("Sub"),
    "Sum": _reduce("ReduceSum"),
    "SwapAxes": _swap_axes,
    "Swapaxes": _swap_axes,
    "Tanh": _unary("Tanh"),
    "Transpose": _transpose,
    "TrueDivide": _binary("Div", floats=True),
    "Where": _where,
}
