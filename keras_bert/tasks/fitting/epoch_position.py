"""EpochPosition: which batch of which epoch a training begins with, and at which it ends."""

from typing import Any

import keras

from keras_bert.checks import count_of
from keras_bert.text.tensors import tf


class EpochPosition(keras.callbacks.Callback):
    """Sets the variables by which batches are ordered, and ends an epoch that begins late or ends early.

    Args:
        epoch: the first epoch. start: its first batch, if earlier ones were trained on before.
        steps: in an epoch. max_steps: in all epochs together; None: all of them.
    """

    def __init__(self, *, epoch: int, start: int, steps: int, max_steps: int | None) -> None:
        super().__init__()
        with tf.device("CPU:0"):  # their values decide the order, also in a run that was resumed
            self.epoch, self.start = (tf.Variable(value, dtype=tf.int32, trainable=False) for value in (epoch, start))
        self._resumed = (epoch, start)
        self._steps = steps
        self._max_steps = max_steps
        self._count = steps  # batches of this epoch that are to be trained on
        self._ended = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        start = self._resumed[1] if epoch == self._resumed[0] else 0
        self.epoch.assign(epoch)
        self.start.assign(start)
        self._count = steps_in(epoch, self._steps, self._max_steps) - start

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._steps > self._count <= batch + 1 and not self.model.stop_training:
            self._ended = self.model.stop_training = True  # ends the epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._ended:  # this callback is the first, so that others may still end the training
            self._ended = self.model.stop_training = False


def steps_in(epoch: int, steps: int, max_steps: int | None) -> int:
    """The steps in an epoch, which is numbered from 0, if an epoch has `steps` and all epochs at most `max_steps`.

    >>> [steps_in(epoch, 100, 250) for epoch in range(3)]
    [100, 100, 50]
    """
    return steps if max_steps is None else min(steps, max_steps - epoch * steps)


def check_initial_step(step: int, steps: int) -> None:
    """Refuse a step that an epoch of so many steps does not have."""
    if not 0 <= step < steps:
        raise ValueError(
            f"`initial_step` must be from 0 to {steps - 1}, the last batch of an epoch. To begin with a later "
            f"epoch, pass initial_epoch. Received: initial_step={step!r}"
        )


def check_resumable(
    x: Any, packed: bool, distributed: bool, shuffle: bool, initial_step: int, max_steps: int | None
) -> None:
    """Refuse rows, devices and an order that cannot begin or end within an epoch."""
    count_of("max_steps", max_steps, 1)
    given = f"Received: initial_step={initial_step}, max_steps={max_steps}, x={type(x).__name__}"
    if packed:
        raise ValueError(
            "initial_step and max_steps work only if x has texts, but it has the ids that a preprocessor makes of "
            f"them. Pass the texts, or leave both out. {given}"
        )
    if distributed:
        raise ValueError(
            "A stream of rows, initial_step and max_steps work only on one device, but this task was built in a "
            f"strategy for several. Build the task outside of the strategy, or leave all three out. {given}"
        )
    if initial_step and not shuffle:
        raise ValueError(f"initial_step needs shuffle=True. Leave `shuffle` or initial_step out. {given}")
