"""Damaged files that fuzzing found (tests/hostile): one clear error each."""

import json
import re
import zipfile

import h5py
import numpy as np
import pytest

import keras_bert
from keras_bert.weights import our_folder, weights_h5
from keras_bert.weights.load import build
from tests.weights import small


@pytest.fixture
def folder(tmp_path):
    made = small.checkpoint("classifier", num_hidden_layers=1, labels=("bad", "good", "odd"))
    our_folder.write_checkpoint(made, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("value", [[1], "a", 3, {"labels": 3}, {"labels": [1]}, {"labels": None, "multi_label": "yes"}])
def test_heads_of_a_folder(folder, value):
    (folder / "heads.json").write_text(json.dumps({"classifier": value}))
    with pytest.raises(ValueError, match=r"heads.json must hold an object for each head.*Received: "):
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


def _config(**changes):
    def change(members):
        whole = json.loads(members["config.json"])
        whole["config"] |= changes
        members["config.json"] = json.dumps(whole)

    return change


def _member(name, edited):
    return lambda members: members.update({name: edited(members[name])})


def _with_huge_vocabulary(config):
    return re.sub(rb'("vocab_size": )\d+', rb"\g<1>10000000", config)


@pytest.mark.parametrize(
    ("edit", "received"),
    [
        (_member("model.weights.h5", lambda data: data[:5000]), "Unable to synchronously open file .truncated"),
        (_member("model.weights.h5", lambda data: b"PK\3\4" + data), ".*file signature not found"),
        (lambda members: members.pop("model.weights.h5"), "Expected a model.weights.h5"),
        (_member("config.json", lambda data: b"\xff\x00"), "Expecting value"),
        (_member("config.json", lambda data: b"[]"), r"Expected .*KerasSaveable.*\[\]"),
        (_member("config.json", lambda data: json.dumps(json.loads(data) | {"config": None})), "no 'changed_layers'"),
        (_config(labels=["a", "b", "c"]), r"<Dense name=classifier.*value.shape=\(8, 2\)"),
        (_config(labels=["a", "a"]), "`labels` must be different names"),
        (_config(labels=5), "`labels` must be names.*labels=5"),
        (_member("config.json", _with_huge_vocabulary), "a config of 80000"),
        (_config(changed_layers=5), "'int' object has no attribute 'items'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Skipping nested container")  # of Keras, about another number of labels
def test_the_insides_of_a_keras_file(tmp_path, edit, received):
    """One line that names the file, with Keras's reason in short."""
    path = tmp_path / "model.keras"
    keras_bert.TextClassifier(build(small.checkpoint(num_hidden_layers=1)), ["a", "b"]).save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    edit(members)
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    message = rf"model\.keras is damaged or incomplete\. Save or download it again\. Received: {received}"
    with pytest.raises(ValueError, match=message) as raised:
        keras_bert.load(path)
    assert "\n" not in str(raised.value)
    assert str(raised.value).count("Received: ") == 1


@pytest.mark.parametrize("value", [[{}], 3, True, None])
def test_architectures_of_a_hugging_face_folder(tmp_path, value):
    from keras_bert.weights import hugging_face

    hugging_face.write_checkpoint(small.checkpoint("classifier", num_hidden_layers=1), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": value}))
    with pytest.raises(ValueError, match=r"does not say what its head.*Received: architectures="):
        keras_bert.load(tmp_path / "model")


def test_a_keras_file_that_unpacks_to_far_more(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.keras", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("config.json", b" " * (65 << 20))
        file.writestr("model.weights.h5", b"")
    with pytest.raises(ValueError, match=r"model.keras is damaged.*unpacks to 68157440 bytes"):
        keras_bert.load(tmp_path / "model.keras")


def test_compressed_weights_in_a_keras_file(tmp_path):
    """Keras would unpack them."""
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("optimizer/vars/0", data=np.zeros(18 << 20, "f4"), compression="gzip")
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as file:
        file.writestr("config.json", b"{}")
        file.write(tmp_path / "bomb.h5", "model.weights.h5")
    with pytest.raises(ValueError, match=r"model.keras is damaged.*unpacks to 75497472 bytes"):
        keras_bert.load(tmp_path / "model.keras")


def test_a_dataset_without_its_numbers(folder):
    """HDF5 reads as many zeros as its shape says."""
    with h5py.File(folder / "model.weights.h5", "a") as file:
        del file["layers/position_embedding/vars"]["0"]
        file["layers/position_embedding/vars"].create_dataset("0", shape=(10**9, 8), dtype="f4")
    with pytest.raises(
        ValueError, match=r"position_embedding/vars/0 without its numbers.*Received: a dataset of 8000000000"
    ):
        keras_bert.load(folder)
