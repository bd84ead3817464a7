"""The folder of a run: the names of its files, and what an interrupted run has left there. Needs no Keras."""

import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from keras_bert.jsonl import plain
from keras_bert.storage import as_read, read_json, sha256_of, write_json
from keras_bert.weights.export_folder import check_no_runtime_model
from keras_bert.wording import first_line, plural

MODEL, LABELS, SETTINGS_FILE, METRICS_FILE = "model.keras", "labels.json", "settings.json", "metrics.json"
STEP_FILE = "step.npz"  # the state within an epoch
LARGE = 1_000_000_000  # bytes; a larger training file is read as a stream, unless the settings say otherwise
UNFINISHED = ".partial"  # the ending of the folder in which a run works
OUTCOME = ("score", "pruned_after")  # what a search says of a run, beside the values that it tried


def working_folder(output: Path) -> Path:
    """The folder in which a run works until it is complete."""
    return output.with_name(output.name + UNFINISHED)


def trial_name(values: Mapping[str, Any]) -> str:
    """The folder of a run of a search, in the folder of the search, by the values that it tries.

    >>> trial_name({"learning_rate": 3e-05, "model": "hf://klue/bert-base"})
    'learning_rate=3e-05-model=hf:__klue_bert-base'
    """
    words = {name: as_word(value) if isinstance(value, dict) else value for name, value in values.items()}
    return "-".join(f"{name}={word}".replace("/", "_") for name, word in words.items())


def as_word(value: Any) -> str:
    """A value that a search tries, as --search has it.

    >>> as_word({"spam": 3.0}), as_word(None)
    ('spam=3.0', 'none')
    """
    if isinstance(value, dict):
        return ",".join(f"{label}={weight}" for label, weight in value.items())
    return "none" if value is None else str(value)


def tried_in(run: Mapping[str, Any]) -> str:
    """What was tried in a run of a search.

    >>> tried_in({"epochs": 3, "class_weight": None, "score": 0.9})
    'epochs=3, class_weight=none'
    """
    return ", ".join(f"{option}={as_word(value)}" for option, value in run.items() if option not in OUTCOME)


def outcome_of(run: Mapping[str, Any]) -> str:
    """How a run of a search ended.

    >>> outcome_of({"epochs": 3, "score": 0.9}), outcome_of({"epochs": 3, "score": None})
    ('0.9000', 'failed')
    >>> outcome_of({"epochs": 3, "score": 0.5, "pruned_after": 1})
    '0.5000, ended after epoch 1 by --prune'
    """
    if run["score"] is None:
        return "failed"
    pruned = f", ended after epoch {run['pruned_after']} by --prune" if "pruned_after" in run else ""
    return f"{run['score']:.4f}{pruned}"


def folder_of(source: str | Path) -> Path:
    """The folder of a run, which may also be named by the model in it."""
    path = Path(source)
    return path.parent if path.name == MODEL and path.is_file() else path


def training_file(settings: Path) -> Path | None:
    """The file that a run learned from, unless it has changed or is large; settings: the settings.json of the run."""
    then = read_json(settings)
    path = Path(then["train"])
    same = path.is_file() and path.stat().st_size <= LARGE and [sha256_of(path)] == then.get("sha256", [])[:1]
    return path if same else None


def refuse_no_task(source: str | Path) -> NoReturn:
    """Raise the error for a source that should have a task, but has none."""
    check_no_runtime_model(Path(source), "this command", "Name the run or the .keras file that it was exported from")
    raise FileNotFoundError(
        "The model is neither a finished folder of `keras-bert finetune` nor the .keras file or the export of a task. "
        "For a task in another format, load it in Python with its class, such as TextClassifier or TokenTagger, and "
        f'save it: task.save("task.keras"). Received: {str(source)!r}'
    )


def no_model(folder: Path) -> FileNotFoundError:
    """The error for the folder of a run without its model."""
    if folder.resolve().suffix == UNFINISHED:
        advice = "The run is not finished. Repeat its command, which resumes it."
    else:
        advice = f"The folder of the run has no {MODEL}. Copy it from where the run was, or train again."
    return FileNotFoundError(f"{advice} Received: {str(folder)!r}")


# === Metrics ===


def write_metrics(folder: Path, metrics: Mapping[str, Any]) -> None:
    """Write the metrics.json of a run. A score that is NaN is null there."""
    write_json(folder / METRICS_FILE, plain(metrics))


