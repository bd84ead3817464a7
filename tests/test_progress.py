"""Progress bars."""

import pytest

from keras_bert.progress import bar, progress


@pytest.fixture(params=["a film", "films [1].txt", "[/b].txt"])
def title(request, monkeypatch):
    """Names of files, which are no markup, on an interactive terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    return request.param


def test_titles_are_shown_as_they_are(title, capsys):
    assert list(progress("abc", title, total=3)) == ["a", "b", "c"]
    assert title in capsys.readouterr().err
    with bar(title, total=3) as advance:
        advance(3)
    assert title in capsys.readouterr().err
