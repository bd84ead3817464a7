"""What all tasks share: training on columns, scores, the order of predictions, tasks of the user."""

import gc
import os
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert.inputs import INPUTS
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.task import Task
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from tests.soak import IN_SOAK
from tests.tasks.small import TEXTS, columns, small_bert, small_task, trained

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="of the TensorFlow backend")


@pytest.mark.parametrize("kind", ["classifier", "cosine", "tagger", "answerer", "choice"])
def test_a_task_learns_its_examples_by_heart(kind):
    task, before = trained(kind)
    x, y = columns(kind)
    measured = task.evaluate(x, y, return_dict=True, verbose=0)
    assert measured["loss"] < 0.3 * before
    assert measured.get("accuracy", 1.0) == 1.0
    if kind == "classifier":
        assert [answer.label for answer in task.classify(x)] == y
    elif kind == "cosine":
        assert np.corrcoef(task.score(x), y)[0, 1] > 0.8
    elif kind == "tagger":
        assert task.tag_words(x) == y
        assert [(e.text, e.type) for e in task.tag("Anna lives in Rome")] == [("Anna", "PER"), ("Rome", "LOC")]
    elif kind == "answerer":
        assert [(answer.text, answer.start) for answer in task.answer(*x)] == [("Rome", 14), ("Anna", 0)]
    else:
        assert [answer.index for answer in task.choose(*x)] == y


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("classifier", "matthews"),
        ("several", "accuracy"),
        ("cosine", "spearman"),
        ("tagger", "entity_f1"),
        ("answerer", "exact_match"),
    ],
)
def test_evaluate_tells_what_is_reported(kind, name):
    """Beside the means of `compile`, whose values are kept; without names, as many as Keras gives."""
    task = small_task(kind)
    x, y = columns(kind)
    measured = task.evaluate(x, y, return_dict=True, verbose=0)
    means = dict(zip(("loss", task.metrics[-1].metrics[0].name), task.evaluate(x, y, verbose=0), strict=True))
    assert name in measured
    assert measured == {**scores(task, x, y), **means}


@IN_SOAK
@tensorflow_only
@pytest.mark.long
def test_many_predictions_of_mixed_length_have_one_trace_flat_memory_and_the_given_order():
    task = small_task("classifier")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["good", "bad", "film"], rng.integers(0, 15))) for _ in range(2_000)]
    logits, resident = task.predict(texts, batch_size=64), []
    for _ in range(5):
        order = rng.permutation(2_000)
        again = task.predict([texts[number] for number in order], batch_size=64)
        resident.append(resident_megabytes())
        assert np.allclose(again, logits[order], atol=1e-5)
    assert resident[-1] - resident[0] < 4  # the kernels of each number of tokens are kept from the first round on
    assert np.allclose(task.predict(texts[:50], batch_size=1), logits[:50], atol=1e-5)
    assert len(task.runners.made["logits"].graphs) == 1  # a concrete function, which is never traced again


