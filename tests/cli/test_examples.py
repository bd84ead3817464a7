import re
import subprocess
import sys

import pytest

from keras_bert.pretraining.read import Examples
from tests.pretraining.corpus import corpus


def run(*arguments):
    command = [sys.executable, "-m", "keras_bert.cli", "examples", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def source(tmp_path):
    return corpus(tmp_path)


@pytest.fixture
def options(source, tmp_path):
    return ["--vocab", tmp_path / "vocab.txt", "--output", tmp_path / "out", "--seq-length", "32", "--workers", "1"]


def test_writes_and_tells_in_one_line(source, options, tmp_path):
    result = run(source, *options, "--whole-word", "--rate", "0.2", "--keep-accents")
    assert result.returncode == 0, result.stderr
    said = re.fullmatch(rf"{tmp_path}/out: 90 documents, (\S+) sentences, (\S+) examples, \S+ MB/s\n", result.stdout)
    assert said
    assert "Traceback" not in result.stderr
    examples = Examples.open(tmp_path / "out")
    assert len(examples) == int(said[2].replace(",", ""))
    assert (examples.masking.whole_word, examples.masking.rate, examples.rules.strip_accents) == (True, 0.2, False)


@pytest.mark.slow
def test_beam_and_its_options(source, options, tmp_path):
    pytest.importorskip("apache_beam", reason="pip install 'keras3-bert[beam]'")
    result = run(source, *options, "--runner", "beam", "--direct_num_workers", "1", "--job_name=x")
    assert result.returncode == 0, result.stderr
    assert "90 documents" in result.stdout
    result = run(source, *options, "--seq-length", "16", "--runner", "beam")
    assert result.returncode == 1
    assert "holds one run" in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_wrong_usage_and_what_goes_wrong(source, options):
    wrong = run(source, *options, "--sead", "1")
    assert wrong.returncode == 2
    assert "No such option: --sead" in wrong.stderr
    none = run(source / "none.txt", *options)
    assert none.returncode == 1
    assert "none.txt" in none.stderr.splitlines()[-1]
    assert "Traceback" not in none.stderr
    assert "keras-bert examples books/*.md --vocab vocab.txt --output examples" in " ".join(
        run("--help").stdout.split()
    )
