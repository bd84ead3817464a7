"""How our layers, and those of Keras that heads have, are written in ONNX.

Tokens keep their places, [B, S, H], where TensorFlow's path has only the real ones, [N, H]; the results are the same.
A rule gets the graph, the layer's config with the layer itself in "layer", and the arguments of the call.
"""

import re
from typing import Any

import numpy as np
from keras import ops

from keras_bert.layers.int8_dense import quantized
from keras_bert.onnx_graph.graph import Graph, Value, code
from keras_bert.onnx_graph.keras_ops import normalized, refuse, shape_of, shape_with

_NOWHERE = np.float32(-1e9)  # what attention adds to the scores of padding, as in layers/padding.py


def _array(x: Any) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


# === Padding ===


def _padding(graph: Graph, config: Any, mask: Value) -> dict[str, str]:
    """`bias` [B, 1, S, S] for the scores of attention; in place of positions, `rows` is whether a token is real."""
    real = graph("Cast", mask.name, to=code("bool"))  # [B, S]
    bias = graph("Where", real, graph.constant(np.float32(0)), graph.constant(_NOWHERE))  # [B, S]
    bias = graph("Unsqueeze", bias, graph.constant([1, 2]))  # [B, 1, 1, S]
    batch, length = (shape_of(graph, mask.name, axis, axis + 1) for axis in (0, 1))
    square = graph("Concat", batch, graph.constant([1]), length, length, axis=0)
    bias = graph("Expand", bias, square)  # [B, 1, S, S]
    return {"bias": bias, "rows": real, "slots": mask.name, "stand_ins": mask.name}


def _unpack(graph: Graph, config: Any, x: Value, padding: dict[str, Value]) -> str:
    real = graph("Unsqueeze", padding["rows"].name, graph.constant([-1]))  # [B, S, 1]
    return graph("Where", real, x.name, graph.constant(np.float32(0)))  # [B, S, H]


# === Tables ===


def _embedding(graph: Graph, config: Any, x: Value, reverse: bool = False) -> str:
    name, table = f"{config['name']}/embeddings", _array(config["layer"].embeddings)
    if reverse:
        return graph("Gemm", x.name, graph.weight(name, table), transB=1)  # [B * P, V]
    if not graph.int8:
        return graph("Gather", graph.weight(name, table), x.name)  # [B, S, H]
    levels, scale = quantized(table, axis=1)  # [V, H], [V, 1]
    row = graph("Gather", graph.weight(f"{name}_int8", levels), x.name)
    scales = graph("Gather", graph.weight(f"{name}_scale", scale), x.name)  # [B, S, 1]
    return graph("Mul", graph("Cast", row, to=code("float32")), scales)


def _positions(graph: Graph, config: Any, padding: dict[str, Value]) -> str:
    table = graph.weight(f"{config['name']}/embeddings", _array(config["layer"].embeddings))
    return graph("Slice", table, graph.constant([0]), shape_of(graph, padding["slots"].name, 1, 2))  # [S, H]


# === Products and norms ===

_OF_A_BLOCK = re.compile(r"layer_\d+_(attention_qkv|attention_output|intermediate|output)")

_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "keras_bert>gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "keras_bert>gelu_erf": ("Gelu", {}),
    "gelu": ("Gelu", {}),
    "tanh": ("Tanh", {}),
    "relu": ("Relu", {}),
    "sigmoid": ("Sigmoid", {}),
    "softmax": ("Softmax", {"axis": -1}),
}


def _activate(graph: Graph, config: Any, x: str) -> str:
    kind = config["activation"]
    if isinstance(kind, dict):
        kind = kind["config"] if isinstance(kind.get("config"), str) else kind.get("class_name", "a lambda")
    if kind == "linear":
        return x
    if kind not in _ACTIVATIONS:
        raise ValueError(
            f"The activation of the layer {config['name']!r} cannot be written as ONNX. Use one of "
            f"{', '.join(name for name in _ACTIVATIONS if '>' not in name)}. Received: {kind}"
        )
    op, attributes = _ACTIVATIONS[kind]
    return graph(op, x, **attributes)


def _dense(graph: Graph, config: Any, x: Value) -> str:
    layer, name = config["layer"], config["name"]
    if layer.quantization_mode is not None:
        raise ValueError(
            f"The layer {name!r} is quantized, but ONNX graphs are made from plain weights. Use the model as it was "
            'before `quantize`. For a graph in int8, pass dtype="int8" when you export that model. '
            f"Received: quantization_mode={layer.quantization_mode!r}"
        )
    kernel = _array(layer.kernel)  # with the change of LoRA
    y = _product(graph, x.name, kernel, name)
    if layer.use_bias:
        y = graph("Add", y, graph.weight(f"{name}/bias", _array(layer.bias)))
    return _activate(graph, config, y)


def _product(graph: Graph, x: str, kernel: np.ndarray, name: str) -> str:
    weight = f"{name}/kernel"
    if not graph.int8 or not _OF_A_BLOCK.fullmatch(name):  # heads and the pooler stay exact, and take little time
        return graph("MatMul", x, graph.weight(weight, kernel))
    if name.endswith("_intermediate"):
        return graph.int8_product_after_norm(x, kernel, weight)
    if name.endswith(("attention_qkv", "attention_output")):
        return graph.int8_product(x, kernel, weight)
    return graph.int8_product_after_gelu(x, kernel, weight)


