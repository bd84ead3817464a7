"""`keras-bert finetune` and `predict`: files in, a finished directory out, whatever happens on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert.cli import app, evaluate, finetune, predict  # noqa: F401  registers the commands
from keras_bert.tasks.epochs import Epochs, begun
from keras_bert.tasks.finetune import Settings, load_encoder
from keras_bert.tasks.finished import Finished
from keras_bert.tasks.kinds import KINDS
from keras_bert.tasks.readers import Reading, read

WORDS = ("good", "bad", "film", "actor", "anna", "paul", "seoul", "paris", "who", "where", "is", "in", "the", "ran")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    keras.utils.set_random_seed(1)
    vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    config = keras_bert.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=1,  # tracing is what takes the time
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=0.3,  # so that a few steps teach something
    )
    path = tmp_path_factory.mktemp("bert") / "bert.keras"
    keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary)).save(path)
    return path


def run(*arguments, input=None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=input, catch_exceptions=False)


def train(bert, kind, train, valid, output, *options):
    result = run(
        "finetune", kind, "--train", train, "--valid", valid, "--output", output, "--model", bert,
        "--seq-length", 32, "--batch-size", 16, "--lr", 0.03, *options,
    )  # fmt: skip
    assert result.exit_code == 0
    return result.output


def write(path, rows):
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def reviews(count, seed):
    """The label is whether the film is good."""
    dice = random.Random(seed)
    for _ in range(count):
        good = dice.random() < 0.5
        yield [f"the {dice.choice(WORDS[3:6])} is {'good' if good else 'bad'}", ("no", "yes")[good]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    head = [["text", "label"]]
    return write(folder / "train.tsv", [*head, *reviews(160, 0)]), write(folder / "valid.tsv", [*head, *reviews(32, 1)])


@pytest.fixture(scope="module")
def finished(bert, files, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "reviews"
    said = train(bert, "classify", *files, output, "--epochs", 2)
    return output, said


# === The finished directory ===


def test_finished_directory(finished):
    output, said = finished
    names = {path.name for path in output.iterdir()}
    assert names == {"model.keras", "labels.json", "settings.json", "metrics.json", "curve.png", "README.md"}
    assert not output.with_name("reviews.partial").exists()
    assert json.loads((output / "labels.json").read_text()) == ["no", "yes"]
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["valid"]["accuracy"] > 0.9
    assert metrics["rows"] == {"train": 160, "valid": 32}
    scores = [epoch["scores"]["accuracy"] for epoch in metrics["epochs"]]
    assert metrics["best_epoch"] == 1 + scores.index(max(scores))
    assert f"accuracy\t{metrics['valid']['accuracy']:.4f}" in said
    assert (output / "curve.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    card = (output / "README.md").read_text()
    assert "# TextClassifier on train.tsv" in card
    assert f"| matthews | {metrics['valid']['matthews']:.4f} |" in card
    assert "| train | `train.tsv` | 160 |" in card
    assert "| learning_rate | 0.03 |" in card


def test_the_model_is_the_one_that_was_scored(finished, files):
    output, _ = finished
    metrics = json.loads((output / "metrics.json").read_text())
    assert Finished.load(output).evaluate(files[1]) == pytest.approx(metrics["valid"])
    assert not keras.models.load_model(output / "model.keras").compiled  # it holds no moments


def test_evaluate(finished, files):
    output, _ = finished
    metrics = json.loads((output / "metrics.json").read_text())
    result = run("evaluate", output, "--data", files[1], "--json")
    assert json.loads(result.stdout) == pytest.approx(metrics["valid"])
    other = write(files[1].with_name("other.tsv"), [["x", "y"], ["the film is good", "maybe"]])
    with pytest.raises(ValueError, match=r"'no', 'yes'.*Received: 'maybe' at .*other.tsv:2"):
        run("evaluate", output, "--data", other, "--text", "x", "--label", "y")


def test_evaluate_on_a_file_that_is_not_there(finished, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data must be there.*nothing.tsv"):
        run("evaluate", finished[0], "--data", tmp_path / "nothing.tsv")


def test_fit_takes_files(finished, files):
    task = Finished.load(finished[0]).task
    history = task.fit(files[1], epochs=1, validation_data=str(files[1]), verbose=0)
    assert history.history["val_accuracy"][0] > 0.5
    assert task.predict(files[1]).shape == (32, 2)


def test_predict_lines(finished):
    output, _ = finished
    result = run("predict", output, input="the actor is good\n\nthe film is bad\n")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == 3  # an empty line has an answer too
    assert [answers[0]["label"], answers[2]["label"]] == ["yes", "no"]
    assert sum(answers[0]["scores"].values()) == pytest.approx(1)
    assert answers[0]["score"] == answers[0]["scores"]["yes"]


def test_predict_file(finished, files):
    output, _ = finished
    answers = [json.loads(line)["label"] for line in run("predict", output, files[1]).stdout.splitlines()]
    assert answers == [answer["label"] for answer in Finished.load(output).predict(files[1])]
    assert np.mean(np.array(answers) == [label for _, label in reviews(32, 1)]) > 0.9


def test_nothing_is_written_over(finished, bert, files):
    output, _ = finished
    before = (output / "model.keras").stat().st_mtime_ns
    with pytest.raises(FileExistsError, match="new or empty folder"):
        train(bert, "classify", *files, output)
    assert (output / "model.keras").stat().st_mtime_ns == before


# === Every kind ===


def test_regress_pairs(bert, tmp_path):
    dice = random.Random(0)
    rows = [["the film", dice.choice(["the film", "bad actor"])] for _ in range(480)]
    rows = write(tmp_path / "a.tsv", [[*row, 4.5 if row[0] == row[1] else 0.5] for row in rows])
    said = train(bert, "regress", rows, rows, tmp_path / "run", *["--text", "0", "--text", "1", "--label", "2"])
    assert "spearman" in said
    answers = run("predict", tmp_path / "run", input="the film\tthe film\nthe film\tbad actor\n").stdout.splitlines()
    assert json.loads(answers[0])["score"] > json.loads(answers[1])["score"]
    assert 'task.score(("a text", "another"))' in (tmp_path / "run/README.md").read_text()


def test_several_labels(bert, tmp_path):
    rows = [["good film", "good,film"], ["bad film", "film"], ["good actor", "good"], ["bad actor", ""]] * 80
    path = write(tmp_path / "a.jsonl", [])
    path.write_text("".join(json.dumps({"text": text, "label": label or ","}) + "\n" for text, label in rows))
    train(bert, "classify", path, path, tmp_path / "run", "--separator", ",")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["chosen_by"] == "f1_micro"
    assert metrics["valid"]["f1_micro"] > 0.9


def test_tag_words(bert, tmp_path):
    sentences = ["anna/B-PER ran/O in/O seoul/B-LOC", "the/O film/O is/O in/O paris/B-LOC", "paul/B-PER ran/O"] * 240
    path = tmp_path / "a.conll"
    path.write_text("\n\n".join(text.replace("/", "\t").replace(" ", "\n") for text in sentences))
    train(bert, "tag", path, path, tmp_path / "run")
    labels = json.loads((tmp_path / "run/labels.json").read_text())
    assert labels == ["O", "B-LOC", "B-PER"]
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["chosen_by"] == "entity_f1"
    assert metrics["valid"]["entity_f1"] > 0.9
    answer = json.loads(run("predict", tmp_path / "run", input="Anna ran in Paris\n").stdout)
    assert [(found["type"], found["text"]) for found in answer["entities"]] == [("PER", "Anna"), ("LOC", "Paris")]


def test_tag_characters(bert, tmp_path):
    """KLUE's entities may end within a word, so every piece has a label of its own."""
    path = tmp_path / "a.tsv"
    path.write_text("박\tB-PS\n씨\tO\n\n서\tB-LC\n울\tI-LC\n")
    rows = read("tag", path, Reading(format="klue-ner"))
    task = KINDS["tag"].build(keras.models.load_model(bert), rows, Reading())
    assert task.labels == ("O", "B-LC", "B-PS", "I-LC", "I-PS")
    assert task.unit == "piece"


