"""`serve --engine onnxruntime`: the same answers over REST, by another engine."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert.exports.manifest import MANIFEST
from keras_bert.storage import write_json
from keras_bert_cli import app
from tests.serving.exported import NAME, TEXTS
from tests.serving.in_process import serving
from tests.tasks.small import small_bert

pytest.importorskip("onnxruntime", reason="pip install 'keras3-bert[onnxruntime]'")


@pytest.fixture
def same_process(monkeypatch):
    """What another process writes for the server is written by this one."""
    from keras_bert.serving import onnx_files, onnx_signatures

    def write(folder, output, int8):
        onnx_files.write(folder, Path(output), int8=int8)

    monkeypatch.setattr(onnx_signatures, "run_writer", write)


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


def columns_of(signature, rows):
    """Columns of other texts for each input."""
    names = signature.structured_input_signature[1]
    return {name: np.roll(np.array(rows, object), number) for number, name in enumerate(names)}


def check_equal(found, expected, rows):
    """The signatures of one version against those of another."""
    for name, signature in found.signatures.items():
        if name.startswith("classify"):
            continue
        columns = columns_of(signature, rows)
        answers, wanted = (one.batchers[name]._run(dict(columns)) for one in (found, expected))
        assert list(answers) == list(wanted)
        for key, values in wanted.items():
            assert (answers[key].dtype, answers[key].shape) == (values.dtype, values.shape), (name, key)
            if values.dtype == "float32":
                assert np.abs(answers[key] - values).max() <= 1e-5, (name, key)
            else:
                assert answers[key].tolist() == values.tolist(), (name, key)


@pytest.mark.usefixtures("same_process")
def test_signatures_of_the_savedmodel(kit):
    from keras_bert.serving.served_version import ServedVersion, find_models

    rows = [text.encode() for text in TEXTS] + [b"w1 \xff\xe2\x82 w2", "É\u0301 좋아요 🙂w1".encode()]
    for versions in find_models(kit, onnx=True).values():
        found = versions[1]
        expected = ServedVersion(kit / found.part / "1")
        described = expected.metadata()["signature_def"]["signature_def"]
        described.pop("logits", None)
        assert found.metadata()["signature_def"]["signature_def"] == described
        check_equal(found, expected, rows)


@pytest.mark.usefixtures("same_process")
def test_heads(tmp_path):
    """Those of a Pretrainer, which are graphs of their own."""
    from keras_bert.serving.served_version import ServedVersion, find_models

    keras_bert.export(keras_bert.Pretrainer(small_bert()), tmp_path / "words")
    found = find_models(tmp_path / "words", onnx=True)["words"][1]
    assert {"fill_mask", "is_next"} < set(found.signatures)
    check_equal(found, ServedVersion(tmp_path / "words" / "text" / "1"), [b"a [MASK] film [MASK]", b"", b"good"])


def test_a_type_needs_the_engine(kit):
    with pytest.raises(ValueError, match=r"Add --engine onnxruntime.*Received: --dtype int8"):
        CliRunner().invoke(app, ["serve", str(kit), "--dtype", "int8"], catch_exceptions=False)


@pytest.mark.usefixtures("same_process")
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


def test_the_error_of_the_other_process(tmp_path):
    from keras_bert.serving.onnx_signatures import OnnxExport

    (tmp_path / MANIFEST).parent.mkdir()
    write_json(tmp_path / MANIFEST, {"dtype": "int8"})
    with pytest.raises(ValueError, match=r"was exported in int8.*Received: dtype int8$"):
        OnnxExport(tmp_path, int8=True)
