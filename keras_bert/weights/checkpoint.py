"""Checkpoint: what a file of any format holds, in our own names."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.dense import initializer
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.vectors import Pooling
from keras_bert.weights.names import Stored, encoder_shapes, head_shapes
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")

_SLICE = 8 << 20  # bytes
HEADS = ("mlm", "nsp", "classifier", "regressor", "tagger", "qa", "choice")


@dataclass(frozen=True)
class Head:
    """A head's weights, "layer/weight" to array.

    labels: in the order of its outputs. multi_label: whether several may hold at once, so that each is a sigmoid.
    config: what its layers are computed with, where the encoder's does not hold.
    """

    weights: dict[str, Stored]
    labels: tuple[str, ...] | None = None
    multi_label: bool = False
    config: BertConfig | None = None


@dataclass
class Checkpoint:
    """A model on disk or in memory, its arrays unread.

    weights: of the encoder, "layer/weight" of `Bert`. heads: by task, see `HEADS`.
    left_out: what of the source has no place here, with the reason.
    """

    source: str
    format: str
    config: BertConfig
    weights: dict[str, Stored]
    heads: dict[str, Head] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None
    rules: TextRules = field(default_factory=TextRules)
    pooling: Pooling | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any) -> "Checkpoint":
        """The checkpoint of a `Bert` in memory, or of a task with its heads."""
        bert = getattr(model, "bert", model)
        layers = _layers(model)
        weights = {name: _stored(layers, name) for name in encoder_shapes(bert.config)}
        heads = {name: _head(model, layers, name) for name in getattr(model, "heads", ())}
        checkpoint = cls(model.name, type(model).__name__, bert.config, weights, heads)
        preprocessor = bert._preprocessor
        if preprocessor is not None:
            checkpoint.vocabulary = preprocessor.vocabulary
            checkpoint.rules = TextRules.of(preprocessor)
        checkpoint.pooling = bert.pooling
        return checkpoint

    def check(self) -> "Checkpoint":
        """An error if the vocabulary and the word table are of different lengths."""
        if self.vocabulary is not None and len(self.vocabulary) != self.config.vocab_size:
            raise ValueError(
                f"The vocabulary must have a piece for each of the {self.config.vocab_size} word vectors. Use the "
                "vocab.txt that came with the weights; if the table was padded, append lines [unused...] for the rest. "
                f"Received: {len(self.vocabulary)} pieces in {self.source}"
            )
        return self

    def assign_to(self, bert: Any) -> None:
        """Put the encoder's arrays into a built `Bert`, one at a time; where the pooler is missing, it begins anew."""
        ours = variables(bert)
        missing = sorted(set(ours) - set(self.weights) - {"pooler/kernel", "pooler/bias"})
        if missing:
            raise ValueError(
                f"The checkpoint must have every weight. Missing: {listed(missing)}. Received: {self.source}"
            )
        for name, stored in self.weights.items():
            _assign(ours[name], stored.read())
        if "pooler/kernel" not in self.weights:
            kernel = ours["pooler/kernel"]
            kernel.assign(initializer(self.config)(kernel.shape, dtype=kernel.dtype))
            logger.warning(
                "%s has no pooler; its own is drawn at random, and pooled_output means nothing till it is trained.",
                self.source,
            )


def variables(bert: Any) -> dict[str, Any]:
    """The weights of a `Bert` by "layer/weight", without the states of random generators."""
    return _variables(bert, encoder_shapes(bert.config))


def head_variables(task: Any, head: str) -> dict[str, Any]:
    """The weights of one head of a task by "layer/weight"."""
    return _variables(task, head_shapes(head, task.bert.config, outputs=1))  # the names alone


def _variables(model: Any, names: Iterable[str]) -> dict[str, Any]:
    layers = _layers(model)
    return {name: _variable(layers, name)[1] for name in names}


def _variable(layers: dict[str, Any], name: str) -> tuple[Any, Any]:
    """The layer of a weight, and its variable."""
    layer, _, weight = name.partition("/")
    return layers[layer], next(variable for variable in layers[layer].weights if variable.name == weight)


def _layers(model: Any) -> dict[str, Any]:
    """By name, those of the encoder included that a task has no use for; an error if one is quantized."""
    layers = {layer.name: layer for layer in (*getattr(model, "bert", model).layers, *model.layers)}
    if quantized := [name for name, layer in layers.items() if getattr(layer, "quantization_mode", None)]:
        raise ValueError(
            "Quantized layers have no place in a checkpoint of plain weights. Load the whole model by "
            f"keras.models.load_model(path), save it by model.save(path). Received: {listed(quantized)}"
        )
    return layers


def _head(task: Any, layers: dict[str, Any], name: str) -> Head:
    weights = {weight: _stored(layers, weight) for weight in head_shapes(name, task.bert.config, outputs=1)}
    config = getattr(task, "mlm_config", None) if name == "mlm" else None
    return Head(weights, getattr(task, "labels", None), getattr(task, "multi_label", False), config)


def _assign(variable: Any, x: np.ndarray) -> None:
    """Put an array into a variable; a large one in slices on TensorFlow, which else holds two more copies of it."""
    if keras.backend.backend() == "tensorflow" and x.ndim == 2 and x.nbytes > _SLICE:
        import tensorflow as tf

        value = variable.value
        if tuple(x.shape) == tuple(value.shape) and not isinstance(value, tf.distribute.DistributedValues):
            rows = max(1, _SLICE * len(x) // x.nbytes)
            for start in range(0, len(x), rows):
                part = x[start : start + rows]
                value[start : start + len(part)].assign(ops.convert_to_tensor(part, value.dtype.name))
            return
    variable.assign(x)


def _stored(layers: dict[str, Any], name: str) -> Stored:
    """An array in memory; of a kernel with LoRA the sum that its layer computes with."""
    layer, variable = _variable(layers, name)

    def read() -> np.ndarray:
        value = ops.cast(variable.value, "float32")
        if getattr(layer, "lora_enabled", False) and name.endswith("/kernel"):
            change = ops.matmul(layer.lora_kernel_a, layer.lora_kernel_b)
            value = value + layer.lora_alpha / layer.lora_rank * ops.cast(change, "float32")
        return np.asarray(ops.convert_to_numpy(value))

    return Stored(tuple(variable.shape), read)
