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
    with serving(models, NAME) as post:
        status, answer = post({"instances": TEXTS})
    assert status == 200
    for number, row in enumerate(answer["predictions"]):
        wanted = {name: array[number] for name, array in expected(TEXTS).items()}
        assert set(row) == set(wanted)
        assert row["truncated"] == wanted["truncated"]
        assert row["label"] == wanted["label"].decode()
        assert np.abs(row["scores"] - wanted["scores"]).max() <= tolerance


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
