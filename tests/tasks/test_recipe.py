"""The options of a recipe, in `fit`: each against other people's code, a plain loop or a larger batch."""

import keras
import numpy as np
import pytest

from keras_bert import AdamW, FinetuneRecipe
from keras_bert.tasks.losses.label_losses import SmoothedCrossentropy, WeighedBinaryCrossentropy
from keras_bert.tasks.rows.class_weight import class_weights, label_weights
from keras_bert.training.optimizer import WarmupLinearDecay
from tests.tasks.small import NO_DROPOUT, TEXTS, columns, small_bert, small_task

pytestmark = pytest.mark.usefixtures("eager")
LABELS = ["positive", "negative", "negative", "positive"]
NEUTRAL = FinetuneRecipe(layer_decay=1, ema=0, label_smoothing=0, accumulate=1, class_weight=None)


def task_and_weights(recipe=None, compiled=None, epochs=3, **options):
    """A task with the same first weights and the same dropout each time, trained, and its weights."""
    keras.utils.set_random_seed(0)
    task = small_task("classifier")
    if compiled:
        task.compile(compiled, task.default_loss(), weighted_metrics=task.default_metrics())
    task.fit(TEXTS, LABELS, batch_size=2, epochs=epochs, recipe=recipe, verbose=0, **options)
    return task, task.get_weights()


def same(one, other):
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


@pytest.mark.long
def test_without_options_the_bits_are_those_of_the_paper_s_recipe():
    """And of a compile by hand with the recipe's optimizer."""
    schedule = WarmupLinearDecay(5e-5, warmup_steps=0, steps=6)
    paper = AdamW(schedule, weight_decay=0.01, epsilon=1e-8, global_clipnorm=1.0)
    by_hand, expected = task_and_weights(compiled=paper)
    assert by_hand.optimizer is paper
    for options in ({}, {"recipe": NEUTRAL}, {"compiled": FinetuneRecipe().optimizer(steps=6)}):
        assert same(task_and_weights(**options)[1], expected)
    assert not same(task_and_weights(FinetuneRecipe(layer_decay=0.5))[1], expected)


# === Label smoothing ===


def test_smoothed_labels_are_torchs():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    logits, y = rng.standard_normal((3, 4, 5)).astype("float32"), rng.integers(0, 5, (3, 4))
    theirs = torch.nn.CrossEntropyLoss(label_smoothing=0.2)(
        torch.tensor(logits).reshape(-1, 5), torch.tensor(y).ravel()
    )
    loss = SmoothedCrossentropy(label_smoothing=0.2)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert float(again(y, logits)) == pytest.approx(float(theirs), rel=1e-5)
    weights = (rng.random((3, 4)) > 0.5).astype("float32")
    parts = torch.nn.CrossEntropyLoss(label_smoothing=0.2, reduction="none")(
        torch.tensor(logits).reshape(-1, 5), torch.tensor(y).ravel()
    ).numpy()
    assert float(loss(y, logits, weights)) == pytest.approx(np.average(parts, weights=weights.ravel()), rel=1e-5)


def test_several_labels_with_weights_are_torchs():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    logits, y = rng.standard_normal((6, 3)).astype("float32"), rng.integers(0, 2, (6, 3)).astype("float32")
    weights = [1.0, 4.0, 0.5]
    theirs = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weights))
    loss = keras.losses.deserialize(keras.losses.serialize(WeighedBinaryCrossentropy(weights)))
    assert float(loss(y, logits)) == pytest.approx(float(theirs(torch.tensor(logits), torch.tensor(y))), rel=1e-5)
    smoothed = WeighedBinaryCrossentropy(weights, label_smoothing=0.2)
    expected = theirs(torch.tensor(logits), torch.tensor(0.8 * y + 0.1))
    assert float(smoothed(y, logits)) == pytest.approx(float(expected), rel=1e-5)
    keras_s = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.2)
    plain = WeighedBinaryCrossentropy([1.0] * 3, label_smoothing=0.2)
    assert float(plain(y, logits)) == pytest.approx(float(keras_s(y, logits)), rel=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "several", "tagger", "choice"])
