"""The manifest of an export: its source, settings, labels, scores, versions, and the sha256 of every file."""

import datetime
import os
from pathlib import Path
from typing import Any

import keras

from keras_bert.exports.new_version import MANIFEST
from keras_bert.int8_copy import Change
from keras_bert.jsonl import plain
from keras_bert.lazy import tf
from keras_bert.storage import sha256_of, write_json
from keras_bert.version import __version__
from keras_bert.weights import zoo


def write_manifest(folder: Path, facts: dict[str, Any]) -> None:
    """Write assets.extra/manifest.json of a finished SavedModel, a folder that TF Serving ignores."""
    path = folder / MANIFEST
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file != path)
    write_json(
        path,
        {
            **plain(facts),
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "made_with": {"keras3-bert": __version__, **_versions()},
            "files": {
                file.relative_to(folder).as_posix(): {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
                for file in files
            },
        },
    )


def _versions() -> dict[str, str]:
    """The versions of the modules, since TensorFlow can also come from a package such as tensorflow-tpu."""
    import tensorflow_text

    return {"keras": keras.__version__, "tensorflow": tf.__version__, "tensorflow-text": tensorflow_text.__version__}


def facts_of(model: Any, source: Any, metrics: dict[str, Any] | None) -> dict[str, Any]:
    """The model's class and labels, the source of its weights, and its scores."""
    source = getattr(getattr(model, "bert", model), "source", None) if source is None else source
    facts = {
        "model": type(model).__name__,
        "source": _public(source),
        "labels": list(getattr(model, "labels", None) or []) or None,
        "metrics": metrics,
    }
    return {name: value for name, value in facts.items() if value is not None}


def int8_facts(change: Change, *, calibrated: bool) -> dict[str, Any]:
    """How the ranges of the inputs of int8 products were found, and how far the vectors of the pieces turned."""
    return {
        "ranges": "those of the texts for calibration" if calibrated else "those of each batch",
        "cosine_mean": round(change.mean, 5),
        "cosine_lowest": round(change.lowest, 5),
    }


def _public(source: Any) -> str | None:
    """A source as others may see it: only the last part of a path, since the rest describes this machine."""
    if not isinstance(source, str | os.PathLike):
        return None
    name = os.fspath(source)
    return name if "://" in name or zoo.find(name) else Path(name).resolve().name
