"""EpochLog: log lines within an epoch, where Keras's progress bar cannot move."""

from typing import Any

import keras

from keras_bert.progress import ProgressLog
from keras_bert.tasks.run.saved_step import SavedStep


class EpochLog(keras.callbacks.Callback):
    """Logs now and then how many steps of the epoch are done, and its loss so far.

    saved: the callback before it, which knows how many steps there are.
    """

    def __init__(self, saved: SavedStep) -> None:
        super().__init__()
        self.saved = saved

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.progress = ProgressLog(f"Epoch {epoch + 1}", self.saved.end - self.saved.step)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.progress.at(batch + 1, lambda: f"loss {float((logs or {}).get('loss', float('nan'))):.4f}")
