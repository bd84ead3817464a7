import os
import re
import subprocess
import sys

import pytest

from keras_bert.text.vocabulary import Vocabulary

TEXT = "Les écoles sont là. Low lower lowest new newer newest 한국어 漢字\n" * 20


def in_a_process(*arguments):
    command = [sys.executable, "-m", "keras_bert.cli", "vocab", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_learns_and_saves(corpus, tmp_path):
    output = tmp_path / "vocab.txt"
    result = in_a_process(corpus, "--size", 120, "--output", output, "--unused", 3, "--alphabet", 60)
    assert result.returncode == 0, result.stderr
    vocabulary = Vocabulary.from_file(output)
    assert result.stdout == f"{output}: {len(vocabulary)} pieces\n"
    assert {"lowest", "ecoles", "[unused2]"} <= set(vocabulary.tokens)
    assert re.fullmatch(r"The texts yield \d+ pieces; 120 were asked for\.\n", result.stderr)  # no log of TensorFlow's


def test_switches(run, corpus, tmp_path):
    output = tmp_path / "vocab.txt"
    for options, pieces in (
        (["--cased"], {"Low", "écoles", "한국어"}),
        (["--keep-accents"], {"low", "écoles", "한국어"}),
        (["--no-split-cjk"], {"漢字"}),
    ):
        code, _, err = run("vocab", corpus, "--size", 160, "--alphabet", 60, "--output", output, *options)
        assert code == 0, err
        assert pieces <= set(Vocabulary.from_file(output).tokens)


def test_one_line_and_exit_code_when_it_goes_wrong(run, corpus, tmp_path):
    output = tmp_path / "vocab.txt"
    for arguments, message in (
        ([tmp_path / "none.txt", "--output", output], "none.txt"),
        ([corpus, "--output", tmp_path / "no" / "vocab.txt"], "--output needs a folder"),
        ([corpus, "--output", output, "--size", 20, "--alphabet", 60], "Raise size"),
        ([tmp_path / "corpus.txt.gz", "--output", output], "files of plain text"),
        ([tmp_path, "--output", output], "files of plain text"),
    ):
        code, _, err = run("vocab", *arguments)
        assert code == 1
        assert message in err.splitlines()[-1]
        assert "Traceback" not in err
        assert not output.exists()


def test_usage(run, corpus):
    assert run("vocab", corpus)[0] == 2
    code, shown, _ = run("vocab", "--help")
    assert code == 0
    assert "keras-bert vocab books/*.md --size 30000 --output vocab.txt" in " ".join(shown.split())
