"""check_known_teacher: whether a teacher fits its student, as far as its files tell without Keras."""

from pathlib import Path
from typing import Any

from keras_bert.storage import read_json
from keras_bert.tasks.distillation import check_vocabulary, no_teacher
from keras_bert.tasks.run.plain_settings import PlainSettings
from keras_bert.tasks.run.run_folder import SETTINGS_FILE, folder_of
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.known_vocabulary import known_vocabulary
from keras_bert.weights.source_names import may_be_model


def check_known_teacher(student: PlainSettings, kind: str | None) -> None:
    """Refuse the teacher of a run if it has another task, other inputs or another vocabulary than its student.

    kind: the task of the teacher; None if only the loader finds it.
    """
    teacher = student.teacher
    if teacher is None:
        return
    if not may_be_model(teacher) or (Path(teacher).is_file() and not teacher.endswith(".keras")):
        raise no_teacher(teacher)
    if kind not in (None, student.kind):
        raise ValueError(
            f"The teacher is of the task {kind!r}, but its student is of {student.kind!r}. Use a teacher of the "
            f"same task. Received: teacher={teacher!r}"
        )
    of_run = read_json(folder_of(teacher) / SETTINGS_FILE)  # empty, or something else, if it is no run
    if "kind" in of_run:
        _check_inputs(of_run, student)
    ours = Vocabulary.from_file(student.vocab) if student.vocab else known_vocabulary(student.model)
    theirs = known_vocabulary(teacher)
    if theirs and ours:
        check_vocabulary(theirs, ours)


def _check_inputs(of_teacher: dict[str, Any], student: PlainSettings) -> None:
    """Refuse a teacher that reads other inputs. of_teacher: what is in the settings.json of its run."""
    long = of_teacher.get("long")
    if (long == "windows") != (student.long == "windows"):
        raise ValueError(
            "A student must read long texts in windows if its teacher does, and only then. Use another --long, or "
            f"another teacher. Received: long={long!r} of the teacher, long={student.long!r} of the student"
        )
    for name in ("number", "category"):
        theirs, ours = tuple(of_teacher.get("reading", {}).get(name, ())), getattr(student.reading, name)
        if theirs != ours:
            raise ValueError(
                f"A student must read the same numbers and categories as its teacher. Use the same --{name}, or "
                f"another teacher. Received: {name}={theirs} of the teacher, {name}={ours} of the student"
            )
