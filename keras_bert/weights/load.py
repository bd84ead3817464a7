"""`load`: a `Bert` from a name, a path of any known format, a HuggingFace repository or a KerasHub object."""

import contextlib
import dataclasses
import logging
import os
from pathlib import Path
from typing import Any

import keras

from keras_bert.bert import Bert
from keras_bert.checks import check_flag
from keras_bert.installation import has_tensorflow
from keras_bert.layers.dense import blank_weights
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.weights import (
    download,
    google,
    hugging_face,
    keras2_models,
    keras_file,
    keras_hub,
    our_export,
    our_folder,
    zoo,
)
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.export_folder import check_no_runtime_model
from keras_bert.weights.hugging_face_download import snapshot
from keras_bert.weights.source_names import HUGGING_FACE, nothing_at, unknown_format
from keras_bert.weights.tables import encoder_shapes
from keras_bert.weights.tensor_bundle import prefix_at
from keras_bert.weights.weight_files import WHOLE

logger = logging.getLogger("keras_bert")

FORMATS = (our_folder, keras_file, our_export, hugging_face, keras_hub, google, keras2_models)  # asked in this order


def load(
    source: Any,
    *,
    weights: bool = True,
    dtype: Any = None,
    seq_length: int | str = 128,
    cache_dir: str | os.PathLike | None = None,
    local_only: bool = False,
) -> Bert:
    """The encoder of `source`, with its preprocessor.

    Args:
        source: a name from `list_models`; the path of a file or folder in any known format; "hf://org/name",
            optionally with "@revision"; or a `keras_hub` BertBackbone.
        weights: False returns the architecture with random weights; for a name this needs no network, and there is no
            vocabulary.
        dtype: a Keras policy, such as "bfloat16" for inference or "mixed_bfloat16" for training.
        seq_length: of the preprocessor, at most the model's number of positions. To change it later, set
            `bert.preprocessor.seq_length`.
        cache_dir: where downloads are kept; by default KERAS_BERT_HOME, or else a folder in Keras's own.
        local_only: never use the network.

    >>> load("tiny", weights=False).count_params()
    4385920
    """
    check_dtype(dtype)
    check_flag("weights", weights)
    check_flag("local_only", local_only)
    release = zoo.find(source) if isinstance(source, str) else None
    if release is not None and not weights:
        return Bert(release.config, dtype=dtype)
    checkpoint = read_source(source, cache_dir=cache_dir, local_only=local_only)
    bert = build(checkpoint, weights=weights, dtype=dtype, seq_length=seq_length)
    bert.source = source if weights and isinstance(source, str | os.PathLike) else None  # for an export's manifest
    return bert


def check_dtype(dtype: Any, rule: str = "`dtype` must be a Keras policy of real numbers") -> None:
    """An error unless a `Bert` can compute in this Keras policy; None is Keras's own."""
    try:
        policy = keras.dtype_policies.get(keras.config.dtype_policy() if dtype is None else dtype)
    except (ValueError, TypeError):
        policy = None
    if policy is None or "float" not in str(policy.compute_dtype):
        raise ValueError(
            f"{rule}. Use float32, bfloat16, float16, mixed_bfloat16 or mixed_float16. Received: dtype={dtype!r}"
        )


def read_source(source: Any, *, cache_dir: str | os.PathLike | None = None, local_only: bool = False) -> Checkpoint:
    """The checkpoint of any source that `load` accepts, its heads included and its arrays unread.

    A checkpoint that was read before is returned as it is.
    """
    if isinstance(source, Checkpoint):
        return source
    root = download.home(cache_dir)
    if keras_hub.is_backbone(source):
        return keras_hub.from_backbone(source)
    if isinstance(source, str):
        if source.startswith(HUGGING_FACE):
            repository, _, revision = source.removeprefix(HUGGING_FACE).partition("@")
            return read(snapshot(repository, root, revision=revision or None, local_only=local_only))
        if release := zoo.find(source):
            if os.path.exists(source):
                logger.warning(
                    f"{source!r} is the name of a released model, which is loaded now. There is also a file or folder "
                    f"of this name here. To load that, write ./{source}"
                )
            return _read_release(release, root, local_only)
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            '`source` is neither a name, a path nor a BertBackbone. Pass one of these, such as "base". '
            f"Received: {type(source).__name__}"
        )
    if not os.fspath(source):
        raise ValueError("`source` is empty. Pass a name, a path or hf://org/name. Received: ''")
    path = Path(source)
    if path.suffix == ".zip" and os.path.isfile(path):
        path = download.unzip(path, root)
    if not os.path.exists(path) and prefix_at(path) is None:  # Path.exists fails on a path that is too long
        raise nothing_at(str(source))
    return read(path)


