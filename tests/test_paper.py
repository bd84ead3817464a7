"""examples/paper.py on small files in the layouts of the official ones."""

import json
import runpy
import sys
from pathlib import Path

import keras
import pytest

from keras_bert.tasks.run import grid
from tests.tasks.small import small_bert

EXAMPLE = Path(__file__).parents[1] / "examples" / "paper.py"
GLUE = {  # the first lines of train.tsv as GLUE has them, and a row; None: without a line of names
    "CoLA": (None, "gj04\t{label}\t\t{a}"),
    "SST-2": ("sentence\tlabel", "{a}\t{label}"),
    "MRPC": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '{label}\t7\t8\t{a}\t"{b}'),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tnews\tx\t2012\t1\tnone\tnone\t{a}\t{b}\t{label}.5",
    ),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\t{a}\t{b}\t{label}"),
    "MNLI": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
        "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t1\t1n\tx\t( a )\t( b )\t(ROOT a)\t(ROOT b)\t{a}\t{b}\tneutral\t{name}",
    ),
    "QNLI": ("index\tquestion\tsentence\tlabel", "0\t{a}\t{b}\t{name}"),
    "RTE": ("index\tsentence1\tsentence2\tlabel", "0\t{a}\t{b}\t{name}"),
}

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of the TensorFlow backend")


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """A folder with all sets."""
    folder = tmp_path_factory.mktemp("official")
    for name, (head, row) in GLUE.items():
        (folder / name).mkdir()
        rows = [
            row.format(label=number % 2, a=f"the film was {word}", b=word, name=("no", "yes")[number % 2])
            for number, word in enumerate(("bad", "good") * 8)
        ]
        text = "\n".join(([head] if head else []) + rows) + "\n"
        for part in ("train", "dev_matched", "dev_mismatched") if name == "MNLI" else ("train", "dev"):
            (folder / name / f"{part}.tsv").write_text(text, encoding="utf-8")
    answers = [{"text": "Rome", "answer_start": 14}]
    entry = {"id": "1", "question": "Where lives Anna?", "answers": answers}
    none = {"id": "2", "question": "Who?", "answers": [], "is_impossible": True}
    for name, version, questions in (("SQuAD1", "v1.1", [entry]), ("SQuAD2", "v2.0", [entry, none])):
        (folder / name).mkdir()
        squad = {"version": version, "data": [{"title": "x", "paragraphs": [{"context": "Anna lives in Rome."}]}]}
        squad["data"][0]["paragraphs"][0]["qas"] = questions
        for part in ("train", "dev"):
            (folder / name / f"{part}-{version}.json").write_text(json.dumps(squad))
    (folder / "SWAG").mkdir()
    for part in ("train", "val"):
        (folder / f"SWAG/{part}.csv").write_text(
            ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
            '0,a,1,"The film, it",The film,it,gold,was good.,was bad.,lives in Rome.,was Anna.,0\n'
        )
    (folder / "CoNLL-2003").mkdir()
    for part in ("train", "testa"):
        (folder / f"CoNLL-2003/eng.{part}").write_text(
            "-DOCSTART- -X- O O\n\nAnna NNP I-NP I-PER\nlives VBZ I-VP O\n\nRome NNP I-NP I-LOC\n"
        )
    return folder


def test_every_set_is_read_as_the_official_files_are(official):
    example = runpy.run_path(str(EXAMPLE))
    assert set(example["PRESETS"]) == {path.name for path in official.iterdir()}
    for name, preset in example["PRESETS"].items():
        settings = example["settings_of"](name, official, None, "float32", "one")
        rows = settings.task.read_rows(settings.train, settings.reading)
        assert len(settings.task.read_rows(settings.valid, settings.reading)) == len(rows)
        if name in GLUE:
            pair = isinstance(rows.x, tuple)
            assert pair == (name not in ("CoLA", "SST-2"))
            assert (rows.x[0] if pair else rows.x)[:2] == ["the film was bad", "the film was good"]
            assert rows.y[:2] == ([0.5, 1.5] if name == "STS-B" else ["no", "yes"] if preset.also else rows.y[:2])
            assert len(set(rows.y)) == 2
    assert rows.y == [["I-PER", "O"], ["I-LOC"]]


def test_a_run_stands_beside_the_paper(official, tmp_path, monkeypatch, capsys):
    small_bert(num_hidden_layers=1, max_position_embeddings=128).save(tmp_path / "bert.keras")
    for name, values in (("batch_size", (16,)), ("learning_rate", (5e-5,)), ("epochs", (1,))):
        monkeypatch.setitem(grid.GRID, name, values)
    options = ["--data", official, "--model", tmp_path / "bert.keras", "--output", tmp_path / "runs", "--tasks", "MNLI"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *map(str, options), "--grid"])
    for _ in range(2):  # the second time it is told from what the first has left
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    head, line, *again = capsys.readouterr().out.splitlines()
    assert head.split() == ["task", "score", "this", "run", "paper,", "base", "paper,", "large"]
    assert again == [head, line]
    name, score, ours, *paper = line.split()
    assert (name, score, " ".join(paper)) == ("MNLI", "accuracy", "84.4 dev, 84.6/83.4 test 86.7/85.9 test")
    matched, mismatched = map(float, ours.split("/"))
    assert matched == mismatched  # of the same small file
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["MNLI-grid"]
