"""`export`: a model as SavedModels in TF-Hub's form. Either all parts appear or none."""

import gc
import operator
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras

from keras_bert import kernels
from keras_bert.bert import Bert
from keras_bert.checks import check_flag
from keras_bert.compat import saving_with
from keras_bert.exports.encoder_part import encoder
from keras_bert.exports.manifest import facts_of, int8_facts, write_manifest
from keras_bert.exports.new_version import check_version, new_version, served_name
from keras_bert.exports.preprocess_part import preprocess
from keras_bert.exports.text_part import answers_to_texts, vectors_of_texts
from keras_bert.exports.text_reader import TextReader
from keras_bert.exports.warm_up import write_warm_up
from keras_bert.installation import need, need_tensorflow
from keras_bert.int8_copy import int8_copy
from keras_bert.layers.int8_dense import Int8Dense
from keras_bert.lazy import tf
from keras_bert.model import with_dtype
from keras_bert.tasks.task import Task
from keras_bert.weights.export_folder import EXTRA
from keras_bert.weights.load import check_dtype
from keras_bert.weights.our_export import write_settings
from keras_bert.weights.tokenizer_files import VOCABULARY


def export(
    model: Any,
    directory: str | os.PathLike,
    *,
    version: int = 1,
    seq_length: int | None = None,
    dtype: Any = None,
    overwrite: bool = False,
    attention: bool = False,
    calibrate: Iterable[str] | None = None,
    force: bool = False,
    serving: str | None = None,
    source: str | os.PathLike | None = None,
    metrics: dict[str, Any] | None = None,
    finish: Callable[[], object] = lambda: None,
) -> None:
    """Write `preprocess/VERSION`, `encoder/VERSION` and `text/VERSION` into a folder, or a bucket such as gs://....

    A task has no `encoder`, and its `text` returns answers. The `encoder` of a `Pretrainer` has the heads in `.mlm`.

    Each part is a SavedModel that needs only TensorFlow, TensorFlow Text and its own files.

    seq_length: the default length of `preprocess`, and the length to which `text` truncates; by default the
    preprocessor's. dtype: a Keras policy to compute in, such as "bfloat16", or "int8" for an encoder that multiplies in
    int8 on CPUs; outputs stay float32. calibrate: for int8, at least 16 different texts such as the model will get; an
    answer then does not depend on the other texts of its batch, as it otherwise does a little. force: export even if
    int8 changes the vectors a lot. overwrite: replace this version if it exists. attention: `text` also gets the
    signature `attention`, with the maps of all layers for one text. serving: the name under which TF Serving serves the
    model, for the requests that warm it up. source, metrics: for the manifest: where the weights come from, by default
    what `load` was given, and their scores. finish: called when all parts are in their places; if it fails or the
    process is killed in it, a new version counts as unfinished, and the next export removes it.

    >>> import tempfile, tensorflow as tf
    >>> from keras_bert import BertConfig, Preprocessor, Vocabulary
    >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "here"])
    >>> config = BertConfig(
    ...     vocab_size=6, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    ... )
    >>> folder = tempfile.mkdtemp()
    >>> export(Bert(config, Preprocessor(vocabulary)), folder)
    >>> tf.saved_model.load(f"{folder}/preprocess/1")(tf.constant(["here"]))["input_word_ids"].shape
    TensorShape([1, 128])
    """
    need_tensorflow("`keras_bert.export`", "tensorflow_text")
    for name, value in (("overwrite", overwrite), ("attention", attention), ("force", force)):
        check_flag(name, value)
    if serving is not None:
        need("tensorflow_serving", "`export` with `serving`", "serving")
    bert = _check(model, directory, version, dtype)
    if (calibrate is not None or force) and dtype != "int8":
        raise ValueError(f'`calibrate` and `force` are for dtype="int8". Received: dtype={dtype!r}')
    length = _length(bert, seq_length)
    facts = facts_of(model, source, metrics) | {"version": version, "seq_length": length}
    if dtype == "int8":
        model, change = int8_copy(model, calibrate, force=force)
        facts |= {"dtype": "int8", "int8": int8_facts(change, calibrated=calibrate is not None)}
    else:
        model = model if dtype is None else with_dtype(model, dtype)
        policy = getattr(model, "bert", model).dtype_policy.name
        facts["dtype"] = "int8" if any(isinstance(layer, Int8Dense) for layer in model.layers) else policy
    bert = getattr(model, "bert", model)
    with new_version(directory, version, overwrite, finish) as staged:
        owner = "text" if isinstance(model, Task) else "encoder"  # which has every weight, the head included
        vocab_file = staged / VOCABULARY
        bert.preprocessor.vocabulary.save(vocab_file)
        for part, make in _parts(model, length, vocab_file, attention).items():
            folder = staged / part / str(version)
            signatures = _save(make, folder, gradients=part == "encoder")
            write_settings(model if part == owner else bert, folder / EXTRA, seq_length)
            if serving is not None:
                write_warm_up(folder, served_name(serving, part), signatures)
            write_manifest(folder, {"part": part, **facts})
            gc.collect()  # a saved object and its functions refer to each other


