"""`fit` of a task: the order of its batches, the paper's recipe, validation, and the weights of rows."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import kernels
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.losses import MultipleNegativesRanking
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from tests.tasks.small import TEXTS, small_task


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow warns")
def test_a_loop_of_tasks_causes_no_warning(caplog):
    """As in a tuner. The log names the class, not a model such as text_classifier_7."""
    caplog.set_level("INFO")
    data = TEXTS, ["positive", "negative"] * 2
    for _ in range(6):  # TensorFlow warns of the fifth
        task = small_task("classifier")
        task.fit(*data, epochs=1, validation_data=data, verbose=0)
        task.evaluate(*data, verbose=0)
    assert caplog.text.count("TextClassifier") == 6
    assert "text_classifier" not in caplog.text
    assert "retracing" not in caplog.text


def test_the_order_depends_on_the_seed_and_the_epoch_alone():
    examples = small_task("classifier").examples(
        [f"{'good ' * (i % 9)}" for i in range(50)], [i % 2 for i in range(50)]
    )

    def order(seed, epoch):
        batches = examples.shuffled(4, seed=seed, epoch=tf.constant(epoch))
        return [x["input_mask"].numpy().sum(1).tolist() for x, _, _ in batches]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)
    assert sorted(itertools.chain(*order(1, 2))) == sorted(min(i % 9, 14) + 2 for i in range(50))


@pytest.mark.parametrize("costs", [True, False])
def test_batches_hold_little_padding_where_it_costs(costs, monkeypatch):
    """Elsewhere they are as random as the paper's."""
    monkeypatch.setattr(kernels, "drops_padding", lambda: not costs)
    texts = ["good " * (1 + i % 13) for i in range(400)]
    examples = small_task("classifier").examples(texts, [0, 1] * 200)
    batches = examples.shuffled(8, seed=0, epoch=tf.constant(0))
    lengths = [x["input_mask"].numpy().sum(1) for x, _, _ in batches]
    assert sorted(np.concatenate(lengths)) == sorted(examples.lengths)
    longest = np.mean([length.max() for length in lengths])
    assert longest < 11 if costs else longest > 13  # of 9 on the mean, 15 at most


def test_the_graph_of_the_batches_holds_no_rows(monkeypatch):
    """It would be copied several times, and cannot have 2 GB."""
    sizes = []

    def batch(self, index, *options, real=LabelledRows.batch):
        found = real(self, index, *options)
        sizes.append(tf.compat.v1.get_default_graph().as_graph_def().ByteSize())
        return found

    monkeypatch.setattr(LabelledRows, "batch", batch)
    examples = small_task("classifier").examples(TEXTS)
    many = np.arange(4 * 50_000, dtype="float32").reshape(4, -1)  # 800 kB
    examples = dataclasses.replace(examples, targets=many, weights=many, others={"numbers": many})
    datasets = [
        examples.batches(2),
        examples.shuffled(2, seed=0, epoch=tf.Variable(0)),
        examples.static(2, (0, 1)),
    ]
    assert len(sizes) == 3
    assert max(sizes) < 100_000
    x, targets, weights = next(iter(datasets[0]))
    assert all(np.array_equal(values, many[:2]) for values in (x["numbers"], targets, weights))


def test_the_end_of_an_epoch_does_not_wait():
    """With tf.data's autotuning, it waited for 10 or 20 seconds in about half of the trainings."""
    examples = small_task("classifier").examples(TEXTS, [0, 1, 0, 1])
    for dataset in (examples.batches(2), examples.shuffled(2, seed=0, epoch=tf.Variable(0))):
        assert dataset.options().autotune.enabled is False


@pytest.mark.usefixtures("eager")
def test_the_recipe_is_the_papers_and_is_told(caplog):
    task = small_task("classifier")
    task.fit(TEXTS, [0, 1, 0, 1], verbose=0, batch_size=2)
    assert "learning rate 5e-05" in caplog.text
    schedule = task.optimizer._learning_rate
    assert (schedule.steps, schedule.warmup_steps, task.optimizer.global_clipnorm) == (6, 0, 1.0)
    assert int(task.optimizer.iterations) == 6
    task.fit(TEXTS, [0, 1, 0, 1], verbose=0, batch_size=1, steps_per_epoch=2)
    assert (task.optimizer._learning_rate.steps, int(task.optimizer.iterations)) == (6, 6)


