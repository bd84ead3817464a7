"""A real model from HuggingFace's own format: every layer against transformers, on real sentences."""

import re

import numpy as np

import keras_bert
from tests.parity.oracles import array


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
