"""What happens on the way: a run that is stopped or killed goes on, and one that cannot begin leaves nothing behind."""

import os
import shutil
import signal

import keras
import numpy as np
import pytest

from keras_bert.tasks.readers import Rows
from keras_bert.tasks.run import best_epoch
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.run_folder import begun
from keras_bert.tasks.run.saved_step import SavedStep
from tests.subprocesses import FORKS
from tests.tasks.runs import run, train, write


def test_goes_on_from_the_last_epoch(bert, files, finished, tmp_path, monkeypatch):
    """With the weights, the moments, the schedule, the order and the dropout of a run that was not interrupted."""
    whole, broken = finished[0], tmp_path / "broken"
    seen = []

    def pull_the_plug_once(self, epoch, logs=None):
        seen.append(epoch)
        if seen == [0, 1]:
            raise OSError("no power")

    monkeypatch.setattr(BestEpoch, "on_epoch_begin", pull_the_plug_once)
    with pytest.raises(OSError, match="no power"):
        train(bert, "classify", *files, broken, "--epochs", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["broken.partial"]
    state, settings = tmp_path / "broken.partial/epoch-1.npz", tmp_path / "broken.partial/settings.json"
    for file, said in ((state, "epoch-1.npz is damaged"), (settings, "settings.json is damaged")):
        content = file.read_bytes()
        file.write_bytes(content[:100])
        with pytest.raises(ValueError, match=f"{said}, so the run cannot .*Delete the folder"):
            train(bert, "classify", *files, broken, "--epochs", 2)
        file.write_bytes(content)
    content = settings.read_bytes()
    settings.unlink()
    with pytest.raises(ValueError, match=r"settings.json is missing, so .*Delete the folder"):
        train(bert, "classify", *files, broken, "--epochs", 2)
    settings.write_bytes(content)
    with pytest.raises(ValueError, match=r"other settings.*: a difference in batch_size \(.* then, 8 now\)"):
        train(bert, "classify", *files, broken, "--epochs", 2, "--batch-size", 8)
    train(bert, "classify", *files, broken, "--epochs", 2)
    assert seen == [0, 1, 1]
    assert (broken / "metrics.json").read_text() == (whole / "metrics.json").read_text()
    weights = [keras.models.load_model(folder / "model.keras").get_weights() for folder in (whole, broken)]
    assert all(np.array_equal(*pair) for pair in zip(*weights, strict=True))
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_short_epochs_of_a_large_model_are_saved_together(bert, files, tmp_path, monkeypatch):
    options = ["--epochs", 5, "--lr", 1e-2, "--ema", 0.5]  # 10 steps in an epoch
    train(bert, "classify", *files, tmp_path / "whole", *options)
    monkeypatch.setattr(best_epoch, "SMALL", 0)
    states, broken = [], tmp_path / "broken"

    def pull_the_plug_once(self, epoch, logs=None):
        states.append((epoch, sorted(path.name for path in self.folder.glob("epoch-*[0-9].npz"))))
        if len(states) == 4:
            raise OSError("no power")

    monkeypatch.setattr(BestEpoch, "on_epoch_begin", pull_the_plug_once)
    with pytest.raises(OSError, match="no power"):
        train(bert, "classify", *files, broken, *options)
    train(bert, "classify", *files, broken, *options)
    assert states == [
        *[(0, []), (1, []), (2, ["epoch-2.npz"]), (3, ["epoch-2.npz"])],
        *[(2, ["epoch-2.npz"]), (3, ["epoch-2.npz"]), (4, ["epoch-4.npz"])],
    ]
    assert (broken / "metrics.json").read_text() == (tmp_path / "whole/metrics.json").read_text()
    weights = [keras.models.load_model(tmp_path / name / "model.keras").get_weights() for name in ("whole", "broken")]
    assert all(np.array_equal(*pair) for pair in zip(*weights, strict=True))


@pytest.mark.usefixtures("sigterm_is_ignored")
@pytest.mark.parametrize("epoch", [0, 1])
def test_sigterm_ends_it_as_ctrl_c_does(bert, files, tmp_path, monkeypatch, caplog, epoch):
    def terminate(self, begun, logs=None):
        if begun == epoch:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(BestEpoch, "on_epoch_begin", terminate)
    options = ("--model", bert, "--output", tmp_path / "run", "--seq-length", 32, "--epochs", 2)
    done = run("finetune", "classify", "--train", files[0], "--valid", files[1], *options)
    assert done.exit_code == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["run.partial"] * epoch
    assert [record.getMessage() for record in caplog.records if "Interrupted" in record.getMessage()] == [
        f"Interrupted. The same command resumes from {tmp_path / 'run.partial'}."
    ] * epoch


def test_half_precision_resumes_within_an_epoch(bert, files, tmp_path, monkeypatch):
    """The scale of the loss is a state too."""
    options = ["--epochs", 2, "--dtype", "mixed_float16", "--save-every", 3]  # 10 steps in an epoch
    train(bert, "classify", *files, tmp_path / "whole", *options)
    seen = []

    def batch_end(self, batch, logs=None, real=SavedStep.on_train_batch_end):
        real(self, batch, logs)
        seen.append(batch)
        if len(seen) == 15:
            raise OSError("no power")

    monkeypatch.setattr(SavedStep, "on_train_batch_end", batch_end)
    with pytest.raises(OSError, match="no power"):
        train(bert, "classify", *files, tmp_path / "broken", *options)
    state = tmp_path / "broken.partial/step.npz"
    content = state.read_bytes()
    for damaged in (content[:5000], content[: len(content) // 2] + b"damage" + content[len(content) // 2 + 6 :]):
        state.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"step.npz is damaged.*Delete this file to resume after the last"):
            train(bert, "classify", *files, tmp_path / "broken", *options)
    state.unlink()
    shutil.copytree(tmp_path / "broken.partial", tmp_path / "without_step.partial")
    state.write_bytes(content)
    train(bert, "classify", *files, tmp_path / "broken", *options)
    assert len(seen) == 15 + 7
    train(bert, "classify", *files, tmp_path / "without_step", *options)  # after the last epoch, as the error says
    assert len(seen) == 15 + 7 + 10
    whole = keras.models.load_model(tmp_path / "whole/model.keras").get_weights()
    for resumed in (tmp_path / "broken", tmp_path / "without_step"):
        assert (resumed / "metrics.json").read_text() == (tmp_path / "whole/metrics.json").read_text()
        weights = keras.models.load_model(resumed / "model.keras").get_weights()
        assert all(np.array_equal(*pair) for pair in zip(whole, weights, strict=True))


def killed(arguments):
    from keras_bert.tasks.run import finetune  # noqa: F401  keeps the function that it has now, by which it ends

    def write(folder, metrics, write=best_epoch.write_metrics):
        if len(metrics["epochs"]) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        write(folder, metrics)

    best_epoch.write_metrics = write
    train(*arguments)


@pytest.mark.long
def test_killed_at_the_worst_moment(bert, files, finished, tmp_path):
    """All files of the second epoch are written but the one that counts it; the lock is nobody's."""
    arguments = [bert, "classify", *files, tmp_path / "run", "--epochs", "2"]
    process = FORKS.Process(target=killed, args=(arguments,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    states = {path.name for path in (tmp_path / "run.partial").glob("epoch-*.npz")}
    assert states >= {"epoch-1.npz", "epoch-1-best.npz", "epoch-2.npz"}
    train(*arguments)
    assert (tmp_path / "run/metrics.json").read_text() == (finished[0] / "metrics.json").read_text()


def test_another_process(bert, files, tmp_path):
    from filelock import FileLock

    (tmp_path / "run.partial").mkdir()
    with (
        FileLock(tmp_path / "run.partial/lock"),
        pytest.raises(RuntimeError, match=r"run\.partial is in use"),
    ):
        train(bert, "classify", *files, tmp_path / "run")


def test_a_run_killed_in_its_first_epoch_begins_anew(bert, files, tmp_path):
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial/settings.json").write_text('{"learning_rate": 1}')
    (tmp_path / "run.partial/lock").touch()
    train(bert, "classify", *files, tmp_path / "run", "--epochs", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_others_stays(bert, files, tmp_path):
    """A run that fails deletes its folder."""
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"run\.partial is not the folder of an interrupted run.*notes\.txt"):
        train(bert, "classify", *files, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run.partial").iterdir()] == ["notes.txt"]


def test_nothing_is_written_over(finished, bert, files):
    output, _ = finished
    before = (output / "model.keras").stat().st_mtime_ns
    with pytest.raises(FileExistsError, match="new or empty folder"):
        train(bert, "classify", *files, output)
    assert (output / "model.keras").stat().st_mtime_ns == before


def test_bad_input_leaves_nothing_behind(bert, files, tmp_path):
    rows = [["text", "label"], ["good", "yes"], ["bad", "maybe"]]
    unknown = write(tmp_path / "valid.tsv", rows)
    one = write(tmp_path / "one.tsv", rows[:2])
    for bad, message in (
        ((files[0], unknown), r"valid.tsv:3 has the label 'maybe'.*'no', 'yes'. Received: 'maybe'"),
        ((one, one), r"Every row of .*one.tsv has the same label.*Received: 'yes'"),
        ((files[0], write(tmp_path / "empty.tsv", [])), "empty.tsv is empty"),
    ):
        with pytest.raises(ValueError, match=message):
            train(bert, "classify", *bad, tmp_path / "run")
    command = ["finetune", "classify", "--train", files[0], "--valid", files[1], "--output", tmp_path / "run"]
    for dtype in ("bfloat16", "float15"):
        assert run(*command, "--dtype", dtype).exit_code == 2
    with pytest.raises(ValueError, match="Use one of conll, conllu, klue-ner"):
        train(bert, "tag", *files, tmp_path / "run", "--format", "tsv")
    with pytest.raises(ValueError, match="`separator` is empty"):
        train(bert, "classify", *files, tmp_path / "run", "--separator", "")
    with pytest.raises(ValueError, match="`freeze` and `lora` were both given"):
        train(bert, "classify", *files, tmp_path / "run", "--freeze", "--lora", 2)
    with pytest.raises(ValueError, match="no-such-model"):
        train("no-such-model/folder", "classify", *files, tmp_path / "run")
    with pytest.raises(ValueError, match="no-such-model"):
        train("no-such-model/folder", "classify", *files, tmp_path / "run", "--grid")
    with pytest.raises(ValueError, match=r"A column is named twice.*'text', 'text'"):
        train(bert, "classify", *files, tmp_path / "run", "--label", "text")
    with pytest.raises(ValueError, match=r"not exceed the model's 64 positions.*seq_length=65"):
        train(bert, "classify", *files, tmp_path / "run", "--seq-length", 65)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.tsv", "one.tsv", "valid.tsv"]


def test_a_loss_that_is_no_number(tmp_path):
    watch = BestEpoch(tmp_path, Rows([], [], "valid.tsv", []))
    with pytest.raises(FloatingPointError, match=r"loss of epoch 2 .*Lower the learning rate"):
        watch.on_epoch_end(1, {"loss": float("nan")})
    assert not begun(tmp_path)
