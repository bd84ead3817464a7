"""Exports in int8: whole numbers in the products of the encoder, against a version in numpy."""

import functools
import json
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

import keras_bert
from keras_bert import kernels
from keras_bert.compat import read_saved_model
from keras_bert.int8_copy import int8_copy
from keras_bert.layers.int8_dense import Int8Dense, block_dense, int8_blocks
from keras_bert.model import with_dtype
from keras_bert_cli import app
from tests.parity.oracles import array
from tests.tasks.small import KINDS, TEXTS, columns, small_bert, small_task

pytestmark = pytest.mark.usefixtures("without_preprocess")
REVIEWS = [f"{first} the film was {second} ." for first in TEXTS for second in ("good", "bad", "long", "for anna", "")]


def _text_of(folder):
    return tf.saved_model.load(f"{folder}/text/1").signatures["serving_default"]


def _products(folder):
    """The names of the integer products in the functions of a SavedModel."""
    graph = read_saved_model((folder / "text" / "1" / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    nodes = [node for function in graph.library.function for node in function.node_def]
    return {node.name.split("/")[-2] for node in nodes if node.op == "_QuantizedMatMul"}


# === One product ===


def _in_numpy(layer, x):
    weights = {weight.name: array(weight).astype("float64") for weight in layer.weights}
    x = x * weights.get("smoothing", 1)
    top = x.max(-1, keepdims=True) if layer.by_row else weights.get("range", np.abs(x).max())
    levels = np.clip(np.rint(x / top * 127), -127, 127)
    y = levels @ weights["kernel"] * (top / 127) * weights["kernel_scale"] + weights["bias"]
    return array(keras.ops.gelu(y, layer.activation == "gelu_tanh")) if layer.activation else y


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_are_exact(sign):
    most = kernels.largest_int8_weight()
    assert most in (64, 127)
    kernel = tf.fill([768, 8], tf.constant(sign * most, tf.int8))
    found = kernels.int8_product(tf.ones([4, 768]), kernel, tf.ones([8]), tf.zeros([8]), tf.constant(127.0), None)
    np.testing.assert_allclose(found, sign * 768.0 * most, rtol=1e-6)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(
    ("place", "gelu"),
    [({}, None), ({"after_norm": True}, "gelu_tanh"), ({"after_norm": True}, "gelu_erf"), ({"after_gelu": True}, None)],
)
@pytest.mark.parametrize("fixed_ranges", [False, True])
def test_a_product(place, gelu, fixed_ranges, in_graph):
    rng = np.random.default_rng(0)
    x, kernel, bias = (rng.normal(size=shape).astype("float32") for shape in ((40, 16), (16, 24), (24,)))
    if place.get("after_norm"):
        x[:, 5] *= 20
    if place.get("after_gelu"):
        x[3] *= 20
        x = array(keras.ops.gelu(x))
    with int8_blocks(fixed_ranges=fixed_ranges):
        config = keras_bert.BertConfig(hidden_act=gelu or "gelu_erf")
        layer = block_dense(24, config, gelu=gelu is not None, **place)
    layer.build(x.shape)
    layer.set_from(kernel, bias, np.abs(x).max(0))
    call = tf.function(layer) if in_graph else layer
    found, expected = call(x).numpy(), _in_numpy(layer, x)
    exact = x @ kernel + bias
    exact = array(keras.ops.gelu(exact, gelu == "gelu_tanh")) if gelu else exact
    # A number half-way between two levels can go to either.
    assert np.mean(np.abs(found - expected) <= 1e-4 * np.abs(expected).max()) >= 0.98
    assert np.abs(found - expected).max() <= np.abs(kernel).max() * np.abs(x).max() / 64
    assert 0 < np.abs(found - exact).mean() <= 0.02 * np.abs(exact).mean()


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-3, 1e4])
def test_inputs_of_any_size(size):
    """TensorFlow's op for quantizing widens narrow ranges unless told not to."""
    rng = np.random.default_rng(0)
    x, kernel = (rng.normal(size=shape).astype("float32") for shape in ((40, 16), (16, 24)))
    with int8_blocks(fixed_ranges=False):
        layer = block_dense(24, keras_bert.BertConfig())
    layer.build(x.shape)
    layer.set_from(kernel, np.zeros(24, "float32"), np.abs(x).max(0))
    np.testing.assert_allclose(layer(size * x).numpy(), size * layer(x).numpy(), rtol=1e-5, atol=1e-6 * size)


