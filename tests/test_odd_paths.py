"""Every command and every format in folders with names that tools take for patterns, options or ends of lines."""

import dataclasses
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.corpus.files import find_files
from keras_bert.pretraining.examples.record_files import find_records
from keras_bert.serving.served_version import find_models
from keras_bert.storage import literal_path, matching
from keras_bert.training.checkpoint_folder import latest_checkpoint
from keras_bert.training.loop_options import LoopOptions
from keras_bert.training.metrics_log import read_metrics
from keras_bert.training.tensorflow_checkpoints import TensorFlowCheckpoints
from keras_bert.training.train import train
from keras_bert.weights import our_folder
from keras_bert_cli import convert, evaluate, examples, pretrain, vocab  # noqa: F401  registers the commands
from tests.tasks import runs
from tests.training.small_training import BATCH, batches, small_pretrainer, weights
from tests.weights import small

NAME = "run [1] *?#%7e\\ 두 줄\n'끝\""


@pytest.fixture
def odd(tmp_path):
    folder = tmp_path / ("x" * 200) / NAME
    folder.mkdir(parents=True)
    return folder


def run(*arguments):
    result = runs.run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def step(directory, steps):
    """A pretraining run up to this step, of whose checkpoints the last one stays."""
    model = small_pretrainer(0.1)
    one = keras_bert.strategy("one")
    options = {"strategy": one, "batch_size": BATCH, "loop": LoopOptions(checkpoint_every=2, keep=1)}
    train(model, keras_bert.AdamW(1e-2), batches, steps=steps, directory=str(directory), **options)
    return model


def checkpoints(directory):
    one = keras_bert.strategy("one")
    return TensorFlowCheckpoints(str(directory), {"x": [tf.Variable(0.0)]}, strategy=one, keep=1, keep_every_hours=None)


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_pretraining_resumes(odd, tmp_path):
    step(odd, 4)
    model = step(odd, 6)
    assert [record["step"] for record in read_metrics(f"{odd}/metrics.jsonl")] == [2, 4, 6]
    np.testing.assert_array_equal(weights(model), weights(step(tmp_path / "plain", 6)))
    files = {path.name for path in (odd / "checkpoints").iterdir()}
    assert files == {"checkpoint", "ckpt-6.index", "ckpt-6.data-00000-of-00001"}
    state = (odd / "checkpoints" / "checkpoint").read_text()
    assert state.startswith('model_checkpoint_path: "ckpt-6"\n')
    assert latest_checkpoint(f"{odd}/checkpoints") == f"{odd}/checkpoints/ckpt-6"


def test_a_run_never_deletes_the_checkpoints_of_another(tmp_path):
    """`run?` as a pattern matches run1 too."""
    (other, run) = (checkpoints(tmp_path / name) for name in ("run1", "run?"))
    other.save(1, wait=True)
    run.save(1, wait=True)
    run.save(2, wait=True)
    assert other.restore()
    assert [latest_checkpoint(f"{tmp_path}/{name}").rpartition("-")[2] for name in ("run1", "run?")] == ["1", "2"]
    assert len(list((tmp_path / "run?").iterdir())) == 3


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_run_that_lost_its_last_checkpoint_does_not_start_over(tmp_path, damage):
    checkpoints(tmp_path).save(2, wait=True)
    if damage == "missing":
        (tmp_path / "ckpt-2.index").unlink()
    else:
        (tmp_path / "checkpoint").write_bytes(b"\0\1\2")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match=f"cannot be resumed, since .* is {damage}"):
        checkpoints(tmp_path).restore()
    assert sorted(tmp_path.iterdir()) == before


def test_without_a_record_a_run_resumes_from_the_last_complete_checkpoint(tmp_path):
    checkpoints(tmp_path).save(2, wait=True)
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "ckpt-4.index").write_bytes((tmp_path / "ckpt-2.index").read_bytes()[:-1])  # it was being written
    (tmp_path / "ckpt-best.index").touch()
    again = checkpoints(tmp_path)
    assert again.restore()
    assert {path.name for path in tmp_path.glob("ckpt-*.index")} == {"ckpt-2.index", "ckpt-best.index"}
    again.save(6, wait=True)
    assert {path.name for path in tmp_path.glob("ckpt-*.index")} == {"ckpt-6.index", "ckpt-best.index"}


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_from_a_corpus_to_a_pretrained_model(odd):
    words = [f"w{i}" for i in range(18)]
    rng = np.random.default_rng(0)
    for name in ("a [1].txt", "b*.txt"):
        (odd / name).write_text("\n\n".join(" ".join(rng.choice(words, 9)) + ".\n" * 2 for _ in range(9)))
    assert find_files(odd / "*.txt") == [f"{odd}/a [1].txt", f"{odd}/b*.txt"]
    run("vocab", *odd.glob("*.txt"), "--size", 60, "--output", odd / "vocab [1].txt")
    run("examples", odd / "a [1].txt", odd / "b*.txt", "--vocab", odd / "vocab [1].txt", "--output", odd / "examples",
        "--seq-length", 16, "--workers", 1)  # fmt: skip
    assert find_records(f"{odd}/examples/*.tfrecord") == [f"{odd}/examples/examples-00000.tfrecord"]
    bert = keras_bert.Bert(small.CONFIG, keras_bert.Preprocessor(small.VOCABULARY, seq_length=16))
    bert.save(odd / "source.keras")
    run("pretrain", "--data", odd / "examples", "--output", odd / "run", "--from", odd / "source.keras", "--steps", 2,
        "--batch-size", 4, "--recipe", "tiny-laptop", "--strategy", "one")  # fmt: skip
    assert "masked" in run("evaluate", odd / "run", "--data", odd / "examples")


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_fine_tuning(odd):
    files = [runs.write(odd / name, [["text", "label"], *runs.reviews(32, 0)]) for name in ("[t].tsv", "v#.tsv")]
    vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *runs.WORDS])
    config = dataclasses.replace(small.CONFIG, vocab_size=len(vocabulary), max_position_embeddings=32)
    keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary)).save(odd / "bert.keras")
    runs.train(odd / "bert.keras", "classify", *files, odd / "film", "--epochs", 1)
    assert "accuracy" in run("evaluate", odd / "film", "--data", files[1])
    run("predict", odd / "film", files[1])
    assert sorted(path.name for path in odd.iterdir()) == ["[t].tsv", "bert.keras", "film", "v#.tsv"]


