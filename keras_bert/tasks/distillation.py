"""Distillation: what a student learns from its teacher beside the targets of the rows, and how much each weighs."""

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from keras import ops

from keras_bert.tasks.losses.teacher_losses import attention_loss, hidden_loss, relation_loss
from keras_bert.text.rules import TextRules

_OPTIONS = {  # of the command line, by what a teacher and its student have in common
    "multi_label": " (--separator)",
    "other_columns": " (--number, --category)",
}


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
        for name, value in vars(self).items():
            if not isinstance(value, Real) or not 0 <= float(value) < math.inf:  # refuses NaN too
                raise ValueError(f"`{name}` must be a finite number of at least 0. Received: {name}={value!r}")
        if not self.temperature:
            raise ValueError(
                "`temperature` must be above 0. Use 1 to leave the probabilities as they are. Received: temperature=0"
            )
        if not (self.logits or self.hidden or self.attention or self.relations):
            raise ValueError(
                "Nothing would be learned from the teacher, since the weights `logits`, `hidden`, `attention` and "
                f"`relations` are all 0. Raise one of them. Received: {dataclasses.asdict(self)}"
            )


def state_losses(weights: Distillation, teacher: Any, theirs: Any, student: Any, ours: Any) -> Any:
    """The weighted sum of the losses that compare the states, as `recorded_states` found them, of two encoders."""
    total = ops.zeros(())
    if not (weights.hidden or weights.attention or weights.relations):
        return total
    heads = [task.bert.config.num_attention_heads for task in (teacher, student)]
    if len(ours["qkv"]) != student.bert.config.num_hidden_layers:
        raise ValueError(
            f"{type(student).__name__} runs its encoder more than once for a batch, and then the losses `hidden`, "
            "`attention` and `relations` cannot be used. Set all three to 0. Received: "
            f"{len(ours['qkv'])} block outputs from {student.bert.config.num_hidden_layers} blocks"
        )
    if weights.hidden:
        total += weights.hidden * hidden_loss(theirs, ours)
    if weights.attention:
        total += weights.attention * attention_loss(theirs, ours, heads[0])
    if weights.relations:
        total += weights.relations * relation_loss(theirs, ours, math.gcd(*heads))
    return total


# === Checks ===


def check_teacher(teacher: Any, student: Any, weights: Distillation) -> None:
    """Refuse a teacher that answers something else than its student, or that cannot be compared with it."""
    _check_answers(teacher, student)
    _check_inputs(teacher, student)
    theirs, ours = teacher.bert.config, student.bert.config
    if weights.hidden and theirs.hidden_size != ours.hidden_size:
        raise ValueError(
            "The loss `hidden` needs a teacher whose vectors are as wide as the student's. Use relations=1 instead of "
            f"`hidden`. Received: width {theirs.hidden_size} of the teacher, width {ours.hidden_size} of the student"
        )
    if weights.attention and theirs.num_attention_heads != ours.num_attention_heads:
        raise ValueError(
            "The loss `attention` needs a teacher with as many attention heads as the student. Use relations=1 instead "
            f"of `attention`. Received: {theirs.num_attention_heads} attention heads of the teacher, "
            f"{ours.num_attention_heads} of the student"
        )
    if (weights.hidden or weights.attention) and ours.num_hidden_layers > theirs.num_hidden_layers:
        raise ValueError(
            "The losses `hidden` and `attention` compare each block of the student with a block of the teacher, but "
            "the teacher has fewer blocks. Use hidden=0 and attention=0. Received: "
            f"{theirs.num_hidden_layers} blocks of the teacher, {ours.num_hidden_layers} of the student"
        )


def _check_answers(teacher: Any, student: Any) -> None:
    if type(teacher) is not type(student):
        raise ValueError(
            f"The teacher is a {type(teacher).__name__}, but its student is a {type(student).__name__}. Use a teacher "
            f"that was trained on the same task. Received: teacher={teacher!r}"
        )
    for name in student.taught_fields:
        theirs, ours = getattr(teacher, name), getattr(student, name)
        if theirs != ours:
            raise ValueError(
                f"The teacher and its student differ in `{name}`. Build both with the same {name}"
                f"{_OPTIONS.get(name, '')}. Received: {theirs} of the teacher, {ours} of the student"
            )
    theirs, ours = _shapes(teacher), _shapes(student)
    if theirs != ours:
        raise ValueError(
            "The teacher's inputs or logits have another shape than its student's. Build both with the same "
            "settings, such as `long` (--long); sentence embedders also need the same hidden size. "
            f"Received: {theirs} of the teacher, {ours} of the student"
        )
    if {*map(id, teacher.weights)} & {*map(id, student.weights)}:
        raise ValueError(
            "The teacher and its student share weights, so the teacher would change. Make the student with "
            f"teacher.with_layers(3), or load the encoder again. Received: teacher={teacher.name!r}"
        )


def _check_inputs(teacher: Any, student: Any) -> None:
    theirs, ours = teacher.bert.preprocessor, student.bert.preprocessor
    received = None
    if theirs.vocabulary.tokens != ours.vocabulary.tokens:
        sizes = f"{len(theirs.vocabulary)} pieces (teacher) and {len(ours.vocabulary)} pieces (student)"
        received = f"different vocabularies, of {sizes}"
    elif TextRules.of(theirs) != TextRules.of(ours):
        received = f"{TextRules.of(theirs)} (teacher) and {TextRules.of(ours)} (student)"
    if received:
        raise ValueError(
            "The teacher and its student must have the same vocabulary and the same settings for case and accents, so "
            "that both read the same pieces. Start the student from the teacher, or use another teacher. Received: "
            f"{received}"
        )
    longest, most = student.packer.max_length, teacher.bert.config.max_position_embeddings
    if longest > most:
        raise ValueError(
            f"The student reads rows of {longest} pieces, but the teacher can read only {most}. Use a smaller "
            f"seq_length. Received: seq_length={longest}"
        )


def _shapes(task: Any) -> tuple[Any, ...]:
    return tuple(task.input["input_word_ids"].shape), task.output_shape