@pytest.mark.usefixtures("eager")
def test_a_second_fit_begins_the_recipe_anew_and_goes_on_where_it_is_told(tmp_path):
    task = small_task("classifier")
    task.fit(TEXTS, [0, 1, 0, 1], verbose=0)
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    again.fit(TEXTS, [0, 1, 0, 1], verbose=0)
    assert int(again.optimizer.iterations) == 3
    again.fit(TEXTS, [0, 1, 0, 1], verbose=0, initial_epoch=2, epochs=3)
    assert int(again.optimizer.iterations) == 4


@pytest.mark.usefixtures("eager")
def test_rows_in_a_batch_by_default():
    texts, labels = TEXTS * 10, [0, 1] * 20
    task = small_task("classifier")
    ids = task.bert.preprocessor(texts)

    def steps(task, x, y, **options):
        before = int(task.optimizer.iterations) if options.get("initial_epoch") else 0
        task.fit(x, y, verbose=0, **{"epochs": 1, **options})
        return int(task.optimizer.iterations) - before

    assert steps(task, texts, labels) == task.optimizer._learning_rate.steps == 3  # 16, 16 and 8 rows
    assert steps(task, ids, labels) == task.optimizer._learning_rate.steps == 3
    assert steps(task, texts, labels, recipe=FinetuneRecipe(batch_size=8)) == 5
    assert steps(task, texts, labels, initial_epoch=1, epochs=2) == 5  # which the recipe of this task says
    task.compile("sgd", task.default_loss())
    assert steps(task, texts, labels) == 2
    with pytest.raises(ValueError, match=r"`recipe` was passed to `fit` with initial_epoch.*Received: recipe=Finetune"):
        steps(task, texts, labels, recipe=FinetuneRecipe(), initial_epoch=1, epochs=2)
    assert steps(small_task("embedder"), (texts, texts[::-1]), [0.1, 0.9] * 20) == 2


@pytest.mark.usefixtures("eager")
def test_a_wrong_class_weight_leaves_the_optimizer_as_it_is():
    task, labels = small_task("classifier"), [0, 1, 0, 1]
    task.fit(TEXTS, labels, epochs=1, verbose=0)
    optimizer = task.optimizer
    for x in (TEXTS, task.bert.preprocessor(TEXTS)):
        with pytest.raises(ValueError, match="class_weight names the label 'neutral'"):
            task.fit(x, labels, class_weight={"neutral": 2.0}, verbose=0)
        assert task.optimizer is optimizer


@pytest.mark.usefixtures("eager")
def test_what_the_user_compiled_is_kept():
    task = small_task("classifier")
    optimizer = keras.optimizers.SGD(0.1)
    task.compile(optimizer, task.default_loss(), metrics=["accuracy"])
    history = task.fit(TEXTS, [0, 1, 0, 1], validation_data=(TEXTS, [0, 1, 0, 1]), verbose=0).history
    assert task.optimizer is optimizer
    assert {name: len(values) for name, values in history.items()} == dict.fromkeys(
        ("accuracy", "loss", "val_accuracy", "val_loss"), 1
    )


@pytest.mark.usefixtures("eager")
def test_a_score_before_training_is_no_compile_of_the_user():
    task, labels = small_task("classifier"), [0, 1, 0, 1]
    before = task.evaluate(TEXTS, labels, verbose=0, return_dict=True)
    history = task.fit(TEXTS, labels, verbose=0).history
    assert (task.optimizer.name, len(history["loss"])) == ("paper_finetuning", 3)
    assert set(before) == {"loss", "accuracy", "f1", "f1_macro", "matthews", "calibration_error"}


@pytest.mark.usefixtures("eager")
def test_seeds_beyond_32_bits_and_options_that_text_has_no_use_for():
    task = small_task("classifier")
    task.fit(TEXTS, [0, 1, 0, 1], seed=2**40 - 1, epochs=1, verbose=0)
    with pytest.raises(TypeError, match=r"On text, .* Received: batchsize, steps"):
        task.predict(TEXTS, batchsize=8, steps=1)


