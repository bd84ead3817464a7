"""Temperature, thresholds, calibration error and "I don't know", against brute force and the definitions."""

import json
import logging

import keras
import numpy as np
import pytest
from sklearn.metrics import f1_score

from keras_bert import TextClassifier
from keras_bert.tasks.metrics.calibration import best_temperature, best_thresholds, calibration_error, temperature_by
from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert_cli import export
from tests.parity.oracles import randomize
from tests.tasks.runs import reviews, run, train, write
from tests.tasks.small import NO_DROPOUT, TEXTS, small_bert, small_task

LABELS = ("bad", "good", "so so")


def classifier(**options):
    task = TextClassifier(small_bert(**NO_DROPOUT), LABELS, **options)
    randomize(task)
    task.get_layer("classifier").kernel.assign(np.random.default_rng(1).normal(size=(8, 3)) * 20)
    return task


def rows(count, seed=0):
    """Texts of random words, and a label that often is that of the first word."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(["good", "bad", "film", "the", "rome"], rng.integers(1, 9))) for _ in range(count)]
    return texts, rng.integers(0, 3, count).tolist()


# === The numbers ===


def error_in_bins(right, confidence, bins=15):
    """By the definition: sum of |B| / n * |acc(B) - conf(B)| over the bins (0, 1/15], (1/15, 2/15] ..."""
    total = 0.0
    for number in range(bins):
        inside = [i for i, c in enumerate(confidence) if number / bins < c <= (number + 1) / bins]
        if inside:
            accuracy = sum(right[i] for i in inside) / len(inside)
            total += len(inside) / len(right) * abs(accuracy - sum(confidence[i] for i in inside) / len(inside))
    return total


def test_calibration_error():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.34, 1, 500)
    right = rng.random(500) < confidence**3
    assert calibration_error(right, confidence) == pytest.approx(error_in_bins(right, confidence), abs=1e-12)
    assert calibration_error([True, True], [1.0, 1.0]) == 0
    assert calibration_error([False], [1.0]) == 1


def loss_of(logits, labels, temperature):
    powers = np.exp(logits / temperature)
    return -np.log(powers[np.arange(len(labels)), labels] / powers.sum(1)).mean()


@pytest.mark.parametrize("scale", [0.2, 1.0, 6.0])
def test_best_temperature_is_that_of_a_grid(scale):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 4)) * scale
    chances = np.exp(logits / scale) / np.exp(logits / scale).sum(1, keepdims=True)  # so that `scale` is right
    labels = np.array([rng.choice(4, p=row) for row in chances])
    grid = np.exp(np.linspace(np.log(0.05), np.log(20), 4001))
    losses = [loss_of(logits, labels, temperature) for temperature in grid]
    found = best_temperature(logits, labels)
    assert found == pytest.approx(grid[int(np.argmin(losses))], rel=3e-3)
    assert loss_of(logits, labels, found) <= min(losses) + 1e-9


def test_no_temperature_where_it_cannot_be_known():
    assert best_temperature(np.eye(3)[[0, 1, 2] * 20], [0, 1, 2] * 20) is None  # all are right
    assert best_temperature(np.eye(3)[:2], [1, 1]) is None


def test_best_thresholds_have_the_f1_of_the_best_of_all():
    rng = np.random.default_rng(0)
    scores = np.round(rng.random((120, 4)), 2).astype("float32")  # with ties
    true = (rng.random((120, 4)) < np.array([0.5, 0.1, 0.3, 0.01]) * (0.3 + scores)).astype(int)
    found = best_thresholds(scores, true)
    assert found[3] is None
    for column, threshold in enumerate(found[:3]):
        every = [f1_score(true[:, column], scores[:, column] >= value) for value in np.linspace(-0.005, 1.005, 203)]
        assert f1_score(true[:, column], scores[:, column] >= threshold) == pytest.approx(max(every))
        assert 0 < threshold < 1


# === The task ===


def test_temperature(tmp_path):
    task, (texts, labels) = classifier(), rows(90)
    before, logits = task.classify(texts), task.predict(texts)
    found = scores(task, texts, labels)
    right = [answer.label == task.labels[label] for answer, label in zip(before, labels, strict=True)]
    assert found["calibration_error"] == pytest.approx(error_in_bins(right, [one.score for one in before]), abs=1e-6)
    assert task.calibrate(texts, labels) == {"temperature": task.temperature}
    assert task.temperature == pytest.approx(best_temperature(logits, labels))
    assert task.temperature > 1.5
    after = task.classify(texts)
    assert [one.label for one in after] == [one.label for one in before]
    powers = np.exp(logits.astype("float64") / task.temperature)
    expected = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose([list(one.scores.values()) for one in after], expected, atol=1e-6)
    assert np.array_equal(task.predict(texts), logits)
    assert "setting temperature" in Checkpoint.of(task).left_out  # of other formats
    error = scores(task, texts, labels)["calibration_error"]
    assert error < found["calibration_error"] / 2
    task.save(tmp_path / "task.keras")
    assert keras.models.load_model(tmp_path / "task.keras").classify(texts) == after


def test_thresholds(tmp_path, caplog):
    task, (texts, _) = classifier(multi_label=True), rows(90)
    rng = np.random.default_rng(0)
    shares = dict(zip(LABELS, (0.4, 0.2, 0.02), strict=True))
    labels = [[label for label, share in shares.items() if rng.random() < share] for _ in texts]
    assert task.classify(texts[:1])[0].above() == task.classify(texts[:1])[0].above(0.5)
    before, chances = scores(task, texts, labels), [one.scores for one in task.classify(texts)]
    has_label = [label in row for row in labels for label in LABELS]
    error = error_in_bins(has_label, [chance[label] for chance in chances for label in LABELS])
    assert before["calibration_error"] == pytest.approx(error, abs=1e-6)
    with caplog.at_level(logging.WARNING):
        found = task.calibrate(texts, labels)["thresholds"]
    assert "Labels keep their thresholds if too few rows have or lack them: so so." in caplog.text
    assert found["so so"] == 0.5
    answers = task.classify(texts)
    for answer in answers:
        assert answer.above() == tuple(label for label in LABELS if answer.scores[label] >= found[label])
    after = scores(task, texts, labels)
    assert after["f1_macro"] > before["f1_macro"]
    assert after["calibration_error"] == before["calibration_error"]  # thresholds change no probability
    line = next(iter(task.answers_as_json(texts[:1])))
    assert line["labels"] == list(answers[0].above())
    assert json.loads(json.dumps(line)) == line
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert again.thresholds == task.thresholds == tuple(found.values())
    assert again.classify(texts) == answers


@pytest.mark.usefixtures("eager")
def test_error_of_choices():
    task, (texts, labels) = randomize(small_task("choice"), scale=0.5), rows(90)
    x = texts, [[text, "good", "bad film"] for text in texts[::-1]]
    found = task.evaluate(x, labels, return_dict=True, verbose=0)
    answers = task.choose(*x)
    right = [answer.index == label for answer, label in zip(answers, labels, strict=True)]
    expected = error_in_bins(right, [max(answer.scores) for answer in answers])
    assert found["calibration_error"] == pytest.approx(expected, abs=1e-6)
    assert found["accuracy"] == pytest.approx(np.mean(right))


def test_abstaining(tmp_path):
    texts, labels = rows(40)
    always = classifier()
    least = float(np.median([one.score for one in always.classify(texts)]))
    task = classifier(abstain_below=least)
    expected = [one.label if one.score >= least else None for one in always.classify(texts)]
    assert None in expected
    assert set(expected) - {None}
    assert [one.label for one in task.classify(texts)] == expected
    assert [one["label"] for one in task.answers_as_json(texts)] == expected
    found = scores(task, texts, labels)
    assert found["accuracy"] == scores(always, texts, labels)["accuracy"]
    known = [(label, LABELS[true]) for label, true in zip(expected, labels, strict=True) if label is not None]
    assert found["answered"] == pytest.approx(len(known) / 40)
    assert found["accuracy_answered"] == pytest.approx(np.mean([label == true for label, true in known]))
    task.save(tmp_path / "task.keras")
    assert keras.models.load_model(tmp_path / "task.keras").abstain_below == least


def test_a_temperature_at_its_bound_is_reported(caplog):
    logits, labels = [[1.0, 0.0]] * 19 + [[0.0, 1e-9]], [0] * 20  # a wrong answer, by next to nothing
    with caplog.at_level(logging.WARNING):
        assert temperature_by(logits, labels, 1.0) == pytest.approx(0.05, rel=1e-3)
    assert "The best temperature for these 20 rows is outside 0.05 to 20, so it is set to 0.05." in caplog.text


def test_too_few_rows_are_reported(caplog):
    task = classifier()
    with caplog.at_level(logging.WARNING):
        assert task.calibrate(TEXTS, [0, 1, 2, 0]) == {"temperature": 1.0}
    assert "The temperature stays 1 with 4 rows: at least 20 rows are needed." in caplog.text
    with pytest.raises(ValueError, match="There are no rows"):
        task.calibrate([], [])
    with pytest.raises(ValueError, match="y is missing"):
        task.calibrate(TEXTS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": (0.1, 0.2, 0.3)}, "`thresholds` needs multi_label=True"),
        ({"thresholds": (0.1,), "multi_label": True}, "for each of the 3 labels"),
        ({"thresholds": (0.1, 0.2, 3.0), "multi_label": True}, "between 0 and 1"),
        ({"abstain_below": 0.5, "multi_label": True}, "`abstain_below` works only without multi_label, where"),
        ({"abstain_below": 50}, "must be a probability, from 0 to 1"),
        ({"abstain_below": "0.5"}, "`abstain_below` must be numbers"),
        ({"temperature": "1"}, "`abstain_below` must be numbers"),
        ({"thresholds": (0.1, None, 0.3), "multi_label": True}, "`abstain_below` must be numbers"),
        ({"temperature": 0}, "`temperature` must be above 0"),
        ({"multi_label": "no"}, "`multi_label` must be True or False. Received: multi_label='no'"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier(small_bert(), LABELS, **options)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of the TensorFlow backend")
@pytest.mark.parametrize("multi_label", [False, True])
def test_export(multi_label, tmp_path):
    import tensorflow as tf

    from keras_bert.exports.text_part import answers_to_texts

    (texts, _), options = rows(30), {"multi_label": True} if multi_label else {"temperature": 3.0}
    plain = classifier(**options).classify(texts)
    if multi_label:
        options["thresholds"] = np.median([list(answer.scores.values()) for answer in plain], axis=0).tolist()
    else:
        options["abstain_below"] = float(np.median([answer.score for answer in plain]))
    task = classifier(**options)
    task.bert.preprocessor.vocabulary.save(tmp_path / "vocab.txt")
    found = answers_to_texts(task, 16, tmp_path / "vocab.txt")[1]["serving_default"](text=tf.constant(texts))
    answers = task.classify(texts)
    assert [label.decode() for label in found["label"].numpy()] == [answer.label or "" for answer in answers]
    np.testing.assert_allclose(found["scores"], [list(one.scores.values()) for one in answers], atol=1e-6)
    assert ("above" in found) == multi_label
    if multi_label:
        above = [tuple(np.array(LABELS)[row]) for row in found["above"].numpy()]
        assert above == [answer.above() for answer in answers]
        assert len(set(above)) > 1
    else:
        assert {answer.label for answer in answers} > {None}


def test_command_line(bert, tmp_path):
    rng = np.random.default_rng(0)
    valid = [[text, label if rng.random() < 0.8 else "no"] for text, label in reviews(64, 1)]
    head = [["text", "label"]]
    files = write(tmp_path / "a.tsv", [*head, *reviews(96, 0)]), write(tmp_path / "b.tsv", [*head, *valid])
    options = "--calibrate", "--abstain-below", 0.6, "--positive", "no"
    said = train(bert, "classify", *files, tmp_path / "run", "--epochs", 1, *options)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    temperature = metrics["calibration"]["set"]["temperature"]
    assert f"temperature\t{temperature:.4f}\n" in said
    loaded = keras.models.load_model(tmp_path / "run" / "model.keras")
    assert (loaded.temperature, loaded.abstain_below) == (temperature, 0.6)
    after = metrics["calibration"]["valid"]
    evaluated = json.loads(run("evaluate", tmp_path / "run", "--data", files[1], "--json").stdout)
    assert {name: evaluated[name] for name in after} == pytest.approx(after)
    card = (tmp_path / "run" / "README.md").read_text()
    assert f"| temperature | {temperature:.4f} |" in card
    assert "| abstain below | 0.6 |" in card
    errors = [scores["calibration_error"] for scores in (metrics["valid"], after)]
    assert f"| calibration_error | {errors[1]:.4f} |\n" in card.partition("## Calibration")[0]
    assert "The scores are those after calibration." in card
    assert export._metrics(str(tmp_path / "run"))["valid"] == after
    assert f"| calibration_error | {errors[0]:.4f} | {errors[1]:.4f} |" in card
    with pytest.raises(ValueError, match="`calibrate` was given, but the task 'regress' does not have it"):
        FinetuneSettings("regress", "", "", calibrate=True)
