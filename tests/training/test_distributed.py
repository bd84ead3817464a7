"""The same weights on any number of devices, workers and parts; in processes of their own, with two logical CPUs."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests.subprocesses import python

START = """
    import sys
    import numpy as np
    import tensorflow as tf
    from tests.training.small import BATCH, batches, small_pretrainer, weights

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * int(sys.argv[1]))

    import keras_bert
    from keras_bert.training.loop import train

    def trained(strategy, steps, dropout=0.0, dtype="float32", **options):
        with strategy.scope():
            model = small_pretrainer(dropout, dtype)
            optimizer = keras_bert.AdamW(1e-2)
        train(model, optimizer, batches, strategy=strategy, steps=steps, batch_size=BATCH, **options)
        return model
"""


def run(code, *arguments):
    return python(textwrap.dedent(START) + textwrap.dedent(code), *map(str, arguments), PYTHONPATH=os.getcwd())


@pytest.mark.slow
def test_weights_are_those_of_one_device(tmp_path):
    one = tmp_path / "one.npy"
    run(
        """
        one = trained(keras_bert.strategy("one"), 50)
        np.save(sys.argv[2], weights(one))
        two = trained(keras_bert.strategy("mirrored"), 50)
        np.testing.assert_allclose(weights(two), weights(one), rtol=0, atol=1e-5)
        parts = trained(keras_bert.strategy("one"), 50, accumulate=4)
        np.testing.assert_allclose(weights(parts), weights(one), rtol=0, atol=1e-5)
        parts = trained(keras_bert.strategy("mirrored"), 2, accumulate=2)
        np.testing.assert_allclose(weights(parts), weights(trained(keras_bert.strategy("one"), 2)), rtol=0, atol=1e-5)
        assert np.abs(weights(one) - weights(small_pretrainer())).max() > 0.05
        """,
        2,
        one,
    )
    ports = [_free_port() for _ in range(2)]
    addresses = [f"localhost:{port}" for port in ports]
    code = textwrap.dedent(START) + textwrap.dedent(
        """
        model = trained(keras_bert.strategy(), 50, directory=sys.argv[2], checkpoint_every=20)
        np.save(sys.argv[3], weights(model))
        """
    )
    workers = []
    for index in range(2):
        cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {"TF_CONFIG": json.dumps(cluster), "PYTHONPATH": os.getcwd(), "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, "-W", "ignore", "-c", code, "1", tmp_path / "run", tmp_path / f"{index}.npy"]
        workers.append(subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True))
    for worker in workers:
        _, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors[-3000:]
    for index in range(2):
        np.testing.assert_allclose(np.load(tmp_path / f"{index}.npy"), np.load(one), rtol=0, atol=1e-5)
    assert sorted(x.name for x in (tmp_path / "run" / "checkpoints").glob("*.index")) == [
        "ckpt-20.index",
        "ckpt-40.index",
        "ckpt-50.index",
    ]


def _free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


@pytest.mark.slow
def test_each_replica_draws_its_own_masks_and_has_the_same_weights():
    run(
        """
        import keras
        from keras_bert.layers.norm import Dropout

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
        alone = trained(keras_bert.strategy("one"), 5, dropout=0.1)
        assert np.abs(weights(model) - weights(alone)).max() > 1e-3
        """,
        2,
    )


@pytest.mark.slow
def test_float16_scales_its_loss_on_replicas():
    run(
        """
        import keras
        strategy = keras_bert.strategy("mirrored")
        with strategy.scope():
            model = small_pretrainer(dtype="mixed_float16")
            optimizer = keras.optimizers.LossScaleOptimizer(keras_bert.AdamW(1e-2), initial_scale=2.0**40)
        before = weights(model)
        train(model, optimizer, batches, strategy=strategy, steps=30, batch_size=BATCH)
        left_out = 30 - int(optimizer.iterations.value.read_value())
        assert 5 < left_out < 29, left_out  # steps whose scaled gradients overflowed moved nothing
        assert float(optimizer.dynamic_scale.value.read_value()) == 2.0 ** (40 - left_out)
        assert np.isfinite(weights(model)).all() and np.abs(weights(model) - before).max() > 0.01
        """,
        2,
    )
