"""Records of Google's code and of Model Garden's: we read theirs, and they read ours."""

import random

import pytest

from keras_bert.pretraining import read_examples
from keras_bert.pretraining.examples import example_order, record_files
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.text.vocabulary import Vocabulary
from tests.parity import google_pairs
from tests.pretraining.corpus import VOCABULARY
from tests.pretraining.small_examples import batches, rows_of, same, unmasked


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


def test_files_with_records_of_two_lengths(googles, static):
    message = r"google\.tfrecord differ from those of .*examples-.*Received: predictions=5 instead of 6"
    with pytest.raises(ValueError, match=message):
        read_examples([*static.glob("*.tfrecord"), googles[0]], batch_size=1)


def test_a_file_of_google_that_is_cut_off(googles, tmp_path):
    path, want = googles
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"google\.tfrecord are damaged.*within record"):
        read_examples(path, batch_size=1)
    assert len(batches(path, batch_size=1, epochs=1, damaged="skip")) == len(want) - 1
