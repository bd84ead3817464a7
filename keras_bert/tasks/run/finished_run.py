"""A finished directory of `finetune`, or any saved task: asked, and scored on files."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.readers import Reading, read
from keras_bert.tasks.run.finetune import MODEL, SETTINGS, Settings
from keras_bert.tasks.run.kinds import KINDS, check_labels, kind_of
from keras_bert.tasks.task import Task
from keras_bert.weights.keras_file import read_keras

CHUNK = 256  # lines that are read before the first of them is answered


@dataclasses.dataclass(frozen=True)
class Finished:
    """A task, and how the files that it learned from are read."""

    task: Task
    reading: Reading
    labelled_lines: bool = False  # whether a .txt file is `label text` lines, as in training

    @classmethod
    def load(cls, source: Path, **reading: Any) -> "Finished":
        """The task of a finished directory or of a .keras file; fields of `Reading` where other files differ."""
        path, record = (source / MODEL, source / SETTINGS) if source.is_dir() else (source, source.parent / SETTINGS)
        if not path.is_file():
            raise FileNotFoundError(
                "A model must be a finished folder of `keras-bert finetune`, or the .keras file of a task. "
                f"Received: {str(source)!r}"
            )
        settings = Settings.from_json(record) if record.is_file() else None
        learned = settings.reading if settings else Reading()
        columns = (*reading.get("text", ()), *reading.get("choices", ()), reading.get("label"))
        if any(isinstance(column, str) for column in columns):  # else the header is as in training
            reading = {"header": True, **reading}
        task, reads_lines = read_keras(path, compile=False), settings is not None and settings.labelled_lines
        return cls(task, dataclasses.replace(learned, **reading), reads_lines)

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return kind_of(self.task)

    def evaluate(self, path: Path, *, batch_size: int = 32) -> dict[str, float]:
        """The scores on the rows of a file."""
        rows = read(self.kind, path, self.reading)
        check_labels(KINDS[self.kind], rows, getattr(self.task, "labels", ()))
        characters = self.reading.format == "korquad"
        return scores(self.task, rows.x, rows.y, batch_size=batch_size, characters=characters)

    def predict(self, path: Path, *, batch_size: int = 32) -> Iterator[dict[str, Any]]:
        """What JSON can hold of the answer to each row of a file; to SQuAD's questions with their ids."""
        rows = read(self.kind, path, self.reading, labels=False)
        for id, answer in zip(rows.ids, self._ask(rows.x, batch_size), strict=True):
            yield {"id": id, **answer} if self.kind == "answer" else answer

    def predict_lines(self, lines: Iterable[tuple[int, str]], *, batch_size: int = 32) -> Iterator[dict[str, Any]]:
        """The same for rows as they come, numbered lines, the texts of a row apart by tabs.

        Texts: the text, or both of a pair; a question and its context; a prompt and its choices.
        """
        width = {"tag": 1, "answer": 2, "choose": 1 + getattr(self.task, "choices", 0)}.get(self.kind)
        numbered = iter(lines)
        while chunk := list(itertools.islice(numbered, CHUNK)):
            rows = [_split(line, width or len(self.reading.text), number) for number, line in chunk]
            empty = [number for (number, _), row in zip(chunk, rows, strict=True) if not row[0].strip()]
            if empty and self.kind == "answer":
                raise ValueError(f"A question must not be empty. Mend the line. Received: none in line {empty[0]}")
            columns = tuple(list(column) for column in zip(*rows, strict=True))
            if self.kind == "choose":
                columns = (columns[0], [list(row) for row in zip(*columns[1:], strict=True)])
            yield from self._ask(columns if len(columns) > 1 else columns[0], batch_size)

    def _ask(self, x: Any, batch_size: int) -> Iterator[dict[str, Any]]:
        for answer in KINDS[self.kind].ask(self.task, x, batch_size):
            yield answer if isinstance(answer, dict) else dataclasses.asdict(answer)


def _split(line: str, width: int, number: int) -> list[str]:
    texts = line.split("\t", width - 1)
    if len(texts) != width:
        raise ValueError(
            f"Each line must hold {width} texts, apart by tabs. Mend the line. Received: {len(texts)} in line {number}"
        )
    return texts
