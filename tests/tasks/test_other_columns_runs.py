"""Training on numbers and categories beside the text from the command line."""

import json
import re

import numpy as np
import pytest

from keras_bert.tasks.readers import Reading, read_labels
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.tasks.runs import run, train, write


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Reviews whose label is whether the price is above 50 or the brand is bolt."""
    folder, dice = tmp_path_factory.mktemp("priced"), np.random.default_rng(0)

    def rows(count):
        for _ in range(count):
            price, brand = round(dice.uniform(0, 100), 2), dice.choice(["acme", "bolt", "corp"])
            yield "the film is good", price, brand, ("no", "yes")[price > 50 or brand == "bolt"]

    head = [("text", "price", "brand", "label")]
    return [write(folder / name, [*head, *rows(count)]) for name, count in (("train.tsv", 320), ("valid.tsv", 64))]


COLUMNS = ("--number", "price", "--category", "brand")


@pytest.mark.long
def test_a_run(bert, files, tmp_path):
    said = train(bert, "classify", *files, tmp_path / "run", *COLUMNS, "--epochs", 4)
    evaluated = run("evaluate", tmp_path / "run", "--data", files[1]).stdout
    first, second = (float(re.search(r"accuracy\t([\d.]+)", text)[1]) for text in (said, evaluated))
    assert first == second > 0.9
    finished = FinishedTask.load(tmp_path / "run")
    rows = finished.task.read_rows(files[1], finished.reading)
    known = read_labels(files[0], number=["price"], category=["brand"])
    assert finished.task.other_columns.numbers["price"][0] == pytest.approx(np.float32(known.x[1]).mean(), rel=1e-6)
    by_file = [json.loads(line) for line in run("predict", tmp_path / "run", files[1]).stdout.splitlines()]
    lines = "".join(f"{text}\t{price}\t{brand}\n" for text, price, brand in zip(*rows.x, strict=True))
    by_line = [json.loads(line) for line in run("predict", tmp_path / "run", input=lines).stdout.splitlines()]
    assert by_file == by_line
    assert [answer["label"] for answer in by_file] == [one.label for one in finished.task.classify(rows.x)]
    with pytest.raises(ValueError, match=r"Line 2: the number for 'price' is not a finite float32 number"):
        run("predict", tmp_path / "run", input="a\t1\tacme\nb\tx\tacme\n")
    alone = FinishedTask.load(tmp_path / "run" / "model.keras")
    assert alone.task.default_reading == Reading(number=("price",), category=("brand",))
    card = (tmp_path / "run" / "README.md").read_text()
    assert "| number columns | `price` |" in card
    assert "| category columns | `brand` |" in card
    assert 'task.classify({"text": "a text", "price": 1.0, "brand": "a name"})' in card


@pytest.mark.long
def test_a_regression_by_number_of_the_column(bert, files, tmp_path):
    """Columns are also named by their number, and rows are split, weighed and trained with two seeds as ever."""
    path = tmp_path / "scores.csv"
    rows = [line.split("\t") for line in files[0].read_text().splitlines()[1:81]]
    path.write_text("".join(f"{text},{price},{float(price) / 50}\n" for text, price, *_ in rows))
    options = ("--text", 0, "--number", 1, "--label", 2, "--seq-length", 16, "--epochs", 1, "--seeds", 2)
    result = run(
        "finetune", "regress", "--train", path, "--split", 0.2, "--model", bert, "-o", tmp_path / "run", *options
    )
    assert "spearman of 2 seeds" in result.stdout
    task = FinishedTask.load(tmp_path / "run").task
    assert list(task.other_columns.numbers) == ["1"]
    assert np.isfinite(task.score((["good"], [20.0])))


def test_bad_settings(bert, files, tmp_path):
    with pytest.raises(ValueError, match="A column is named twice"):
        FinetuneSettings("classify", "a.tsv", "b.tsv", reading=Reading(number=("text",)))
    options = ["finetune", "classify", "--train", files[0], "--valid", files[1], "-o", tmp_path / "run"]
    with pytest.raises(ValueError, match=r"train.tsv has no column 'prize'"):  # before anything is loaded
        run(*options, "--model", "tiny", "--number", "prize")
    path = tmp_path / "same.tsv"
    path.write_text("text\tyear\tlabel\na\t2020\tyes\nb\t2020\tno\n")
    options = ["finetune", "classify", "--train", path, "--valid", path, "--model", bert, "-o", tmp_path / "run"]
    with pytest.raises(ValueError, match=r"All rows of .*same.tsv have the same number in column 'year'.*: 2020"):
        run(*options, "--number", "year")
