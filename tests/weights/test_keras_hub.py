"""KerasHub's presets and live backbones, made by keras_hub."""

import shutil

import h5py
import keras
import numpy as np
import pytest

from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import keras_hub as form
from keras_bert.weights.load import read
from tests.parity.oracles import array
from tests.weights import small

keras_hub = pytest.importorskip("keras_hub", reason="pip install 'keras3-bert[keras-nlp]'")


def _backbone():
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=24,
        num_layers=3,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=20,
        max_sequence_length=16,
    )
    rng = np.random.default_rng(0)
    for weight in backbone.weights:
        if "seed" not in weight.path:
            center = 1.0 if weight.path.endswith("gamma") else 0.0
            weight.assign(center + 0.2 * rng.standard_normal(weight.shape))
    return backbone


def _tokenizer():
    return keras_hub.models.BertTokenizer(vocabulary=list(small.VOCABULARY.tokens), lowercase=True)


def _inputs():
    names = {"input_word_ids": "token_ids", "input_mask": "padding_mask", "input_type_ids": "segment_ids"}
    return {names[key]: keras.ops.convert_to_tensor(x) for key, x in small.INPUTS.items()}


def _assert_agrees(checkpoint, backbone):
    ours, theirs = small.outputs(checkpoint), backbone(_inputs())
    mask = small.INPUTS["input_mask"]
    assert small.close(ours["sequence_output"], array(theirs["sequence_output"]), mask) <= 1e-5
    assert small.close(ours["pooled_output"], array(theirs["pooled_output"])) <= 1e-5
    return ours


def test_live_backbone_and_back(tmp_path):
    backbone = _backbone()
    checkpoint = form.from_backbone(backbone)
    _assert_agrees(checkpoint, backbone)
    form.write_checkpoint(checkpoint, tmp_path / "preset")
    again = keras_hub.models.BertBackbone.from_preset(str(tmp_path / "preset"))
    for mine, other in zip(again.weights, backbone.weights, strict=True):
        if "seed" not in mine.path:
            assert np.array_equal(array(mine), array(other)), mine.path


def test_read_masked_lm_preset(tmp_path):
    backbone = _backbone()
    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(_tokenizer(), sequence_length=12)
    task = keras_hub.models.BertMaskedLM(backbone, preprocessor=preprocessor)
    rng = np.random.default_rng(1)
    for weight in task.masked_lm_head.weights:
        if "token_embedding" not in weight.path:
            weight.assign(0.5 + 0.2 * rng.standard_normal(weight.shape))
    task.save_to_preset(str(tmp_path / "preset"))
    checkpoint = read(tmp_path / "preset")
    ours = _assert_agrees(checkpoint, backbone)
    theirs = array(task({**_inputs(), "mask_positions": keras.ops.convert_to_tensor(small.POSITIONS)}))
    assert small.close(ours["mlm"], theirs) <= 1e-5
    assert checkpoint.vocabulary == small.VOCABULARY
    assert checkpoint.rules == TextRules(True, False)  # its vocabulary has é


def test_read_classifier_preset(tmp_path):
    backbone = _backbone()
    task = keras_hub.models.BertTextClassifier(backbone, num_classes=3, preprocessor=None)
    task.save_to_preset(str(tmp_path / "preset"))
    checkpoint = read(tmp_path / "preset")
    ours = _assert_agrees(checkpoint, backbone)
    assert small.close(ours["classifier"], array(task(_inputs()))) <= 1e-5


def test_keras_hub_reads_what_we_wrote(tmp_path):
    ours = small.checkpoint(rules=TextRules(True))
    ours.vocabulary = Vocabulary([*small.VOCABULARY.tokens[:-1], "e"])
    form.write_checkpoint(ours, tmp_path / "preset")
    small.assert_same(ours, read(tmp_path / "preset"))
    backbone = keras_hub.models.BertBackbone.from_preset(str(tmp_path / "preset"))
    _assert_agrees(ours, backbone)
    tokenizer = keras_hub.models.BertTokenizer.from_preset(str(tmp_path / "preset"))
    assert array(tokenizer("W3 é")).astype(int).tolist() == [8, 23]


@pytest.mark.parametrize(
    ("rules", "ids"),
    [
        (TextRules(True), [23, 24]),
        (TextRules(True, False), [1, 24]),
        (TextRules(True, None, False), [23, 1]),
        (TextRules(False, False, False), [1, 1]),
    ],
)
def test_rules_of_text(tmp_path, rules, ids):
    """KerasHub's tokenizer cuts text by them, and we read them back, whatever the vocabulary would say."""
    ours = small.checkpoint(rules=rules, vocab_size=26)
    ours.vocabulary = Vocabulary([*small.VOCABULARY.tokens[:-1], "e", "中", "国"])
    form.write_checkpoint(ours, tmp_path / "preset")
    small.assert_same(ours, read(tmp_path / "preset"))
    tokenizer = keras_hub.models.BertTokenizer.from_preset(str(tmp_path / "preset"))
    assert array(tokenizer("é 中国")).astype(int).tolist()[:2] == ids


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda file: file.__delitem__("layers/dense/vars/1"), "Missing: layers/dense/vars/1"),
        (lambda file: file.create_dataset("layers/more/vars/0", data=np.zeros(2)), "Left over: layers/more"),
    ],
)
def test_every_weight_is_accounted_for(tmp_path, change, error):
    form.write_checkpoint(small.checkpoint(), tmp_path / "preset")
    with h5py.File(tmp_path / "preset" / form.WEIGHTS, "a") as file:
        change(file)
    with pytest.raises(ValueError, match=error):
        read(tmp_path / "preset")


def test_a_preset_that_does_not_say_how_text_is_cut(tmp_path):
    form.write_checkpoint(small.checkpoint(), tmp_path / "preset")
    (tmp_path / "preset" / "tokenizer.json").unlink()
    assert read(tmp_path / "preset").rules == TextRules(lowercase=True, strip_accents=False)  # é, and no capital


def test_bad_presets(tmp_path):
    form.write_checkpoint(small.checkpoint(), tmp_path / "preset")
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "preset", whole)
    weights = tmp_path / "preset" / form.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"model\.weights\.h5 is damaged"):
        read(tmp_path / "preset")
    config = whole / "config.json"
    config.write_text(config.read_text().replace("BertBackbone", "RobertaBackbone"))
    with pytest.raises(ValueError, match="RobertaBackbone"):
        read(whole)
    config.write_text('{"class_name": "BertBackbone"}')
    with pytest.raises(ValueError, match=r"config\.json lacks vocabulary_size"):
        read(whole)
    with pytest.raises(ValueError, match="tanh GELU"):
        form.write_checkpoint(small.checkpoint(hidden_act="gelu_erf"), tmp_path / "other")
    with pytest.raises(ValueError, match=r"head nsp.*Leave the head out"):
        form.write_checkpoint(small.checkpoint("nsp"), tmp_path / "other")
