"""What all tasks share: training on columns, saving, freezing, the order of predictions."""

import functools
import gc
import io
import os
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert.inputs import INPUTS
from keras_bert.tasks.columns.other_columns import OtherColumns
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.task import Task
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.training.optimizer import AdamW
from tests.parity.oracles import array
from tests.soak import IN_SOAK
from tests.subprocesses import fork
from tests.tasks.small import KINDS, NO_DROPOUT, TEXTS, answers, columns, small_bert, small_task

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="of the TensorFlow backend")


@functools.cache
def trained(kind):
    """A task that has learned its examples by heart, in one epoch of many copies; and the losses of begin and end."""
    keras.utils.set_random_seed(0)
    task = small_task(kind, small_bert(**NO_DROPOUT, num_hidden_layers=2, hidden_size=16, intermediate_size=32))
    task.compile(keras.optimizers.Adam(0.003), task.default_loss(), weighted_metrics=task.default_metrics())
    x, y = columns(kind)
    times = 300 if kind == "answerer" else 80
    copies = tuple(column * times for column in x) if isinstance(x, tuple) else x * times
    before = task.evaluate(x, y, return_dict=True, verbose=0)
    task.fit(copies, y * times, batch_size=len(y), verbose=0)
    return task, before["loss"]


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


def test_what_a_saved_head_and_a_file_cannot_be(tmp_path):
    task = small_task("classifier")
    for wrong in (None, 3):
        with pytest.raises(TypeError, match=rf"path of a file is needed.*Received: {wrong}"):
            task.save(wrong)
    with pytest.raises(ValueError, match=r"ends in .keras. Received: '.*b/\.keras'"):
        task.save(tmp_path / "b" / ".keras")
    with pytest.raises(ValueError, match=r"ends in .keras. Received: .*task.h5"):
        task.save(tmp_path / "task.h5")
    task.save(tmp_path / "task.keras")
    sizes = (
        r"'classifier' of .*task.keras has 2 outputs, .* new task has 3.* \(8, 2\) in the file, \(8, 3\) in the task"
    )
    with pytest.raises(ValueError, match=sizes):
        TextClassifier.load(tmp_path / "task.keras", labels=("a", "b", "c"))


def test_a_frozen_task_is_loaded_with_other_settings(tmp_path):
    """Also if a layer that is frozen is not there any more, and a setting that stays changes nothing."""
    task = small_task("windows")
    task.trainable = False
    task.compile("sgd", task.default_loss())
    task.save(tmp_path / "task.keras")
    assert type(task).load(tmp_path / "task.keras", labels=("negative", "positive")).compiled
    loaded = type(task).load(tmp_path / "task.keras", long="truncate")
    assert not loaded.trainable_weights
    columns_of = OtherColumns(numbers={"price": (0.0, 1.0)})
    small_task("classifier", other_columns=columns_of).save(tmp_path / "other.keras")
    more = OtherColumns(numbers={"price": (0.0, 1.0), "weight": (0.0, 1.0)})
    with pytest.raises(ValueError, match=r"The layer '.*' of .*other.keras has other inputs than the new task"):
        type(task).load(tmp_path / "other.keras", other_columns=more)


@pytest.mark.parametrize(
    ("kind", "saved", "changed"),
    [
        ("classifier", {"long": "head-tail"}, {"labels": ("b", "a")}),
        ("windows", {"max_windows": 3}, {"labels": ("b", "a")}),
        ("answerer", {"null_threshold": 1.5, "max_question_length": 4}, {"stride": 2}),
    ],
)
def test_a_setting_of_load_changes_only_that_one(tmp_path, kind, saved, changed):
    task = small_task(kind, small_bert(seq_length=8), **saved)
    task.save(tmp_path / "task.keras")
    loaded = type(task).load(tmp_path / "task.keras", **changed)
    settings = {name: value for name, value in task.get_config().items() if name not in ("bert", *changed)}
    assert {name: value for name, value in loaded.get_config().items() if name in settings} == settings
    assert [getattr(loaded, name) for name in changed] == [*changed.values()]
    assert loaded.bert.preprocessor.seq_length == task.bert.preprocessor.seq_length
    x, _ = columns(kind)
    np.testing.assert_allclose(loaded.predict(x), task.predict(x), atol=1e-6)


def test_nobody_can_be_asked_whether_to_replace_a_file(tmp_path, monkeypatch):
    task = small_task("classifier")
    task.save(tmp_path / "task.keras")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(FileExistsError, match=r"pass overwrite=True. Received: .*task.keras"):
        task.save(tmp_path / "task.keras", overwrite=False)


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch):
    small_task("classifier").save(tmp_path / "task.keras")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="`source` is empty"):
        TextClassifier.load("")


