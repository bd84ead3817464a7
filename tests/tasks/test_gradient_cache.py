"""Cached gradients against those of the whole batch, with and without dropout; the memory of large batches."""

import sys

import keras
import numpy as np
import pytest

from keras_bert import (
    Bert,
    BertConfig,
    FinetuneRecipe,
    OtherColumns,
    SentenceEmbedder,
    TextClassifier,
    TextRegressor,
)
from keras_bert.tasks.losses import MultipleNegativesRanking
from tests.parity.oracles import ragged_batch, randomize
from tests.soak import IN_SOAK
from tests.subprocesses import fork
from tests.tasks.small import NO_DROPOUT, TEXTS, small_bert

if keras.backend.backend() != "tensorflow":
    pytest.skip("gradient caching is TensorFlow's", allow_module_level=True)

import tensorflow as tf

from keras_bert.tasks.fitting.gradient_cache import cached_gradients

LOSS = MultipleNegativesRanking()


@pytest.mark.parametrize("pairs", [512, 1024])
def test_gradients_of_many_pairs(pairs):
    """Also where the last part is smaller than the others."""
    model = SentenceEmbedder(small_bert(**NO_DROPOUT))
    x = ragged_batch(model.bert.config, tuple(3 + i % 9 for i in range(2 * pairs)))
    targets = np.arange(pairs)
    with tf.GradientTape() as tape:
        vectors = model(x, training=True)
        loss = LOSS(targets, vectors)
    variables = [variable.value for variable in model.trainable_variables]
    expected = tape.gradient(loss, variables)
    model.compile("sgd", LOSS)
    cached = tf.function(lambda x: cached_gradients(model, *model.parts(x), 100, lambda found: LOSS(targets, found)))
    found, cached_loss, gradients = cached({name: tf.constant(values) for name, values in x.items()})
    assert np.abs(found - vectors).max() <= 1e-6
    assert float(cached_loss) == pytest.approx(float(loss), rel=1e-6)
    largest = max(float(tf.reduce_max(tf.abs(gradient))) for gradient in expected)
    assert largest > 1e-3
    bound = 1e-5 if pairs == 512 else 1e-5 * largest  # gradients of 8 are rounded to 1e-6
    for ours, theirs in zip(gradients, expected, strict=True):
        assert np.abs(ours - theirs).max() <= bound


