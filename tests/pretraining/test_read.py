"""Reading our records, Google's and Model Garden's, in an order that depends only on the seed and the step."""

import os
import random
import shutil
import time
from threading import Thread

import numpy as np
import pytest

from keras_bert.pretraining import read_examples
from keras_bert.pretraining.examples import example_order, record_files
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.pretraining.examples.read_examples import ExampleReader
from keras_bert.text.vocabulary import Vocabulary
from tests.parity import google_pairs
from tests.pretraining.corpus import SPECIAL, VOCABULARY
from tests.pretraining.small_examples import batches, rows_of, same, unmasked

CLS, SEP, PAD, MASK = (VOCABULARY[token] for token in ("[CLS]", "[SEP]", "[PAD]", "[MASK]"))


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


def test_googles_reader_reads_ours(static):
    """The features that google-research/bert's run_pretraining.py asks for, by its published names and types."""
    import tensorflow as tf

    features = {name: tf.io.FixedLenFeature([32], tf.int64) for name in ("input_ids", "input_mask", "segment_ids")}
    features |= {name: tf.io.FixedLenFeature([6], tf.int64) for name in ("masked_lm_positions", "masked_lm_ids")}
    features["masked_lm_weights"] = tf.io.FixedLenFeature([6], tf.float32)
    features["next_sentence_labels"] = tf.io.FixedLenFeature([1], tf.int64)
    dataset = tf.data.TFRecordDataset(sorted(map(str, static.glob("*.tfrecord")))).map(
        lambda record: tf.io.parse_single_example(record, features)
    )
    theirs = sorted(
        (example["input_ids"].numpy().tolist(), int(example["next_sentence_labels"][0])) for example in dataset
    )
    ours = sorted(
        (batch["x/input_word_ids"][0].tolist(), int(batch["y/nsp_logits"][0]))
        for batch in batches(static, batch_size=1, epochs=1)
    )
    assert theirs == ours


@pytest.mark.long
@pytest.mark.parametrize("garden", [False, True])
def test_gardens_reader_reads_what_we_read(static, tmp_path, garden):
    from official.nlp.data.pretrain_dataloader import BertPretrainDataConfig, BertPretrainDataLoader

    path = static / "examples-00000.tfrecord"
    if garden:
        path = respelled(path, tmp_path / "garden.tfrecord")
    params = BertPretrainDataConfig(
        input_path=str(path),
        global_batch_size=4,
        is_training=False,
        drop_remainder=False,
        seq_length=32,
        max_predictions_per_seq=6,
        use_v2_feature_names=garden,
    )
    theirs = sorted(
        (row["input_word_ids"], row["input_type_ids"], row["masked_lm_ids"], row["next_sentence_labels"])
        for batch in BertPretrainDataLoader(params).load()
        for row in rows_of({name: value.numpy() for name, value in batch.items()})
    )
    ours = sorted(
        (row["x/input_word_ids"], row["x/input_type_ids"], row["y/mlm_logits"], [row["y/nsp_logits"]])
        for batch in batches(path, batch_size=1, epochs=1)
        for row in rows_of(batch)
    )
    assert theirs == ours


def respelled(path, to):
    """A copy with Model Garden's names."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(to)) as file:
        for record in tf.data.TFRecordDataset(str(path)):
            example = tf.train.Example.FromString(record.numpy())
            for theirs, ours in (("input_word_ids", "input_ids"), ("input_type_ids", "segment_ids")):
                example.features.feature[theirs].CopyFrom(example.features.feature.pop(ours))
            file.write(example.SerializeToString())
    return to


@pytest.fixture
def googles(tmp_path):
    """Records as Google's script writes them, and the examples in them."""
    import tensorflow as tf

    chance = random.Random(0)
    pieces = list(VOCABULARY.tokens)
    texts = [[[chance.choice(pieces[6:]) for _ in range(9)] for _ in range(9)] for _ in range(9)]
    found = google_pairs.examples_of(texts, seq_length=32, pieces=pieces, chance=chance, max_predictions=5)
    path = tmp_path / "google.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for example in found:
            ids = [VOCABULARY[piece] for piece in example["tokens"]]
            count, length = len(example["labels"]), len(ids)
            ints = {
                "input_ids": ids + [0] * (32 - length),
                "input_mask": [1] * length + [0] * (32 - length),
                "segment_ids": example["segment_ids"] + [0] * (32 - length),
                "masked_lm_positions": example["positions"] + [0] * (5 - count),
                "masked_lm_ids": [VOCABULARY[piece] for piece in example["labels"]] + [0] * (5 - count),
                "next_sentence_labels": [int(example["is_random_next"])],
            }
            features = {n: tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for n, v in ints.items()}
            weights = tf.train.FloatList(value=[1.0] * count + [0.0] * (5 - count))
            features["masked_lm_weights"] = tf.train.Feature(float_list=weights)
            record = tf.train.Example(features=tf.train.Features(feature=features))
            file.write(record.SerializeToString())
            example |= ints
    return path, found


def test_googles_records_are_read(googles):
    path, want = googles
    found = batches(path, batch_size=1, epochs=1, vocabulary=VOCABULARY)
    got = sorted(
        (
            batch["x/input_word_ids"][0].tolist(),
            batch["x/input_mask"][0].tolist(),
            batch["x/input_type_ids"][0].tolist(),
            batch["x/masked_lm_positions"][0].tolist(),
            batch["y/mlm_logits"][0].tolist(),
            [int(batch["y/nsp_logits"][0])],
            int(batch["w/mlm_logits"].sum()),
        )
        for batch in found
    )
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels")
    assert got == sorted((*(example[name] for name in names), len(example["labels"])) for example in want)
    with pytest.raises(ValueError, match="are masked already"):
        read_examples(path, batch_size=1, masking=Masking())


def test_a_vocabulary_that_does_not_fit(dynamic, googles):
    import tensorflow as tf

    small = Vocabulary(VOCABULARY.tokens[:10])
    with pytest.raises(ValueError, match=r"not that of the examples in .*dynamic"):
        read_examples(dynamic, batch_size=1, vocabulary=small)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ids beyond the 10 pieces"):
        batches(googles[0], vocabulary=small)


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


def test_a_large_file_is_read_in_ranges(googles, monkeypatch):
    path, want = googles
    whole = batches(path, batch_size=1, epochs=1)
    for module in (example_order, record_files):
        monkeypatch.setattr(module, "GROUP_SIZE", 10)
    read, sizes = record_files.read_bytes, []
    monkeypatch.setattr(record_files, "read_bytes", lambda *given: sizes.append(given[2]) or read(*given))
    found = batches(path, batch_size=1, epochs=1)
    assert len(sizes) == -(-len(want) // 10)
    assert sum(sizes) == path.stat().st_size
    assert sorted(map(unmasked, found)) == sorted(map(unmasked, whole))
    assert same(batches(path, batch_size=1, epochs=1, damaged="skip"), found)


def test_a_rate_of_zero():
    with pytest.raises(ValueError, match="`rate` must be above 0"):
        Masking(rate=0)


def test_no_readable_example(dynamic, tmp_path):
    shutil.copytree(dynamic, tmp_path / "a")
    for path in (tmp_path / "a").glob("*.tfrecord"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="a holds no example"):
        ExampleReader.open(tmp_path / "a", damaged="skip")


def test_a_file_of_google_that_is_cut_off(googles, tmp_path):
    path, want = googles
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"google\.tfrecord are damaged.*within record"):
        read_examples(path, batch_size=1)
    assert len(batches(path, batch_size=1, epochs=1, damaged="skip")) == len(want) - 1


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
