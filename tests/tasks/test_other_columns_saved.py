"""Tasks that read other columns, saved, exported, served and in ONNX Runtime."""

import re
import shlex

import keras
import numpy as np
import pytest

from keras_bert import TextClassifier, TextRegressor
from tests.serving.by_onnx import same_process  # noqa: F401 - a fixture
from tests.tasks.priced_reviews import NUMBERS, UNSEEN, learned, small, some, tensorflow_only


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("long", ["truncate", "windows"])
def test_saved(long, tmp_path):
    task = small(long=long)
    expected = task.predict(some(UNSEEN))
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert np.array_equal(again.predict(some(UNSEEN)), expected)
    assert again.other_columns == task.other_columns
    assert list(again.other_columns.numbers) == list(NUMBERS)
    assert again.own_settings == (*(["long"] if long == "windows" else []), "other_columns")


def test_a_head_without_columns_does_not_fit(tmp_path):
    from keras_bert.weights.convert import convert

    plain = TextClassifier(small().bert, labels=("bad", "good"))
    plain.save(tmp_path / "task.keras")
    convert(tmp_path / "task.keras", "hf", tmp_path / "hf")
    with pytest.raises(ValueError, match=r"The head of .*hf does not fit other_columns\..* Received: other_columns="):
        TextClassifier.load(tmp_path / "hf", other_columns=small().other_columns)


@tensorflow_only
@pytest.mark.usefixtures("without_preprocess")
def test_only_the_encoder_is_converted(tmp_path):
    """The head reads the columns too, which no other format has; from a .keras file and from an export."""
    from keras_bert import export, load
    from keras_bert.weights.convert import convert

    task = small()
    task.temperature = 2.0
    task.save(tmp_path / "task.keras")
    export(task, tmp_path / "export")
    for number, source in enumerate(("task.keras", "export")):
        left_out = convert(tmp_path / source, "hf", tmp_path / f"hf-{number}").left_out
        assert {"setting other_columns", "setting temperature"} <= set(left_out)
        assert [name.split(" ")[:2] for name in left_out if name.startswith("head")] == [["head", "classifier"]]
    kernel = "layer_0_output"
    found, expected = (bert.get_layer(kernel).kernel for bert in (load(tmp_path / "export"), task.bert))
    assert np.array_equal(found, expected)


def test_onnx_runtime():
    from keras_bert import inference

    pytest.importorskip("onnxruntime")
    task = small()
    fast = inference(task, "onnxruntime")
    np.testing.assert_allclose(fast.predict(some(UNSEEN)), task.predict(some(UNSEEN)), atol=1e-5)
    x = {name: np.asarray(one) for name, one in task.examples(some(UNSEEN)).inputs(np.arange(7)).items()}
    np.testing.assert_allclose(fast(x), task.predict(some(UNSEEN)), atol=1e-5)
    found = fast.runner().on_padded(x)["output"]
    np.testing.assert_allclose(found, task.predict(some(UNSEEN)), atol=1e-5)


def signatures_of(task, folder):
    from keras_bert.exports.text_part import answers_to_texts

    task.bert.preprocessor.vocabulary.save(folder / "vocab.txt")
    return answers_to_texts(task, 8, folder / "vocab.txt")


def served(task):
    """The signature that answers texts; the others take long to trace."""
    from keras_bert.exports.saved_functions import saved_functions, saved_model

    root = saved_model(task, training=False)
    signatures = task.signatures(lambda rows: root.__call__(rows, training=False), 8)
    return root, saved_functions({"serving_default": signatures["serving_default"]})


def tensors(rows):
    import tensorflow as tf

    strings = {name: tf.constant(list(map(str, values))) for name, values in rows.items()}
    return strings | {name: tf.constant(rows[name], tf.float32) for name in NUMBERS}


def answers(signature, rows):
    return {name: one.numpy() for name, one in signature(**tensors(rows)).items()}


def scores_of(task, rows):
    return [list(one.scores.values()) for one in task.classify(rows)]


@tensorflow_only
@pytest.mark.usefixtures("eager")
def test_blanks_around_a_category_in_the_graph():
    import tensorflow as tf

    from keras_bert.tasks.columns.other_columns import column_arrays, columns_in_graph
    from keras_bert.text.tensors import arrays

    columns = learned(numbers=[], categories=["brand"])
    blanks = [character for character in map(chr, range(0x3001)) if character.isspace()]
    brands = ["acme", "a cme", *(f"{blank}acme" for blank in blanks), *(f"acme {blank}" for blank in blanks)]
    expected = column_arrays(columns, [brands])["categories"]
    given = tf.constant(brands)
    assert np.array_equal(columns_in_graph(columns, {"brand": given})["categories"], expected)
    with arrays():  # as ONNX Runtime serves it
        assert np.array_equal(columns_in_graph(columns, {"brand": given.numpy()})["categories"], expected)


