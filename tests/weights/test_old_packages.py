"""Files that keras-bert 0.89, bert4keras and bert-for-tf2 wrote, with the outputs that they computed."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import keras_bert
from keras_bert.weights import weights_h5
from keras_bert.weights.load import read
from tests.weights import small
from tests.weights.old_files import ours, unpacked


def _softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


@pytest.mark.parametrize("name", ["keras_bert_0_89", "bert4keras_0_11_5", "bert4keras_tf_keras"])
def test_pretrainer(opened, name):
    folder, theirs = unpacked(name)
    checkpoint = opened(folder / "pretrainer")
    found, mask = ours(checkpoint, theirs)
    assert set(checkpoint.heads) == {"mlm", "nsp"}
    assert len(checkpoint.vocabulary) == 24
    assert small.close(_softmax(found["mlm"]), theirs["mlm"], mask) <= 1e-5
    assert small.close(_softmax(found["nsp"]), theirs["nsp"]) <= 1e-5
    assert not checkpoint.left_out


@pytest.mark.parametrize("name", ["keras_bert_0_89", "bert4keras_0_11_5", "bert4keras_tf_keras"])
def test_weights_of_the_encoder(opened, name):
    folder, theirs = unpacked(name)
    checkpoint = opened(folder / "encoder")
    found, mask = ours(checkpoint, theirs)
    assert small.close(found["sequence_output"], theirs["sequence"], mask) <= 1e-5
    assert "pooler" in checkpoint.left_out


@pytest.mark.parametrize("head", ["classifier", "tagger"])
@pytest.mark.parametrize("name", ["keras_bert_0_89", "bert4keras_0_11_5"])
def test_a_head_of_the_users_own(opened, name, head):
    """Whose model.save has the number of attention heads too."""
    folder, theirs = unpacked(name)
    checkpoint = opened(folder / f"{head}.h5")
    found, mask = ours(checkpoint, theirs)
    assert set(checkpoint.heads) == {head}
    if head == "classifier":
        assert small.close(_softmax(found[head]), theirs[head]) <= 1e-5
    else:
        assert small.close(found[head], theirs[head], mask) <= 1e-5


@pytest.mark.parametrize(("path", "output"), [("encoder/weights.h5", "sequence_output"), ("tagger.h5", "tagger")])
def test_bert_for_tf2(opened, path, output):
    """Whose attention includes padding, unless mask_zero is set."""
    folder, theirs = unpacked("bert_for_tf2_0_14_9")
    found, mask = ours(opened(folder / path), theirs, padding=False)
    assert small.close(found[output], theirs[output.removesuffix("_output")], mask) <= 1e-5


def test_layers_around_bert_are_listed(converted, caplog):
    """Of a model with layers of the user's own, of which only weights were saved."""
    folder, _ = unpacked("bert_for_tf2_0_14_9")
    checkpoint = read(folder / "encoder" / "classifier.h5")
    listed = {name for name, reason in checkpoint.left_out.items() if reason == "it belongs to a layer around BERT"}
    assert listed == {"dense/kernel [8, 8]", "dense/bias [8]", "dense_1/kernel [8, 2]", "dense_1/bias [2]"}
    assert "dense_1/kernel [8, 2]" in caplog.text
    small.assert_equal_arrays(checkpoint.weights, converted(folder / "encoder" / "classifier.h5").weights)


@pytest.mark.parametrize(
    ("fixture", "file"), [("bert_for_tf2_0_14_9", "encoder/weights.h5"), ("transformers_tf", "MaskedLM/tf_model.h5")]
)
def test_two_encoders_in_one_file_are_refused(fixture, file, tmp_path):
    """Whose arrays have the same names and the same shapes, and other values."""
    folder, _ = unpacked(fixture)
    shutil.copytree((folder / file).parent, tmp_path / "two")
    path = tmp_path / "two" / Path(file).name
    arrays = {f"second/{name.partition('/')[2]}": entry for name, entry in weights_h5.stored_weights(path).items()}
    with h5py.File(path, "a") as both:
        for name, entry in arrays.items():
            both[name] = 3 * entry.read()
    with pytest.raises(ValueError, match=r"two different weights named .* more than one BERT"):
        keras_bert.load(path)


def test_heads_of_one_name_are_left_out(tmp_path):
    """Layers around BERT are not read, so a name that they have twice is no reason to refuse the file."""
    folder, _ = unpacked("bert_for_tf2_0_14_9")
    shutil.copytree(folder / "encoder", tmp_path / "two")
    path = tmp_path / "two" / "weights.h5"
    with h5py.File(path, "a") as file:
        for number, head in enumerate(("intent", "domain", "tone")):
            file[f"{head}/out/kernel:0"] = np.full((4, 2), number, "float32")
    assert any("out/kernel" in name for name in read(path).left_out)
    keras_bert.load(path)
