"""Damaged files that fuzzing found (tests/hostile): one clear error each."""

import json
import zipfile

import h5py
import pytest

import keras_bert
from keras_bert.weights import our_folder, weights_h5
from tests.weights import small


@pytest.fixture
def folder(tmp_path):
    made = small.checkpoint("classifier", num_hidden_layers=1, labels=("bad", "good", "odd"))
    our_folder.write_checkpoint(made, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("value", [[1], "a", 3, {"labels": 3}, {"labels": [1]}, {"labels": None, "multi_label": "yes"}])
def test_heads_of_a_folder(folder, value):
    (folder / "heads.json").write_text(json.dumps({"classifier": value}))
    with pytest.raises(ValueError, match=r"heads.json must have for each head.*Received: "):
        keras_bert.load(folder)


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, OSError])
def test_errors_of_hdf5(folder, monkeypatch, kind):
    """HDF5 reports damage in errors of several kinds."""

    def fail(*_):
        raise kind("Object visitation failed (bad heap free list)")

    monkeypatch.setattr(h5py.Group, "visititems", fail)
    with pytest.raises(ValueError, match=r"model.weights.h5 is damaged.*Received: .*bad heap"):
        weights_h5.stored_weights(folder / "model.weights.h5")


def test_a_keras_file_without_a_config(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as file:
        file.writestr("metadata.json", "{}")
    with pytest.raises(ValueError, match=r"model.keras is damaged.*Received: "):
        keras_bert.load(tmp_path / "model.keras")


@pytest.mark.parametrize("value", [[{}], 3, True, None])
def test_architectures_of_a_hugging_face_folder(tmp_path, value):
    from keras_bert.weights import hugging_face

    hugging_face.write_checkpoint(small.checkpoint("classifier", num_hidden_layers=1), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": value}))
    with pytest.raises(ValueError, match=r"does not say what its head.*Received: architectures="):
        keras_bert.load(tmp_path / "model")
