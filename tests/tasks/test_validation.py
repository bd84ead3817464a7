"""Validation: one pass over held-out rows gives the loss, the metrics and the scores."""

import keras
import numpy as np
import pytest

from keras_bert.tasks.metrics.confusion import F1
from keras_bert.tasks.metrics.scores import Scores, scores
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.text_classifier import TextClassifier
from tests.parity.oracles import randomize
from tests.tasks import priced_reviews
from tests.tasks.small import KINDS, TEXTS, columns, small_bert, small_task

SCORED = ("classifier", "several", "cosine", "tagger", "pieces", "answerer", "choice")


class CountingLayer(keras.layers.Layer):
    """Counts the forward passes without training."""

    def build(self, shape):
        self.passes = self.add_weight(shape=(), dtype="int32", trainable=False, name="passes")

    def call(self, x, training=False):
        if not training:
            self.passes.assign_add(1)
        return x

    def compute_output_spec(self, x, training=False):
        return keras.KerasTensor(x.shape, x.dtype)


class CountedClassifier(TextClassifier):
    """A classifier whose encoder's output goes through a counter."""

    def __init__(self, bert, counter):
        pooled = bert.output["pooled_output"]
        self.counter = counter
        counted = keras.layers.Dense(2)(counter(pooled))
        super(TextClassifier, self).__init__(bert, bert.input, counted)
        self.labels, self.multi_label = ("negative", "positive"), False


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="counts in TensorFlow's graphs")
@pytest.mark.parametrize("compiled", [False, True])
def test_the_model_reads_the_validation_rows_once_in_an_epoch(compiled, monkeypatch):
    counter = CountingLayer()
    task = CountedClassifier(small_bert(), counter)
    if compiled:
        task.compile("sgd", task.default_loss(), weighted_metrics=task.default_metrics())
    tokenized = []
    examples = TextClassifier.examples
    monkeypatch.setattr(CountedClassifier, "examples", lambda *given: tokenized.append(given[1]) or examples(*given))
    held_out = [*TEXTS, "good film"], [0, 1, 0, 1, 1]
    before = int(counter.passes)
    history = task.fit(TEXTS, [0, 1, 0, 1], batch_size=2, epochs=3, validation_data=held_out, verbose=0).history
    assert int(counter.passes) - before == 3 * 3  # of each epoch, one for each batch
    assert [len(texts) for texts in tokenized] == [4, 5]
    assert len(history["val_loss"]) == 3
    assert ("val_matthews" in history) != compiled


def test_rows_that_are_cut_are_told_once_in_a_fit(caplog, eager):
    long = ["good " * 40, *TEXTS[1:]]
    small_task("classifier").fit(long, [0, 1, 0, 1], epochs=3, validation_data=(long, [0, 1, 0, 1]), verbose=0)
    assert caplog.text.count("is cut to") == 2
    assert "1 of 4 training rows is cut to 16 pieces" in caplog.text
    assert "1 of 4 held-out rows is cut to 16 pieces" in caplog.text


@pytest.mark.usefixtures("eager")
def test_a_mistake_in_the_validation_rows_leaves_the_optimizer_as_it_was():
    task = small_task("classifier")
    task.fit(TEXTS, [0, 1, 0, 1], epochs=1, verbose=0)
    optimizer = task.optimizer
    with pytest.raises(ValueError, match="unheard of"):
        task.fit(TEXTS, [0, 1, 0, 1], epochs=1, validation_data=(TEXTS, ["unheard of"] * 4), verbose=0)
    assert task.optimizer is optimizer
    assert int(optimizer.iterations) == 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", SCORED)
def test_an_epoch_is_validated_as_evaluate_does(kind):
    task, (x, y) = small_task(kind), columns(kind)
    logs = task.fit(x, y, epochs=1, validation_data=(x, y), verbose=0).history
    measured = task.evaluate(x, y, return_dict=True, verbose=0)
    validated = {name.removeprefix("val_"): value for name, (value,) in logs.items() if name.startswith("val_")}
    assert validated == measured
    assert set(scores(task, x, y)) < set(measured)


