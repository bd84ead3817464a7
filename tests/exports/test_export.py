"""What an export leaves on the disk, that it needs nothing else, and what is refused."""

import hashlib
import json
import os
import resource
import shutil
import signal
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import keras_bert
from keras_bert.exports import new_version as placing
from keras_bert.exports.manifest import facts_of
from keras_bert.exports.new_version import new_version
from keras_bert.vectors import Pooling
from tests.exports.conftest import SEQ_LENGTH, make
from tests.subprocesses import FORKS, python

PARTS = ("preprocess", "encoder", "text")
TEXTS = ["w1 w2 É", "", "w3 " * 20]
# Beyond TensorFlow's own: TensorFlow Text's. TF Serving builds it in: 2.12.1 as of February 2025
# (tensorflow/serving#4057, whose patches touch FastWordpieceTokenizer), 2.20.0 on its main branch.
CUSTOM_OPS = {"FastWordpieceTokenizeWithOffsets", "TFText>FastWordpieceTokenizeWithOffsets", "NormalizeUTF8"}


@pytest.mark.long
def test_fresh_process(exported, bert, tmp_path):
    """With TensorFlow and TensorFlow Text alone, moved, in another folder, without any vocabulary's file."""
    shutil.copytree(exported, tmp_path / "moved", ignore=shutil.ignore_patterns("vocab.txt"))
    (tmp_path / "elsewhere").mkdir()
    python(
        """
        import json, os, sys
        os.chdir(sys.argv[2])
        import numpy as np
        import tensorflow as tf
        import tensorflow_text
        texts = tf.constant(json.loads(sys.argv[3]))
        preprocess, encoder, text = (tf.saved_model.load(f"{sys.argv[1]}/{part}/1") for part in
                                     ("preprocess", "encoder", "text"))
        inputs = preprocess(texts)
        outputs = {**inputs, **encoder(inputs), **text.signatures["serving_default"](text=texts)}
        outputs["encoder_outputs"] = tf.stack(outputs["encoder_outputs"])
        assert "keras_bert" not in sys.modules
        np.savez("outputs.npz", **outputs)
        """,
        str(tmp_path / "moved"),
        str(tmp_path / "elsewhere"),
        json.dumps(TEXTS),
    )
    found = np.load(tmp_path / "elsewhere" / "outputs.npz")
    inputs = bert.preprocessor(TEXTS)
    expected = {**inputs, **bert(inputs)}
    expected["embedding"] = bert.embed([*TEXTS[:2], "w3 " * (SEQ_LENGTH - 2)])
    expected["truncated"] = [False, False, True]
    expected["encoder_outputs"] = np.stack(expected["encoder_outputs"])
    assert set(found) == set(expected)
    for name, x in expected.items():
        assert np.abs(found[name].astype("float32") - np.asarray(x, "float32")).max() <= 1e-6, name


@pytest.mark.long
def test_no_warning_in_a_fresh_process(exported):
    """TensorFlow would warn of custom gradients that are not in the file; and gradients pass through each part."""
    said = python(
        """
        import logging, sys
        logging.basicConfig(stream=sys.stdout)  # absl's messages too
        import tensorflow as tf
        import tensorflow_text
        texts = tf.constant(["w1 w2", "w3"])
        preprocess, encoder, text = (tf.saved_model.load(f"{sys.argv[1]}/{part}/1") for part in
                                     ("preprocess", "encoder", "text"))
        scale = tf.Variable(2.0)
        with tf.GradientTape(persistent=True) as tape:
            losses = [
                tf.reduce_sum(scale * tf.stop_gradient(text.signatures["serving_default"](text=texts)["embedding"])),
                tf.reduce_sum(scale * text.signatures["serving_default"](text=texts)["embedding"]),
                tf.reduce_sum(scale * text(texts)),
                tf.reduce_sum(scale * encoder(preprocess(texts))["pooled_output"]),
            ]
        first, second, *others = (tape.gradient(loss, scale) for loss in losses)
        assert abs(first - second) <= 1e-6 and None not in others
        """,
        str(exported),
    )
    assert said == ""


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


# === Loaded back ===


@pytest.fixture(scope="module")
def little():
    return make(num_hidden_layers=1)


@pytest.mark.parametrize("place", ["", "encoder", "encoder/1", "text", "text/1"])
def test_round_trip(exported, bert, place):
    again = keras_bert.load(exported / place, seq_length=SEQ_LENGTH)
    assert again.config == bert.config
    for found, expected in zip(again.weights, bert.weights, strict=True):
        np.testing.assert_array_equal(found, expected)
    ours, theirs = again.preprocessor.get_config(), bert.preprocessor.get_config()
    assert {**ours, "name": None} == {**theirs, "name": None}


