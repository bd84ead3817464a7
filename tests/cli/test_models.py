"""`keras-bert models`."""

import pytest
from typer.testing import CliRunner

from keras_bert.cli import app, models  # noqa: F401  registers the command


def test_lists_every_model():
    result = CliRunner().invoke(app, ["models"])
    assert result.exit_code == 0
    lines = [line.split("\t") for line in result.output.splitlines()]
    assert len(lines) == 37
    assert lines[0][:5] == ["base", "English", "no", "12/768/12", "109,482,240"]


def test_one_language():
    result = CliRunner().invoke(app, ["models", "--language", "korean"])
    assert "klue/bert-base" in result.output
    assert len(result.output.splitlines()) == 4
    with pytest.raises(ValueError, match="must be one of English"):
        CliRunner().invoke(app, ["models", "-l", "klingon"], catch_exceptions=False)
