"""Files that keras-bert 0.89, bert4keras and bert-for-tf2 wrote, with the outputs that they computed."""

import numpy as np
import pytest
import zipfile
from pathlib import Path

from keras_bert.weights.load import read
from tests.weights import small

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "old"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The files of a fixture and the outputs that its package computed."""
    found = {}

    def unpack(name):
        if name not in found:
            folder = tmp_path_factory.mktemp(name)
            zipfile.ZipFile(FOLDER / f"{name}.zip").extractall(folder)
            found[name] = folder, np.load(folder / "outputs.npz")
        return found[name]

    return unpack


def _softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def _ours(checkpoint, theirs):
    """What our model computes for the ids of the fixture, with every position as a masked one."""
    ids = theirs["ids"].astype("int32")
    inputs = {"input_word_ids": ids, "input_mask": (ids > 0).astype("int32"), "input_type_ids": theirs["types"]}
    inputs["input_type_ids"] = inputs["input_type_ids"].astype("int32")
    positions = np.tile(np.arange(ids.shape[1], dtype="int32"), (len(ids), 1))
    return small.outputs(checkpoint, inputs, positions), inputs["input_mask"]


@pytest.mark.parametrize("name", ["keras_bert_0_89", "bert4keras_0_11_5", "bert4keras_tf_keras"])
def test_pretrainer(unpacked, name):
    folder, theirs = unpacked(name)
    checkpoint = read(folder / "pretrainer")
    ours, mask = _ours(checkpoint, theirs)
    assert set(checkpoint.heads) == {"mlm", "nsp"}
    assert len(checkpoint.vocabulary) == 24
    assert small.close(_softmax(ours["mlm"]), theirs["mlm"], mask) <= 1e-5
    assert small.close(_softmax(ours["nsp"]), theirs["nsp"]) <= 1e-5
    assert not checkpoint.left_out


@pytest.mark.parametrize("name", ["keras_bert_0_89", "bert4keras_0_11_5", "bert4keras_tf_keras"])
def test_weights_of_the_encoder(unpacked, name):
    folder, theirs = unpacked(name)
    checkpoint = read(folder / "encoder")
    ours, mask = _ours(checkpoint, theirs)
    assert small.close(ours["sequence_output"], theirs["sequence"], mask) <= 1e-5
    assert "pooler" in checkpoint.left_out


@pytest.mark.parametrize("head", ["classifier", "tagger"])
@pytest.mark.parametrize("name", ["keras_bert_0_89", "bert4keras_0_11_5"])
def test_a_head_of_the_users_own(unpacked, name, head):
    """Whose model.save has the number of attention heads too."""
    folder, theirs = unpacked(name)
    checkpoint = read(folder / f"{head}.h5")
    ours, mask = _ours(checkpoint, theirs)
    assert set(checkpoint.heads) == {head}
    if head == "classifier":
        assert small.close(_softmax(ours[head]), theirs[head]) <= 1e-5
    else:
        assert small.close(ours[head], theirs[head], mask) <= 1e-5
