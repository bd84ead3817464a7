"""Google's TF1 checkpoints, made by TF1's own Saver under Google's names."""

import dataclasses
import json

import numpy as np
import pytest

from keras_bert.weights import google
from keras_bert.weights.load import read
from tests.parity.oracles import hugging_face_names
from tests.weights import small

tf = pytest.importorskip("tensorflow")

CONFIG = {
    "vocab_size": 24,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}
HEADS = {
    "cls/predictions/transform/dense/kernel": (8, 8),
    "cls/predictions/transform/dense/bias": (8,),
    "cls/predictions/transform/LayerNorm/gamma": (8,),
    "cls/predictions/transform/LayerNorm/beta": (8,),
    "cls/predictions/output_bias": (24,),
    "cls/seq_relationship/output_weights": (2, 8),
    "cls/seq_relationship/output_bias": (2,),
}


def _google_shapes(layers=3):
    """The variables of google-research/bert's modeling.py, in its words."""
    shapes = {
        "bert/embeddings/word_embeddings": (24, 8),
        "bert/embeddings/token_type_embeddings": (2, 8),
        "bert/embeddings/position_embeddings": (16, 8),
        "bert/embeddings/LayerNorm/beta": (8,),
        "bert/embeddings/LayerNorm/gamma": (8,),
        "bert/pooler/dense/kernel": (8, 8),
        "bert/pooler/dense/bias": (8,),
    }
    for i in range(layers):
        for name, inner, outer in (
            ("attention/self/query", 8, 8),
            ("attention/self/key", 8, 8),
            ("attention/self/value", 8, 8),
            ("attention/output/dense", 8, 8),
            ("intermediate/dense", 8, 20),
            ("output/dense", 20, 8),
        ):
            shapes[f"bert/encoder/layer_{i}/{name}/kernel"] = (inner, outer)
            shapes[f"bert/encoder/layer_{i}/{name}/bias"] = (outer,)
        for name in ("attention/output", "output"):
            shapes[f"bert/encoder/layer_{i}/{name}/LayerNorm/gamma"] = (8,)
            shapes[f"bert/encoder/layer_{i}/{name}/LayerNorm/beta"] = (8,)
    return shapes


def _save(folder, arrays, prefix="bert_model.ckpt"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bert_config.json").write_text(json.dumps(CONFIG))
    small.VOCABULARY.save(folder / "vocab.txt")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, x in arrays.items():
            tf.compat.v1.get_variable(name, initializer=x)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(folder / prefix))
    (folder / "checkpoint").unlink()
    return folder