def test_layers_of_one_size_keep_their_own_weights():
    """Called outside a graph too, where TensorFlow has one op for all products of a size."""
    copy, _ = int8_copy(small_bert())
    layers = [layer for layer in copy.layers if isinstance(layer, Int8Dense)]
    assert len(layers) == 4 * copy.config.num_hidden_layers
    rows = copy.preprocessor(TEXTS)
    outside = copy(rows)["sequence_output"]
    inside = tf.function(lambda rows: copy(rows)["sequence_output"])(rows)
    assert np.abs(outside - inside).max() <= 1e-4
    assert np.abs(inside - small_bert()(rows)["sequence_output"]).max() <= 0.1


@pytest.mark.parametrize("kind", [*KINDS, "windows"])
def test_every_task(kind):
    task = small_task(kind)
    copy, change = int8_copy(task)
    x = TEXTS if kind == "windows" else columns(kind)[0]
    found, expected = (_flat(model.logits(model.examples(x), 32)) for model in (copy, task))
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=1e-3)
    assert np.abs(found - expected).max() > 0
    assert 0.99 < change.lowest <= change.mean <= 1 + 1e-6


def _flat(logits):
    return np.concatenate([np.ravel(array(x)) for x in keras.tree.flatten(logits)])


def test_no_rows():
    copy, _ = int8_copy(small_bert(), REVIEWS)
    for bert in (copy, int8_copy(small_bert())[0]):
        rows = {name: x[:0] for name, x in bert.preprocessor(TEXTS).items()}
        assert bert(rows)["sequence_output"].shape[0] == 0


# === Exports ===


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Exports a task of a kind, or an encoder, in int8, each only once; returns the model and the folder."""

    @functools.cache
    def export(kind, calibrate=False):
        model, folder = small_bert() if kind == "encoder" else small_task(kind), tmp_path_factory.mktemp(kind)
        keras_bert.export(model, folder, dtype="int8", calibrate=REVIEWS if calibrate else None)
        return model, folder

    return export


@pytest.mark.parametrize("kind", ["classifier", "tagger", "answerer", "regressor"])
def test_a_task(exported, kind):
    task, folder = exported(kind)
    assert len(_products(folder)) == 4 * task.bert.config.num_hidden_layers
    loaded = tf.saved_model.load(f"{folder}/text/1")
    rows = task.bert.preprocessor(TEXTS)
    found = loaded.signatures["logits"](**rows)["logits"]
    expected = task(rows)
    assert 0 < np.abs(found - expected).max() <= 0.1
    manifest = json.loads((folder / "text" / "1" / "assets.extra" / "manifest.json").read_text())
    assert manifest["dtype"] == "int8"
    assert manifest["int8"]["ranges"] == "those of each batch"
    assert 0.99 < manifest["int8"]["cosine_lowest"] <= manifest["int8"]["cosine_mean"] <= 1
    again = type(task).load(folder)
    np.testing.assert_allclose(tf.function(again)(rows), found, atol=1e-5)


def test_calibrated_answers_do_not_depend_on_the_batch(exported):
    folders = {"fixed": exported("encoder", calibrate=True)[1], "free": exported("encoder")[1]}
    found = {}
    for name, folder in folders.items():
        run = _text_of(folder)
        several, one = (run(text=tf.constant(batch))["embedding"] for batch in (TEXTS, TEXTS[1:2]))
        found[name] = np.abs(several[1] - one[0]).max()
    assert found["fixed"] <= 1e-6 < 1e-4 < found["free"]
    manifest = json.loads((folders["fixed"] / "text" / "1" / "assets.extra" / "manifest.json").read_text())
    assert manifest["int8"]["ranges"] == "those of the texts for calibration"


def test_lora_and_mixed_precision(tmp_path):
    task = small_task("classifier", small_bert(dtype="mixed_bfloat16"))
    for layer in task.bert.layers:
        if isinstance(layer, keras.layers.Dense):
            layer.enable_lora(2)
            layer.lora_kernel_b.assign(np.random.default_rng(0).normal(size=layer.lora_kernel_b.shape) / 10)
    expected = task.classify(TEXTS)
    keras_bert.export(task, tmp_path, dtype="int8")
    found = _text_of(tmp_path)(text=tf.constant(TEXTS))
    assert found["scores"].dtype == tf.float32
    assert np.abs(found["score"] - [answer.score for answer in expected]).max() <= 0.05


def test_an_encoder(exported):
    bert, folder = exported("encoder")
    found = _text_of(folder)(text=tf.constant(TEXTS))["embedding"]
    assert 0 < np.abs(found - bert.embed(TEXTS)).max() <= 0.1
    with pytest.raises(ValueError, match=r"exported in int8.*kernel_scale"):
        keras_bert.load(folder)


# TensorFlow reads its own variables when it is imported, but those of oneDNN when a process first computes.
ALONE = """
import json, os, sys
import tensorflow as tf
import tensorflow_text