@tensorflow_only
@pytest.mark.parametrize(("kind", "long"), [(TextClassifier, "windows"), (TextRegressor, "head-tail")])
def test_exported(kind, long):
    task = small(kind, long=long)
    root, signatures = served(task)
    found = answers(signatures["serving_default"], some(UNSEEN))
    del root
    if kind is TextRegressor:
        np.testing.assert_allclose(found["score"], task.score(some(UNSEEN)), atol=1e-5)
    else:
        np.testing.assert_allclose(found["scores"], scores_of(task, some(UNSEEN)), atol=1e-5)


@tensorflow_only
@pytest.mark.long
@pytest.mark.usefixtures("same_process")
def test_an_export_on_disk(tmp_path):
    """It is read back bit for bit, TF Serving can warm it up, and the kit's clients have its columns."""
    import tensorflow as tf

    from keras_bert.exports.export import _save
    from keras_bert.exports.manifest import write_manifest
    from keras_bert.exports.warm_up import write_warm_up
    from keras_bert.serving.onnx_signatures import OnnxExport
    from keras_bert.serving.write_kit import write_kit
    from keras_bert.weights.our_export import write_settings

    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    task, folder = small(), tmp_path / "text" / "1"
    signatures = _save(lambda: signatures_of(task, tmp_path), folder, gradients=False)
    write_settings(task, folder / "assets.extra")
    again = TextClassifier.load(tmp_path)
    assert np.array_equal(again.predict(some(UNSEEN)), task.predict(some(UNSEEN)))
    assert again.other_columns == task.other_columns

    write_manifest(folder, {"seq_length": 8})
    by_onnx = OnnxExport(folder, int8=False).signatures["text"]["serving_default"]
    rows = {name: tensor.numpy() for name, tensor in tensors(some(UNSEEN)).items()}
    np.testing.assert_allclose(by_onnx(**rows)["scores"], scores_of(task, some(UNSEEN)), atol=1e-5)

    write_warm_up(folder, "film", signatures)
    loaded = tf.saved_model.load(str(folder))
    for name, rows in (("serving_default", some(UNSEEN)), ("pair", some(UNSEEN) | {"text_pair": UNSEEN["text"][::-1]})):
        found = answers(loaded.signatures[name], rows)["scores"]
        np.testing.assert_allclose(found, scores_of(task, rows), atol=1e-5)
    seen = set()
    for record in tf.data.TFRecordDataset(str(folder / "assets.extra" / "tf_serving_warmup_requests")):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        if log.WhichOneof("log_type") == "classify_log":
            examples = log.classify_log.request.input.example_list.examples
            name = log.classify_log.request.model_spec.signature_name
            inputs = {"inputs": tf.constant([example.SerializeToString() for example in examples])}
        else:
            name = log.predict_log.request.model_spec.signature_name
            inputs = {key: tf.constant(tf.make_ndarray(one)) for key, one in log.predict_log.request.inputs.items()}
        loaded.signatures[name](**inputs)
        seen.add(name)
    assert seen == set(loaded.signatures) == {"serving_default", "pair", "classify", "classify_pair", "logits"}

    write_kit(tmp_path, "film")
    client = (tmp_path / "serving" / "rest_client.py").read_text()
    assert "[text, brand, kind, price, year] = sys.argv[1:]" in client
    assert "dict(text=[text], brand=[brand], kind=[kind], price=[float(price)], year=[float(year)])" in client
    words = shlex.split(re.search(r"rest_client.py (.*) \"\"\"", client)[1])
    assert words == ["A text.", "a name", "a name", "1.0", "1.0"]


@tensorflow_only
@pytest.mark.network
def test_served():
    from tests.serving.browser import Traced
    from tests.serving.in_process import serving

    task = small()
    root, signatures = served(task)
    rows = [dict(zip(some(UNSEEN), values, strict=True)) for values in zip(*some(UNSEEN).values(), strict=True)]
    rows = [row | {"kind": str(row["kind"])} for row in rows]
    with serving({"film": {1: Traced("text", signatures)}}, "film") as post:
        status, answer = post({"instances": rows})
        assert status == 200
        found = [row["scores"] for row in answer["predictions"]]
        np.testing.assert_allclose(found, scores_of(task, rows), atol=1e-5)
        bad = {"price": "9.99", "year": None, "kind": 3, "brand": 0.5}
        for name, value in (*bad.items(), ("price", float("nan")), ("price", 1e39), ("price", True)):
            status, answer = post({"instances": [rows[0] | {name: value}]})
            assert status == 400
            assert answer["error"].startswith(f"Row 0: `{name}` must hold")
        assert "brand" in post({"instances": [{"text": "a"}]})[1]["error"]
    del root
