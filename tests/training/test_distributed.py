"""Equal weights on any number of devices, workers and parts, in processes of their own with two logical CPUs."""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.layers.norm import Dropout
from keras_bert.training.train import engine, train
from tests.soak import IN_SOAK
from tests.subprocesses import FORKS, fork, free_port
from tests.training.small_training import BATCH, batches, small_pretrainer, weights, with_loop

pytestmark = pytest.mark.long


def two_devices():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def trained(strategy, steps, dropout=0.0, **options):
    with strategy.scope():
        model = small_pretrainer(dropout)
        optimizer = keras_bert.AdamW(1e-2)
    train(model, optimizer, batches, strategy=strategy, steps=steps, batch_size=BATCH, **with_loop(options))
    return model


def on_devices(path):
    two_devices()
    one, two = keras_bert.strategy("one"), keras_bert.strategy("mirrored")
    expected = weights(trained(one, 50))
    np.save(path, expected)
    np.testing.assert_allclose(weights(trained(two, 50)), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(weights(trained(one, 50, accumulate=4)), expected, rtol=0, atol=1e-5)
    parts = trained(two, 2, accumulate=2)
    np.testing.assert_allclose(weights(parts), weights(trained(one, 2)), rtol=0, atol=1e-5)
    assert np.abs(expected - weights(small_pretrainer())).max() > 0.05


def on_a_worker(index, addresses, folder):
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    os.environ["TF_CONFIG"] = json.dumps(cluster)
    strategy = keras_bert.strategy()
    np.testing.assert_array_equal(engine.gathering(strategy)(index, 5), [[0, 5], [1, 5]])
    model = trained(strategy, 50, directory=str(folder / "run"), checkpoint_every=20)
    np.save(folder / f"{index}.npy", weights(model))


@IN_SOAK
def test_weights_are_those_of_one_device(tmp_path):
    fork(on_devices, tmp_path / "one.npy")
    addresses = [f"localhost:{free_port()}" for _ in range(2)]
    workers = [FORKS.Process(target=on_a_worker, args=(i, addresses, tmp_path), daemon=True) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
        assert worker.exitcode == 0
    for index in range(2):
        found, one = (np.load(tmp_path / f"{name}.npy") for name in (index, "one"))
        np.testing.assert_allclose(found, one, rtol=0, atol=1e-5)
    assert sorted(x.name for x in (tmp_path / "run" / "checkpoints").glob("*.index")) == [
        "ckpt-20.index",
        "ckpt-40.index",
        "ckpt-50.index",
    ]


def on_replicas():
    two_devices()
    strategy = keras_bert.strategy("mirrored")
    with strategy.scope():
        dropout = Dropout(0.5, seed=1)
    drop = tf.function(lambda: strategy.run(lambda: dropout(tf.ones([1000]), training=True)))
    draws = [x.numpy() > 0 for _ in range(2) for x in strategy.experimental_local_results(drop())]
    for i in range(4):  # two replicas, two steps: no two alike
        for j in range(i):
            assert 400 < (draws[i] != draws[j]).sum() < 600, (i, j)

    model = trained(strategy, 5, dropout=0.1)
    for variable in model.variables:
        first, second = (x.numpy() for x in strategy.experimental_local_results(variable.value))
        np.testing.assert_array_equal(first, second, variable.path)
    one = trained(keras_bert.strategy("one"), 5, dropout=0.1)
    assert np.abs(weights(model) - weights(one)).max() > 1e-3


def test_each_replica_draws_its_own_masks_and_has_the_same_weights():
    fork(on_replicas)


def in_float16():
    two_devices()
    strategy = keras_bert.strategy("mirrored")
    with strategy.scope():
        model = small_pretrainer(dtype="mixed_float16")
        optimizer = keras.optimizers.LossScaleOptimizer(keras_bert.AdamW(1e-2), initial_scale=2.0**40)
    before = weights(model)
    train(model, optimizer, batches, strategy=strategy, steps=30, batch_size=BATCH)
    left_out = 30 - int(optimizer.iterations.value.read_value())
    assert 5 < left_out < 29, left_out  # steps whose scaled gradients overflowed changed nothing
    assert float(optimizer.dynamic_scale.value.read_value()) == 2.0 ** (40 - left_out)
    assert np.isfinite(weights(model)).all()
    assert np.abs(weights(model) - before).max() > 0.01


def test_float16_scales_its_loss_on_replicas():
    fork(in_float16)


class Counted(tf.distribute.ReductionToOneDevice):
    """Counts the bytes that each replica gives to be summed, when the graph is made."""

    summed = 0

    def batch_reduce_implementation(self, reduce_op, value_destination_pairs, options):
        for value, _ in value_destination_pairs:
            first = value.values[0]
            self.summed += first.shape.num_elements() * first.dtype.size
        return super().batch_reduce_implementation(reduce_op, value_destination_pairs, options)


def counting():
    two_devices()
    counted = Counted()
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    model = trained(tf.distribute.MirroredStrategy(devices, counted), 2)
    parameters = 4 * sum(variable.shape.num_elements() for variable in model.trainable_variables)
    assert parameters < counted.summed < 1.02 * parameters + 100  # and a few losses and counts


def test_each_gradient_is_summed_over_the_replicas_once():
    fork(counting)
