"""Curves of a training, and the picture of a table of positions."""

import json

import numpy as np

from keras_bert.pictures import draw_curves, positions
from keras_bert.pictures.curves import only_a_picture
from keras_bert.pretraining.run import run_directory
from keras_bert.training.metrics_log import MetricsLog
from tests.pictures import small

PNG = b"\x89PNG\r\n\x1a\n"


def test_panels():
    loss = {"training": ([1, 2, 3], [0.7, 0.5, 0.4]), "validation": ([2, 3], [0.6, 0.7])}
    figure = draw_curves({"loss": loss, "accuracy": {"validation": ([2, 3], [0.5, 0.4])}, "f1": {}}, "epoch", kept=2)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["loss", "accuracy", "f1"]  # the fourth is gone
    assert {axes.get_xlabel() for axes in figure.axes} == {"epoch"}
    training, validation, kept = figure.axes[0].lines
    np.testing.assert_array_equal(training.get_xydata(), np.transpose(loss["training"]))
    np.testing.assert_array_equal(validation.get_xydata(), np.transpose(loss["validation"]))
    assert (set(kept.get_xdata()), kept.get_label()) == ({2}, "kept: epoch 2")


def test_pretraining(tmp_path, monkeypatch):
    records = [
        {"step": 10, "masked_lm_loss": 3.0, "masked_lm_accuracy": 0.1, "tokens": 9.0},
        {"step": 20, "masked_lm_loss": 2.0, "masked_lm_accuracy": 0.2, "tokens": 9.0},
        {"step": 20, "validation_masked_lm_loss": 2.5},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    seen = []
    monkeypatch.setattr(run_directory, "draw_curves", lambda *given: seen.append(given) or draw_curves(*given))
    run_directory.draw_curve(str(tmp_path))
    loss = {"training": ((10, 20), (3.0, 2.0)), "validation": ((20,), (2.5,))}
    assert seen == [({"masked lm loss": loss, "masked lm accuracy": {"training": ((10, 20), (0.1, 0.2))}}, "step")]
    assert (tmp_path / "curve.png").read_bytes()[:8] == PNG


def test_what_the_log_measures_is_drawn(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        run_directory, "draw_curves", lambda panels, step: seen.update(panels) or draw_curves(panels, step)
    )
    means = {"masked_lm_loss": 2.5, "tokens": 1500.0, "learning_rate": 1e-4}
    options = {"batch_size": 16, "seq_length": 128, "peak": 1e6, "flops_per_token": 50.0}
    with MetricsLog(str(tmp_path), start=0, steps=20, **options) as log:
        log(10, means, loop_steps=10, seconds=9.0)
        log(20, means, loop_steps=10, seconds=2.0)
    run_directory.draw_curve(str(tmp_path))
    drawn = {title: curves["training"] for title, curves in seen.items()}
    padding = 1 - 1500 / 2048
    assert drawn == {
        "masked lm loss": ((10, 20), (2.5, 2.5)),
        "learning rate": ((10, 20), (1e-4, 1e-4)),
        "padding share": ((10, 20), (padding, padding)),
        "examples per second": ((20,), (80.0,)),
        "share of peak": ((20,), (0.375,)),
    }


def test_positions(tmp_path):
    positions(small.bert(), tmp_path / "positions.png")
    assert (tmp_path / "positions.png").read_bytes()[:8] == PNG


def test_a_picture_that_fails_is_only_logged(tmp_path, caplog):
    with only_a_picture(tmp_path / "curve.png"):
        raise OSError("no space")
    assert "Could not draw" in caplog.text
    assert "Received: OSError: no space" in caplog.text
