"""Reading examples in an order that depends only on the seed and the step."""

import os
import shutil
import time
from threading import Thread

import numpy as np
import pytest

from keras_bert.pretraining import read_examples
from keras_bert.pretraining.examples import example_order, record_files
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.pretraining.examples.read_examples import ExampleReader
from tests.pretraining.corpus import SPECIAL
from tests.pretraining.small_examples import batches, same, unmasked


def test_an_epoch_has_each_example_once_with_new_masks(dynamic):
    count = len(ExampleReader.open(dynamic))
    found = batches(dynamic, batch_size=1, epochs=2)
    assert len(found) == 2 * count
    epochs = [found[:count], found[count:]]
    first, second = ([unmasked(batch)[0] for batch in epoch] for epoch in epochs)
    assert sorted(first) == sorted(second)
    assert first != second
    shown = [{unmasked(b)[0]: b["x/masked_lm_positions"].tolist() for b in epoch} for epoch in epochs]
    assert sum(shown[0][row] != shown[1][row] for row in shown[0]) > 0.9 * len(shown[0])


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_reader_that_starts_anywhere_gets_the_same_batches(request, monkeypatch, kind):
    monkeypatch.setattr(example_order, "GROUP_SIZE", 200)  # several groups an epoch
    directory = request.getfixturevalue(kind)
    steps = 2 * len(ExampleReader.open(directory)) // 8
    all_ = batches(directory, steps, seed=3)
    for start in (1, steps // 2, steps - 3):
        assert same(batches(directory, steps - start, seed=3, start=start), all_[start:])
    assert not same(batches(directory, 2, seed=4), all_[:2])


@pytest.mark.parametrize(("kind", "group_size"), [("dynamic", 1), ("static", 200)])
def test_parts_make_the_global_batch(request, monkeypatch, kind, group_size):
    """Resumed at any step on any number of hosts, too."""
    monkeypatch.setattr(example_order, "GROUP_SIZE", group_size)
    directory = request.getfixturevalue(kind)
    steps = len(ExampleReader.open(directory)) // 12
    all_ = batches(directory, batch_size=12, epochs=1)
    assert len(all_) == steps
    for parts, start in ((2, 0), (3, steps // 2)):
        found = [
            batches(directory, batch_size=12, epochs=1, part=(index, parts), start=start) for index in range(parts)
        ]
        joined = [
            {name: np.concatenate([b[name] for b in step]) for name in step[0]} for step in zip(*found, strict=True)
        ]
        assert same(joined, all_[start:])


def test_a_host_copies_only_its_own_records(dynamic, monkeypatch):
    read, numbers = record_files._read_from, []
    monkeypatch.setattr(record_files, "_read_from", lambda *given: numbers.append(len(given[1])) or read(*given))
    count = len(batches(dynamic, batch_size=12, epochs=1, part=(1, 3)))
    assert sum(numbers) == count * 4


def test_a_file_that_stalls_is_named(dynamic, tmp_path, monkeypatch, caplog):
    """A pipe that nobody writes to blocks its reader, as a hanging disk or bucket does."""
    monkeypatch.setattr(record_files, "SECONDS_UNTIL_REPORTED", 0.05)
    shutil.copytree(dynamic, tmp_path / "a")
    reader = ExampleReader.open(tmp_path / "a")
    path = tmp_path / "a" / "examples-00000.tfrecord"
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)

    def answer():
        while f"{path} could not be read for" not in caplog.text:
            time.sleep(0.01)
        path.write_bytes(content)

    Thread(target=answer, daemon=True).start()
    assert len(list(reader.batches(8, epochs=1))) == len(reader) // 8


def test_a_file_that_cannot_be_read_is_named(dynamic, tmp_path):
    import tensorflow as tf

    shutil.copytree(dynamic, tmp_path / "a")
    reader = ExampleReader.open(tmp_path / "a")
    (tmp_path / "a" / "examples-00000.tfrecord").unlink()
    with pytest.raises(tf.errors.OpError, match=r"examples-00000\.tfrecord could not be read\. Check its disk"):
        list(reader.batches(8, epochs=1))


def test_rows_that_fill_the_last_batch_have_no_weight(static):
    reader = ExampleReader.open(static)
    size = len(reader) - 1
    assert size > len(reader) // 2
    parts = [list(reader.batches(2 * size, part=(index, 2), epochs=1, fill=True)) for index in range(2)]
    assert [len(part) for part in parts] == [1, 1]
    real = np.concatenate([part[0][2]["nsp_logits"] for part in parts])
    assert real.tolist() == [1.0] * len(reader) + [0.0] * (size - 1)
    masked = sum(float(weight["mlm_logits"].numpy().sum()) for part in parts for _, _, weight in part)
    assert masked == sum(float(weight["mlm_logits"].numpy().sum()) for _, _, weight in reader.batches(1, epochs=1))


def test_starting_later_does_not_read_the_shards_before(dynamic, tmp_path, monkeypatch):
    monkeypatch.setattr(example_order, "GROUP_SIZE", 1)  # a shard at a time
    shutil.copytree(dynamic, tmp_path / "a")
    reader = ExampleReader.open(tmp_path / "a")
    step = len(reader) // 8 - 2
    needed = {name for later in range(step, step + 2) for name in reader.shards_at(later, 8)}
    for path in (tmp_path / "a").glob("*.tfrecord"):
        if str(path) not in needed:
            path.unlink()
    assert 0 < len(needed) < len(reader.paths)
    assert same(
        [
            {f"x/{name}": value.numpy() for name, value in batch[0].items()}
            for batch in reader.batches(8, start=step).take(2)
        ],
        [{name: value for name, value in batch.items() if name[0] == "x"} for batch in batches(dynamic, 2, start=step)],
    )


def test_another_vocabulary_beside_the_examples(dynamic, tmp_path):
    shutil.copytree(dynamic, tmp_path / "a")
    (tmp_path / "a" / "vocab.txt").write_text("\n".join([*SPECIAL, *"zyx"]))
    with pytest.raises(ValueError, match=r"vocab\.txt is not the vocabulary.*Restore that vocabulary"):
        read_examples(tmp_path / "a", batch_size=1)


@pytest.mark.parametrize("harm", ["cut", "cut at a record", "flip", "remove"])
def test_damaged_shards(dynamic, tmp_path, harm, caplog):
    import tensorflow as tf

    shutil.copytree(dynamic, tmp_path / "a")
    path = tmp_path / "a" / "examples-00002.tfrecord"
    data = path.read_bytes()
    if harm == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif harm == "cut at a record":
        path.write_bytes(data[: record_files._begins(str(path), data, ExampleReader.open(dynamic).counts[2] // 2)[-1]])
    elif harm == "flip":
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
    else:
        path.unlink()
    error = tf.errors.InvalidArgumentError if harm == "flip" else ValueError
    with pytest.raises(error, match=r"examples-00002\.tfrecord are damaged or incomplete"):
        batches(tmp_path / "a", epochs=1)
    reader = ExampleReader.open(tmp_path / "a", damaged="skip")
    undamaged = ExampleReader.open(dynamic)
    left = dict(zip(reader.paths, reader.counts, strict=True)).get(str(path), 0)
    assert 0.3 * undamaged.counts[2] < left < 0.7 * undamaged.counts[2] or (harm == "remove" and left == 0)
    assert len(reader) == len(undamaged) - undamaged.counts[2] + left
    assert "examples-00002" in caplog.text
    assert len(batches(tmp_path / "a", batch_size=1, epochs=1, damaged="skip")) == len(reader)


def test_a_bucket_that_is_unavailable_is_not_damaged(dynamic, monkeypatch):
    import tensorflow as tf

    def fail(*_, **__):
        raise tf.errors.UnavailableError(None, None, "try again")

    monkeypatch.setattr(tf.data, "TFRecordDataset", fail)
    with pytest.raises(OSError, match=r"Could not read .*tfrecord: try again"):
        ExampleReader.open(dynamic, damaged="skip")


def test_a_rate_of_zero():
    with pytest.raises(ValueError, match="`rate` must be above 0"):
        Masking(rate=0)


def test_no_readable_example(dynamic, tmp_path):
    shutil.copytree(dynamic, tmp_path / "a")
    for path in (tmp_path / "a").glob("*.tfrecord"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="a holds no example"):
        ExampleReader.open(tmp_path / "a", damaged="skip")


def test_bad_arguments(dynamic, tmp_path):
    for bad in (
        {"part": (0, 3)},
        {"part": (2, 2)},
        {"batch_size": 0},
        {"start": -1},
        {"damaged": "no"},
        {"batch_size": 10**6, "epochs": 1},
    ):
        with pytest.raises(ValueError, match="Received: "):
            read_examples(dynamic, **{"batch_size": 8} | bad)
    with pytest.raises(FileNotFoundError, match="none"):
        read_examples(tmp_path / "none", batch_size=1)
    (tmp_path / "odd.tfrecord").write_bytes((dynamic / "examples-00000.tfrecord").read_bytes())
    with pytest.raises(ValueError, match=r"odd\.tfrecord has no.*input_mask"):
        read_examples(tmp_path / "odd.tfrecord", batch_size=1)
