"""`serve --engine onnxruntime`: the same answers over REST, by another engine."""

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


@pytest.mark.network
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


def test_signatures_of_the_savedmodel(kit):
    from keras_bert.serving.served_version import OnnxVersion, ServedVersion

    expected, found = ServedVersion(kit / "text" / "1"), OnnxVersion(kit / "text" / "1", int8=False)
    described = expected.metadata()["signature_def"]["signature_def"]
    del described["logits"]
    assert found.metadata()["signature_def"]["signature_def"] == described
    columns = {"text": np.array([text.encode() for text in TEXTS], object)}
    for name in ("serving_default", "pair"):
        answers, others = (one.batchers[name]._run(dict(columns)) for one in (expected, found))
        assert {key: (x.dtype, x.shape) for key, x in answers.items()} == {
            key: (x.dtype, x.shape) for key, x in others.items()
        }
        columns["text_pair"] = columns["text"][::-1]


def test_heads(tmp_path):
    """Those of a Pretrainer, which are graphs of their own."""
    import tensorflow as tf

    from keras_bert.serving.served_version import OnnxVersion

    keras_bert.export(keras_bert.Pretrainer(small_bert()), tmp_path / "words")
    folder = tmp_path / "words" / "text" / "1"
    found, expected = OnnxVersion(folder, int8=False).signatures, tf.saved_model.load(str(folder)).signatures
    for name, columns in {"fill_mask": [["a [MASK] film [MASK]", ""]], "is_next": [["film"], ["good"]]}.items():
        columns = dict(zip(("text", "text_pair"), (np.array(one, object) for one in columns), strict=False))
        columns = {key: np.array([text.encode() for text in column], object) for key, column in columns.items()}
        answers = found[name](**columns)
        for key, tensor in expected[name](**{key: tf.constant(column) for key, column in columns.items()}).items():
            if tensor.dtype == tf.float32:
                assert np.abs(answers[key] - tensor.numpy()).max() <= 1e-5
            else:
                assert answers[key].tolist() == tensor.numpy().tolist()


def test_a_type_needs_the_engine(kit):
    with pytest.raises(ValueError, match=r"Add --engine onnxruntime.*Received: --dtype int8"):
        CliRunner().invoke(app, ["serve", str(kit), "--dtype", "int8"], catch_exceptions=False)


def test_exports_that_only_tensorflow_serves(tmp_path):
    from keras_bert.serving.served_version import OnnxVersion

    (tmp_path / MANIFEST).parent.mkdir()
    write_json(tmp_path / MANIFEST, {"dtype": "int8"})
    with pytest.raises(ValueError, match=r"was exported in int8.*Export again without --dtype"):
        OnnxVersion(tmp_path, int8=True)
    bert = small_bert()
    keras_bert.export(keras_bert.TextClassifier(bert, labels=("a", "b"), long="windows"), tmp_path / "windows")
    with pytest.raises(ValueError, match=r"which only TensorFlow serves. Leave --engine out"):
        OnnxVersion(tmp_path / "windows" / "text" / "1", int8=False)