def _in_transformers(arrays):
    """The same weights in transformers, by its own names for Google's."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    settings = {key: value for key, value in CONFIG.items() if key != "hidden_act"}
    config = transformers.BertConfig(**settings, hidden_act="gelu_new", attn_implementation="eager")
    model = transformers.BertForPreTraining(config).eval()
    state = model.state_dict()
    for name, x in arrays.items():
        theirs = name.replace("/", ".").replace("layer_", "layer.")
        for word, other in (("kernel", "weight"), ("gamma", "weight"), ("beta", "bias"), ("output_weights", "weight")):
            theirs = theirs.replace(f".{word}", f".{other}")
        theirs = theirs.replace("output_bias", "bias")
        if theirs.endswith("embeddings"):
            theirs += ".weight"
        state[theirs] = torch.tensor(x.T.copy() if name.endswith("kernel") else x)
    model.load_state_dict(state)
    model.tie_weights()
    return model


def test_read_what_the_saver_wrote(tmp_path):
    from tests.parity.oracles import hugging_face_inputs

    assert len(_google_shapes()) == len(hugging_face_names(3))
    arrays = small.random_arrays({**_google_shapes(), **HEADS})
    names = ("adam_m", "LAMB_1")  # Google's, and those of MLPerf's checkpoint
    slots = {f"{name}/{slot}": x for name, x in arrays.items() for slot in names} | {"global_step": np.int64(7)}
    checkpoint = read(_save(tmp_path / "model", {**arrays, **slots}))
    assert set(checkpoint.heads) == {"mlm", "nsp"}
    assert checkpoint.config.hidden_act == "gelu_tanh"
    assert set(checkpoint.left_out) == set(slots)
    ours = small.outputs(checkpoint)
    model = _in_transformers(arrays)
    theirs = model(**hugging_face_inputs(small.INPUTS), output_hidden_states=True)
    mask = small.INPUTS["input_mask"]
    for mine, other in zip(ours["encoder_outputs"], theirs.hidden_states[1:], strict=True):
        assert small.close(mine, other.detach(), mask) <= 1e-5
    logits = np.take_along_axis(theirs.prediction_logits.detach().numpy(), small.POSITIONS[..., None], 1)
    assert small.close(ours["mlm"], logits) <= 1e-5
    assert small.close(ours["nsp"], theirs.seq_relationship_logits.detach()) <= 1e-5


@pytest.mark.parametrize(
    "path", ["", "bert_model.ckpt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]
)
def test_paths(tmp_path, path):
    folder = _save(tmp_path / "model", small.random_arrays(_google_shapes()))
    assert not read(folder / path).heads


@pytest.mark.parametrize("heads", [(), ("mlm", "nsp"), ("classifier",), ("qa",)])
def test_ours_to_google_and_back(tmp_path, heads):
    ours = small.checkpoint(*heads)
    google.write_checkpoint(ours, tmp_path / "model")
    small.assert_same(ours, read(tmp_path / "model"))
    names = {name for name, _ in tf.train.list_variables(str(tmp_path / "model" / "bert_model.ckpt"))}
    assert set(_google_shapes()) <= names
    assert (set(HEADS) <= names) == (heads == ("mlm", "nsp"))


def test_what_the_scripts_lack(tmp_path):
    """run_classifier.py knows only "gelu" and computes a softmax, so it must refuse models with anything else."""
    ours = small.checkpoint(hidden_act="gelu_erf")
    google.write_checkpoint(ours, tmp_path / "model")
    assert json.loads((tmp_path / "model" / "bert_config.json").read_text())["hidden_act"] == "gelu_erf"
    small.assert_same(ours, read(tmp_path / "model"))
    ours = small.checkpoint("classifier")
    ours.heads["classifier"] = dataclasses.replace(ours.heads["classifier"], multi_label=True)
    with pytest.raises(ValueError, match=r"head classifier.*several of its labels may apply"):
        google.write_checkpoint(ours, tmp_path / "several")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda arrays: arrays.pop("bert/pooler/dense/bias"), "Missing: bert/pooler/dense/bias"),
        (lambda arrays: arrays.update({"bert/more": np.zeros(2, "f")}), "Left over: bert/more"),
        (
            lambda arrays: arrays.update({"bert/pooler/dense/bias": np.zeros(9, "f")}),
            r"bias has the shape \[9\], but .* should be \[8\]",
        ),
        (lambda arrays: arrays.update({"cls/predictions/output_bias": np.zeros(24, "f")}), "Missing: cls/predictions"),
    ],
)
def test_every_weight_is_accounted_for(tmp_path, change, error):
    arrays = small.random_arrays(_google_shapes())
    change(arrays)
    folder = _save(tmp_path / "model", arrays)
    with pytest.raises(ValueError, match=error):
        read(folder)


def test_bad_files(tmp_path):
    folder = _save(tmp_path / "model", small.random_arrays(_google_shapes()))
    data = folder / "bert_model.ckpt.data-00000-of-00001"
    whole = data.read_bytes()
    data.write_bytes(whole[:100])
    with pytest.raises(ValueError, match=r"has a damaged or incomplete \.data file"):
        small.outputs(read(folder))
    data.unlink()
    with pytest.raises(FileNotFoundError, match=r"data-00000-of-00001"):
        read(folder)
    data.write_bytes(whole)
    (folder / "bert_config.json").rename(folder / "other.json")
    with pytest.raises(FileNotFoundError, match=r"no bert_config\.json"):
        read(folder)
    index = folder / "bert_model.ckpt.index"
    index.write_bytes(index.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"\.index is damaged"):
        read(folder)


def test_the_vocabulary_shows_the_casing(minilm, shared):
    from keras_bert.text.vocabulary import Vocabulary
    from keras_bert.weights.tokenizer_files import rules_of

    assert rules_of(Vocabulary.from_file(minilm / "vocab.txt"), "") == small.TextRules(True)
    for name in ("kcbert-30000.txt", "multi_cased-119547.txt"):
        assert rules_of(Vocabulary.from_file(shared / "vocab" / name), "") == small.TextRules(False)
    hangul = Vocabulary([*small.VOCABULARY.tokens, "한국"])
    assert rules_of(hangul, "") == small.TextRules(True, False)
