"""`serve --engine onnxruntime`: the same answers over REST, by another engine."""

import json
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert.exports.new_version import MANIFEST
from keras_bert.storage import write_json
from keras_bert_cli import app
from tests.serving.by_onnx import check_equal, same_process  # noqa: F401 - a fixture
from tests.serving.exported import NAME, TEXTS
from tests.serving.in_process import serving
from tests.subprocesses import python
from tests.tasks.small import small_bert

pytest.importorskip("onnxruntime", reason="pip install 'keras3-bert[onnxruntime]'")


@pytest.mark.network
@pytest.mark.usefixtures("same_process")
@pytest.mark.parametrize(("int8", "tolerance"), [(False, 1e-5), (True, 0.05)])
def test_answers(kit, expected, int8, tolerance):
    pytest.importorskip("uvicorn")
    from keras_bert.serving.served_version import find_models

    models = find_models(kit, onnx=True, int8=int8)
    assert sorted(models) == [NAME, f"{NAME}-preprocess"]
    with serving(models, NAME, max_pieces=100) as post:
        status, answer = post({"instances": TEXTS})
        assert post({"instances": ["w1 " * 99]})[0] == 200  # pieces are counted, not bytes
        assert "Received: 101 pieces" in post({"instances": ["w1 " * 101]})[1]["error"]
        assert "could not be found" in post({"signature_name": "classify", "instances": [""]})[1]["error"]
    assert status == 200
    for number, row in enumerate(answer["predictions"]):
        wanted = {name: array[number] for name, array in expected(TEXTS).items()}
        assert set(row) == set(wanted)
        assert row["truncated"] == wanted["truncated"]
        assert row["label"] == wanted["label"].decode()
        assert np.abs(row["scores"] - wanted["scores"]).max() <= tolerance


@pytest.mark.usefixtures("same_process")
def test_signatures_of_the_savedmodel(kit):
    from keras_bert.serving.served_version import ServedVersion, find_models

    rows = [text.encode() for text in TEXTS] + [b"w1 \xff\xe2\x82 w2", "É\u0301 좋아요 🙂w1".encode()]
    for versions in find_models(kit, onnx=True).values():
        found = versions[1]
        expected = ServedVersion(kit / found.part / "1")
        described = expected.metadata()["signature_def"]["signature_def"]
        for other in ("logits", "attention"):  # which only TensorFlow answers
            described.pop(other, None)
        assert found.metadata()["signature_def"]["signature_def"] == described
        check_equal(found, expected, rows)


class _Slow:
    """A runner that notes which batches it gets, and computes each until it may end."""

    several = True
    inputs = ("rows",)

    def __init__(self) -> None:
        self.given: list[int] = []
        self.began, self.may_end = threading.Event(), threading.Event()

    def on_padded(self, inputs):
        self.given.append(inputs["rows"])
        self.began.set()
        assert self.may_end.wait(20)
        return inputs


def test_two_batches_at_a_time():
    """In int8, the second one runs on half of the cores."""
    from keras_bert.serving.onnx_signatures import _on_rows

    whole, half = _Slow(), _Slow()
    run = _on_rows(whole, half)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, {"rows": 1})
        assert whole.began.wait(20)
        second = pool.submit(run, {"rows": 2})
        assert half.began.wait(20)
        whole.may_end.set()
        assert first.result() == {"rows": 1}
        half.began.clear()
        third = pool.submit(run, {"rows": 3})
        assert half.began.wait(20)
        half.may_end.set()
        assert (second.result(), third.result()) == ({"rows": 2}, {"rows": 3})
    assert run({"rows": 4}) == {"rows": 4}
    assert (whole.given, half.given) == ([1, 4], [2, 3])


