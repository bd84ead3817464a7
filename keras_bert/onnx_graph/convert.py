"""A functional Keras model as an ONNX graph: one table says how each layer and each Keras op is written."""

from collections.abc import Callable
from graphlib import TopologicalSorter
from typing import Any

import keras

from keras_bert.bert import Bert
from keras_bert.installation import need
from keras_bert.onnx_graph.graph import Graph, Value
from keras_bert.onnx_graph.keras_ops import OPS, float_dtype
from keras_bert.onnx_graph.layers import LAYERS

_RULES = {**OPS, **LAYERS}
_TENSOR, _SLICE, _ELLIPSIS = "__keras_tensor__", "__slice__", "__ellipsis__"  # how Keras writes arguments into a config


def to_onnx(model: keras.Model, *, int8: bool = False, largest: int = 127) -> Any:
    """An `onnx.ModelProto` of a `Bert`, a task, a `Pretrainer` or any functional model over a `Bert`.

    Its inputs are the model's; its outputs have the names of the model's, or are called `output` if there is only one.
    Weights are read once, in float32, whatever the policy is, and with the changes of LoRA. With `int8`, the whole
    numbers for a weight are up to `largest`.
    """
    need("onnx", "An ONNX graph", "onnxruntime")
    plain = plain_model(model)
    graph = Graph(int8=int8, largest=largest)
    inputs = {name: Value(name, x.dtype, x.shape) for name, x in inputs_of(plain).items()}
    found = _walk(graph, plain, plain.get_config(), inputs)
    symbolic = plain.output if isinstance(plain.output, dict) else {"output": plain.output}
    found = found if isinstance(found, dict) else {"output": found}
    outputs = {name: Value(found[name], float_dtype(x.dtype), x.shape) for name, x in symbolic.items()}
    return graph.model(inputs, outputs)


def inputs_of(model: keras.Model) -> dict[str, Any]:
    """The symbolic inputs of a model by name, in their order."""
    return model.input if isinstance(model.input, dict) else {x.name: x for x in keras.tree.flatten(model.input)}


def plain_model(model: keras.Model) -> keras.Model:
    """The layers of a model as a plain `keras.Model`, whose config lists them. A `Bert` keeps two of its outputs."""
    outputs = model.output
    if isinstance(model, Bert):
        outputs = {name: outputs[name] for name in ("pooled_output", "sequence_output")}
    return keras.Model(model.input, outputs)


def _walk(graph: Graph, model: keras.Model, config: dict[str, Any], inputs: Any) -> Any:
    """Add the nodes of a functional model to the graph, and return the names of its outputs, structured as they are."""
    entries = {entry["name"]: entry for entry in config["layers"]}
    made: dict[tuple[str, int], list[str]] = {(entry, 0): [value.name] for entry, value in inputs.items()}
    calls = {
        (name, number): node for name, entry in entries.items() for number, node in enumerate(entry["inbound_nodes"])
    }
    after = {call: {(one[0], one[1]) for one in _references(node)} for call, node in calls.items()}
    inner = {name for name in entries if "input_layers" in entries[name]["config"]}  # Keras counts their calls from 1
    outputs = _changed(config["output_layers"], lambda name, number, index: [name, number - (name in inner), index])
    wanted = _needed({(one[0], one[1]) for one in _references(outputs)}, after)

    def argument(x: Any) -> Any:
        kind = x.get("class_name") if isinstance(x, dict) else None
        if kind == _TENSOR:
            name, number, index = x["config"]["keras_history"]
            return Value(made[name, number][index], x["config"]["dtype"], tuple(x["config"]["shape"]))
        if kind == _SLICE:
            return slice(*(x["config"][part] for part in ("start", "stop", "step")))
        if kind == _ELLIPSIS:
            return ...
        if isinstance(x, dict):
            return {key: argument(one) for key, one in x.items()}
        return [argument(one) for one in x] if isinstance(x, list | tuple) else x

    for call in TopologicalSorter(after).static_order():
        if call in made or call not in wanted:
            continue
        entry, node = entries[call[0]], calls[call]
        args = [argument(x) for x in node["args"]]
        kwargs = {key: argument(x) for key, x in node["kwargs"].items() if key != "training" and x is not None}
        if "layers" in entry["config"]:  # a model in the model
            results = _walk_inner(graph, model.get_layer(entry["name"]), args[0])
        else:
            rule = _rule(entry)
            settings = {**entry["config"], "layer": _layer(model, entry["name"])}
            results = rule(graph, settings, *args, **kwargs)
        made[call] = keras.tree.flatten(results)
    return _changed(outputs, lambda name, number, index: made[name, number][index])


def _walk_inner(graph: Graph, inner: keras.Model, given: Any) -> Any:
    """Add the nodes of a model that is a layer of another model; it may be a Sequential."""
    plain = keras.Model(inner.inputs, inner.outputs[0]) if isinstance(inner, keras.Sequential) else inner
    config = plain.get_config()
    if not isinstance(given, dict):
        names = [name for name, *_ in _references(config["input_layers"])]
        given = dict(zip(names, given if isinstance(given, list) else [given], strict=True))
    return _walk(graph, plain, config, given)


def _rule(entry: dict[str, Any]) -> Any:
    rule = _RULES.get(entry["class_name"])
    if rule is None:
        raise ValueError(
            f"The layer {entry['name']!r} cannot be written as ONNX: there is no rule for {entry['class_name']}. Build "
            "the head from Dense layers and plain operations of keras.ops, or convert the encoder, `task.bert`. "
            f"Received: {entry['class_name']}"
        )
    return rule


def _layer(model: keras.Model, name: str) -> Any:
    """The layer of this name; None for an operation of keras.ops, which is no layer."""
    return next((layer for layer in model.layers if layer.name == name), None)


def _references(x: Any) -> list[list[Any]]:
    """The tensors in the arguments of a node, or in the outputs of a model: [layer, node, index]."""
    if isinstance(x, dict):
        if x.get("class_name") == _TENSOR:
            return [x["config"]["keras_history"]]
        x = list(x.values())
    if _is_reference(x):
        return [x]
    return [one for part in x for one in _references(part)] if isinstance(x, list | tuple) else []


def _is_reference(x: Any) -> bool:
    return isinstance(x, list | tuple) and len(x) == 3 and isinstance(x[0], str) and isinstance(x[1], int)


def _needed(outputs: set[tuple[str, int]], after: dict[Any, set[Any]]) -> set[tuple[str, int]]:
    """The calls on which these outputs depend."""
    found, left = set(outputs), list(outputs)
    while left:
        new = after.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def _changed(x: Any, change: Callable[[str, int, int], Any]) -> Any:
    """The same structure with each reference changed."""
    if _is_reference(x):
        return change(*x)
    if isinstance(x, dict):
        return {key: _changed(one, change) for key, one in x.items()}
    return [_changed(one, change) for one in x]