for instructions in ("", "AVX2", "SSE41") if os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1" else ("",):
    if not os.fork():
        if instructions:
            os.environ["ONEDNN_MAX_CPU_ISA"] = instructions
        os.environ["ONEDNN_VERBOSE"] = "1"  # prints which instructions it uses
        run = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
        print(json.dumps([instructions, run(text=tf.constant(sys.argv[2:]))["score"].numpy().tolist()]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


@pytest.mark.long
@pytest.mark.parametrize("onednn", ["1", "0"])
def test_older_cpus(exported, onednn):
    """In processes without this package: nearly the same answers with older instructions, or without oneDNN."""
    task, folder = exported("classifier", calibrate=True)
    command = [sys.executable, "-c", ALONE, str(folder / "text" / "1"), *TEXTS]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert list(found) == (["", "AVX2", "SSE41"] if onednn == "1" else [""])
    used = re.findall(r"cpu,isa:(.*)", done.stdout)
    assert used[1:] == (["Intel AVX2", "Intel SSE4.1"] if onednn == "1" else [])
    for scores in found.values():
        np.testing.assert_allclose(scores, [answer.score for answer in task.classify(TEXTS)], atol=0.01)


# === Refused ===


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ([], ValueError, r"at least 16 different texts that are not empty.*Received: 0$"),
        (["", "good"] * 15, ValueError, r"at least 16 different texts that are not empty.*Received: 1$"),
        ([f"영화가 좋다 {number}" for number in range(20)], ValueError, r"\d+% of the pieces .*\[UNK\].*language"),
        ("good", TypeError, "must be a list of strings.*str"),
        (int, TypeError, "must be a list of strings.*type"),
        ([*TEXTS, 1] * 20, TypeError, "must be strings. Received: 1, item 4"),
    ],
)
def test_texts_that_cannot_calibrate(tmp_path, texts, error, message):
    with pytest.raises(error, match=message):
        keras_bert.export(small_task("classifier"), tmp_path / "new", dtype="int8", calibrate=texts)
    assert not (tmp_path / "new").exists()


def test_outliers(tmp_path):
    task = small_task("classifier")
    for block in range(task.bert.config.num_hidden_layers):
        inner, outer = (task.bert.get_layer(f"layer_{block}_{name}") for name in ("intermediate", "output"))
        bias, kernel = array(inner.bias).copy(), 100 * array(outer.kernel)
        bias[0], kernel[0] = -100, 1e6  # a channel that is always zero, with weights that hide all others
        inner.bias.assign(bias)
        outer.kernel.assign(kernel)
    with pytest.raises(ValueError, match=r"little in common.*bfloat16, or export with force=True \(--force\).*cosine"):
        keras_bert.export(task, tmp_path, dtype="int8")
    keras_bert.export(task, tmp_path, dtype="int8", force=True)


