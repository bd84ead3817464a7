"""Training on one device: the loss, stopping and resuming."""

import os
import resource
import signal
import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training import tensorflow_checkpoints
from keras_bert.training.metrics_log import MetricsLog, read_metrics
from keras_bert.training.orbit_engine import Evaluator
from keras_bert.training.strategy import check_batch_size
from keras_bert.training.tensorflow_checkpoints import TensorFlowCheckpoints
from keras_bert.training.train import mean_measures, train
from tests.training.small_training import BATCH, batch, batches, small_pretrainer, weights, with_loop


@pytest.fixture(scope="module")
def one():
    return keras_bert.strategy("one")


def run(strategy, steps, *, dropout=0.1, batches=batches, optimizer=None, **options):
    with strategy.scope():
        model = small_pretrainer(dropout)
        optimizer = optimizer or keras_bert.AdamW(1e-2)
    train(model, optimizer, batches, strategy=strategy, steps=steps, batch_size=BATCH, **with_loop(options))
    return model


def mean_loss(model, step):
    """By the definition: sum(weight * cross entropy) / sum(weight), of masked words and of next sentences."""
    x, y, weight = batch(step)
    logits = model(x, training=False)
    losses = []
    for name in ("mlm_logits", "nsp_logits"):
        probabilities = tf.nn.log_softmax(logits[name])
        chosen = tf.reduce_sum(tf.one_hot(y[name], probabilities.shape[-1]) * probabilities, -1)
        losses.append(-tf.reduce_sum(chosen * weight[name]) / tf.reduce_sum(weight[name]))
    return sum(losses)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_step_is_gradient_descent_on_the_mean_over_the_batch(one, accumulate):
    expected = small_pretrainer()
    with tf.GradientTape() as tape:
        loss = mean_loss(expected, 0)
    variables = [v.value for v in expected.trainable_variables]
    gradients = [x.numpy() for x in tape.gradient(loss, variables)]
    norm = np.sqrt(sum((x.astype("float64") ** 2).sum() for x in gradients))
    assert norm > 0.5
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign_sub(0.1 * gradient * 0.5 / norm)
    model = run(one, 1, dropout=0.0, optimizer=keras.optimizers.SGD(0.1), clip_norm=0.5, accumulate=accumulate)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=0, atol=1e-6)


def test_mean_measures_are_means_over_all_batches(one):
    model = small_pretrainer(0.1)
    counts = [batch(step)[2]["mlm_logits"].numpy().sum() for step in range(3)]
    assert len(set(counts)) > 1
    found = mean_measures(model, lambda step, part: batches(step, part).take(3), strategy=one, batch_size=BATCH)()
    x, y, weight = (
        tf.nest.map_structure(lambda *t: tf.concat(t, 0), *parts) for parts in zip(*map(batch, range(3)), strict=True)
    )
    right = model.predict(x, verbose=0)["mlm_logits"].argmax(-1) == y["mlm_logits"].numpy()
    expected = (right * weight["mlm_logits"].numpy()).sum() / sum(counts)
    assert found["masked_lm_accuracy"] == pytest.approx(expected, abs=1e-6)


def test_a_loop_without_masked_words_has_finite_means(one, tmp_path):
    def unmasked(step, part):
        return batches(step, part).map(lambda x, y, weight: (x, y, weight | {"mlm_logits": 0 * weight["mlm_logits"]}))

    run(one, 1, batches=unmasked, directory=tmp_path)
    (record,) = read_metrics(f"{tmp_path}/metrics.jsonl")
    assert record["masked_lm_loss"] == record["masked_lm_accuracy"] == 0
    assert record["next_sentence_loss"] > 0


