"""HuggingFace folders, made by transformers and read by us, and the other way."""

import json
import re

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.weights import hugging_face
from keras_bert.weights.convert import convert
from keras_bert.weights.load import build, read
from tests.parity.oracles import hugging_face_inputs
from tests.weights import small
from tests.weights.hugging_face_folders import LABELS, bert_of_theirs, edit, folder_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CLASSES = {
    "BertModel": (),
    "BertForPreTraining": ("mlm", "nsp"),
    "BertForMaskedLM": ("mlm",),
    "BertForNextSentencePrediction": ("nsp",),
    "BertForSequenceClassification": ("classifier",),
    "BertForTokenClassification": ("tagger",),
    "BertForQuestionAnswering": ("qa",),
    "BertForMultipleChoice": ("choice",),
}


def _logits(model, kind):
    inputs = hugging_face_inputs(small.INPUTS)
    if kind == "BertForMultipleChoice":
        inputs = {name: x[:, None] for name, x in inputs.items()}
    with torch.no_grad():
        return model(**inputs, output_hidden_states=True)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("act", ["gelu", "gelu_new"])
def test_read_what_transformers_wrote(tmp_path, kind, act):
    if act == "gelu_new" and CLASSES[kind] != ("mlm",):
        pytest.skip("one class is enough")
    model = bert_of_theirs(kind, act)
    checkpoint = read(folder_of(tmp_path / "model", model))
    assert set(checkpoint.heads) == set(CLASSES[kind])
    ours, theirs, mask = small.outputs(checkpoint), _logits(model, kind), small.INPUTS["input_mask"]
    for mine, other in zip(ours["encoder_outputs"], theirs.hidden_states[1:], strict=True):
        assert small.close(mine, other, mask) <= 1e-5
    if "pooler_output" in theirs:
        assert small.close(ours["pooled_output"], theirs.pooler_output) <= 1e-5
    if "mlm" in ours:
        logits = theirs["prediction_logits" if "nsp" in ours else "logits"].numpy()
        assert small.close(ours["mlm"], np.take_along_axis(logits, small.POSITIONS[..., None], 1)) <= 1e-5
    if "nsp" in ours:
        assert small.close(ours["nsp"], theirs["seq_relationship_logits" if "mlm" in ours else "logits"]) <= 1e-5
    for head in ("classifier", "tagger", "choice"):
        if head in ours:
            assert small.close(ours[head], theirs.logits, mask if head == "tagger" else None) <= 1e-5
    if "qa" in ours:
        assert small.close(ours["qa"], torch.stack([theirs.start_logits, theirs.end_logits], -1), mask) <= 1e-5
    labelled = [head for head in ("classifier", "tagger") if head in checkpoint.heads]
    assert all(checkpoint.heads[head].labels == LABELS for head in labelled)


@pytest.mark.parametrize("heads", [*dict.fromkeys(CLASSES.values()), ("regressor",)])
def test_transformers_reads_what_we_wrote(tmp_path, heads):
    ours = small.checkpoint(*heads, labels=LABELS if heads == ("classifier",) else None)
    hugging_face.write_checkpoint(ours, tmp_path / "model")
    again = read(tmp_path / "model")
    if heads in (("tagger",), ("classifier",)):
        again.heads[heads[0]] = type(again.heads[heads[0]])(again.heads[heads[0]].weights, ours.heads[heads[0]].labels)
    if heads in (("tagger",), ("qa",)):
        ours = ours.without({"pooler"})
    small.assert_same(ours, again)
    kind = json.loads((tmp_path / "model" / "config.json").read_text())["architectures"][0]
    model, report = getattr(transformers, kind).from_pretrained(
        tmp_path / "model", output_loading_info=True, attn_implementation="eager"
    )
    assert not report["missing_keys"]
    if heads != ("mlm",):  # whose class has no pooler either, but which may be the base of another task
        assert not report["unexpected_keys"]
    theirs = _logits(model.eval(), kind)
    expected = small.outputs(ours)
    assert small.close(expected["sequence_output"], theirs.hidden_states[-1], small.INPUTS["input_mask"]) <= 1e-5
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer("W3 w17")["input_ids"] == [2, 8, 22, 3]


