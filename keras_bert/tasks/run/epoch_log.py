"""EpochLog: log lines within an epoch, where Keras's progress bar cannot move."""

from typing import Any

import keras

from keras_bert.progress import ProgressLog


class EpochLog(keras.callbacks.Callback):
    """Logs now and then how many steps of the epoch are done, and its loss so far."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.progress = ProgressLog(f"Epoch {epoch + 1}", self.params.get("steps"))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.progress.at(batch + 1, lambda: f"loss {float((logs or {}).get('loss', float('nan'))):.4f}")