def many_rows(kind, count=40):
    """Rows of every length that differ from each other, so that ranks do not depend on the last bits of two scores."""
    rng = np.random.default_rng(0)
    words: list[list[str]] = []
    while len(words) < count:
        row = rng.choice(["the", "film", "good", "bad", "rome", "lives"], 1 + len(words) % 12).tolist()
        words += [] if row in words else [row]
    texts, others = [" ".join(row) for row in words], [" ".join(row[::-1]) + " anna" for row in words]
    numbers = rng.uniform(-1, 1, count).tolist()
    if kind == "columns":
        rows = priced_reviews.table(count, seed=3)
        return priced_reviews.some(rows), rows["label"]
    return {
        "classifier": (texts, [i % 2 for i in range(count)]),
        "windows": (texts, [i % 2 for i in range(count)]),
        "head-tail": (texts, [i % 2 for i in range(count)]),
        "several": (texts, [[name for name in ("film", "good", "bad") if name in row] for row in words]),
        "regressor": ((texts, others), numbers),
        "cosine": ((texts, others), numbers),
        "embedder": ((texts, others), numbers),
        "tagger": (words, [["B-LOC" if word == "rome" else "O" for word in row] for row in words]),
        "pieces": (texts, [[(0, len(row[0]), "PER")] for row in words]),
        "answerer": ((["who lives?"] * count, texts), [row[-1] for row in words]),
        "choice": ((texts, [[text, "rome", "good"] for text in others]), [i % 3 for i in range(count)]),
    }[kind]


def task_to_evaluate(kind):
    """A task whose answers differ."""
    if kind == "columns":
        return priced_reviews.small()
    bert = small_bert(seq_length=6 if kind == "head-tail" else 16)
    if kind == "head-tail":
        return randomize(small_task("classifier", bert, long="head-tail"), scale=0.4)
    return randomize(small_task(kind, bert), scale=0.4)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", [*KINDS, "windows", "head-tail", "columns"])
@pytest.mark.parametrize("compiled", [False, True])
def test_evaluate_does_not_depend_on_the_batch_size(kind, compiled):
    task = task_to_evaluate(kind)
    if compiled:
        task.compile("sgd", task.default_loss(), weighted_metrics=task.default_metrics())
    found = [task.evaluate(*many_rows(kind), size, return_dict=True, verbose=0) for size in (1, 4, 32, 300)]
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=1e-6)


@pytest.mark.parametrize("kind", [*KINDS[:-1], "head-tail", "columns"])  # the loss of an embedder compares the rows
def test_packed_ids_have_the_same_values_as_their_texts(kind):
    """At every batch size, also where rows have weights."""
    task = task_to_evaluate(kind)
    x, y = many_rows(kind)
    rows = task.labelled_examples(task._columns(x, y, None), held_out=True)
    batch = rows.batch(np.arange(len(rows)))
    packed, ids, weight = keras.tree.map_structure(np.asarray, batch)
    expected = task.evaluate(x, y, return_dict=True, verbose=0)
    for size in (1, 4, 32, 300, None):
        found = task.evaluate(packed, ids, size, sample_weight=weight, return_dict=True, verbose=0)
        assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-6)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["classifier", "tagger", "embedder"])
def test_a_loss_that_does_not_fit(kind):
    task = small_task(kind)
    task.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"does not accept its targets.*default_loss.*Received: loss='mse', targets"):
        task.evaluate(*columns(kind), verbose=0)
    with pytest.raises(ValueError, match=r"[Tt]he `?loss`? .*does not accept .*Received: .*mse"):
        task.fit(*columns(kind), verbose=0)


