"""What a run reports of its progress."""

import logging

import pytest

from keras_bert import storage
from keras_bert.training.metrics_log import MetricsFiles, MetricsLog, read_metrics


def test_a_loop_is_reported_with_its_rates(tmp_path, caplog):
    caplog.set_level("INFO", logger="keras_bert")
    means = {"masked_lm_loss": 2.5, "tokens": 1500.0, "learning_rate": 1e-4}
    with MetricsLog(
        str(tmp_path), start=0, steps=30, batch_size=16, seq_length=128, peak=1e6, flops_per_token=50.0
    ) as log:
        for step, seconds in ((10, 100.0), (20, 2.0), (30, 4.0)):
            log(step, means, loop_steps=10, seconds=seconds)
    first, second, third = read_metrics(f"{tmp_path}/metrics.jsonl")
    assert set(first) == {"step", *means, "padding_share"}  # the seconds of the first loop are those of compiling
    assert second["padding_share"] == pytest.approx(1 - 1500 / 2048)
    assert (second["seconds_per_step"], second["examples_per_second"], second["tokens_per_second"]) == (0.2, 80, 7500)
    assert second["share_of_peak"] == pytest.approx(0.375)
    assert third["examples_per_second"] == 40
    assert caplog.messages[-1] == (
        "step 30 of 30, masked_lm_loss 2.5, learning rate 0.0001, 27% padding, 40 examples/s, 3,750 tokens/s, "
        "19% of the peak (MFU), 0:00:00 left"
    )


def test_the_first_line_has_no_time_left(caplog):
    with caplog.at_level(logging.INFO, logger="keras_bert"), MetricsLog(None, start=0, steps=10, batch_size=4) as log:
        log(10, {"loss": 1.0, "tokens": 9.0}, loop_steps=10, seconds=60.0)
    assert caplog.messages == ["step 10 of 10, loss 1"]


def test_a_loss_that_is_not_a_number(tmp_path):
    """It is null, since JSON has no NaN."""
    for start in (0, 1):  # a run that resumes reads the file
        files = MetricsFiles(str(tmp_path), start=start)
        files.write({"step": start + 1, "loss": float("nan")})
        files.close()
    assert read_metrics(files.path) == [{"step": 1, "loss": None}, {"step": 2, "loss": None}]


def test_a_remote_file_is_written_at_checkpoints():
    """Not for each record, since a remote file is uploaded whole each time."""
    files = MetricsFiles("ram://metrics", start=0)
    for step in (1, 2):
        files.write({"step": step})
    assert not storage.exists(files.path)
    files.flush()
    files.write({"step": 3})
    assert read_metrics(files.path) == [{"step": 1}, {"step": 2}]
    files.close()
    assert [record["step"] for record in read_metrics(files.path)] == [1, 2, 3]
