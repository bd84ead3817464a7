"""The private APIs of Keras and TensorFlow still do what keras_bert/compat.py uses them for."""

from contextlib import nullcontext

import keras
import numpy as np
import pytest

from keras_bert import compat, kernels
from keras_bert.model import Model
from tests.parity.oracles import array


def small_model(**layers):
    inputs = keras.Input((2,))
    return keras.Model(inputs, keras.layers.Dense(1, **layers)(inputs))


def test_an_untracked_attribute(tmp_path):
    model, layer = small_model(), keras.layers.Dense(3)
    layer.build((None, 2))
    compat.set_untracked(model, "other", layer)
    compat.set_untracked(model, "numbers", numbers := [1, 2])
    assert model.other is layer
    assert model.numbers is numbers
    assert len(model.weights) == 2
    model.save(tmp_path / "model.keras")
    assert not hasattr(keras.models.load_model(tmp_path / "model.keras"), "other")


def test_compiled_metrics():
    model = small_model()
    assert list(compat.compiled_metrics(model)) == []
    model.compile(loss="mse")
    assert list(compat.compiled_metrics(model)) == []
    mean = keras.metrics.MeanSquaredError()
    model.compile(loss="mse", metrics=["mae"], weighted_metrics=[mean])
    assert list(compat.compiled_metrics(model)) == ["mae", mean]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow warns")
def test_a_loop_of_models_causes_no_warning(caplog):
    for _ in range(6):  # TensorFlow warns of the fifth
        inputs = keras.Input((2,))
        model = Model(inputs, keras.layers.Dense(1)(inputs))
        model.compile(loss="mse")
        model.fit(np.ones((1, 2)), np.ones((1, 1)), verbose=0)
    assert "retracing" not in caplog.text


