"""Texts that share rows give the numbers of texts that do not, on JAX and torch."""

import logging

import keras
import numpy as np
import pytest

from keras_bert import kernels
from keras_bert.tasks.rows import labelled_rows
from keras_bert.tasks.rows.labelled_rows import RowBatches
from keras_bert.text import tokenized_rows
from tests.parity.oracles import array
from tests.tasks.small import NO_DROPOUT, TEXTS, columns, small_bert, small_task

pytestmark = pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow removes padding instead")
LONG = pytest.mark.long
KINDS = (
    "classifier",
    *(pytest.param(kind, marks=LONG) for kind in ("regressor", "tagger", "answerer", "choice", "embedder")),
)
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


def prepared(kind):
    """A task without dropout, compiled with plain steps, and its examples: enough for ten batches of four."""
    keras.utils.set_random_seed(0)
    task = small_task(kind, small_bert(**NO_DROPOUT))
    x, y = columns(kind)
    times = 40 // len(y)
    examples = task.examples(repeated(x, times), y * times)
    task.check_learnable(examples)
    task.compile(keras.optimizers.SGD(0.05), task.default_loss())
    return task, examples


def flat(task):
    return np.concatenate([array(variable).ravel() for variable in task.trainable_variables])


def of_one_shape(found, expected):
    """Without the padding of the one that is wider; the logits of tokens with shared rows are as wide as any text."""
    where = tuple(slice(size) for size in np.minimum(found.shape, expected.shape))
    return found[where], expected[where]


def both(examples, epoch=0):
    """The same batches with shared rows and without."""
    shared = examples.shuffled(4, seed=0, epoch=epoch)
    assert shared.shared
    return shared, RowBatches(examples, lambda number: examples.mixed_alike(4, 0, number), len(shared), epoch)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_gradients_and_a_fit_of_twenty_steps(kind, always):
    outputs, gradients, weights = [], [], []
    for number in range(2):
        task, examples = prepared(kind)
        x, y, weight = keras.tree.map_structure(np.asarray, both(examples)[number][3])
        outputs.append(task.predict_on_batch(x))
        start = flat(task)
        task.optimizer.learning_rate = 1.0  # a small step would be rounded to few digits
        task.train_on_batch(x, y, sample_weight=weight)
        after_one = flat(task)
        gradients.append(start - after_one)
        task.optimizer.learning_rate = 0.05
        for epoch in range(2):
            task.fit(both(examples, epoch)[number], verbose=0)
        assert int(task.optimizer.iterations) == 1 + 20
        weights.append(flat(task))
    np.testing.assert_allclose(*of_one_shape(*outputs), rtol=0, atol=1e-5)
    assert np.linalg.norm(gradients[0] - gradients[1]) <= 1e-4 * np.linalg.norm(gradients[1])
    np.testing.assert_allclose(*weights, rtol=0, atol=1e-4)
    assert np.abs(weights[1] - after_one).max() > 1e-4


@pytest.mark.parametrize("pooling", ["mean", pytest.param("pooled", marks=LONG)])
def test_embed(pooling, always, monkeypatch):
    bert = small_bert(seq_length=16)
    found = bert.embed(RAGGED, pooling=pooling, max_length=16, batch_tokens=128)
    one = bert.embed(RAGGED[:1], pooling=pooling, max_length=16)
    monkeypatch.setattr(tokenized_rows, "MANY", 10**9)
    np.testing.assert_allclose(found, bert.embed(RAGGED, pooling=pooling, max_length=16), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[:1], one, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["tagger", pytest.param("choice", marks=LONG)])
def test_predict(kind, always, monkeypatch, traced):
    task = small_task(kind)
    x = repeated(columns(kind)[0], 5)
    found = task.predict(x, batch_size=4)
    assert traced
    monkeypatch.setattr(tokenized_rows, "MANY", 10**9)
    np.testing.assert_allclose(*of_one_shape(found, task.predict(x, batch_size=4)), rtol=0, atol=1e-5)


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
    assert "Texts do not share rows, because several devices" in caplog.text
    assert examples.shuffled(8, seed=0, epoch=0).shared


def test_an_epoch_of_keras_that_ends_within_one_of_the_rows(always):
    """As with steps_per_epoch: each row is still read once before one is read again."""
    _, examples = prepared("classifier")
    epoch = [0]

    class Epoch:
        def __int__(self):
            return epoch[0]

    steps = -(-len(examples) // 4)
    order = [examples.mixed_alike(4, 0, number) for number in range(2)]
    read = []
    batches = RowBatches(examples, lambda number: order[number], steps, Epoch())
    for number in range(steps):
        epoch[0] = int(number >= steps // 2)
        read.append(np.asarray(batches[number][0]["input_word_ids"]))
    epoch[0] = 0
    expected = [np.asarray(batches[number][0]["input_word_ids"]) for number in range(steps)]
    assert all(np.array_equal(one, other) for one, other in zip(read, expected, strict=True))