def read(path: Path) -> Checkpoint:
    """The checkpoint at a path; the files there show its format."""
    for form in FORMATS:
        if checkpoint := form.read_checkpoint(path):
            return checkpoint.check()
    if (path / "run.json").is_file():
        raise ValueError(
            f"{path} is a pretraining run that is not finished, so it has no model yet. Resume it with the same "
            f"keras-bert pretrain command. Received: {path}"
        )
    if (path / "adapter_config.json").is_file():
        raise ValueError(
            f"{path} holds only a PEFT adapter, not the model that it changes. Merge them with peft's "
            "model.merge_and_unload().save_pretrained(folder), and load that folder. Received: adapter_config.json"
        )
    check_no_runtime_model(path, "keras_bert", "Load the model that it was exported from")
    if path.name in ("config.json", "bert_config.json", "vocab.txt"):
        raise ValueError(f"{path} is one file of a model. Pass the folder that it is in. Received: {path.name}")
    raise unknown_format(path)


def _read_release(release: zoo.Release, root: Path, local_only: bool) -> Checkpoint:
    """A release from its package, from Google's storage where TensorFlow can read it, or else as safetensors."""
    folder = download.package(release.package) if release.package else None
    if folder is None and release.google and has_tensorflow() and not _is_cached(release, root):
        folder = download.google(release.google, root, local_only=local_only)
    elif folder is None:
        folder = snapshot(release.hugging_face, root, local_only=local_only)
    if release.sha256:
        download.check_digest(folder / WHOLE, release.sha256)
    checkpoint = read(folder)
    config = dataclasses.replace(checkpoint.config, hidden_act=release.config.hidden_act)
    if encoder_shapes(config) != encoder_shapes(release.config):
        raise ValueError(
            f"{checkpoint.source} in the cache has other sizes than the model {release.name!r}. Remove it, and load "
            f"the model again. Received: {config}"
        )
    # The same name has the same ids, whatever source its weights came from.
    settings = {} if release.google else checkpoint.text_settings
    return dataclasses.replace(checkpoint, config=config, rules=release.rules, text_settings=settings)


def _is_cached(release: zoo.Release, root: Path) -> bool:
    """Whether the cache has the safetensors and does not have Google's files."""
    assert release.google is not None
    if download.google_folder(release.google, root).is_dir():
        return False
    try:
        snapshot(release.hugging_face, root, local_only=True)
    except (FileNotFoundError, ImportError):
        return False
    return True


def build(checkpoint: Checkpoint, *, weights: bool = True, dtype: Any = None, seq_length: int | str = 128) -> Bert:
    """The model of a checkpoint."""
    config, preprocessor = checkpoint.config, None
    most = config.max_position_embeddings
    if checkpoint.vocabulary is None and os.path.isdir(checkpoint.source):
        logger.warning(
            "%s has no vocabulary, so the model takes ids but no text, and a file or folder written from it has no "
            "vocabulary. To change this, put the vocab.txt of the model into the folder, and load it again.",
            checkpoint.source,
        )
    if checkpoint.vocabulary is not None:
        preprocessor = Preprocessor(
            checkpoint.vocabulary,
            **vars(checkpoint.rules),
            **checkpoint.text_settings,
            seq_length=min(seq_length, most) if hasattr(seq_length, "__index__") else seq_length,
            max_length=most,
        )
    with blank_weights() if weights else contextlib.nullcontext():
        bert = Bert(config, preprocessor, dtype=dtype, pooling=checkpoint.pooling)
    if weights:
        checkpoint.assign_to(bert)
    return bert
