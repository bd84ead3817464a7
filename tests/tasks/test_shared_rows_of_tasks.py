"""Texts that share rows give the numbers of texts that do not, on JAX and torch."""

import logging

import keras
import numpy as np
import pytest

from keras_bert import kernels
from keras_bert.tasks import labelled_rows
from keras_bert.tasks.labelled_rows import Batches
from keras_bert.text import tokenized_rows
from tests.parity.oracles import array
from tests.tasks.small import NO_DROPOUT, TEXTS, columns, small_bert, small_task

pytestmark = pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow removes padding instead")
KINDS = ("classifier", "regressor", "cosine", "tagger", "answerer", "choice", "embedder")
# Empty, short, longer than a row of the model.
RAGGED = ["", "film", "good " * 40, *TEXTS, "the film", "who lives in rome ? " * 3] * 4


@pytest.fixture
def always(monkeypatch):
    """Rows are shared wherever they can be, also by a few texts."""
    monkeypatch.setattr(labelled_rows, "WORTH", 0)
    monkeypatch.setattr(tokenized_rows, "WORTH", 0)
    monkeypatch.setattr(tokenized_rows, "MANY", 1)


@pytest.fixture
def traced(monkeypatch):
    """The shapes [R, L] of the rows that are shared, each time that a model is called or traced."""
    shapes, sharing = [], kernels.sharing_rows

    def spy(rows):
        shapes.append(tuple(rows.shape))
        return sharing(rows)

    monkeypatch.setattr(kernels, "sharing_rows", spy)
    return shapes


def repeated(x, times):
    return tuple(column * times for column in x) if isinstance(x, tuple) else x * times


def compiled(kind, optimizer):
    """A task without dropout, and its examples: enough for ten batches of four."""
    task = small_task(kind, small_bert(**NO_DROPOUT))
    x, y = columns(kind)
    times = 40 // len(y)
    examples = task.examples(repeated(x, times), y * times)
    task.check_learnable(examples)
    task.compile(optimizer, task.default_loss())
    return task, examples


def both(examples, epoch=0):
    """The same batches with shared rows and without."""
    shared = examples.shuffled(4, seed=0, epoch=epoch)
    assert shared.shared
    return shared, Batches(examples, lambda number: examples.mixed_alike(4, 0, number), len(shared), epoch)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_gradients(kind, always):
    steps = []
    for number in range(2):
        task, examples = compiled(kind, keras.optimizers.SGD(1.0))  # whose steps are the gradients
        x, y, weight = both(examples)[number][3]
        output = array(task(x))
        before = [array(variable) for variable in task.trainable_variables]
        task.train_on_batch(x, y, sample_weight=weight)
        pairs = zip(before, task.trainable_variables, strict=True)
        steps.append((output, [array(variable) - old for old, variable in pairs]))
    (output, gradients), (expected, without) = steps
    where = tuple(slice(size) for size in np.minimum(output.shape, expected.shape))  # shared rows are as wide as any
    np.testing.assert_allclose(output[where], expected[where], rtol=0, atol=1e-5)
    norm = np.sqrt(sum((gradient**2).sum() for gradient in without))
    assert norm > 0
    assert np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(gradients, without, strict=True))) <= 1e-4 * norm


@pytest.mark.parametrize("kind", KINDS)
def test_fit_of_twenty_steps(kind, always):
    weights = []
    for number in range(2):
        task, examples = compiled(kind, keras.optimizers.AdamW(1e-3))
        for epoch in range(2):
            task.fit(both(examples, epoch)[number], verbose=0)
        assert int(task.optimizer.iterations) == 20
        weights.append(np.concatenate([array(variable).ravel() for variable in task.trainable_variables]))
    np.testing.assert_allclose(*weights, rtol=0, atol=1e-4)
    start = small_task(kind, small_bert(**NO_DROPOUT))
    assert np.abs(weights[0] - np.concatenate([array(v).ravel() for v in start.trainable_variables])).max() > 1e-3


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "pooled"])
def test_embed(pooling, always, monkeypatch):
    bert = small_bert(seq_length=16)
    found = bert.embed(RAGGED, pooling=pooling, max_length=16, batch_tokens=128)
    one = bert.embed(RAGGED[:1], pooling=pooling, max_length=16)
    monkeypatch.setattr(tokenized_rows, "MANY", 10**9)
    np.testing.assert_allclose(found, bert.embed(RAGGED, pooling=pooling, max_length=16), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[:1], one, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "tagger", "choice"])
def test_predict(kind, always, monkeypatch, traced):
    task = small_task(kind)
    x = repeated(columns(kind)[0], 5)
    found = task.predict(x, batch_size=4)
    assert traced
    monkeypatch.setattr(tokenized_rows, "MANY", 10**9)
    expected = task.predict(x, batch_size=4)
    where = tuple(slice(size) for size in np.minimum(found.shape, expected.shape))
    np.testing.assert_allclose(found[where], expected[where], rtol=0, atol=1e-5)


def test_fit_shares_rows_by_itself_and_compiles_few_shapes(traced):
    """Of texts whose lengths differ as those of sentences do."""
    rng = np.random.default_rng(0)
    texts, labels = ["good " * length for length in rng.integers(0, 14, 150)], rng.integers(0, 2, 150).tolist()
    task = small_task("classifier")
    task.compile("sgd", task.default_loss())
    task.fit(texts, labels, batch_size=8, epochs=4, verbose=0)
    assert 1 <= len(set(traced)) <= 4
    if keras.backend.backend() == "jax":
        assert len(traced) <= 4 + 1  # and once for Keras's symbolic build


def test_texts_that_are_all_of_one_length_share_no_rows():
    task = small_task("classifier")
    assert not hasattr(task.examples(["good " * 14] * 64, [0, 1] * 32).shuffled(8, seed=0, epoch=0), "shared")


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="only JAX has keras.distribution")
def test_several_devices_share_no_rows(always, caplog):
    examples = small_task("classifier").examples(RAGGED, [0, 1] * (len(RAGGED) // 2))
    with (
        keras.distribution.DataParallel(devices=["cpu:0"], auto_shard_dataset=False).scope(),
        caplog.at_level(logging.INFO),
    ):
        assert not getattr(examples.shuffled(8, seed=0, epoch=0), "shared", None)
    assert "Texts do not share rows here" in caplog.text
    assert examples.shuffled(8, seed=0, epoch=0).shared
