"""BadRows: the rows of a file that cannot be read, which are an error, or are dropped and counted."""

import logging
import os
from collections.abc import Iterable, Iterator

from keras_bert.tasks.readers.rows import Line
from keras_bert.text_encoding import UndecodedLine
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")

DROP = "drop such rows with --skip-bad (skip_bad=True)"  # a remedy, for errors


class BadRows:
    """Raises the error of the first bad row; with `skip` it counts them, and the log names the first."""

    def __init__(self, path: str | os.PathLike, skip: bool = False) -> None:
        self.path = path
        self.skip = skip
        self.count = 0
        self._first: tuple[int, str] | None = None  # line and error

    def add(self, line: int, error: ValueError) -> None:
        """Count a row, or raise its error."""
        if not self.skip:
            raise error
        self.count += 1
        if self._first is None or line < self._first[0]:
            self._first = line, str(error).partition(". ")[0]

    def without(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Count the lines that are in another encoding, and leave them out."""
        for number, line in lines:
            if isinstance(line, UndecodedLine):
                self.add(number, line.error)
            else:
                yield number, line

    def report(self, kept: int) -> None:
        """Log what was dropped; an error if nothing is left."""
        if self._first is None:
            return
        first = self._first[1]
        if not kept:
            raise ValueError(
                f"No row of {self.path} can be read. Correct the file, or name its --format, --delimiter or columns. "
                f"Received: {first!r} as the first error"
            )
        rows = plural("row", self.count)
        logger.warning("Dropped %d %s of %s that cannot be read. The first: %s", self.count, rows, self.path, first)
