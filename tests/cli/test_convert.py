"""`keras-bert convert`."""

import pytest
from typer.testing import CliRunner

from keras_bert.cli import app, convert  # noqa: F401  registers the command
from keras_bert.weights import own
from keras_bert.weights.checkpoint import Pooling
from keras_bert.weights.load import read
from tests.weights import small


def _convert(*arguments):
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("to", ["hf", "google", "keras-hub", "keras-bert"])
def test_there_and_back(tmp_path, to):
    ours = small.checkpoint("mlm", "nsp", num_hidden_layers=1)
    own.write_checkpoint(ours, tmp_path / "ours")
    said = _convert(tmp_path / "ours", tmp_path / "theirs", "--to", to)
    assert "largest difference of outputs\t0.0e+00" in said
    _convert(tmp_path / "theirs", tmp_path / "again", "--to", "keras-bert")
    again = read(tmp_path / "again")
    if to == "keras-hub":
        assert "left out: head mlm\ta KerasHub preset" in said
        ours.heads.clear()
        again.rules = ours.rules  # its vocabulary has é, by which the rule of accents is told
    small.assert_same(ours, again)


@pytest.mark.parametrize("to", ["hf", "google", "keras-hub", "keras-bert"])
def test_pooling(tmp_path, to):
    ours = small.checkpoint(num_hidden_layers=1)
    ours.pooling = Pooling("cls", True, 12)
    own.write_checkpoint(ours, tmp_path / "ours")
    said = _convert(tmp_path / "ours", tmp_path / "theirs", "--to", to)
    kept = to in ("hf", "keras-bert")
    assert read(tmp_path / "theirs").pooling == (ours.pooling if kept else None)
    assert ("left out: pooling" in said) is not kept


def test_folder_in_the_way(tmp_path):
    own.write_checkpoint(small.checkpoint(), tmp_path / "ours")
    with pytest.raises(FileExistsError, match="new or empty folder"):
        _convert(tmp_path / "ours", tmp_path / "ours", "--to", "hf")


@pytest.mark.parametrize("to", ["hf", "google", "keras-bert"])
def test_without_a_pooler(tmp_path, to):
    ours = small.checkpoint("mlm", num_hidden_layers=1)
    del ours.weights["pooler/kernel"], ours.weights["pooler/bias"]
    own.write_checkpoint(ours, tmp_path / "ours")
    said = _convert(tmp_path / "ours", tmp_path / "theirs", "--to", to)
    assert "left out: pooler\tthe file has none" in said
    small.assert_same(ours, read(tmp_path / "theirs"))