@pytest.mark.usefixtures("eager")
def test_validation_and_callbacks():
    seen = []
    task = small_task("classifier")
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(sorted(logs)))
    task.fit(TEXTS, ["negative", 1, 0, "positive"], validation_split=0.5, callbacks=callback, verbose=0, epochs=2)
    task.fit(TEXTS, [0, 1, 0, 1], validation_data=(TEXTS, [0, 1, 0, 1]), callbacks=[callback], verbose=0, epochs=1)
    validated = ("accuracy", "calibration_error", "f1", "f1_macro", "loss", "matthews")
    assert seen == [["accuracy", "loss", *(f"val_{name}" for name in validated)]] * 3
    options = {"epochs": 2, "validation_freq": 2, "recipe": FinetuneRecipe(), "verbose": 0}
    history = task.fit(TEXTS, [0, 1, 0, 1], validation_data=(TEXTS, [0, 1, 0, 1]), **options).history
    assert {name: len(values) for name, values in history.items()} == {"loss": 2, "accuracy": 2} | dict.fromkeys(
        (f"val_{name}" for name in validated), 1
    )


@pytest.mark.usefixtures("eager")
def test_weights_of_classes_and_samples():
    """Against Keras's own weighted mean, written out."""
    task = small_task("classifier")
    task.compile(loss=task.default_loss())
    y, sample_weight, class_weight = [0, 1, 0, 1], [1.0, 2.0, 3.0, 0.0], {"positive": 5.0}
    _, _, found = next(iter(task.examples(TEXTS, y, sample_weight, class_weight).batches(4)))
    assert found.numpy().tolist() == [1, 10, 3, 0]
    logits = task.predict(TEXTS)
    of_each = np.log(np.exp(logits).sum(1)) - logits[np.arange(4), y]
    loss = task.evaluate(TEXTS, y, sample_weight=sample_weight, verbose=0)
    assert np.ravel(loss)[0] == pytest.approx(np.average(of_each, weights=sample_weight), rel=1e-5)


@pytest.mark.usefixtures("eager")
def test_the_recipe_is_kept_in_the_file_and_ends_with_a_compile_of_the_user(tmp_path):
    task, recipe = small_task("classifier"), FinetuneRecipe(learning_rate=1e-4, epochs=1)
    task.fit(TEXTS, [0, 1, 0, 1], recipe=recipe, verbose=0)
    assert task.recipe == recipe
    task.save(tmp_path / "task.keras")
    assert keras.models.load_model(tmp_path / "task.keras").recipe == recipe
    task.compile("sgd", task.default_loss())
    assert task.recipe is None
    task.save(tmp_path / "task.keras")
    assert keras.models.load_model(tmp_path / "task.keras").recipe is None


@pytest.mark.usefixtures("eager")
def test_what_a_continued_training_cannot_change(tmp_path, caplog):
    """Its loss and its optimizer are those that it began with."""
    task, on = small_task("several"), {"initial_epoch": 1, "epochs": 2, "verbose": 0}
    y = [["film"], ["bad"], [], ["good"]]
    task.fit(TEXTS, y, epochs=1, class_weight={"bad": 2.0}, recipe=FinetuneRecipe(class_weight={0: 3.0}), verbose=0)
    task.save(tmp_path / "task.keras")
    for options in ({"recipe": FinetuneRecipe(learning_rate=1.0)}, {"class_weight": {"bad": 100.0}}):
        (name,) = options
        with pytest.raises(ValueError, match=f"`{name}` was passed to `fit` with initial_epoch.*Received: {name}="):
            task.fit(TEXTS, y, **on, **options)
    for same in (task, keras.models.load_model(tmp_path / "task.keras")):
        caplog.clear()
        before = [np.array(weight) for weight in same.trainable_weights]
        same.fit(TEXTS, y, **on, class_weight={"bad": 2.0}, recipe=FinetuneRecipe(class_weight={0: 3.0}))
        assert "The learning rate of the recipe has come to 0" in caplog.text
        assert all(np.array_equal(one, weight) for one, weight in zip(before, same.trainable_weights, strict=True))


@pytest.mark.usefixtures("eager")
def test_the_loss_of_a_continued_training():
    task, on = small_task("embedder"), {"initial_epoch": 1, "epochs": 2, "verbose": 0}
    pairs = TEXTS, TEXTS[::-1]
    task.fit(pairs, epochs=1, loss=MultipleNegativesRanking(temperature=0.1), verbose=0)
    for loss in ("cosent", MultipleNegativesRanking(temperature=0.2)):
        with pytest.raises(ValueError, match=r"`loss` was passed to `fit` with initial_epoch"):
            task.fit(pairs, loss=loss, **on)
    with pytest.raises(ValueError, match="learns from pairs, but scores were passed"):
        task.fit(pairs, [0.0, 1.0, 0.0, 1.0], **on)
    task.fit(pairs, loss=MultipleNegativesRanking(temperature=0.1), **on)
    assert task.loss.get_config()["temperature"] == pytest.approx(0.1)