def test_sharded_old_names_and_buffers(tmp_path):
    from safetensors.numpy import load_file, save_file

    model = bert_of_theirs("BertForPreTraining")
    whole = folder_of(tmp_path / "whole", model)
    model.save_pretrained(tmp_path / "sharded", max_shard_size="4KB")
    assert not (tmp_path / "sharded" / "model.safetensors").exists()
    sharded = read(tmp_path / "sharded")
    expected = read(folder_of(tmp_path / "expected", model))
    small.assert_equal_arrays(expected.weights, sharded.weights)

    arrays = load_file(whole / "model.safetensors")
    old = {}
    for name, x in arrays.items():
        old[name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = x
    old["bert.embeddings.position_ids"] = np.arange(16)[None]
    old["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"]
    save_file(old, whole / "model.safetensors")
    again = read(whole)
    small.assert_equal_arrays(expected.weights, again.weights)
    small.assert_equal_arrays(expected.heads["mlm"].weights, again.heads["mlm"].weights)
    assert "embeddings.position_ids" in again.left_out

    old["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"] + 1
    save_file(old, whole / "model.safetensors")
    head = read(whole).heads["mlm"]
    with pytest.raises(ValueError, match=r"cls\.predictions\.decoder\.weight that differs"):
        head.weights["mlm_dense/kernel"].read()


def test_the_path_of_the_weights(tmp_path):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    checkpoint = read(folder / "model.safetensors")
    assert checkpoint.vocabulary == small.VOCABULARY
    small.assert_equal_arrays(read(folder).weights, checkpoint.weights)


@pytest.mark.parametrize(
    ("file", "error"),
    [("adapter_config.json", "only a PEFT adapter.*merge_and_unload"), ("model.onnx", "is an ONNX model")],
)
def test_folders_of_other_tools(tmp_path, file, error):
    (tmp_path / file).write_text("{}")
    with pytest.raises(ValueError, match=error):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            lambda arrays: arrays.pop("encoder.layer.1.output.dense.bias"),
            r"Missing: encoder\.layer\.1\.output\.dense\.bias",
        ),
        (lambda arrays: arrays.update(extra=np.zeros(2)), "Left over: extra"),
        (
            lambda arrays: arrays.update({"pooler.dense.bias": np.zeros(9)}),
            r"pooler\.dense\.bias has the shape \[9\], but .* should be \[8\]",
        ),
        (lambda arrays: arrays.pop("pooler.dense.bias"), r"Missing: pooler\.dense\.bias"),
        (lambda arrays: arrays.update({"bert.pooler.dense.bias": np.zeros(8)}), r"pooler\.dense\.bias under two names"),
        (
            lambda arrays: arrays.update({"embeddings.LayerNorm.gamma": np.zeros(8)}),
            r"embeddings\.LayerNorm\.weight under two names",
        ),
    ],
)
def test_every_weight_is_accounted_for(tmp_path, change, error):
    from safetensors.numpy import load_file, save_file

    folder = folder_of(tmp_path / "model", bert_of_theirs())
    arrays = load_file(folder / "model.safetensors")
    change(arrays)
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(ValueError, match=error):
        read(folder)


def test_weights_are_numbers(tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = folder_of(tmp_path / "model", bert_of_theirs())
    arrays = load_file(folder / "model.safetensors")
    name = "encoder.layer.1.output.dense.bias"
    arrays[name][3] = 1e30  # whose square is infinite, but not itself
    save_file(arrays, folder / "model.safetensors")
    build(read(folder))
    for number in (np.nan, -np.inf):
        arrays[name][3] = number
        save_file(arrays, folder / "model.safetensors")
        with pytest.raises(ValueError, match=rf"{folder} has a weight with NaN or infinity: {re.escape(name)}"):
            build(read(folder))


def test_others_may_read_what_we_wrote(tmp_path):
    hugging_face.write_checkpoint(small.checkpoint(), tmp_path / "model")
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("special_tokens_map.json", {"cls_token": {"content": "<s>"}}, "cls_token must be"),
        ("tokenizer.json", {"model": {"type": "WordPiece", "vocab": {"a": 0}}}, "must give the same ids"),
        ("tokenizer.json", {"model": ["a"]}, "in a form that transformers does not write"),
        ("tokenizer_config.json", {"added_tokens_decoder": ["a"]}, "in a form that transformers does not write"),
        ("model.safetensors.index.json", ["a"], "must hold one JSON object"),
        ("model.safetensors.index.json", {"weight_map": ["a"]}, "has no weight_map from weights to file names"),
        (
            "model.safetensors.index.json",
            {"weight_map": {"a": "../b.safetensors"}},
            "shards outside its own folder",
        ),
    ],
)
def test_odd_json(tmp_path, file, content, error):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    (folder / file).write_text(json.dumps(content))
    if "index" in file:
        (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=error):
        read(folder)