@pytest.mark.parametrize("options", [{"calibrate": REVIEWS}, {"force": True, "dtype": "bfloat16"}])
def test_options_of_int8(tmp_path, options):
    with pytest.raises(ValueError, match=r'`calibrate` and `force` are for dtype="int8"'):
        keras_bert.export(small_task("classifier"), tmp_path, **options)


def test_weights_that_are_not_finite(tmp_path):
    task = small_task("classifier")
    layer = task.bert.get_layer("layer_0_output")
    layer.kernel.assign(np.full(layer.kernel.shape, np.nan))
    with pytest.raises(ValueError, match=r"layer_0_output has weights that are NaN"):
        keras_bert.export(task, tmp_path, dtype="int8")


def test_a_copy_only_answers(tmp_path):
    copy = keras_bert.inference(small_task("classifier"), "tensorflow", "int8").model
    with pytest.raises(ValueError, match="is in int8, so it can only answer"):
        copy.fit(TEXTS, ["positive", "negative"] * 2)
    with pytest.raises(ValueError, match="is in int8, so it can only answer"):
        copy.save(tmp_path / "task.keras")
    for again in (lambda: keras_bert.inference(copy, "tensorflow", "int8"), lambda: with_dtype(copy, "bfloat16")):
        with pytest.raises(ValueError, match="is in int8, so it can only answer"):
            again()
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_an_export(exported, tmp_path):
    """What is loaded from an export in int8 is in int8, as the manifest of its own export says."""
    _, folder = exported("classifier")
    keras_bert.export(keras_bert.TextClassifier.load(folder), tmp_path)
    facts = [json.loads((one / "text/1/assets.extra/manifest.json").read_text()) for one in (folder, tmp_path)]
    assert [one["dtype"] for one in facts] == ["int8", "int8"]


@pytest.mark.usefixtures("quantizes")
def test_quantized_before(tmp_path):
    task = small_task("classifier")
    task.quantize("int8")
    with pytest.raises(ValueError, match=r"has quantized layers.*as it was before `quantize`"):
        keras_bert.export(task, tmp_path, dtype="int8")


# === The command line ===


def _run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_command(tmp_path):
    small_task("classifier").save(tmp_path / "task.keras")
    (tmp_path / "texts.txt").write_text("\n".join(REVIEWS), encoding="utf-8")
    words = ["export", tmp_path / "task.keras", "--name", "film", "--output", tmp_path]
    assert _run(*words, "--dtype", "int8", "--calibrate", tmp_path / "texts.txt").exit_code == 0
    manifest = json.loads((tmp_path / "film" / "text" / "1" / "assets.extra" / "manifest.json").read_text())
    assert manifest["int8"]["ranges"] == "those of the texts for calibration"
    with pytest.raises(ValueError, match=r"--calibrate is for --dtype int8\. Add"):
        _run(*words, "--calibrate", tmp_path / "texts.txt")
    with pytest.raises(ValueError, match=r"--force is for --format savedmodel.*Received: --format onnx"):
        _run(*words, "--dtype", "int8", "--format", "onnx", "--force")


def test_scores_beside_those_in_float32(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "0")  # other tests of this process train
    small_task("classifier").save(tmp_path / "task.keras")
    rows = "text\tlabel\n" + "".join(f"{text}\tpositive\n" for text in TEXTS)
    (tmp_path / "rows.tsv").write_text(rows, encoding="utf-8")
    words = ["evaluate", tmp_path / "task.keras", "--data", tmp_path / "rows.tsv"]
    in_float32 = _run(*words).stdout.splitlines()[0].split("\t")[1]
    beside = _run(*words, "--engine", "tensorflow", "--dtype", "int8").stdout.splitlines()[0]
    assert beside.endswith(f"\t{in_float32} in float32")
    words[1] = exported("classifier")[1]
    assert _run(*words).stdout.splitlines()[0].startswith("accuracy\t")
    words[1] = tmp_path / "task.keras"
    found = json.loads(_run(*words, "--engine", "tensorflow", "--dtype", "int8", "--json").stdout)
    assert f"{found['float32']['accuracy']:.4f}" == in_float32
