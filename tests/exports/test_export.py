"""What an export leaves on the disk, that it needs nothing else, and what is refused."""

import hashlib
import json
import resource
import shutil
import signal
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from typer.testing import CliRunner

import keras_bert
from keras_bert.exports.manifest import facts_of
from keras_bert_cli import app
from tests.exports.conftest import PARTS, SEQ_LENGTH
from tests.subprocesses import python

TEXTS = ["w1 w2 É", "", "w3 " * 20]
# Beyond TensorFlow's own: TensorFlow Text's. TF Serving builds it in: 2.12.1 as of February 2025
# (tensorflow/serving#4057, whose patches touch FastWordpieceTokenizer), 2.20.0 on its main branch.
CUSTOM_OPS = {"FastWordpieceTokenizeWithOffsets", "TFText>FastWordpieceTokenizeWithOffsets", "NormalizeUTF8"}


@pytest.fixture(scope="module")
def fresh(exported, tmp_path_factory):
    """What a process without this package leaves: the folder with its outputs.npz, and what it printed.

    It has only TensorFlow and TensorFlow Text. It works in another folder, and loads a copy of the export from which
    the vocabulary's files are missing. Gradients pass through each part.
    """
    moved, elsewhere = tmp_path_factory.mktemp("moved") / "moved", tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(exported, moved, ignore=shutil.ignore_patterns("vocab.txt"))
    said = python(
        """
        import json, logging, os, sys
        logging.basicConfig(stream=sys.stdout)  # absl's messages too
        os.chdir(sys.argv[2])
        import numpy as np
        import tensorflow as tf
        import tensorflow_text
        texts = tf.constant(json.loads(sys.argv[3]))
        preprocess, encoder, text = (tf.saved_model.load(f"{sys.argv[1]}/{part}/1") for part in
                                     ("preprocess", "encoder", "text"))
        scale = tf.Variable(2.0)
        with tf.GradientTape(persistent=True) as tape:
            inputs = preprocess(texts)
            outputs = {**inputs, **encoder(inputs), **text.signatures["serving_default"](text=texts)}
            losses = [
                tf.reduce_sum(scale * tf.stop_gradient(outputs["embedding"])),
                tf.reduce_sum(scale * outputs["embedding"]),
                tf.reduce_sum(scale * text(texts)),
                tf.reduce_sum(scale * outputs["pooled_output"]),
            ]
        first, second, *others = (tape.gradient(loss, scale) for loss in losses)
        assert abs(first - second) <= 1e-6 and None not in others
        outputs["encoder_outputs"] = tf.stack(outputs["encoder_outputs"])
        assert "keras_bert" not in sys.modules
        np.savez("outputs.npz", **outputs)
        """,
        str(moved),
        str(elsewhere),
        json.dumps(TEXTS),
    )
    return elsewhere, said


@pytest.mark.long
def test_fresh_process(fresh, bert):
    found = np.load(fresh[0] / "outputs.npz")
    inputs = bert.preprocessor(TEXTS)
    expected = {**inputs, **bert(inputs)}
    expected["embedding"] = bert.embed([*TEXTS[:2], "w3 " * (SEQ_LENGTH - 2)])
    expected["truncated"] = [False, False, True]
    expected["encoder_outputs"] = np.stack(expected["encoder_outputs"])
    assert set(found) == set(expected)
    for name, x in expected.items():
        assert np.abs(found[name].astype("float32") - np.asarray(x, "float32")).max() <= 1e-6, name


@pytest.mark.long
def test_no_warning_in_a_fresh_process(fresh):
    """TensorFlow would warn of custom gradients that are not in the file."""
    assert fresh[1] == ""


def _nodes(folder):
    model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    graph = model.meta_graphs[0].graph_def
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def test_ops(exported):
    """TensorFlow's own and TensorFlow Text's; no Python function, and no fused norm, which a GPU lacks."""
    core = set(dir(tf.raw_ops))
    for part in PARTS:
        ops = {node.op for node in _nodes(exported / part / "1")}
        functions = {op for op in ops if op.startswith("__")}
        assert ops - functions - core - {"Const", "Placeholder"} <= CUSTOM_OPS, part
        assert not [op for op in ops if "PyFunc" in op or "FusedBatchNorm" in op]