@pytest.mark.long
def test_saved_tasks_are_the_same_in_a_fresh_process(tmp_path):
    expected = []
    for kind in KINDS:
        # One that has learned, and so has an optimizer; the others as they are, since tracing is what takes the time.
        task = trained(kind)[0] if kind == "classifier" else small_task(kind)
        task.save(tmp_path / f"{kind}.keras")
        expected.append(told(kind, task))
    assert fork(of_saved_tasks, tmp_path) == expected


def of_saved_tasks(folder):
    return [told(kind, keras.models.load_model(folder / f"{kind}.keras")) for kind in KINDS]


def told(kind, task):
    """What a task gives, and what a saved one keeps besides: the unused pooler, the text's rules and the settings."""
    logits = task.predict(columns(kind)[0]).tobytes()
    config = {key: value for key, value in task.get_config().items() if key not in ("bert", "name")}
    rules = task.bert.preprocessor.get_config()
    return logits, repr(answers(kind, task)), array(pooler(task)).tolist(), rules, config


def pooler(task):
    return task.bert.get_layer("pooler").kernel


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


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["classifier", "tagger", "choice"])
def test_a_frozen_encoder_keeps_its_weights(kind):
    task = small_task(kind, freeze=True)
    before = [array(weight) for weight in task.bert.weights]
    kernels = [weight for weight in task.trainable_weights if weight.name == "kernel"]  # no bias tells choices apart
    head = [array(weight) for weight in kernels]
    task.compile(AdamW(0.1), task.default_loss())
    task.fit(*columns(kind), verbose=0)
    assert all(np.array_equal(x, array(y)) for x, y in zip(before, task.bert.weights, strict=True))
    assert head
    assert not any(np.array_equal(x, array(y)) for x, y in zip(head, kernels, strict=True))


@tensorflow_only
def test_the_frozen_encoder_has_no_backward_pass():
    """Of the products a step needs, only the forward ones and the head's two are left."""

    def products(task):
        task.compile(AdamW(), task.default_loss())
        task.fit(TEXTS, [0, 1, 0, 1], verbose=0)
        return count_needed(task, "MatMul")

    forward = 4 + 1  # Dense layers; attention's products are BatchMatMulV2
    assert products(small_task("classifier", freeze=True)) == forward + 2  # the head, and its kernel's gradient
    assert products(small_task("classifier")) > 2 * forward


def count_needed(task, kind):
    """How many operations of a kind the training step depends on; the runtime prunes the others."""
    import tensorflow as tf

    x, y, weight = next(iter(task.examples(TEXTS, [0, 1, 0, 1]).batches(4)))
    graph = tf.function(task.train_step).get_concrete_function((x, y, weight)).graph
    start = [output.op for output in graph.structured_outputs.values()] + list(graph.control_outputs)
    seen, waiting = set(), start
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen.add(operation)
            waiting += [x.op for x in operation.inputs] + list(operation.control_inputs)
    return sum(operation.type == kind for operation in seen)


def test_blocks_can_be_unfrozen():
    task = small_task("classifier", small_bert(num_hidden_layers=2), freeze=True)
    assert len(task.trainable_weights) == 2
    task.bert.freeze(blocks=1)
    assert {weight.path.split("/")[0] for weight in task.trainable_weights if "layer_0" in weight.path} == set()
    assert any("layer_1" in weight.path for weight in task.trainable_weights)


@pytest.mark.parametrize("kind", ["tagger", "choice"])
def test_lora(kind, tmp_path):
    task = small_task(kind)
    answers(kind, task)  # a trace from before must not be used after
    task.bert.enable_lora(2)
    before = array(task.bert.get_layer("layer_0_attention_qkv")._kernel)
    task.compile(AdamW(0.1), task.default_loss())
    logits = task.predict(columns(kind)[0])
    task.fit(*columns(kind), epochs=3, verbose=0)
    assert np.array_equal(before, array(task.bert.get_layer("layer_0_attention_qkv")._kernel))
    assert np.abs(task.predict(columns(kind)[0]) - logits).max() > 1e-3
    task.save(tmp_path / "task.keras")
    loaded = keras.models.load_model(tmp_path / "task.keras")
    assert np.array_equal(loaded.predict(columns(kind)[0]), task.predict(columns(kind)[0]))
    assert len(loaded.trainable_weights) == len(task.trainable_weights)


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