def test_dropout_is_the_same_in_both_passes():
    """The gradients are those of one graph whose parts draw in the same order."""
    model = SentenceEmbedder(small_bert(hidden_dropout_prob=0.3))
    x = {name: tf.constant(values) for name, values in ragged_batch(model.bert.config, (5, 9, 3, 7, 8, 4)).items()}
    before = [np.array(variable) for variable in model.variables]
    model.compile("sgd", LOSS)
    found, _, gradients = cached_gradients(model, *model.parts(x), 2, lambda found: LOSS(np.arange(3), found))
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    with tf.GradientTape() as tape:
        parts = [model({name: values[i : i + 2] for name, values in x.items()}, training=True) for i in (0, 2, 4)]
        loss = LOSS(np.arange(3), tf.concat(parts, 0))
    expected = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    assert np.abs(found - tf.concat(parts, 0)).max() <= 1e-6
    assert np.abs(found - model(x, training=False)).max() > 1e-2
    for ours, theirs in zip(gradients, expected, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-5


@pytest.mark.usefixtures("eager")
def test_fit_with_and_without():
    """The same weights after a few steps, and the same losses."""
    weights, losses = [], []
    for cache_batch in (None, 3):
        keras.utils.set_random_seed(0)
        task = SentenceEmbedder(small_bert(**NO_DROPOUT))
        x = (TEXTS, [f"{text} film" for text in TEXTS])
        history = task.fit(x, batch_size=4, epochs=2, cache_batch=cache_batch, verbose=0).history
        weights.append(task.get_weights())
        losses.append(history["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][0] > losses[0][-1]
    for one, other in zip(*weights, strict=True):
        assert np.abs(one - other).max() <= 1e-4


def windowed(pool="mean", **options):
    """A task whose texts have up to 12 windows, and its rows; also with other columns."""
    kind, bert = (TextRegressor, TextClassifier)["labels" in options], small_bert(seq_length=8, **NO_DROPOUT)
    task = randomize(kind(bert, long="windows", pool=pool, max_windows=12, **options), scale=0.3)
    texts = [" ".join(["film", *TEXTS[i % 4].split()] * (1 + 2 * i)) for i in range(6)]
    return task, texts


@pytest.mark.parametrize("pool", ["mean", "max", "attention"])
def test_gradients_through_all_windows(pool):
    """Of the encoder, of the pool and of the head, with weights of rows."""
    task, texts = windowed(pool, labels=("bad", "good"))
    task.compile("sgd", task.default_loss())
    x, y, weight = next(iter(task.examples(texts, ["good", "bad"] * 3, [1, 2, 3, 4, 5, 0]).batches(6)))
    assert x["input_mask"].shape[1] > 8
    with tf.GradientTape() as tape:
        logits = task(x, training=True)
        loss = task.compute_loss(x, y, logits, weight)
    expected = tape.gradient(loss, [variable.value for variable in task.trainable_variables])
    cached = tf.function(
        lambda x: cached_gradients(task, *task.parts(x), 3, lambda found: task.compute_loss(x, y, found, weight))
    )
    found, cached_loss, gradients = cached(x)
    assert np.abs(found - logits).max() <= 1e-6
    assert float(cached_loss) == pytest.approx(float(loss), rel=1e-6)
    assert max(float(tf.reduce_max(tf.abs(gradient))) for gradient in expected) > 1e-3
    assert len(gradients) == len(expected) == len(task.trainable_variables)
    for ours, theirs, variable in zip(gradients, expected, task.trainable_variables, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-5, variable.path
    assert pool != "attention" or any("query" in variable.path for variable in task.trainable_variables)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("how", ["plain", "columns", "frozen", "bfloat16", "accumulated"])
def test_windows_with_and_without(how):
    """The same weights after a few steps, and the same losses."""
    weights, losses = [], []
    columns = OtherColumns({"price": (0.0, 1.0)}, {}) if how == "columns" else None
    for cache_batch in (None, 5):
        keras.utils.set_random_seed(0)
        task, texts = windowed(other_columns=columns)
        if how == "bfloat16":
            bert = small_bert(seq_length=8, dtype="mixed_bfloat16", **NO_DROPOUT)
            task = randomize(TextRegressor(bert, long="windows", max_windows=12), scale=0.3)
        if how == "frozen":
            task.bert.freeze(1)
        x = (texts, [0.5, 1, -1, 0, 2, 1]) if columns else texts
        recipe = FinetuneRecipe(1e-3, batch_size=3, epochs=2, accumulate=2 if how == "accumulated" else 1)
        history = task.fit(x, [0.0, 1, 2, 3, 4, 5], recipe=recipe, cache_batch=cache_batch, verbose=0).history
        weights.append(task.get_weights())
        losses.append(history["loss"])
        assert history["mean_absolute_error"][0] > 0
    bound = 3e-3 if how == "bfloat16" else 1e-4
    assert losses[0] == pytest.approx(losses[1], rel=0.02 if how == "bfloat16" else 1e-4)
    assert losses[0][0] > losses[0][-1]
    for one, other in zip(*weights, strict=True):
        assert np.abs(one.astype("float32") - other).max() <= bound


def test_cached_windows_that_are_refused():
    task, texts = windowed()
    with pytest.raises(ValueError, match="`cache_batch` must be at least 1"):
        task.fit(texts, [0.0] * 6, cache_batch=0)
    with pytest.raises(ValueError, match="cached batches cannot learn from a teacher"):
        task.fit(texts, [0.0] * 6, cache_batch=2, teacher=windowed()[0])
    short = TextRegressor(small_bert())
    with pytest.raises(ValueError, match=r"this task reads no windows\. .*long='truncate'"):
        short.fit(TEXTS, [0.0] * 4, cache_batch=2)


CONFIG = BertConfig(
    vocab_size=100, hidden_size=64, num_hidden_layers=4, num_attention_heads=2, intermediate_size=256,
    max_position_embeddings=64,
)  # fmt: skip


def step_memory(pairs, cache_batch):
    """By how many bytes a step with so many pairs raises the peak of this process."""
    model = SentenceEmbedder(randomize(Bert(CONFIG)))
    model.compile("sgd", LOSS)
    model.cache_batch = cache_batch
    return peak_of_steps(model, 2 * pairs, np.arange(pairs))


def accumulated_memory(rows, accumulate):
    """The same of a classifier with batches of so many rows, of which several are accumulated."""
    model = TextClassifier(randomize(Bert(CONFIG)), labels=("negative", "positive"))
    model.compile(FinetuneRecipe(accumulate=accumulate).optimizer(steps=9 * accumulate), model.default_loss())
    return peak_of_steps(model, rows, np.arange(rows) % 2, accumulate)


def peak_of_steps(model, texts, targets, steps=1, windows=None):
    """By how many bytes steps with so many rows of 32 pieces raise the peak, after a first small step."""
    from tests.text.test_memory import status

    def batch(rows):
        x = ragged_batch(CONFIG, (32,) * rows)
        return x if windows is None else {name: one.reshape(-1, windows, 32) for name, one in x.items()}

    if windows is None:
        model.train_on_batch(batch(4), targets[: 4 * len(targets) // texts])
    else:
        model.train_on_batch({name: one[:, :1] for name, one in batch(texts).items()}, targets)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak
    before = status("VmRSS")
    for _ in range(steps):
        model.train_on_batch(batch(texts), targets)
    return status("VmHWM") - before


def windows_memory(windows, cache_batch):
    """The same of a classifier with four texts of so many windows."""
    task = TextClassifier(randomize(Bert(CONFIG)), labels=("negative", "positive"), long="windows")
    task.compile("sgd", task.default_loss())
    task.cache_batch = cache_batch
    return peak_of_steps(task, 4 * windows, np.arange(4) % 2, windows=windows)


def check_peaks(of, measure, **ways):
    """The second way to train needs at most a quarter of the memory of the first."""
    peaks = {name: fork(measure, *arguments) for name, arguments in ways.items()}
    said = ", ".join(f"{name} {peak / 2**20:.0f} MB" for name, peak in peaks.items())
    print(f"peak of {of}: {said}")  # noqa: T201
    direct, small = peaks.values()
    assert small <= direct / 4


FROM_PROC = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")


@IN_SOAK
@FROM_PROC
@pytest.mark.parametrize("pairs", [512, 1024])
def test_memory_of_many_pairs(pairs):
    check_peaks(f"a step with {pairs} pairs", step_memory, direct=(pairs, None), cached=(pairs, 16))


@IN_SOAK
@FROM_PROC
@pytest.mark.parametrize("windows", [256, 512])
def test_memory_of_many_windows(windows):
    check_peaks(f"4 texts of {windows} windows", windows_memory, direct=(windows, None), cached=(windows, 16))


@IN_SOAK
@FROM_PROC
def test_memory_of_accumulated_batches():
    check_peaks("1024 rows", accumulated_memory, **{"one batch": (1024, 1), "8 of 128": (128, 8)})
