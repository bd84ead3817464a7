"""Runner: a Keras model run without training over tokenized rows; Runners: those that a model keeps."""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np

from keras_bert.inputs import INPUTS
from keras_bert.lazy import tf
from keras_bert.text.shared_rows import SHARED_ROWS
from keras_bert.text.tokenized_rows import TokenizedRows


class Runner:
    """Runs a model on batches of any size and length.

    On TensorFlow, all of them run in one graph. The other backends compile each shape, so there a batch has a power of
    two of rows and a multiple of 16 columns, and many texts share rows.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.graphs: dict[int, Any] = {}  # by the rank of their inputs

    def __call__(self, rows: TokenizedRows, index: np.ndarray) -> np.ndarray:
        """The model's output for the examples with these indices, in the order of the indices."""
        if keras.backend.backend() == "tensorflow":
            inputs = {name: tf.constant(value) for name, value in rows.packed(index).items()}
            return self.graph(inputs["input_mask"].ndim)(inputs).numpy()
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

    def graph(self, rank: int) -> Any:
        """The model as one graph for inputs of this rank.

        It is a concrete function: `tf.function` itself warns of retracing where several runners are made.
        """
        if rank not in self.graphs:
            inputs = {name: tf.TensorSpec([None] * rank, tf.int32) for name in INPUTS}

            @tf.function(input_signature=[inputs], autograph=False)
            def graph(inputs: dict[str, Any]) -> Any:
                return self.model(inputs, training=False)

            self.graphs[rank] = graph.get_concrete_function()
        return self.graphs[rank]


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
