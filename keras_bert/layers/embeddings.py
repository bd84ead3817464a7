"""From ids to vectors: the tables of words, positions and types."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import KerasTensor, ops

from keras_bert import kernels
from keras_bert.checks import check_length
from keras_bert.compat import set_untracked


class Table(keras.layers.Embedding):
    """A table of vectors, read in float32 under a mixed policy too, so that its gradient is summed in float32.

    Keras's `fit` on JAX would cast it. Thousands of tokens share the vector of their type: in bfloat16, its gradient
    was wrong by a tenth, and took longer than the rest of the step on a GPU.
    """

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        return super().add_weight(*args, **{"autocast": False, **kwargs})


@keras.saving.register_keras_serializable("keras_bert")
class Embedding(Table):
    """A table of vectors with a dense gradient; `reverse=True` multiplies by the table, as the MLM head does."""

    vectors: Any = None  # those of `word_vectors`, while its block lasts

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        if reverse:
            table = ops.cast(self.embeddings, self.compute_dtype)
            return ops.matmul(inputs, ops.transpose(table))  # [N, V]
        if self.vectors is not None:
            return self.vectors
        return ops.cast(kernels.lookup(self.embeddings, inputs), self.compute_dtype)  # [N, H]

    def compute_output_spec(self, inputs: KerasTensor, reverse: bool = False) -> KerasTensor:
        shape = (*inputs.shape[:-1], self.input_dim) if reverse else (*inputs.shape, self.output_dim)
        return KerasTensor(shape, dtype=self.compute_dtype)


@keras.saving.register_keras_serializable("keras_bert")
class PositionEmbedding(Table):
    """The learned vector of each token's position in its sequence."""

    def call(self, padding: dict[str, Any]) -> Any:
        check_length(padding["slots"].shape[1], self.input_dim)
        vectors = kernels.positions(self.embeddings, padding["rows"], padding["slots"])
        return ops.cast(vectors, self.compute_dtype)  # [N, H]

    def compute_output_spec(self, padding: dict[str, KerasTensor]) -> KerasTensor:
        return KerasTensor((None, self.output_dim), dtype=self.compute_dtype)


@contextlib.contextmanager
def word_vectors(layer: Embedding, vectors: Any) -> Iterator[None]:
    """A block in which the layer returns these vectors [N, H] for any ids, so that they can have a gradient."""
    set_untracked(layer, "vectors", vectors)
    try:
        yield
    finally:
        set_untracked(layer, "vectors", None)
