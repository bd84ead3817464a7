"""LAMB against the paper's algorithm in numpy, and the schedule against its definition."""

import keras
import numpy as np
import pytest

from keras_bert.training.optimizer import Lamb, WarmupLinearDecay
from keras_bert.training.strategy import strategy


def test_lamb_is_algorithm_2():
    rng = np.random.default_rng(0)
    kernel, bias = rng.standard_normal((4, 3)).astype("float32"), rng.standard_normal(3).astype("float32")
    dense = keras.layers.Dense(3)
    dense.build((None, 4))
    dense.set_weights([kernel, bias])
    optimizer = Lamb(0.01, weight_decay=0.1)
    optimizer.build(dense.trainable_variables)
    expected = {"kernel": kernel.astype("float64"), "bias": bias.astype("float64")}
    moments = {name: [0.0, 0.0] for name in expected}
    for step in range(1, 6):
        gradients = {name: rng.standard_normal(x.shape).astype("float32") for name, x in expected.items()}
        optimizer.apply([keras.ops.convert_to_tensor(gradients[v.name]) for v in dense.trainable_variables])
        for name, x in expected.items():
            m = 0.9 * moments[name][0] + 0.1 * gradients[name]
            v = 0.999 * moments[name][1] + 0.001 * gradients[name].astype("float64") ** 2
            moments[name] = [m, v]
            update = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-6)
            if name == "kernel":
                update = update + 0.1 * x
                update *= np.linalg.norm(x) / np.linalg.norm(update)
            expected[name] = x - 0.01 * update
    for variable in dense.trainable_variables:
        np.testing.assert_allclose(np.asarray(variable), expected[variable.name], rtol=1e-5)


@pytest.mark.parametrize("weight_decay", [0.0, None])
def test_lamb_updates_weights_that_are_zero(weight_decay):
    dense = keras.layers.Dense(2, kernel_initializer="zeros")
    dense.build((None, 2))
    optimizer = Lamb(0.5, weight_decay=weight_decay)
    optimizer.build(dense.trainable_variables)
    optimizer.apply([keras.ops.ones((2, 2)), keras.ops.ones(2)])
    np.testing.assert_allclose(np.asarray(dense.kernel), -0.5, rtol=1e-4)


def test_the_schedule_rises_then_falls_to_zero():
    schedule = WarmupLinearDecay(2.0, steps=10, warmup_steps=4)
    found = [float(schedule(step)) for step in range(12)]
    np.testing.assert_allclose(found, [0.5, 1, 1.5, 2, 2, 5 / 3, 4 / 3, 1, 2 / 3, 1 / 3, 0, 0], rtol=1e-6)
    again = WarmupLinearDecay.from_config(schedule.get_config())
    assert float(again(2)) == 1.5
    with pytest.raises(ValueError, match="from 0 to 10, the number of steps"):
        WarmupLinearDecay(1.0, steps=10, warmup_steps=11)


@pytest.mark.parametrize("name", ["mirored", "one:two", ""])
def test_a_wrong_strategy_names_the_right_ones(name):
    with pytest.raises(ValueError, match=r"auto, tpu, tpu:NAME, multi_worker, mirrored, one\. Received"):
        strategy(name)


def test_several_devices_of_another_backend(monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "torch")
    with pytest.raises(ValueError, match=r"need TensorFlow or JAX.*Received: strategy 'mirrored', backend 'torch'"):
        strategy("mirrored")


def test_strategies_without_their_devices(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match="needs a TPU"):
        strategy("tpu")
    with pytest.raises(ValueError, match="Set TF_CONFIG"):
        strategy("multi_worker")
    monkeypatch.setenv("TF_CONFIG", "{worker}")
    with pytest.raises(ValueError, match="must be JSON such as"):
        strategy("auto")


def test_one_device_is_logged(caplog):
    with caplog.at_level("INFO", "keras_bert"):
        assert strategy().num_replicas_in_sync == 1
    assert "one device" in caplog.text
