"""`int8_copy`: a model whose encoder multiplies in int8, on TensorFlow's CPU, for answers only."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.layers.dense import blank_weights
from keras_bert.layers.int8_dense import Int8Dense, int8_blocks
from keras_bert.named_weights import layers_of, weights_of
from keras_bert.runner import Runner

LEAST_TEXTS, MOST_TEXTS = 16, 512  # for calibration
_LEAST_COSINE = 0.9
_MOST_UNKNOWN = 0.1
_ROWS, _LENGTH = 16, 32  # of a batch


@dataclass(frozen=True)
class Change:
    """How far int8 turned the vectors of the pieces: the cosines of the angles, on average and at most."""

    mean: float
    lowest: float


def int8_copy(model: Any, texts: Iterable[str] | None = None, *, force: bool = False) -> tuple[Any, Change]:
    """A copy of a `Bert` or a model over one, in int8, and what that changed; the original does not change.

    Args:
        texts: some that the model will get. The inputs of a product then have fixed ranges, those on these texts.
            Without texts, each batch has its own ranges, and a text's answer depends a little on the others in it.
        force: also return a copy whose vectors have little in common with the model's.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Int8 needs ONNX Runtime or the TensorFlow backend. Run `pip install 'keras3-bert[onnxruntime]'` and pass "
            'engine="onnxruntime", or set '
            f"KERAS_BACKEND=tensorflow. Received: backend {keras.backend.backend()!r}"
        )
    bert = getattr(model, "bert", model)
    plain = [weights_of(layer) for layer in layers_of(model).values()]
    random = list(_random_rows(bert))
    batches = random if texts is None else list(_rows(bert, texts))
    with blank_weights(), int8_blocks(fixed_ranges=texts is not None):
        copy = type(model).from_config(_without_lora(model.get_config()))
    largest = _largest_inputs(
        bert, [layer.name for layer in layers_of(copy).values() if isinstance(layer, Int8Dense)], batches
    )
    # In the order of the layers, since Keras gives new names to those that a task does not name.
    for layer, weights in zip(layers_of(copy).values(), plain, strict=True):
        if isinstance(layer, Int8Dense):
            layer.set_from(weights["kernel"].read(), weights["bias"].read(), largest[layer.name])
        else:
            for name, (variable, _) in weights_of(layer).items():
                variable.assign(ops.cast(weights[name].read(), variable.dtype))
    # On random pieces too, since texts for calibration can be unlike those that the model will get.
    change = _change(bert, getattr(copy, "bert", copy), random if texts is None else [*batches, *random])
    if not (change.mean >= _LEAST_COSINE or force):
        raise ValueError(
            "In int8, the vectors of this model have little in common with those in float32: their cosine is "
            f"{change.mean:.3f} on average, and it should be {_LEAST_COSINE} at least. Some weights are probably far "
            f"larger than the others. Use bfloat16, or export with force=True (--force). Received: cosine "
            f"{change.mean:.3f}"
        )
    return copy, change


def _without_lora(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a model whose layers have no LoRA, since their kernels are read with its change."""
    config = dict(config)
    if "bert" in config:
        config["bert"] = {**config["bert"], "config": _without_lora(config["bert"]["config"])}
    if "changed_layers" in config:
        config["changed_layers"] = {}
    return config


# === The inputs of the products ===


def _rows(bert: Any, texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Texts in batches of similar length."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise TypeError(f"The texts for calibration must be a list of strings. Received: {type(texts).__name__}")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"The texts for calibration must be strings. Received: {text!r}, item {number}")
    texts = list(dict.fromkeys(text for text in texts if text.strip()))[:MOST_TEXTS]
    if len(texts) < LEAST_TEXTS:
        raise ValueError(
            f"Calibration needs at least {LEAST_TEXTS} different texts that are not empty. Give more of them, or leave "
            f"calibration out. Received: {len(texts)}"
        )
    texts = sorted(texts, key=len)
    batches = [bert.preprocessor(texts[start : start + _ROWS]) for start in range(0, len(texts), _ROWS)]
    pieces = np.concatenate([_real_pieces(batch) for batch in batches])
    unknown = np.mean(pieces == bert.preprocessor.vocabulary["[UNK]"])
    if unknown > _MOST_UNKNOWN:
        raise ValueError(
            f"{unknown:.0%} of the pieces of the texts for calibration are [UNK]. Give texts in the language of the "
            f"model. Received: {texts[-1][:40]!r}"
        )
    yield from batches


def _random_rows(bert: Any) -> Iterator[dict[str, Any]]:
    """Random pieces. Which channels of the encoder have large numbers depends little on the text."""
    vocabulary, random = bert.preprocessor.vocabulary, np.random.default_rng(0)
    usual = [number for number, piece in enumerate(vocabulary.tokens) if not piece.startswith("[")]
    length = min(_LENGTH, bert.config.max_position_embeddings)
    for _ in range(4):
        ids = random.choice(usual or [vocabulary["[UNK]"]], (_ROWS, length)).astype("int32")
        ids[:, 0], ids[:, -1] = vocabulary["[CLS]"], vocabulary["[SEP]"]
        yield {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}


def _real_pieces(rows: dict[str, Any]) -> np.ndarray:
    ids, mask = (ops.convert_to_numpy(rows[name]) for name in ("input_word_ids", "input_mask"))
    return ids[mask != 0]


def _largest_inputs(bert: Any, names: list[str], batches: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """By the name of a layer: the largest number in each channel of its inputs, [K]."""
    inputs = {name: bert.get_layer(name).input for name in names}
    model = keras.Model(bert.input, {name: ops.max(ops.absolute(x), 0) for name, x in inputs.items()})
    largest = {name: np.zeros(x.shape[-1], "float32") for name, x in inputs.items()}
    run = Runner(model).graph(2)
    for rows in batches:
        for name, found in run(rows).items():
            largest[name] = np.maximum(largest[name], ops.convert_to_numpy(ops.cast(found, "float32")))
    return largest


# === What int8 changed ===


def _change(bert: Any, copy: Any, batches: list[dict[str, Any]]) -> Change:
    found = []
    runs = [Runner(keras.Model(one.input, one.output["sequence_output"])).graph(2) for one in (copy, bert)]
    for rows in batches:
        real = ops.convert_to_numpy(rows["input_mask"]) != 0
        # 2 x [N, H], the vectors of the real pieces
        ours, theirs = (ops.convert_to_numpy(ops.cast(run(rows), "float32"))[real] for run in runs)
        lengths = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
        found.append((ours * theirs).sum(-1) / np.maximum(lengths, 1e-30))
    cosines = np.concatenate(found)
    return Change(float(cosines.mean()), float(cosines.min()))
