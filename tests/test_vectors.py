from functools import cache

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.vectors import embed

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "em", "##bed", "##s", "a", "b", "c", "é"]
TEXTS = ["a b c", "", "embeds a", "c " * 25, "b", "a b " * 40, "c a"]


@pytest.fixture(scope="module")
def bert():
    keras.utils.set_random_seed(0)
    config = BertConfig(
        vocab_size=16,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    return Bert(config, Preprocessor(Vocabulary(WORDS), seq_length=64))


@cache
def outputs(bert, text):
    """One text without padding, as numpy: the hidden states of each block and the pooled output."""
    found = bert({name: x[:, : size(bert, text)] for name, x in bert.preprocessor([text]).items()})
    return [np.asarray(x)[0] for x in found["encoder_outputs"]], np.asarray(found["pooled_output"])[0]


def size(bert, text):
    return int(np.sum(bert.preprocessor([text])["input_mask"]))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, lambda h: h[2].mean(0)),
        ({"pooling": "cls"}, lambda h: h[2][0]),
        ({"pooling": "max", "layers": 0}, lambda h: h[0].max(0)),
        ({"layers": (-1, -3)}, lambda h: np.concatenate([h[2], h[0]], -1).mean(0)),
        ({"layers": (0, 1, 2), "combine": "sum"}, lambda h: (h[0] + h[1] + h[2]).mean(0)),
        ({"layers": [1, 2], "combine": "mean", "pooling": "cls"}, lambda h: (h[1][0] + h[2][0]) / 2),
        ({"normalize": True}, lambda h: h[2].mean(0) / np.linalg.norm(h[2].mean(0))),
    ],
)
@pytest.mark.parametrize("batch_tokens", [1, 30, 4096])
def test_vectors_of_one_text_at_a_time(bert, options, expected, batch_tokens):
    found = embed(bert, TEXTS, batch_tokens=batch_tokens, **options)
    assert found.dtype == np.float32
    for text, vector in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(vector, expected(outputs(bert, text)[0]), atol=1e-5)


def test_pooled(bert):
    found = embed(bert, TEXTS, pooling="pooled")
    for text, vector in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(vector, outputs(bert, text)[1], atol=1e-5)


def test_a_vector_per_piece(bert):
    found = embed(bert, TEXTS, pooling=None, layers=(-1, -2), batch_tokens=20)
    for text, one in zip(TEXTS, found, strict=True):
        hidden = np.concatenate(outputs(bert, text)[0][:0:-1], -1)
        assert one.vectors.shape == (len(one.pieces), 16)
        np.testing.assert_allclose(one.vectors, hidden[1:-1], atol=1e-5)
    third = found[2]
    assert third.pieces == ("em", "##bed", "##s", "a")
    assert (third.start.tolist(), third.end.tolist()) == ([0, 2, 5, 7], [2, 5, 6, 8])
    np.testing.assert_allclose(third.span(0, 6), third.vectors[:3].mean(0))
    np.testing.assert_allclose(third.span(7, 8), third.vectors[3])
    with pytest.raises(ValueError, match="start=6, end=7"):
        third.span(6, 7)
    assert found[1].pieces == ()


def test_long_texts_are_truncated_and_counted(bert, caplog):
    found = embed(bert, TEXTS, pooling=None)
    assert len(found[5].pieces) == 62
    assert "1 of 7 rows is cut to 64 pieces" in caplog.text
    embed(bert, TEXTS[5])
    assert "The row is cut to 64 pieces" in caplog.text
    np.testing.assert_allclose(embed(bert, ["c " * 25], max_length=10), embed(bert, ["c " * 8]), atol=1e-6)
    np.testing.assert_allclose(embed(bert, TEXTS, max_length=999), embed(bert, TEXTS), atol=1e-6)


def test_pairs_one_text_and_no_texts(bert):
    pairs = embed(bert, (["a b", "c"], ["c", "a " * 9]))
    packed = bert.preprocessor((["a b", "c"], ["c", "a " * 9]))
    hidden = np.asarray(bert(packed)["sequence_output"])
    np.testing.assert_allclose(pairs, hidden.sum(1) / np.asarray(packed["input_mask"]).sum(1, keepdims=True), atol=2e-6)
    assert embed(bert, "a").shape == (1, 8)
    assert embed(bert, []).shape == (0, 8)
    assert embed(bert, [], pooling=None) == []


