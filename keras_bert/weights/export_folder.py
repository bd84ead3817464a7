"""Where our exports are: the SavedModel of an encoder or a task, and the files in it. Needs no Keras."""

from pathlib import Path

from keras_bert.config import CONFIG

EXTRA = "assets.extra"
TASK = "task.json"
_PARTS = ("encoder", "text")  # of an export; either holds the weights
_RUNTIMES = {"onnx": ("an ONNX", ".onnx"), "litert": ("a LiteRT", ".tflite")}  # folder, name and suffix of a model


def saved_model_at(path: Path) -> Path | None:
    """The SavedModel at a path: the path itself, the newest version in it, or the newest of its encoder or text."""
    versions = [version for folder in (path, *(path / part for part in _PARTS)) for version in numbered_folders(folder)]
    newest = max((int(version.name) for version in versions), default=0)
    for folder in (path, *(version for version in versions if int(version.name) == newest)):
        if (folder / "saved_model.pb").is_file() and (folder / EXTRA / CONFIG).is_file():
            return folder
    return None


def check_no_runtime_model(path: Path, reader: str, advice: str) -> None:
    """Refuse a model for ONNX or LiteRT runtimes: its file, or the folder of its version, its format or its name.

    A folder that also has a config, as some on the HuggingFace Hub do, is not refused.
    """
    if any((path / name).is_file() for name in ("config.json", "bert_config.json")):
        return
    for folder, (runtime, suffix) in _RUNTIMES.items():
        inside = (path.glob(f"{place}*{suffix}") for place in ("", "[0-9]*/", f"{folder}/[0-9]*/"))
        of_file = [path] if path.suffix == suffix and path.is_file() else []
        found = of_file or [file for files in inside for file in sorted(files)]
        if found:
            raise ValueError(
                f"{path} is {runtime} model, which {reader} does not read. {advice}. Received: {found[0].name}"
            )


def numbered_folders(path: Path) -> list[Path]:
    """The folders of versions in a folder, sorted by name; none if it does not exist."""
    return sorted(x for x in path.iterdir() if x.name.isdecimal() and x.is_dir()) if path.is_dir() else []
