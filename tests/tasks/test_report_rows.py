"""What the page of a report calls its rows: by their lines, questions or numbers."""

import dataclasses
import re

import pandas as pd
import pytest

from keras_bert.tasks.readers import read_klue_ner, read_labels
from tests.tasks.runs import squad
from tests.tasks.small import TEXTS, small_task
from tests.tasks.test_reports import read


@pytest.mark.usefixtures("eager")
def test_what_a_row_is_called(tmp_path, write):
    """By its line, if it has one: a KLUE-NER row by its first line. The rows of a Parquet file are counted from 1."""

    def headings(task, *x):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        report = task.write_report(folder, *x, train=x[0])
        numbers = [row["row"] for row in report["worst"]["rows"]]
        shown = re.findall("<h3>(.*?)</h3>", read(folder)[1])
        assert [heading.split()[1] for heading in shown] == [str(number) for number in numbers]
        (unit,) = {heading.split()[0] for heading in shown}
        assert f">training {unit.lower()}</th>" in read(folder)[1]
        return unit, sorted(numbers)

    task = small_task("classifier")
    labels = ["negative" if answer.label == "positive" else "positive" for answer in task.classify(TEXTS)]
    table = pd.DataFrame({"text": TEXTS, "label": labels})
    assert headings(task, TEXTS, labels) == ("Row", [0, 1, 2, 3])
    assert headings(task, table) == ("Row", [0, 1, 2, 3])
    table.to_parquet(tmp_path / "a.parquet")
    assert headings(task, str(tmp_path / "a.parquet")) == ("Row", [1, 2, 3, 4])
    table.to_csv(tmp_path / "a.csv", index=False)
    assert headings(task, str(tmp_path / "a.csv")) == ("Line", [2, 3, 4, 5])
    table.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    assert headings(task, str(tmp_path / "a.jsonl")) == ("Line", [1, 2, 3, 4])
    assert headings(task, read_labels(tmp_path / "a.jsonl", "text", "label")[1:3]) == ("Line", [2, 3])
    sentence = "서\tB-LC\n울\tI-LC\n\n"
    tagger = small_task("tagger")
    object.__setattr__(tagger, "decode", lambda examples, logits: [[], []])
    rows = read_klue_ner(write("a.tsv", f"## klue-1\t<서울:LC>\n{sentence}## klue-2\t<서울:LC>\n{sentence}"))
    rows = dataclasses.replace(rows, y=[[(0, 2, "LOC")]] * 2)
    assert headings(tagger, rows) == ("Line", [2, 6])
    entries = [("who lives in rome", "anna lives in rome", answer) for answer in ("anna", "rome")]  # one must be wrong
    unit, ids = headings(small_task("answerer"), str(squad(tmp_path / "a.json", entries)))
    assert unit == "Question"
    assert {*ids} <= {"q0", "q1"}
