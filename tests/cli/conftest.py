import sys

import pytest

import keras_bert_cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit code, standard output and standard error of `keras-bert` with these words."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["keras-bert", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            keras_bert_cli.main()
        return (end.value.code or 0, *capsys.readouterr())

    return run
