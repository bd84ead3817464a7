"""The encoder against HuggingFace, KerasHub and Model Garden, with the same random weights."""

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from tests.parity import oracles

SMALL = {
    "vocab_size": 100,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 16,
}


def _difference(ours, theirs, mask):
    """The largest difference on real tokens."""
    return np.abs((oracles.array(ours) - np.asarray(theirs)) * mask[..., None]).max()


def _bert(hidden_act="gelu_tanh"):
    config = BertConfig(**SMALL, hidden_act=hidden_act)
    return oracles.randomize(Bert(config)), oracles.ragged_batch(config)


@pytest.mark.parametrize("hidden_act", ["gelu_tanh", "gelu_erf"])
def test_hugging_face(hidden_act):
    import torch

    bert, inputs = _bert(hidden_act)
    outputs = bert(inputs)
    with torch.no_grad():
        theirs = oracles.hugging_face(bert)(**oracles.hugging_face_inputs(inputs), output_hidden_states=True)
    mask = inputs["input_mask"]
    for mine, other in zip(outputs["encoder_outputs"], theirs.hidden_states[1:], strict=True):
        assert _difference(mine, other, mask) <= 1e-5
    assert _difference(outputs["sequence_output"], theirs.last_hidden_state, mask) <= 1e-5
    assert np.abs(oracles.array(outputs["pooled_output"]) - theirs.pooler_output.numpy()).max() <= 1e-5


def test_keras_hub():
    bert, inputs = _bert()
    outputs = bert(inputs)
    theirs = oracles.keras_hub(bert)(
        {
            "token_ids": inputs["input_word_ids"],
            "padding_mask": inputs["input_mask"],
            "segment_ids": inputs["input_type_ids"],
        }
    )
    assert (
        _difference(outputs["sequence_output"], oracles.array(theirs["sequence_output"]), inputs["input_mask"]) <= 1e-5
    )
    assert np.abs(oracles.array(outputs["pooled_output"]) - oracles.array(theirs["pooled_output"])).max() <= 1e-5


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="Model Garden runs on TensorFlow")
@pytest.mark.parametrize("hidden_act", ["gelu_tanh", "gelu_erf"])
def test_model_garden(hidden_act):
    pytest.importorskip("official", reason="pip install 'keras3-bert[pretrain]'")
    bert, inputs = _bert(hidden_act)
    outputs = bert(inputs)
    theirs = oracles.model_garden(bert)(inputs)
    mask = inputs["input_mask"]
    for mine, other in zip(outputs["encoder_outputs"], theirs["encoder_outputs"], strict=True):
        assert _difference(mine, other.numpy(), mask) <= 1e-5
    assert np.abs(oracles.array(outputs["pooled_output"]) - theirs["pooled_output"].numpy()).max() <= 1e-5
