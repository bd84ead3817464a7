"""The cases of Model Garden's nlp/tools/export_tfhub_lib_test: encoder with its heads, and preprocessing."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

import keras_bert
from keras_bert.exports.preprocess_part import preprocess
from keras_bert.exports.text_reader import TextReader
from keras_bert.inputs import INPUTS
from tests.foreign.pieces import preprocessor
from tests.parity.oracles import randomize

hub = pytest.importorskip("tensorflow_hub", reason="pip install 'tensorflow-hub' 'setuptools<81'")
tf_keras = pytest.importorskip("tf_keras", reason="pip install tf_keras")

pytestmark = pytest.mark.long
HIDDEN = 16
ZEROS = {name: np.zeros((2, 10), "int32") for name in INPUTS}
ONE = dict(zip(INPUTS, np.array([[[14, 12, 4, 5, 9]], [[1] * 5], [[0] * 5]], "int32"), strict=True))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["hello", "world", "nice", "movie", "great", "actors", "quick", "fox", "lazy", "dog"]


@pytest.fixture(scope="module")
def pretrainer():
    config = keras_bert.BertConfig(
        vocab_size=15,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
    )
    bert = randomize(keras_bert.Bert(config, preprocessor([*SPECIAL, "[MASK]", *WORDS], seq_length=10)))
    return keras_bert.Pretrainer(bert)


@pytest.fixture(scope="module")
def exported(pretrainer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("garden")
    keras_bert.export(pretrainer, folder)
    return folder


@pytest.fixture(scope="module")
def layer(exported):
    return hub.KerasLayer(str(exported / "encoder" / "1"), trainable=True)


def close(found, expected):
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), found, expected)


# === ExportModelTest and ExportModelWithMLMTest ===


@pytest.mark.long
def test_tokenization_data(layer):
    assert layer.resolved_object.do_lower_case.numpy()
    vocabulary = tf.io.gfile.GFile(layer.resolved_object.vocab_file.asset_path.numpy()).read()
    assert vocabulary.split() == [*SPECIAL, "[MASK]", *WORDS]
    assert not hasattr(layer.resolved_object, "sp_model_file")


def test_restored_weights(layer, pretrainer):
    for found, expected in (
        (layer.trainable_weights, pretrainer.bert.trainable_weights),
        (layer.resolved_object.mlm.trainable_variables, pretrainer.trainable_weights),
    ):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_computation(layer, pretrainer):
    found = layer(ZEROS)
    assert found["pooled_output"].shape == (2, HIDDEN)
    assert found["sequence_output"].shape == (2, 10, HIDDEN)
    assert len(found["encoder_outputs"]) == 2
    close(found, pretrainer.bert(ZEROS))
    close(found["pooled_output"], found["default"])


def test_computation_of_the_heads(layer, pretrainer):
    inputs = {**ZEROS, "masked_lm_positions": np.zeros((2, 4), "int32")}
    found = layer.resolved_object.mlm(inputs)
    close(found["mlm_logits"], pretrainer(inputs)["mlm_logits"])
    close({name: found[name] for name in pretrainer.bert.output}, pretrainer.bert(ZEROS))


@pytest.mark.parametrize("heads", [False, True])
def test_training_activates_dropout(layer, heads):
    call, inputs = layer, ONE
    if heads:
        call, inputs = layer.resolved_object.mlm, {**ONE, "masked_lm_positions": np.array([[1, 2, 3, 4]], "int32")}

    def spread(training):
        runs = [call(inputs, training=training)["pooled_output"] for _ in range(20)]
        return np.mean(np.std(np.concatenate(runs), axis=0))

    assert spread(training=False) < 1e-6
    assert spread(training=True) > 1e-3


def test_sequence_length_is_inferred(layer):
    outputs = layer({name: tf_keras.layers.Input((10,), dtype=tf.int32) for name in INPUTS})
    assert outputs["pooled_output"].shape.as_list() == [None, HIDDEN]
    assert outputs["sequence_output"].shape.as_list() == [None, 10, HIDDEN]
    assert len(outputs["encoder_outputs"]) == 2


# === ExportPreprocessingTest ===


def export(folder, words, seq_length=128, **rules):
    root, signatures = preprocess(TextReader(preprocessor([*SPECIAL, *words], **rules), seq_length))
    tf.saved_model.save(root, str(folder), signatures=signatures)
    return folder


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return export(tmp_path_factory.mktemp("private_path_component_") / "1", ["d", "ef", "abc", "xy"])


@pytest.fixture(scope="module")
def loaded(path):
    return tf.saved_model.load(str(path))


def rows(text):
    return np.array([list(map(int, row.split())) for row in text.split(",")])


def assert_packed(packed, ids, width):
    """The rows begin with these ids, of which 2 starts a row and 3 ends a segment; all behind is padding."""
    ids = rows(ids)
    expected = {
        "input_word_ids": ids,
        "input_mask": ids != 0,
        "input_type_ids": (np.cumsum(ids == 3, 1) - (ids == 3)) * (ids != 0),
    }
    for name, values in expected.items():
        assert packed[name].shape == (len(ids), width)
        np.testing.assert_array_equal(packed[name], np.pad(values, [(0, 0), (0, width - ids.shape[1])]), name)


def test_no_leaks(path):
    for file in filter(lambda file: file.is_file(), path.rglob("*")):
        assert b"private_path_component_" not in file.read_bytes()


def test_exported_callables(loaded):
    texts = tf.constant(["abc d ef", "ABC D EF d"])
    ids, starts, ends = (part.merge_dims(1, 2).to_list() for part in loaded.tokenize_with_offsets(texts))
    assert ids == loaded.tokenize(texts).merge_dims(1, 2).to_list() == [[6, 4, 5], [6, 4, 5, 4]]
    assert starts == [[0, 4, 6], [0, 4, 6, 9]]
    assert ends == [[3, 5, 8], [3, 5, 8, 10]]
    special = {"padding_id": 0, "start_of_sequence_id": 2, "end_of_segment_id": 3, "vocab_size": 8}
    assert {name: int(id) for name, id in loaded.tokenize.get_special_tokens_dict().items()} == special
    assert loaded.tokenize.get_special_tokens_dict is loaded.tokenize_with_offsets.get_special_tokens_dict
    assert_packed(loaded(texts), "2 6 4 5 3 0, 2 6 4 5 4 3", 128)
    segments = [loaded.tokenize(texts), loaded.tokenize(tf.constant(["d xy", "xy abc"]))]
    assert_packed(loaded.bert_pack_inputs(segments, seq_length=256), "2 6 4 5 3 4 7 3 0, 2 6 4 5 4 3 7 6 3", 256)


def test_cased_length10(tmp_path):
    loaded = tf.saved_model.load(str(export(tmp_path, ["d", "##ef", "abc", "ABC"], 10, lowercase=False)))
    texts = tf.constant(["abc def", "ABC DEF"])
    assert loaded.tokenize(texts).to_list() == [[[6], [4, 5]], [[7], [1]]]
    assert_packed(loaded(texts), "2 6 4 5 3, 2 7 1 3 0", 10)
    segments = [loaded.tokenize(texts), loaded.tokenize(tf.constant(["d ABC", "ABC abc"]))]
    assert_packed(loaded.bert_pack_inputs(segments), "2 6 4 5 3 4 7 3, 2 7 1 3 7 6 3 0", 10)


@pytest.mark.parametrize("batch", [7, None])
def test_shapes(loaded, batch):
    def shapes(function, *arguments, **options):
        found = []

        @tf.function
        def graph(*arguments):
            result = function(*arguments, **options)
            found.append(tf.nest.map_structure(lambda x: x.shape.as_list(), result))
            return result

        graph.get_concrete_function(*arguments)
        return found[-1]

    texts, ragged = tf.TensorSpec([batch], tf.string), tf.RaggedTensorSpec([batch, None, None], tf.int32)
    assert shapes(loaded.tokenize, texts) == [batch, None, None]
    assert shapes(loaded.tokenize_with_offsets, texts) == [[batch, None, None]] * 3
    assert shapes(loaded.bert_pack_inputs, [ragged] * 2, seq_length=256) == {name: [batch, 256] for name in INPUTS}
    assert shapes(loaded, texts) == {name: [batch, 128] for name in INPUTS}


def test_reexport(path, tmp_path):
    shutil.copytree(path, tmp_path / "1")
    tf.saved_model.save(tf.saved_model.load(str(tmp_path / "1")), str(tmp_path / "2"))
    shutil.rmtree(tmp_path / "1")
    again = tf.saved_model.load(str(tmp_path / "2"))
    assert_packed(again(tf.constant(["abc d ef", "ABC D EF d"])), "2 6 4 5 3 0, 2 6 4 5 4 3", 128)


def test_special_tokens_outside_of_eager_mode(loaded):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = session.run(loaded.tokenize.get_special_tokens_dict())
    assert all(isinstance(id.item(), int) for id in found.values())


def test_preprocessing_for_mlm(exported, layer):
    """Both SavedModels, with TF Text's trimmer, combiner and masking between them."""
    text = tensorflow_text
    preprocess = tf.saved_model.load(str(exported / "preprocess" / "1"))
    special = {name: int(id) for name, id in preprocess.tokenize.get_special_tokens_dict().items()}
    assert special == {
        "vocab_size": 15,
        "padding_id": 0,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "mask_id": 4,
    }
    raw = [["hello", "nice movie", "quick fox"], ["world", "great actors", "lazy dog"]]
    trimmed = text.WaterfallTrimmer(10 - 3).trim([preprocess.tokenize(tf.constant(column)) for column in raw])
    ids, segments = text.combine_segments(trimmed, start_of_sequence_id=2, end_of_segment_id=3)
    selector = text.RandomItemSelector(2, selection_rate=0.5, unselectable_ids=[2, 3])
    chooser = text.MaskValuesChooser(15, mask_token=4, mask_token_rate=1.0, random_token_rate=0.0)
    masked, positions, _ = text.mask_language_model(ids, selector, chooser)
    word_ids, _ = text.pad_model_inputs(masked, 10, pad_value=0)
    types, mask = text.pad_model_inputs(segments, 10, pad_value=0)
    positions = tf.cast(text.pad_model_inputs(positions, 2, pad_value=0)[0], tf.int32)
    expected = rows("2 5 3 6 3 0 0 0 0 0, 2 7 8 3 9 10 3 0 0 0, 2 11 12 3 13 14 3 0 0 0")
    for row, chosen in zip(expected, positions.numpy(), strict=True):
        row[chosen[chosen != 0]] = 4
    np.testing.assert_array_equal(word_ids, expected)
    inputs = dict(zip(INPUTS, (word_ids, mask, types), strict=True))
    outputs = layer.resolved_object.mlm({**inputs, "masked_lm_positions": positions})
    assert outputs["pooled_output"].shape == (3, HIDDEN)
    assert outputs["sequence_output"].shape == (3, 10, HIDDEN)
    assert outputs["mlm_logits"].shape == (3, 2, 15)
    assert len(outputs["encoder_outputs"]) == 2
