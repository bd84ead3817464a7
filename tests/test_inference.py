"""`inference` returns the answers of the model itself, whatever the engine."""

import copy
import dataclasses
import threading

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.onnx_graph.onnx_runner import similar
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.text.tokenized_rows import TokenizedRows, pieces
from tests.parity.oracles import array, randomize
from tests.tasks.small import KINDS, TEXTS, answers, columns, small_bert, small_task

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def numbers(x):
    """Answers as one flat list, to compare numbers with a tolerance and all else exactly."""
    if dataclasses.is_dataclass(x):
        x = dataclasses.asdict(x)
    if isinstance(x, dict):
        return [number for key, value in x.items() for number in [key, *numbers(value)]]
    return [number for one in x for number in numbers(one)] if isinstance(x, list | tuple) else [x]


def same(found, expected, tolerance=1e-5):
    found, expected = numbers(found), numbers(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == (pytest.approx(other, abs=tolerance) if isinstance(other, float) else other)


@pytest.mark.parametrize("kind", KINDS)
def test_answers(kind):
    task = small_task(kind)
    same(answers(kind, keras_bert.inference(task, engine="onnxruntime")), answers(kind, task))


def test_predict_evaluate_and_json():
    task = small_task("tagger")
    fast = keras_bert.inference(task, engine="onnxruntime")
    x, y = columns("tagger")
    found = fast.predict(x)
    np.testing.assert_allclose(found, task.predict(x)[:, : found.shape[1]], atol=1e-5)  # ours is a multiple of 8
    same(list(fast.answers_as_json(x)), list(task.answers_as_json(x)))
    same(fast.evaluate(x, y, verbose=0, return_dict=True), task.evaluate(x, y, verbose=0, return_dict=True))


@pytest.mark.parametrize("options", [{}, {"pooling": "max", "layers": (0, 1)}, {"pooling": "pooled"}])
def test_embed(options):
    bert = small_bert(num_hidden_layers=2)
    fast = keras_bert.inference(bert, engine="onnxruntime")
    np.testing.assert_allclose(fast.embed(TEXTS, **options), bert.embed(TEXTS, **options), atol=1e-5)


def test_vectors_of_pieces():
    bert = small_bert()
    found, ours = (model.embed(TEXTS, pooling=None) for model in (keras_bert.inference(bert), bert))
    for one, other in zip(found, ours, strict=True):
        assert one.pieces == other.pieces
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5)


def test_pretrainer():
    pretrainer = randomize(Pretrainer(small_bert()))
    fast = keras_bert.inference(pretrainer, engine="onnxruntime")
    text = "the film was [MASK] . [MASK]"
    same(fast.fill_mask(text), pretrainer.fill_mask(text))
    same(fast.is_next("good", "bad"), pretrainer.is_next("good", "bad"))


def test_runs_in_onnx_runtime(monkeypatch):
    """The answers do not come from TensorFlow: the model itself is never called."""
    task = small_task("classifier")
    expected = task.classify(TEXTS)
    fast = keras_bert.inference(task, engine="onnxruntime")
    for weight in task.weights:  # nor does it read the weights again
        weight.assign(keras.ops.zeros_like(weight))
    same(fast.classify(TEXTS), expected)
    assert task.classify(TEXTS)[0].score == pytest.approx(0.5)


def test_packed_inputs():
    task = small_task("classifier")
    inputs = {name: np.asarray(x) for name, x in task.bert.preprocessor(TEXTS).items()}
    for engine in ("onnxruntime", "tensorflow"):
        fast = keras_bert.inference(task, engine=engine)
        np.testing.assert_allclose(array(fast(inputs)), array(task(inputs)), atol=1e-5)
    bert = keras_bert.inference(task.bert, engine="onnxruntime")
    np.testing.assert_allclose(bert(inputs)["pooled_output"], array(task.bert(inputs)["pooled_output"]), atol=1e-5)


def test_packed_inputs_for_keras():
    """Keras computes them itself, in float32."""
    task = small_task("classifier")
    inputs = {name: np.asarray(x) for name, x in task.bert.preprocessor(TEXTS).items()}
    fast = keras_bert.inference(task, engine="onnxruntime", dtype="int8")
    for call in (
        lambda: fast.predict(inputs),
        lambda: fast.predict(x=inputs),
        lambda: fast.evaluate(inputs, [0, 1, 1, 0]),
        lambda: fast.predict_on_batch(inputs),
        lambda: keras_bert.inference(task.bert, engine="onnxruntime", dtype="int8").predict(inputs),
    ):
        with pytest.raises(TypeError, match=r"call the Inference itself.*Received: dict"):
            call()
    float32 = keras_bert.inference(task, engine="onnxruntime").predict(inputs, verbose=0)
    np.testing.assert_allclose(float32, task.predict(inputs, verbose=0), atol=1e-6)
    int8 = keras_bert.inference(task, engine="tensorflow", dtype="int8")
    np.testing.assert_allclose(int8.predict(inputs, verbose=0), array(int8(inputs)), atol=1e-6)


