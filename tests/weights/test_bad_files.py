"""Damaged, foreign and hostile files of the old formats: one clear line each, and nothing in them is run."""

import json
import pickle
import shutil
import tracemalloc

import h5py
import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.weights.load import build, read
from keras_bert.weights.source_names import may_be_model
from tests.weights import small
from tests.weights.old_files import unpacked


@pytest.fixture
def folder(tmp_path, request):
    """A copy of a fixture's folder."""
    name, path = request.param
    return shutil.copytree(unpacked(name)[0] / path, tmp_path / "model")


TENSORFLOW = pytest.mark.parametrize("folder", [("transformers_tf", "MaskedLM")], indirect=True)
FLAX = pytest.mark.parametrize("folder", [("transformers_flax", "MaskedLM")], indirect=True)
KERAS_BERT = pytest.mark.parametrize("folder", [("keras_bert_0_89", "pretrainer")], indirect=True)


def _assert_refused(path, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message) as raised:
        build(read(path))
    assert raised.type in (ValueError, FileNotFoundError)
    assert "\n" not in str(raised.value)


@TENSORFLOW
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_an_h5_cut_off(folder, share):
    path = folder / "tf_model.h5"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    _assert_refused(folder, r"tf_model\.h5 is damaged or incomplete")


@KERAS_BERT
def test_bytes_of_an_h5_changed(folder):
    """Whatever they are, the error is one line, or the file still loads."""
    path = folder / "bert.h5"
    data, rng = path.read_bytes(), np.random.default_rng(0)
    messages = []
    for _ in range(30):
        changed = bytearray(data)
        for place in rng.integers(8, len(data), 20):
            changed[place] = rng.integers(256)
        path.write_bytes(changed)
        try:
            build(read(folder))
        except ValueError as error:
            messages.append(str(error))
    assert messages
    assert not [message for message in messages if "\n" in message]


@pytest.mark.parametrize("names", [["dense/dense/kernel:0"], ["Encoder-1-FeedForward/Encoder-1-FeedForward/x:0"]])
def test_an_h5_of_another_architecture(tmp_path, names):
    with h5py.File(tmp_path / "model.h5", "w") as file:
        for name in names:
            file[name] = np.zeros((3, 4), "float32")
    _assert_refused(tmp_path / "model.h5", "does not have the variables of a BERT of")


@pytest.mark.parametrize("name", ["model.h5", "model.weights.h5"])
def test_an_h5_of_another_model_of_keras(tmp_path, name):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Embedding(9, 8), keras.layers.LSTM(3)])
    model.save_weights(tmp_path / name) if "weights" in name else model.save(tmp_path / name)
    _assert_refused(tmp_path / name, r"h5 does not have the variables of a BERT of.*It may be another model")


@KERAS_BERT
@pytest.mark.parametrize("config", ["{", '{"config": {"layers": [3]}}', '{"config": []}', "[" * 100_000])
def test_a_model_config_that_keras_does_not_write(folder, config):
    with h5py.File(folder / "bert.h5", "r+") as file:
        file.attrs["model_config"] = config
    _assert_refused(folder, "has a model_config in a form that Keras does not write")


@KERAS_BERT
def test_texts_in_place_of_numbers(folder):
    with h5py.File(folder / "bert.h5", "r+") as file:
        file["model_weights/label/name"] = "__import__('os').system('true')"
    _assert_refused(folder, "not an array of numbers")


CLASSIFIER = pytest.mark.parametrize("folder", [("transformers_tf", "SequenceClassification")], indirect=True)


@CLASSIFIER
@pytest.mark.parametrize(
    "data", [h5py.Empty("f4"), np.full((8, 3), b"1"), np.zeros((8, 3), [("a", "f4")]), np.zeros((8, 3), "complex64")]
)
def test_other_datasets_in_place_of_numbers(folder, data):
    _replace_kernel(folder, data=data)
    _assert_refused(folder, r"tf_model\.h5 has \S*classifier/kernel:0, which is not an array of numbers")


@CLASSIFIER
@pytest.mark.parametrize("shape", [(), (3, 8), (8, 10**6)])
def test_a_kernel_of_another_shape(folder, shape):
    """The outputs of the head are those of its bias."""
    _replace_kernel(folder, shape=shape, dtype="f4", **({"compression": "gzip"} if shape else {}))
    _assert_refused(folder, r"classifier\.weight has the shape \[.*\], but by the config .* should be \[3, 8\]")


@CLASSIFIER
def test_a_small_h5_of_gigabytes(folder):
    """Of which one chunk is stored."""
    _replace_kernel(folder, shape=(4096, 250_000), chunks=(1, 250_000), dtype="f4", compression="gzip")
    assert (folder / "tf_model.h5").stat().st_size < 200_000
    _assert_refused(folder, r"tf_model\.h5 would unpack to far more than its own size.*Received: 40\d{8} bytes, where")


@CLASSIFIER
def test_a_config_of_another_width(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"hidden_size": 12}))
    _assert_refused(folder, r"shape \[\d+, 8\], but by the config .* be \[\d+, 12\]\. Correct hidden_size=12")


@CLASSIFIER
def test_a_file_of_another_model(folder):
    with h5py.File(folder / "tf_model.h5", "w") as file:
        file["model/conv/kernel:0"] = np.ones((2, 2), "f4")
    _assert_refused(folder, r"or holds another model: it lacks weights.* Received: 1 weights, such as \S*conv")


