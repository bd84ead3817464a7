"""BadRows: the rows of a file that cannot be read, which are an error, or are dropped and counted."""

import logging
import os

logger = logging.getLogger("keras_bert")


class BadRows:
    """Raises the error of the first bad row; with `skip` it counts them, and the log names the first."""

    def __init__(self, path: str | os.PathLike, skip: bool = False) -> None:
        self.path = path
        self.skip = skip
        self.errors: dict[int, ValueError] = {}  # by line

    def add(self, line: int, error: ValueError) -> None:
        """Note a row, or raise its error."""
        if not self.skip:
            raise error
        self.errors[line] = error

    def report(self, kept: int) -> None:
        """Log what was dropped; an error if nothing is left."""
        if not self.errors:
            return
        first = str(self.errors[min(self.errors)]).partition(". ")[0]
        if not kept:
            raise ValueError(
                f"No row of {self.path} can be read. Correct the file, or name its --format, --delimiter or columns. "
                f"Received: {first}"
            )
        logger.warning("Dropped %d rows of %s that cannot be read. The first: %s", len(self.errors), self.path, first)
