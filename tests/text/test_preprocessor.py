import json
import zipfile

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "here", "is", "em", "##bed", "##ding", "##s", ".", "a", "b"]
VOCABULARY = Vocabulary(WORDS)
TEXTS = ["Here is a.", "Embeddings", "", "b " * 40]
NAMES = {"input_word_ids", "input_mask", "input_type_ids"}


@pytest.fixture
def preprocessor():
    return Preprocessor(VOCABULARY, seq_length=8)


def ids(packed):
    return packed["input_word_ids"].numpy().tolist()


EXPECTED = [
    [2, 5, 6, 12, 11, 3, 0, 0],
    [2, 7, 8, 9, 10, 3, 0, 0],
    [2, 3, 0, 0, 0, 0, 0, 0],
    [2, 13, 13, 13, 13, 13, 13, 3],
]


@pytest.mark.parametrize(
    "make",
    [list, np.array, lambda t: np.array(t, object), pd.Series, tf.constant, lambda t: pd.Series(t, dtype="string")],
    ids=["list", "numpy U", "numpy object", "pandas", "tensor", "pandas string"],
)
def test_every_container_of_texts(preprocessor, make):
    packed = preprocessor(make(TEXTS))
    assert ids(packed) == EXPECTED
    assert set(packed) == NAMES
    assert {value.dtype for value in packed.values()} == {tf.int32}


def test_one_text_and_one_pair_have_no_batch(preprocessor):
    assert ids(preprocessor(TEXTS[0])) == EXPECTED[0]
    assert ids(preprocessor(np.str_(TEXTS[0]))) == EXPECTED[0]
    assert ids(preprocessor(("a", "b"))) == [2, 12, 3, 13, 3, 0, 0, 0]


def test_only_a_tuple_is_a_pair(preprocessor):
    pair = preprocessor((["a", "b b"], pd.Series(["b", ""])))
    assert ids(pair) == [[2, 12, 3, 13, 3, 0, 0, 0], [2, 13, 13, 3, 3, 0, 0, 0]]
    assert pair["input_type_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0]]
    assert ids(preprocessor(["a", "b"])) == [[2, 12, 3, 0, 0, 0, 0, 0], [2, 13, 3, 0, 0, 0, 0, 0]]


def test_empty_batch(preprocessor):
    assert preprocessor([])["input_word_ids"].shape == (0, 8)
    assert preprocessor(([], []))["input_mask"].shape == (0, 8)


def test_batches_and_graphs_never_change_an_id(preprocessor):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    for batch in (1, 3, 4):
        rows = [row for packed in dataset.batch(batch).map(preprocessor) for row in ids(packed)]
        assert rows == EXPECTED
    assert [ids(packed) for packed in dataset.map(preprocessor)] == EXPECTED
    pairs = tf.data.Dataset.from_tensor_slices((TEXTS, TEXTS)).map(lambda a, b: preprocessor((a, b)))
    assert [ids(packed) for packed in pairs] == ids(preprocessor((TEXTS, TEXTS)))
    assert ids(tf.function(preprocessor)(tf.constant(TEXTS))) == EXPECTED


def test_symbolic_text_in_a_functional_model(preprocessor, tmp_path):
    text = keras.Input((), dtype="string")
    model = keras.Model(text, preprocessor(text))
    assert model.output["input_word_ids"].shape == (None, 8)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "saved", verbose=False)
    served = tf.saved_model.load(tmp_path / "saved")
    for one in (model, keras.models.load_model(tmp_path / "model.keras"), served.serve):
        assert ids(one(tf.constant(TEXTS))) == EXPECTED
    np.testing.assert_array_equal(model.predict(tf.constant(TEXTS), verbose=0)["input_word_ids"], EXPECTED)


def test_symbolic_pairs_survive_saving(preprocessor, tmp_path):
    a, b = keras.Input((), dtype="string", name="a"), keras.Input((), dtype="string", name="b")
    model = keras.Model([a, b], preprocessor((a, b)))
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    pair = [tf.constant(["a", "b b"]), tf.constant(["b", ""])]
    assert ids(reloaded(pair)) == ids(model(pair)) == ids(preprocessor(tuple(pair)))


def test_the_config_has_every_argument(tmp_path):
    given = {
        "lowercase": False,
        "strip_accents": True,
        "split_cjk": False,
        "seq_length": "longest",
        "truncation": "waterfall",
        "special_tokens_in_text": True,
        "max_length": 40,
    }
    preprocessor = Preprocessor(VOCABULARY, **given)
    config = json.loads(json.dumps(preprocessor.get_config()))
    again = Preprocessor.from_config(config)
    assert again.vocabulary == VOCABULARY
    assert {name: getattr(again, name) for name in given} == given
    assert again.get_config() == preprocessor.get_config()


def test_whole_numbers_of_numpy():
    config = Preprocessor(VOCABULARY, seq_length=np.int64(8), max_length=np.int32(40)).get_config()
    found = json.loads(json.dumps(config))
    assert (found["seq_length"], found["max_length"]) == (8, 40)


def test_a_changed_file_raises_a_readable_error(preprocessor, tmp_path):
    text = keras.Input((), dtype="string")
    path = tmp_path / "model.keras"
    keras.Model(text, preprocessor(text)).save(path)
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    content["config.json"] = content["config.json"].replace(b'"[SEP]", ', b"")
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)
    with pytest.raises((ValueError, TypeError), match=r"13 pieces without \[SEP\]"):
        keras.models.load_model(path)