def test_smoothed_labels_of_every_task_that_has_labels(kind, tmp_path):
    task, (x, y) = small_task(kind), columns(kind)
    recipe = FinetuneRecipe(label_smoothing=0.1, epochs=1)
    loss = task.fit(x, y, recipe=recipe, validation_data=(x, y), verbose=0).history["val_loss"][0]
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert again.recipe == recipe
    assert np.ravel(again.evaluate(x, y, verbose=0))[0] == pytest.approx(loss, rel=1e-5)
    assert np.ravel(small_task(kind, again.bert).recipe_loss(0.1).label_smoothing) == 0.1


@pytest.mark.parametrize("kind", ["regressor", "cosine", "answerer"])
def test_numbers_and_positions_are_not_smoothed(kind):
    with pytest.raises(ValueError, match=r"has no labels to smooth.*Received: label_smoothing=0\.1"):
        small_task(kind).fit(*columns(kind), recipe=FinetuneRecipe(label_smoothing=0.1), verbose=0)


# === Class weights ===


def test_balanced_weights_are_scikit_learns():
    from sklearn.utils.class_weight import compute_class_weight

    y = np.array([0, 0, 0, 1, 1, 3])
    expected = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=y)
    assert class_weights("balanced", ("a", "b", "c", "d"), y)[[0, 1, 3]] == pytest.approx(expected)
    matrix = np.array([[1, 0, 0, 1], [1, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 1]])  # no text has c, and all have d
    assert label_weights("balanced", ("a", "b", "c", "d"), matrix).tolist() == pytest.approx([1 / 3, 3, 1, 1])


def weights_of(task, x, y, class_weight):
    return np.concatenate([np.ravel(w) for _, _, w in task.examples(x, y, None, class_weight).batches(4)])


def test_a_class_weight_below_0_is_named():
    with pytest.raises(
        ValueError, match=r"The weight of 'good' in class_weight must be .* not below 0\. .*Received: -1"
    ):
        class_weights({"bad": 2.0, "good": -1.0}, ("bad", "good"))
    for weight in (float("nan"), 1e39, "2"):
        with pytest.raises(ValueError, match="weight of 'bad' in class_weight must be finite"):
            class_weights({"bad": weight}, ("bad", "good"))
    assert class_weights({}, ("bad", "good")).tolist() == [1, 1]


def test_the_weights_of_rows_and_words():
    y = ["positive", "negative", "negative", "negative"]
    assert weights_of(small_task("classifier"), TEXTS, y, "balanced") == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3])
    found = weights_of(small_task("tagger"), *columns("tagger"), "balanced")
    assert sorted(found[found > 0]) == pytest.approx([5 / 9] * 3 + [5 / 3] * 2)  # three O, one B-PER, one B-LOC


@pytest.mark.long
def test_class_weights_of_a_recipe_are_those_of_fit():
    _, expected = task_and_weights(class_weight={"positive": 3.0})
    assert same(task_and_weights(FinetuneRecipe(class_weight={"positive": 3.0}))[1], expected)
    assert same(task_and_weights(FinetuneRecipe(class_weight="balanced"))[1], task_and_weights()[1])  # two of each
    packed = small_task("classifier")
    x = packed.bert.preprocessor(TEXTS)
    packed.fit(x, LABELS, recipe=FinetuneRecipe(class_weight="balanced", epochs=1), verbose=0)
    with pytest.raises(TypeError, match="class_weight must be a dict or 'balanced'"):
        task_and_weights(FinetuneRecipe(class_weight="even"))


def test_class_weights_of_several_labels_are_in_the_loss(tmp_path):
    task, (x, y) = small_task("several"), columns("several")
    task.fit(x, y, recipe=FinetuneRecipe(class_weight={"bad": 5.0}, epochs=1), verbose=0)
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert again.loss.label_weights == task.loss.label_weights == [1.0, 1.0, 5.0]
    assert again.recipe == task.recipe
    task.fit(x, y, class_weight="balanced", epochs=1, verbose=0)
    assert task.loss.label_weights == pytest.approx([1.0, 3.0, 1.0])
    task.compile("sgd", task.recipe_loss(class_weight={"bad": 5.0}))
    with pytest.raises(ValueError, match=r"you compiled this TextClassifier.*recipe_loss"):
        task.fit(x, y, class_weight={"bad": 5.0}, verbose=0)


def test_class_weights_by_id_continue_after_saving(tmp_path):
    task, recipe = small_task("classifier"), FinetuneRecipe(class_weight={0: 3.0}, epochs=1)
    task.fit(TEXTS, LABELS, recipe=recipe, verbose=0)
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert again.recipe == recipe
    again.fit(TEXTS, LABELS, initial_epoch=1, epochs=2, verbose=0)


