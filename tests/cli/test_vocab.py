"""`keras-bert vocab`."""

import gzip
import json
import os
import re
import subprocess
import sys

import pytest

from keras_bert.text.vocabulary import Vocabulary

LINE = "Les écoles sont là. Low lower lowest new newer newest 한국어 漢字\n"
TEXT = LINE * 20
ALPHABET = ("--alphabet", 60)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.long
def test_learns_and_saves(corpus, tmp_path):
    output = tmp_path / "vocab.txt"
    options = ["--size", "120", "--output", output, "--unused", "3", "--alphabet", "60"]
    command = [sys.executable, "-m", "keras_bert_cli", "vocab", corpus, *options]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    vocabulary = Vocabulary.from_file(output)
    assert result.stdout == f"{output}: {len(vocabulary)} pieces\n"
    assert {"lowest", "ecoles", "[unused2]"} <= set(vocabulary.tokens)
    log = r"The texts yield only \d+ pieces\. Requested: 120\.\n"  # and nothing from TensorFlow
    assert re.fullmatch(log, result.stderr)


def test_reads_the_files_that_examples_reads(run, corpus, tmp_path):
    """The same words compressed, in JSON Lines, in a folder or on one line give the same bytes."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with gzip.open(folder / "A.TXT.GZ", "wt", encoding="utf-8") as file:
        file.write(TEXT[: len(TEXT) // 2].replace("\n", " "))
    rows = [json.dumps({"body": line}) for line in TEXT[len(TEXT) // 2 :].splitlines()]
    (folder / "b.jsonl").write_text("\n".join(rows))
    (folder / "c.md").write_text("# " + LINE, encoding="utf-8")
    corpus.write_text(TEXT + "#" + LINE, encoding="utf-8")
    for source, *options in ([corpus], [folder, "--text-field", "body"], [folder / "*", "--text-field", "body"]):
        code, _, err = run("vocab", source, "--size", 150, *ALPHABET, "--output", tmp_path / "vocab.txt", *options)
        assert code == 0, err
        learned = (tmp_path / "vocab.txt").read_bytes()
        if source == corpus:
            expected = learned
        assert learned == expected


@pytest.mark.parametrize(
    ("option", "pieces"),
    [
        ("--cased", {"Low", "écoles", "한국어"}),
        ("--keep-accents", {"low", "écoles", "한국어"}),
        ("--no-split-cjk", {"漢字"}),
    ],
)
def test_switches(run, corpus, tmp_path, option, pieces):
    run("vocab", corpus, "--size", 160, *ALPHABET, "--output", tmp_path / "vocab.txt", option)
    assert pieces <= set(Vocabulary.from_file(tmp_path / "vocab.txt"))


def test_encoding(run, corpus, tmp_path):
    korean = tmp_path / "korean.txt"
    korean.write_bytes(("low low 한국어 한국어\n" * 20).encode("cp949"))
    output = tmp_path / "vocab.txt"
    code, _, err = run("vocab", korean, "--output", output, "--encoding", "cp949", "--cased")
    assert code == 0, err
    assert {"low", "한국어"} <= set(Vocabulary.from_file(output))


def test_errors(run, corpus, tmp_path):
    output = tmp_path / "vocab.txt"
    korean = tmp_path / "korean.txt"
    korean.write_bytes("low\n한국어".encode("cp949"))
    for arguments, message in (
        ([tmp_path / "none.txt", "--output", output], r"none\.txt"),
        ([corpus, "--output", tmp_path / "no" / "vocab.txt"], "--output needs a folder"),
        ([corpus, "--output", output, "--size", 20], "Raise `size`"),
        ([korean, "--output", output], r"korean\.txt, line 2, is not UTF-8.*--encoding.*may be cp949 \(Korean"),
        ([korean, "--output", output, "--encoding", "hangul"], "no encoding 'hangul'"),
    ):
        code, _, err = run("vocab", *arguments, *ALPHABET)
        assert code == 1
        assert re.search(message, err.splitlines()[-1])
        assert not output.exists()


def test_the_corpus_is_never_the_output(run, corpus):
    for source in (corpus, corpus.parent):
        code, _, err = run("vocab", source, "--output", corpus, "--size", 120, *ALPHABET)
        assert code == 1
        assert "--output must not be a file that the command reads" in err
        assert corpus.read_text(encoding="utf-8") == TEXT
