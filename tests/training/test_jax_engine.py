"""Training on JAX: the loss, stopping and resuming. Run with KERAS_BACKEND=jax."""

import logging
import resource
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training import jax_checkpoints, jax_engine
from keras_bert.training.metrics_log import read_metrics
from keras_bert.training.train import mean_measures, train
from tests.training.small_training import BATCH, batch, batches, small_pretrainer, weights, with_loop

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="the engine of JAX")


def run(steps, *, dropout=0.1, dtype="float32", optimizer=None, batches=batches, **options):
    strategy = keras_bert.strategy("one")
    with strategy.scope():
        model = small_pretrainer(dropout, dtype)
        optimizer = optimizer or keras_bert.AdamW(1e-2)
    train(model, optimizer, batches, strategy=strategy, steps=steps, batch_size=BATCH, **with_loop(options))
    return model


def numbers(step):
    return tf.nest.map_structure(lambda x: x.numpy(), batch(step))


def mean_loss(model, values, step):
    """By the definition: sum(weight * cross entropy) / sum(weight), of masked words and of next sentences."""
    import jax

    x, y, weight = numbers(step)
    with keras.StatelessScope(list(zip(model.trainable_variables, values, strict=True))):
        logits = model(x)
    losses = []
    for name in ("mlm_logits", "nsp_logits"):
        chosen = (jax.nn.log_softmax(logits[name]) * jax.nn.one_hot(y[name], logits[name].shape[-1])).sum(-1)
        losses.append(-(chosen * weight[name]).sum() / weight[name].sum())
    return sum(losses)


@pytest.mark.long
@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_step_is_gradient_descent_on_the_mean_over_the_batch(accumulate):
    import jax

    expected = small_pretrainer()
    values = [variable.value for variable in expected.trainable_variables]
    gradients = jax.grad(lambda values: mean_loss(expected, values, 0))(values)
    norm = np.linalg.norm(np.concatenate([np.ravel(gradient) for gradient in gradients]))
    assert norm > 0.5
    for variable, gradient in zip(expected.trainable_variables, gradients, strict=True):
        variable.assign(variable - 0.1 * gradient * 0.5 / norm)
    model = run(1, dropout=0.0, optimizer=keras.optimizers.SGD(0.1), clip_norm=0.5, accumulate=accumulate)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=0, atol=1e-6)


def test_mean_measures_are_means_over_all_batches():
    strategy = keras_bert.strategy("one")
    with strategy.scope():
        model = small_pretrainer(0.1)
    three = [numbers(step) for step in range(3)]
    found = mean_measures(model, lambda step, part: batches(step, part).take(3), strategy=strategy, batch_size=BATCH)
    right = total = 0
    for x, y, weight in three:
        answers = np.asarray(model(x)["mlm_logits"]).argmax(-1) == y["mlm_logits"]
        right, total = right + (answers * weight["mlm_logits"]).sum(), total + weight["mlm_logits"].sum()
    assert found()["masked_lm_accuracy"] == found()["masked_lm_accuracy"] == pytest.approx(right / total, abs=1e-6)


@pytest.mark.long
def test_float16_scales_its_loss():
    before = weights(small_pretrainer())
    optimizer = keras.optimizers.LossScaleOptimizer(keras_bert.AdamW(1e-2), initial_scale=2.0**40)
    model = run(30, dropout=0.0, dtype="mixed_float16", optimizer=optimizer)
    left_out = 30 - int(optimizer.iterations.numpy())
    assert 5 < left_out < 29, left_out  # steps whose scaled gradients overflowed changed nothing
    assert float(optimizer.dynamic_scale.numpy()) == 2.0 ** (40 - left_out)
    assert np.isfinite(weights(model)).all()
    assert np.abs(weights(model) - before).max() > 0.01


@pytest.mark.long
def test_a_resumed_run_equals_one_that_never_stopped(tmp_path):
    pytest.importorskip("orbax.checkpoint")
    unstopped = run(14)
    run(6, directory=str(tmp_path), steps_per_loop=4)
    again = run(14, directory=str(tmp_path), checkpoint_every=3, keep=2)
    np.testing.assert_array_equal(weights(again), weights(unstopped))
    assert [record["step"] for record in read_metrics(f"{tmp_path}/metrics.jsonl")] == [4, 6, 9, 12, 14]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step_12", "step_14"]


