"""The targets of a tagger: which label each piece of a text carries, from the labels of its words or its entities."""

import logging
from typing import Any

import numpy as np

from keras_bert.tasks.columns.text_columns import check_lengths
from keras_bert.tasks.decoding.decode_entities import find_runs, scheme_of, types_of
from keras_bert.tasks.decoding.entities import Run, encode, has_entities
from keras_bert.tasks.decoding.units import Units
from keras_bert.tasks.rows.labels import label_ids

logger = logging.getLogger("keras_bert")


def tag_targets(units: Units, y: list[Any], labels: tuple[str, ...], unit: str) -> np.ndarray:
    """The label of each piece, -1 for pieces without weight, int32 [all pieces].

    y: for words, the label of each; for texts, entities. unit: "word" or "piece".
    """
    check_lengths(texts=range(len(units)), labels=y)
    found = np.full(units.splits[-1], -1, "int32")
    of_words: list[np.ndarray] = [np.zeros(0, "int32")]  # the labels of the words of each text
    cuts: list[int] = []  # the row of each entity that lost a unit
    wider: list[tuple[str, str]] = []  # entities that begin or end inside a unit, each with the text of its units
    for number, given in enumerate(y):
        if units.given_words:
            if isinstance(given, str) or len(given) != units.words[number]:
                raise ValueError(
                    f"Row {number} has {units.words[number]} words, but a different number of labels. Give each "
                    f"word a label. Received: {given!r}"
                )
            of_words.append(label_ids(given, labels, where=f"row {number}"))
        else:
            pieces = units.firsts(number)  # where the units of this text begin
            runs, cut, inner = units.runs(number, given)
            if runs and not has_entities(labels):
                raise ValueError(
                    f"Row {number} has entities, for which the task needs labels such as 'B-PER' and 'I-PER'. Build it "
                    f"with labels that begin with B- and I-. Received: labels={labels}"
                )
            cuts += [number] * cut
            wider += inner
            names = encode(runs, len(pieces), labels)
            found[pieces] = label_ids(names, labels, where=f"row {number}")
    if units.given_words:
        ids = np.concatenate(of_words)
        found[units.first] = ids if unit == "word" else _of_pieces(units, ids, labels)
    if cuts:
        logger.warning(
            "%d of %d entities begin in a %s that has the label of the preceding entity%s. Rows: %s",
            len(cuts),
            sum(map(len, y)),
            unit,
            " (with unit='piece', fewer entities do so)" if unit == "word" else "",
            ", ".join(map(str, cuts[:5])) + (", ..." if len(cuts) > 5 else ""),
        )
    if wider:
        logger.warning(
            "%d of %d entities begin or end inside a %s, such as %r in %r. The task learns and returns whole %ss.%s",
            len(wider),
            sum(map(len, y)),
            unit,
            *wider[0],
            unit,
            " With unit='piece' it returns pieces of words, so that a name and its Korean particle can be separate."
            if unit == "word"
            else "",
        )
    return found


def _of_pieces(units: Units, ids: np.ndarray, labels: tuple[str, ...]) -> np.ndarray:
    """The labels of all pieces from the labels of all words."""
    if not has_entities(labels):
        return ids[units.tag_group]
    row = np.repeat(np.arange(len(units)), units.words)
    begins, entity = map(np.asarray, find_runs(scheme_of(labels), ids, row))
    types = types_of(labels)
    kinds = [types[number] for number in ids[begins]]
    entity = entity[units.tag_group]  # of each piece
    inside = np.flatnonzero(entity >= 0)
    first = inside[np.flatnonzero(np.diff(entity[inside], prepend=-1))]
    last = inside[np.flatnonzero(np.diff(entity[inside], append=-1))]
    runs = map(Run, kinds, first.tolist(), (last + 1).tolist())
    names = encode(runs, len(entity), labels)
    if missing := {*names} - {*labels}:
        raise ValueError(
            f"With unit='piece', an entity of several pieces needs the label {min(missing)!r}, even if it is a single "
            f"word. Build the task with this label too. Received: labels={labels}"
        )
    return label_ids(names, labels)
