"""An export that is loaded again is the model it was made from, in every dtype, from a disk or a bucket."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.vectors import Pooling
from tests.exports.conftest import PARTS, SEQ_LENGTH, make, randomized

pytestmark = pytest.mark.long

TEXTS = ["w1 w2 É", "", "w3 " * 20]


@pytest.mark.parametrize("place", ["", "encoder", "encoder/1", "text", "text/1"])
def test_round_trip(exported, bert, place):
    again = keras_bert.load(exported / place, seq_length=SEQ_LENGTH)
    assert again.config == bert.config
    for found, expected in zip(again.weights, bert.weights, strict=True):
        np.testing.assert_array_equal(found, expected)
    ours, theirs = again.preprocessor.get_config(), bert.preprocessor.get_config()
    assert {**ours, "name": None} == {**theirs, "name": None}


@pytest.mark.usefixtures("without_preprocess")
def test_a_loaded_task_is_as_long_as_its_export(tmp_path):
    task = randomized(keras_bert.TextClassifier(make(num_hidden_layers=1), labels=("no", "yes")))
    keras_bert.export(task, tmp_path, seq_length=5)
    assert task.bert.preprocessor.seq_length == SEQ_LENGTH
    again = keras_bert.TextClassifier.load(tmp_path)
    assert again.bert.preprocessor.seq_length == 5
    exported = tf.saved_model.load(str(tmp_path / "text" / "1"))(tf.constant(TEXTS))["scores"]
    found, as_before = ([list(one.scores.values()) for one in some.classify(TEXTS)] for some in (again, task))
    assert np.abs(found - exported).max() <= 1e-6
    assert np.abs(np.subtract(found, as_before)).max() > 1e-4


@pytest.mark.usefixtures("without_preprocess")
def test_pooling_after_the_round_trip(tmp_path):
    bert = make(num_hidden_layers=1)
    bert.pooling = Pooling("cls", normalize=True, max_length=6)
    keras_bert.export(bert, tmp_path)
    for part in ("encoder", "text"):
        again = keras_bert.load(tmp_path / part, seq_length=SEQ_LENGTH)
        assert again.pooling == bert.pooling
        np.testing.assert_array_equal(again.embed(TEXTS), bert.embed(TEXTS))
    signature = tf.saved_model.load(str(tmp_path / "text" / "1")).signatures["serving_default"]
    assert np.abs(signature(text=tf.constant(TEXTS[:2]))["embedding"] - again.embed(TEXTS[:2])).max() <= 1e-6


def test_trained_after_the_round_trip(exported):
    bert = keras_bert.load(exported, seq_length=SEQ_LENGTH)
    before = bert.word_embeddings.embeddings.numpy()
    model = keras.Model(bert.input, keras.layers.Dense(1)(bert.output["pooled_output"]))
    model.compile("sgd", "mse")
    model.fit(bert.preprocessor(["w1", "w2"]), np.ones((2, 1)), verbose=0)
    assert np.abs(bert.word_embeddings.embeddings.numpy() - before).max() > 0


@pytest.mark.usefixtures("quantizes", "without_preprocess")
def test_int8(little, tmp_path):
    keras_bert.export(little, tmp_path, dtype="int8")
    _assert_coarser(f"{tmp_path}/text/1", little)
    with pytest.raises(ValueError, match=r"LoRA or quantized layers.*kernel_scale"):
        keras_bert.load(tmp_path)


def _assert_coarser(folder, bert):
    """The vectors are float32, and nearly those of the original, which stays as it is."""
    found = tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(TEXTS[:2]))
    assert found["embedding"].dtype == tf.float32
    assert 0 < np.abs(found["embedding"] - bert.embed(TEXTS[:2])).max() < 0.05
    assert bert.dtype_policy.name == "float32"


def test_variables_cut_off(exported, tmp_path):
    shutil.copytree(exported / "encoder" / "1", tmp_path / "1")
    file = tmp_path / "1" / "variables" / "variables.data-00000-of-00001"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"has a damaged or incomplete \.data file"):
        keras_bert.load(tmp_path / "1")


def test_bfloat16_in_a_bucket(little, tmp_path):
    """ram:// stands for gs://: a file system of TensorFlow's that plain `open` cannot reach."""
    from google.protobuf import text_format

    from keras_bert.serving.write_kit import write_kit

    place = f"ram://bucket/{tmp_path.name}"
    keras_bert.export(little, place, dtype="bfloat16")
    for part in PARTS:
        assert set(tf.io.gfile.listdir(f"{place}/{part}")) == {"1"}
    _assert_coarser(f"{place}/text/1", little)
    encoder = f"{place}/encoder/1"
    for name in json.loads(tf.io.gfile.GFile(f"{encoder}/assets.extra/manifest.json").read())["files"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        tf.io.gfile.copy(f"{encoder}/{name}", str(tmp_path / name))
    tables = [bert.word_embeddings.embeddings for bert in (keras_bert.load(tmp_path, dtype="bfloat16"), little)]
    np.testing.assert_array_equal(tables[0].numpy(), tables[1].numpy().astype("bfloat16"))
    config = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2", reason="keras3-bert[serving]")
    write_kit(place, "small")
    file = tf.io.gfile.GFile(f"{place}/serving/models.config").read()
    models = text_format.Parse(file, config.ModelServerConfig()).model_config_list.config
    assert [model.base_path for model in models] == [f"{place}/{part}" for part in PARTS]
    assert "--batching_parameters_file=ram://" in tf.io.gfile.GFile(f"{place}/serving/compose.yaml").read()
