"""Whether the files of an export are those that its manifests list, by size and SHA-256."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.exports.new_version import MANIFEST, PARTS
from keras_bert.storage import read_json, sha256_of
from keras_bert.weights.export_folder import check_no_runtime_model


def versions_of(folder: Path) -> list[Path]:
    """The folders to check: every version of every part of an export, or the folder itself if it is one version."""
    if (folder / "saved_model.pb").exists() or (folder / MANIFEST).exists():
        return [folder]
    found = _versions(folder)
    if not found:
        check_no_runtime_model(folder, "keras-bert verify", "Name the folder of an export as SavedModels")
        raise FileNotFoundError(
            f"{folder} is not an export: none of its folders {', '.join(PARTS)} has a version. Name the folder of an "
            f"export. Received: {folder}"
        )
    return found


def missing_texts(folder: Path) -> Iterator[str]:
    """One line for each version without `text`, which every export has and a copy that stopped early may lack."""
    for number, place in {place.name: place for place in _versions(folder)}.items():
        if not (folder / "text" / number).is_dir():
            yield f"{folder / 'text' / number}: missing, although {place} is there"


def _versions(folder: Path) -> list[Path]:
    return [place for part in PARTS for place in sorted((folder / part).glob("*")) if place.is_dir()]


def faults(version: Path) -> Iterator[str]:
    """One line for each file of a version that is missing, extra or different; nothing if all is as in its manifest."""
    path = version / MANIFEST
    if not path.is_file():
        yield f"{path}: missing, so the files of this version cannot be checked"
        return
    listed = read_json(path).get("files")
    if not isinstance(listed, dict) or not all(
        isinstance(facts, dict) and "sha256" in facts for facts in listed.values()
    ):
        yield f"{path}: has no digests, as in exports of old versions; export the model again to get them"
        return
    there = {place.relative_to(version).as_posix() for place in version.rglob("*") if not place.is_dir()} - {MANIFEST}
    for name in sorted(there | set(listed)):
        if name not in listed:
            yield f"{version / name}: extra; the manifest does not list it"
        elif name not in there:  # nor is a name with .. ever there
            yield f"{version / name}: missing"
        elif reason := _different(version / name, listed[name]):
            yield f"{version / name}: {reason}"


def _different(path: Path, facts: dict[str, Any]) -> str | None:
    if not path.is_file():
        return "not a file"
    if path.stat().st_size != facts.get("bytes"):
        return f"has {path.stat().st_size} bytes, and the manifest lists {facts.get('bytes')}"
    if sha256_of(path) != facts["sha256"]:
        return "its SHA-256 is not that of the manifest"
    return None