def test_a_resumed_run_equals_one_that_never_stopped(one, tmp_path):
    validation = {"validation": lambda step, part: batches(step, part).take(2), "validate_every": 5}
    unstopped = run(one, 14, directory=str(tmp_path / "unstopped"), checkpoint_every=7, **validation)
    stopped = str(tmp_path / "stopped")
    run(one, 6, directory=stopped, steps_per_loop=4, validate_every=1)  # without a validation
    again = run(one, 14, directory=stopped, checkpoint_every=3)
    np.testing.assert_array_equal(weights(again), weights(unstopped))
    steps = [record["step"] for record in read_metrics(f"{stopped}/metrics.jsonl")]
    assert steps == [4, 6, 9, 12, 14]
    for name in ("stopped", "unstopped"):
        saved = tf.train.load_checkpoint(str(tmp_path / name / "checkpoints" / "ckpt-14"))
        assert saved.get_tensor("save_counter/.ATTRIBUTES/VARIABLE_VALUE") == 14  # not the number of saves


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_an_interrupted_validation_is_repeated(one, tmp_path, monkeypatch):
    """By a kill during it, and by one before its checkpoint."""
    save = TensorFlowCheckpoints.save

    def killed(*_):
        raise ZeroDivisionError

    def killed_at_the_end(self, step, wait):
        return killed() if step == 6 else save(self, step, wait=wait)

    def two(step, part):
        return batches(step, part).take(2)

    def resume():
        return run(one, 6, directory=str(tmp_path), checkpoint_every=4, validation=two)

    for kind, name, kill in (
        (Evaluator, "evaluate", killed),
        (TensorFlowCheckpoints, "save", killed_at_the_end),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, kill)
            with pytest.raises(ZeroDivisionError):
                resume()
    np.testing.assert_array_equal(weights(resume()), weights(run(one, 6)))
    records = read_metrics(f"{tmp_path}/metrics.jsonl")
    assert [(x["step"], "validation_masked_lm_loss" in x) for x in records] == [(4, False), (6, False), (6, True)]


@pytest.mark.long
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("steps", [6, 8])
def test_a_validation_that_a_signal_skipped_is_made_up(one, tmp_path, monkeypatch, steps):
    """At the last step, and at one before it."""

    def resume():
        options = {"validation": lambda step, part: batches(step, part).take(1), "validate_every": 6}
        return run(one, steps, directory=str(tmp_path), steps_per_loop=6, **options)

    with monkeypatch.context() as patch:
        evaluate = Evaluator.evaluate
        patch.setattr(MetricsLog, "__call__", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
        patch.setattr(Evaluator, "evaluate", lambda *_: pytest.fail("validated after the signal"))
        with pytest.raises(SystemExit):
            resume()
        patch.setattr(Evaluator, "evaluate", evaluate)
    for _ in range(2):  # the second time, nothing is left to do
        resume()
        steps_of = [x["step"] for x in read_metrics(f"{tmp_path}/metrics.jsonl") if "validation_masked_lm_loss" in x]
        assert steps_of == list(range(6, steps + 1, 2))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_in_the_last_validation_of_a_stage(one, tmp_path, monkeypatch, number, ends):
    """The next stage does not begin; after the last stage, the model is still written."""
    options = {"directory": str(tmp_path), "validation": lambda step, part: batches(step, part).take(1)}
    evaluate = Evaluator.evaluate

    def asked(self):
        signal.raise_signal(number)
        return evaluate(self)

    monkeypatch.setattr(Evaluator, "evaluate", asked)
    with pytest.raises(ends):
        run(one, 2, total_steps=4, **options)
    assert tf.train.latest_checkpoint(tmp_path / "checkpoints").endswith("-2")
    run(one, 4, total_steps=4, **options)
    assert tf.train.latest_checkpoint(tmp_path / "checkpoints").endswith("-4")


@pytest.mark.long
@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_saves_and_stops(one, tmp_path, number, ends):
    before = signal.getsignal(number)

    def stopping(step, part):
        def send(at):
            if at == 7:
                os.kill(os.getpid(), number)
            return at

        numbers = tf.data.Dataset.range(step, 1000)
        numbers = numbers.map(lambda at: tf.ensure_shape(tf.numpy_function(send, [at], tf.int64), []))
        return numbers.map(batch)

    with pytest.raises(ends) as stopped:
        run(one, 1000, batches=stopping, directory=str(tmp_path), checkpoint_every=500, steps_per_loop=2)
    assert getattr(stopped.value, "code", 143) == 143
    step = int(tf.train.latest_checkpoint(tmp_path / "checkpoints").rpartition("-")[2])
    assert 0 < step < 100
    np.testing.assert_array_equal(weights(run(one, step, directory=str(tmp_path))), weights(run(one, step)))
    assert signal.getsignal(number) == before


def test_a_loss_that_is_not_finite_names_step_data_and_checkpoint(one, tmp_path):
    def poisoned(step, part):
        def poison(step):
            x, y, weight = batch(step)
            bad = tf.where(step == 7, np.nan, 1.0)
            return x, y, {**weight, "mlm_logits": weight["mlm_logits"] * bad}

        return tf.data.Dataset.range(step, 1000).map(poison)

    with pytest.raises(FloatingPointError, match=r"at step 8, with the data of shard of 7\..*checkpoints/ckpt-5\."):
        run(one, 20, batches=poisoned, directory=str(tmp_path), checkpoint_every=5, where="shard of {}".format)


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_a_full_disk_keeps_the_last_checkpoint(one, tmp_path):
    """RLIMIT_FSIZE makes a long write fail like a full disk."""
    directory = str(tmp_path)
    run(one, 4, directory=directory)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    try:
        with pytest.raises(OSError, match=r"step 8 could not be written.*resumes from .*ckpt-4"):
            run(one, 12, directory=directory, checkpoint_every=8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    left = {path.name.split(".")[0] for path in (tmp_path / "checkpoints").iterdir()}
    assert left == {"checkpoint", "ckpt-4"}


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_checkpoints_are_kept_by_number(one, tmp_path):
    run(one, 12, directory=str(tmp_path), checkpoint_every=2, keep=3)
    assert sorted(path.stem for path in tmp_path.glob("checkpoints/*.index")) == ["ckpt-10", "ckpt-12", "ckpt-8"]


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_checkpoints_are_kept_by_number_if_the_clock_is_set_back(one, tmp_path, monkeypatch):
    run(one, 4, directory=tmp_path, checkpoint_every=1, keep=2)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 365 * 24 * 3600)
    run(one, 6, directory=tmp_path, checkpoint_every=1, keep=2)
    assert {path.stem for path in (tmp_path / "checkpoints").glob("ckpt-*")} == {"ckpt-5", "ckpt-6"}


def test_a_worker_that_cannot_save_removes_nothing_of_the_chief(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorflow_checkpoints, "is_chief", lambda strategy: False)
    strategy = SimpleNamespace(cluster_resolver=SimpleNamespace(task_id=1))
    worker = TensorFlowCheckpoints(
        str(tmp_path), {"x": [tf.Variable(0.0)]}, strategy=strategy, keep=5, keep_every_hours=None
    )
    fragment = tmp_path / "ckpt-2.data-00000-of-00001"
    fragment.touch()  # which the chief is writing
    monkeypatch.setattr(worker.manager, "save", lambda **_: (tmp_path / "missing").read_text())
    with pytest.raises(OSError, match="step 2 could not be written"):
        worker.save(2, wait=True)
    assert fragment.exists()


@pytest.mark.usefixtures("eager")
def test_a_checkpoint_of_another_model_is_refused(one, tmp_path):
    run(one, 2, directory=str(tmp_path))
    with one.scope():
        model = small_pretrainer(0.0)  # no states of dropout
    with pytest.raises(ValueError, match=r"of another model or optimizer.* the variable .* (has the shape|is missing)"):
        train(model, keras_bert.AdamW(), batches, strategy=one, steps=4, batch_size=BATCH, directory=str(tmp_path))


def test_a_checkpoint_of_jax_is_refused_and_nothing_is_written_beside_it(one, tmp_path):
    (tmp_path / "checkpoints" / "step_3").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"step_3 was written under the backend jax.* use KERAS_BACKEND=jax"):
        run(one, 4, directory=str(tmp_path))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_3"]


