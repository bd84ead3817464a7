import dataclasses
import gc
import json
import logging

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.config import SIZES, UNCASED_VOCAB, BertConfig
from keras_bert.layers.dense import blank_weights, dense
from keras_bert.layers.mlm_head import mlm_head

# Devlin et al. 2018 and google-research/bert's table of miniatures; cased differs by 30522 - 28996 rows.
CASED_VOCAB = 28996
PARAMETERS = {  # of the encoder with its pooler, uncased and cased, and of the uncased one with MLM and NSP
    "tiny": (4_385_920, 4_190_592, 4_433_468),
    "mini": (11_170_560, 10_779_904, 11_267_900),
    "small": (28_763_648, 27_982_336, 29_058_876),
    "medium": (41_373_184, 40_591_872, 41_668_412),
    "base": (109_482_240, 108_310_272, 110_106_428),
    "large": (335_141_888, 333_579_264, 336_226_108),
}


def _with_heads(config):
    bert = Bert(config)
    positions = keras.Input((None,), dtype="int32", name="masked_lm_positions")
    logits = mlm_head(bert.output["sequence_output"], positions, bert.word_embeddings, config)
    nsp = dense(2, config, name="nsp")(bert.output["pooled_output"])
    return keras.Model({**bert.input, "masked_lm_positions": positions}, {"mlm": logits, "nsp": nsp})


@pytest.mark.parametrize("size", SIZES)
def test_parameters_of_every_size(size):
    uncased, cased, with_heads = PARAMETERS[size]
    with blank_weights():
        for make, vocab_size, expected in (
            (Bert, UNCASED_VOCAB, uncased),
            (Bert, CASED_VOCAB, cased),
            (_with_heads, UNCASED_VOCAB, with_heads),
        ):
            assert make(BertConfig.from_size(size, vocab_size=vocab_size)).count_params() == expected
            gc.collect()  # of large ones there is no room for three


def test_json_round_trip(tmp_path):
    config = BertConfig.from_size("mini", hidden_act="gelu_erf", vocab_size=77)
    config.to_json(tmp_path / "bert_config.json")
    assert BertConfig.from_json(tmp_path / "bert_config.json") == config
    assert [path.name for path in tmp_path.iterdir()] == ["bert_config.json"]


def test_whole_numbers_of_numpy():
    config = BertConfig.from_size("tiny", vocab_size=np.int64(77))
    assert json.loads(json.dumps(dataclasses.asdict(config)))["vocab_size"] == 77


GOOGLE = {  # google's chinese model has the keys that we have no use for
    "attention_probs_dropout_prob": 0.1,
    "directionality": "bidi",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
    "type_vocab_size": 2,
    "vocab_size": 21128,
}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, "gelu_tanh"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "gelu_erf"),
        ({"model_type": "bert", "hidden_act": "gelu_new"}, "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu_pytorch_tanh"}, "gelu_tanh"),
        ({"hidden_act": "gelu_python"}, "gelu_erf"),
        ({"hidden_act": "gelu_erf"}, "gelu_erf"),
    ],
)
def test_which_gelu(tmp_path, caplog, extra, expected):
    (tmp_path / "config.json").write_text(json.dumps({**GOOGLE, **extra}))
    with caplog.at_level(logging.INFO, "keras_bert"):
        config = BertConfig.from_json(tmp_path / "config.json")
    assert config.hidden_act == expected
    assert config.vocab_size == 21128
    if {**GOOGLE, **extra}["hidden_act"] == "gelu":
        assert expected in caplog.text
        assert "because" in caplog.text or "means" in caplog.text


def test_config_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.BertConfig(hidden_size=48, num_attention_heads=4).save_pretrained(tmp_path)
    config = BertConfig.from_json(tmp_path / "config.json")
    assert (config.hidden_size, config.hidden_act) == (48, "gelu_erf")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", r"config\.json must be JSON"),
        ("[1]", "one JSON object"),
        (
            '{"vocab_size": 10}',
            r"config\.json lacks hidden_size, num_hidden_layers, num_attention_heads, intermediate_size",
        ),
        (json.dumps({**GOOGLE, "model_type": "roberta"}), r"config\.json is not the config of a BERT"),
        (json.dumps({**GOOGLE, "position_embedding_type": "relative_key"}), "relative positions"),
        (
            json.dumps({**GOOGLE, "hidden_act": "swish"}),
            r"config\.json: `hidden_act` must be gelu_tanh or gelu_erf",
        ),
        (json.dumps({**GOOGLE, "hidden_size": "768"}), r"config\.json: `hidden_size` must be of type int"),
    ],
)
def test_bad_files(tmp_path, text, says):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=says):
        BertConfig.from_json(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": 770}, "multiple of `num_attention_heads`"),
        ({"num_hidden_layers": -1}, "`num_hidden_layers` must be above 0"),
        ({"vocab_size": 0}, "`vocab_size` must be above 0"),
        ({"num_hidden_layers": 10**9}, "`num_hidden_layers` must be at most 1000"),
        ({"layer_norm_eps": float("inf")}, "`layer_norm_eps` must be above 0 and finite"),
        ({"num_hidden_layers": 10**400}, "`num_hidden_layers` must be at most 1000"),
        ({"hidden_act": "gelu"}, "`hidden_act` must be gelu_tanh or"),
        ({"hidden_dropout_prob": 1.0}, "at least 0 and below 1"),
        ({"hidden_dropout_prob": True}, "type float"),
    ],
)
def test_bad_numbers(change, says):
    with pytest.raises((ValueError, TypeError), match=says):
        BertConfig(**change)


def test_frozen_and_unknown_size():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BertConfig().hidden_size = 1
    with pytest.raises(ValueError, match="tiny, mini, small"):
        BertConfig.from_size("huge")