@pytest.mark.long
def test_loops_of_any_length_are_one_program(tmp_path, monkeypatch):
    """So that no later loop compiles, whose seconds are in the log."""
    pytest.importorskip("orbax.checkpoint")
    lengths, programs = [], []
    train, loop = jax_engine.Trainer.train, jax_engine.Trainer.replica_loop
    monkeypatch.setattr(jax_engine.Trainer, "train", lambda self, steps: lengths.append(steps) or train(self, steps))
    monkeypatch.setattr(jax_engine.Trainer, "replica_loop", lambda *of: programs.append(of) or loop(*of))
    run(5, directory=str(tmp_path))
    assert (lengths, len(programs)) == ([5], 1)
    run(20, directory=str(tmp_path), checkpoint_every=8)
    assert (lengths, len(programs)) == ([5, 3, 8, 4], 2)


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, capfd, caplog, monkeypatch):
    """RLIMIT_FSIZE makes a long write fail like a full disk. The error is raised, and nothing else is printed."""
    import jax

    pytest.importorskip("orbax.checkpoint")
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # restored after the run that keeps its own
    run(4, directory=str(tmp_path))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    shortest = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, shortest)
    jax.config.update(shortest, 1e9)  # the files of compiled programs would be too large, too
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limit[1]))
    try:
        with pytest.raises(OSError, match=r"step 8 could not be written.*resumes from .*step_4.*File too large"):
            run(12, directory=str(tmp_path), checkpoint_every=8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        jax.config.update(shortest, before)
    assert "Traceback" not in capfd.readouterr().err
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    run(5, directory=str(tmp_path))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step_4", "step_5"]


@pytest.mark.long
def test_a_run_that_fails_completes_its_checkpoint(tmp_path):
    """It is still being written when the next step fails."""
    pytest.importorskip("orbax.checkpoint")

    def poisoned(step, part):
        def poison(x, y, weight):
            return x, y, {**weight, "mlm_logits": weight["mlm_logits"] * np.nan}

        return batches(step, part).take(1).concatenate(batches(step + 1, part).map(poison))

    options = {"directory": str(tmp_path), "checkpoint_every": 1, "steps_per_loop": 1}
    with pytest.raises(FloatingPointError, match=r"at step 2,.* last good checkpoint: .*step_1\."):
        run(3, batches=poisoned, **options)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_1"]


@pytest.mark.long
def test_checkpoints_that_cannot_be_resumed(tmp_path, monkeypatch):
    pytest.importorskip("orbax.checkpoint")
    run(2, directory=str(tmp_path))
    with pytest.raises(ValueError, match=r"step_2 is of another model or optimizer"):
        run(4, dropout=0.0, directory=str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(jax_checkpoints, "replicas", lambda strategy: 8)
        with pytest.raises(ValueError, match=r"step_2 is of a run on 1 device\. Resume it on that.*: 8 devices"):
            run(4, directory=str(tmp_path))
    theirs = tmp_path / "theirs" / "checkpoints"
    tf.train.CheckpointManager(tf.train.Checkpoint(step=tf.Variable(1)), str(theirs), 1).save(checkpoint_number=1)
    with pytest.raises(ValueError, match=r"ckpt-1 was written under the backend tensorflow.*KERAS_BACKEND=tensorflow"):
        run(4, directory=str(tmp_path / "theirs"))
    assert [path.name for path in theirs.iterdir() if path.name.startswith("step")] == []
    next((tmp_path / "checkpoints" / "step_2").rglob("manifest.ocdbt")).unlink()
    with pytest.raises(
        ValueError, match=r"step_2 cannot be read\. If it is damaged, delete it to resume from the start"
    ):
        run(4, directory=str(tmp_path))


def test_orbax_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(ImportError, match=r"Run: pip install 'keras3-bert\[jax\]'"):
        run(1, directory=str(tmp_path))


def test_a_loss_that_is_not_finite_names_step_and_data():
    def poisoned(step, part):
        def poison(step):
            x, y, weight = batch(step)
            return x, y, {**weight, "mlm_logits": weight["mlm_logits"] * tf.where(step == 7, np.nan, 1.0)}

        return tf.data.Dataset.range(step, 1000).map(poison)

    with pytest.raises(FloatingPointError, match=r"at step 8, with the data of shard of 7\."):
        run(20, dropout=0.0, batches=poisoned, where="shard of {}".format)


def test_devices_of_different_kinds_are_refused(monkeypatch):
    import jax

    kinds = ["A100", "T4", "A100", "T4"]
    devices = [SimpleNamespace(device_kind=k, platform="gpu", id=i, process_index=0) for i, k in enumerate(kinds)]
    monkeypatch.setattr(jax, "devices", lambda: devices)
    with pytest.raises(ValueError, match=r"different kinds.*CUDA_VISIBLE_DEVICES.*Received: 2 A100, 2 T4$"):
        keras_bert.strategy("auto")


def test_strategies():
    assert keras_bert.strategy("auto").num_model_replicas == len(keras.distribution.list_devices())
    for name, message in (
        ("tpu", "needs a TPU, but JAX found none"),
        ("tpu:mine", "Use 'tpu', .*Received: .*'tpu:mine'"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.strategy(name)
