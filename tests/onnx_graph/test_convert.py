"""ONNX graphs return what our models return, in ONNX Runtime and in ONNX's own reference evaluator."""

import keras
import numpy as np
import pytest

from keras_bert.config import GELU_LEAST
from keras_bert.onnx_graph import onnx_runner
from keras_bert.onnx_graph.convert import to_onnx
from keras_bert.onnx_graph.graph import Graph, Value
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
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # without VNNI, sums of int8 could saturate
    session = runtime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
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


HEADS = {
    "a Sequential": lambda x, y: keras.Sequential([keras.layers.Dense(3, name="one"), keras.layers.Dense(2)])(x),
    "a model of one tensor": lambda x, y: inner_model(x.shape[-1])(x),
    "a name twice": lambda x, y: inner_model(2)(keras.layers.Dense(2, name="inner_dense")(x)),
    "Add": lambda x, y: keras.layers.Add()([x, y, x]),
    "Subtract": lambda x, y: keras.layers.Subtract()([x, y]),
    "Multiply": lambda x, y: keras.layers.Multiply()([x, y]),
    "Reshape": lambda x, y: keras.layers.Reshape((2, -1))(x),
    "a new axis": lambda x, y: x[:, None] + y[..., None, :],
    "normalize": lambda x, y: keras.ops.normalize(x - x[:, :1]),
    "UnitNormalization of two axes": lambda x, y: keras.layers.UnitNormalization(axis=[1, 2])(x[:, None] + 1),
    "the last axis, counted from 0": lambda x, y: keras.layers.LayerNormalization(axis=1)(x),
    "squeeze": lambda x, y: keras.ops.squeeze(keras.ops.sum(x, -1, keepdims=True)),
    "whole numbers": lambda x, y: keras.ops.cast(keras.ops.greater(x, y), "int32"),
}


def inner_model(width):
    x = keras.Input((width,))
    return keras.Model(x, keras.layers.Dense(2, name="inner_dense")(x))


@pytest.mark.parametrize("head", HEADS)
def test_heads_of_keras_layers(head):
    bert = small_bert()
    vector = bert.output["pooled_output"]
    outputs = HEADS[head](vector, keras.ops.tanh(3.0 * vector))
    check(randomize(keras.Model(bert.input, {"output": outputs})))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            lambda x: keras.layers.LayerNormalization(axis=[1, 2])(keras.ops.expand_dims(x, -1)),
            r"this axis\..*\[1, 2\]",
        ),
        (lambda x: keras.layers.LayerNormalization(scale=False)(x), r"this scale\. Use the default"),
        (lambda x: keras.layers.Softmax()(x, mask=keras.ops.greater(x, 0)), r"this mask\..*keras.ops.where"),
        (lambda x: keras.ops.max(x, -1, initial=9.0), r"this initial\..*initial=9.0"),
        (lambda x: keras.ops.normalize(x, order=3), r"'normalize' .* this order\. Use 1 or 2\. Received: order=3"),
        (lambda x: keras.layers.Dense(2, activation=lambda x: x)(x), r"activation of the layer.*a lambda"),
        (lambda x: keras.layers.Dense(2, activation=keras.layers.LeakyReLU())(x), r"activation .*Received: LeakyReLU"),
    ],
)
@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_settings_without_a_rule_are_refused(head, message):
    """A setting that is passed over would change the answers."""
    bert = small_bert()
    with pytest.raises(ValueError, match=message) as error:
        to_onnx(keras.Model(bert.input, head(bert.output["pooled_output"])))
    assert "\n" not in str(error.value)


def test_only_the_products_of_blocks_are_int8():
    """A head stays exact, whatever its layers are called."""
    x = keras.Input((8,), name="x")
    model = randomize(keras.Model({"x": x}, keras.layers.Dense(3, name="layer_out")(x)))
    inputs = {"x": np.random.default_rng(0).normal(size=(4, 8)).astype("float32")}
    found = run(to_onnx(model, int8=True), inputs)["output"]
    np.testing.assert_allclose(found, array(model(inputs)), atol=1e-6)


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