@pytest.mark.parametrize(
    "labels",
    [
        ["bad", "good", "best"],
        {"0": "bad", "1": "good"},
        {"a": "bad"},
        {"0": "bad", "1": "good", "2": None},
        {"0": "bad", "1": "good", "2": ""},
    ],
)
def test_labels_are_those_of_the_outputs(tmp_path, labels):
    folder = folder_of(tmp_path / "model", bert_of_theirs("BertForSequenceClassification"))
    edit(folder / "config.json", id2label=labels)
    with pytest.raises(ValueError, match=r"id2label that does not give each of the 3 outputs a name.*pass `labels`"):
        read(folder)
    edit(folder / "config.json", id2label=None)
    assert TextClassifier.load(folder, labels=("a", "b", "c")).labels == ("a", "b", "c")
    with pytest.raises(ValueError, match=r"has 3 outputs, but the new task has 2\."):
        TextClassifier.load(folder, labels=("a", "b"))
    with pytest.raises(TypeError, match=r"TextClassifier\.load has no argument 'max_length'.*such as seq_length"):
        TextClassifier.load(folder, max_length=512)


def test_a_folder_without_a_vocabulary_is_told(tmp_path, caplog):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    keras_bert.load(folder)
    assert "has no vocabulary" not in caplog.text
    for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink(missing_ok=True)
    assert not keras_bert.load(folder).has_preprocessor
    assert "has no vocabulary, so the model takes ids but no text" in caplog.text
    with pytest.raises(ValueError, match=r"is one file of a model\. Pass the folder"):
        keras_bert.load(folder / "config.json")


def _another_architecture(folder):
    edit(folder / "config.json", model_type="roberta")


def _sentencepiece(folder):
    (folder / "vocab.txt").unlink()
    (folder / "spiece.model").write_bytes(b"x")


def _cut_off(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def _longer_vocabulary(folder):
    with open(folder / "vocab.txt", "a") as file:
        file.write("another\n")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (_another_architecture, "is not the config of a BERT.*'roberta'"),
        (_sentencepiece, r"SentencePiece.*spiece\.model"),
        (_cut_off, r"model\.safetensors is damaged"),
        (_longer_vocabulary, "24 word vectors.*25 pieces"),
        (lambda folder: (folder / "model.safetensors").unlink(), "folder without weights.*tf_model"),
        (lambda folder: (folder / "config.json").write_text("{"), "must be JSON"),
        (lambda folder: edit(folder / "config.json", num_hidden_layers=2), r"Left over: encoder\.layer\.2"),
        (lambda folder: edit(folder / "config.json", intermediate_size=21), r"\[21, 8\].*Received: \[20, 8\]"),
        (lambda folder: edit(folder / "config.json", is_decoder=True), "is_decoder"),
    ],
)
def test_bad_folders(tmp_path, damage, error):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    damage(folder)
    with pytest.raises(ValueError, match=error) as raised:
        read(folder)
    assert "\n" not in str(raised.value)


def test_a_folder_appears_complete_or_not_at_all(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(hugging_face, "write_weights", fail)
    with pytest.raises(OSError, match="No space"):
        convert(small.checkpoint(), "hf", tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_regression_head_of_several_outputs(tmp_path):
    hugging_face.write_checkpoint(small.checkpoint("classifier", num_hidden_layers=1), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "problem_type": "regression"}))
    with pytest.raises(ValueError, match=r"several outputs.* Train a new head: .* of shape \(8, 3\)"):
        TextRegressor.load(tmp_path / "model")
