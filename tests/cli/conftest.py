import sys

import pytest

import keras_bert_cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs `keras-bert` with these words; returns the exit code, standard output and standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["keras-bert", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            keras_bert_cli.main()
        return (end.value.code or 0, *capsys.readouterr())

    return run
