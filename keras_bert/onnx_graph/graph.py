"""Graph: an ONNX graph in the making, node by node, in the operators of the standard."""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from keras_bert.config import GELU_LEAST
from keras_bert.layers.int8_dense import quantized
from keras_bert.lazy import Lazy
from keras_bert.version import __version__

onnx: Any = Lazy(lambda: import_module("onnx"))
OPSET = 23  # the first with Attention; ONNX Runtime reads it from 1.23 on
_IR = 11  # the file format that belongs to it
_LEVEL_OF_0 = 40  # of 255, after a GELU: the levels below are for its negative values


class Value(NamedTuple):
    """A tensor of the graph, and its dtype and shape in the Keras model."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


class Graph:
    """Nodes and weights. A call adds a node and returns the name of its output.

    int8: whether the products of the encoder's blocks and its word table are to be int8.
    largest: the largest whole number for a weight of such a product.
    sizes: by the output of a norm, how large the numbers in each of its channels usually are.

    >>> graph = Graph()
    >>> doubled = graph("Mul", "x", graph.constant(np.float32(2)))
    >>> [node.op_type for node in graph.nodes]
    ['Mul']
    """

    def __init__(self, *, int8: bool = False, largest: int = 127) -> None:
        self.int8 = int8
        self.largest = largest
        self.nodes: list[Any] = []
        self.sizes: dict[str, np.ndarray] = {}
        self._weights: dict[str, Any] = {}

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        return self.several(op, *inputs, count=1, **attributes)[0]

    def several(self, op: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Add a node with this many outputs, and return their names."""
        outputs = [f"{op}_{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(onnx.helper.make_node(op, inputs, outputs, **attributes))
        return outputs

    def weight(self, name: str, array: np.ndarray) -> str:
        """A weight under its name in the Keras model, or a longer one if a weight of an inner model has the name."""
        while name in self._weights:
            if np.array_equal(onnx.numpy_helper.to_array(self._weights[name]), array):
                return name
            name += "_"
        self._weights[name] = onnx.numpy_helper.from_array(array, name)
        return name

    def constant(self, value: Any) -> str:
        """A number, or a few; integers are int64, which the operators take for shapes and axes."""
        array = np.asarray(value)
        return self.weight(f"constant_{array.dtype}_{array.tolist()}", array)

    def int8_product(self, x: str, kernel: np.ndarray, name: str) -> str:
        """The product of x and a kernel [K, M] that goes by this name, in int8.

        There is a scale for each column of the kernel, and one for x, which is found when the graph runs. ONNX Runtime
        fuses these nodes into one.
        """
        levels, scale = quantized(kernel, 0, self.largest)  # [K, M], [1, M]
        small, factor, zero = self.several("DynamicQuantizeLinear", x, count=3)
        whole = self("MatMulInteger", small, self.weight(f"{name}_int8", levels), zero)
        factor = self("Mul", factor, self.weight(f"{name}_scale", scale[0]))
        return self("Mul", self("Cast", whole, to=code("float32")), factor)

    def int8_product_after_norm(self, x: str, kernel: np.ndarray, name: str) -> str:
        """The same for x from a norm, with each channel of x divided by its usual size and the kernel's row multiplied.

        So a channel of large numbers does not make the others coarse.
        """
        sizes = self.sizes[x]  # [K]
        smooth = self("Mul", x, self.weight(f"{name}_smoothing", 1 / sizes))
        return self.int8_product(smooth, kernel * sizes[:, None], name)

    def int8_product_after_gelu(self, x: str, kernel: np.ndarray, name: str) -> str:
        """The same for x from a GELU, with a scale for each row of x: some have far larger numbers than others.

        The lowest value of a GELU is known, so only the largest number of a row must be found.
        """
        levels, scale = quantized(kernel, 0, self.largest)  # [K, M], [1, M]
        rows = self("ReduceMax", x, self.constant([-1]), keepdims=1)  # [B, S, 1]
        rows = self("Mul", rows, self.constant(np.float32(1 / (255 - _LEVEL_OF_0))))
        rows = self("Max", rows, self.constant(np.float32(-GELU_LEAST / _LEVEL_OF_0)))
        level = onnx.helper.make_tensor("level", onnx.TensorProto.UINT8, [1], [_LEVEL_OF_0])
        zero = self("ConstantOfShape", self("Shape", rows), value=level)
        small = self("QuantizeLinear", x, rows, zero, axis=-1, block_size=len(kernel))
        whole = self("MatMulInteger", small, self.weight(f"{name}_int8", levels), self.constant(np.uint8(_LEVEL_OF_0)))
        y = self("Mul", self("Cast", whole, to=code("float32")), self.weight(f"{name}_scale", scale[0]))
        return self("Mul", y, rows)

    def model(self, inputs: dict[str, Value], outputs: dict[str, Value]) -> Any:
        """The finished `onnx.ModelProto`; `outputs` has the value of the graph to return under each name."""
        for name, value in outputs.items():
            self.nodes.append(onnx.helper.make_node("Identity", [value.name], [name]))
        graph = onnx.helper.make_graph(
            self.nodes,
            "keras_bert",
            [_info(name, value) for name, value in inputs.items()],
            [_info(name, value) for name, value in outputs.items()],
            list(self._weights.values()),
        )
        opset = [onnx.helper.make_opsetid("", OPSET)]
        return onnx.helper.make_model(
            graph, opset_imports=opset, ir_version=_IR, producer_name="keras_bert", producer_version=__version__
        )


def code(dtype: str) -> int:
    """ONNX's number of a dtype."""
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _info(name: str, value: Value) -> Any:
    axes = ("batch", *(f"{name}_{axis}" for axis in range(1, len(value.shape))))
    if value.dtype == "int32":  # the inputs; all have one length
        axes = ("batch", *("windows" for _ in value.shape[1:-1]), "length")
    shape = [axis if size is None else size for axis, size in zip(axes, value.shape, strict=True)]
    return onnx.helper.make_tensor_value_info(name, code(value.dtype), shape)
