""".keras files of a `Bert`, a task or a `Pretrainer`."""

import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras

from keras_bert.bert import Bert
from keras_bert.storage import most_unpacked
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.keras_archive import keras_file
from keras_bert.weights.known_config import bert_configs
from keras_bert.weights.tables import encoder_shapes, finite
from keras_bert.weights.weights_h5 import WEIGHTS, unpacked_size

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)


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
    with rebuilding(path):
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile(f"not a zip file ({path.stat().st_size} bytes)")
        with zipfile.ZipFile(path) as archive:
            config = _checked_config(archive, most_unpacked(path))
        model: Any = None
        if not _is_plain(config):  # it may build arrays of any size
            model = keras.models.load_model(path, compile=compile)
    if not isinstance(getattr(model, "bert", model), Bert):
        name = config.get("class_name") if model is None else type(model).__name__
        raise ValueError(
            f"{path} holds neither a Bert nor a task of keras_bert. Use keras.models.load_model for other models. "
            f"Received: {name}"
        )
    for variable in model.weights:
        finite(variable.path, keras.ops.convert_to_numpy(variable), path)
    return model


def _is_plain(config: Any) -> bool:
    """Whether the class of a model is one of Keras's own, such as Sequential: neither a Bert nor a task is."""
    return isinstance(config, dict) and str(config.get("module")).partition(".")[0] == "keras"


def _checked_config(archive: zipfile.ZipFile, most: int) -> Any:
    """The config; a file that needs far more memory than it has data is refused before anything is built."""
    size = sum(member.file_size for member in archive.infolist())
    if WEIGHTS not in archive.namelist():
        raise zipfile.BadZipFile(f"Expected a {WEIGHTS} in it")
    if size <= most:
        # Its arrays may be compressed too. HDF5 jumps about in it, which a file in a zip would read from its beginning.
        size = max(size, unpacked_size(io.BytesIO(archive.read(WEIGHTS))))
    if size > most:
        raise zipfile.BadZipFile(f"a zip that unpacks to {size} bytes, where {most} is the limit")
    config = json.loads(archive.read("config.json"))
    for one in bert_configs(config):
        parameters = sum(math.prod(shape) for shape in encoder_shapes(one).values())
        if parameters > 4 * size:  # int4 has two in a byte
            raise zipfile.BadZipFile(f"a config of {parameters} parameters, with weights of at most {size} bytes")
    return config


@contextmanager
def rebuilding(path: Path) -> Iterator[None]:
    """What Keras raises for a model that it cannot build again becomes one line; Keras shows configs and arrays."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # of the system, about this file or another one
            raise
        raise ValueError(_in_one_line(path, str(error))) from None
    except KeyError as error:
        text = str(error.args[0])
        raise ValueError(_in_one_line(path, text if " " in text else f"no {text!r} in its config")) from None
    except _DAMAGE as error:
        raise ValueError(_in_one_line(path, str(error))) from None


def _in_one_line(path: Path, text: str) -> str:
    """What is wrong with the file, from Keras's message."""
    classes = re.findall(r"<class '([\w.]+)'> could not be deserialized", text)
    reason = text.rpartition("Exception encountered: ")[2]
    if found := re.match(r"Could not (?:locate|deserialize) (?:class|\w+) '(\w+)'", reason):
        return (
            f"{path} holds {found[1]}, a class that is not registered here. Import the module that defines it, or "
            f"serve its export. Received: {found[1]}"
        )
    if "arbitrary code" in reason:
        return (
            f"{path} holds Python code in a Lambda layer, which keras_bert does not run. Write the layer as a class, "
            "and save the model again. Received: a Lambda layer"
        )
    reason = re.split(r"\s+(?:Full object config: |config=|Target variable: )", reason)[0]
    reason = re.sub(r"^A total of .*? for object |Received: ", "", " ".join(reason.split()))[:250]
    if classes and not classes[-1].startswith(("keras.", "keras_bert.")):
        return (
            f"{path} holds a model that could not be built from its config. Check that get_config of its class returns "
            f"every argument of the constructor. Received: {reason}"
        )
    return f"{path} is damaged or incomplete. Save or download it again. Received: {reason}"
