"""Where our exports are: the SavedModel of an encoder or a task, and the files in it. Needs no Keras."""

from pathlib import Path

from keras_bert.config import CONFIG

EXTRA = "assets.extra"
TASK = "task.json"
_PARTS = ("encoder", "text")  # of an export; either holds the weights


def find(path: Path) -> Path | None:
    """The SavedModel at a path: the path itself, the newest version in it, or the newest of its encoder or text."""
    versions = [version for folder in (path, *(path / part for part in _PARTS)) for version in _versions(folder)]
    newest = max((int(version.name) for version in versions), default=0)
    for folder in (path, *(version for version in versions if int(version.name) == newest)):
        if (folder / "saved_model.pb").is_file() and (folder / EXTRA / CONFIG).is_file():
            return folder
    return None


def _versions(path: Path) -> list[Path]:
    return [folder for folder in path.iterdir() if folder.name.isdecimal()] if path.is_dir() else []