def test_no_path_of_this_machine(exported, tmp_path_factory):
    files = [file for file in exported.rglob("*") if file.is_file()]
    paths = [str(tmp_path_factory.getbasetemp()), str(keras_bert.__path__[0]), "/tmp/", "site-packages", "/home/"]
    for file in files:
        data = file.read_bytes()
        assert not [path for path in paths if path.encode() in data], file
    assert len(files) == 3 * 7 + 2  # variables, graph, fingerprint, three settings; and two vocabularies


def test_source(bert, tmp_path):
    """What `load` was given, of a path the last part alone."""
    bert.save(tmp_path / "mine.keras")
    assert facts_of(keras_bert.load(tmp_path / "mine.keras"), None, None) == {"model": "Bert", "source": "mine.keras"}
    assert facts_of(keras_bert.load("tiny", weights=False), None, None) == {"model": "Bert"}
    for name in ("base", "hf://org/name", "gs://bucket/name"):
        assert facts_of(bert, name, None)["source"] == name


def test_manifest(exported):
    for part in PARTS:
        folder = exported / part / "1"
        manifest = json.loads((folder / "assets.extra" / "manifest.json").read_text())
        assert manifest["part"] == part
        assert manifest["made_with"]["tensorflow"] == tf.__version__
        for name, facts in manifest["files"].items():
            data = (folder / name).read_bytes()
            assert facts == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        files = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
        assert files - set(manifest["files"]) == {"assets.extra/manifest.json"}


def test_full_disk(little, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # stands for a disk without room
    try:
        with pytest.raises(OSError, match=r"Could not write .*full: File too large\. Nothing was changed\. Free"):
            keras_bert.export(little, tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("sigterm_is_ignored")
def test_sigterm_leaves_nothing(little, tmp_path, monkeypatch):
    little.save(tmp_path / "model.keras")
    monkeypatch.setattr("keras_bert.exports.export.write_manifest", lambda *_: signal.raise_signal(signal.SIGTERM))
    command = ["export", str(tmp_path / "model.keras"), "--name", "film", "--output", str(tmp_path)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["model.keras"]


# === What is refused ===


@pytest.mark.parametrize("version", [0, -1, 2**63, "1", 1.0, True, None])
def test_version(little, tmp_path, version):
    with pytest.raises(ValueError, match=r"`version` must be a whole number.*Received"):
        keras_bert.export(little, tmp_path, version=version)


@pytest.mark.parametrize("directory", ["", " "])
def test_an_empty_path(little, tmp_path, monkeypatch, directory):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="`directory` is empty"):
        keras_bert.export(little, directory)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seq_length", [2, 17, "8", True])
def test_seq_length(little, tmp_path, seq_length):
    with pytest.raises(ValueError, match=r"`seq_length` must be .* the model's 16 positions.*Received"):
        keras_bert.export(little, tmp_path, seq_length=seq_length)


def test_models(little, tmp_path):
    for model in (keras.Sequential([keras.layers.Dense(2)]), keras_bert.Bert, "small"):
        with pytest.raises(TypeError, match="`export` takes a Bert"):
            keras_bert.export(model, tmp_path)
    bare = keras_bert.Bert(little.config)
    with pytest.raises(ValueError, match="has no vocabulary"):
        keras_bert.export(bare, tmp_path)
    assert not list(tmp_path.iterdir())


def test_other_backends(little, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match=r"KERAS_BACKEND=tensorflow.*Received: backend 'jax'"):
        keras_bert.export(little, tmp_path)


def test_without_the_api_of_tf_serving(tmp_path, bert, monkeypatch, caplog):
    """The command exports without the requests that warm up TF Serving, and says so; `serving` in Python needs them."""
    bert.save(tmp_path / "model.keras")
    monkeypatch.setitem(sys.modules, "tensorflow_serving", None)
    monkeypatch.setattr("keras_bert_cli.export.find_spec", lambda name: None)
    command = ["export", str(tmp_path / "model.keras"), "--name", "film", "--output", str(tmp_path)]
    CliRunner().invoke(app, command, catch_exceptions=False)
    assert "pip install 'keras3-bert[serving]'" in caplog.text
    assert (tmp_path / "film" / "serving" / "models.config").is_file()
    assert not list(tmp_path.rglob("tf_serving_warmup_requests"))
    assert keras_bert.load(tmp_path / "film").config == bert.config
    with pytest.raises(ImportError, match="`export` with `serving` needs the package tensorflow_serving"):
        keras_bert.export(bert, tmp_path / "more", serving="film")
    assert not (tmp_path / "more").exists()
