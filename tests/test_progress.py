"""Progress bars."""

import pytest

from keras_bert import progress as module
from keras_bert.progress import ProgressLog, bar, progress


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


@pytest.mark.parametrize(("total", "lines"), [(1000, {19}), (None, {19, 20}), (30, {14}), (10, {9})])
def test_log_lines_come_now_and_then(monkeypatch, caplog, total, lines):
    """Ten minutes of steps: a line in 30 seconds, and none at the end, which the caller reports."""
    caplog.set_level("INFO", "keras_bert")
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    log = ProgressLog("Epoch 1", total)
    steps = total or 1000
    for step in range(steps):
        now += 600 / steps
        log.at(step + 1, lambda: "loss 0.5")
    assert len(caplog.messages) in lines
    assert caplog.messages[0].startswith("Epoch 1: step ")
    assert caplog.messages[0].endswith(", loss 0.5")
    assert (" left" in caplog.messages[-1]) is (total is not None)
    assert ("less than a minute left" in caplog.messages[-1]) is (total == 1000)


def test_no_more_log_lines_than_hundredths(monkeypatch, caplog):
    caplog.set_level("INFO", "keras_bert")
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    log = ProgressLog("Epoch 1", 10_000)
    for step in range(10_000):
        now += 10  # 28 hours
        log.at(step + 1, lambda: "loss 0.5")
    assert len(caplog.messages) == 99


def test_the_time_left_leaves_compilation_out(monkeypatch, caplog):
    """The first step takes ten minutes, later ones one second, and another one with a new shape five minutes."""
    caplog.set_level("INFO", "keras_bert")
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    log = ProgressLog("Epoch 1", 601)
    for step, seconds in enumerate([600, 1, 1, 300, *[1] * 300]):
        now += seconds
        log.at(step + 1, lambda: "loss 0.5")
    assert caplog.messages[0] == "Epoch 1: step 7 of 601 (1 %), about 10 minutes left, loss 0.5"
