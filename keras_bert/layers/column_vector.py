"""ColumnVector: the numbers and categories beside a text, as a vector like that of the text."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import KerasTensor, ops

from keras_bert.layers.dense import Normal


@keras.saving.register_keras_serializable("keras_bert")
class ColumnVector(keras.layers.Layer):
    """From `numbers` [B, N] and `categories` [B, C], ids, to a vector [B, units] between -1 and 1, as the pooler's is.

    The numbers are standardised, each category becomes a 1 among zeros, and a Dense layer with tanh reads both. At the
    learning rates of BERT a weight changes by less than 0.01 in some hundred steps. A head that read a number itself
    would have one such weight for it, next to hundreds for the text, and learn little of it.

    Args:
        units: the size of the vector.
        means, deviations: of the numbers, one for each column.
        values: how many ids the categories of all columns have together.
    """

    def __init__(
        self,
        units: int,
        means: Sequence[float] = (),
        deviations: Sequence[float] = (),
        values: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.means = tuple(means)
        self.deviations = tuple(deviations)
        self.values = values
        # A float32 has 7 digits, too few for the mean of years or of dates. The rest of it is subtracted at the end.
        mean, deviation = np.array([self.means, self.deviations], "float64")  # [N] each
        rest = (mean - mean.astype("float32")) / deviation
        near = {"mean": mean.tolist(), "variance": np.square(deviation).tolist()}
        exact = {"mean": rest.tolist(), "variance": np.ones_like(rest).tolist()}
        self.steps = [keras.layers.Normalization(**one, dtype="float32") for one in (near, exact) if self.means]
        self.one_hot = keras.layers.CategoryEncoding(values, dtype="float32") if values else None

    def build(self, shapes: dict[str, Any]) -> None:
        for step in self.steps:
            step.build(shapes["numbers"])
        inputs = sum(shape[-1] for shape in shapes.values())  # those that are not 0
        size = len(self.means) + self.values, self.units
        self.kernel = self.add_weight(shape=size, initializer=Normal(stddev=inputs**-0.5), name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def call(self, columns: dict[str, Any]) -> Any:
        parts = []
        if self.steps:
            parts.append(columns["numbers"])
            for step in self.steps:
                parts[0] = step(parts[0])  # [B, N]
        if self.one_hot is not None:
            parts.append(self.one_hot(columns["categories"]))  # [B, values]
        return ops.tanh(ops.matmul(ops.concatenate(parts, axis=-1), self.kernel) + self.bias)  # [B, units]

    def compute_output_spec(self, columns: dict[str, KerasTensor]) -> KerasTensor:
        return KerasTensor((None, self.units), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        names = ("units", "means", "deviations", "values")
        return super().get_config() | {name: getattr(self, name) for name in names}