@pytest.mark.parametrize("format", ["hf", "google", "keras-hub"])
def test_convert_and_load(odd, format):
    source = keras_bert.load(_saved(odd / "source [a]"))
    folder = odd / "converted [b]"
    run("convert", odd / "source [a]", folder, "--to", format)
    loaded = keras_bert.load(folder)
    for ours, theirs in zip(source.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.preprocessor.vocabulary == small.VOCABULARY


def _saved(folder):
    our_folder.write_checkpoint(small.checkpoint(), folder)
    return folder


def test_names_of_zips_and_checkpoints(odd):
    run("convert", _saved(odd / "source"), odd / "google", "--to", "google")
    archive = shutil.make_archive(str(odd / "zip [3]"), "zip", odd / "google")
    assert keras_bert.load(archive, cache_dir=odd / "cache").config == small.CONFIG
    for file in sorted((odd / "google").glob("bert_model.ckpt*")):
        file.rename(file.with_name(file.name.replace("bert_model", "bert [2]")))
    assert keras_bert.load(odd / "google" / "bert [2].ckpt").config == small.CONFIG


@pytest.mark.long
def test_vectors_and_onnx(odd):
    runtime = pytest.importorskip("onnxruntime")
    source, texts = _saved(odd / "source [a]"), odd / "[t]*.txt"
    texts.write_text("w1 w2\nw3\nw4 w5\n")
    outputs = {"--output": odd / "v [1].npy", "--plot": odd / "m*?.png", "--projector": odd / "p [1]"}
    run("embed", texts, "--model", source, *(one for pair in outputs.items() for one in pair))
    vectors = keras_bert.load(source).embed(["w1 w2", "w3", "w4 w5"])
    np.testing.assert_allclose(np.load(outputs["--output"]), vectors, atol=1e-5)
    assert [path.is_file() for path in outputs.values()] == [True, True, False]
    assert {path.name for path in outputs["--projector"].iterdir()} >= {"vectors.tsv", "metadata.tsv"}
    for _ in range(2):  # the second time it reads the vectors
        hits = run("search", texts, "--query", "w3", "--top", 1, "--model", source, "--vectors", odd / "s#[1].npy")
        assert hits.endswith("\t1\tw3\n")
    run("export", source, "--name", "bert", "--output", odd / "e [1]", "--format", "onnx")
    assert runtime.InferenceSession(odd / "e [1]" / "bert" / "onnx" / "1" / "model.onnx").get_inputs()


@pytest.mark.long
def test_export_load_and_serve(odd, monkeypatch):
    bert = keras_bert.load(_saved(odd / "source"), seq_length=8)
    export = odd / "e [1]"
    keras_bert.export(bert, export)
    loaded = keras_bert.load(export)
    for ours, theirs in zip(bert.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    signature = find_models(export)["e [1]"][1].signatures["serving_default"]
    vectors = signature(text=tf.constant(["w1 w2"]))["embedding"]
    np.testing.assert_allclose(vectors, bert.embed(["w1 w2"]), atol=1e-5)
    assert run("verify", export).count("complete and unchanged") == 3
    monkeypatch.setattr("keras_bert.serving.connections.server", lambda start: SimpleNamespace(run=lambda sockets: 0))
    assert "/v1/models/e%20%5B1%5D\tversions 1" in run("serve", export, "--port", 0)


def test_paths_without_patterns_stay_as_they_are(tmp_path):
    assert literal_path(tmp_path) == str(tmp_path)
    with pytest.raises(ValueError, match=r"remote path that.*Received: gs://b/run\[1\]"):
        literal_path("gs://b/run[1]")


def test_a_pattern_in_an_odd_folder(odd):
    for name in ("a1", "a2", "b"):
        (odd / name).touch()
    assert matching(f"{odd}/a?") == [f"{odd}/a1", f"{odd}/a2"]
    assert matching(f"{odd}/none/a?") == []
