import re
import subprocess
import sys

import pytest

from keras_bert.pretraining.examples.read_examples import ExampleReader
from tests.pretraining.corpus import corpus


@pytest.fixture
def source(tmp_path):
    return corpus(tmp_path)


@pytest.fixture
def options(source, tmp_path):
    return ["--vocab", tmp_path / "vocab.txt", "--output", tmp_path / "out", "--seq-length", "32", "--workers", "1"]


@pytest.mark.long
def test_writes_examples_and_prints_one_line(source, options, tmp_path):
    command = ["examples", source, *options, "--whole-word", "--rate", "0.2", "--keep-accents"]
    line = [sys.executable, "-m", "keras_bert_cli", *map(str, command)]
    result = subprocess.run(line, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    counts = r"90 documents, (\S+) sentences, (\S+) examples, \d+% of a row is text, \d+% of the pairs are random"
    said = re.fullmatch(rf"{tmp_path}/out: {counts}, \S+ MB/s\n", result.stdout)
    assert said
    assert "Traceback" not in result.stderr
    reader = ExampleReader.open(tmp_path / "out")
    assert len(reader) == int(said[2].replace(",", ""))
    assert (reader.masking.whole_word, reader.masking.rate, reader.rules.strip_accents) == (True, 0.2, False)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # a release of Beam has a dozen of its own
def test_beam_and_its_options(run, source, options):
    pytest.importorskip("apache_beam", reason="pip install 'keras3-bert[beam]'")
    options = options[:-2]  # without --workers
    code, out, err = run("examples", source, *options, "--runner", "beam", "--direct_num_workers", "1", "--job_name=x")
    assert code == 0, err
    assert "90 documents" in out
    code, _, err = run("examples", source, *options, "--seq-length", "16", "--runner", "beam")
    assert code == 1
    assert "holds other examples" in err.splitlines()[-1]


def test_the_encoding_is_one_of_the_settings(run, source, options):
    for file in source.iterdir():
        file.write_bytes(("가." + file.read_text(encoding="utf-8")).encode("cp949"))
    code, _, err = run("examples", source, *options)
    assert code == 1
    assert re.search(r"\.txt, line 1, is not UTF-8\. .*--encoding.*cp949 \(Korean", err.splitlines()[-1])
    code, out, err = run("examples", source, *options, "--encoding", "cp949")
    assert code == 0, err
    assert "90 documents" in out
    code, _, err = run("examples", source, *options, "--encoding", "latin-1")
    assert code == 1
    assert "encoding='latin-1' (was 'cp949')" in err.splitlines()[-1]


def test_wrong_options_and_missing_files(run, source, options):
    code, _, err = run("examples", source, *options, "--no-nsp", "--short-seq-prob", "0.5")
    assert code == 2
    assert "--short-seq-prob is for pairs" in err
    code, _, err = run("examples", source, *options, "--sead", "1")
    assert code == 2
    assert "No such option: --sead" in err
    code, _, err = run("examples", source / "none.txt", *options)
    assert code == 1
    assert "none.txt" in err.splitlines()[-1]
    assert "Traceback" not in err
    shown = run("examples", "--help")[1]
    assert "keras-bert examples books/*.md --vocab vocab.txt --output examples" in " ".join(shown.split())