@CLASSIFIER
def test_only_a_saved_model_in_the_folder(folder):
    (folder / "tf_model.h5").unlink()
    _assert_refused(folder, r"without weights.*or load its SavedModel, \S*saved_model\S1\. Received: none of")


def _replace_kernel(folder, **new):
    with h5py.File(folder / "tf_model.h5", "r+") as file:
        names = []
        file.visit(lambda name: names.append(name) if name.endswith("classifier/kernel:0") else None)
        del file[names[0]]
        made = file.create_dataset(names[0], **new)
        if "data" not in new:
            made[(0,) * len(made.shape)] = 1.0  # or else the file has no numbers for it


@KERAS_BERT
def test_weights_without_a_config(folder):
    shutil.copy(unpacked("keras_bert_0_89")[0] / "encoder" / "weights.h5", folder / "weights.h5")
    (folder / "bert_config.json").unlink()
    _assert_refused(folder / "weights.h5", "number of attention heads. Copy the model.s bert_config.json")


@pytest.mark.parametrize("name", ["model.pkl", "model.h5", "tf_model.h5"])
def test_pickled_models_are_refused(tmp_path, name):
    class Harmful:
        def __reduce__(self):
            return open, (str(tmp_path / "was run"), "w")

    (tmp_path / name).write_bytes(pickle.dumps(Harmful()))
    _assert_refused(tmp_path / name, "is not a BERT in a known format")
    assert not (tmp_path / "was run").exists()


def test_folders_without_a_file_of_a_model(tmp_path):
    (tmp_path / "[a]/text/1").mkdir(parents=True)
    (tmp_path / "[a]/text/1/notes.txt").touch()
    for path in (tmp_path, tmp_path / "[a]", tmp_path / "[a]/text/1/notes.txt"):
        assert not may_be_model(path)
    (tmp_path / "[a]/text/1/saved_model.pb").touch()
    assert may_be_model(tmp_path / "[a]")
    assert may_be_model(tmp_path / "nothing")  # not here, or the prefix of a checkpoint


@FLAX
def test_a_msgpack_cut_off(folder):
    pytest.importorskip("msgpack", reason="pip install 'keras3-bert[flax]'")
    path = folder / "flax_model.msgpack"
    path.write_bytes(path.read_bytes()[:-100])
    _assert_refused(folder, r"flax_model\.msgpack is damaged, or holds something other than weights")


@FLAX
def test_another_file_in_place_of_msgpack(folder):
    pytest.importorskip("msgpack", reason="pip install 'keras3-bert[flax]'")
    (folder / "flax_model.msgpack").write_bytes(pickle.dumps({"a": 1}))
    _assert_refused(folder, r"Received: \d+ bytes after 0 weights$")


BOMBS = {
    "a list of 2^32 entries": b"\xdd\xff\xff\xff\xff",
    "a map of 2^32 entries": b"\xdf\xff\xff\xff\xff",
    "lists of 2^24 entries in lists": b"\xdd\x01\x00\x00\x00" * 1000,
    "an array of 2^32 bytes": b"\xc9\xff\xff\xff\xff\x01",
    "maps in maps": b"\x81\xa1a" * 5000 + b"\xc0",
    "more numbers than bytes": b"\x81\xa1a\xc7\x15\x01\x93\x91\xce\x7f\xff\xff\xff\xa7float32\xc4\x04\0\0\0\0",
    "objects": b"\x81\xa1a\xc7\x0f\x01\x93\x91\x01\xa6object\xc4\x04\0\0\0\0",
    "another kind of extension": b"\x81\xa1a\xd4\x63\x00",
    "a number": b"\x81\xa1a\x07",
    "two objects": b"\x80\x80",
    "nothing": b"",
}


@FLAX
@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS.keys())
def test_a_msgpack_bomb(folder, content):
    pytest.importorskip("msgpack", reason="pip install 'keras3-bert[flax]'")
    (folder / "flax_model.msgpack").write_bytes(content)
    tracemalloc.start()
    _assert_refused(folder, "damaged, or holds something other than weights")
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@TENSORFLOW
def test_a_shard_that_is_missing(folder):
    (folder / "tf_model.h5").unlink()
    index = {"weight_map": {"a": "tf_model-00001-of-00001.h5"}}
    (folder / "tf_model.h5.index.json").write_text(json.dumps(index))
    _assert_refused(folder, r"lacks shards of the model: tf_model-00001-of-00001\.h5")


@TENSORFLOW
def test_a_shard_without_the_index(folder):
    (folder / "tf_model.h5").rename(folder / "tf_model-00001-of-00002.h5")
    _assert_refused(folder, r"has shards of a model, but not the index .* Received: tf_model-00001-of-00002\.h5")


@TENSORFLOW
def test_a_pointer_of_git(folder):
    lines = "version https://git-lfs.github.com/spec/v1", f"oid sha256:{'0' * 64}", "size 437955512", ""
    (folder / "tf_model.h5").write_text("\n".join(lines))
    _assert_refused(folder, r"tf_model\.h5 has no weights: it is a pointer.*git lfs pull.* Received: 134 bytes")


def test_a_tf_train_checkpoint_of_a_bert(tmp_path):
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only variables of TensorFlow are saved")
    tf.train.Checkpoint(model=Bert(small.CONFIG)).save(str(tmp_path / "ckpt"))
    _assert_refused(tmp_path, r"is a tf\.train\.Checkpoint of a Bert, without its config. Build the Bert, restore it")