def test_pooling_after_the_round_trip(tmp_path):
    bert = make(num_hidden_layers=1)
    bert.pooling = Pooling("cls", normalize=True, max_length=6)
    keras_bert.export(bert, tmp_path)
    for part in ("encoder", "text"):
        again = keras_bert.load(tmp_path / part, seq_length=SEQ_LENGTH)
        assert again.pooling == bert.pooling
        np.testing.assert_array_equal(again.embed(TEXTS), bert.embed(TEXTS))
    signature = tf.saved_model.load(str(tmp_path / "text" / "1")).signatures["serving_default"]
    assert np.abs(signature(text=tf.constant(TEXTS[:2]))["embedding"] - again.embed(TEXTS[:2])).max() <= 1e-6


def test_trained_after_the_round_trip(exported):
    bert = keras_bert.load(exported, seq_length=SEQ_LENGTH)
    before = bert.word_embeddings.embeddings.numpy()
    model = keras.Model(bert.input, keras.layers.Dense(1)(bert.output["pooled_output"]))
    model.compile("sgd", "mse")
    model.fit(bert.preprocessor(["w1", "w2"]), np.ones((2, 1)), verbose=0)
    assert np.abs(bert.word_embeddings.embeddings.numpy() - before).max() > 0


@pytest.mark.usefixtures("quantizes")
def test_int8(little, tmp_path):
    keras_bert.export(little, tmp_path, dtype="int8")
    _assert_coarser(f"{tmp_path}/text/1", little)
    with pytest.raises(ValueError, match=r"LoRA or quantized layers.*kernel_scale"):
        keras_bert.load(tmp_path)


def _assert_coarser(folder, bert):
    """The vectors are float32, and nearly those of the original, which stays as it is."""
    found = tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(TEXTS[:2]))
    assert found["embedding"].dtype == tf.float32
    assert 0 < np.abs(found["embedding"] - bert.embed(TEXTS[:2])).max() < 0.05
    assert bert.dtype_policy.name == "float32"


# === Versions ===


def _files(folder):
    return {file.relative_to(folder): file.stat().st_mtime_ns for file in folder.rglob("*")}


def test_a_version_that_exists(exported, bert):
    before = _files(exported)
    with pytest.raises(FileExistsError, match=r"overwrite=True \(--overwrite\).*preprocess/1, which exists"):
        keras_bert.export(bert, exported)
    assert _files(exported) == before


def _write(directory, version=1, parts=PARTS, content="", overwrite=False):
    with new_version(directory, version, overwrite) as staged:
        for part in parts:
            folder = staged / part / str(version)
            (folder / "variables").mkdir(parents=True)
            for name in ("saved_model.pb", "variables/variables.index"):
                (folder / name).write_text(content)


def test_overwritten_in_one_step(tmp_path):
    _write(tmp_path, content="old")
    stop, gaps = threading.Event(), []

    def watch():
        while not stop.is_set():
            gaps.extend(part for part in PARTS if not (tmp_path / part / "1" / "saved_model.pb").exists())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(20):
            _write(tmp_path, content="new", overwrite=True)
    finally:
        stop.set()
        watcher.join()
    assert not gaps
    assert {file.read_text() for file in tmp_path.rglob("*.*") if file.is_file()} == {"new"}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(PARTS)


def test_versions_beside_one_another(tmp_path):
    for version in (1, 2, 10):
        _write(tmp_path, version)
    assert sorted(entry.name for entry in (tmp_path / "encoder").iterdir()) == ["1", "10", "2"]


def test_no_part_of_an_older_model_stays(tmp_path):
    _write(tmp_path, content="old")
    _write(tmp_path, content="new", parts=("preprocess", "text"), overwrite=True)
    assert not (tmp_path / "encoder" / "1").exists()
    with pytest.raises(FileExistsError):
        _write(tmp_path)


def test_failure_leaves_nothing(tmp_path):
    _write(tmp_path, content="old")
    before = _files(tmp_path)

    def fail():
        with new_version(tmp_path, 1, overwrite=True) as staged:
            (staged / "text").mkdir()
            raise OSError("in the middle")

    with pytest.raises(OSError, match="in the middle"):
        fail()
    assert _files(tmp_path).keys() == before.keys()


