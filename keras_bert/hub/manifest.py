"""What an export is made of: versions, settings, and the sha256 of every file."""

import datetime
import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from keras_bert.version import __version__
from keras_bert.weights.folder import write_json

NAME = "manifest.json"
_PACKAGES = ("keras", "tensorflow", "tensorflow-text")


def write_manifest(folder: Path, facts: dict[str, Any]) -> None:
    """Write assets.extra/manifest.json of a finished SavedModel, where TF Serving leaves it alone."""
    path = folder / "assets.extra" / NAME
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file != path)
    write_json(
        path,
        {
            **facts,
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "made_with": {"keras3-bert": __version__, **{package: version(package) for package in _PACKAGES}},
            "files": {
                file.relative_to(folder).as_posix(): {"bytes": file.stat().st_size, "sha256": _sha256(file)}
                for file in files
            },
        },
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