def test_longest(preprocessor):
    longest = Preprocessor(VOCABULARY, seq_length="longest", max_length=30)
    assert longest(["a", "b " * 9])["input_mask"].shape == (2, 16)
    assert longest(["a", "b " * 99])["input_mask"].shape == (2, 30)
    assert longest("a")["input_mask"].shape == (8,)
    text = keras.Input((), dtype="string")
    assert longest(text)["input_mask"].shape == (None, None)


def test_tokenize_pack_and_detokenize(preprocessor):
    assert preprocessor.tokens("Here is embeddings.") == ["here", "is", "em", "##bed", "##ding", "##s", "."]
    ragged = preprocessor.tokenize(["a b", "embed"])
    assert ragged.to_list() == [[[12], [13]], [[7, 8]]]
    _, start, end = preprocessor.tokenize_with_offsets(["  a b"])
    assert (start.to_list(), end.to_list()) == ([[[2], [4]]], [[[3], [5]]])
    packed = preprocessor.pack([ragged, ragged], seq_length=9)
    assert ids(packed) == [[2, 12, 13, 3, 12, 13, 3, 0, 0], [2, 7, 8, 3, 7, 8, 3, 0, 0]]
    assert ids(preprocessor.pack([[[12, 13], [7]]])) == [[2, 12, 13, 3, 0, 0, 0, 0], [2, 7, 3, 0, 0, 0, 0, 0]]
    assert preprocessor.pack([ragged], seq_length="longest")["input_mask"].shape == (2, 8)
    assert preprocessor.detokenize(packed["input_word_ids"]).numpy().tolist()[1] == b"[CLS] embed [SEP] embed [SEP]"
    with pytest.raises(
        TypeError, match=r"not a dict of the model's inputs. Pass one entry.*'input_word_ids'. Received: a"
    ):
        preprocessor.detokenize(packed)


def test_is_cut(preprocessor):
    assert preprocessor.is_cut(TEXTS).numpy().tolist() == [[False], [False], [False], [True]]
    assert preprocessor.is_cut((["a", "b " * 9], ["b", "a"])).numpy().tolist() == [[False, False], [True, False]]
    assert preprocessor.is_cut("b " * 9, seq_length=64).numpy().tolist() == [[False]]


def test_windows_find_the_answer_in_the_context(preprocessor):
    context = "b b  b b b a. b b b"
    rows = preprocessor.windows("a is here", context, seq_length=12, stride=2, max_question_length=4)
    found = np.argwhere((rows["input_word_ids"] == 12) & (rows["input_type_ids"] == 1) & rows["best"])
    assert len(found) == 1
    start, end = (int(rows[name][tuple(found[0])]) for name in ("start", "end"))
    assert context[start:end] == "a"
    longest = Preprocessor(VOCABULARY, seq_length="longest", max_length=80)
    assert longest.windows(["a"], [context])["input_mask"].shape == (1, 80)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["a", 3], TypeError, "3 .*index 1"),
        (["a", None], TypeError, "None .*index 1"),
        (["a", float("nan")], TypeError, "nan .*index 1"),
        (pd.Series(["a", None]), TypeError, "index 1"),
        (None, TypeError, "must be a string"),
        (np.array([1.0, 2.0]), TypeError, "must be a string"),
        (tf.constant([1]), TypeError, "must be strings"),
        ({"a": 1}, TypeError, "must be a string"),
        ((["a", "b"], ["a"]), ValueError, "Received: 2 and 1 rows"),
        ((["a", "b"], "a"), ValueError, "To pair one text with a column"),
        ((), ValueError, r"pass \[\]"),
        (["\ud800"], ValueError, "surrogate"),
    ],
)
def test_bad_texts(preprocessor, texts, error, message):
    with pytest.raises(error, match=message):
        preprocessor(texts)


def test_bad_arguments(preprocessor):
    for options, message in (
        ({"seq_length": 1}, "be at least 2"),
        ({"seq_length": "short"}, 'or "longest"'),
        ({"truncation": "left"}, "must be one of"),
        ({"max_length": 1}, "max_length"),
    ):
        with pytest.raises(ValueError, match=message):
            Preprocessor(VOCABULARY, **options)
    with pytest.raises(ValueError, match="be at least 3"):
        Preprocessor(VOCABULARY, seq_length=2)(("a", "b"))
    with pytest.raises(AttributeError, match=r"only its `seq_length`\. .*lowercase=False"):
        preprocessor.lowercase = False
    with pytest.raises(TypeError, match=r"Vocabulary\.from_file"):
        Preprocessor("vocab.txt")
    with pytest.raises(ValueError, match="Received: 1 and 2 rows"):
        preprocessor.pack([[[12]], [[12], [13]]])
    for segments in ([], [[12, 13]], ["a b"], [np.array([12])], [np.array([[1.5]])]):
        with pytest.raises(ValueError, match="segment"):
            preprocessor.pack(segments)


def test_bad_bytes_and_long_texts(preprocessor):
    assert ids(preprocessor([b"a\xff b", b"\x00", "a" * 300])) == [
        [2, 12, 13, 3, 0, 0, 0, 0],
        [2, 3, 0, 0, 0, 0, 0, 0],
        [2, 1, 3, 0, 0, 0, 0, 0],
    ]


@pytest.mark.long
def test_large_texts(preprocessor):
    assert ids(preprocessor(["a b " * 2_500_000]))[0] == [2, 12, 13, 12, 13, 12, 13, 3]
    assert ids(preprocessor(["a" * 100_000]))[0] == [2, 1, 3, 0, 0, 0, 0, 0]
