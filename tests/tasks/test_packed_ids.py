"""Rows of ids that are packed already: their values are those of texts, and wrong ones are refused in one line."""

import keras
import numpy as np
import pytest

from tests.tasks.small import TEXTS, small_task


class Heard(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_test_begin(self, logs=None):
        self.calls.append("begin")

    def on_test_batch_end(self, batch, logs=None):
        self.calls.append(batch)

    def on_test_end(self, logs=None):
        self.calls.append(dict(logs))


@pytest.mark.usefixtures("eager")
def test_callbacks_and_steps_of_packed_ids():
    task = small_task("classifier")
    x, y = task.bert.preprocessor(TEXTS), [1, 0, 0, 1]
    callback = Heard()
    found = task.evaluate(x, y, 2, steps=1, callbacks=[callback], return_dict=True, verbose=0)
    assert callback.calls == ["begin", 0, found]
    first = {name: value[:2] for name, value in x.items()}
    assert found == pytest.approx(task.evaluate(first, y[:2], return_dict=True, verbose=0), abs=1e-6)
    with pytest.raises(ValueError, match=r"y is missing\. .* Received: y=None"):
        task.evaluate(x)
    with pytest.raises(ValueError, match="There are 4 rows of ids, but y has 3"):
        task.evaluate(x, y[:3])
    with pytest.raises(ValueError, match="There are 4 rows of ids, but sample_weight has 5"):
        task.evaluate(x, y, sample_weight=np.ones(5))


@pytest.mark.usefixtures("eager")
def test_bad_packed_ids():
    task = small_task("classifier")
    x, y = task.bert.preprocessor(TEXTS), [1, 0, 0, 1]
    expected = task.evaluate(x, y, verbose=0)
    assert task.evaluate({name: np.asarray(ids).tolist() for name, ids in x.items()}, y, verbose=0) == expected
    for call in (task.predict, lambda ids: task.evaluate(ids, y), lambda ids: task.fit(ids, y)):
        with pytest.raises(ValueError, match="called with a, which it does not read"):
            call({**x, "a": x["input_mask"]})
        with pytest.raises(ValueError, match=r"must have the same rows.* Received: .*input_mask of 3"):
            call({**x, "input_mask": x["input_mask"][:3]})
        with pytest.raises(ValueError, match=r"at least one.* Received: input_word_ids of 0"):
            call({name: ids[:0] for name, ids in x.items()})
    with pytest.raises(ValueError, match="x has packed ids, but validation_data has texts"):
        task.fit(x, y, validation_data=(TEXTS, y))
    for call, name in (
        (lambda: task.predict(x, steps=0), "steps"),
        (lambda: task.evaluate(x, y, steps=0), "steps"),
        (lambda: task.evaluate(TEXTS, y, steps=0), "steps"),
        (lambda: task.fit(x, y, steps_per_epoch=0), "steps_per_epoch"),
        (lambda: task.fit(x, y, validation_data=(x, y), validation_steps=0), "validation_steps"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be at least 1.* Received: {name}=0"):
            call()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("kind", "shape"), [("windows", r"\[\*, \*, \*\]"), ("choice", r"\[\*, 3, \*\]")])
def test_packed_ids_of_another_rank(kind, shape):
    """A preprocessor makes one row of ids of each text."""
    task = small_task(kind)
    x, y = task.bert.preprocessor(TEXTS), [1, 0, 0, 1]
    for call in (lambda: task.predict(x), lambda: task.evaluate(x, y), lambda: task.fit(x, y)):
        with pytest.raises(ValueError, match=rf"must have the shape {shape}.*Pass the texts\. Received: shape \[4, "):
            call()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        ("tagger", np.full((4, 16), 5), "from 0 to 4.* Received: 5"),
        ("tagger", np.full((4, 16), -100), "Received: -100"),
        ("tagger", np.full((4, 16), 0.5), "Received: 0.5"),
        ("tagger", [["O"], ["O", "O"], [], []], "Received: "),
        ("tagger", [["O"], ["O"], ["O"], ["O"]], "Received: 'O'"),
        ("answerer", np.full((4, 2), 16), "from 0 to 15.* Received: 16"),
        ("answerer", ["Rome"] * 4, "Received: 'Rome'"),
        ("tagger", np.zeros((4, 1), int), r"shape \[4, 16\].* Received: shape \[4, 1\]"),
        ("answerer", np.zeros((4, 1), int), r"shape \[4, 2\].* Received: shape \[4, 1\]"),
    ],
)
def test_bad_targets_of_packed_ids(kind, wrong, says):
    """On JAX their loss would be 0."""
    task = small_task(kind)
    x = task.bert.preprocessor(TEXTS)
    with pytest.raises(ValueError, match=says):
        task.evaluate(x, wrong)
    with pytest.raises(ValueError, match=says):
        task.fit(x, wrong)


@pytest.mark.usefixtures("eager")
def test_weighed_packed_rows_validate_at_every_batch_size():
    task = small_task("classifier")
    x, y, weight = task.bert.preprocessor(TEXTS), np.array([1, 0, 0, 1]), np.array([1.0, 5, 0, 2])
    found = []
    for size in (1, 3):
        options = {"validation_batch_size": size, "validation_data": (x, y, weight)}
        task.compile(keras.optimizers.SGD(0.0), task.default_loss(), weighted_metrics=task.default_metrics())
        found.append(task.fit(x, y, verbose=0, **options).history)
    assert found[0]["val_loss"] == pytest.approx(found[1]["val_loss"], abs=1e-6)
    assert found[0]["val_loss"] == pytest.approx(task.evaluate(TEXTS, y, sample_weight=weight, verbose=0)[:1], abs=1e-6)
