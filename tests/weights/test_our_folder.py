"""Our own folder, .keras files and exports."""

import dataclasses
import json
import weakref

import h5py
import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.bert import Bert
from keras_bert.weights import hugging_face, keras_hub, our_folder
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.convert import convert
from keras_bert.weights.load import build, read
from tests.parity.oracles import array, randomize
from tests.weights import small


@pytest.mark.parametrize(
    "heads", [(), ("mlm", "nsp"), ("classifier",), ("regressor",), ("tagger",), ("qa",), ("choice",)]
)
def test_there_and_back(tmp_path, heads):
    labels = ("a", "b", "c") if heads == ("classifier",) else None
    ours = small.checkpoint(*heads, labels=labels, hidden_act="gelu_erf")
    our_folder.write_checkpoint(ours, tmp_path / "model")
    small.assert_same(ours, read(tmp_path / "model"))
    small.assert_same(ours, read(tmp_path / "model" / "model.weights.h5"))


def test_keras_reads_our_weights_and_we_read_its(tmp_path):
    ours = small.checkpoint("mlm", "nsp")
    our_folder.write_checkpoint(ours, tmp_path / "model")
    bert = Bert(ours.config)
    bert.load_weights(tmp_path / "model" / our_folder.WEIGHTS)
    expected = build(ours)
    for mine, other in zip(bert.weights, expected.weights, strict=True):
        assert (array(mine) == array(other)).all()

    folder = tmp_path / "by_keras"
    folder.mkdir()
    bert.config.to_json(folder / "bert_config.json")
    bert.save_weights(folder / our_folder.WEIGHTS)
    small.assert_equal_arrays(ours.weights, read(folder).weights)


def test_keras_file(tmp_path):
    bert = randomize(Bert(small.CONFIG))
    bert.save(tmp_path / "model.keras")
    loaded = keras_bert.load(tmp_path / "model.keras")
    for mine, other in zip(loaded.weights, bert.weights, strict=True):
        if "seed" not in mine.path:
            assert (array(mine) == array(other)).all()
    whole = (tmp_path / "model.keras").read_bytes()
    middle = len(whole) // 2
    for broken in (whole[:middle], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]):
        (tmp_path / "broken.keras").write_bytes(broken)
        with pytest.raises(ValueError, match=r"broken\.keras is damaged or incomplete"):
            keras_bert.load(tmp_path / "broken.keras")
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(tmp_path / "other.keras")
    with pytest.raises(ValueError, match=r"other\.keras holds neither a Bert nor a task"):
        keras_bert.load(tmp_path / "other.keras")


def test_every_weight_is_accounted_for(tmp_path):
    our_folder.write_checkpoint(small.checkpoint(), tmp_path / "model")
    with h5py.File(tmp_path / "model" / our_folder.WEIGHTS, "a") as file:
        del file["layers/dense/vars/1"]
    with pytest.raises(ValueError, match="Missing: layer_0_attention_qkv/1"):
        read(tmp_path / "model")
    with h5py.File(tmp_path / "model" / our_folder.WEIGHTS, "a") as file:
        file["layers/dense/vars/1"] = [0.0] * 23
    with pytest.raises(ValueError, match=r"layer_0_attention_qkv/1 has the shape \[23\], but .* should be \[24\]"):
        read(tmp_path / "model")
    config = tmp_path / "model" / "bert_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 2}))
    with pytest.raises(ValueError, match=r"Received: \[23\]|Left over: layer_2"):
        read(tmp_path / "model")


def test_pooling_of_another_kind(tmp_path):
    our_folder.write_checkpoint(small.checkpoint(), tmp_path / "model")
    (tmp_path / "model" / "pooling.json").write_text('{"mode": "mean"}')
    with pytest.raises(ValueError, match=r"pooling\.json must have exactly the keys pooling, normalize, max_length"):
        read(tmp_path / "model")


def test_unknown_folder(tmp_path):
    with pytest.raises(ValueError, match="known format"):
        keras_bert.load(tmp_path)


def test_lora_is_merged(tmp_path):
    bert = Bert(small.CONFIG, keras_bert.Preprocessor(small.VOCABULARY, seq_length=8))
    bert.enable_lora(2)
    randomize(bert)
    bert.save(tmp_path / "model.keras")
    texts = ["w1 w2", "w3"]
    plain = keras_bert.load(tmp_path / "model.keras")
    assert not plain.get_layer("layer_0_attention_qkv").lora_enabled
    np.testing.assert_allclose(plain.embed(texts), bert.embed(texts), atol=1e-6)


@pytest.mark.usefixtures("quantizes")
def test_quantized_layers_have_no_place_elsewhere(tmp_path):
    bert = Bert(small.CONFIG)
    bert.quantize("int8")
    bert.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"load_model.*layer_0_attention_qkv"):
        keras_bert.load(tmp_path / "model.keras")


