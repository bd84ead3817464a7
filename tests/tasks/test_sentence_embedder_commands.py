"""The rows of a SentenceEmbedder and its command, finetune embed."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from keras_bert import SentenceEmbedder
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.fitting import gradient_cache
from keras_bert.tasks.readers import Reading, Rows
from keras_bert.tasks.readers.only_texts import check_held_out
from keras_bert.tasks.rows.sentence_forms import check_sentences
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.searched import grid_of
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.tasks.runs import check_student, record, run, stopped_in_the_second_epoch, train, write
from tests.tasks.small import POSITIVES, QUERIES, small_bert

RECIPE = FinetuneRecipe(learning_rate=0.02, epochs=3, batch_size=4)


@pytest.mark.usefixtures("eager")
def test_the_best_epoch_is_chosen_by_a_score_of_the_held_out_rows(tmp_path):
    """Which may be of another form than the rows that were trained on."""
    best = BestEpoch(tmp_path, Rows((QUERIES, POSITIVES), [1.0, 0.0, 0.5, 0.2], "valid.tsv", []))
    SentenceEmbedder(small_bert()).fit((QUERIES, POSITIVES), recipe=RECIPE, callbacks=[best.averages, best], verbose=0)
    assert (best.record["chosen_by"], best.done) == ("spearman", 3)


def test_rows_of_files(tmp_path, caplog):
    """A bad row is dropped before the names of the columns are known to be right; triples have no label."""
    caplog.set_level("INFO", "keras_bert")
    path = write(tmp_path / "a.tsv", [["a", "b", "c"], ["good", "film", "bad"], ["bad"]])
    pairs = SentenceEmbedder.read_rows(path, Reading(text=("a", "b"), header=True, skip_bad=True))
    assert (pairs.x, len(pairs.y or ())) == ((["good"], ["film"]), 0)
    assert "has no column 'label', so the two texts of each pair count as a match." in caplog.text
    caplog.clear()
    triple = Reading(text=("a", "b", "c"), header=True, skip_bad=True)
    assert len(SentenceEmbedder.read_rows(path, triple).x) == 3
    assert "count as a match" not in caplog.text
    with pytest.raises(ValueError, match=r"`label` was given, but pairs with negatives have no label.* Received: "):
        SentenceEmbedder.read_rows(path, dataclasses.replace(triple, label="score"))


@pytest.mark.long
def test_finetune_embed(bert, tmp_path):
    """Pairs, pairs with scores, pairs with negatives, and texts with labels, by the columns that are named."""
    words = ["good", "bad", "anna", "paul", "seoul", "paris"]
    rows = [[word, f"the {word} film", f"{words[i - 1]} ran", word[0], i % 2] for i, word in enumerate(words)] * 8
    path = write(tmp_path / "a.tsv", [["query", "match", "other", "kind", "score"], *rows])
    pair = ["--text", "query", "--text", "match", "--batch-size", 8]
    train(bert, "embed", path, path, tmp_path / "pairs", *pair, "--epochs", 4)
    check_student(tmp_path / "pairs", "embed", path, *pair)
    metrics = json.loads((tmp_path / "pairs/metrics.json").read_text())
    assert metrics["chosen_by"] == "mrr"
    assert metrics["valid"]["recall@1"] > 0.9
    options = {
        "spearman": [*pair, "--label", "score"],
        "mrr": [*pair, "--text", "other"],
        "neighbour_accuracy": ["--text", "match", "--label", "kind"],
    }
    for number, (score, words) in enumerate(options.items()):
        assert score in train(bert, "embed", path, path, tmp_path / str(number), *words, "--epochs", 1)
    command = ["finetune", "embed", "--train", path, "--split", 0.25, "--output", tmp_path / "held", "--model", bert]
    assert "mrr" in run(*command, *pair, "--epochs", 1).output
    said = run("evaluate", tmp_path / "pairs", "--data", path, "--label", "score").output
    assert "spearman" in said
    answer = json.loads(run("predict", tmp_path / "pairs", input="the film\tis good\n").stdout)
    task = FinishedTask.load(tmp_path / "pairs").task
    assert np.abs(np.array(answer["vector"]) - task.embed("the film\tis good")[0]).max() <= 1e-6
    assert 'task.embed(["some text"])' in (tmp_path / "pairs/README.md").read_text()


# === Options of finetune embed ===


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_loss_pooling_and_cached_batches(bert, tmp_path, monkeypatch):
    """They reach the training, are kept with the run, and cannot change when it resumes."""
    losses, sizes = [], []

    def spied(model, *parts, size, cached_gradients=gradient_cache.cached_gradients, **options):
        losses.append(model.loss)
        sizes.append(size)
        return cached_gradients(model, *parts, size=size, **options)

    monkeypatch.setattr(gradient_cache, "cached_gradients", spied)
    rows = [[f"the film {word}", f"{word} ran"] for word in ("good", "bad", "anna", "paul", "seoul", "paris")]
    path = write(tmp_path / "a.tsv", [["a", "b"], *rows])
    words = ["--text", "a", "--text", "b", "--epochs", 2, "--symmetric", "--pooling", "cls", "--cache-batch", 4]
    words += ["--loss", "ranking", "--temperature"]
    with stopped_in_the_second_epoch(monkeypatch):
        train(bert, "embed", path, path, tmp_path / "run", *words, 0.2)
    with pytest.raises(ValueError, match=r"Received: a difference in temperature \(0.2 then, 0.3 now\)"):
        train(bert, "embed", path, path, tmp_path / "run", *words, 0.3)
    train(bert, "embed", path, path, tmp_path / "run", *words, 0.2)
    assert {(type(loss).__name__, loss.temperature, loss.symmetric) for loss in losses} == {
        ("MultipleNegativesRanking", 0.2, True)
    }
    assert set(sizes) == {4}
    assert len(record(tmp_path / "run")["epochs"]) == 2
    assert FinishedTask.load(tmp_path / "run").task.pooling == "cls"
    assert record(tmp_path / "run", "settings.json")["temperature"] == 0.2
    card = (tmp_path / "run/README.md").read_text()
    for row in (
        "| loss | `ranking` |", "| temperature of the loss | 0.2 |", "| symmetric loss | yes |", "| pooling | `cls` |",
        "| texts or windows computed at a time | 4 |",
    ):  # fmt: skip
        assert row in card


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"loss": "cosine"}, {"name": "CosineMSE"}),
        ({"loss": "cosent", "temperature": 0.1}, {"name": "CoSENT", "temperature": 0.1}),
        ({"loss": "triplet"}, {"name": "BatchHardTriplet", "margin": 0.2}),
        ({"loss": "ranking"}, {"name": "MultipleNegativesRanking", "temperature": 0.05, "symmetric": False}),
    ],
)
def test_the_loss_of_a_run(given, expected):
    loss = SentenceEmbedder.fit_options(FinetuneSettings("embed", "a.tsv", "b.tsv", **given))["loss"]
    assert expected is None or type(loss).__name__ == expected.pop("name")
    assert loss is None if expected is None else expected.items() <= loss.get_config().items()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss": "mse"}, r"`loss` must be one of ranking, cosine, cosent, triplet. Received: loss='mse'"),
        ({"pooling": "middle"}, r"`pooling` must be one of mean, cls, max"),
        ({"temperature": 0.1}, r"`temperature` is an option of the loss ranking or cosent. Give --loss ranking, or"),
        ({"temperature": 0.1, "loss": "cosine"}, r"leave out --temperature. Received: loss='cosine', temperature=0.1"),
        ({"symmetric": True, "loss": "cosent"}, r"`symmetric` is an option of the loss ranking. Give --loss ranking, "),
        ({"temperature": 0.0, "loss": "ranking"}, r"`temperature` must be above 0"),
        ({"batch_size": 1}, r"one row is too few. Use a larger `batch_size` \(--batch-size\).*Received: batch_size=1"),
        ({"cache_batch": 0}, r"`cache_batch` must be at least 1"),
        ({"cache_batch": 8, "teacher": "other"}, r"cached batches cannot learn from a teacher"),
        ({"class_weight": "balanced"}, r"`class_weight` was given, but the task 'embed' does not have it"),
        ({"label_smoothing": 0.1}, r"`label_smoothing` was given, but the task 'embed' does not have it"),
        ({"kind": "classify", "loss": "cosine"}, r"`loss` was given, but the task 'classify' does not have it"),
    ],
)
def test_settings_that_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        FinetuneSettings(**{"kind": "embed", "train": "a.tsv", "valid": "b.tsv"} | given)


def test_a_search_of_losses():
    grid = grid_of(["loss=cosine,cosent", "symmetric=true,false", "pooling=none,cls", "temperature=0.05,0.1"])
    assert grid["loss"] == ("cosine", "cosent")
    assert grid["symmetric"] == (True, False)
    assert grid["pooling"] == (None, "cls")
    with pytest.raises(ValueError, match="The value 1 of loss in --search is not a name"):
        grid_of(["loss=1"])


def test_losses_that_do_not_fit_the_rows_of_a_search(bert, scored, tmp_path):
    """They are found before the first run."""
    columns = ("--text", "a", "--text", "b", "--label", "score", "--search", "loss=cosine,ranking")
    with pytest.raises(ValueError, match=r"The loss ranking learns from pairs, but scores were passed"):
        train(bert, "embed", scored, scored, tmp_path / "run", *columns)
    assert not list(tmp_path.glob("run*"))


def test_rows_of_one_positive():
    """They are found before Keras is imported."""
    check_sentences(Rows((["a", "b"], ["c", "d"]), [], "pairs.tsv", [1, 2]), None)
    with pytest.raises(ValueError, match=r"All rows have the same positive.*only 'c'"):
        check_sentences(Rows((["a", "b"], ["c", "c"]), [], "pairs.tsv", [1, 2]), None)


def test_a_score_of_a_file_that_is_no_cosine(bert, tmp_path):
    file = write(tmp_path / "scores.tsv", [["a", "b", "score"], ["good", "bad", 0.5], ["anna", "paul", 5]])
    columns = ("--text", "a", "--text", "b", "--label", "score")
    for kind, options in (("embed", ()), ("regress", ("--cosine",))):
        with pytest.raises(ValueError, match=r"The score at .*scores\.tsv:3 is not between -1 and 1.* Received: 5"):
            train(bert, kind, file, file, tmp_path / "run", *columns, *options)


# === Texts without labels ===


@pytest.fixture
def scored(tmp_path):
    rows = [["good film", "bad film", 0.1], ["anna ran", "paul ran", 0.6], ["in seoul", "in paris", 0.9]]
    return write(tmp_path / "valid.tsv", [["a", "b", "score"], *rows])


def test_only_texts(bert, scored, tmp_path, caplog):
    """Lines without labels: the columns that are named are those of the scored pairs."""
    caplog.set_level("INFO", "keras_bert")
    (tmp_path / "texts.txt").write_text("the film is good\n\nanna ran\nwho is in seoul\n")
    columns = ["--lines", "--text", "a", "--text", "b", "--label", "score", "--loss", "ranking", "--temperature", 0.1]
    said = train(bert, "embed", tmp_path / "texts.txt", scored, tmp_path / "run", *columns, "--epochs", 1)
    metrics = record(tmp_path / "run")
    assert "spearman" in said
    assert (metrics["chosen_by"], metrics["rows"]) == ("spearman", {"train": 3, "valid": 3})
    assert metrics["epochs"][0]["loss"] > 0
    assert "texts.txt has only texts, without labels. Each text is learned as a match of itself" in caplog.text
    assert "| text column | `a`, `b` |" in (tmp_path / "run/README.md").read_text()
    finished = FinishedTask.load(tmp_path / "run")
    assert finished.evaluate(scored) == pytest.approx(metrics["valid"])


def test_files_of_only_texts(write):
    for path in (
        write("a.txt", "good film\n \nbad\tfilm\n"),
        write("a.tsv", "sentence\ngood film\nbad film\n"),
        write("a.csv", '"good film"\n"bad film"\n'),
        write("a.jsonl", '{"text": "good film"}\n{"text": "bad film"}\n'),
    ):
        reading = Reading(text=("a", "b"), label="score", header=path.suffix != ".csv", lines=path.suffix == ".txt")
        rows = SentenceEmbedder.read_training_rows(path, reading)
        assert [text.replace("\t", " ") for text in rows.x] == ["good film", "bad film"]
        assert rows.y == []
        with pytest.raises(ValueError, match=r"has only texts without labels\. .*Received: split=0.5"):
            check_held_out(rows, 0.5, None)
        with pytest.raises(ValueError, match=r"has only texts without labels\. .*Name another validation file"):
            check_held_out(rows, None, str(path))
    lines = write("b.txt", "1 good film\n0 bad film\n")
    assert SentenceEmbedder.read_training_rows(lines, Reading()).y == ["1", "0"]
    assert SentenceEmbedder.read_training_rows(write("b.csv", "text;label\ngood;1\nbad;0\n"), Reading()).y == ["1", "0"]
    for name, text in (("c.jsonl", '{"text": " "}\n{"text": "good"}\n'), ("pairs.tsv", "text\tb\ngood\t\nbad\ta\n")):
        reading = Reading() if name == "c.jsonl" else Reading(text=("text", "b"), header=True)
        with pytest.raises(ValueError, match=r"has no text\. Fill it in, or drop such rows with --skip-empty"):
            SentenceEmbedder.read_training_rows(write(name, text), reading)
        kept = SentenceEmbedder.read_training_rows(write(name, text), dataclasses.replace(reading, skip_empty=True))
        assert len(kept) == 1


def test_only_texts_need_a_validation_file(scored, tmp_path, monkeypatch):
    """Which is found out before Keras is imported."""
    texts = write(tmp_path / "texts.tsv", [["text"], ["good film"], ["bad film"]])
    words = ["finetune", "embed", "--train", texts, "--output", tmp_path / "run"]
    command = [sys.executable, "-X", "importtime", "-m", "keras_bert_cli", *map(str, words), "--split", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "In place of `split`, name a validation file (--valid) of pairs, scores or labels." in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.endswith((" keras", " tensorflow"))]
    with pytest.raises(ValueError, match="`temperature` must be above 0 and finite"):
        run(*words, "--valid", scored, "--temperature", "0")
    with pytest.raises(ValueError, match=r"valid\.tsv has no column 'c'"):
        run(*words, "--valid", scored, "--text", "a", "--text", "c")
    monkeypatch.setenv("COLUMNS", "300")
    for options, said in (
        ([], "Texts without labels cannot be evaluated, so for them give --valid"),
        (["--valid", scored, "--loss", "mse"], "'mse' is not one of 'ranking', 'cosine', 'cosent', 'triplet'"),
        (["--valid", scored, "--class-weight", "balanced"], "No such option: --class-weight"),
    ):
        result = run(*words, *options)
        assert result.exit_code == 2
        assert said in result.output


# === search ===


def test_first_words_that_become_labels_are_told(tmp_path, caplog):
    path = tmp_path / "rows.txt"
    path.write_text("a one two\na three\nb four\n")
    told = "the first word of each line is its label. If the lines are texts without labels, add --lines."
    with caplog.at_level("INFO", "keras_bert"):
        assert SentenceEmbedder.read_training_rows(path, Reading()).y == ["a", "a", "b"]
        assert told in caplog.text
        caplog.clear()
        assert SentenceEmbedder.read_training_rows(path, Reading(lines=True)).x == ["a one two", "a three", "b four"]
        assert told not in caplog.text
