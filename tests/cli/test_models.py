"""`keras-bert models`."""

import contextlib
import dataclasses
import json
import os
import re
import struct
import subprocess
import sys

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from keras_bert.weights.zoo import list_models
from keras_bert_cli import app


def test_lists_every_model():
    result = CliRunner().invoke(app, ["models"])
    assert result.exit_code == 0
    lines = [line.split("\t") for line in result.output.splitlines()]
    assert len(lines) == 38
    assert lines[0][:5] == ["base", "English", "no", "12/768/12", "109,482,240"]


@pytest.mark.parametrize(("term", "columns"), [("xterm", 200), ("xterm", 80), ("xterm", 40), ("dumb", 40)])
def test_names_are_whole_in_every_terminal(term, columns):
    pty = pytest.importorskip("pty", reason="Windows has no such terminals")
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": term}
    command = [sys.executable, "-m", "keras_bert_cli", "models", "--language", "languages"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        shown = ""
        with contextlib.suppress(OSError):  # so Linux reports that the other side is closed
            while data := os.read(ours, 4096):
                shown += data.decode()
    os.close(ours)
    lines = [re.sub(r"\x1b\[\d*m", "", line) for line in shown.splitlines()]
    names = [model.name for model in list_models() if "languages" in model.language]
    assert [line.split()[0] for line in lines if line.split()[0] in names] == names
    assert max(map(cell_len, lines)) <= columns
    if columns >= 80:
        assert lines[0].split() == ["name", "language", "layers", "x", "units", "parameters", "casing"]
        assert lines[1].split() == ["multilingual", "104", "languages", "12", "x", "768", "177.9", "M", "cased"]


def test_one_language():
    result = CliRunner().invoke(app, ["models", "--language", "korean"])
    assert "klue/bert-base" in result.output
    assert len(result.output.splitlines()) == 4
    with pytest.raises(ValueError, match="must be one of English"):
        CliRunner().invoke(app, ["models", "-l", "klingon"], catch_exceptions=False)


def test_a_list_for_programs(run):
    code, shown, _ = run("models", "--json", "--language", "korean")
    models = json.loads(shown)
    assert code == 0
    korean = [dataclasses.asdict(model) for model in list_models() if model.language == "Korean"]
    assert models == json.loads(json.dumps(korean))
