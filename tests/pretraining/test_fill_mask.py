"""Predictions of a Pretrainer about text: the pieces at a mask, and whether a text follows another."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from keras_bert.bert import Bert
from keras_bert.pretraining import fill_mask as fill_mask_module
from keras_bert.pretraining.fill_mask import Filling, NextSentence
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.runner import Runner
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import hugging_face
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert_cli import app
from tests.parity.oracles import array, randomize
from tests.pretraining.small_pretrainers import small_pretrainer
from tests.weights import small


def test_fill_mask():
    pretrainer = small_pretrainer()
    text = "w1 [MASK] w2 [MASK]w3"
    masks = pretrainer.fill_mask(text, top_k=24)
    inputs = {
        name: array(x)[None].astype("int32") for name, x in pretrainer.bert.preprocessor("w1 w0 w2 w0 w3").items()
    }
    inputs["input_word_ids"][0, [2, 4]] = 4
    logits = array(pretrainer({**inputs, "masked_lm_positions": np.array([[2, 4]], "int32")})["mlm_logits"])[0]
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert len(masks) == 2
    for mask, scores in zip(masks, expected, strict=True):
        assert [filling.id for filling in mask] == list(np.argsort(-scores))
        assert [filling.score for filling in mask] == pytest.approx(sorted(scores, reverse=True), rel=1e-4)
        assert all(filling.token == small.VOCABULARY.token(filling.id) for filling in mask)
    assert next(f for f in masks[0] if f.token == "w7").text == "w1 w7 w2 [MASK]w3"
    assert next(f for f in masks[1] if f.token == "w7").text == "w1 [MASK] w2 w7w3"
    assert dataclasses.asdict(masks[0][0]).keys() == {"token", "id", "score", "text"}


def test_fill_mask_of_many_texts():
    pretrainer = small_pretrainer()
    texts = [f"w{i % 18} [MASK] " + "w1 " * (i % 9) for i in range(40)]
    found = pretrainer.fill_mask(texts, top_k=1)
    assert [len(masks) for masks in found] == [1] * 40
    for index in (0, 8, 39):
        (single,) = pretrainer.fill_mask(texts[index], top_k=1)
        assert found[index][0][0].token == single[0].token
        assert found[index][0][0].score == pytest.approx(single[0].score, rel=1e-4)
    assert pretrainer.fill_mask([]) == []


def test_texts_with_many_masks(monkeypatch):
    """Each run of the model has few masks, padding included, also if one text among many has most of them."""
    pretrainer, sizes = small_pretrainer(), []
    texts = ["w1 [MASK]"] * 6 + ["[MASK] " * 9] + ["[MASK] w2 [MASK]"]
    want = [pretrainer.fill_mask(text, top_k=1) for text in texts]
    run = Runner.on_inputs
    monkeypatch.setattr(fill_mask_module, "MASKS", 8)
    monkeypatch.setattr(
        Runner, "on_inputs", lambda self, x: sizes.append(x["masked_lm_positions"].shape) or run(self, x)
    )
    got = pretrainer.fill_mask(texts, top_k=1)
    assert sizes == [(1, 9), (4, 2), (3, 1)]
    for masks, expected in zip(got, want, strict=True):
        assert [mask[0].text for mask in masks] == [mask[0].text for mask in expected]
        assert [mask[0].score for mask in masks] == pytest.approx([mask[0].score for mask in expected], rel=1e-4)


def test_a_model_with_more_word_vectors_than_pieces():
    bert = Bert(dataclasses.replace(small.CONFIG, vocab_size=32), Preprocessor(small.VOCABULARY, max_length=16))
    pretrainer = randomize(Pretrainer(bert))
    (mask,) = pretrainer.fill_mask("w1 [MASK]", top_k=24)
    assert sorted(filling.id for filling in mask) == list(range(24))
    with pytest.raises(ValueError, match="from 1 to 24, the size of the vocabulary"):
        pretrainer.fill_mask("w1 [MASK]", top_k=25)


def test_korean():
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "나는",
        "에",
        "가서",
        "그곳에서",
        "빵과",
        "를",
        "샀다",
        "##들",
    ]
    vocabulary = Vocabulary([*pieces, *(f"가{i}" for i in range(11))])
    bert = Bert(small.CONFIG, Preprocessor(vocabulary, lowercase=False))
    first, second = Pretrainer(bert).fill_mask("나는 [MASK]에 가서 그곳에서 빵과 [MASK]를 샀다", top_k=24)
    assert next(f for f in first if f.token == "빵과").text == "나는 빵과에 가서 그곳에서 빵과 [MASK]를 샀다"
    assert next(f for f in second if f.token == "##들").text == "나는 [MASK]에 가서 그곳에서 빵과들를 샀다"


@pytest.mark.parametrize(
    ("texts", "top_k", "message"),
    [
        ("w1 w2", 5, r"index 0 has no \[MASK\].*Received: 'w1 w2'"),
        (["[MASK]", "w1 " * 20 + "[MASK]"], 5, "index 1 has a .* beyond the model's 16 positions.*Received: 23 pieces"),
        ("[MASK]", 0, "`top_k` must be a whole number from 1 to 24.*Received: top_k=0"),
        ("[MASK]", 25, "`top_k` must be a whole number from 1 to 24"),
        (("[MASK]", "w1"), 5, "one text or a list"),
    ],
)
def test_fill_mask_with_wrong_arguments(texts, top_k, message):
    with pytest.raises(ValueError, match=message):
        small_pretrainer().fill_mask(texts, top_k)


def test_is_next():
    pretrainer = small_pretrainer()
    one = pretrainer.is_next("w1 w2", "w3")
    inputs = {name: array(x)[None].astype("int32") for name, x in pretrainer.bert.preprocessor(("w1 w2", "w3")).items()}
    logits = array(pretrainer({**inputs, "masked_lm_positions": np.zeros((1, 1), "int32")})["nsp_logits"])[0]
    assert one.score == pytest.approx(1 / (1 + np.exp(logits[1] - logits[0])), rel=1e-5)
    assert one.is_next == (logits[0] >= logits[1])
    many = pretrainer.is_next(["w1 w2"] * 40, ["w3"] * 39 + ["w4 w5"])
    assert len(many) == 40
    assert isinstance(many[0], NextSentence)
    assert many[0].score == pytest.approx(one.score, rel=1e-5)
    assert many[39].score == pytest.approx(pretrainer.is_next("w1 w2", "w4 w5").score, rel=1e-5)
    with pytest.raises(ValueError, match="no head for next sentences"):
        small_pretrainer(nsp=False).is_next("w1", "w2")
    with pytest.raises(ValueError, match="same number of rows"):
        pretrainer.is_next(["w1"], ["w2", "w3"])


def test_pairs_that_is_next_cuts_are_counted(caplog):
    pretrainer = small_pretrainer()
    pretrainer.is_next("w1", "w2")
    assert not caplog.text
    pretrainer.is_next(["w1", "w1 " * 20], ["w2", "w3"])
    assert "1 of 2 pairs is cut to 16 pieces; the number of the model's positions is the limit." in caplog.text


def test_without_a_vocabulary():
    with pytest.raises(ValueError, match="no vocabulary"):
        Pretrainer(Bert(small.CONFIG)).fill_mask("[MASK]")


def test_command(tmp_path):
    pretrainer = small_pretrainer()
    hugging_face.write_checkpoint(Checkpoint.of(pretrainer), tmp_path / "model")
    expected = pretrainer.fill_mask("w1 [MASK] [MASK]", top_k=3)

    def run(*more):
        arguments = ["fill-mask", "w1 [MASK] [MASK]", "--model", str(tmp_path / "model"), "--top-k", "3", *more]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    found = [[Filling(**filling) for filling in mask] for mask in json.loads(run("--json"))]
    assert [[f.token for f in mask] for mask in found] == [[f.token for f in mask] for mask in expected]
    lines = run().splitlines()
    assert len(lines) == 6
    assert lines[0].split("\t")[2:] == [expected[0][0].token, expected[0][0].text]
