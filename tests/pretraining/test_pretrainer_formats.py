"""Pretrainer saved, and loaded from every format with its heads."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.weights import google, hugging_face, our_folder
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import read
from tests.parity.oracles import array
from tests.pretraining.small_pretrainers import WEIGHTS, X, Y, only, small_pretrainer
from tests.weights import small

pytestmark = pytest.mark.usefixtures("eager")


def _assert_same(one, other):
    ours, theirs = one(X), other(X)
    assert set(ours) == set(theirs)
    for name, logits in ours.items():
        assert (array(logits) == array(theirs[name])).all()
    assert other.bert.preprocessor.vocabulary == small.VOCABULARY


@pytest.mark.parametrize("nsp", [True, False])
def test_keras_file(tmp_path, nsp):
    pretrainer = small_pretrainer(layers=2, nsp=nsp)
    pretrainer.bert.freeze(1)
    pretrainer.get_layer("mlm_dense").trainable = False
    pretrainer.compile()
    pretrainer.train_on_batch(X, *(only((Y, WEIGHTS), *pretrainer.output)))
    pretrainer.save(tmp_path / "model.keras")
    for loaded in (keras.models.load_model(tmp_path / "model.keras"), Pretrainer.load(tmp_path / "model.keras")):
        _assert_same(pretrainer, loaded)
        trainable = [weight.path for weight in pretrainer.trainable_weights]
        assert [weight.path for weight in loaded.trainable_weights] == trainable
        pooler, saved = (x.bert.get_layer("pooler").kernel for x in (loaded, pretrainer))
        assert (array(pooler) == array(saved)).all()  # not used for masked words, but kept
        assert isinstance(loaded.optimizer, type(pretrainer.optimizer))
    mixed = Pretrainer.load(tmp_path, dtype="mixed_bfloat16", seq_length=8)
    assert mixed.bert.dtype_policy.name == "mixed_bfloat16"
    assert mixed.bert.preprocessor.seq_length == 8
    for weight, saved in zip(mixed.weights, pretrainer.weights, strict=True):
        assert (array(weight) == array(saved)).all()


@pytest.mark.parametrize("form", [our_folder, hugging_face, google])
def test_formats(tmp_path, form):
    if form is google and keras.backend.backend() != "tensorflow":
        pytest.skip("Google's checkpoints are read with TensorFlow")
    pretrainer = small_pretrainer()
    form.write_checkpoint(Checkpoint.of(pretrainer), tmp_path / "model")
    loaded = Pretrainer.load(tmp_path / "model")
    assert loaded.nsp
    _assert_same(pretrainer, loaded)
    assert not Pretrainer.load(tmp_path / "model", nsp=False).nsp


def test_a_head_is_dropped_and_the_rest_stays(tmp_path):
    pretrainer = small_pretrainer()
    pretrainer.bert.preprocessor.seq_length = 9
    pretrainer.save(tmp_path / "model.keras")
    loaded = Pretrainer.load(tmp_path / "model.keras", nsp=False)
    assert (loaded.nsp, loaded.bert.preprocessor.seq_length) == (False, 9)
    expected = Checkpoint.of(pretrainer)
    small.assert_equal_arrays(expected.heads["mlm"].weights, Checkpoint.of(loaded).heads["mlm"].weights)
    small.assert_equal_arrays(expected.weights, Checkpoint.of(loaded).weights)


def test_keras_file_as_a_checkpoint(tmp_path):
    pretrainer = small_pretrainer()
    pretrainer.save(tmp_path / "model.keras")
    small.assert_same(Checkpoint.of(pretrainer), read(tmp_path / "model.keras"))
    folder = tmp_path / "folder"
    folder.mkdir()
    pretrainer.bert.config.to_json(folder / "bert_config.json")
    small.VOCABULARY.save(folder / "vocab.txt")
    pretrainer.save_weights(folder / our_folder.WEIGHTS)
    small.assert_equal_arrays(read(folder).heads["mlm"].weights, Checkpoint.of(pretrainer).heads["mlm"].weights)


def test_a_source_without_the_head(tmp_path):
    hugging_face.write_checkpoint(small.checkpoint("classifier"), tmp_path / "classifier")
    with pytest.raises(ValueError, match=r"has no head 'mlm'\. That head guesses masked words.*the heads classifier"):
        Pretrainer.load(tmp_path / "classifier")
    Bert(small.CONFIG).save(tmp_path / "bert.keras")
    with pytest.raises(ValueError, match=r"has no head 'mlm'\. That head guesses masked words.*no head"):
        Pretrainer.load(tmp_path / "bert.keras")


def test_a_model_of_masked_words_gets_a_head_for_next_sentences(tmp_path):
    made = small.checkpoint("mlm")
    hugging_face.write_checkpoint(made, tmp_path / "model")
    assert not Pretrainer.load(tmp_path / "model").nsp
    loaded = Pretrainer.load(tmp_path / "model", nsp=True)
    small.assert_equal_arrays(made.heads["mlm"].weights, Checkpoint.of(loaded).heads["mlm"].weights)
    assert array(loaded.get_layer("nsp").kernel).any()


def test_a_head_with_another_activation_than_its_encoder():
    """As in KerasHub: the erf form of GELU in the head, the tanh form in the encoder."""
    other = dataclasses.replace(small.CONFIG, hidden_act="gelu_erf", layer_norm_eps=1e-5)
    pretrainer = small_pretrainer(mlm_config=other)
    checkpoint = Checkpoint.of(pretrainer)
    assert checkpoint.heads["mlm"].config == other
    expected = small.outputs(checkpoint)
    assert np.abs(array(pretrainer(X)["mlm_logits"]) - expected["mlm"]).max() <= 1e-6
    again = Pretrainer.from_config(pretrainer.get_config())
    assert again.mlm_config == other
