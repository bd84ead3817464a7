"""The preprocessing SavedModel against TF-Hub's contract and Google's tokenizer and packing."""

import numpy as np
import pytest
import tensorflow as tf

from tests.exports.conftest import SEQ_LENGTH
from tests.parity import google_packing, google_tokenizer
from tests.weights.small import VOCABULARY

TEXTS = ["w1 w2 É", "", "W3, w4!", " ".join(f"w{i}" for i in range(16))]
PAIRS = ["w5", "w6 w7", "", " ".join(f"w{i}" for i in reversed(range(16)))]


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported / "preprocess" / "1"))


def _google(text):
    switches = {"lowercase": True, "strip_accents": False, "split_cjk": True}
    words = google_tokenizer.tokenize(text, set(VOCABULARY.tokens), **switches)
    return [VOCABULARY[piece] for word in words for piece, _, _ in word]


def _expected(texts, pairs, seq_length):
    rows = []
    for text, pair in zip(texts, pairs or texts, strict=True):
        a, b = _google(text), _google(pair)
        if pairs:
            rows.append(google_packing.pack_pair(a, b, seq_length, 2, 3, 0))
        else:
            ids = [2, *a[: seq_length - 2], 3]
            padding = [0] * (seq_length - len(ids))
            rows.append((ids + padding, [1] * len(ids) + padding, [0] * seq_length))
    ids, mask, types = zip(*rows, strict=True)
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def _assert_packed(packed, texts, pairs=None, seq_length=SEQ_LENGTH):
    expected = _expected(texts, pairs, seq_length)
    assert set(packed) == set(expected)
    for name, rows in expected.items():
        assert packed[name].dtype == tf.int32
        np.testing.assert_array_equal(packed[name], rows, name)


def test_root(loaded):
    _assert_packed(loaded(tf.constant(TEXTS)), TEXTS)


def test_signatures(loaded):
    texts, pairs = tf.constant(TEXTS), tf.constant(PAIRS)
    _assert_packed(loaded.signatures["serving_default"](text=texts), TEXTS)
    _assert_packed(loaded.signatures["pair"](text=texts, text_pair=pairs), TEXTS, PAIRS)


def test_one_text_that_is_not_in_a_list(loaded):
    _assert_packed(loaded.signatures["serving_default"](text=tf.constant(TEXTS[0])), TEXTS[:1])


def test_attributes_of_the_api(loaded):
    """Those that TF-Hub's users read of every SavedModel; and `training`, which changes nothing."""
    assert [*loaded.variables, *loaded.trainable_variables, *loaded.regularization_losses] == []
    for training in (False, True):
        _assert_packed(loaded(tf.constant(TEXTS), training=training), TEXTS)


def test_empty_batch(loaded):
    nothing = tf.constant([], tf.string)
    assert loaded(nothing)["input_word_ids"].shape == (0, SEQ_LENGTH)
    ids = loaded.tokenize(nothing)
    assert ids.shape.as_list() == [0, None, None]
    assert loaded.bert_pack_inputs([ids, ids], seq_length=7)["input_mask"].shape == (0, 7)
    assert [part.shape[0] for part in loaded.tokenize_with_offsets(nothing)] == [0, 0, 0]


def test_tokenize(loaded):
    assert loaded.tokenize(tf.constant(["w1 É,", ""])).to_list() == [[[6], [VOCABULARY["é"]], [1]], []]
    ids, starts, limits = loaded.tokenize_with_offsets(tf.constant(["w1  É,", ""]))
    assert ids.to_list() == loaded.tokenize(tf.constant(["w1  É,", ""])).to_list()
    assert starts.to_list() == [[[0], [4], [5]], []]
    assert limits.to_list() == [[[2], [5], [6]], []]


def test_special_tokens(loaded):
    expected = {
        "vocab_size": 24,
        "padding_id": 0,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "mask_id": 4,
    }
    for owner in (loaded.tokenize, loaded.tokenize_with_offsets):
        assert {name: int(id) for name, id in owner.get_special_tokens_dict().items()} == expected
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # with nothing of the process around it
        ids = session.run(loaded.tokenize.get_special_tokens_dict())
    assert {name: int(id) for name, id in ids.items()} == expected


@pytest.mark.parametrize("words_apart", [True, False])
@pytest.mark.parametrize("seq_length", [None, 3, 8, 256])
def test_bert_pack_inputs(loaded, words_apart, seq_length):
    def rows(texts):
        ids = loaded.tokenize(tf.constant(texts))
        return ids if words_apart else ids.merge_dims(1, 2)

    given = {} if seq_length is None else {"seq_length": seq_length}
    length = seq_length or SEQ_LENGTH
    _assert_packed(loaded.bert_pack_inputs([rows(TEXTS)], **given), TEXTS, seq_length=length)
    _assert_packed(loaded.bert_pack_inputs([rows(TEXTS), rows(PAIRS)], **given), TEXTS, PAIRS, length)


def test_pack_without_room(loaded):
    ids = loaded.tokenize(tf.constant(["w1"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="seq_length` must be at least 3"):
        loaded.bert_pack_inputs([ids, ids], seq_length=2)


@pytest.mark.parametrize("batch", [7, None])
def test_shapes_are_known_before_the_call(loaded, batch):
    shapes = {}

    @tf.function
    def graph(texts):
        ids = loaded.tokenize(texts)
        shapes["tokenize"] = ids.shape
        shapes["offsets"] = [part.shape for part in loaded.tokenize_with_offsets(texts)]
        shapes["root"] = [x.shape for x in loaded(texts).values()]
        shapes["pack"] = [x.shape for x in loaded.bert_pack_inputs([ids, ids], seq_length=256).values()]

    graph.get_concrete_function(tf.TensorSpec([batch], tf.string))
    found = {name: [shape.as_list() for shape in tf.nest.flatten(shape)] for name, shape in shapes.items()}
    assert found == {
        "tokenize": [[batch, None, None]],
        "offsets": [[batch, None, None]] * 3,
        "root": [[batch, SEQ_LENGTH]] * 3,
        "pack": [[batch, 256]] * 3,
    }


def test_saved_again(loaded, tmp_path):
    tf.saved_model.save(loaded, str(tmp_path / "again"))
    again = tf.saved_model.load(str(tmp_path / "again"))
    _assert_packed(again(tf.constant(TEXTS)), TEXTS)


def test_in_tf_data(loaded):
    data = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(loaded)
    assert [batch["input_mask"].shape for batch in data] == [(2, SEQ_LENGTH)] * 2
