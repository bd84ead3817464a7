"""Tasks that are saved and loaded, with the same or with other settings."""

import io

import keras
import numpy as np
import pytest

from keras_bert.tasks.columns.other_columns import OtherColumns
from keras_bert.tasks.text_classifier import TextClassifier
from tests.parity.oracles import array
from tests.subprocesses import fork
from tests.tasks.small import KINDS, answers, columns, small_bert, small_task, trained


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


def test_a_backend_does_not_take_how_another_one_compiles(tmp_path):
    task = small_task("classifier")
    task.compile("sgd", task.default_loss(), jit_compile=True)
    task.save(tmp_path / "task.keras")
    assert not TextClassifier.load(tmp_path / "task.keras").jit_compile


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
