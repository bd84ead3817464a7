"""Runner: a Keras model run without training over tokenized rows; Runners: those that a model keeps."""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np

from keras_bert.lazy import tf
from keras_bert.text.shared_rows import SHARED_ROWS
from keras_bert.text.tensors import uses_tensorflow
from keras_bert.text.tokenized_rows import TokenizedRows, as_tensors


class Runner:
    """Runs a model on batches of any size and length.

    On TensorFlow, packing and model are one graph. The other backends compile each shape, so there a batch has a power
    of two of rows and a multiple of 16 columns, and many texts share rows.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.graphs: dict[Hashable, Any] = {}

    def __call__(self, rows: TokenizedRows, index: np.ndarray) -> np.ndarray:
        """The model's output for the examples with these indices, in the order of the indices."""
        if keras.backend.backend() == "tensorflow" and uses_tensorflow():
            segments = [as_tensors(segment).with_row_splits_dtype("int64") for segment in rows.segments]
            return self._graph(rows)(segments, index).numpy()
        count = 1 << (len(index) - 1).bit_length()
        filled = np.concatenate([index, np.repeat(index[-1:], count - len(index))])
        shared = rows.shared(filled)
        width = rows.widest if shared else "longest"
        inputs = {name: np.asarray(value) for name, value in rows.pack(filled, width).items()}
        if shared:
            inputs[SHARED_ROWS] = shared.sources(rows.row_lengths[filled].ravel(), rows.widest)
        output = self.model.predict_on_batch(inputs)
        return np.asarray(output)[: len(index)]

    def on_inputs(self, inputs: dict[str, np.ndarray]) -> Any:
        """The model's output for inputs that are packed already."""
        return self.model(inputs, training=False)

    def _graph(self, rows: TokenizedRows) -> Any:
        """A concrete function: `tf.function` itself warns of retracing where several runners are made."""
        packer, count, columns = rows.packer, rows.rows_per_example, len(rows.segments)
        key = packer, count, columns
        if key not in self.graphs:
            ids = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)

            @tf.function(input_signature=[[ids] * columns, tf.TensorSpec([None], tf.int64)], autograph=False)
            def graph(segments: list[Any], index: Any) -> Any:
                return self.model(TokenizedRows(segments, packer, count).pack(index), training=False)

            self.graphs[key] = graph.get_concrete_function()
        return self.graphs[key]


class Runners:
    """The runners of a model by what they compute. Each is made when it is first used.

    All are made again once `quantize` or `enable_lora` has changed the model's variables. This is a plain object, so
    Keras neither tracks nor saves it.
    """

    def __init__(self) -> None:
        self.made: dict[Hashable, Runner] = {}
        self._variables: tuple[int, ...] = ()

    def get(self, key: Hashable, owner: keras.Model, build: Callable[[], keras.Model]) -> Runner:
        """The runner with this key; if there is none, one for the model that `build` returns."""
        variables = tuple(map(id, owner.variables))
        if variables != self._variables:
            self.made.clear()
            self._variables = variables
        if key not in self.made:
            self.made[key] = Runner(build())
        return self.made[key]


asked_runners: ContextVar[Any] = ContextVar("asked_runners", default=None)  # of another engine, while it is asked
