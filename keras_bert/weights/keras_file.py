""".keras files of a `Bert`, a task or a `Pretrainer`."""

import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import keras

from keras_bert.bert import Bert
from keras_bert.storage import only_file
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.tables import finite
from keras_bert.weights.weights_h5 import WEIGHTS


def keras_file(path: Path) -> Path | None:
    """The .keras file that a path is, or that is the only one in it; None for a folder with our weights."""
    if path.is_dir():
        return None if (path / WEIGHTS).is_file() else only_file(path, "*.keras")
    return path if path.suffix == ".keras" and path.is_file() else None


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint at a path; None where it is in another format."""
    file = keras_file(path)
    if file is None:
        return None
    checkpoint = Checkpoint.of(read_keras(file))
    checkpoint.source, checkpoint.format = str(file), ".keras file"
    return checkpoint


def read_keras(path: Path, compile: bool = True) -> Any:
    """The `Bert` or the task in a .keras file; `compile` it as it was saved."""
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("not a zip file")
        model = keras.models.load_model(path, compile=compile)
    except TypeError as error:
        raise not_rebuilt(path, str(error)) from None
    except (zipfile.BadZipFile, KeyError, EOFError, RuntimeError, NotImplementedError, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or incomplete. Save or download it again. "
            f"Received: {error} ({path.stat().st_size} bytes)"
        ) from None
    if not isinstance(getattr(model, "bert", model), Bert):
        raise ValueError(
            f"{path} holds neither a Bert nor a task of keras_bert. Use keras.models.load_model for other models. "
            f"Received: {type(model).__name__}"
        )
    for variable in model.weights:
        finite(variable.path, keras.ops.convert_to_numpy(variable), path)
    return model


def not_rebuilt(path: Path, text: str) -> Exception:
    """The error for a model that Keras could not build again; Keras's own shows the config with the vocabulary."""
    reason = text.rpartition("Exception encountered: ")[2]
    if found := re.match(r"Could not (?:locate|deserialize) (?:class|\w+) '(\w+)'", reason):
        return ValueError(
            f"{path} holds {found[1]}, a class that is not registered here. Import the module that defines it, or "
            f"serve its export. Received: {found[1]}"
        )
    reason = re.split(r"\s+(?:Full object config: |config=)", reason)[0]
    return ValueError(
        f"{path} holds a model that could not be built from its config. Check that get_config of its class returns "
        f"every argument of the constructor. Received: {reason[:200]}"
    )
