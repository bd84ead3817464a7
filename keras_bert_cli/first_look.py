"""A look at data files before Keras is imported, which takes many seconds: format, encoding and columns.

What it finds are the errors of the readers in `keras_bert/tasks/readers`, which later read the rows.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_bert_cli.options import fields_of

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
    with _without_the_package():
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


@contextmanager
def _without_the_package() -> Iterator[None]:
    """Within it, modules of `keras_bert` that need only the standard library can be imported without the package.

    Its __init__ imports Keras. Empty modules with the same paths replace it, and are removed again.
    """
    if "keras_bert" in sys.modules:
        yield
        return
    root = Path(str(find_spec("keras_bert").origin)).parent  # type: ignore[union-attr]
    for name in ("keras_bert", "keras_bert.tasks", "keras_bert.tasks.readers"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "keras_bert"]:
            del sys.modules[name]
