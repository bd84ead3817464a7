"""ONNX graphs return what our models return, in ONNX Runtime and in ONNX's own reference evaluator."""

import keras
import numpy as np
import pytest

from keras_bert.onnx_graph.convert import to_onnx
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.vectors import features
from tests.parity.oracles import array, randomize
from tests.tasks.small import KINDS, small_bert, small_task

runtime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


def batch(model, rows=3, length=9):
    """Ids of several lengths, with padding, for a model over a small Bert."""
    rng = np.random.default_rng(0)
    shape = (rows, *model.input["input_mask"].shape[1:-1], length)
    mask = (np.arange(length) < rng.integers(2, length + 1, (*shape[:-1], 1))).astype("int32")
    inputs = {
        "input_word_ids": rng.integers(0, 21, shape).astype("int32") * mask,
        "input_mask": mask,
        "input_type_ids": (rng.random(shape) < 0.5).astype("int32") * mask,
    }
    if "masked_lm_positions" in model.input:
        inputs["masked_lm_positions"] = rng.integers(0, 4, (rows, 2)).astype("int32")
    return inputs


def run(made, inputs):
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    values = session.run(None, inputs)
    return dict(zip([output.name for output in session.get_outputs()], values, strict=True))


def expected(model, inputs):
    found = model(inputs, training=False)
    return {name: array(x) for name, x in (found if isinstance(found, dict) else {"output": found}).items()}


def check(model, tolerance=1e-5, **options):
    onnx.checker.check_model(made := to_onnx(model, **options), full_check=True)
    inputs = batch(model)
    found, ours = run(made, inputs), expected(model, inputs)
    assert list(found) == list(ours)
    for name, x in ours.items():
        np.testing.assert_allclose(found[name], x, atol=tolerance, rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_task(kind):
    check(small_task(kind))


def test_pretrainer():
    check(randomize(Pretrainer(small_bert())))


@pytest.mark.parametrize("gelu", ["gelu_tanh", "gelu_erf"])
def test_encoder(gelu):
    bert = small_bert(num_hidden_layers=2, hidden_act=gelu, layer_norm_eps=1e-5)
    names = ("pooled_output", "sequence_output")
    check(keras.Model(bert.input, {name: bert.output[name] for name in names}))


@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "pooled", None])
def test_embed(pooling):
    bert = small_bert(num_hidden_layers=2)
    layers = (-1,) if pooling == "pooled" else (0, -1)
    check(keras.Model(bert.input, features(bert, layers, "concat", pooling, pooling != "max")))


def test_lora():
    task = small_task("classifier")
    task.bert.enable_lora(2)
    for weight in task.bert.weights:
        if weight.name.startswith("lora"):
            weight.assign(np.full(weight.shape, 0.3))
    check(task)


def test_half_precision_weights():
    """Weights of bfloat16 are computed with in float32."""
    bert = small_bert(dtype="bfloat16")
    wide = small_bert()
    for theirs, ours in zip(wide.weights, bert.weights, strict=True):
        theirs.assign(keras.ops.cast(ours.value, "float32"))
    inputs = batch(bert)
    found = run(to_onnx(keras.Model(bert.input, bert.output["sequence_output"])), inputs)
    np.testing.assert_allclose(found["output"], array(wide(inputs)["sequence_output"]), atol=1e-5)


def test_reference_evaluator():
    """ONNX's own implementation of the operators, which has nothing in common with ONNX Runtime's."""
    from onnx.reference import ReferenceEvaluator

    task = small_task("tagger")
    inputs = batch(task)
    (found,) = ReferenceEvaluator(to_onnx(task)).run(None, inputs)
    np.testing.assert_allclose(found, array(task(inputs)), atol=1e-5)