def test_two_exports_of_one_version_at_once(tmp_path):
    """The second one is refused before it does its work; another version may be written at the same time."""
    with new_version(tmp_path, 1, overwrite=False) as staged:
        for overwrite in (False, True):
            with pytest.raises(RuntimeError, match=f"{tmp_path} is in use by another process"):
                _write(tmp_path, overwrite=overwrite)
        _write(tmp_path, version=2)
        (staged / "text" / "1").mkdir(parents=True)
    assert sorted(entry.name for entry in (tmp_path / "text").iterdir()) == ["1", "2"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(PARTS)


def _killed(directory):
    with new_version(directory, 1, overwrite=False) as staged:
        (staged / "text").mkdir()
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_export_left_is_removed(tmp_path):
    """By the next export, whichever version that is."""
    process = FORKS.Process(target=_killed, args=(tmp_path,))
    process.start()
    process.join()
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir()]
    _write(tmp_path, version=2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(PARTS)


def test_a_part_that_cannot_be_placed(tmp_path, monkeypatch):
    """The parts before it go back to what they were."""
    _write(tmp_path, content="old")
    before = _files(tmp_path)
    exchange = placing._exchange

    def fail_for_text(new, place):
        if "text" in place.parts[-2:]:
            raise OSError("no such right")
        exchange(new, place)

    monkeypatch.setattr(placing, "_exchange", fail_for_text)
    with pytest.raises(OSError, match="no such right"):
        _write(tmp_path, content="new", overwrite=True)
    assert _files(tmp_path).keys() == before.keys()
    assert {file.read_text() for file in tmp_path.rglob("*.*") if file.is_file()} == {"old"}


def test_variables_cut_off(exported, tmp_path):
    shutil.copytree(exported / "encoder" / "1", tmp_path / "1")
    file = tmp_path / "1" / "variables" / "variables.data-00000-of-00001"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"has a damaged or incomplete \.data file"):
        keras_bert.load(tmp_path / "1")


@pytest.mark.parametrize("place", ["export", "export/text"])
def test_a_file_where_a_folder_goes(tmp_path, place):
    """Refused before anything is written."""
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    before = _files(tmp_path)
    with pytest.raises(NotADirectoryError, match="which is a file"):
        _write(tmp_path / "export")
    assert _files(tmp_path) == before


def test_bfloat16_in_a_bucket(little, tmp_path):
    """ram:// stands for gs://: a file system of TensorFlow's that plain `open` cannot reach."""
    from google.protobuf import text_format

    from keras_bert.serving.write_kit import write_kit

    place = f"ram://bucket/{tmp_path.name}"
    keras_bert.export(little, place, dtype="bfloat16")
    for part in PARTS:
        assert set(tf.io.gfile.listdir(f"{place}/{part}")) == {"1"}
    _assert_coarser(f"{place}/text/1", little)
    encoder = f"{place}/encoder/1"
    for name in json.loads(tf.io.gfile.GFile(f"{encoder}/assets.extra/manifest.json").read())["files"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        tf.io.gfile.copy(f"{encoder}/{name}", str(tmp_path / name))
    tables = [bert.word_embeddings.embeddings for bert in (keras_bert.load(tmp_path, dtype="bfloat16"), little)]
    np.testing.assert_array_equal(tables[0].numpy(), tables[1].numpy().astype("bfloat16"))
    config = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2", reason="keras3-bert[serving]")
    write_kit(place, "small")
    file = tf.io.gfile.GFile(f"{place}/serving/models.config").read()
    models = text_format.Parse(file, config.ModelServerConfig()).model_config_list.config
    assert [model.base_path for model in models] == [f"{place}/{part}" for part in PARTS]
    assert "--batching_parameters_file=ram://" in tf.io.gfile.GFile(f"{place}/serving/compose.yaml").read()


def test_bucket():
    """TensorFlow's file systems, gs:// among them; ram:// is one that every machine has."""
    _write("ram://bucket/small", content="old")
    with pytest.raises(FileExistsError, match="overwrite"):
        _write("ram://bucket/small")
    _write("ram://bucket/small", content="new", overwrite=True)
    for part in PARTS:
        for name in ("saved_model.pb", "variables/variables.index"):
            assert tf.io.gfile.GFile(f"ram://bucket/small/{part}/1/{name}").read() == "new"


def test_full_disk(little, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # stands for a disk without room
    try:
        with pytest.raises(OSError, match=r"could not be written.*File too large"):
            keras_bert.export(little, tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "full").iterdir())


# === What is refused ===


@pytest.mark.parametrize("version", [0, -1, 2**63, "1", 1.0, True, None])
def test_version(little, tmp_path, version):
    with pytest.raises(ValueError, match=r"`version` must be a whole number.*Received"):
        keras_bert.export(little, tmp_path, version=version)


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
