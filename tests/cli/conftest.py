import sys

import pytest

from keras_bert import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit code, standard output and standard error of `keras-bert` with these words."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["keras-bert", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code or 0, *capsys.readouterr())

    return run
