"""Curves of a training, and the picture of a table of positions."""

import json

import numpy as np

from keras_bert.pictures import draw_curves, positions
from keras_bert.pictures.curves import only_a_picture
from keras_bert.pretraining.run import run_directory
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


def test_positions(tmp_path):
    positions(small.bert(), tmp_path / "positions.png")
    assert (tmp_path / "positions.png").read_bytes()[:8] == PNG


def test_a_picture_that_fails_is_only_logged(tmp_path, caplog):
    with only_a_picture(tmp_path / "curve.png"):
        raise OSError("no space")
    assert "Could not draw" in caplog.text
    assert "Received: OSError: no space" in caplog.text