@pytest.mark.usefixtures("eager")
def test_an_error_of_a_loss_itself():
    """It is shown as it is: only what a backend raises for other shapes says that the loss does not fit."""

    def broken(y, logits):
        return {}["a name that is not there"]

    task = small_task("classifier")
    for loss, error in ((broken, KeyError), ("msee", ValueError)):
        task.compile("sgd", loss)
        for use in (task.fit, task.evaluate):
            with pytest.raises(error, match=r"not there|Could not interpret loss identifier: msee"):
                use(*columns("classifier"), verbose=0)


@pytest.mark.usefixtures("eager")
def test_a_dict_of_columns_validates():
    """It is a table, not packed ids; labels may be lists of several lengths."""
    task = small_task("several")
    x, y = columns("several")
    history = task.fit(x, y, epochs=1, verbose=0, validation_data={"text": x, "label": y}).history
    assert history["val_loss"] == pytest.approx([task.evaluate(x, y, verbose=0)[0]], abs=1e-6)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["classifier", "regressor", "choice", "embedder", "neighbours"])
def test_a_column_of_targets(kind, tmp_path):
    """Keras takes targets [n, 1] too."""
    task = small_task("embedder" if kind == "neighbours" else kind)
    x = TEXTS if kind == "neighbours" else columns(kind)[0]
    y = np.arange(len(x[0] if isinstance(x, tuple) else x)) % 2
    expected = task.evaluate(x, y, verbose=0)
    assert task.evaluate(x, y[:, None], verbose=0) == expected
    reports = [task.write_report(tmp_path / name, x, given) for name, given in (("1", y), ("2", y[:, None]))]
    assert reports[0] == reports[1]
    if kind == "classifier":
        packed = task.bert.preprocessor(x)
        assert task.evaluate(packed, y[:, None], verbose=0) == pytest.approx(expected, abs=1e-6)
        task.fit(packed, y[:, None], epochs=1, verbose=0)


@pytest.mark.usefixtures("eager")
def test_metrics_of_a_tagger_weigh_words_in_keras_s_own_loop():
    """Whatever the width of a batch."""
    task = small_task("tagger")
    x = [["Anna", "lives", "in", "Rome"], ["good"], ["the", "film", "was", "good", ".", "Rome"]]
    y = [["B-PER", "O", "O", "B-LOC"], ["B-PER"], ["O", "O", "O", "O", "O", "B-LOC"]]
    task.compile("sgd", task.default_loss(), weighted_metrics=task.default_metrics())
    means = [
        keras.Model.evaluate(task, task.examples(x, y).batches(size), return_dict=True, verbose=0) for size in (1, 3)
    ]
    assert means[0]["accuracy"] == pytest.approx(means[1]["accuracy"], abs=1e-6)
    assert means[0]["accuracy"] == pytest.approx(task.evaluate(x, y, return_dict=True, verbose=0)["accuracy"], abs=1e-6)