def test_int8():
    """Close to float32, with every product of the blocks in int8 and every other one in float32."""
    task = small_task("classifier", small_bert(hidden_size=32, intermediate_size=64, num_hidden_layers=2))
    made = to_onnx(task, int8=True)
    onnx.checker.check_model(made, full_check=True)
    kinds = [node.op_type for node in made.graph.node]
    assert (kinds.count("MatMulInteger"), kinds.count("MatMul")) == (8, 2)
    sizes = {weight.name: weight.data_type for weight in made.graph.initializer}
    assert sizes["word_embeddings/embeddings_int8"] == sizes["layer_1_output/kernel_int8"] == onnx.TensorProto.INT8
    inputs, ours = batch(task), expected(task, batch(task))["output"]
    found = run(made, inputs)["output"]
    np.testing.assert_allclose(found, ours, atol=0.05 * np.abs(ours).max())
    from onnx.reference import ReferenceEvaluator

    (reference,) = ReferenceEvaluator(made).run(None, inputs)  # which rounds as the standard says
    np.testing.assert_allclose(found, reference, atol=0.05 * np.abs(ours).max())


def test_int8_product_after_gelu():
    """A row with large numbers does not make the others coarse, and the lowest value of a GELU has a level."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 1, (1, 4, 64)).astype("float32") * np.array([1, 1000, 0.01, 0])[:, None].astype("float32")
    x = np.maximum(x, GELU_LEAST)
    kernel = rng.normal(size=(64, 8)).astype("float32")
    graph = Graph(int8=True)
    wrong = _wrong(graph, graph.int8_product_after_gelu("x", kernel, "kernel"), x, kernel)
    assert (wrong / np.abs(x).max(-1)[0].clip(-GELU_LEAST) < 0.15).all()


def test_int8_product_after_norm():
    """A channel with large numbers does not make the others coarse."""
    rng = np.random.default_rng(0)
    sizes = np.where(np.arange(64) == 5, 1000, 1).astype("float32")
    x, kernel = (rng.normal(size=shape).astype("float32") for shape in ((1, 4, 64), (64, 8)))
    x, kernel = x * sizes, kernel / sizes[:, None]
    smooth, plain = Graph(int8=True), Graph(int8=True)
    smooth.sizes["x"] = 4 * sizes
    assert (_wrong(smooth, smooth.int8_product_after_norm("x", kernel, "kernel"), x, kernel) < 0.3).all()
    assert (_wrong(plain, plain.int8_product("x", kernel, "kernel"), x, kernel) > 1).any()


def _wrong(graph, product, x, kernel):
    """How far the product is off, at most in each row [S]."""
    ends = {"x": Value("x", "float32", x.shape)}, {"y": Value(product, "float32", (*x.shape[:-1], kernel.shape[-1]))}
    return np.abs(run(graph.model(*ends), {"x": x})["y"] - x @ kernel).max(-1)[0]


@pytest.mark.parametrize("saturates", [True, bool(onnx_runner._saturates())])
def test_int8_products_do_not_saturate(monkeypatch, saturates):
    """Without VNNI, two products are added in 16 bits."""
    monkeypatch.setattr(onnx_runner, "_saturates", lambda: saturates)
    model = onnx.load_model_from_string(onnx_runner.graph_for_this_cpu(small_bert(), int8=True))
    kernels = {
        one.name: onnx.numpy_helper.to_array(one)
        for one in model.graph.initializer
        if one.data_type == onnx.TensorProto.INT8
    }
    most = 64 if saturates else 127
    assert len(kernels) == 6
    for name, kernel in kernels.items():
        assert abs(kernel).max() == (127 if "embedding" in name else most)

    rng = np.random.default_rng(0)
    x, kernel = rng.integers(250, 256, (5, 384), "uint8"), rng.integers(most - 7, most + 1, (384, 40), "int8")
    graph = Graph()
    product = Value(graph("MatMulInteger", "x", graph.weight("kernel", kernel)), "int32", (5, 40))
    model = graph.model({"x": Value("x", "uint8", x.shape)}, {"y": product})
    session = onnx_runner.open_session(model.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x.astype("int64") @ kernel.astype("int64"))
