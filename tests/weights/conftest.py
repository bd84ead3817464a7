"""A checkpoint as `read` returns it, and as it is after `keras-bert convert`."""

import pytest
from typer.testing import CliRunner

from keras_bert.weights.load import read
from keras_bert_cli import app


@pytest.fixture
def converted(tmp_path):
    """A function that converts the model at a path with the command, and reads the result."""

    def convert(path):
        arguments = ["convert", str(path), str(tmp_path / "converted"), "--to", "hf"]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        listed = {line.split("\t")[0] for line in result.stdout.splitlines() if line.startswith("left out: ")}
        limit = {"left out: max_word_length"}  # which transformers cannot change
        assert listed - limit == {f"left out: {name}" for name in read(path).left_out}
        return read(tmp_path / "converted")

    return convert


@pytest.fixture(params=["as it is", "converted"])
def opened(request, converted):
    """A function that reads a path, directly or after the command."""
    return read if request.param == "as it is" else converted