def _norm(graph: Graph, config: Any, x: Value | str) -> str:
    layer, name = config["layer"], config["name"]
    last = () if isinstance(x, str) else (len(x.shape) - 1, [len(x.shape) - 1])
    settings = {"axis": (-1, [-1], *last), "rms_scaling": (False,), "scale": (True,), "center": (True,)}
    for setting, usual in settings.items():
        if config.get(setting, usual[0]) not in usual:
            refuse(config, setting, "Use the default.")
    gamma, beta = (graph.weight(f"{name}/{part}", _array(getattr(layer, part))) for part in ("gamma", "beta"))
    x = x if isinstance(x, str) else x.name
    y = graph("LayerNormalization", x, gamma, beta, epsilon=config["epsilon"], axis=-1)
    graph.sizes[y] = _usual_sizes(_array(layer.gamma), _array(layer.beta))
    return y


def _usual_sizes(gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """How large the numbers in each channel of a norm's output usually are [H]: few are 4 standard deviations away."""
    sizes = 4 * np.abs(gamma) + np.abs(beta)
    return np.maximum(sizes, sizes.mean() / 100 or 1)


def _add_norm(graph: Graph, config: Any, terms: list[Value]) -> str:
    total = terms[0].name
    for term in terms[1:]:
        total = graph("Add", total, term.name)
    return _norm(graph, config, total)


def _attention(graph: Graph, config: Any, qkv: Value, padding: dict[str, Value]) -> str:
    heads = {"q_num_heads": config["num_heads"], "kv_num_heads": config["num_heads"]}
    query, key, value = graph.several("Split", qkv.name, count=3, axis=-1, num_outputs=3)  # 3 x [B, S, H]
    return graph("Attention", query, key, value, padding["bias"].name, **heads)  # [B, S, H]


# === Heads ===


def _flat_rows(graph: Graph, config: Any, x: Value, *_: Any) -> str:
    return graph("Reshape", x.name, shape_with(graph, x.name, [-1], last=1))  # [B * rows, S]


def _gather_positions(graph: Graph, config: Any, sequence: Value, positions: Value) -> str:
    at = graph("Cast", positions.name, to=code("int64"))
    at = graph("Unsqueeze", at, graph.constant([-1]))  # [B, P, 1]
    rows = graph("GatherND", sequence.name, at, batch_dims=1)  # [B, P, H]
    return graph("Reshape", rows, graph.constant([-1, sequence.shape[-1]]))  # [B * P, H]


def _logits(graph: Graph, config: Any, products: Value, positions: Value) -> str:
    x = graph("Add", products.name, graph.weight(f"{config['name']}/bias", _array(config["layer"].bias)))
    shape = graph("Concat", shape_of(graph, positions.name), graph.constant([products.shape[-1]]), axis=0)
    return graph("Reshape", x, shape)  # [B, P, V]


def _same(graph: Graph, config: Any, x: Value, *_: Any) -> str:
    return x.name


def _window_pooling(graph: Graph, config: Any, vectors: Value, padding: dict[str, Value]) -> str:
    size, layer = int(vectors.shape[-1] or 0), config["layer"]
    shape = graph("Concat", shape_of(graph, padding["slots"].name), graph.constant([size]), axis=0)
    by_text = graph("Reshape", vectors.name, shape)  # [B, K, H]
    real = graph("Unsqueeze", padding["rows"].name, graph.constant([-1]))  # [B, K, 1]
    if config["pool"] == "max":
        real_only = graph("Where", real, by_text, graph.constant(_NOWHERE))
        return graph("ReduceMax", real_only, graph.constant([1]), keepdims=0)  # [B, H]
    query = _array(layer.query) if config["pool"] == "attention" else np.zeros((size, 1), "float32")
    scores = graph("MatMul", by_text, graph.weight(f"{config['name']}/query", query))  # [B, K, 1]
    weights = graph("Softmax", graph("Where", real, scores, graph.constant(_NOWHERE)), axis=1)
    return graph("ReduceSum", graph("Mul", weights, by_text), graph.constant([1]), keepdims=0)  # [B, H]


def _column_vector(graph: Graph, config: Any, columns: dict[str, Value]) -> str:
    layer, parts = config["layer"], []
    if "numbers" in columns:
        x = columns["numbers"].name  # [B, N]
        for step in layer.steps:
            x = graph("Sub", x, graph.constant(_array(step.mean)))
            x = graph("Div", x, graph.constant(np.sqrt(_array(step.variance))))
        parts.append(x)
    if "categories" in columns:
        ids = graph("Cast", columns["categories"].name, to=code("int64"))
        hot = graph("OneHot", ids, graph.constant([layer.values]), graph.constant(np.array([0, 1], "float32")))
        parts.append(graph("ReduceMax", hot, graph.constant([1]), keepdims=0))  # [B, values]
    x = graph("Concat", *parts, axis=-1)
    name = config["name"]
    kernel, bias = (graph.weight(f"{name}/{part}", _array(getattr(layer, part))) for part in ("kernel", "bias"))
    return graph("Tanh", graph("Add", graph("MatMul", x, kernel), bias))


LAYERS = {
    "Padding": _padding,
    "Pack": _same,
    "Unpack": _unpack,
    "Embedding": _embedding,
    "PositionEmbedding": _positions,
    "Dense": _dense,
    "LayerNorm": _norm,
    "LayerNormalization": _norm,
    "AddNorm": _add_norm,
    "SelfAttention": _attention,
    "Dropout": _same,
    "Activation": lambda graph, config, x: _activate(graph, config, x.name),
    "UnitNormalization": lambda graph, config, x: normalized(graph, x, config["axis"]),
    "FlatRows": _flat_rows,
    "RealWindows": _flat_rows,
    "WindowPooling": _window_pooling,
    "ColumnVector": _column_vector,
    "GatherPositions": _gather_positions,
    "Logits": _logits,
}
