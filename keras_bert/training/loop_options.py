"""LoopOptions: how often a run of `train` logs, validates and writes checkpoints, and which of these it keeps."""

from dataclasses import dataclass

from keras_bert.checks import check_finite, check_positive


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """How often a run does more than a step.

    steps_per_loop: how many steps run in one graph, without a log line, checkpoint or signal in between.
    checkpoint_every, validate_every: steps from one checkpoint, and one validation, to the next.
    keep: how many of the latest checkpoints are kept.
    keep_every_hours: of the older ones, one is kept for every so many hours; none without it, or with 0.
    """

    steps_per_loop: int = 10
    checkpoint_every: int = 1000
    validate_every: int = 1000
    keep: int = 5
    keep_every_hours: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, "steps_per_loop", "checkpoint_every", "validate_every", "keep")
        if self.keep_every_hours is not None:
            check_finite(self, "keep_every_hours")
