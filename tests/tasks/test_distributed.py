"""A task's fit on two replicas gives the weights of one device: exact means, static shapes, a filled last batch."""

import logging

import keras
import numpy as np
import pytest

from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.losses import MultipleNegativesRanking
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from tests.parity.oracles import array
from tests.soak import IN_SOAK
from tests.subprocesses import fork
from tests.tasks.small import NO_DROPOUT, WORDS, columns, small_bert, small_task

pytest.importorskip("orbit", reason="pip install keras3-bert[pretrain]")


def _trained(kind, strategy):
    keras.utils.set_random_seed(0)  # of the head
    with strategy.scope():
        task = small_task(kind, small_bert(**NO_DROPOUT, num_hidden_layers=1))
        task.compile(keras.optimizers.SGD(0.1), task.default_loss(), weighted_metrics=task.default_metrics())
    x, y = columns(kind)
    copies = [tuple(c * 5 for c in x) if isinstance(x, tuple) else x * 5, y * 5]
    seen = []
    last = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append((epoch, dict(logs))))
    options = {"batch_size": 6, "epochs": 2, "verbose": 0, "callbacks": [last], "validation_data": (x, y)}
    history = task.fit(*copies, **options).history
    assert history["loss"] == [logs["loss"] for _, logs in seen]
    del history["loss"]  # which Keras averages over batches by their rows, and the loop by their weights
    return task, [history[name] for name in sorted(history)], task.evaluate(x, y, verbose=0)


def _two_replicas():
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def differences(kinds):
    """For each kind of task the largest of its weights, of its history and of its scores."""
    import tensorflow as tf

    replicas = _two_replicas()
    found = {}
    for kind in kinds:
        two, seen, measured = _trained(kind, replicas)
        assert two.is_distributed
        one, expected, alone = _trained(kind, tf.distribute.get_strategy())
        weights = [np.abs(array(a) - array(b)).max() for a, b in zip(two.weights, one.weights, strict=True)]
        scores = np.abs(np.array(measured) - np.array(alone)).max()
        found[kind] = max(weights), np.abs(np.array(seen) - np.array(expected)).max(), scores
    return found


@pytest.mark.long
@pytest.mark.parametrize("kinds", [("tagger", "windows"), pytest.param(("classifier", "choice"), marks=IN_SOAK)])
def test_two_replicas(kinds):
    """Their losses have a weight for each piece, or for each text; two of them have several rows for each example."""
    found = fork(differences, kinds)
    assert [*found] == [*kinds]
    for kind, values in found.items():
        assert max(values) <= 1e-5, kind


def embedders(*forms):
    """For each form of rows, how far the weights and the scores of two replicas are from those of one device."""
    import tensorflow as tf

    replicas, found = _two_replicas(), {}
    texts = [f"{' '.join(WORDS[number : number + 3])} good" for number in range(11)]
    others, third = texts[3:] + texts[:3], texts[5:] + texts[:5]
    scores = [number / 11 for number in range(11)]
    given = {
        "pairs": ((texts, others), None, {"sample_weight": [1.0, 0.0] * 5 + [0.5]}),
        "negatives": ((texts, others, third), None, {"loss": MultipleNegativesRanking(symmetric=True)}),
        "scores": ((texts, others), scores, {}),
        "cosent": ((texts, others), scores, {"loss": "cosent"}),
        "labels": (texts, [number % 3 for number in range(11)], {}),
    }

    def trained(form, strategy):
        x, y, options = given[form]
        y = [] if "sample_weight" in options else y
        with strategy.scope():
            task = small_task("embedder", small_bert(**NO_DROPOUT))
        recipe = FinetuneRecipe(learning_rate=1e-3, epochs=2, batch_size=4)  # a row fills up the last batch
        held_out = ((texts, others), scores)
        history = task.fit(x, y, recipe=recipe, validation_data=held_out, verbose=0, **options).history
        scored = [history["val_loss"], history["val_spearman"], [task.evaluate((texts, others), [], verbose=0)] * 2]
        return np.concatenate([np.ravel(array(weight)) for weight in task.trainable_variables]), np.array(scored)

    for form in forms:
        pairs = zip(trained(form, replicas), trained(form, tf.distribute.get_strategy()), strict=True)
        found[form] = [np.abs(two - one).max() for two, one in pairs]
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "forms", [("pairs", "labels"), ("negatives",), pytest.param(("scores", "cosent"), marks=IN_SOAK)]
)
def test_embedders_compare_with_texts_of_all_replicas(forms):
    found = fork(embedders, *forms)
    assert [*found] == [*forms]
    for form, values in found.items():
        assert max(values) <= 1e-5, form


def said_of_options():
    """Of metrics that are not the task's and of steps_per_epoch; and whether the order as given differs by seed."""
    replicas, said, losses = _two_replicas(), [], []
    logging.getLogger("keras_bert").addHandler(handler := logging.Handler())
    handler.emit = lambda record: said.append(record.getMessage())
    with replicas.scope():
        task = small_task("classifier", small_bert(**NO_DROPOUT))
        task.compile(keras.optimizers.SGD(0.0), task.default_loss(), metrics=["accuracy", "mse"])
    x, y = columns("classifier")
    for wrong in (
        lambda: task.fit(x, y, batch_size=2, steps_per_epoch=1, verbose=0),
        lambda: task.evaluate(x, y, steps=1),
    ):
        try:
            wrong()
        except (ValueError, TypeError) as error:
            said.append(str(error))
    batches = []
    static = LabelledRows.static
    LabelledRows.static = lambda *given, **options: batches.append(static(*given, **options)) or batches[-1]
    losses = task.fit(x, y, batch_size=2, shuffle=False, epochs=2, verbose=0).history["loss"]
    LabelledRows.static = static
    rows = [(c * 6)[:21] for c in (x, y)]  # ten steps in the first loop, and one row in the second
    weighed = [task.fit(*rows, batch_size=2, verbose=0).history["loss"][0], task.evaluate(*rows, verbose=0)[0]]
    with replicas.scope():
        task.compile(keras.optimizers.SGD(0.0, clipnorm=1.0), task.default_loss(), metrics=["accuracy"])
    try:
        task.fit(x, y, batch_size=2, verbose=0)
    except ValueError as error:
        said.append(str(error))
    return said, losses, weighed, [targets.numpy().tolist() for _, targets, _ in batches[0]]


@pytest.mark.long
def test_options_are_honoured_told_or_refused():
    said, losses, weighed, targets = fork(said_of_options)
    assert "Received: steps_per_epoch" in said[0]
    assert "Received: steps" in said[1]
    assert said[2].endswith("Not shown: mse")
    assert "Use global_clipnorm instead. Received: clipnorm=1.0" in said[-1]
    assert losses[0] == pytest.approx(losses[1])
    assert weighed[0] == pytest.approx(weighed[1])
    assert targets == [[1, 0], [0, 1]]