def _parts(
    model: Any, seq_length: int, vocab_file: Path, attention: bool
) -> dict[str, Callable[[], tuple[Any, dict[str, Any]]]]:
    """For each part a function that makes the object to save and its signatures: one part at a time saves memory."""
    parts = {"preprocess": lambda: preprocess(TextReader.of(model, seq_length))}
    if isinstance(model, Task):
        return parts | {"text": lambda: answers_to_texts(model, seq_length, vocab_file, attention)}
    return parts | {
        "encoder": lambda: encoder(model, vocab_file),
        "text": lambda: vectors_of_texts(model, seq_length, vocab_file, attention),
    }


def _check(model: Any, directory: str | os.PathLike, version: int, dtype: Any) -> Bert:
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "`export` needs the TensorFlow backend. Save the model with model.save(path), and export it in a process "
            f"with KERAS_BACKEND=tensorflow. Received: backend {keras.backend.backend()!r}"
        )
    bert = getattr(model, "bert", model)
    if not isinstance(bert, Bert):
        raise TypeError(
            "`export` takes a Bert, a Pretrainer or a task. For another Keras model, use its own `export`. "
            f"Received: {type(model).__name__}"
        )
    if not os.fspath(directory).strip():
        raise ValueError(f'`directory` is empty. Name a folder; "." is the current one. Received: {directory!r}')
    check_version(version)
    check_export_dtype(dtype)
    return bert


def check_export_dtype(dtype: Any) -> None:
    """Refuse a dtype that no SavedModel can have."""
    if dtype not in (None, "int8"):
        check_dtype(dtype, "`dtype` must be int8 or a Keras policy of real numbers")


def _length(bert: Bert, seq_length: int | None) -> int:
    positions = bert.config.max_position_embeddings
    length = bert.preprocessor.seq_length if seq_length is None else seq_length
    if length == "longest":
        return min(bert.preprocessor.max_length, positions)
    if isinstance(length, bool | str) or not hasattr(length, "__index__") or not 3 <= length <= positions:
        raise ValueError(
            f"`seq_length` must be a whole number from 3 to the model's {positions} positions. "
            f"Received: seq_length={length!r}"
        )
    return operator.index(length)


def _save(make: Callable[[], tuple[Any, dict[str, Any]]], folder: Path, *, gradients: bool) -> dict[str, Any]:
    """Make and save a part; returns its signatures.

    gradients: save the custom gradients of our kernels too, hundreds of functions, for a part that is trained further.
    """
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=gradients)
    with kernels.portable(custom_gradients=gradients):
        with saving_with(options):
            root, signatures = make()
        tf.saved_model.save(root, str(folder), signatures=signatures, options=options)
    return signatures