@pytest.mark.parametrize("form", [our_folder, hugging_face])
def test_several_labels(tmp_path, form):
    ours = small.checkpoint("classifier", labels=("a", "b", "c"))
    ours.heads["classifier"] = dataclasses.replace(ours.heads["classifier"], multi_label=True)
    form.write_checkpoint(ours, tmp_path / "model")
    small.assert_same(ours, read(tmp_path / "model"))


def test_several_labels_without_names(tmp_path):
    ours = small.checkpoint("classifier")
    ours.heads["classifier"] = dataclasses.replace(ours.heads["classifier"], multi_label=True)
    our_folder.write_checkpoint(ours, tmp_path / "model")
    small.assert_same(ours, read(tmp_path / "model"))


TEXT_SETTINGS = {"truncation": "only_first", "special_tokens_in_text": True, "max_word_length": 50}


@pytest.mark.long
@pytest.mark.usefixtures("without_preprocess")
@pytest.mark.parametrize("form", ["keras", "folder", "export", "task", "exported task"])
def test_settings_of_text_are_kept(tmp_path, form):
    if "export" in form and keras.backend.backend() != "tensorflow":
        pytest.skip("a SavedModel is made on the TensorFlow backend")
    config = dataclasses.replace(small.CONFIG, num_hidden_layers=1)
    bert = Bert(config, keras_bert.Preprocessor(small.VOCABULARY, seq_length=8, **TEXT_SETTINGS))
    model = keras_bert.TextRegressor(bert) if "task" in form else bert
    path = tmp_path / "model"
    if "export" in form:
        keras_bert.export(model, path)
    elif form == "folder":
        our_folder.write_checkpoint(Checkpoint.of(bert), path)
    else:
        path = path.with_suffix(".keras")
        model.save(path)
    loaded = [keras_bert.load(path)] + ([keras_bert.TextRegressor.load(path).bert] if "task" in form else [])
    for one in loaded:
        assert {name: getattr(one.preprocessor, name) for name in TEXT_SETTINGS} == TEXT_SETTINGS


def test_settings_of_text_that_another_format_lacks(tmp_path):
    bert = Bert(small.CONFIG, keras_bert.Preprocessor(small.VOCABULARY, seq_length=8, **TEXT_SETTINGS))
    bert.save(tmp_path / "model.keras")
    assert TEXT_SETTINGS.keys() <= convert(tmp_path / "model.keras", "hf", tmp_path / "theirs").left_out.keys()
    left_out = convert(tmp_path / "model.keras", "keras-bert", tmp_path / "ours").left_out
    assert left_out == {"seq_length": "pass seq_length=8 when you load the result"}


@pytest.mark.parametrize("form", [our_folder, keras_hub])
@pytest.mark.parametrize("kind", ["external", "virtual"])
def test_arrays_of_another_file_are_refused(tmp_path, form, kind):
    """HDF5 would read any file of this machine."""
    form.write_checkpoint(small.checkpoint(), tmp_path / "model")
    with h5py.File(tmp_path / "model" / form.WEIGHTS, "a") as file:
        name, shape = "layers/dense/vars/1", file["layers/dense/vars/1"].shape
        del file[name]
        if kind == "external":
            file.create_dataset(name, shape, "float32", external=[("/etc/passwd", 0, 4 * shape[0])])
        else:
            layout = h5py.VirtualLayout(shape, "float32")
            layout[:] = h5py.VirtualSource("other.h5", "secret", shape)
            file.create_virtual_dataset(name, layout)
    with pytest.raises(ValueError, match=rf"takes {name} from another file.*{kind} dataset"):
        read(tmp_path / "model")


def test_the_head_of_a_class_outside_the_package_is_left_out(tmp_path):
    task = keras_bert.TextRegressor(Bert(small.CONFIG))
    task.heads = ("summary",)
    checkpoint = Checkpoint.of(task)
    assert not checkpoint.heads
    assert "head summary" in checkpoint.left_out


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="about TensorFlow's variables")
def test_a_call_does_not_copy_loaded_weights(tmp_path):
    """TensorFlow copies a variable in every read once a part of it was assigned."""
    ours = small.checkpoint(vocab_size=300_000)
    our_folder.write_checkpoint(dataclasses.replace(ours, vocabulary=None), tmp_path / "model")
    table = keras_bert.load(tmp_path / "model").get_layer("word_embeddings").embeddings
    assert np.shares_memory(*(np.asarray(memoryview(table.value.read_value())) for _ in range(2)))


def test_convert_leaves_keras_as_it_was(tmp_path, monkeypatch):
    """The names that Keras has given and the policy that the user has set; and one model is in memory at a time."""
    models = []

    def bert(*arguments, **options):
        gone = [model() for model in models]
        models.append(weakref.ref(made := Bert(*arguments, **options)))
        assert gone == [None] * len(gone)
        return made

    monkeypatch.setattr("keras_bert.weights.convert.Bert", bert)
    first = int(keras.layers.Dense(2).name.partition("_")[2] or 0)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        convert(small.checkpoint(), "keras-bert", tmp_path / "ours")
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
    assert int(keras.layers.Dense(2).name.partition("_")[2]) > first
    assert len(models) == 2
