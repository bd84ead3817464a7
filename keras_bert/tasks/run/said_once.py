"""SaidOnce: the messages of a run, or of several, are each logged once."""

import contextlib
import logging
from collections.abc import Iterator

from keras_bert.progress import EACH_TIME

logger = logging.getLogger("keras_bert")


class SaidOnce(logging.Filter):
    """Leaves out messages that came before, such as those about rows that are read several times.

    Those with `extra=EACH_TIME` stay.
    """

    def __init__(self) -> None:
        super().__init__()
        self.given: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        new = record.getMessage() not in self.given or EACH_TIME.items() <= vars(record).items()
        self.given.add(record.getMessage())
        return new

    @contextlib.contextmanager
    def while_running(self) -> Iterator[None]:
        logger.addFilter(self)
        try:
            yield
        finally:
            logger.removeFilter(self)
