"""`keras-bert export --format onnx` and `litert`: folders for other runtimes, which return what the model returns."""

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert.exports import runtime_folder
from keras_bert.exports.runtime_folder import write_runtime_folder
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.text.vocabulary import Vocabulary
from keras_bert_cli import app
from tests.onnx_graph.test_convert import batch, expected
from tests.parity.oracles import randomize
from tests.tasks.small import KINDS, VOCABULARY, small_bert, small_task


def same(found, ours, tolerance=1e-5):
    assert set(found) == set(ours)
    for name, x in ours.items():
        np.testing.assert_allclose(found[name], x, atol=tolerance, err_msg=name)


def litert(folder, inputs, names):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    found = interpreter.Interpreter(str(folder / "model.tflite")).get_signature_runner()(**inputs)
    return found if set(found) == set(names) else dict(zip(names, found.values(), strict=True))


@pytest.mark.parametrize(
    "kind", ["classifier", *(pytest.param(kind, marks=pytest.mark.long) for kind in (*KINDS[1:], "pretrainer"))]
)
def test_litert(kind, tmp_path):
    bert = small_bert(hidden_size=32, intermediate_size=64)  # smaller weights stay float32
    model = randomize(Pretrainer(bert)) if kind == "pretrainer" else small_task(kind, bert)
    inputs, ours = batch(model), expected(model, batch(model))
    same(litert(write_runtime_folder(model, tmp_path, "litert"), inputs, list(ours)), ours)


@pytest.mark.long
def test_litert_int8(tmp_path):
    model = small_task("tagger", small_bert(hidden_size=32, intermediate_size=64))
    plain, small = (
        write_runtime_folder(model, tmp_path, "litert", version=version, dtype=dtype)
        for version, dtype in enumerate((None, "int8"), 1)
    )
    inputs, ours = batch(model), expected(model, batch(model))
    same(litert(small, inputs, list(ours)), ours, tolerance=0.02 * np.abs(ours["output"]).max())
    assert (small / "model.tflite").stat().st_size < 0.8 * (plain / "model.tflite").stat().st_size


def test_onnx_from_the_command_line(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    task = small_task("answerer")
    task.save(tmp_path / "task.keras")
    words = ["export", str(tmp_path / "task.keras"), "--name", "qa", "--format", "onnx", "--output", str(tmp_path)]
    folder = tmp_path / "qa" / "onnx" / "1"
    (folder.with_name(".partial-1") / "assets.extra").mkdir(parents=True)  # of a killed export
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.output == f"{folder}\tQuestionAnswerer\tversion 1\n"
    assert Vocabulary.from_file(folder / "vocab.txt").tokens == VOCABULARY.tokens
    assert (folder / "assets.extra" / "task.json").is_file()
    session = runtime.InferenceSession(folder / "model.onnx")
    inputs = batch(task)
    same({"output": session.run(["output"], inputs)[0]}, expected(task, inputs))
    with pytest.raises(FileExistsError, match="Version 1 of this export exists"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    before = (folder / "model.onnx").stat().st_size
    CliRunner().invoke(app, [*words, "--overwrite", "--dtype", "int8"], catch_exceptions=False)
    assert (folder / "model.onnx").stat().st_size != before
    assert [path.name for path in folder.parent.iterdir()] == ["1"]


@pytest.mark.parametrize("place", [".", "onnx", "onnx/1", "onnx/1/model.onnx"])
def test_read_by_nothing_but_its_runtime(place, tmp_path):
    pytest.importorskip("onnx")
    path = write_runtime_folder(small_task("classifier"), tmp_path, "onnx").parents[1] / place
    for read in (keras_bert.load, TextClassifier.load, keras_bert.Task.load, FinishedTask.load):
        with pytest.raises(ValueError, match=r"is an ONNX model, which .* does not read.*Received: model\.onnx"):
            read(path)


def test_refused(tmp_path):
    task = small_task("classifier")
    with pytest.raises(ValueError, match="must be float32 or int8"):
        write_runtime_folder(task, tmp_path, "onnx", dtype="bfloat16")
    task.save(tmp_path / "task.keras")
    words = ["export", str(tmp_path / "task.keras"), "--name", "a", "--format", "onnx", "--seq-length", "8"]
    with pytest.raises(ValueError, match="Only --format savedmodel"):
        CliRunner().invoke(app, words, catch_exceptions=False)


def test_a_version_is_replaced_at_once_or_not_at_all(tmp_path, monkeypatch):
    task = small_task("classifier")
    folder = write_runtime_folder(task, tmp_path, "onnx")
    before = (folder / "model.onnx").read_bytes()
    with pytest.raises(FileExistsError, match="Version 1"):
        write_runtime_folder(task, tmp_path, "onnx")

    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(runtime_folder, "_write_onnx", fail)
        with pytest.raises(OSError, match="No space left"):
            write_runtime_folder(task, tmp_path, "onnx", overwrite=True)
    assert [path.name for path in folder.parent.iterdir()] == ["1"]
    assert (folder / "model.onnx").read_bytes() == before
    write_runtime_folder(randomize(task, 1), tmp_path, "onnx", overwrite=True)
    assert [path.name for path in folder.parent.iterdir()] == ["1"]
    assert (folder / "model.onnx").read_bytes() != before


@pytest.mark.parametrize("version", [0, -1, True, "a"])
def test_versions_are_numbers(tmp_path, version):
    with pytest.raises(ValueError, match="`version` must be a whole number"):
        write_runtime_folder(small_task("classifier"), tmp_path, "onnx", version=version)
    assert not list(tmp_path.iterdir())