def test_each_task_has_one_graph():
    """It has the weights from the beginning."""
    for kind in (*KINDS, "windows"):
        fast = keras_bert.inference(small_task(kind), engine="onnxruntime")
        before = list(fast.runners.made)
        answers(kind, fast)
        assert list(fast.runners.made) == before, kind


def test_a_copy():
    fast = keras_bert.inference(small_task("classifier"))
    assert copy.copy(fast).classify("good") == fast.classify("good")


def test_pair_that_is_cut():
    """Rows that are too long lose the same pieces."""
    task = small_task("regressor", small_bert(seq_length=8))
    pair = ([TEXTS[0], TEXTS[2]], [TEXTS[2], TEXTS[0]])
    np.testing.assert_allclose(keras_bert.inference(task).score(pair), task.score(pair), atol=1e-5)


def test_groups_of_similar_length():
    lengths = np.random.default_rng(0).integers(3, 512, 500)
    groups = similar(lengths)
    assert sorted(np.concatenate(groups).tolist()) == list(range(500))
    padded = sum(len(group) * lengths[group].max() for group in groups)
    assert padded < 1.1 * lengths.sum()


def test_threads():
    task = small_task("classifier")
    fast = keras_bert.inference(task, engine="onnxruntime")
    expected, found = task.classify(TEXTS), [None] * 4

    def ask(number):
        found[number] = fast.classify(TEXTS)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        same(one, expected)


def test_engines_by_dtype():
    task = small_task("classifier")
    assert keras_bert.inference(task, dtype="bfloat16").engine == keras.backend.backend()
    same(keras_bert.inference(task, dtype="bfloat16").classify(TEXTS), task.classify(TEXTS), tolerance=0.05)
    assert keras_bert.inference(task, dtype="int8").engine == "onnxruntime"


@pytest.mark.parametrize("engine", ["tensorflow", "onnxruntime"])
def test_int8(engine):
    keras.utils.set_random_seed(1)  # the scores of some models are equal to the last digit
    task = small_task("classifier")
    fast = keras_bert.inference(task, engine, dtype="int8")
    same(fast.classify(TEXTS), task.classify(TEXTS), tolerance=0.05)
    assert fast.classify(TEXTS)[0].score != task.classify(TEXTS)[0].score


@keras.saving.register_keras_serializable("tests")
class Erf(keras_bert.Task):
    def __init__(self, bert, *, freeze=False, name=None):
        logits = keras.ops.erf(keras.layers.Dense(2)(bert.output["pooled_output"]))
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)


def test_head_without_a_rule():
    task = Erf(small_bert())
    with pytest.raises(ValueError, match=r"no rule for Erf.*task\.bert"):
        keras_bert.inference(task, engine="onnxruntime")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "fast"}, "`engine` must be one of"),
        ({"dtype": "int4"}, "`dtype` must be one of"),
        ({"engine": "onnxruntime", "dtype": "bfloat16"}, "cannot multiply matrices in bfloat16"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.inference(small_task("classifier"), **options)


def test_tensorflow_on_another_backend(monkeypatch):
    task = small_task("classifier")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=r"`engine` \(--engine\) is \"tensorflow\", but .* runs Keras on jax"):
        keras_bert.inference(task, engine="tensorflow")


def test_refuses_other_models_and_training():
    with pytest.raises(TypeError, match="must be a Bert, a task or a Pretrainer"):
        keras_bert.inference("base")
    fast = keras_bert.inference(small_task("classifier"))
    with pytest.raises(AttributeError, match="`fit` cannot be called on an Inference, whose weights are fixed"):
        fast.fit(TEXTS, ["positive"] * 4)


def test_quantized_layers():
    task = small_task("classifier")
    task.quantize("int8")
    with pytest.raises(ValueError, match=r"is quantized.*before `quantize`"):
        keras_bert.inference(task, engine="onnxruntime")


def test_empty():
    fast = keras_bert.inference(small_task("classifier"), engine="onnxruntime")
    assert fast.predict([]).shape[0] == 0
    rows = TokenizedRows([pieces(fast.bert.preprocessor, [""])], fast.bert.preprocessor.packer)
    assert fast.runner()(rows, np.array([0]))[0].shape == (2,)
