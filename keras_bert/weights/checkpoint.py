"""Checkpoint: what a file of any format holds, in our own names."""

import logging
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from keras_bert.config import BertConfig
from keras_bert.layers.dense import initializer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.names import Stored, encoder_shapes, head_shapes, listed

logger = logging.getLogger("keras_bert")

_SLICE = 8 << 20  # bytes
HEADS = ("mlm", "nsp", "classifier", "regressor", "tagger", "qa", "choice")


@dataclass(frozen=True)
class TextRules:
    """How text was cut when the model was trained; the arguments of `Preprocessor`."""

    lowercase: bool = True
    strip_accents: bool | None = None  # None: as lowercase
    split_cjk: bool = True


@dataclass(frozen=True)
class Pooling:
    """How a sentence-transformers model makes one vector of a text: arguments of `Bert.embed`."""

    pooling: str = "mean"
    normalize: bool = False


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
    rules: TextRules = TextRules()
    pooling: Pooling | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any) -> "Checkpoint":
        """The checkpoint of a `Bert` in memory, or of a task with its heads."""
        bert = getattr(model, "bert", model)
        weights = {name: _stored(variable) for name, variable in variables(bert).items()}
        heads = {name: _head(model, name) for name in getattr(model, "heads", ())}
        checkpoint = cls(model.name, type(model).__name__, bert.config, weights, heads)
        preprocessor = bert._preprocessor
        if preprocessor is not None:
            checkpoint.vocabulary = preprocessor.vocabulary
            checkpoint.rules = TextRules(preprocessor.lowercase, preprocessor.strip_accents, preprocessor.split_cjk)
        checkpoint.pooling = getattr(bert, "pooling", None)
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
    found = _plain_weights(bert)
    return {name: found[name] for name in encoder_shapes(bert.config)}


def head_variables(task: Any, head: str) -> dict[str, Any]:
    """The weights of one head of a task by "layer/weight"."""
    found = _plain_weights(task)
    return {name: found[name] for name in head_shapes(head, task.bert.config, outputs=1)}  # the names alone


def _head(task: Any, name: str) -> Head:
    weights = {weight: _stored(variable) for weight, variable in head_variables(task, name).items()}
    config = getattr(task, "mlm_config", None) if name == "mlm" else None
    return Head(weights, getattr(task, "labels", None), getattr(task, "multi_label", False), config)


def _plain_weights(model: Any) -> dict[str, Any]:
    changed = [
        layer.name
        for layer in model.layers
        if getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None)
    ]
    if changed:
        raise ValueError(
            "Only plain weights have a place in other formats. Save a model with LoRA or quantized layers by "
            f"model.save(path). Received: {listed(changed)}"
        )
    return {f"{layer.name}/{weight.name}": weight for layer in model.layers for weight in layer.weights}


def _assign(variable: Any, x: np.ndarray) -> None:
    """Put an array into a variable; a large one in slices on TensorFlow, which else holds two more copies of it."""
    if keras.backend.backend() == "tensorflow" and x.ndim == 2 and x.nbytes > _SLICE:
        import tensorflow as tf

        value = variable.value
        if tuple(x.shape) == tuple(value.shape) and not isinstance(value, tf.distribute.DistributedValues):
            rows = max(1, _SLICE * len(x) // x.nbytes)
            for start in range(0, len(x), rows):
                part = x[start : start + rows]
                value[start : start + len(part)].assign(keras.ops.convert_to_tensor(part, value.dtype.name))
            return
    variable.assign(x)


def _stored(variable: Any) -> Stored:
    def read() -> np.ndarray:
        return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(variable.value, "float32")))

    return Stored(tuple(variable.shape), read)