def test_the_graph_is_traced_once_and_has_only_the_blocks_it_needs(bert):
    embed(bert, TEXTS, layers=(0,), batch_tokens=20)
    embed(bert, ["b", "a b c"], layers=(0,))
    runner = bert.runners.made[(0,), "concat", "mean", False]
    assert not [layer.name for layer in runner.model.layers if layer.name.startswith("layer_1")]
    if keras.backend.backend() == "tensorflow":
        assert len(runner.graphs) == 1  # a concrete function, which is never traced again


@pytest.mark.long
def test_texts_are_pooled_as_the_model_says_unless_the_user_decides(bert):
    other = Bert.from_config(bert.get_config() | {"pooling": {"pooling": "cls", "normalize": True, "max_length": 10}})
    other.set_weights(bert.get_weights())
    expected = embed(bert, TEXTS, pooling="cls", normalize=True, max_length=10)
    np.testing.assert_array_equal(other.embed(TEXTS), expected)
    again = Bert.from_config(other.get_config())
    assert again.pooling == other.pooling
    expected = embed(bert, TEXTS, pooling="max", normalize=True, max_length=10)
    np.testing.assert_array_equal(other.embed(TEXTS, pooling="max"), expected)
    pieces, expected = other.embed(TEXTS, pooling=None), embed(bert, TEXTS, pooling=None)
    for one, two in zip(pieces, expected, strict=True):
        np.testing.assert_array_equal(one.vectors, two.vectors)


def test_many_options_cause_no_warning(bert, caplog):
    for pooling in ("mean", "max", "cls", "pooled"):
        for normalize in (False, True):
            embed(bert, TEXTS, pooling=pooling, normalize=normalize)
    assert "retracing" not in caplog.text


@pytest.mark.usefixtures("quantizes")
def test_changed_weights_and_vocabularies_take_effect(bert):
    other = Bert.from_config(bert.get_config())
    before = embed(other, TEXTS)
    other.set_weights(bert.get_weights())
    np.testing.assert_allclose(embed(other, TEXTS), embed(bert, TEXTS), atol=2e-6)
    assert abs(before - embed(other, TEXTS)).max() > 1e-3
    other.preprocessor = Preprocessor(Vocabulary(WORDS[:4] + WORDS[5:]))
    assert embed(other, ["a"]).shape == (1, 8)
    assert abs(embed(other, ["a"]) - embed(bert, ["a"])).max() > 1e-3
    other.quantize("int8")
    assert abs(embed(other, TEXTS[:3]) - embed(bert, TEXTS[:3])).max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": (3,)}, r"from -3 to 2\. Received: layers=\(3,\)"),
        ({"layers": ("last",)}, r"Received: layers=\('last',\)"),
        ({"layers": ()}, "must be encoder blocks"),
        ({"combine": "product"}, "combine='product'"),
        ({"pooling": "median"}, "pooling='median'"),
        ({"pooling": "pooled", "layers": (0,)}, "reads only the last block"),
        ({"batch_tokens": 0}, "must be a whole number of at least 1. Received: batch_tokens=0"),
        ({"batch_tokens": "4"}, "Received: batch_tokens='4'"),
        ({"pooling": ["mean"]}, r"pooling=\['mean'\]"),
        ({"layers": [[1]]}, r"layers=\(\[1\],\)"),
        ({"max_length": 1}, r"at least 2, .* Received: max_length=1"),
    ],
)
def test_bad_options(bert, options, message):
    with pytest.raises(ValueError, match=message):
        embed(bert, TEXTS, **options)


def test_bad_texts(bert):
    with pytest.raises(TypeError, match="index 1"):
        embed(bert, ["a", None])
    with pytest.raises(ValueError, match="takes one text per row"):
        embed(bert, (["a"], ["b"]), pooling=None)
    with pytest.raises(ValueError, match=r"at most 2 texts.*Received: 3 columns"):
        embed(bert, (["a"], ["b"], ["c"]))
    with pytest.raises(ValueError, match="no vocabulary"):
        embed(Bert(bert.config), ["a"])
