"""FinetuneSettings: everything that decides a fine-tuning run, with its task and its record."""

from keras_bert.checks import check_choice
from keras_bert.policy import TRAINABLE_DTYPES
from keras_bert.tasks.run.plain_settings import PlainSettings
from keras_bert.tasks.task import Task


class FinetuneSettings(PlainSettings):
    """The settings with their task, and their record in the folder of a run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("dtype", self.dtype, TRAINABLE_DTYPES)
        for name in sorted({name for task in Task.commands().values() for name in task.run_fields}):
            if getattr(self, name) and name not in self.task.run_fields:
                raise ValueError(
                    f"`{name}` was given, but the task {self.kind!r} does not have it. Leave it out. Received: "
                    f"{name}={getattr(self, name)!r}"
                )

    @property
    def task(self) -> type[Task]:
        """The class of the task."""
        return Task.named(self.kind)

    @property
    def rows_per_batch(self) -> int:
        """The rows in a batch of training."""
        return self.task.default_batch_size if self.batch_size is None else self.batch_size

    @property
    def length(self) -> int:
        """The most pieces in a row."""
        return self.seq_length or self.task.default_seq_length
