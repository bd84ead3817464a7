"""What the name of a source can be, and the error for a name of nothing. Needs no Keras, so it is asked early."""

import os
import re
from pathlib import Path

from keras_bert.weights import zoo

HUGGING_FACE = "hf://"
_PAGE = re.compile(r"https?://(?:www\.)?huggingface\.co/([\w.-]+/[\w.-]+)")
_OF_MODEL = re.compile(
    r"\.(keras|h5|json|safetensors|bin|msgpack|index|pb|zip|onnx|tflite)$|\.data-\d+-of-|^vocab\.txt$"
)
_DEPTHS = ("*", "*/*", "*/*/*", "*/*/*/*")  # at which folders of known formats have such a file
_LOOKED_AT = 10_000  # files of a folder; with more, the loader decides
_SHOWN = 300  # characters of a source in an error


def check_name(source: str) -> None:
    """Refuse a name that is neither that of a release nor a path here; an address is not looked up.

    >>> check_name("base")
    >>> check_name("bsae")
    Traceback (most recent call last):
    ValueError: `source` is neither a known name nor a path that exists. Close names: base...
    """
    here = os.path.exists(source) or os.path.isfile(f"{source}.index")  # the prefix of a checkpoint
    if _PAGE.match(source) or not ("://" in source or zoo.find(source) or here):
        raise nothing_at(source)
    if not (zoo.find(source) or may_be_model(source)):
        raise unknown_format(Path(source))


def may_be_model(source: str | os.PathLike) -> bool:
    """Whether a file at a path can be of a model, by the ending of its name; also if nothing is there."""
    path = Path(source)
    if not os.path.exists(path):  # Path.exists fails on a name that is too long
        return True
    names = (path.name,) if path.is_file() else (file.name for depth in _DEPTHS for file in path.glob(depth))
    return any(number == _LOOKED_AT or _OF_MODEL.search(name) for number, name in enumerate(names))


def unknown_format(path: Path) -> ValueError:
    """The error for a path where there is no model."""
    files = sorted(entry.name for entry in path.iterdir())[:6] if path.is_dir() else [path.name]
    return ValueError(
        f"{path} is not a BERT in a known format. Use a HuggingFace folder, a Google or Model Garden checkpoint, a "
        "KerasHub preset, a SavedModel, a .keras file or a folder that keras_bert wrote. "
        f"Received: {', '.join(files) or 'an empty folder'}"
    )


def nothing_at(source: str) -> ValueError:
    """The error for a name of nothing."""
    shown = repr(source) if len(source) <= _SHOWN else f"{source[:_SHOWN]!r}... of {len(source)} characters"
    if page := _PAGE.match(source):
        return ValueError(
            f"`source` is the address of a web page. Write hf://{page[1]} to download the model. Received: {shown}"
        )
    if len(Path(source).parts) > 1:
        return ValueError(
            "There is no file or folder at `source`"
            f"{'; ~ is not expanded' if source.startswith('~') else ''}. Correct it, or use a name that "
            f"`keras-bert models` lists, or hf://org/name. Received: {shown}"
        )
    close = ", ".join(zoo.close_names(source))
    return ValueError(
        "`source` is neither a known name nor a path that exists. "
        f"{f'Close names: {close}. ' if close else ''}Use a name that `keras-bert models` lists, a path "
        f"or hf://org/name. Received: {shown}"
    )