def squad(path, entries):
    entries = [
        {
            "id": f"q{number}",
            "question": question,
            "answers": [{"text": text, "answer_start": context.find(text)}] if text else [],
        }
        | {"context": context}
        for number, (question, context, text) in enumerate(entries)
    ]
    path.write_text(
        json.dumps({"data": [{"paragraphs": [{"context": e.pop("context"), "qas": [e]} for e in entries]}]})
    )
    return path


def test_answer(bert, tmp_path):
    dice = random.Random(0)
    entries = []
    for _ in range(60):
        who, where = dice.choice(["anna", "paul"]), dice.choice(["seoul", "paris"])
        entries.append((*dice.choice([("who ran", who), ("where is the film", "")]), where))
    entries = [(question, f"{text or 'anna'} ran in {where}", text) for question, text, where in entries]
    path = squad(tmp_path / "a.json", entries)
    train(bert, "answer", path, path, tmp_path / "run", "--epochs", 6)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["valid"]["f1"] > 0.9
    answers = [json.loads(line) for line in run("predict", tmp_path / "run", path).stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [f"q{number}" for number in range(60)]
    right = [answer["text"] == text for answer, (_, _, text) in zip(answers, entries, strict=True)]
    assert np.mean(right) == pytest.approx(metrics["valid"]["exact_match"])


def test_choose(bert, tmp_path):
    dice = random.Random(0)
    rows = [["prompt", "one", "two", "label"]]
    for _ in range(64):
        right = dice.randrange(2)
        rows.append(["the film", *(("good", "bad") if right == 0 else ("bad", "good")), right])
    path = write(tmp_path / "a.tsv", rows)
    options = ["--text", "prompt", "--choice", "one", "--choice", "two", "--epochs", "4"]
    train(bert, "choose", path, path, tmp_path / "run", *options)
    answers = run("predict", tmp_path / "run", input="the film\tbad\tgood\n").stdout
    assert json.loads(answers)["text"] == "good"
    with pytest.raises(ValueError, match=r"must hold 3 texts, apart by tabs.*Received: 2 in line 1"):
        run("predict", tmp_path / "run", input="the film\tbad\n")


def test_lora_in_mixed_precision(bert, files, tmp_path):
    train(bert, "classify", *files, tmp_path / "run", "--epochs", 1, "--lora", 2, "--dtype", "mixed_bfloat16")
    task = Finished.load(tmp_path / "run").task
    before, after = (model.get_layer("layer_0_output").kernel for model in (keras.models.load_model(bert), task.bert))
    assert np.array_equal(before, after)
    assert task.bert.get_layer("layer_0_attention_qkv").lora_enabled
    assert task.bert.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.parametrize(("freeze", "trained"), [(-1, set()), (1, {"pooler/"}), (0, {"layer_0", "pooler/"})])
def test_freeze(bert, freeze, trained):
    encoder = load_encoder(Settings("classify", "", "", model=str(bert), freeze=freeze))
    assert {weight.path[: len("layer_0")] for weight in encoder.trainable_weights} == trained


# === A run that is killed ===


def test_goes_on_from_the_last_epoch(bert, files, finished, tmp_path, monkeypatch):
    """With the weights, the moments, the schedule, the order and the dropout of a run that was not interrupted."""
    whole, broken = finished[0], tmp_path / "broken"
    seen = []

    def pull_the_plug_once(self, epoch, logs=None):
        seen.append(epoch)
        if seen == [0, 1]:
            raise OSError("no power")

    monkeypatch.setattr(Epochs, "on_epoch_begin", pull_the_plug_once)
    with pytest.raises(OSError, match="no power"):
        train(bert, "classify", *files, broken, "--epochs", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["broken.partial"]
    with pytest.raises(ValueError, match=r"only with its own settings.*Received: another batch_size"):
        train(bert, "classify", *files, broken, "--epochs", 2, "--batch-size", 8)
    train(bert, "classify", *files, broken, "--epochs", 2)
    assert seen == [0, 1, 1]
    assert (broken / "metrics.json").read_text() == (whole / "metrics.json").read_text()
    weights = [keras.models.load_model(folder / "model.keras").get_weights() for folder in (whole, broken)]
    assert all(np.array_equal(*pair) for pair in zip(*weights, strict=True))
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


@pytest.mark.slow
def test_killed_at_any_moment(bert, files, tmp_path):
    command = [
        sys.executable, "-m", "keras_bert.cli", "finetune", "classify", "--train", files[0], "--valid", files[1],
        "--model", bert, "--output", tmp_path / "run", "--epochs", "12", "--batch-size", "16", "--seq-length", "32",
    ]  # fmt: skip
    partial = tmp_path / "run.partial"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not begun(partial):
        time.sleep(0.05)
    assert process.poll() is None, "it ended before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Going on after epoch" in done.stderr
    assert len(json.loads((tmp_path / "run/metrics.json").read_text())["epochs"]) == 12


def test_another_process(bert, files, tmp_path):
    from filelock import FileLock

    (tmp_path / "run.partial").mkdir()
    with FileLock(tmp_path / "run.partial/lock"), pytest.raises(RuntimeError, match="Another process trains"):
        train(bert, "classify", *files, tmp_path / "run")


# === Bad input ===


def test_bad_input_leaves_nothing_behind(bert, files, tmp_path):
    rows = [["text", "label"], ["good", "yes"], ["bad", "maybe"]]
    unknown = write(tmp_path / "valid.tsv", rows)
    one = write(tmp_path / "one.tsv", rows[:2])
    for bad, message in (
        ((files[0], unknown), r"in the training file: 'no', 'yes'.*Received: 'maybe' at .*valid.tsv:3"),
        ((one, one), r"at least two labels.*'yes' throughout .*one.tsv"),
        ((files[0], write(tmp_path / "empty.tsv", [])), "empty.tsv, which is empty"),
    ):
        with pytest.raises(ValueError, match=message):
            train(bert, "classify", *bad, tmp_path / "run")
    with pytest.raises(ValueError, match="bfloat16"):
        train(bert, "classify", *files, tmp_path / "run", "--dtype", "bfloat16")
    with pytest.raises(ValueError, match="must be of the format conll, conllu, klue-ner"):
        train(bert, "tag", *files, tmp_path / "run", "--format", "tsv")
    with pytest.raises(ValueError, match="freeze or lora"):
        train(bert, "classify", *files, tmp_path / "run", "--freeze", "--lora", 2)
    with pytest.raises(ValueError, match="no-such-model"):
        train("no-such-model/folder", "classify", *files, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.tsv", "one.tsv", "valid.tsv"]


def test_a_loss_that_is_no_number(tmp_path):
    epochs = Epochs(tmp_path, lambda task: {}, "accuracy")
    with pytest.raises(FloatingPointError, match=r"Lower the learning rate.*in epoch 2"):
        epochs.on_epoch_end(1, {"loss": float("nan")})
    assert not begun(tmp_path)


def test_no_finished_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="finished folder"):
        run("predict", tmp_path, input="x\n")


# === The grid ===


@pytest.mark.slow
def test_grid(bert, files, tmp_path, monkeypatch):
    from keras_bert.tasks import grid

    for name, values in (("batch_size", (16,)), ("learning_rate", (1e-5, 3e-2)), ("epochs", (1,))):
        monkeypatch.setitem(grid.GRID, name, values)
    train(bert, "classify", *files, tmp_path / "run", "--grid")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert [(done["batch_size"], done["learning_rate"]) for done in metrics["grid"]] == [(16, 1e-5), (16, 3e-2)]
    assert metrics["valid"]["accuracy"] == max(done["score"] for done in metrics["grid"])
    assert Finished.load(tmp_path / "run").evaluate(files[1]) == pytest.approx(metrics["valid"])
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert "## The grid" in (tmp_path / "run/README.md").read_text()


def test_the_grid_is_the_paper_s():
    from keras_bert.tasks.grid import GRID

    assert GRID == {"batch_size": (16, 32), "learning_rate": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
