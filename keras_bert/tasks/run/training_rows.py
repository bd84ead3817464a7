"""training_rows: the rows that a run learns from, in memory or as a stream."""

import logging
import os

from keras_bert.tasks.readers import Rows, RowStream
from keras_bert.tasks.readers.line_file import finds_lines
from keras_bert.tasks.run.run_folder import LARGE
from keras_bert.tasks.run.settings import FinetuneSettings

logger = logging.getLogger("keras_bert")


def training_rows(settings: FinetuneSettings) -> Rows | RowStream:
    """The rows of the training file, as a stream if the settings say so, or if it is large and the run allows it."""
    streams, reading = settings.stream, settings.reading
    if streams is None and os.path.getsize(settings.train) > LARGE:
        can_stream = "stream" in settings.task.run_fields and not reading.others
        streams = can_stream and settings.strategy == "one" and finds_lines(reading.encoding)
        into = "as a stream; with --no-stream it is read into memory" if streams else "into memory"
        logger.info("%s has more than %d GB. It is read %s.", settings.train, LARGE // 10**9, into)
    return (settings.task.stream_rows if streams else settings.task.read_training_rows)(settings.train, reading)