def metrics_of(folder: Path) -> dict[str, Any]:
    """The metrics.json of a run, {} if there is none. A score that is null there is NaN."""
    found = read_json(folder / METRICS_FILE)
    of_best = [one.get("valid", {}) for one in (found, found.get("calibration", {}))]
    for scores in (*of_best, *(epoch.get("scores", {}) for epoch in found.get("epochs", ()))):
        scores |= {name: math.nan for name, score in scores.items() if score is None}
    return found


# === An interrupted run ===


def begun(folder: Path) -> bool:
    """Whether a run has an epoch, or a step of one, to resume from."""
    return (folder / METRICS_FILE).exists() or (folder / STEP_FILE).exists()


def check_no_search(folder: Path) -> None:
    """Refuse the folder of a search for a single run."""
    if runs := sorted(folder.glob(f"*/{SETTINGS_FILE}")):
        raise ValueError(
            f"{folder} has the runs of a search that was interrupted. Repeat its command, use another --output, or "
            f"delete the folder. Received: {len(runs)} {plural('run', len(runs))}, such as {runs[0].parent.name}"
        )


def check_no_run(folder: Path, tried: Iterable[str]) -> None:
    """Refuse the folder of a single run for a search. tried: the names of the settings that it tries."""
    if begun(folder):
        raise ValueError(
            f"{folder} has a single run that was interrupted, not the runs of a search. Repeat its command, or delete "
            f"the folder. Received: {', '.join(tried)} to try"
        )


def check_resumed(output: Path, runs: Iterable[tuple[Mapping[str, Any], Any]]) -> None:
    """Refuse an output that was begun with other settings, or that is damaged.

    runs: what each run of a search tries, and its settings.
    """
    for values, settings in runs:
        folder = working_folder(output)
        places = [folder]
        if values:
            check_no_run(folder, values)
            trial = folder / trial_name(values)
            places = [trial, working_folder(trial)]
        else:
            check_no_search(folder)
        for place in places:
            if begun(place):
                settings.check_same(place / SETTINGS_FILE)
            if (place / STEP_FILE).exists():
                read_step(place / STEP_FILE, "place")  # an error if it is damaged


def read_step(path: Path, *names: str) -> dict[str, np.ndarray]:
    """The state within an epoch, or only the arrays of these names."""
    return read_state(path, "this file to resume after the last complete epoch", *names)


def read_state(path: Path, deleted: str, *names: str) -> dict[str, np.ndarray]:
    """The arrays of a state that was saved, or only those of these names. deleted: what to delete if it is damaged."""
    try:
        with path.open("rb") as file, np.load(file) as stored:  # numpy would leave a damaged file open
            return {name: stored[name] for name in names or stored.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, AttributeError, FileNotFoundError) as error:
        how = "missing" if isinstance(error, FileNotFoundError) else "damaged"
        raise ValueError(
            f"{path} is {how}, so the run cannot resume from there. Delete {deleted}. Received: {first_line(error)}"
        ) from None


def check_same(path: Path, settings: Mapping[str, Any], files: Sequence[str | Path]) -> None:
    """Refuse to resume a run whose settings.json, at `path`, has other settings, or digests of other files."""
    if not path.is_file():
        raise ValueError(
            f"{path} is missing, so the run cannot be resumed. Delete the folder to start again. Received: {path}"
        )
    try:
        then = read_json(path)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged, so the run cannot be resumed. Delete the folder to start again. Received: {error}"
        ) from None
    now = as_read(settings)
    differences = [_difference(name, then.get(name), now[name]) for name in now if then.get(name) != now[name]]
    known = then.get("sha256", [])
    if not differences and (digests := [sha256_of(file) for file in files]) != known:
        of_each = zip(files, known, digests, strict=True) if len(known) == len(files) else ()
        changed = [str(file) for file, before, after in of_each if before != after]
        differences = [f"the content of {', '.join(changed)}" if changed else "the number of files"]
    if differences:
        raise ValueError(
            f"The run in {str(path.parent)!r} began with other settings or files. Resume it with those, or "
            f"delete the folder to start again. Received: a difference in {', '.join(differences)}"
        )


def _difference(name: str, then: Any, now: Any) -> str:
    """What an error says of a setting that differs; of `reading`, only what differs inside."""
    if isinstance(then, dict) and isinstance(now, dict):
        return ", ".join(_difference(one, then.get(one), now.get(one)) for one in now if then.get(one) != now.get(one))
    return f"{name} ({then} then, {now} now)"
