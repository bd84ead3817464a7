"""A teacher beside its student: whether it can teach it, and the losses that compare what both compute."""

import math
from typing import Any

from keras import ops

from keras_bert.tasks.distillation import Distillation, check_vocabulary, other_pieces
from keras_bert.tasks.losses.teacher_losses import attention_loss, hidden_loss, relation_loss
from keras_bert.text.rules import TextRules

_OPTIONS = {  # of the command line, by what a teacher and its student have in common
    "multi_label": " (--separator)",
    "other_columns": " (--number, --category)",
}


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
        blocks = max(1, teacher.bert.config.num_hidden_layers // 2)
        raise ValueError(
            "The teacher and its student share weights, so the teacher would change. Make the student with "
            f"teacher.with_layers({blocks}), or load the encoder again. Received: teacher={teacher.name!r}"
        )


def _check_inputs(teacher: Any, student: Any) -> None:
    theirs, ours = teacher.bert.preprocessor, student.bert.preprocessor
    check_vocabulary(theirs.vocabulary, ours.vocabulary)
    if TextRules.of(theirs) != TextRules.of(ours):
        raise other_pieces(f"{TextRules.of(theirs)} (teacher) and {TextRules.of(ours)} (student)")
    longest, most = student.packer.max_length, teacher.bert.config.max_position_embeddings
    if longest > most:
        raise ValueError(
            f"The student reads rows of {longest} pieces, but the teacher can read only {most}. Use a smaller "
            f"seq_length. Received: seq_length={longest}"
        )


def _shapes(task: Any) -> tuple[Any, ...]:
    return tuple(task.input["input_word_ids"].shape), task.output_shape