@pytest.mark.parametrize("kind", [keras.optimizers.AdamW, keras.optimizers.Lamb])
def test_moments_and_decay(kind):
    model = small_model()
    optimizer = kind(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.build(model.trainable_variables)
    kernel, bias = model.trainable_variables
    assert compat.decays(optimizer, kernel)
    assert not compat.decays(optimizer, bias)
    assert [compat.number_of(optimizer, variable) for variable in (kernel, bias)] == [0, 1]
    assert compat.averages_of(optimizer) == []
    gradients = [keras.ops.ones(variable.shape) for variable in (kernel, bias)]
    optimizer.apply(gradients)
    for variable in (kernel, bias):
        first, second = compat.moments_of(optimizer, variable)
        assert first.shape == second.shape == variable.shape
        np.testing.assert_allclose(array(first), 1 - optimizer.beta_1, rtol=1e-6)
        np.testing.assert_allclose(array(second), 1 - optimizer.beta_2, rtol=1e-4)


def test_without_separate_decay():
    class Still(compat.WithoutSeparateDecay, keras.optimizers.AdamW):
        """Decays nothing, since it leaves that to an `update_step` that Keras's is not."""

    for kind, moves in ((keras.optimizers.AdamW, True), (Still, False)):
        model = small_model()
        before = model.get_weights()
        optimizer = kind(0.1, weight_decay=0.5)
        optimizer.build(model.trainable_variables)
        optimizer.apply([keras.ops.zeros(variable.shape) for variable in model.trainable_variables])
        assert (not np.array_equal(before[0], model.get_weights()[0])) == moves
        assert optimizer.get_config()["weight_decay"] == 0.5


def test_averages_of():
    model = small_model()
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
    optimizer.build(model.trainable_variables)
    for _ in range(2):
        optimizer.apply([keras.ops.ones(variable.shape) for variable in model.trainable_variables])
    (kernel, average), _ = compat.averages_of(keras.optimizers.LossScaleOptimizer(optimizer))
    assert kernel is model.trainable_variables[0]
    np.testing.assert_allclose(array(average), array(kernel) + 0.05, rtol=1e-5)  # between both steps


def test_counts_updates():
    class Counting(compat.CountsUpdates, keras.optimizers.SGD):
        """The schedule of Keras's own would count four batches."""

    schedule = keras.optimizers.schedules.PolynomialDecay(1.0, 4, 0.0)
    for kind, rate in ((keras.optimizers.SGD, 0.0), (Counting, 0.5)):
        model = small_model()
        optimizer = kind(schedule, gradient_accumulation_steps=2)
        optimizer.build(model.trainable_variables)
        for _ in range(4):
            optimizer.apply([keras.ops.ones(variable.shape) for variable in model.trainable_variables])
        assert float(optimizer.learning_rate) == rate
    assert float(Counting(0.25).learning_rate) == 0.25


def test_epochs_that_end_early():
    class Ones(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, number):
            return np.ones((1, 2)), np.ones((1, 1))

    seen = []

    def batch_end(batch, logs):
        seen.append(batch)
        model.stop_training = len(seen) == 2

    def epoch_end(epoch, logs):
        model.stop_training = False

    model, options = small_model(), {"epochs": 2, "verbose": 0}
    model.compile("sgd", "mse")
    ends_early = keras.callbacks.LambdaCallback(on_train_batch_end=batch_end, on_epoch_end=epoch_end)
    with pytest.raises(ValueError, match="called twice without `on_epoch_end`"):
        model.fit(Ones(), callbacks=[ends_early], **options)
    seen.clear()
    model.fit(compat.epochs_that_end_early(Ones()), callbacks=[ends_early], **options)
    assert seen == [0, 1, 0, 1, 2]


# === TensorFlow ===


@pytest.fixture
def tf():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("these are TensorFlow's")
    import tensorflow as tf

    return tf


@pytest.mark.parametrize("wrap", [lambda optimizer: optimizer, keras.optimizers.LossScaleOptimizer])
def test_summed_gradients_are_not_summed_again(tf, monkeypatch, wrap):
    summed = []
    context = type(tf.distribute.get_replica_context())
    all_reduce = context.all_reduce
    monkeypatch.setattr(context, "all_reduce", lambda *given: summed.append(1) or all_reduce(*given))
    model, optimizer = small_model(), wrap(keras.optimizers.SGD(0.1))
    optimizer.build(model.trainable_variables)
    for block, times in ((nullcontext(), 1), (compat.summed_gradients(optimizer), 0), (nullcontext(), 1)):
        summed.clear()
        with block:
            optimizer.apply([keras.ops.ones(variable.shape) for variable in model.trainable_variables])
        assert len(summed) == times


def test_is_eager(tf):
    found = []

    @tf.function
    def graph(x):
        found.append(compat.is_eager(x))
        return x

    assert compat.is_eager(graph(tf.constant(1)))
    assert found == [False]


def test_is_compiled_by_xla(tf):
    found = []

    def body(x):
        found.append(compat.is_compiled_by_xla())
        return tf.cond(x > 0, lambda: (found.append(compat.is_compiled_by_xla()), x)[1], lambda: x)

    for jit_compile in (False, True):
        tf.function(body, jit_compile=jit_compile).get_concrete_function(tf.constant(1))
    assert not compat.is_compiled_by_xla()
    assert found == [False, False, True, True]


def test_a_trackable_is_saved_with_plain_attributes(tf, tmp_path):
    variable = tf.Variable(3.0)
    root = compat.trackable(tf.function(lambda x: x * variable, input_signature=[tf.TensorSpec([])]))
    root.variables, root.trainable_variables = [variable], []
    root.part = compat.trackable(root.__call__)
    root.part.name = tf.Variable("a")
    tf.saved_model.save(root, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert loaded(tf.constant(2.0)).numpy() == 6
    assert (len(loaded.variables), len(loaded.trainable_variables), loaded.part.name.numpy()) == (1, 0, b"a")


def test_functions_are_traced_once_for_saving(tf, tmp_path):
    traced = []

    @tf.function(input_signature=[tf.TensorSpec([])])
    def call(x):
        traced.append(1)
        return x

    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    with compat.saving_with(options):
        call.get_concrete_function()
        root = compat.trackable(call)
    tf.saved_model.save(root, str(tmp_path), options=options)
    assert len(traced) == 1


def test_the_protocol_buffers(tf, tmp_path):
    words = tf.Variable(1.0)
    root = compat.trackable(tf.function(lambda x: {"y": x * words}, input_signature=[tf.TensorSpec([None], name="x")]))
    root.words = words
    tf.saved_model.save(root, str(tmp_path), signatures={"serving_default": root.__call__})
    signature = compat.read_saved_model((tmp_path / "saved_model.pb").read_bytes()).meta_graphs[0].signature_def
    assert list(signature["serving_default"].inputs) == ["x"]
    reader = tf.train.load_checkpoint(str(tmp_path / "variables" / "variables"))
    graph = compat.read_object_graph(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    assert "words" in [child.local_name for child in graph.nodes[0].children]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the op is TensorFlow's")
@pytest.mark.parametrize("in_graph", [False, True])
def test_a_quantized_product(in_graph):
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = rng.integers(-127, 128, (4, 8)).astype("int8")
    most = kernels.largest_int8_weight()
    kernel = rng.integers(-most, most + 1, (8, 3)).astype("int8")
    limit, bias = np.array([1, 2, 4], "float32"), np.array([0, 1, 2], "float32")

    def product():
        inputs = tf.bitcast(tf.constant(x), tf.qint8), tf.constant(-2.0), tf.constant(2.0)
        return compat.quantized_product(
            inputs, tf.bitcast(tf.constant(kernel), tf.qint8), tf.constant(limit), bias, None
        )

    found = tf.function(product)() if in_graph else product()
    expected = (x * (2 / 127)) @ (kernel * (limit / 127)) + bias
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
