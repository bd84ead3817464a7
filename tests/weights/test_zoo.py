"""The table of released models."""

import math
from pathlib import Path

import pytest

import keras_bert
from keras_bert.config import SIZES
from keras_bert.weights import zoo
from keras_bert.weights.google_hashes import SHA256
from keras_bert_cli.export import _metrics, load_any
from tests.tasks.small import small_task

PARAMETERS = {"base-cased": 108_310_272, "multilingual": 177_853_440, "chinese": 102_267_648, "minilm": 22_713_216}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    release = zoo.find(name)
    assert release.config == keras_bert.config.BertConfig.from_size(name)


def test_parameters_of_others():
    """The numbers that KerasHub, or for MiniLM HuggingFace, publishes for the same weights."""
    for name, count in PARAMETERS.items():
        assert zoo.find(name).parameters == count


def test_names():
    names = [name.lower() for release in zoo.RELEASES for name in (release.name, *release.aliases)]
    assert len(names) == len(set(names))
    base = zoo.find("base")
    for name in (
        "bert-base-uncased",
        "google-bert/bert-base-uncased",
        "uncased_L-12_H-768_A-12",
        "bert_base_en_uncased",
        "bert_en_uncased_L-12_H-768_A-12",
    ):
        assert zoo.find(name) is base
    miniatures = [release for release in zoo.RELEASES if (release.google or "").startswith("2020_02_20/")]
    assert len(miniatures) == 24
    assert {zoo.find(release.hugging_face).google for release in miniatures} == {r.google for r in miniatures}
    for name in ("klue/bert-base", "beomi/kcbert-base", "snunlp/KR-BERT-char16424"):
        assert zoo.find(name).language == "Korean"
    assert set(SHA256) <= {release.google for release in zoo.RELEASES}


def test_list_models():
    models = {model.name: model for model in keras_bert.list_models()}
    assert models["base"].parameters == 109_482_240
    assert models["base-cased"].cased
    assert not models["chinese"].cased
    assert math.isclose(models["large"].layers, 24)


def test_architecture_needs_no_network(monkeypatch):
    monkeypatch.setenv("KERAS_BERT_OFFLINE", "1")
    bert = keras_bert.load("tiny", weights=False)
    assert bert.count_params() == 4_385_920


def test_a_name_means_the_release_everywhere(tmp_path, monkeypatch, caplog):
    """Also where a file or folder here has the same name, such as that of a run."""
    monkeypatch.chdir(tmp_path)
    small_task("classifier").save("mini.keras")
    Path("mini.keras").rename("mini")
    Path("base").mkdir()
    Path("base", "metrics.json").write_text('{"valid": {"accuracy": 1.0}}')
    for load in (keras_bert.load, keras_bert.TextClassifier.load, load_any):
        with pytest.raises(FileNotFoundError, match="mini"):
            load("mini", local_only=True)
        assert "There is also a file or folder of this name here. To load that, write ./mini" in caplog.text
        caplog.clear()
    assert (_metrics("base"), _metrics("./base")) == (None, {"valid": {"accuracy": 1.0}})


def test_unknown_name_lists_close_ones():
    with pytest.raises(ValueError, match=r"nor a path that exists. Use a name .*Received: 'flim.keras'"):
        keras_bert.load("flim.keras")
    with pytest.raises(ValueError, match=r"Close names: base-cased.*Received: 'basecased'"):
        keras_bert.load("basecased")
    with pytest.raises(ValueError, match=r"nor a path that exists.*Received: 'x{300}'\.\.\. of 5000 characters$"):
        keras_bert.load("x" * 5000)
    with pytest.raises(TypeError, match="Received: int"):
        keras_bert.load(3)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("films/none", "no file or folder at `source`. Correct it"),
        ("~/films/none", "no file or folder at `source`; ~ is not expanded. Correct it"),
        ("https://huggingface.co/klue/bert-base/tree/main", "address of a web page. Write hf://klue/bert-base to"),
        ("hf://", "is written hf://org/name.*Received: 'hf://'"),
        ("hf://a/b/c/d", "is written hf://org/name.*Received: 'hf://a/b/c/d'"),
        ("hf://../..", "is written hf://org/name.*Received: 'hf://../..'"),
    ],
)
def test_sources_that_name_nothing(source, error):
    for load in (keras_bert.load, keras_bert.TextClassifier.load):
        with pytest.raises(ValueError, match=error):
            load(source)


@pytest.mark.parametrize("dtype", ["int8x", "string", 5])
def test_a_dtype_that_is_not_of_real_numbers(dtype):
    for load in (keras_bert.load, keras_bert.TextClassifier.load):
        with pytest.raises(ValueError, match=rf"`dtype` must be.*Use float32, bfloat16, .*Received: dtype={dtype!r}"):
            load("tiny", dtype=dtype)
