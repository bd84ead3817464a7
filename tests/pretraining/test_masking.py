import random

import numpy as np
import pytest

from keras_bert.pretraining.examples import masking
from keras_bert.pretraining.examples.masking import Masker, Masking
from tests.parity import google_pairs
from tests.pretraining.corpus import SPECIAL, VOCABULARY

CLS, SEP, PAD, MASK = (VOCABULARY[token] for token in ("[CLS]", "[SEP]", "[PAD]", "[MASK]"))
LETTERS = range(len(SPECIAL), len(VOCABULARY))


def rows(count, length=64, seed=0):
    """Pairs of random pieces, full and short."""
    chance = random.Random(seed)
    ids = np.full([count, length], PAD, np.int32)
    for row in ids:
        a = [chance.choice(LETTERS) for _ in range(chance.randint(1, length // 2 - 2))]
        b = [chance.choice(LETTERS) for _ in range(chance.randint(1, length // 2 - 2))]
        row[: len(a) + len(b) + 3] = [CLS, *a, SEP, *b, SEP]
    return ids


def masked(ids, seed=(0, 0), part=(0, 1), **masking):
    masker = Masker(Masking(**masking), VOCABULARY, ids.shape[1])
    return {name: value.numpy() for name, value in masker(ids, list(seed), part).items()}


def words_of(row):
    """The places of the words of a row, by Google's whole-word rule."""
    found = []
    for place, piece in enumerate(row):
        if piece in (CLS, SEP, PAD):
            continue
        begins = not VOCABULARY.token(int(piece)).startswith("##") or row[place - 1] in (CLS, SEP)
        if begins:
            found.append([])
        found[-1].append(place)
    return found


@pytest.mark.parametrize("whole_word", [False, True])
def test_positions_ids_and_weights_agree(whole_word):
    ids = rows(200)
    found = masked(ids, whole_word=whole_word)
    for row in range(len(ids)):
        weights = found["masked_lm_weights"][row]
        count = int(weights.sum())
        assert weights.tolist() == [1] * count + [0] * (10 - count)  # 10 is 15 % of 64, rounded up
        places = found["masked_lm_positions"][row, :count]
        assert sorted(set(places)) == places.tolist()
        assert found["masked_lm_ids"][row, :count].tolist() == ids[row, places].tolist()
        assert not found["masked_lm_positions"][row, count:].any()
        assert not found["masked_lm_ids"][row, count:].any()
        untouched = np.setdiff1d(np.arange(64), places)
        assert (found["input_ids"][row, untouched] == ids[row, untouched]).all()
        assert not np.isin(ids[row, places], [CLS, SEP, PAD]).any()


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("rates", [(0.15, 0.8, 0.1), (0.3, 0.5, 0.5), (0.2, 0.0, 0.0)])
def test_rates_are_met_within_three_sigma(whole_word, rates):
    rate, mask, other = rates
    ids = rows(20_000)
    # With room for a last word; at the default number of positions, whole words are a little below the rate.
    found = masked(ids, rate=rate, mask=mask, random=other, whole_word=whole_word, max_predictions=24)
    open_ = ~np.isin(ids, [CLS, SEP, PAD])
    chosen = found["masked_lm_weights"].sum()
    assert abs(chosen / open_.sum() - rate) < 3 * np.sqrt(rate * (1 - rate) / open_.sum())
    real = found["masked_lm_weights"] > 0
    shown = np.take_along_axis(found["input_ids"], found["masked_lm_positions"], axis=1)[real]
    truth = found["masked_lm_ids"][real]
    # A random piece may be the true one.
    kept = 1 - mask - other + other / len(LETTERS)
    for share, want in (((shown == MASK).mean(), mask), ((shown == truth).mean(), kept)):
        assert abs(share - want) <= 3 * np.sqrt(want * (1 - want) / chosen)
    replaced = shown[(shown != MASK) & (shown != truth)]
    assert not np.isin(replaced, [VOCABULARY[token] for token in SPECIAL]).any()
    if other:
        counts = np.bincount(replaced, minlength=len(VOCABULARY))[len(SPECIAL) :]
        assert abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())


def test_all_places_are_equally_likely():
    ids = np.array([[CLS, *[LETTERS[0]] * 62, SEP]] * 30_000, np.int32)
    found = masked(ids)
    counts = np.bincount(found["masked_lm_positions"][found["masked_lm_weights"] > 0], minlength=64)
    assert counts[0] == counts[63] == 0
    want = 0.15 * 30_000
    assert abs(counts[1:63] - want).max() < 4.5 * np.sqrt(want * 0.85)


def test_all_pieces_of_a_word_are_chosen():
    ids = rows(500)
    found = masked(ids, whole_word=True)
    several = 0
    for row in range(len(ids)):
        places = set(found["masked_lm_positions"][row][found["masked_lm_weights"][row] > 0].tolist())
        for word in words_of(ids[row]):
            assert len(places & set(word)) in (0, len(word))
            several += len(word) > 1 and word[0] in places
    assert several > 500


def test_whole_words_are_those_of_google():
    chance = random.Random(0)
    for row in rows(50):
        tokens = [VOCABULARY.token(int(piece)) for piece in row if piece != PAD]
        _, places, _ = google_pairs.mask(tokens, ["x"], chance, 1.0, 10**6, True)
        assert places == [place for word in words_of(row) for place in word]


def test_masks_depend_only_on_the_seed():
    ids = rows(8)
    first, again, other = masked(ids, (1, 5)), masked(ids, (1, 5)), masked(ids, (1, 6))
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["masked_lm_positions"] != other["masked_lm_positions"]).any()


def test_a_part_of_a_batch_has_the_masks_it_has_in_the_batch():
    ids = rows(12)
    batch = masked(ids, (1, 5))
    for index in range(3):
        part = masked(ids[4 * index : 4 * index + 4], (1, 5), (index, 3))
        assert all((part[name] == batch[name][4 * index : 4 * index + 4]).all() for name in part)


def test_rows_without_pieces():
    ids = np.array([[CLS, SEP, SEP, PAD], [CLS, LETTERS[0], SEP, PAD]], np.int32)
    found = masked(ids, rate=1.0)
    assert found["masked_lm_weights"].sum(1).tolist() == [0, 1]
    assert found["input_ids"][0].tolist() == ids[0].tolist()


def test_bad_rates_and_vocabularies():
    from keras_bert.text.vocabulary import Vocabulary

    for bad in ({"rate": 1.5}, {"mask": 0.8, "random": 0.3}, {"max_predictions": 0}):
        with pytest.raises(ValueError, match="Received: "):
            Masking(**bad)
    with pytest.raises(ValueError, match=r"has no \[MASK\]"):
        Masker(Masking(), Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]), 8)
    with pytest.raises(ValueError, match="only special pieces"):
        Masker(Masking(), Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]"]), 8)


@pytest.mark.parametrize(("rows", "parts", "length"), [(1, 1, 3), (3, 5, 7), (4, 2, 16), (5, 3, 1)])
def test_the_noise_of_a_part_is_that_of_the_whole_batch(rows, parts, length):
    import tensorflow as tf

    for seed in ([3, 5], [2**62, -1]):
        whole = tf.random.stateless_uniform([4, rows * parts, length], seed, alg="philox").numpy()
        for index in range(parts):
            found = [draw.numpy() for draw in masking._noise(seed, rows, length, (index, parts))]
            np.testing.assert_array_equal(found, whole[:, rows * index : rows * (index + 1)])
