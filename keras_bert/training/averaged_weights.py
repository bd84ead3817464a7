"""AveragedWeights: between epochs, the weights of a model are their moving averages."""

from typing import Any

import keras
from keras import ops

from keras_bert.compat import averages_of


class AveragedWeights(keras.callbacks.Callback):
    """Puts the moving averages of an optimizer with `use_ema` into the model at the end of each epoch.

    So the averages are validated and saved by the callbacks after this one, and at the end of training they stay in the
    model. The trained weights come back when the next epoch begins. Keras's SwapEMAWeights does this by adding and
    subtracting, which changes the last bits of the weights. With other optimizers this does nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._trained: list[Any] = []  # pairs of a variable and its value
        self._only_for_test = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.take_out()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.put_in()

    def on_test_begin(self, logs: Any = None) -> None:  # Keras validates packed rows before the epoch ends
        self._only_for_test = not self._trained
        if self._only_for_test:
            self.put_in()

    def on_test_end(self, logs: Any = None) -> None:
        if self._only_for_test:
            self.take_out()

    def put_in(self) -> None:
        """Make the averages the weights of the model."""
        pairs = averages_of(self.model.optimizer)
        self._trained = [(variable, ops.convert_to_numpy(variable).copy()) for variable, _ in pairs]
        for variable, average in pairs:
            variable.assign(ops.convert_to_numpy(average).copy())  # JAX gives away the memory of weights in a step

    def take_out(self) -> None:
        """Put the trained weights back."""
        for variable, value in self._trained:
            variable.assign(value)
        self._trained = []
