"""`keras-bert embed`: texts in, vectors and a map out."""

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from keras_bert_cli import app
from tests.pictures import small

TEXTS = ["The cat sat.", "", "영화를 보았다"]


@pytest.fixture(scope="module")
def bert():
    return small.bert()


@pytest.fixture(scope="module")
def model(bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("bert") / "bert.keras"
    bert.save(path)
    return path


def run(*arguments, input=None):
    return CliRunner().invoke(app, ["embed", *map(str, arguments)], input=input, catch_exceptions=False)


def test_lines_to_npy(bert, model, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    result = run(tmp_path / "texts.txt", "--model", model, "--output", tmp_path / "vectors.npy")
    assert result.stdout == f"{tmp_path / 'vectors.npy'}: 3 texts x 8\n"
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), bert.embed(TEXTS))
    assert {path.name for path in tmp_path.iterdir()} == {"texts.txt", "vectors.npy", "vectors.npy.json"}


def test_options(bert, model):
    options = ["--layer", 0, "--layer", -1, "--combine", "sum", "--pooling", "max", "--normalize", "--max-length", 4]
    result = run("-", "--model", model, "--json", *options, input="\n".join(TEXTS) + "\n")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    expected = bert.embed(TEXTS, layers=(0, -1), combine="sum", pooling="max", normalize=True, max_length=4)
    np.testing.assert_array_equal(np.array([row["vector"] for row in rows], "float32"), expected)


def test_table(bert, model, tmp_path):
    rows = [("kind", "text"), ("film", "영화를 보았다"), ("cat", "The cat sat."), ("cat", "$ cat $")]
    (tmp_path / "t.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    drawn = ("--plot", tmp_path / "map.svg", "--projector", tmp_path / "projector")
    run(tmp_path / "t.tsv", "--model", model, "--output", tmp_path / "v.npy", *drawn, "--label-column", "kind")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), bert.embed([text for _, text in rows[1:]]))
    assert (tmp_path / "map.svg").read_text().startswith("<?xml")
    np.testing.assert_array_equal(
        np.loadtxt(tmp_path / "projector" / "vectors.tsv", "float32"), np.load(tmp_path / "v.npy")
    )
    assert "영화를 보았다\tfilm\n" in (tmp_path / "projector" / "metadata.tsv").read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {"t.tsv", "v.npy", "v.npy.json", "map.svg", "projector"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "No output was asked for. Use"),
        (("--plot", "map.png", "--label-column", "kind"), "--label-column needs a table"),
        (("--json", "--label-column", "kind"), "--label-column is for --plot and --projector"),
        (("--json", "--text", "body"), "--text needs a table"),
        (
            ("--json", "--pooling", "pooled", "--layer", 0, "--layer", -1),
            "--pooling pooled is the output of the pooler",
        ),
        (("--json", "--combine", "sum", "--layer", 0), "--combine is for several blocks"),
    ],
)
def test_usage(model, options, said):
    result = run("-", "--model", model, *options, input="a\n")
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


def test_nothing_in(model):
    with pytest.raises(ValueError, match="standard input is empty"):
        run("-", "--model", model, "--json", input="")


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for option, path, message in (
        ("--output", tmp_path / "none" / "v.npy", "needs a folder that exists"),
        ("--output", tmp_path, "--output must be a file"),
        ("--output", tmp_path / "pipe", "a file, not a folder, a device or a pipe"),
        ("--output", tmp_path / "t.keras", r"--output must end in \.npy"),
        ("--plot", tmp_path / "map.doc", r"end in \.png, \.svg, \.pdf"),
        ("--plot", tmp_path / "map.png", "at least two texts"),
        ("--projector", tmp_path, "new or empty folder"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            run("-", "--model", "tiny", option, path, input="a\n")
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize(("option", "name"), [("--output", "t.npy"), ("--output", "t.npy.json"), ("--plot", "t.png")])
def test_the_input_is_never_the_output(tmp_path, option, name):
    (tmp_path / "texts.txt").write_text("a\nb\n")
    (tmp_path / name).symlink_to(tmp_path / "texts.txt")
    with pytest.raises(FileExistsError, match=f"{option} must not be a file that the command reads"):
        run(tmp_path / "texts.txt", "--model", "tiny", option, tmp_path / name.removesuffix(".json"))
    assert (tmp_path / "texts.txt").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["--text", 0], ["words", "영화", "cat"]),
        (["--text", 0, "--header"], ["영화", "cat"]),
        (["--text", "words", "--no-header"], None),
        (["--text", 0, "--label-column", "kind"], ["영화", "cat"]),
        (["--text", "words", "--label-column", 1], ["영화", "cat"]),
    ],
)
def test_the_header_and_the_encoding_of_a_table(model, tmp_path, options, texts):
    """As `finetune` reads them: the first row is a header if any column is given by name."""
    (tmp_path / "t.csv").write_text("words;kind\n영화;film\ncat;pet\n", encoding="cp949")
    words = [tmp_path / "t.csv", "--model", model, "--json", "--projector", tmp_path / "p", *options]
    with pytest.raises(ValueError, match="name its encoding with --encoding"):
        run(*words)
    words += ["--delimiter", ";", "--encoding", "cp949"]
    if texts is None:
        with pytest.raises(ValueError, match=r"has no column 'words'.*it has no header"):
            run(*words)
    else:
        assert [json.loads(line)["text"] for line in run(*words).stdout.splitlines()] == texts


def test_the_encoding_of_lines(model, tmp_path):
    (tmp_path / "t.txt").write_text("영화\n", encoding="cp949")
    found = run(tmp_path / "t.txt", "--model", model, "--json", "--encoding", "cp949").stdout
    assert json.loads(found)["text"] == "영화"
    result = CliRunner().invoke(
        app, ["embed", "-", "--json", "--encoding", "cp949", "--model", str(model)], "영화".encode("cp949")
    )
    assert json.loads(result.stdout)["text"] == "영화"
    assert "--header needs a table" in run(tmp_path / "t.txt", "--json", "--header").stderr
    (tmp_path / "t.jsonl").write_text('{"text": "cat"}\n')
    for option in (["--no-header"], ["--delimiter", ";"]):
        result = run(tmp_path / "t.jsonl", "--json", *option)
        assert result.exit_code == 2
        assert f"{option[0].replace('no-', '')} is for .tsv and .csv files" in result.stderr
