"""MetricsLog: the progress of a run, in the terminal or the log, in TensorBoard and in a file."""

import json
import logging
import time
from datetime import timedelta
from typing import Any

from keras_bert import storage
from keras_bert.installation import has_tensorflow
from keras_bert.jsonl import plain
from keras_bert.lazy import tf

logger = logging.getLogger("keras_bert")

SECONDS_BETWEEN_LINES = 30
METRICS_LOG = "metrics.jsonl"


class MetricsFiles:
    """`metrics.jsonl`, with an object for each record, and `tensorboard/`, if TensorFlow is installed.

    A remote file cannot grow: it is written whole each time. So its records wait in memory for `flush` or `close`.

    start: the step the run resumes from; later records are removed.
    """

    def __init__(self, directory: str, *, start: int) -> None:
        self.path = f"{directory}/{METRICS_LOG}"
        self._waiting: list[str] = []
        self.writer = tf.summary.create_file_writer(f"{directory}/tensorboard") if has_tensorflow() else None
        if storage.exists(self.path):
            kept = [record for record in read_metrics(self.path) if record["step"] <= start]
            storage.write_text(self.path, "".join(json.dumps(record) + "\n" for record in kept))

    def write(self, record: dict[str, float]) -> None:
        """Add a record, which has a step and what was measured there. In JSON, NaN is null."""
        self._waiting.append(json.dumps(plain(record)) + "\n")
        if not storage.is_remote(self.path):
            self.flush()
        if self.writer:
            with self.writer.as_default():
                for name, value in record.items():
                    tf.summary.scalar(name, value, step=record["step"])

    def flush(self) -> None:
        """Write the records that wait."""
        text, self._waiting = "".join(self._waiting), []
        if text:
            with storage.errors_about("add to", self.path), storage.open_file(self.path, "ab") as file:
                file.write(text.encode())

    def close(self) -> None:
        """Write what is left, and finish the files of TensorBoard."""
        self.flush()
        if self.writer:
            self.writer.close()


class MetricsLog:
    """A line that is updated in place if standard error is a terminal, else a line in the log every half minute.

    With a directory, also the `MetricsFiles`.

    start: the step the run resumes from. steps: of all phases together. longer_by: steps to add for the time left.
    batch_size, seq_length: rows of a global batch, and positions of a row, if known.
    peak, flops_per_token: FLOP/s of the devices, and FLOP of a token, if known.
    """

    def __init__(
        self,
        directory: str | None,
        *,
        start: int,
        steps: int,
        batch_size: int,
        longer_by: float = 0.0,
        seq_length: int | None = None,
        peak: float | None = None,
        flops_per_token: float | None = None,
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        self.steps = steps
        self.longer_by = longer_by
        self.batch_size = batch_size
        self.positions = batch_size * seq_length if seq_length else None
        self.is_compiled = False
        self.share_of_a_token = flops_per_token / peak if peak and flops_per_token else None
        self.files = MetricsFiles(directory, start=start) if directory else None
        console = Console(stderr=True)
        self.live = Live(console=console, transient=True) if console.is_interactive else None
        self._last_line = time.perf_counter()

    def __enter__(self) -> "MetricsLog":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.live:
            self.live.stop()
        if self.files:
            self.files.close()

    def __call__(self, step: int, means: dict[str, float], *, loop_steps: int = 0, seconds: float = 0.0) -> None:
        """Report the means of the last `loop_steps` steps; 0 of them mean a validation.

        The first loop has no speed: most of its time goes into compiling.
        """
        record: dict[str, float] = {"step": step, **means}
        if loop_steps and self.positions:
            record["padding_share"] = 1 - means["tokens"] / self.positions
        if loop_steps and self.is_compiled:
            record["seconds_per_step"] = seconds / loop_steps
            record["examples_per_second"] = self.batch_size * loop_steps / seconds
            record["tokens_per_second"] = means["tokens"] * loop_steps / seconds
            if self.share_of_a_token:
                record["share_of_peak"] = record["tokens_per_second"] * self.share_of_a_token
        self.is_compiled |= bool(loop_steps)  # a validation compiles another graph
        if self.files:
            self.files.write(record)
        line = _line(record, self.steps, self.longer_by)
        if self.live and loop_steps:
            self.live.update(line)
        elif not loop_steps or time.perf_counter() - self._last_line > SECONDS_BETWEEN_LINES or step == self.steps:
            self._last_line = time.perf_counter()
            logger.info("%s", line)

    def flush(self) -> None:
        """Write the records that wait, before a checkpoint of their step."""
        if self.files:
            self.files.flush()


def _line(record: dict[str, float], steps: int, longer_by: float) -> str:
    parts = [f"step {record['step']:,} of {steps:,}"]
    parts += [f"{name} {value:.4g}" for name, value in record.items() if name.endswith(("loss", "accuracy"))]
    if "learning_rate" in record:
        parts.append(f"learning rate {record['learning_rate']:.3g}")
    if "padding_share" in record:
        parts.append(f"{record['padding_share']:.0%} padding")
    if "tokens_per_second" in record:
        parts.append(f"{record['examples_per_second']:,.0f} examples/s, {record['tokens_per_second']:,.0f} tokens/s")
    if "share_of_peak" in record:
        parts.append(f"{record['share_of_peak']:.0%} of the peak (MFU)")
    if "seconds_per_step" in record:
        left = timedelta(seconds=round((steps - record["step"] + longer_by) * record["seconds_per_step"]))
        parts.append(f"{left} left")
    return ", ".join(parts)


def read_metrics(path: str) -> list[dict[str, Any]]:
    """The records of a run, without a last line that a kill cut off."""
    return [json.loads(line) for line in storage.read_text(path).split("\n")[:-1]]


def was_validated(directory: str | None, step: int) -> bool:
    """Whether the run in a directory has a record of a validation after this step."""
    path = f"{directory}/{METRICS_LOG}"
    if directory is None or not storage.exists(path):
        return False
    return any(x["step"] == step and any(name.startswith("validation_") for name in x) for x in read_metrics(path))
