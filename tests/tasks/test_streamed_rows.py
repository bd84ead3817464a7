"""Training on a stream: the batches, the weights and the runs are those of rows in memory, also after a kill."""

import json
import os
import re
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.rows import labelled_rows, streamed_rows
from keras_bert.tasks.rows.streamed_rows import StreamedRows
from keras_bert.tasks.run import saved_step, training_rows
from keras_bert.tasks.run.saved_step import SavedStep
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.training.metrics_log import read_metrics
from tests.subprocesses import FORKS
from tests.tasks.runs import reviews, run, train
from tests.tasks.small import QUERIES, TEXTS, WORDS, small_task

LABELS = ("positive", "negative", "negative", "positive", "negative")


@pytest.fixture
def path(tmp_path):
    """23 rows, of which no two are alike."""
    texts = (" ".join([WORDS[row % 10], WORDS[row // 10], *["good"] * (row % 5)]) for row in range(23))
    rows = [{"text": text, "label": LABELS[row % len(LABELS)]} for row, text in enumerate(texts)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_arrays(batch):
    return [np.asarray(one).tolist() for one in keras.tree.flatten(batch)]


def pieces_of(found):
    """The ids of each row of batches, without padding."""
    return [tuple(filter(None, row)) for batch in found for row in batch[2]]


def test_the_batches_are_those_of_rows_in_memory(path, monkeypatch):
    """In the same order, of which a part can be left out, however many rows are read together."""
    task = small_task("classifier")
    rows = task.read_rows(path, Reading())
    examples = task.examples(rows.x, rows.y, None, {"positive": 2.0})
    streamed = StreamedRows(task, task.stream_rows(path), {"positive": 2.0})
    number, start = tf.Variable(0), tf.Variable(0)
    both = [one.shuffled(4, seed=7, epoch=number, start=start) for one in (examples, streamed)]
    assert both[0].element_spec == both[1].element_spec
    orders = []
    for epoch, first in ((0, 0), (1, 0), (1, 4)):
        number.assign(epoch)
        start.assign(first)
        orders.append([as_arrays(batch) for batch in both[0]])
        for ahead in (1, 8, 1024):
            monkeypatch.setattr(streamed_rows, "AHEAD", ahead)
            found = [as_arrays(batch) for batch in both[1]]
            assert (len(found), found[: 6 - first]) == (6, orders[-1][: 6 - first])
    assert orders[0] != orders[1]
    assert orders[2][:2] == orders[1][4:]
    assert len(pieces_of(orders[1])) == len(set(pieces_of(orders[1]))) == 23
    in_order = [as_arrays(batch) for batch in streamed.batches(4)]
    assert [len(batch[-1]) for batch in in_order] == [4, 4, 4, 4, 4, 3]
    assert in_order == list(map(as_arrays, examples.batches(4)))


def test_without_tensorflow_text(path, monkeypatch):
    for module in (streamed_rows, labelled_rows):
        monkeypatch.setattr(module, "uses_tensorflow", lambda: False)
    task = small_task("classifier")
    rows = task.read_rows(path, Reading())
    both = task.examples(rows.x, rows.y), StreamedRows(task, task.stream_rows(path))
    first, second = (one.shuffled(4, seed=7, epoch=2, start=1) for one in both)
    wanted, found = ([as_arrays(dataset[number]) for number in range(6)] for dataset in (first, second))
    assert pieces_of(found) == pieces_of(wanted)
    assert [batch[-2:] for batch in found] == [batch[-2:] for batch in wanted]


@pytest.mark.parametrize(
    "kind", ["classifier", *(pytest.param(name, marks=pytest.mark.long) for name in ("several", "windows"))]
)
def test_the_weights_are_those_of_rows_in_memory(tmp_path, kind, eager):
    """With balanced labels, which need all rows."""
    labels = {"several": [["film"], ["good", "bad"], []]}.get(kind, ["negative", "positive", "positive"])
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": TEXTS[row % 4], "label": labels[row % 3]}) + "\n" for row in range(10)))
    weights = []
    for read in ("read_rows", "stream_rows"):
        keras.utils.set_random_seed(3)
        task = small_task(kind)
        rows = getattr(task, read)(path, Reading())
        recipe = FinetuneRecipe(1e-2, epochs=2, batch_size=4, class_weight="balanced")
        history = task.fit(rows, recipe=recipe, validation_data=(TEXTS[:3], labels), verbose=0)
        weights.append([*task.get_weights(), np.array(list(history.history.values()))])
    assert all(np.array_equal(*pair) for pair in zip(*weights, strict=True))


LINES = [*TEXTS, *QUERIES]
SENTENCES = {  # rows, and options of `Reading`
    "pairs": ({"one": LINES, "two": LINES[::-1]}, {"text": ("one", "two")}),
    "negatives": (
        {"one": LINES, "two": LINES[::-1], "three": LINES[1:] + LINES[:1]},
        {"text": ("one", "two", "three"), "skip_bad": True},
    ),
    "scores": (
        {"one": LINES, "two": LINES[::-1], "score": [1, 5, 3, 2, 5, 1, 4, 2]},
        {"text": ("one", "two"), "label": "score", "scale": 5},
    ),
    "labels": ({"text": LINES, "label": [1, 0, 1, 2, 0, 2, 1, 0]}, {}),
    "texts": ({"text": LINES}, {}),
}


@pytest.mark.parametrize("form", SENTENCES)
def test_a_sentence_embedder_learns_the_same_from_a_stream(tmp_path, form, eager, monkeypatch):
    """Texts of all rows are compared with one another, but only within a batch, so a stream needs no other rows."""
    monkeypatch.setattr(streamed_rows, "AHEAD", 4)
    columns, reading = SENTENCES[form]
    path = tmp_path / "a.jsonl"
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    weights = []
    for read in ("read_training_rows", "stream_rows"):
        keras.utils.set_random_seed(3)
        task = small_task("embedder")
        rows = getattr(task, read)(path, Reading(**reading))
        history = task.fit(rows, recipe=FinetuneRecipe(1e-2, epochs=2, batch_size=4), verbose=0)
        assert task.form == {"negatives": "pairs", "texts": "pairs"}.get(form, form)
        weights.append([*task.get_weights(), np.array(history.history["loss"])])
    assert all(np.array_equal(*pair) for pair in zip(*weights, strict=True))
    assert weights[0][-1][0] > 0


def test_what_a_sentence_embedder_cannot_learn_from_a_stream(tmp_path):
    task = small_task("embedder")

    def fit(*rows, loss=None, **reading):
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        task.fit(task.stream_rows(path, Reading(**reading)), loss=loss)

    with pytest.raises(ValueError, match=r"has the same label for each text.* 1 label for 3 texts"):
        fit(*[{"text": "good", "label": "a"}] * 3)
    with pytest.raises(ValueError, match=r"has a different label for each text.* 2 labels for 2 texts"):
        fit(*({"text": "good", "label": label} for label in "ab"))
    pair = {"one": "good", "two": "film"}
    with pytest.raises(ValueError, match=r"All rows have the same positive.* only 'film'"):
        fit(*[pair] * 3, text=("one", "two"))
    scored = [pair | {"label": label} for label in (1, 1, 5, 1)]
    with pytest.raises(ValueError, match=r"The score at row 2 is not between -1 and 1.* Received: 5"):
        fit(*scored, text=("one", "two"))
    with pytest.raises(ValueError, match=r"All scores are the same, but CoSENT .* Received: 1.0 in 2 rows"):
        fit(*scored[:2], text=("one", "two"), loss="cosent")


def test_steps(path, eager):
    """Training ends within an epoch, and the schedule at 0."""
    task = small_task("classifier")
    rows = task.stream_rows(path)
    history = task.fit(rows, recipe=FinetuneRecipe(batch_size=4), max_steps=8, verbose=0)
    assert len(history.epoch) == 2
    assert int(task.optimizer.iterations) == 8
    assert float(task.optimizer.learning_rate) == 0
    for step in (-1, 6):
        with pytest.raises(
            ValueError, match=f"from 0 to 5, the last batch of an epoch.* Received: initial_step={step}"
        ):
            task.fit(rows, batch_size=4, initial_step=step)
    with pytest.raises(ValueError, match="`max_steps` must be at least 1"):
        task.fit(rows, max_steps=0)
    with pytest.raises(ValueError, match="validation_split was passed with a stream"):
        task.fit(rows, validation_split=0.5)


def test_what_cannot_begin_within_an_epoch(path, monkeypatch):
    task = small_task("classifier")
    with pytest.raises(ValueError, match="initial_step needs shuffle=True"):
        task.fit(task.stream_rows(path), initial_step=1, shuffle=False)
    with pytest.raises(ValueError, match=r"has the ids that a preprocessor makes of them.* max_steps=2, x=dict"):
        task.fit(task.bert.preprocessor(TEXTS[:3]), ["negative", "positive", "negative"], max_steps=2)
    monkeypatch.setattr(type(task), "is_distributed", True)
    with pytest.raises(ValueError, match=r"only on one device.* initial_step=0, max_steps=None, x=RowStream"):
        task.fit(task.stream_rows(path))


def test_rows_that_are_cut_are_told_once(path, eager, monkeypatch, caplog):
    monkeypatch.setattr(streamed_rows, "AHEAD", 8)
    with open(path, "a") as file:
        file.writelines(json.dumps({"text": "good " * 40, "label": "positive"}) + "\n" for _ in range(3))
    task = small_task("classifier")
    task.fit(task.stream_rows(path), batch_size=4, epochs=2, shuffle=False, verbose=0)
    assert caplog.text.count("is cut to 16 pieces") == 1
    assert "1 of 8 training rows that are read together is cut to 16 pieces" in caplog.text


# === Runs ===


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("train", 100, 0), ("valid", 32, 1)):
        rows = ({"text": text, "label": label} for text, label in reviews(count, seed))
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "train.jsonl", folder / "valid.jsonl"


OPTIONS = ("--steps", 12, "--save-every", 3, "--ema", 0.9, "--accumulate", 2)  # 7 steps in an epoch


@pytest.fixture(scope="module")
def in_memory(bert, data, tmp_path_factory):
    output = tmp_path_factory.mktemp("run") / "run"
    train(bert, "classify", *data, output, *OPTIONS)
    return output


def same(one, other):
    weights = [keras.models.load_model(folder / "model.keras").get_weights() for folder in (one, other)]
    assert all(np.array_equal(*pair) for pair in zip(*weights, strict=True))
    assert (one / "metrics.json").read_text() == (other / "metrics.json").read_text()
    records = [[one | {"seconds_per_step": 0} for one in read_metrics(f"{run}/metrics.jsonl")] for run in (one, other)]
    assert records[0] == records[1]


@pytest.mark.long
def test_a_run(bert, data, in_memory, tmp_path, caplog):
    caplog.set_level("INFO", "keras_bert")
    train(bert, "classify", *data, tmp_path / "run", *OPTIONS, "--stream")
    assert "has 100 rows, found in" in caplog.text
    same(tmp_path / "run", in_memory)
    card = (tmp_path / "run/README.md").read_text()
    assert "| steps | 12 |" in card
    assert "| training file read as a stream | yes |" in card
    assert "epochs" not in card.partition("## How it was trained")[2]
    records = read_metrics(f"{tmp_path}/run/metrics.jsonl")
    assert [one["step"] for one in records] == [3, 6, 7, 7, 10, 12, 12]  # with each saved state, and after each epoch
    assert {*records[0]} == {"step", "loss", "accuracy", "learning_rate"}


@pytest.mark.long
def test_a_run_resumes_within_an_epoch(bert, data, in_memory, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "keras_bert")
    seen = []

    def batch_end(self, batch, logs=None, real=SavedStep.on_train_batch_end):
        real(self, batch, logs)
        seen.append(batch)
        if len(seen) == 11:  # in the second epoch
            raise OSError("no power")

    monkeypatch.setattr(SavedStep, "on_train_batch_end", batch_end)
    with pytest.raises(OSError, match="no power"):
        train(bert, "classify", *data, tmp_path / "run", *OPTIONS, "--stream")
    train(bert, "classify", *data, tmp_path / "run", *OPTIONS, "--stream")
    assert re.search(r"Resuming after epoch 1 of 2 and 3 steps", caplog.text)
    assert len(seen) == 11 + 2
    same(tmp_path / "run", in_memory)


def killed(arguments):
    def savez(*arrays, real=saved_step.np.savez, **more):
        real(*arrays, **more)
        if more.get("place") == [0, 6]:
            os.kill(os.getpid(), signal.SIGKILL)

    saved_step.np.savez = savez
    train(*arguments)


@pytest.mark.long
def test_killed_while_the_state_is_written(bert, data, in_memory, tmp_path):
    """The state before it is complete, and what was left of the file is removed."""
    arguments = [bert, "classify", *data, tmp_path / "run", *OPTIONS, "--stream"]
    process = FORKS.Process(target=killed, args=(arguments,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with np.load(tmp_path / "run.partial/step.npz") as stored:
        assert stored["place"].tolist() == [0, 3]
    train(*arguments)
    same(tmp_path / "run", in_memory)


@pytest.mark.long
@pytest.mark.parametrize("form", ["pairs", "lines"])
def test_a_run_of_sentences(bert, tmp_path, form, caplog):
    """Also one that is killed within an epoch, and resumed."""
    caplog.set_level("INFO", "keras_bert")
    texts = [text for text, _ in reviews(60, 0)]
    scored, path = tmp_path / "scored.tsv", tmp_path / ("train.txt" if form == "lines" else "train.tsv")
    scores = (f"{text}\t{texts[i // 2]}\t{i % 5}" for i, text in enumerate(texts))
    scored.write_text("\n".join(["one\ttwo\tlabel", *scores]) + "\n")
    lines = texts if form == "lines" else ["one\ttwo", *(f"{text}\t{texts[-i]}" for i, text in enumerate(texts))]
    path.write_text("\n".join(lines) + "\n")
    options = ["--text", "one", "--text", "two", "--scale", 5, "--batch-size", 8, "--steps", 10, "--save-every", 3]
    options += ["--lines"] if form == "lines" else []
    train(bert, "embed", path, scored, tmp_path / "memory", *options, "--no-stream")
    train(bert, "embed", path, scored, tmp_path / "stream", *options, "--stream")
    same(tmp_path / "stream", tmp_path / "memory")
    arguments = [bert, "embed", path, scored, tmp_path / "killed", *options, "--stream"]
    process = FORKS.Process(target=killed, args=(arguments,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    train(*arguments)
    same(tmp_path / "killed", tmp_path / "memory")


def test_large_files_are_streamed(data, monkeypatch, caplog):
    caplog.set_level("INFO", "keras_bert")
    settings = FinetuneSettings("classify", str(data[0]), str(data[1]))
    assert type(training_rows.training_rows(settings)).__name__ == "Rows"
    monkeypatch.setattr(training_rows, "LARGE", 100)
    assert type(training_rows.training_rows(settings)).__name__ == "RowStream"
    assert re.search(r"train.jsonl has more than 0 GB. It is read as a stream; with --no-stream", caplog.text)


def test_options_that_do_not_go_together(bert, data, tmp_path):
    arguments = ["--train", data[0], "--valid", data[1], "--output", tmp_path / "run", "--model", bert]
    assert run("finetune", "classify", *arguments, "--steps", 2, "--epochs", 2).exit_code == 2
    assert run("finetune", "tag", *arguments, "--stream").exit_code == 2
    with pytest.raises(ValueError, match=r"`stream`, `steps` and `save_every` .* are for training on one device"):
        run("finetune", "classify", *arguments, "--stream", "--strategy", "mirrored")
    with pytest.raises(ValueError, match=r"`stream` was given, but the task 'tag' does not have it"):
        FinetuneSettings("tag", "a.conll", "b.conll", stream=True)