@pytest.mark.usefixtures("same_process")
def test_the_threads_of_both_runners(kit, monkeypatch):
    from keras_bert.onnx_graph import onnx_runner
    from keras_bert.serving.onnx_signatures import OnnxExport

    asked = []
    open_session = onnx_runner.open_session
    monkeypatch.setattr(onnx_runner, "open_session", lambda *given: (asked.append(given[1:]), open_session(*given))[1])
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    folder = kit / "text" / "1"
    OnnxExport(folder, int8=True)
    assert asked.count((3,)) == 1
    asked.clear()
    OnnxExport(folder, int8=False)
    assert set(asked) == {(0,)}


def test_one_batch_at_a_time():
    """Without a runner for half of the cores, a batch waits for the one before it."""
    from keras_bert.serving.onnx_signatures import _on_rows

    whole = _Slow()
    run = _on_rows(whole, None)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, {"rows": 1})
        assert whole.began.wait(20)
        whole.began.clear()
        second = pool.submit(run, {"rows": 2})
        assert not whole.began.wait(0.2)
        whole.may_end.set()
        assert (first.result(), second.result()) == ({"rows": 1}, {"rows": 2})
    assert whole.given == [1, 2]


def test_the_process_that_writes_the_files(kit, tmp_path, monkeypatch):
    """It imports nothing from the current folder, and says what went wrong."""
    from keras_bert.serving.onnx_signatures import run_writer

    (tmp_path / "keras.py").write_text("raise SystemExit('a file of the current folder was imported')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"nosuch was not written by keras-bert export"):
        run_writer(kit / "text" / "nosuch", str(tmp_path), int8=False)
    (tmp_path / "error.txt").unlink()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(ValueError, match=r"could not be converted\. .*Received: exit code 1"):
        run_writer(kit / "text" / "1", str(tmp_path), int8=False)


def test_a_type_needs_the_engine(kit):
    with pytest.raises(ValueError, match=r"Add --engine onnxruntime.*Received: --dtype int8"):
        CliRunner().invoke(app, ["serve", str(kit), "--dtype", "int8"], catch_exceptions=False)


@pytest.mark.usefixtures("same_process", "without_preprocess")
def test_exports_that_only_tensorflow_serves(tmp_path):
    from keras_bert.serving.onnx_signatures import OnnxExport

    (tmp_path / MANIFEST).parent.mkdir()
    write_json(tmp_path / MANIFEST, {"dtype": "int8"})
    with pytest.raises(ValueError, match=r"was exported in int8.*Export again without --dtype"):
        OnnxExport(tmp_path, int8=True)
    bert = small_bert()
    keras_bert.export(keras_bert.TextClassifier(bert, labels=("a", "b"), long="windows"), tmp_path / "windows")
    with pytest.raises(ValueError, match=r"which only TensorFlow serves. Leave --engine out"):
        OnnxExport(tmp_path / "windows" / "text" / "1", int8=False)


SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
from keras_bert.serving.served_version import find_models
from keras_bert.serving.onnx_signatures import OnnxExport
models = find_models(Path(sys.argv[1]), onnx=True)
text = next(versions[1] for name, versions in models.items() if versions[1].part == "text")
found = text.batchers["serving_default"]._run({"text": np.array([b"w1 w2"], object)})
try:
    OnnxExport(Path(sys.argv[2]), int8=True)
except ValueError as error:
    print(json.dumps([found["scores"].tolist(), "tensorflow" in sys.modules, str(error)]))
"""


@pytest.mark.long
def test_without_tensorflow(kit, expected, tmp_path):
    """The process of the server; the one that reads the export for it has TensorFlow, and reports errors."""
    (tmp_path / MANIFEST).parent.mkdir()
    write_json(tmp_path / MANIFEST, {"dtype": "int8"})
    scores, has_tensorflow, error = json.loads(python(SCRIPT, str(kit), str(tmp_path), KERAS_BACKEND="numpy"))
    assert np.abs(np.array(scores) - expected(["w1 w2"])["scores"]).max() <= 1e-5
    assert not has_tensorflow
    assert error.endswith("Export again without --dtype, and serve that export with --dtype int8. Received: dtype int8")
