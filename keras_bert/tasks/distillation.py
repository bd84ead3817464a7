"""Distillation: what a student learns from its teacher beside the targets of the rows, and how much each weighs.

Needs no Keras.
"""

import dataclasses
from dataclasses import dataclass

from keras_bert.checks import check_finite
from keras_bert.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Distillation:
    """The weights of the losses that `fit(teacher=...)` adds up. A loss whose weight is 0 is not computed.

    Args:
        temperature: the logits of both models are divided by it, so that the teacher's smaller probabilities count too
            (Hinton et al. 2015, "Distilling the Knowledge in a Neural Network"). Numbers and vectors have none.
        targets: the weight of the task's own loss, of the targets of the rows.
        logits: of the difference from the teacher's logits: their softened probabilities, numbers or vectors.
        hidden: of the difference of the hidden states of each block. Both models must have the same width (Jiao et al.
            2020, "TinyBERT").
        attention: of the difference of the attention scores of each block. Both models must have the same number of
            attention heads (the same paper).
        relations: of the difference of the relations between the tokens of a row, by the queries, keys and values of
            the last block. The widths may differ (Wang et al. 2021, "MiniLMv2").

    >>> Distillation(temperature=4, hidden=1).hidden
    1
    """

    temperature: float = 2.0
    targets: float = 0.5
    logits: float = 0.5
    hidden: float = 0.0
    attention: float = 0.0
    relations: float = 0.0

    def __post_init__(self) -> None:
        check_finite(self, *vars(self))
        if not self.temperature:
            raise ValueError(
                "`temperature` must be above 0. Use 1 to leave the probabilities as they are. Received: temperature=0"
            )
        if not (self.logits or self.hidden or self.attention or self.relations):
            raise ValueError(
                "Nothing would be learned from the teacher, since the weights `logits`, `hidden`, `attention` and "
                f"`relations` are all 0. Raise one of them. Received: {dataclasses.asdict(self)}"
            )


def check_vocabulary(theirs: Vocabulary, ours: Vocabulary) -> None:
    """Refuse a teacher whose pieces are not those of its student."""
    if theirs.tokens != ours.tokens:
        raise other_pieces(
            f"different vocabularies, of {len(theirs)} pieces (teacher) and {len(ours)} pieces (student)"
        )


def other_pieces(received: str) -> ValueError:
    """The error for a teacher and a student that split text differently."""
    return ValueError(
        "The teacher and its student must have the same vocabulary and the same settings for case and accents, so that "
        f"both read the same pieces. Start the student from the teacher, or use another teacher. Received: {received}"
    )


def no_teacher(source: str) -> ValueError:
    """The error for a source that holds no task."""
    return ValueError(
        f"{source!r} holds no task that could be a teacher. Name the folder of a run of `keras-bert finetune`, or a "
        f".keras file or an export of a task. Received: teacher={source!r}"
    )


def cached_student(cache_batch: int) -> ValueError:
    """The error for a teacher whose student computes its batches in parts."""
    return ValueError(
        "`cache_batch` and `teacher` were both given, but cached batches cannot learn from a teacher. Leave out one of "
        f"them. Received: cache_batch={cache_batch}"
    )
