"""A real model from HuggingFace's own format: every layer against transformers, on real sentences."""

import re

import numpy as np

import keras_bert
from tests.parity.oracles import array, ragged_batch


def _sentences(minilm, count=200):
    """Sentences of the folder's own README and of the vocabulary, of many lengths."""
    text = (minilm / "README.md").read_text(encoding="utf-8")
    found = [line.strip() for line in re.split(r"[\n|]|(?<=[.!?]) ", text) if len(line.split()) > 3]
    words = (minilm / "vocab.txt").read_text(encoding="utf-8").split()[2000:6000]
    rng = np.random.default_rng(0)
    made = [" ".join(rng.choice(words, length)) for length in rng.integers(1, 100, count)]
    return (found + made)[:count]


def test_every_layer_agrees_with_transformers(minilm):
    import torch
    import transformers

    bert = keras_bert.load(minilm)
    theirs = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    sentences = _sentences(minilm)
    assert len(sentences) == 200
    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    worst = 0.0
    for start in range(0, len(sentences), 50):
        inputs = bert.preprocessor(sentences[start : start + 50])
        ours = bert(inputs)
        with torch.no_grad():
            expected = theirs(
                **{names[key]: torch.tensor(array(x)).long() for key, x in inputs.items()}, output_hidden_states=True
            )
        mask = array(inputs["input_mask"])[..., None]
        for mine, other in zip(ours["encoder_outputs"], expected.hidden_states[1:], strict=True):
            worst = max(worst, np.abs((array(mine) - other.numpy()) * mask).max())
        worst = max(worst, np.abs(array(ours["pooled_output"]) - expected.pooler_output.numpy()).max())
    assert worst <= 2e-5


def test_settings(minilm):
    bert = keras_bert.load(minilm, seq_length=16)
    assert bert.config.hidden_act == "gelu_erf"
    assert bert.preprocessor.lowercase
    assert bert.preprocessor.seq_length == 16
    assert len(bert.preprocessor.vocabulary) == 30522
    assert (bert.pooling.pooling, bert.pooling.normalize) == ("mean", True)


def test_bfloat16_points_where_float32_does(minilm):
    """Pooled and mean vectors of real sentences."""
    sentences = _sentences(minilm)
    exact, narrow = (_vectors(keras_bert.load(minilm, dtype=dtype), sentences) for dtype in ("float32", "bfloat16"))
    for x, y in zip(exact, narrow, strict=True):
        assert _cosines(x, y).min() >= 0.999


def test_bfloat16_at_the_size_of_base():
    """Random weights, in real tokens of uneven lengths."""
    config = keras_bert.BertConfig.from_size("base", vocab_size=1000)
    exact, narrow = keras_bert.Bert(config), keras_bert.Bert(config, dtype="bfloat16")
    narrow.set_weights([array(x) for x in exact.get_weights()])
    inputs = ragged_batch(config, (64, 7, 30, 1))
    for x, y in zip(_pooled_and_mean(exact, inputs), _pooled_and_mean(narrow, inputs), strict=True):
        assert _cosines(x, y).min() >= 0.999


def _vectors(bert, sentences):
    parts = [_pooled_and_mean(bert, bert.preprocessor(sentences[i : i + 50])) for i in range(0, len(sentences), 50)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _pooled_and_mean(bert, inputs):
    outputs = bert(inputs)
    mask = array(inputs["input_mask"])[..., None]
    return array(outputs["pooled_output"]), (array(outputs["sequence_output"]) * mask).sum(1) / mask.sum(1)


def _cosines(x, y):
    return (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
