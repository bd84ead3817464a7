"""The files beside an export that TF Serving needs: settings, ways to start it, and clients.

They are made from the files in `templates/`.
"""

import json
import math
import os
from importlib.resources import files
from itertools import cycle, islice
from string import Template

from keras_bert.compat import read_saved_model
from keras_bert.exports.new_version import PARTS, served_name
from keras_bert.lazy import tf
from keras_bert.storage import is_remote, make_folder, names_in, read_bytes, write_text

FOLDER = "serving"
_FLAGS = (
    "--model_config_file={base}/serving/models.config",
    "--model_config_file_poll_wait_seconds=60",
    "--allow_version_labels_for_unavailable_models=true",
    "--enable_batching=true",
    "--batching_parameters_file={base}/serving/batching.config",
    "--monitoring_config_file={base}/serving/monitoring.config",
)
# Sample values in the README of the kit, for each column that a signature may have, in the order of the arguments.
_SAMPLES = {
    "text": ("A text.",),
    "text_pair": ("Another text.",),
    "question": ("Where is the cat?",),
    "context": ("The cat is in the garden.",),
    "prompt": ("The cat went into the garden.",),
    "choices": ("There it slept.", "There it ate a mouse.", "It was never seen again.", "The moon was blue."),
}


def write_kit(directory: str | os.PathLike, name: str) -> None:
    """Write the files into the folder `serving` of an export, for the versions that it has; models.config last.

    For a bucket, models.config names the bucket's folders, which TF Serving reads itself; otherwise it names the
    folders of the container.
    """
    directory = os.fspath(directory)
    base = directory if is_remote(directory) else "/models"
    found = {part: _versions(f"{directory}/{part}") for part in PARTS}
    models = [_model(f"{base}/{part}", served_name(name, part), found[part]) for part in PARTS if found[part]]
    flags = [flag.format(base=base) for flag in _FLAGS]
    values = {
        "name": name,
        "label": _label(name),
        "configs": "\n".join(models),
        "flags": json.dumps(flags),
        "command": " ".join(flags),
        **_asked(f"{directory}/text/{found['text'][0]}"),
    }
    make_folder(f"{directory}/{FOLDER}")
    templates = files("keras_bert.serving").joinpath("templates").iterdir()
    for template in sorted(templates, key=lambda template: template.name.startswith("models.config")):
        text = Template(template.read_text(encoding="utf-8")).substitute(values)
        write_text(f"{directory}/{FOLDER}/{template.name.removesuffix('.template')}", text)


def _versions(folder: str) -> list[int]:
    """The newest two versions, the older one first."""
    return sorted(int(name) for name in names_in(folder) if name.isdecimal())[-2:]


def _model(path: str, name: str, versions: list[int]) -> str:
    """One model in models.config, whose newest two versions are labelled stable and canary."""
    labels = {"stable": versions[0], "canary": versions[-1]}
    lines = [f'  name: "{name}"', f'  base_path: "{path}"', '  model_platform: "tensorflow"']
    lines += [f"  model_version_policy {{ specific {{ {' '.join(f'versions: {number}' for number in versions)} }} }}"]
    lines += [f'  version_labels {{ key: "{label}" value: {number} }}' for label, number in labels.items()]
    return "\n".join(f"  {line}" for line in ("config {", *lines, "}"))


def _label(name: str) -> str:
    """The name in the form of Kubernetes (RFC 1035): at most 63 small letters, digits and hyphens, a letter first."""
    label = name.lower().replace("_", "-").strip("-")
    label = f"bert-{label}" if label[0].isdigit() else label
    return label[:63].rstrip("-")


def _asked(folder: str) -> dict[str, str]:
    """How a client asks a SavedModel about one row: its arguments, and the columns that it makes from them."""
    graph = read_saved_model(read_bytes(f"{folder}/saved_model.pb")).meta_graphs[0]
    inputs = graph.signature_def["serving_default"].inputs
    names = [name for name in _SAMPLES if name in inputs]
    # Numbers and categories beside a text.
    others = [name for name in sorted(set(inputs) - set(names)) if len(inputs[name].tensor_shape.dim) == 1]
    sizes = {name: [one.size for one in inputs[name].tensor_shape.dim[1:]] for name in (*names, *others)}
    numbers = {name for name in others if tf.as_dtype(inputs[name].dtype) == tf.float32}
    known = _SAMPLES | {name: ("1.0" if name in numbers else "a name",) for name in others}
    samples = [one for name, size in sizes.items() for one in islice(cycle(known[name]), math.prod(size))]
    values = {name: f"float({name})" if name in numbers else name for name in sizes}
    # Those for Classify have requests of their own, and one with underscores is TensorFlow's.
    signatures = [name for name in sorted(graph.signature_def) if not name.startswith(("_", "classify"))]
    return {
        "signatures": ", ".join(map(json.dumps, signatures)),
        "words": ", ".join(f"*{name}" if size else name for name, size in sizes.items()),
        "columns": ", ".join(f"{name}=[{value}]" for name, value in values.items()),
        "sample": " ".join(map(json.dumps, samples)),
    }
