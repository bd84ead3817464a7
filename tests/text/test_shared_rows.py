"""Where the texts of a batch go in the rows that they share."""

import numpy as np
import pytest

from keras_bert.text import tokenized_rows
from keras_bert.text.numpy_ragged import RaggedTensor
from keras_bert.text.packing import Packer
from keras_bert.text.shared_rows import SharedRows, alike
from keras_bert.text.tokenized_rows import TokenizedRows


def ragged(count, seed=0, mean=25, most=128):
    """Lengths like those of sentences."""
    lengths = np.random.default_rng(seed).gamma(4, mean / 4, count)
    return np.clip(lengths.round(), 2, most).astype(int)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 200])
def test_every_token_has_one_place_and_texts_are_whole(count):
    lengths, width = ragged(count), 128
    found = SharedRows.of([lengths]).sources(lengths, width)
    tokens = [text * width + place for text, length in enumerate(lengths) for place in range(length)]
    assert sorted(found[found < count * width]) == tokens
    for text, length in enumerate(lengths):
        row, start = np.argwhere(found == text * width)[0]
        assert found[row, start : start + length].tolist() == list(range(text * width, text * width + length))


def test_an_epoch_has_every_example_once_in_batches_of_similar_size():
    lengths = ragged(1003)
    noise = np.random.default_rng(1).random(1003)
    batches = alike(np.random.default_rng(2).permutation(1003), lengths, 32, noise)
    assert [len(batch) for batch in batches] == [32] * 31 + [11]
    assert sorted(np.concatenate(batches)) == list(range(1003))
    totals = [lengths[batch].sum() for batch in batches[:-1]]
    assert max(totals) < 1.1 * min(totals)
    again = alike(np.random.default_rng(2).permutation(1003), lengths, 32, noise[::-1].copy())
    shared = [len(set(one) & set(other)) for one, other in zip(batches[:-1], again[:-1], strict=True)]
    assert np.mean(shared) < 4  # of 32; one is chance


@pytest.mark.parametrize("mean", [10, 25, 60])
def test_few_shapes_with_little_padding(mean):
    lengths = ragged(5000, mean=mean)
    epochs = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        epochs.append([lengths[index] for index in alike(rng.permutation(5000), lengths, 32, rng.random(5000))])
    shared = SharedRows.of(epochs[0])
    shapes = [shared.shape(batch) for epoch in epochs for batch in epoch]
    assert len(set(shapes)) <= 4
    assert 3 * lengths.sum() / sum(np.prod(shapes, axis=1)) > 0.95


def test_a_batch_that_is_fuller_than_any_before_still_fits():
    shared = SharedRows.of([np.full(8, 10)])
    rows, width = shared.shape(np.full(8, 90))
    assert width % shared.widths[-1] == 0
    assert rows * width >= 720


def test_batches_of_positions_that_are_filled_to_a_power_of_two(monkeypatch):
    """The runner of a backend that compiles each shape fills them; the limit holds then too."""
    monkeypatch.setattr(tokenized_rows, "shares_rows", lambda: True)
    lengths = np.full(136, 30)
    ids = RaggedTensor(np.zeros(lengths.sum() - 2 * 136, "int32"), np.concatenate([[0], np.cumsum(lengths - 2)]))
    rows = TokenizedRows([ids], Packer(2, 3, 0, max_length=128))
    assert [len(batch) for batch in rows.by_length(tokens=4096)] == [128, 8]
