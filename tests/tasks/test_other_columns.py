"""Numbers and categories beside the text: what the model computes against numpy."""

import json

import keras
import numpy as np
import pytest

from keras_bert import FinetuneRecipe, OtherColumns, TextClassifier, TextRegressor
from keras_bert.tasks.readers import read_labels
from tests.parity.oracles import array
from tests.tasks.priced_reviews import CATEGORIES, LABELS, NUMBERS, UNSEEN, expected_logits, pooled, small, some
from tests.tasks.small import NO_DROPOUT, small_bert

# === What is computed ===


def test_numbers_are_standardised_as_by_scikit_learn():
    """Years and seconds since 1970 too, whose mean has more digits than a float32."""
    from sklearn.preprocessing import StandardScaler

    dice = np.random.default_rng(0)
    seconds = 1.7e9 + 256 * dice.integers(0, 100_000, 200)
    numbers = {"price": dice.lognormal(3, 1, 200), "year": dice.integers(1990, 2026, 200), "at": seconds}
    numbers = {name: np.asarray(values, "float32").tolist() for name, values in numbers.items()}
    columns = OtherColumns.learn(numbers, numbers=numbers)
    rows = np.array(list(numbers.values())).T
    scaler = StandardScaler().fit(rows)
    np.testing.assert_allclose([one for one, _ in columns.numbers.values()], scaler.mean_, rtol=1e-12)
    task = TextRegressor(small_bert(), other_columns=columns)
    found = rows.astype("float32")
    for step in task.get_layer("other_columns").steps:
        found = step(found)
    np.testing.assert_allclose(array(found), scaler.transform(rows), atol=1e-6)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("kind", "long"), [(TextClassifier, "truncate"), (TextRegressor, "head-tail")])
def test_logits_are_those_of_a_head_in_numpy(kind, long):
    task = small(kind, long=long)
    if long == "truncate":
        expected = expected_logits(task, UNSEEN, pooled(task, UNSEEN["text"]))
    else:
        x = {name: np.asarray(one) for name, one in task.examples(some(UNSEEN)).inputs(np.arange(7)).items()}
        inputs = {name: x[name] for name in task.bert.input}
        expected = expected_logits(task, UNSEEN, array(task.bert(inputs)["pooled_output"]))
        np.testing.assert_allclose(array(task(x)), expected, atol=1e-5)  # the model itself, as in training
    found = [task.predict(some(UNSEEN), size) for size in (1, 3, 32)]
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)
    assert np.ptp(expected_logits(task, UNSEEN, pooled(task, ["bad"] * 7)), axis=0).min() > 0.1  # the columns matter


@pytest.mark.usefixtures("eager")
def test_pairs():
    task, texts = small(), (UNSEEN["text"], UNSEEN["text"][::-1])
    rows = some(UNSEEN) | {"text_pair": texts[1]}
    expected = expected_logits(task, UNSEEN, pooled(task, texts))
    np.testing.assert_allclose(task.predict(rows), expected, atol=1e-5)
    others = [UNSEEN[name] for name in (*NUMBERS, *CATEGORIES)]
    np.testing.assert_allclose(task.predict((*texts, *others)), expected, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_windows():
    """All windows of a text are pooled, and its numbers are read once."""
    task = small(long="windows")
    without = TextClassifier(task.bert, LABELS, long="windows")
    head = without.get_layer("classifier")
    head.kernel.assign(np.eye(8, 3))
    head.bias.assign(np.zeros(3))
    vectors = [without.predict(UNSEEN["text"])]
    for start in (3, 6):
        head.kernel.assign(np.eye(8, 3, -start))
        vectors.append(without.predict(UNSEEN["text"]))
    expected = expected_logits(task, UNSEEN, np.concatenate(vectors, axis=1)[:, :8])
    np.testing.assert_allclose(task.predict(some(UNSEEN)), expected, atol=1e-5)
    x, *_ = next(iter(task.examples(some(UNSEEN), [0] * 7).batches(7)))
    found = task({name: np.asarray(one) for name, one in x.items()})
    np.testing.assert_allclose(array(found), expected, atol=1e-5)  # the model itself, as in training


@pytest.mark.usefixtures("eager")
def test_a_number_that_decides_the_label_is_learned():
    """From texts that say nothing, in 16 steps."""
    dice = np.random.default_rng(0)
    rows = {"text": ["the film"] * 128, "price": dice.normal(100, 30, 128).tolist()}
    labels = np.where(np.array(rows["price"]) > 110, "good", "bad").tolist()
    keras.utils.set_random_seed(0)
    bert = small_bert(**NO_DROPOUT, hidden_size=64, intermediate_size=32)
    columns = OtherColumns.learn(rows, numbers=["price"])
    task = TextClassifier(bert, ("bad", "good"), other_columns=columns)
    recipe = FinetuneRecipe(learning_rate=1e-2, epochs=4)
    task.fit(some(rows, "text", "price"), labels, recipe=recipe, verbose=0)
    assert task.evaluate(some(rows, "text", "price"), labels, return_dict=True, verbose=0)["accuracy"] > 0.95
    answers = task.classify([{"text": "the film", "price": 60}, {"text": "the film", "price": 150}])
    assert [answer.label for answer in answers] == ["bad", "good"]


# === What x may be ===


@pytest.mark.usefixtures("eager")
def test_tables_of_any_kind(tmp_path):
    import datasets
    import pandas

    task, rows = small(), some(UNSEEN)
    expected = task.predict(tuple(rows.values()))
    records = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    kinds = [rows, records, pandas.DataFrame(rows), datasets.Dataset.from_dict(rows), path]
    for x in [*kinds, read_labels(path, label=None, number=NUMBERS, category=CATEGORIES)]:
        assert np.array_equal(task.predict(x), expected)
    assert task.classify(records[3]).scores == pytest.approx(task.classify(records)[3].scores, abs=1e-6)
    labelled = pandas.DataFrame(rows | {"label": UNSEEN["label"]})
    given = [(labelled,), (rows, UNSEEN["label"]), (tuple(rows.values()), UNSEEN["label"])]
    scores = [task.evaluate(*one, return_dict=True, verbose=0) for one in given]
    assert scores[0] == scores[1] == scores[2]
    task.fit(rows, UNSEEN["label"], validation_split=0.3, epochs=1, verbose=0)
    task.fit(labelled, validation_data=(rows, UNSEEN["label"]), epochs=1, verbose=0)
    task.calibrate(rows, UNSEEN["label"])
    with pytest.raises(ValueError, match="its own labels"):
        task.fit(labelled, UNSEEN["label"], verbose=0)