def resident_megabytes():
    """What this process holds now, by Linux's own count of pages."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.usefixtures("eager")
def test_entities_as_lists():
    """As JSON has them."""
    task, (x, y) = small_task("pieces"), columns("pieces")
    as_lists = [[[one.start, one.end, one.type] if hasattr(one, "type") else list(one) for one in row] for row in y]
    assert scores(task, x, as_lists) == scores(task, x, y)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_gives_float32_logits(dtype):
    task = small_task("classifier", small_bert(dtype=dtype))
    assert task.predict(TEXTS).dtype == "float32"
    task.fit(TEXTS, [0, 1, 0, 1], epochs=1, verbose=0)


def test_half_precision_is_refused():
    task = small_task("classifier", small_bert(dtype="bfloat16"))
    with pytest.raises(ValueError, match="mixed_bfloat16"):
        task.fit(TEXTS, [0, 1, 0, 1], verbose=0)


@pytest.mark.usefixtures("eager")
def test_no_rows():
    """An empty answer, for every task."""
    assert small_task("classifier").classify([]) == small_task("several").classify([]) == []
    assert small_task("classifier").classify(()) == []
    for kind in ("regressor", "cosine"):
        assert small_task(kind).score(([], [])).shape == (0,)
    assert small_task("tagger").tag([]) == small_task("tagger").tag_words([]) == []
    assert small_task("answerer").answer([], []) == []
    assert small_task("choice").choose([], []) == []
    for kind, x in (("classifier", []), ("choice", ([], [])), ("answerer", ([], []))):
        assert len(small_task(kind).predict(x)) == 0
        with pytest.raises(ValueError, match="There are no rows"):
            small_task(kind).fit(x, [], verbose=0)


@pytest.mark.usefixtures("eager")
def test_pairs_in_a_table():
    task, (first, second) = small_task("classifier"), (TEXTS, TEXTS[::-1])
    table = {"text": first, "text_pair": second}
    assert task.classify(table) == task.classify((first, second)) != task.classify({"text": first})


@pytest.mark.usefixtures("eager")
def test_choices_are_columns_of_any_kind():
    import pandas
    import tensorflow as tf

    task, ((prompts, choices), _) = small_task("choice"), columns("choice")
    expected = task.choose(prompts, choices)
    table = pandas.DataFrame({"prompt": prompts, "choices": choices})
    for given in (
        (table["prompt"], table["choices"]),
        (np.array(prompts), np.array(choices)),
        (tf.constant(prompts), tf.constant(choices)),
    ):
        assert [answer.index for answer in task.choose(*given)] == [answer.index for answer in expected]


def test_a_task_of_the_user_s_has_its_word():
    class Agreement(TextClassifier):
        command = "agree"

    assert Task.named("agree") is Agreement
    assert Task.named("classify") is TextClassifier
    with pytest.raises(ValueError, match=r"There is no task 'sing'. Use one of agree, answer, choose"):
        Task.named("sing")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda bert: TextClassifier(bert, ("a", "b")).fit(TEXTS, [0, 1, 0, 1], epochs="3"), "epochs='3'"),
        (lambda bert: TextClassifier(bert, ("a", "b")).fit(TEXTS, [0, 1, 0, 1], batch_size="3"), "batch_size='3'"),
        (
            lambda bert: TextClassifier(bert, ("a", "b")).classify("good", "bad"),
            r'A pair of texts is one argument: \("a", "b"\)\. Received: batch_size=\'bad\'',
        ),
        (lambda bert: TextClassifier(bert, labels=2), r'For two unnamed labels write \("0", "1"\)'),
        (lambda bert: MultipleChoice(bert, ["a", "b"]), "`choices` must be the number of choices"),
        (lambda bert: FinetuneRecipe(learning_rate="1e-3"), "`learning_rate` must be a finite number"),
        (lambda bert: FinetuneRecipe(epochs="1"), "`epochs` must be a whole number"),
        (lambda bert: FinetuneRecipe(batch_size=0), "`batch_size` must be at least 1"),
        (lambda bert: TextClassifier(bert, ("a", "b")).classify(None), "The text is missing"),
        (lambda bert: TextRegressor(bert).fit(TEXTS, ["1", "2", "3", "4"]), r"row 0 is a string. .* float\(\)"),
        (
            lambda bert: TextClassifier(bert, ("a", "b")).fit(TEXTS, [0, 1, 0, 1], validation_data=TEXTS),
            r"validation_data must be \(x, y\)",
        ),
        (
            lambda bert: TextClassifier(bert, ("a", "b")).fit(TEXTS, [0, 1, 0, 1], validation_data=["good", "bad"]),
            r"validation_data must be \(x, y\)",
        ),
        (
            lambda bert: TextClassifier(bert, ("a", "b")).fit(TEXTS, [0, 1, 0, 1], validation_data="dev.tsv"),
            "this is no file. Correct the path, .* Received: 'dev.tsv'",
        ),
        (
            lambda bert: TextClassifier(bert, ("a", "b")).fit(TEXTS, [0, 1, 0, 1], recipe={"epochs": 1}),
            "`recipe` must be a FinetuneRecipe",
        ),
        (
            lambda bert: TextClassifier(bert, ("a", "b")).fit(
                TEXTS, [0, 1, 0, 1], callbacks=[keras.callbacks.EarlyStopping]
            ),
            "A callback must be an object",
        ),
        (
            lambda bert: TextClassifier(bert, ("a", "b"))({name: np.full((1, 4), 9999) for name in INPUTS}),
            "`input_word_ids` has a number outside 0 to",
        ),
        (
            lambda bert: TextClassifier(bert, ("a", "b")).predict({name: np.ones((1, 600), int) for name in INPUTS}),
            "must not exceed the model's",
        ),
    ],
)
def test_arguments_of_a_wrong_type(call, message):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=message):
        call(small_bert())


def test_what_no_row_teaches_is_logged(caplog):
    for kind, x, y, said in (
        ("classifier", ["good", "bad"], [1, 0], ""),
        ("several", ["good", "bad"], [["good"], ["bad"]], "in no training row, so no row teaches them: 'film'"),
        ("tagger", [["anna", "rome"]], [["B-PER", "B-LOC"]], "so no row teaches them: 'O', 'I-PER', 'I-LOC'"),
        (
            "tagger",
            [["Anna", "lives", "in", "Rome"]],
            [["B-PER", "O", "O", "O"]],
            "teaches them: 'I-PER', 'B-LOC', 'I-LOC'",
        ),
        ("regressor", ["good", "bad"], [1.5, 1.5], "All training rows have the score 1.5, so only this"),
        ("regressor", ["good", "bad"], [1.5, 1.0], ""),
    ):
        caplog.clear()
        task = small_task(kind)
        task.check_learnable(task.examples(x, y))
        assert said in caplog.text
        assert bool(said) == bool(caplog.text)