def test_a_batch_that_cannot_be_split_evenly(one):
    with pytest.raises(ValueError, match=r"multiple of 3: 1 replicas times accumulate=3\. Use 15\. Received: .*16"):
        check_batch_size(16, one, accumulate=3)


@pytest.mark.parametrize("name", ["auto", "mirrored", "multi_worker"])
def test_gpus_of_different_kinds_are_refused(monkeypatch, name):
    gpus = {f"GPU:{number}": SimpleNamespace(name=kind) for number, kind in enumerate(["NVIDIA A100", "Tesla T4"])}
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: list(gpus.values()))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: list(gpus))
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"device_name": gpus[gpu].name})
    if name == "multi_worker":
        monkeypatch.setenv(
            "TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
        )
    with pytest.raises(ValueError, match=r"different kinds.*'one'\. Received: 1 NVIDIA A100, 1 Tesla T4$"):
        keras_bert.strategy(name)


def test_a_model_built_outside_the_scope_is_named():
    with pytest.raises(ValueError, match=r"not built in the strategy's scope.*Received: .*word_embeddings"):
        train(
            small_pretrainer(),
            keras_bert.AdamW(),
            batches,
            strategy=tf.distribute.OneDeviceStrategy("CPU:0"),
            steps=1,
            batch_size=BATCH,
        )


@pytest.mark.long
def test_weights_without_a_gradient_are_named(one):
    model = OnlyMasked(small_pretrainer().bert)
    with pytest.raises(ValueError, match=r"(?s)does not depend on all trainable weights.*nsp/kernel"):
        train(model, keras_bert.AdamW(), batches, strategy=one, steps=1, batch_size=BATCH)


class OnlyMasked(keras_bert.Pretrainer):
    objective = ("masked_lm_loss",)
