"""FinishedTask: the task in the folder of a run, or any saved task, which answers files and is scored on them."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert.tasks.labels import check_known
from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.run.finetune import MODEL
from keras_bert.tasks.run.settings import FILE, FinetuneSettings
from keras_bert.tasks.task import Task
from keras_bert.weights.keras_file import read_keras

CHUNK = 256  # lines that are read before the first of them is answered


@dataclasses.dataclass(frozen=True)
class FinishedTask:
    """A task, and how its training files were read."""

    task: Task
    reading: Reading
    labelled_lines: bool = False  # whether a .txt file has lines of a label, a space and a text, as in training

    @classmethod
    def load(cls, source: Path, **reading: Any) -> "FinishedTask":
        """The task in a finished folder or a .keras file; `reading` has the fields that differ from training."""
        path, record = (source / MODEL, source / FILE) if source.is_dir() else (source, source.parent / FILE)
        if not path.is_file():
            raise FileNotFoundError(
                f"{str(source)!r} is neither a finished folder of `keras-bert finetune` nor the .keras file of a task. "
                f"Name one of them. Received: {str(source)!r}"
            )
        task = read_keras(path, compile=False)
        if not isinstance(task, Task):
            raise ValueError(
                f"{path} holds no task, but a {type(task).__name__}. Name the folder of a run of "
                f"`keras-bert finetune`, or the .keras file of a task. Received: {str(source)!r}"
            )
        settings = FinetuneSettings.from_json(record) if record.is_file() else None
        learned = settings.reading if settings else Reading()
        columns = (*reading.get("text", ()), *reading.get("choices", ()), reading.get("label"))
        if any(isinstance(column, str) for column in columns):  # otherwise there is a header if there was in training
            reading = {"header": True, **reading}
        labelled_lines = settings is not None and settings.labelled_lines
        return cls(task, dataclasses.replace(learned, **reading), labelled_lines)

    def evaluate(self, path: Path, *, batch_size: int = 32) -> dict[str, float]:
        """The scores on the rows of a file."""
        rows = self.task.read_rows(path, self.reading)
        check_known(self.task.labels_of(rows), rows, self.task.labels)
        return scores(self.task, rows.x, rows.y, batch_size=batch_size, **self.task.report_options(self.reading))

    def predict(self, path: Path, *, batch_size: int = 32) -> Iterator[dict[str, Any]]:
        """The answer to each row of a file as JSON; SQuAD's questions have their ids in it."""
        rows = self.task.read_rows(path, self.reading, labels=False)
        for id, answer in zip(rows.ids, self.task.answers_as_json(rows.x, batch_size), strict=True):
            yield {"id": id, **answer} if isinstance(id, str) else answer

    def predict_lines(self, lines: Iterable[tuple[int, str]], *, batch_size: int = 32) -> Iterator[dict[str, Any]]:
        """The answers to numbered lines, as they come. Tabs separate the texts of a row."""
        numbered = iter(lines)
        while chunk := list(itertools.islice(numbered, CHUNK)):
            yield from self.task.answers_as_json(self.task.read_lines(chunk, self.reading), batch_size)
