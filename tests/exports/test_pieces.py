"""The signatures that show pieces, against the preprocessor, and the attention maps, against `bert.attention`."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.exports.export import _parts
from keras_bert.exports.pieces_signatures import pieces_signatures
from keras_bert.exports.preprocess_part import preprocess_signatures
from keras_bert.exports.text_part import vectors_of_texts
from keras_bert.exports.text_reader import TextReader
from keras_bert.exports.warm_up import write_warm_up
from keras_bert.serving.served_version import ServedVersion
from keras_bert.text.tensors import arrays
from tests.exports.conftest import SEQ_LENGTH

TEXTS = ["W1 w2 É!", "", "  좋아요 w3,w4", "w5 " * 40, "e\u0301 😀 w7"]
PAIRS = ["w6 " * 9, "w7", "", "w8 w9", "w1"]


@pytest.fixture(scope="module")
def signatures(exported):
    return ServedVersion(exported / "preprocess" / "1").signatures


def _column(found, name, row):
    return found[name][row, : found["count"][row]].numpy().tolist()


def test_pieces(signatures, bert):
    found = signatures["pieces"](text=tf.constant(TEXTS))
    for row, text in enumerate(TEXTS):
        ids, start, end = (x.flat_values.numpy().tolist() for x in bert.preprocessor.tokenize_with_offsets(text))
        listed = 2 * SEQ_LENGTH
        assert _column(found, "id", row) == ids[:listed]
        assert found["total"][row] == len(ids)
        assert _column(found, "start", row) == start[:listed]
        assert _column(found, "end", row) == end[:listed]
        assert [piece.decode() for piece in _column(found, "piece", row)] == bert.preprocessor.tokens(text)[:listed]
        spans = [text[a:b].encode() for a, b in zip(start, end, strict=True)][:listed]
        bytes = zip(_column(found, "start_byte", row), _column(found, "end_byte", row), strict=True)
        assert [text.encode()[a:b] for a, b in bytes] == spans


@pytest.mark.parametrize("pair", [False, True])
def test_what_is_kept(signatures, bert, pair):
    """Exactly the pieces that the packed row has."""
    columns = {"text": TEXTS, "text_pair": PAIRS} if pair else {"text": TEXTS}
    found = signatures["pieces_pair" if pair else "pieces"](**{name: tf.constant(x) for name, x in columns.items()})
    packed = bert.preprocessor((TEXTS, PAIRS) if pair else TEXTS)
    special = {bert.preprocessor.vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]")}
    for row, ids in enumerate(packed["input_word_ids"].numpy()):
        of_text = packed["input_type_ids"].numpy()[row]
        expected = [(id, text) for id, text in zip(ids.tolist(), of_text.tolist(), strict=True) if id not in special]
        columns = (_column(found, name, row) for name in ("id", "text", "kept"))
        assert [(id, text) for id, text, kept in zip(*columns, strict=True) if kept] == expected


@pytest.mark.parametrize("long", ["truncate", "head-tail", "windows"])
def test_what_a_task_for_long_texts_keeps(bert, long):
    """The pieces of the packed row, or of its windows; of more than 2 * SEQ_LENGTH, only the first are listed."""
    task = keras_bert.TextClassifier(bert, labels=("bad", "good"), long=long)
    made = preprocess_signatures(TextReader.of(task, SEQ_LENGTH), task.bert.preprocessor.tokenize)
    text = " ".join(f"w{number % 7}" for number in range(2 * SEQ_LENGTH - 3))
    found = made["pieces"].function(tf.constant([text]))
    kept = [id for id, kept in zip(_column(found, "id", 0), _column(found, "kept", 0), strict=True) if kept]
    if long == "windows":
        assert kept == bert.preprocessor.tokenize(text).flat_values.numpy().tolist()
        return
    row = replace(task.packer, max_length=SEQ_LENGTH).pack(
        [bert.preprocessor.tokenize([text]).merge_dims(1, 2)], SEQ_LENGTH
    )
    assert kept == row["input_word_ids"].numpy()[0, 1:-1].tolist()
    assert len(kept) == SEQ_LENGTH - 2


@pytest.mark.parametrize("task", [keras_bert.TokenTagger, keras_bert.QuestionAnswerer])
def test_tasks_that_read_all_of_a_text_keep_all_pieces(bert, task):
    made = task(bert, labels=("O", "B-A")) if task is keras_bert.TokenTagger else task(bert)
    parts = _parts(made, SEQ_LENGTH, None, attention=False)
    _, signatures = parts["preprocess"]()
    found = signatures["pieces"](text=tf.constant(["w1 " * (2 * SEQ_LENGTH)]))
    assert found["kept"].numpy().all()


def test_what_is_kept_of_a_question(bert):
    task = keras_bert.QuestionAnswerer(bert)
    _, signatures = _parts(task, SEQ_LENGTH, None, attention=False)["preprocess"]()
    found = signatures["pieces_pair"](text=tf.constant(["w1 " * SEQ_LENGTH]), text_pair=tf.constant(["w2 " * 99]))
    kept, of_text = found["kept"].numpy()[0], found["text"].numpy()[0]
    assert kept[of_text == 0].sum() == SEQ_LENGTH // 2
    assert kept[of_text == 1].all()
    with arrays():  # as with --engine onnxruntime
        made = preprocess_signatures(TextReader.of(task, SEQ_LENGTH), bert.preprocessor.plain_tokenizer.tokenize)
        again = made["pieces_pair"].function(np.array([b"w1 " * SEQ_LENGTH]), np.array([b"w2 " * 99]))
    assert again["kept"][0].tolist() == kept.tolist()


def test_bytes_that_are_not_utf8(signatures):
    found = signatures["pieces"](text=tf.constant([b"\xff w1\xff w2"]))
    assert _column(found, "start", 0) == [1, 4]
    assert _column(found, "start_byte", 0) == [2, 6]


def test_no_texts(signatures):
    assert signatures["pieces"](text=tf.constant([], tf.string))["id"].shape == (0, 0)


def test_one_long_text_does_not_widen_the_others(signatures):
    found = signatures["pieces"](text=tf.constant(["w1 " * 5000, "w1"]))
    assert found["id"].shape == (2, 2 * SEQ_LENGTH)
    assert found["total"].numpy().tolist() == [5000, 1]


def test_truncation_of_the_preprocessor(bert):
    """`only_first` shortens only the first text of a pair."""
    changed = type(bert.preprocessor).from_config({**bert.preprocessor.get_config(), "truncation": "only_first"})
    pieces = pieces_signatures(TextReader(changed, SEQ_LENGTH))["pieces_pair"].function
    found = pieces(tf.constant(["w1 " * 20]), tf.constant(["w2 " * 4]))
    kept = [text for text, kept in zip(_column(found, "text", 0), _column(found, "kept", 0), strict=True) if kept]
    assert kept == [0] * (SEQ_LENGTH - 3 - 4) + [1] * 4


def test_attention(bert, tmp_path):
    bert.preprocessor.vocabulary.save(tmp_path / "vocab.txt")
    _, signatures = vectors_of_texts(bert, SEQ_LENGTH, tmp_path / "vocab.txt", attention=True)
    for text in (TEXTS[0], "w5 " * 40):
        found = signatures["attention"](text=tf.constant([text]))
        expected = bert.attention(text)
        assert [[piece.decode() for piece in row] for row in found["piece"].numpy()] == expected.pieces
        maps = found["attention"].numpy()  # [1, L, A, S, S]
        assert np.abs(maps - expected.maps.swapaxes(0, 1)).max() <= 1 / 2048 + 1e-6
        assert (maps * 1024 == np.rint(maps * 1024)).all()
        assert found["truncated"].numpy().tolist() == [text != TEXTS[0]]
    pytest.importorskip("tensorflow_serving.apis", reason="pip install 'keras3-bert[serving]'")
    (tmp_path / "assets.extra").mkdir()
    write_warm_up(tmp_path, "small", {"attention": signatures["attention"]})
    assert len(list(tf.data.TFRecordDataset(str(tmp_path / "assets.extra" / "tf_serving_warmup_requests")))) == 1
