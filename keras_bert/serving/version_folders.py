"""The folders of an export that a server loads: each version of each part. Needs no Keras."""

from collections.abc import Sequence
from pathlib import Path

from keras_bert.exports.new_version import PARTS
from keras_bert.weights.export_folder import check_no_runtime_model, numbered_folders

WITHOUT_ENCODER = tuple(part for part in PARTS if part != "encoder")  # those that ONNX Runtime answers


def version_folders(directory: Path, parts: Sequence[str]) -> dict[str, dict[int, Path]]:
    """The versions of each of these parts that an export has, and their folders."""
    if directory.is_file():
        _refuse_runtime_model(directory)
        raise NotADirectoryError(
            f"{directory} is a file, but the server needs the folder of an export. Make one with keras-bert export "
            f"{directory}. Received: {directory}"
        )
    if not directory.is_dir():
        raise FileNotFoundError(
            f"The folder {directory} does not exist. Name the folder of an export. Received: {directory}"
        )
    if ":" in directory.resolve().name:
        raise ValueError(
            f"{directory} has a colon in its name, but the name of a model in a URL cannot have one. Rename the "
            f"folder. Received: {directory.resolve().name!r}"
        )
    folders = {part: found for part in parts if (found := _versions(directory / part))}
    if not folders:
        _refuse_runtime_model(directory)
        inside = sorted(found.parts[-4] for found in directory.glob("*/*/*/saved_model.pb"))
        advice = f"Name one of the exports in it: {', '.join(dict.fromkeys(inside))}" if inside else ""
        raise FileNotFoundError(
            f"{directory} is not an export: it has no version of {'/, '.join(parts[:0:-1])}/ or {parts[0]}/. "
            f"{advice or 'Make one with keras-bert export'}. Received: {directory}"
        )
    return folders


def _refuse_runtime_model(path: Path) -> None:
    check_no_runtime_model(path, "keras-bert serve", "Export the model again, without --format")


def _versions(part: Path) -> dict[int, Path]:
    """The versions of a part and their folders."""
    found = {}
    for folder in numbered_folders(part):
        inside = sorted(path.name for path in folder.iterdir())
        if inside and "saved_model.pb" not in inside:
            raise ValueError(
                f"{folder} could not be loaded, because its saved_model.pb is missing. If copying the folder was "
                f"interrupted, copy it again; otherwise, export the model again. Received: {', '.join(inside)}"
            )
        if inside:
            found[int(folder.name)] = folder
    return found
