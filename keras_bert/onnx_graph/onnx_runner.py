"""OnnxRunner: a Keras model run by ONNX Runtime over tokenized rows; OnnxRunners: those of one model."""

import threading
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import keras
import numpy as np

from keras_bert.inputs import INPUTS
from keras_bert.installation import need
from keras_bert.onnx_graph.convert import to_onnx
from keras_bert.onnx_graph.graph import Graph, Value
from keras_bert.text.tokenized_rows import TokenizedRows

_TOKENS = 128  # from here on a longer batch saves nothing, so that rows of another length begin a new one
_SIMILAR = 0.8  # the shortest row of a batch, as a share of the longest
_TYPES = {"tensor(int32)": "int32", "tensor(float)": "float32"}
_MOST = 4096  # tokens of a batch, which bounds its memory


class OnnxRunner:
    """Does what `runner.Runner` does, with the weights of a graph that `to_onnx` made: its bytes, or its file."""

    model: keras.Model  # only of a runner that was made of one

    def __init__(self, graph: bytes | str, threads: int = 0) -> None:
        self.session = open_session(graph, threads)
        self.inputs = {one.name: _TYPES[one.type] for one in self.session.get_inputs()}
        self.outputs = {one.name: one.shape for one in self.session.get_outputs()}
        self.several = list(self.outputs) != ["output"]

    @classmethod
    def of(cls, model: keras.Model, *, int8: bool = False) -> "OnnxRunner":
        """A runner of a model with the weights as they are now."""
        runner = cls(graph_for_this_cpu(model, int8=int8))
        runner.model = model
        return runner

    def __call__(self, rows: TokenizedRows, index: np.ndarray) -> list[np.ndarray]:
        """The model's output for the examples with these indices, in their order.

        Rows of similar length are run together, so that little padding is computed.
        """
        found: list[Any] = [None] * len(index)
        for group in similar(rows.lengths[index]):
            part = np.asarray(index)[group]
            inputs = rows.packed(part, int(rows.lengths[part].max()))
            for place, row in zip(group, self.on_inputs(inputs), strict=True):
                found[place] = row
        return found

    def on_inputs(self, inputs: dict[str, Any]) -> Any:
        """The model's output for inputs that are packed already; a dict if the model has several."""
        feed = {name: np.asarray(x, self.inputs[name]) for name, x in inputs.items()}
        found = self.session.run(None, feed)
        return dict(zip(self.outputs, found, strict=True)) if self.several else found[0]

    def on_padded(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name for rows [B, S] that are padded at their ends, computed at their own lengths.

        An output for each token has zeros at padding.
        """
        mask = inputs["input_mask"]
        lengths, width = mask.sum(-1), mask.shape[-1]
        if mask.ndim > 2:  # several rows for each example
            return self._by_name(self.on_inputs(inputs))
        found = {
            name: np.zeros([len(mask), *(size if isinstance(size, int) else width for size in shape[1:])], "float32")
            for name, shape in self.outputs.items()
        }
        for group in similar(lengths):
            cut = {name: x[group, : lengths[group[0]]] if name in INPUTS else x[group] for name, x in inputs.items()}
            part = self.on_inputs(cut)
            for name, rows in self._by_name(part).items():
                place: Any = (group, *map(slice, rows.shape[1:]))
                found[name][place] = rows
        return found

    def _by_name(self, found: Any) -> dict[str, np.ndarray]:
        return found if self.several else {"output": found}


class OnnxRunners:
    """The runners of a model by what they compute. Each takes the weights when it is made, and never again."""

    def __init__(self, *, int8: bool) -> None:
        self.made: dict[Hashable, OnnxRunner] = {}
        self._int8 = int8
        self._lock = threading.Lock()

    def get(self, key: Hashable, owner: keras.Model, build: Callable[[], keras.Model]) -> OnnxRunner:
        """The runner with this key; if there is none, one for the model that `build` returns."""
        with self._lock:
            if key not in self.made:
                self.made[key] = OnnxRunner.of(build(), int8=self._int8)
            return self.made[key]


def similar(lengths: np.ndarray) -> list[np.ndarray]:
    """The places of rows in groups of similar length, the longest first.

    >>> [group.tolist() for group in similar(np.array([20, 500, 21, 19, 450]))]
    [[1, 4], [2, 0, 3]]
    """
    order = np.argsort(-lengths, kind="stable")
    groups, start = [], 0
    for end in range(1, len(order) + 1):
        longest = lengths[order[start]]
        full = (end - start) * longest >= _TOKENS
        if (
            end == len(order)
            or (full and lengths[order[end]] < _SIMILAR * longest)
            or ((end - start) * longest >= _MOST)
        ):
            groups.append(order[start:end])
            start = end
    return groups


def open_session(graph: bytes | str, threads: int = 0) -> Any:
    """An ONNX Runtime session on so many cores, or on all."""
    onnxruntime = need("onnxruntime", 'engine="onnxruntime"', "onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def graph_for_this_cpu(model: keras.Model, *, int8: bool) -> bytes:
    """The file of the ONNX graph of a model, in which no sum of int8 products saturates on this CPU."""
    return to_onnx(model, int8=int8, largest=64 if int8 and _saturates() else 127).SerializeToString()


@cache
def _saturates() -> bool:
    """Whether sums of int8 products saturate on this CPU. Without VNNI, two are added in 16 bits: 2 * 255 * 64 fits."""
    need("onnx", 'engine="onnxruntime"', "onnxruntime")
    onnxruntime = need("onnxruntime", 'engine="onnxruntime"', "onnxruntime")
    graph = Graph()
    size = 64
    x = np.full((size, size), 255, "uint8")
    kernel = graph.weight("kernel", np.full((size, size), 127, "int8"))
    product = Value(graph("MatMulInteger", "x", kernel), "int32", x.shape)
    model = graph.model({"x": Value("x", "uint8", x.shape)}, {"product": product})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0][0, 0] != 255 * 127 * size