# === Accumulation and averages ===


def test_accumulated_batches_are_one_larger_batch():
    texts, labels = TEXTS * 2, LABELS * 2
    found = []
    for rows, accumulate in ((4, 1), (2, 2)):
        keras.utils.set_random_seed(0)
        task = small_task("classifier", small_bert(**NO_DROPOUT))
        recipe = FinetuneRecipe(learning_rate=1e-3, accumulate=accumulate, batch_size=rows)
        before = task.get_weights()
        task.fit(texts, labels, recipe=recipe, shuffle=False, verbose=0)
        found.append(task.get_weights())
        assert max(np.abs(a - b).max() for a, b in zip(before, found[-1], strict=True)) > 1e-3
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="the weights cannot be read between the steps")
def test_averages_are_validated_and_kept_and_do_not_disturb_training():
    class Watch(keras.callbacks.Callback):
        trained, average = None, None

        def on_train_batch_end(self, batch, logs=None):
            self.trained = self.model.get_weights()
            old = self.trained if self.average is None else self.average
            self.average = [0.6 * a + 0.4 * w for a, w in zip(old, self.trained, strict=True)]

        def on_epoch_end(self, epoch, logs=None):
            for weight, average in zip(self.model.trainable_weights, of_trainable(self.average), strict=True):
                np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), average, atol=1e-6)

    def of_trainable(values):
        places = {id(weight): number for number, weight in enumerate(task.weights)}
        return [values[places[id(weight)]] for weight in task.trainable_weights]

    watch, recipe = Watch(), FinetuneRecipe(learning_rate=1e-2, ema=0.6)
    keras.utils.set_random_seed(0)
    task = small_task("classifier")
    options = {"batch_size": 2, "epochs": 3, "validation_data": (TEXTS, LABELS), "verbose": 0}
    history = task.fit(TEXTS, LABELS, recipe=recipe, callbacks=[watch], **options).history
    np.testing.assert_allclose(history["val_loss"][-1], task.evaluate(TEXTS, LABELS, verbose=0)[0], rtol=1e-6)
    for weight, average in zip(task.trainable_weights, of_trainable(watch.average), strict=True):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), average, atol=1e-6)
    _, expected = task_and_weights(FinetuneRecipe(learning_rate=1e-2))
    assert same(watch.trained, expected)


def test_averages_are_validated_on_packed_rows_too():
    task = small_task("classifier")
    x, y = task.bert.preprocessor(TEXTS), np.array([1, 0, 0, 1])
    recipe = FinetuneRecipe(learning_rate=1e-2, ema=0.6, epochs=2)
    history = task.fit(x, y, recipe=recipe, validation_data=(x, y), verbose=0).history
    assert history["val_loss"][-1] == pytest.approx(task.evaluate(x, y, verbose=0)[0], rel=1e-5)


@pytest.mark.parametrize(
    "wrong", [{"ema": 1.5}, {"layer_decay": -1}, {"label_smoothing": float("nan")}, {"accumulate": 0}]
)
def test_wrong_values(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"{name}.*Received: {name}={value}"):
        FinetuneRecipe(**wrong)


def test_more_accumulated_batches_than_there_are():
    assert FinetuneRecipe(accumulate=6).updates(steps=6) == 1
    with pytest.raises(ValueError, match=r"has only 6 batches.*Use at most 6, .* Received: accumulate=7"):
        small_task("classifier").fit(TEXTS, LABELS, batch_size=2, recipe=FinetuneRecipe(accumulate=7), verbose=0)


@pytest.mark.parametrize("option", [{"layer_decay": 0}, {"ema": 1}, {"label_smoothing": 1.0}])
def test_values_with_which_nothing_is_learned(option):
    with pytest.raises(ValueError, match=r"With (layer_decay=0|ema=1|label_smoothing=1), .* would .* Received: "):
        FinetuneRecipe(**option)


def test_one_step_is_named_as_one():
    said = FinetuneRecipe(accumulate=10).describe("TextClassifier", steps=10)
    assert "after 0 warm-up steps, decaying to 0 over 1 step, gradients" in said
    assert "after 1 warm-up step, decaying to 0 over 10 steps, " in FinetuneRecipe().describe(
        "TextClassifier", steps=10
    )
