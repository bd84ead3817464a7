"""FinishedTask: the task in the folder of a run, or any saved task, which answers files and is scored on them."""

import dataclasses
import itertools
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert.tasks.metrics.by_label import one_sided
from keras_bert.tasks.readers import Reading, Rows
from keras_bert.tasks.readers.rows import lines, naming
from keras_bert.tasks.rows.labels import check_known
from keras_bert.tasks.run.run_folder import MODEL, SETTINGS_FILE, no_model, refuse_no_task, training_file
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.tasks.task import Task
from keras_bert.weights.keras_file import read_keras
from keras_bert.weights.our_export import read_task

logger = logging.getLogger("keras_bert")

CHUNK = 256  # lines that are read before the first of them is answered


@dataclasses.dataclass(frozen=True)
class FinishedTask:
    """A task, how its training files were read, and the settings.json of its run if it has one."""

    task: Task
    reading: Reading
    record: Path | None = None

    @classmethod
    def load(cls, source: Path, **reading: Any) -> "FinishedTask":
        """The task in a finished folder, a .keras file or an export.

        reading: the fields of `Reading` that differ from training.
        """
        folder, path = (source, source / MODEL) if source.is_dir() else (source.parent, source)
        record = folder / SETTINGS_FILE
        if not source.exists():
            raise FileNotFoundError(
                f"The model {source} does not exist. Correct the path. Rows of a file need a finished task, such as "
                f"the folder of a run of `keras-bert finetune`. Received: {str(source)!r}"
            )
        if path.is_file():
            task = read_keras(path, compile=False) if path.suffix == ".keras" else None
        else:
            task = read_task(source)
        if task is None and source.is_dir() and record.is_file():
            raise no_model(source)
        if task is None:
            refuse_no_task(source)
        if not isinstance(task, Task):
            raise ValueError(
                f"{path} holds a {type(task).__name__}, not a task. Name the folder of a run of "
                f"`keras-bert finetune`, or the .keras file of a task. Received: {str(source)!r}"
            )
        of_run = record.is_file() and path == folder / MODEL  # another file may have other settings beside it
        settings = FinetuneSettings.from_json(record) if of_run else None
        learned = settings.reading if settings else task.default_reading
        one_form = settings is not None and not task.learns_texts  # of rows
        learned = learned.of_another_file(task.command, task.reading_fields, reading, as_many_texts=one_form)
        return cls(task, learned, record if of_run else None)

    def evaluate(self, path: Path, *, batch_size: int = 32) -> dict[str, float]:
        """The scores on the rows of a file."""
        return self.report(path, batch_size=batch_size)[0]

    def report(
        self, path: Path, *, batch_size: int = 32, directory: Path | None = None, train: Path | None = None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """The scores on the rows of a file, and the details that the task has of them, such as those of each label.

        directory: where to write a report of the rows. train: a file of training rows, which the report looks for; by
            default that of the run, if it has not changed.
        """
        rows = self.task.read_rows(path, self.reading)
        if directory is None:
            return self.report_rows(rows, batch_size=batch_size)
        check_known(self.task.labels_of(rows), rows, self.task.labels)
        training = self.task.read_training_rows(train, self.reading) if train else self._training_rows(rows)
        options = self.task.report_options(self.reading)
        found = self.task.write_report(directory, rows, train=training, batch_size=batch_size, **options)
        return found["scores"], found["details"]

    def _training_rows(self, rows: Rows) -> Rows | None:
        """The training rows of the run, if they have as many columns as these."""
        if self.record is None or (file := training_file(self.record)) is None:
            return None
        training = self.task.read_training_rows(file, FinetuneSettings.from_json(self.record).reading)
        widths = {len(one.columns) for one in (training, rows)}
        if len(widths) > 1:  # an embedder may learn from other rows than those that it is scored on
            return None
        logger.info("The page also shows which rows are in %s, from which the model learned.", file)
        return training

    def report_rows(self, rows: Rows, *, batch_size: int = 32) -> tuple[dict[str, float], dict[str, Any]]:
        """The same of rows."""
        check_known(self.task.labels_of(rows), rows, self.task.labels)
        examples = self.task.examples(rows.x)
        examples.warn_of_cuts()
        logits, options = self.task.logits(examples, batch_size), self.task.report_options(self.reading)
        details = self.task.details(rows.y, examples, logits, **options)
        for sentence in one_sided(details, len(rows)):
            logger.warning("%s", sentence)
        scores = self.task.report_logits(rows.y, examples, logits, **options)
        # A user's task may have nothing but its metrics.
        return scores or self.task.evaluate(rows.x, rows.y, batch_size, verbose=0, return_dict=True), details

    def predict(self, path: Path, *, batch_size: int = 32, plain: bool = False) -> Iterator[dict[str, Any]]:
        """The answer to each row of a file as JSON; SQuAD's questions have their ids in it.

        plain: the file has a row of texts on each line, as `predict_lines` reads it.
        """
        if plain:
            logger.info(
                "Each line of %s is one row of texts; if a row has several, tabs separate them. If the file has "
                "another form, name it with --format: %s.",
                path,
                ", ".join(self.task.formats),
            )
            numbered = lines(path, self.reading.encoding)
            yield from self.predict_lines(numbered, batch_size=batch_size, name=str(path))
            return
        rows = self.task.read_rows(path, self.reading, labels=False)
        for id, answer in zip(rows.ids, self.task.answers_as_json(rows.x, batch_size), strict=True):
            yield {"id": id, **answer} if isinstance(id, str) else answer

    def predict_lines(
        self, lines: Iterable[tuple[int, str]], *, batch_size: int = 32, name: str = "standard input"
    ) -> Iterator[dict[str, Any]]:
        """The answers to numbered lines, as they come. Tabs separate the texts of a row. name: of their file."""
        numbered = iter(lines)
        while chunk := list(itertools.islice(numbered, CHUNK)):
            with naming(name):
                x = self.task.read_lines(chunk, self.reading)
            yield from self.task.answers_as_json(x, batch_size)
