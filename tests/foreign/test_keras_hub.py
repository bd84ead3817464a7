"""The cases of KerasHub's models/bert: tokenizer, preprocessors, backbone, masked words, classifier and embedder."""

import keras
import numpy as np
import pytest

from keras_bert import Bert, BertConfig, Pretrainer, TextClassifier, Vocabulary
from keras_bert.inputs import INPUTS
from keras_bert.pretraining.examples.masking import Masker, Masking
from tests.foreign.pieces import preprocessor

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BOTH_CASES = [*SPECIAL, "THE", "QUICK", "BROWN", "FOX", "the", "quick", "brown", "fox"]
WORDS = [*SPECIAL, "the", "quick", "brown", "fox", "."]
TEXTS = ["the quick brown fox.", "the slow brown fox."]
ONES = dict(zip(INPUTS, np.array([np.ones((2, 5)), np.ones((2, 5)), np.zeros((2, 5))], "int32"), strict=True))


def backbone(preprocessor=None):
    config = BertConfig(
        vocab_size=10,
        hidden_size=2,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=4,
        max_position_embeddings=5,
    )
    return Bert(config, preprocessor)


@pytest.fixture
def bert():
    return backbone(preprocessor(WORDS, lowercase=False, seq_length=5))


# === bert_tokenizer_test ===


@pytest.mark.parametrize(
    ("texts", "rules", "expected"),
    [
        (["THE QUICK BROWN FOX", "THE FOX"], {"lowercase": False}, [[5, 6, 7, 8], [5, 8]]),
        (["THE QUICK BROWN FOX", "THE FOX"], {"lowercase": True}, [[9, 10, 11, 12], [9, 12]]),
        (
            ["[CLS] THE [MASK] FOX [SEP] [PAD]"],
            {"lowercase": False, "special_tokens_in_text": True},
            [[2, 5, 4, 8, 3, 0]],
        ),
    ],
)
def test_tokenizer(texts, rules, expected):
    assert preprocessor(BOTH_CASES, **rules).tokenize(texts).merge_dims(1, 2).to_list() == expected


def test_missing_special_tokens():
    with pytest.raises(ValueError, match=r"must have the pieces \[PAD\]"):
        Vocabulary(["a", "b", "c"])


# === bert_text_classifier_preprocessor_test, bert_masked_lm_preprocessor_test ===


def test_preprocessor():
    packed = preprocessor(BOTH_CASES, lowercase=False, seq_length=8)(["THE QUICK BROWN FOX."])
    expected = ([[2, 5, 6, 7, 8, 1, 3, 0]], [[1] * 7 + [0]], [[0] * 8])
    for name, rows in zip(INPUTS, expected, strict=True):
        np.testing.assert_array_equal(packed[name], rows)


def test_ambiguous_lists():
    with pytest.raises(TypeError, match="Received"):
        preprocessor(BOTH_CASES)([["one", "two"], ["three", "four"]])


def test_masked_words():
    """Every piece is chosen and becomes [MASK]. Choosing none is refused: there would be nothing to learn."""
    tokenizer = preprocessor(BOTH_CASES, lowercase=False, seq_length=12)
    masking = Masking(rate=1.0, mask=1.0, random=0.0, max_predictions=4)
    given = tokenizer(["the quick brown fox"])["input_word_ids"]
    found = Masker(masking, tokenizer.vocabulary, 12)(given, (0, 0))
    np.testing.assert_array_equal(found["input_ids"], [[2, 4, 4, 4, 4, 3, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(found["masked_lm_positions"], [[1, 2, 3, 4]])
    np.testing.assert_array_equal(found["masked_lm_ids"], [[9, 10, 11, 12]])
    np.testing.assert_array_equal(found["masked_lm_weights"], [[1.0] * 4])
    with pytest.raises(ValueError, match="nothing to learn"):
        Masking(rate=0.0)


# === bert_backbone_test ===


def test_backbone(tmp_path):
    """Called, made again from its config, and saved."""
    bert = backbone()
    outputs = bert(ONES)
    assert outputs["sequence_output"].shape == (2, 5, 2)
    assert outputs["pooled_output"].shape == (2, 2)
    assert Bert.from_config(bert.get_config()).get_config() == bert.get_config()
    bert.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")(ONES)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_array_equal(again[name], outputs[name])


# === bert_masked_lm_test, bert_text_classifier_test ===


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["masked words", "classifier"])
def test_tasks(bert, kind, tmp_path):
    """Called, trained, and saved."""
    x = {name: np.asarray(rows) for name, rows in bert.preprocessor(TEXTS).items()}
    if kind == "classifier":
        task, shape, y = TextClassifier(bert, labels=("a", "b")), (2, 2), np.array([1, 0])
        task.compile("adam", task.default_loss())
        task.fit(TEXTS, y, verbose=0)
    else:
        task, shape = Pretrainer(bert, nsp=False), (2, 5, 10)
        x["masked_lm_positions"] = np.tile(np.arange(5, dtype="int32"), (2, 1))
        y, weight = np.zeros((2, 5), "int32"), np.ones((2, 5), "float32")
        task.compile("adam")
        task.fit(x, {"mlm_logits": y}, sample_weight={"mlm_logits": weight}, verbose=0)

    def logits(task):
        outputs = task(x)
        return np.asarray(outputs["mlm_logits"] if kind == "masked words" else outputs)

    assert logits(task).shape == shape
    task.save(tmp_path / "task.keras")
    np.testing.assert_array_equal(logits(keras.models.load_model(tmp_path / "task.keras")), logits(task))


# === bert_text_embedder_test ===


@pytest.mark.parametrize(
    ("options", "normalized"),
    [
        ({"normalize": True}, True),
        ({"normalize": False}, False),
        ({"pooling": "cls", "normalize": True}, True),
        ({"pooling": "max", "normalize": True}, True),
    ],
)
def test_embedder(bert, options, normalized):
    found = bert.embed(TEXTS, **options)
    assert found.shape == (2, 2)
    if normalized:
        np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, atol=1e-5)


def test_unknown_pooling(bert):
    with pytest.raises(ValueError, match="pooling"):
        bert.embed(TEXTS, pooling="invalid")


def test_mean_pooling_respects_the_mask(bert):
    texts = ["the", "the quick brown"]
    rows = {name: np.asarray(x) for name, x in bert.preprocessor(texts).items()}
    assert rows["input_mask"].sum(axis=1).tolist() == [3, 5]
    vectors, mask = np.asarray(bert(rows)["sequence_output"]), rows["input_mask"][..., None]
    expected = (vectors * mask).sum(axis=1) / mask.sum(axis=1)
    np.testing.assert_allclose(bert.embed(texts, pooling="mean"), expected, atol=1e-5)
