"""Reading: where a file holds its texts and labels, for training, evaluation and prediction alike."""

import dataclasses
import os
from collections.abc import Container
from pathlib import Path
from typing import Any

from keras_bert.checks import check_above_zero
from keras_bert.tasks.readers.bad_rows import BadRows
from keras_bert.tasks.readers.delimited import checked_delimiter
from keras_bert.tasks.readers.table import SUFFIXES, Column, Table, read_table
from keras_bert.text_encoding import checked_encoding
from keras_bert.wording import listed, plural

TABLES = ("tsv", "csv", "jsonl", "parquet", "label-text")
COLUMNS = ("text", "choices", "number", "category")  # the fields that name several columns
TABLE_FIELDS = ("format", "text", "label", "header", "delimiter", "encoding", "skip_empty", "skip_bad")


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a file holds and where. The fields are the options of the command line."""

    format: str | None = None  # one of the task's `formats`; None: decided by the suffix
    text: tuple[Column, ...] = ("text",)  # one column, or two for pairs; for choose, the column of the prompt
    label: Column | None = "label"  # of the label, the score or the number of the right choice; None: there is none
    number: tuple[Column, ...] = ()  # numbers that the model reads beside the text
    category: tuple[Column, ...] = ()  # the same for categories
    choices: tuple[Column, ...] = ()
    separator: str | None = None  # between the labels of one text; None: one label, or a list of labels in JSONL
    scale: float = 1.0  # scores are divided by it
    positive: str | None = None  # the label that the score f1 is of; None: the second of two
    header: bool | None = None  # whether the first row names the columns; None: it does if a column is given by name
    delimiter: str | None = None  # between the cells of a TSV or CSV file; None: found if there is a header
    encoding: str = "utf-8"
    lines: bool = False  # each line of the training file is a text without a label
    skip_empty: bool = False  # drop rows with an empty text
    skip_bad: bool = False  # drop rows that cannot be read, or have no text or label

    def __post_init__(self) -> None:
        for name in COLUMNS:  # JSON makes lists of them
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.separator == "":
            raise ValueError(
                "`separator` is empty. Give at least one character, or leave it out if each text has one label. "
                "Received: separator=''"
            )
        check_above_zero("scale", self.scale, "Scores are divided by it.")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", checked_delimiter(self.delimiter))
        checked_encoding(self.encoding)

    def of_another_file(
        self, command: str, fields: Container[str], given: dict[str, Any], *, as_many_texts: bool = False
    ) -> "Reading":
        """How a trained task reads another file.

        command, fields: the task, and its fields of `Reading`. given: those that differ from training. as_many_texts:
        whether rows must have as many texts as those of the training.
        """
        if unused := [name for name, value in given.items() if value and name not in fields]:
            raise ValueError(
                f"The files of the task {command!r} are read without {listed(unused)}. Leave it out. Received: "
                f"{', '.join(f'{name}={given[name]!r}' for name in unused)}"
            )
        for name in ("number", "category"):
            learned, named = getattr(self, name), given.get(name, ())
            if named and len(named) != len(learned):
                raise ValueError(
                    f"`{name}` names {len(named)} {plural('column', len(named))}, but the task reads {len(learned)}. "
                    + (f"Name one for each of {', '.join(map(str, learned))}. " if learned else "Leave it out. ")
                    + f"Received: {name}={named!r}"
                )
        texts = given.get("text", self.text)
        if as_many_texts and len(texts) != len(self.text):
            raise ValueError(
                f"`text` names {len(texts)} {plural('column', len(texts))}, but the task was trained on "
                f"{len(self.text)}. Name as many. Received: text={texts}"
            )
        columns = [*(column for name in COLUMNS for column in given.get(name, ())), given.get("label")]
        if any(isinstance(column, str) for column in columns):  # otherwise there is a header if there was in training
            given = {"header": True, **given}
        return dataclasses.replace(self, **given)

    def is_plain(self, path: str | os.PathLike, asked: str | None) -> bool:
        """Whether a file to be answered has plain lines of texts; no if a format or a delimiter was asked for.

        Lines of a label and a text look the same, so the format of the training file does not decide.
        """
        return asked is None and (Path(path).suffix.lower() == ".txt" or self.format == "label-text")

    @property
    def texts(self) -> Column | tuple[Column, ...]:
        """The column of the text, or the two columns of a pair."""
        if len(self.text) not in (1, 2):
            raise ValueError(
                f"`text` names {len(self.text)} columns. Name one column for texts, or two for pairs. "
                f"Received: text={self.text}"
            )
        return self.text if len(self.text) == 2 else self.text[0]

    @property
    def others(self) -> tuple[Column, ...]:
        """The columns that the model reads beside the text."""
        return (*self.number, *self.category)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that are named."""
        return (*self.text, *self.choices, *self.others, *(() if self.label is None else (self.label,)))

    @property
    def has_header(self) -> bool:
        """Whether the first row of a table names the columns."""
        return any(isinstance(column, str) for column in self.columns) if self.header is None else self.header

    def table(self, path: str | os.PathLike) -> Table:
        """The table in a file."""
        return read_table(
            path,
            format=self.format,
            header=self.has_header,
            delimiter=self.delimiter,
            encoding=self.encoding,
            bad=BadRows(path, self.skip_bad),
        )

    def format_of(self, path: str | os.PathLike) -> str | None:
        """The format of a file; None if its name does not tell."""
        return self.format or SUFFIXES.get(Path(path).suffix.lower())

    @property
    def table_options(self) -> dict[str, Any]:
        """The options of every reader of tables."""
        return {name: getattr(self, name) for name in TABLE_FIELDS if name not in ("text", "label")}

    def check_format(self, command: str, formats: tuple[str, ...]) -> None:
        """Refuse a format that a task cannot read."""
        if self.format is not None and self.format not in formats:
            raise ValueError(
                f"A file of format {self.format!r} cannot be used for the task {command!r}. Use one of "
                f"{', '.join(formats)}. Received: format={self.format!r}"
            )
