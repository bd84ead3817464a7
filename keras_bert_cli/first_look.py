"""A look at data files before Keras is imported, which takes many seconds: format, encoding and columns.

What it finds are the errors of the readers in `keras_bert/tasks/readers`, which later read the rows.
"""

import os
from pathlib import Path
from typing import Any

from keras_bert_cli.options import fields_of
from keras_bert_cli.without_the_package import without_the_package

LARGEST = 100_000_000  # bytes; a larger file would take seconds itself


def first_look(
    paths: list[Path],
    command: str,
    formats: tuple[str, ...],
    options: dict[str, Any],
    *,
    is_table: bool,
    labelled: bool = True,
    may_lack_labels: Path | None = None,
) -> None:
    """Raise the error of a file of this task, or of those of its `options` that say how to read it.

    is_table: whether the files have columns. labelled: whether the file must have the column of the label.
    may_lack_labels: the one of the files that may have only texts.
    """
    with without_the_package():
        from keras_bert.tasks.readers.only_texts import cannot_split, has_only_texts
        from keras_bert.tasks.readers.reading import Reading
        from keras_bert.tasks.readers.rows import lines

        reading = Reading(**fields_of(Reading, options))
        reading.check_format(command, formats)
        for path in paths:
            if not path.is_file():
                raise ValueError(
                    f"{path} is a pipe or a device, but it must be read more than once. Write the rows to a file. "
                    f"Received: {path}"
                )
            if os.path.getsize(path) > LARGEST:
                continue
            if path == may_lack_labels and has_only_texts(path, reading):
                if options["split"] is not None:
                    raise cannot_split(path, options["split"])
            elif is_table:
                table = reading.table(path)
                for column in reading.columns if labelled else (*reading.text, *reading.others):
                    table.column(column)
            elif "encoding" in options:
                for _ in lines(path, reading.encoding):
                    pass
