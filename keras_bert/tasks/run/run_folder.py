"""The folder of a run: the names of its files, and what an interrupted run has left there. Needs no Keras."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.storage import json_list, read_json
from keras_bert.wording import plural

MODEL, LABELS, SETTINGS_FILE, METRICS_FILE = "model.keras", "labels.json", "settings.json", "metrics.json"
STEP_FILE = "step.npz"  # the state within an epoch


def partial(output: Path) -> Path:
    """The folder in which a run works until it is complete."""
    return output.with_name(output.name + ".partial")


def trial_name(values: Mapping[str, Any]) -> str:
    """The folder of a run of a search, in the folder of the search, by the values that it tries.

    >>> trial_name({"learning_rate": 3e-05, "model": "hf://klue/bert-base"})
    'learning_rate=3e-05-model=hf:__klue_bert-base'
    """
    return "-".join(f"{name}={value}".replace("/", "_") for name, value in values.items())


def learned_labels(run: Path) -> list[str] | None:
    """The labels in the folder of a run; None if there are none, as in an export."""
    file = run / LABELS
    return json_list(file.read_bytes(), file) if file.is_file() else None


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


def check_resumed(output: Path, runs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
    """Refuse an output that was begun with other settings. runs: what each run of a search tries, and its settings."""
    for values, now in runs:
        folder = partial(output)
        places = [folder]
        if values:
            check_no_run(folder, values)
            trial = folder / trial_name(values)
            places = [trial, partial(trial)]
        else:
            check_no_search(folder)
        for place in places:
            if begun(place):
                check_same(place / SETTINGS_FILE, now)


def check_same(path: Path, now: Mapping[str, Any]) -> None:
    """Refuse to resume a run whose settings.json, at `path`, has other values than these."""
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
    now = json.loads(json.dumps(now))
    if other := [name for name in now if then.get(name) != now[name]]:
        shown = {name: _difference(name, then.get(name), now[name]) for name in other}
        differences = [shown[name] if name != "sha256" else "the files" for name in other]
        raise ValueError(
            f"The run in {str(path.parent)!r} began with other settings or files. Resume it with those, or "
            f"delete the folder to start again. Received: a difference in {', '.join(differences)}"
        )


def _difference(name: str, then: Any, now: Any) -> str:
    """What an error says of a setting that differs; of `reading`, only what differs inside."""
    if isinstance(then, dict) and isinstance(now, dict):
        return ", ".join(_difference(one, then.get(one), now.get(one)) for one in now if then.get(one) != now.get(one))
    return f"{name} ({then} then, {now} now)"
