"""FileTask: what the command line asks of a task: rows of files in, JSON out."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from keras_bert.bert import Bert
from keras_bert.jsonl import plain
from keras_bert.tasks.readers import TABLE_FIELDS, TABLES, Reading, Rows, RowStream, tab_columns
from keras_bert.tasks.readers.columns import labelled_rows
from keras_bert.tasks.rows.labels import check_several
from keras_bert.tasks.text_trainer import TextTrainer


class FileTask(TextTrainer):
    """The part of a `Task` that learns from files and answers them."""

    command: str = ""  # the word on the command line, such as "classify"
    reader: Callable[..., Rows] = staticmethod(labelled_rows)  # of the task's files
    formats: tuple[str, ...] = TABLES  # of files; the first is the default if the suffix does not decide
    reading_fields: tuple[str, ...] = (*TABLE_FIELDS, "separator")
    run_fields: tuple[str, ...] = ("label_smoothing",)  # of `FinetuneSettings` that only some tasks have
    learns_texts: bool = False  # whether it can train on texts without labels
    usage: str = 'list(task.answers_as_json(["a text"]))'  # a line of Python for the model card
    default_seq_length: int = 128  # of a run of the command line
    labels: tuple[str, ...] = ()

    @staticmethod
    def commands() -> dict[str, type["FileTask"]]:
        """Every task that has a word on the command line, a user's own included."""
        return {task.command: task for task in _subclasses(FileTask) if "command" in vars(task)}

    @staticmethod
    def named(command: str) -> type["FileTask"]:
        """The task with this word on the command line."""
        known = FileTask.commands()
        if command not in known:
            raise ValueError(
                f"There is no task {command!r}. Use one of {', '.join(sorted(known))}, or import the module that "
                f"defines it. Received: {command!r}"
            )
        return known[command]

    @classmethod
    def read_rows(cls, path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
        """The rows of a file; with labels=False, only what the task is asked."""
        reading.check_format(cls.command, cls.formats)
        return cls.reader(path, reading, labels=labels)

    @classmethod
    def read_training_rows(cls, path: str | os.PathLike, reading: Reading) -> Rows:
        """The rows of a training file, which may be of another form than those of other files."""
        return cls.read_rows(path, reading)

    @classmethod
    def stream_rows(cls, path: str | os.PathLike, reading: Reading | None = None) -> RowStream:
        """The same rows as a stream, which `fit` accepts, for files that are too large for the memory.

        A task says with "stream" in `run_fields` that it learns each row without the others.

        >>> import keras_bert, tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        ...     file.writelines(["text\\tlabel\\n", "a film\\tyes\\n", "so what\\tno\\n"])
        ...     file.flush()
        ...     rows = keras_bert.TextClassifier.stream_rows(file.name)
        ...     len(rows), rows.sample.y
        (2, ['yes', 'no'])
        """
        if "stream" not in cls.run_fields:
            raise ValueError(
                f"The task {cls.command or cls.__name__!r} needs all rows in memory. Leave --stream out; in Python, "
                f"use read_rows. Received: {path}"
            )
        return RowStream(path, reading or Reading(), cls.read_rows)

    @classmethod
    def labels_of(cls, rows: Rows) -> Iterable[tuple[int, str]]:
        """Each label that occurs in training rows, with the number of its row."""
        return ()

    @classmethod
    def check_rows(cls, rows: Rows) -> None:
        """Refuse training rows from which nothing can be learned."""
        check_several({label for _, label in cls.labels_of(rows)}, rows)

    @classmethod
    def check_run(cls, rows: Rows | RowStream, settings: Any) -> None:
        """Refuse training rows that do not fit the `FinetuneSettings`; the errors name file and row."""

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "FileTask":
        """A new task for these training rows and `FinetuneSettings`."""
        return cls(bert)  # type: ignore[call-arg]  # a subclass makes its inputs and logits itself

    @classmethod
    def fit_options(cls, settings: Any) -> dict[str, Any]:
        """Arguments that only the `fit` of this task has, as `FinetuneSettings` decide them."""
        return {}

    def read_lines(self, lines: Sequence[tuple[int, str]], reading: Reading) -> Any:
        """Columns `x` from numbered lines, in which tabs separate the texts of a row."""
        columns = tab_columns(lines, len(reading.text))
        return tuple(columns) if len(columns) > 1 else columns[0]

    def answers_as_json(self, x: Any, batch_size: int = 32) -> Iterator[dict[str, Any]]:
        """The answer to each row of columns, as `keras-bert predict` prints it."""
        return (plain(self.as_json(answer)) for answer in self.answers(x, batch_size))

    def as_json(self, answer: Any) -> dict[str, Any]:
        """One answer as a dict, whose numbers may be numpy's."""
        if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
            return dataclasses.asdict(answer)
        if isinstance(answer, dict):
            return answer
        return {"answer": answer}


def _subclasses(task: type[FileTask]) -> Iterator[type[FileTask]]:
    for subclass in task.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
