"""The text SavedModel of a Pretrainer against its own `fill_mask` and `is_next`."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.serving.served_version import ServedVersion, find_models
from tests.exports.conftest import SEQ_LENGTH, make
from tests.parity.oracles import randomize
from tests.serving.by_onnx import check_equal, same_process  # noqa: F401 - a fixture

TEXTS = ["w1 [MASK] w3", "[MASK]", "no mask", "", "  É[MASK], w2 [MASK] 좋아요 [MASK]"]
FIRST, SECOND = ["w1 w2", "", "w5 " * 9], ["w3", "w4", "w6 " * 9]


@pytest.fixture(scope="module")
def pretrainer():
    return randomize(keras_bert.Pretrainer(make(num_hidden_layers=1)))


@pytest.fixture(scope="module")
def folder(pretrainer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrainer") / "words"
    keras_bert.export(pretrainer, folder)
    return folder


@pytest.fixture(scope="module")
def served(folder):
    return ServedVersion(folder / "text" / "1")


def test_fill_mask(served, pretrainer):
    found = {name: x.numpy() for name, x in served.signatures["fill_mask"](text=tf.constant(TEXTS)).items()}
    assert found["count"].tolist() == [text.count("[MASK]") for text in TEXTS]
    assert not found["truncated"].any()
    masked = [row for row, text in enumerate(TEXTS) if "[MASK]" in text]
    for row, fillings in zip(masked, pretrainer.fill_mask([TEXTS[row] for row in masked], top_k=10), strict=True):
        for mask, best in enumerate(fillings):
            assert found["id"][row, mask].tolist() == [one.id for one in best]
            assert [token.decode() for token in found["token"][row, mask]] == [one.token for one in best]
            assert np.abs(found["score"][row, mask] - [one.score for one in best]).max() <= 1e-6
            start, end = found["start"][row, mask], found["end"][row, mask]
            assert TEXTS[row][start:end] == "[MASK]"
            assert TEXTS[row][:start].count("[MASK]") == mask


def test_masks_beyond_the_end(served):
    text = "w1 " * (SEQ_LENGTH - 3) + "[MASK] [MASK]"
    found = served.signatures["fill_mask"](text=tf.constant([text, "[MASK]"]))
    assert found["count"].numpy().tolist() == [1, 1]
    assert found["truncated"].numpy().tolist() == [True, False]


def test_more_masks_than_a_batch_of_the_head(served, pretrainer):
    texts = ["[MASK] " * (SEQ_LENGTH - 2)] * 7
    found = served.signatures["fill_mask"](text=tf.constant(texts))["score"].numpy()
    expected = [[one.score for one in best] for best in pretrainer.fill_mask(texts[0], top_k=10)]
    assert np.abs(found - np.array(expected)).max() <= 1e-6


@pytest.mark.parametrize("position", [-1, 3])
def test_positions_of_other_rows(folder, pretrainer, position):
    """They would be those of another row, perhaps of another client."""
    ids = {name: tf.constant([[2, 5, 3], [2, 6, 3]]) * 0 + 1 for name in ("input_mask", "input_type_ids")}
    inputs = {**ids, "input_word_ids": tf.constant([[2, 5, 3], [2, 6, 3]])}
    mlm = ServedVersion(folder / "encoder" / "1").signatures["mlm"]
    found = mlm(**inputs, masked_lm_positions=tf.constant([[1], [2]]))["mlm_logits"]
    expected = pretrainer({**inputs, "masked_lm_positions": tf.constant([[1], [2]])})["mlm_logits"]
    assert np.abs(found - expected).max() <= 1e-5
    with pytest.raises(tf.errors.InvalidArgumentError, match="`masked_lm_positions` must be from 0"):
        mlm(**inputs, masked_lm_positions=tf.constant([[1], [position]]))


def test_without_masks(served):
    for texts in ([], ["w1"]):
        found = served.signatures["fill_mask"](text=tf.constant(texts, tf.string))
        assert found["score"].shape == (len(texts), 0, 10)


def test_is_next(served, pretrainer):
    found = served.signatures["is_next"](text=tf.constant(FIRST), text_pair=tf.constant(SECOND))
    expected = pretrainer.is_next(FIRST[:2], SECOND[:2])
    assert found["is_next"].numpy().tolist()[:2] == [one.is_next for one in expected]
    assert np.abs(found["score"][:2] - [one.score for one in expected]).max() <= 1e-6
    assert found["truncated"].numpy().tolist() == [False, False, True]


def test_pieces_take_the_mask_as_one(folder):
    pieces = ServedVersion(folder / "preprocess" / "1").signatures["pieces"]
    assert pieces(text=tf.constant(["w1 [MASK]"]))["piece"].numpy().tolist() == [[b"w1", b"[MASK]"]]


def test_loads_again(folder, pretrainer):
    """From the export, with both heads; and its text, which has the heads beside the encoder, as the encoder."""
    again = keras_bert.Pretrainer.load(folder)
    np.testing.assert_array_equal(again.get_weights()[-1], pretrainer.get_weights()[-1])
    assert again.nsp
    bert = keras_bert.load(folder / "text" / "1")
    np.testing.assert_array_equal(bert.word_embeddings.embeddings, pretrainer.bert.word_embeddings.embeddings)


def test_without_a_head_for_next_sentences(tmp_path):
    from keras_bert.exports.text_part import vectors_of_texts

    pretrainer = keras_bert.Pretrainer(make(num_hidden_layers=1), nsp=False)
    pretrainer.bert.preprocessor.vocabulary.save(tmp_path / "vocab.txt")
    _, signatures = vectors_of_texts(pretrainer, SEQ_LENGTH, tmp_path / "vocab.txt")
    assert set(signatures) == {"serving_default", "pair", "fill_mask"}


@pytest.mark.usefixtures("same_process")
def test_onnx_runtime(folder, served):
    """The heads are graphs of their own."""
    pytest.importorskip("onnxruntime", reason="pip install 'keras3-bert[onnxruntime]'")
    found = find_models(folder, onnx=True)["words"][1]
    assert {"fill_mask", "is_next"} < set(found.signatures)
    check_equal(found, served, [text.encode() for text in TEXTS])