@pytest.mark.usefixtures("eager")
def test_a_question_whose_answer_is_not_in_its_context_counts_in_the_scores_and_not_in_the_loss(caplog):
    task = QuestionAnswerer(small_bert())
    questions, contexts = ["who lives in rome?"] * 2, ["Anna lives in Rome.", "the film was good."]
    answers = ["Anna", "Rome"]
    found = task.evaluate((questions, contexts), answers, return_dict=True, verbose=0)
    said = "Answers that are not in their contexts do not count in the loss: 1 of 2, such as 'Rome' at row 1"
    assert said in caplog.text
    alone = task.evaluate((questions[:1], contexts[:1]), answers[:1], return_dict=True, verbose=0)
    assert found["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    assert found["f1"] == pytest.approx(alone["f1"] / 2)  # the other answer is wrong
    assert len(task.examples((questions, contexts), answers)) == len(task.examples((questions[:1], contexts[:1]))) == 1


@pytest.mark.usefixtures("eager")
def test_options_of_validation():
    seen = []

    class Tested(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            seen.append("begin")

        def on_test_end(self, logs=None):
            seen.append(sorted(logs))

    task, labels = small_task("classifier"), [0, 1, 0, 1]
    options = {"validation_data": (TEXTS, labels), "verbose": 0}
    history = task.fit(TEXTS, labels, epochs=4, validation_freq=[1, 4], callbacks=[Tested()], **options).history
    assert len(history["val_loss"]) == len(history["val_f1"]) == 2
    assert seen == ["begin", ["accuracy", "loss"]] * 2
    history = task.fit(TEXTS, labels, epochs=1, validation_steps=1, validation_batch_size=2, **options).history
    assert history["val_loss"] == [task.evaluate(TEXTS[:2], labels[:2], return_dict=True, verbose=0)["loss"]]
    assert task.evaluate(TEXTS, labels, 2, steps=1, verbose=0) == task.evaluate(TEXTS[:2], labels[:2], verbose=0)


@pytest.mark.usefixtures("eager")
def test_scores_of_the_user_s_own_rows_are_added_to_what_is_validated():
    task, labels = small_task("classifier"), [0, 1, 0, 1]
    task.compile("sgd", task.default_loss())
    callbacks = [Scores(TEXTS[:2], labels[:2]), keras.callbacks.EarlyStopping("val_accuracy", mode="max")]
    options = {"validation_data": (TEXTS, labels), "callbacks": callbacks, "verbose": 0}
    history = task.fit(TEXTS, labels, **options).history
    assert history["val_accuracy"] == [scores(task, TEXTS[:2], labels[:2])["accuracy"]]
    assert np.isfinite(history["val_loss"]).all()


@pytest.mark.usefixtures("eager")
def test_rows_that_are_wrong_are_refused_before_training():
    task = small_task("classifier")
    for held_out, message in (
        ((TEXTS, [0, 1]), "`x` of length 4, `y` of length 2"),
        (([], []), "at least one"),
        ((TEXTS,), "y is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            task.fit(TEXTS, [0, 1, 0, 1], validation_data=held_out, verbose=0)
    assert not task.compiled


@pytest.mark.usefixtures("eager")
def test_a_compiled_metric_whose_best_is_the_highest():
    task, labels = small_task("classifier"), [0, 1, 0, 1]
    task.compile("sgd", task.default_loss(), weighted_metrics=[F1(2)])
    stopping = keras.callbacks.EarlyStopping("val_f1", patience=9)
    history = task.fit(TEXTS, labels, epochs=2, validation_data=(TEXTS, labels), callbacks=[stopping], verbose=0)
    assert stopping.best == max(history.history["val_f1"])


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("compiled", [False, True])
def test_callbacks_that_monitor_a_score_need_neither_a_mode_nor_a_place(compiled):
    """Keras knows the mode of val_loss, and neither that of a score nor, before `Scores`, its value."""
    task, labels = small_task("classifier"), [0, 1, 0, 1]
    stopping = keras.callbacks.EarlyStopping("val_matthews", patience=1)
    plateau = keras.callbacks.ReduceLROnPlateau("val_loss")
    error = keras.callbacks.EarlyStopping("val_calibration_error", patience=9)
    callbacks, options = [stopping, plateau, error], {"validation_data": (TEXTS, labels)}
    if compiled:
        task.compile(keras.optimizers.SGD(1e-9), task.default_loss())
        callbacks, options = [stopping, error, Scores(TEXTS, labels)], {}
    history = task.fit(TEXTS, labels, epochs=5, callbacks=callbacks, verbose=0, **options).history
    assert stopping.mode == "max"
    assert plateau.mode == "auto"
    assert error.mode == "min"
    assert error.best == min(history["val_calibration_error"])
    assert len(history["val_matthews"]) == (stopping.stopped_epoch + 1 if stopping.stopped_epoch else 5)
    assert stopping.best == max(history["val_matthews"])
