"""What is in the examples that were written: pairs, full sentences, and masks."""

import math

import numpy as np
import pytest

from keras_bert.pretraining import write_examples
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.text.vocabulary import Vocabulary
from tests.pretraining.corpus import SPECIAL, VOCABULARY
from tests.pretraining.small_examples import batches, unmasked, write

CLS, SEP, PAD = (VOCABULARY[token] for token in ("[CLS]", "[SEP]", "[PAD]"))


def test_rows_of_pairs(dynamic):
    for batch in batches(dynamic, epochs=1):
        assert batch["x/input_word_ids"].dtype == batch["y/mlm_logits"].dtype == np.int32
        assert batch["x/masked_lm_positions"].shape == (8, 5)
        for ids, types, label in zip(unmasked(batch), batch["x/input_type_ids"], batch["y/nsp_logits"], strict=True):
            middle = ids.index(SEP)
            assert (ids[0], ids[-1], ids.count(SEP)) == (CLS, SEP, 2)
            assert types.tolist() == [0] * (middle + 1) + [1] * (len(ids) - middle - 1) + [0] * (32 - len(ids))
            assert label in (0, 1)
        assert (batch["x/input_word_ids"][batch["x/input_mask"] == 0] == PAD).all()


def test_next_segments_follow_the_first(tmp_path):
    """By documents in which each sentence shows its place."""
    letters = [f"{a} {b}" for a in "abcdefghij" for b in "abcdefghij"]
    texts = ["\n".join(f"{number} {letter}." for number, letter in zip("abcdefghij" * 10, letters, strict=True))] * 9
    write(iter(texts), tmp_path / "a", short_seq_prob=0, sentences="line")
    text = [VOCABULARY[piece] for piece in texts[0].replace(".", " .").split()]
    places = {tuple(text[begin : begin + 12]): begin for begin in range(len(text) - 12)}
    seen = 0
    for batch in batches(tmp_path / "a", epochs=1):
        for ids, label in zip(unmasked(batch), batch["y/nsp_logits"], strict=True):
            middle = ids.index(SEP)
            a, b = ids[1:middle], ids[middle + 1 : -1]
            if label == 0 and len(a) >= 12 and len(b) >= 12:
                between = places[b[:12]] - places[a[:12]] - len(a)
                assert 0 <= between <= 30  # what truncation took from a's end and b's front
                seen += 1
    assert seen > 20


def test_without_pairs_rows_are_full_sentences(source, tmp_path):
    write(source, tmp_path / "a", nsp=False)
    found = batches(tmp_path / "a", epochs=1)
    assert "y/nsp_logits" not in found[0]
    assert "w/nsp_logits" not in found[0]
    rows = [row for batch in found for row in unmasked(batch)]
    assert np.mean([len(row) for row in rows]) > 24
    assert all(row[0] == CLS and row[-1] == SEP for row in rows)
    assert not any(batch["x/input_type_ids"].any() for batch in found)


def test_static_and_dynamic_examples_are_the_same_pairs(source, tmp_path):
    write(source, tmp_path / "dynamic")
    write(source, tmp_path / "static", mode="static", dupe_factor=1)
    rows = [
        sorted(row for batch in batches(tmp_path / name, epochs=1, batch_size=1) for row in unmasked(batch))
        for name in ("dynamic", "static")
    ]
    assert rows[0] == rows[1]


@pytest.mark.long
@pytest.mark.parametrize("whole_word", [False, True])
def test_statistics_over_a_million_positions_of_books(shared, minilm, tmp_path, whole_word):
    books = sorted((shared / "books").glob("A*.md"))
    masking = Masking(whole_word=whole_word)
    write_examples(
        books, tmp_path / "a", vocabulary=minilm / "vocab.txt", masking=masking, shard_size=1_000_000, workers=1
    )
    vocabulary = Vocabulary.from_file(minilm / "vocab.txt")
    special = [vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]")]
    never = [
        number for number, token in enumerate(vocabulary) if token[0] == "[" and token[-1] == "]" and len(token) > 1
    ]
    positions = chosen = masks = kept = 0
    for batch in batches(tmp_path / "a", batch_size=256, epochs=1):
        real = batch["w/mlm_logits"] > 0
        shown = np.take_along_axis(batch["x/input_word_ids"], batch["x/masked_lm_positions"], axis=1)[real]
        truth = batch["y/mlm_logits"][real]
        positions += int(batch["x/input_mask"].sum()) - 3 * len(real)
        chosen += int(real.sum())
        masks += int((shown == vocabulary["[MASK]"]).sum())
        kept += int((shown == truth).sum())
        assert not np.isin(truth, special).any()
        assert not np.isin(shown[(shown != vocabulary["[MASK]"])], never).any()
    assert positions > 1_000_000
    by_chance = 0.1 / (len(vocabulary) - len(never))  # a random piece that is the true one
    for count, total, want in (
        (chosen, positions, 0.15),
        (masks, chosen, 0.8),
        (kept, chosen, 0.1 + by_chance),
        (chosen - masks - kept, chosen, 0.1 - by_chance),
    ):
        assert abs(count / total - want) < 3 * math.sqrt(want * (1 - want) / total)


def test_a_vocabulary_of_more_than_two_bytes(source, tmp_path):
    pieces = [*SPECIAL, *(f"piece{number}" for number in range(70_000)), *VOCABULARY.tokens[len(SPECIAL) :]]
    write(source, tmp_path / "a", vocabulary=Vocabulary(pieces))
    ids = {piece for batch in batches(tmp_path / "a", epochs=1) for row in unmasked(batch) for piece in row}
    assert ids == {CLS, SEP, *range(70_006, len(pieces))}
