"""The scores of a task on held-out rows, as `keras-bert evaluate` prints them, and as a callback."""

from typing import Any

import keras

LOWER_IS_BETTER = frozenset({"calibration_error"})  # of all other scores, the highest is the best


def scores(task: Any, x: Any, y: Any, *, batch_size: int = 32, **options: Any) -> dict[str, float]:
    """What the task reports of its answers, by name. `x` and `y` are columns, as `fit` takes them.

    options: of the task's `report`, such as `characters=True` to score answers by characters, as KorQuAD does.
    """
    examples = task.examples(x)
    return task.report_logits(y, examples, task.logits(examples, batch_size), **options)


class Scores(keras.callbacks.Callback):
    """Adds the `scores` of held-out rows to the logs of each epoch, as val_matthews, val_entity_f1 and so on.

    Use it with a task that you compiled; without `compile`, `fit` does the same for its `validation_data`. Values that
    are in the logs already stay as they are. Its place among the callbacks does not matter: `fit` runs it before those
    that may monitor its scores.

    >>> task.fit(texts, labels, callbacks=[Scores(held_out_texts, held_out_labels)])    # doctest: +SKIP
    """

    def __init__(self, x: Any, y: Any, **options: Any) -> None:
        super().__init__()
        self.x = x
        self.y = y
        self.options = options

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        for name, value in self.found().items():
            logs.setdefault(f"val_{name}", value)

    def found(self) -> dict[str, float]:
        """The scores of the model as it is now."""
        return scores(self.model, self.x, self.y, **self.options)
