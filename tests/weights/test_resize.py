"""More pieces in the vocabulary, and longer texts."""

import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.resize import add_tokens, resize
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.load import build
from tests.parity.oracles import array
from tests.weights import small


def _table(bert, name):
    return array(bert.get_layer(f"{name}_embeddings").embeddings)


def test_tokens_and_positions(caplog):
    caplog.set_level("INFO")
    bert = build(small.checkpoint(), seq_length=16)
    vocabulary = add_tokens(
        Vocabulary(["[unused0]" if piece == "w3" else piece for piece in small.VOCABULARY]), ["x", "y"]
    )
    assert vocabulary["x"] == small.VOCABULARY["w3"]
    assert len(vocabulary) == 25
    larger = resize(bert, vocabulary=vocabulary, max_position_embeddings=20)
    assert (larger.config.vocab_size, larger.config.max_position_embeddings) == (25, 20)
    words, old = _table(larger, "word"), _table(bert, "word")
    kept = [i for i in range(24) if i != vocabulary["x"]]
    assert np.array_equal(words[kept], old[kept])
    assert np.array_equal(_table(larger, "position")[:16], _table(bert, "position"))
    new = np.concatenate([words[[vocabulary["x"], vocabulary["y"]]].ravel(), _table(larger, "position")[16:].ravel()])
    assert 0.005 < new.std() < 0.04
    assert "2 of 25 pieces are new" in caplog.text
    assert "4 of 20 positions are new" in caplog.text
    texts = ["w1 w2 w17"]
    same = array(larger(larger.preprocessor(texts))["pooled_output"]) - array(
        bert(bert.preprocessor(texts))["pooled_output"]
    )
    assert np.abs(same).max() <= 1e-6


def test_pieces_that_no_text_has(caplog):
    bert = build(small.checkpoint(rules=small.TextRules(lowercase=True)), seq_length=16)
    never = ("##,", "##É", "##中", "COVID", 201 * "a", "c++", "new york", "中国")
    pieces = ("covid", "##19", "[unused7]", *never, "코로나", "한")
    resized = bert.resize(vocabulary=add_tokens(bert.preprocessor.vocabulary, pieces))
    assert resized.preprocessor.tokens("covid19") == ["covid", "##19"]
    assert f"these new pieces: {', '.join(map(repr, never))} and 2 more. It lowercases texts" in caplog.text
    assert "It removes accents, which splits Hangul into its letters. It splits texts at" in caplog.text
    caplog.clear()
    cased = build(small.checkpoint(rules=small.TextRules(lowercase=False, split_cjk=False)), seq_length=16)
    cased.resize(vocabulary=add_tokens(cased.preprocessor.vocabulary, ["COVID", "##É", "코로나", "中国"]))
    assert "never produces" not in caplog.text


def test_fewer_blocks():
    """Those that are kept have the weights that they had."""
    bert = build(small.checkpoint(), seq_length=16)
    layers = bert.config.num_hidden_layers
    smaller = bert.resize(num_hidden_layers=1)
    assert smaller.config.num_hidden_layers == 1
    for old, new in zip(bert.block(layers - 1), smaller.block(0), strict=True):
        assert old.name.split("_")[2:] == new.name.split("_")[2:]
        assert all(np.array_equal(array(x), array(y)) for x, y in zip(old.weights, new.weights, strict=True))
    assert np.array_equal(_table(smaller, "word"), _table(bert, "word"))
    same = bert.resize(num_hidden_layers=layers)
    inputs = bert.preprocessor(["w1 w2"])
    assert np.array_equal(array(same(inputs)["pooled_output"]), array(bert(inputs)["pooled_output"]))
    with pytest.raises(ValueError, match=rf"must be from 1 to {layers}, .*Received: num_hidden_layers=0"):
        bert.resize(num_hidden_layers=0)


def test_a_limit_of_the_preprocessor_stays():
    bert = Bert(small.CONFIG, Preprocessor(small.VOCABULARY, seq_length="longest", max_length=7))
    assert bert.resize(num_hidden_layers=1).preprocessor.max_length == 7
    assert bert.resize(max_position_embeddings=20).preprocessor.max_length == 20


def test_a_word_in_place_of_pieces():
    with pytest.raises(TypeError, match=r"must be a list of pieces.*Received: 'covid'"):
        add_tokens(small.VOCABULARY, "covid")


def test_a_model_without_a_vocabulary():
    made = small.checkpoint()
    made.vocabulary = None
    bert = build(made)
    assert resize(bert, max_position_embeddings=8).config.max_position_embeddings == 8
    with pytest.raises(ValueError, match="has no vocabulary"):
        resize(bert, vocabulary=small.VOCABULARY)
    with pytest.raises(TypeError, match=r"must be a Vocabulary.*Received: list"):
        resize(build(small.checkpoint()), vocabulary=["a"])
