import random
from itertools import accumulate

import numpy as np
import pytest

from keras_bert.corpus.documents import read_documents
from keras_bert.corpus.sentences import sentences_of
from keras_bert.pretraining.examples.pairs import full_spans, pair_spans
from tests.parity import google_pairs


def lengths(documents=40, sentences=30, longest=25, seed=0):
    chance = random.Random(seed)
    return [[chance.randint(1, longest) for _ in range(chance.randint(1, sentences))] for _ in range(documents)]


def as_pieces(documents):
    """Each piece is its own place in the shard, so that a segment shows its span."""
    count = iter(range(10**9))
    return [[[next(count) for _ in range(length)] for length in document] for document in documents]


@pytest.mark.parametrize("short_seq_prob", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_valid_by_googles_algorithm(seed, short_seq_prob):
    documents = lengths(seed=seed)
    spans = pair_spans(documents, room=61, short_seq_prob=short_seq_prob, chance=random.Random(seed))
    document_of = np.repeat(range(len(documents)), [sum(document) for document in documents])
    for a, a_end, b, b_end, label in spans.tolist():
        assert a_end - a > 0
        assert b_end - b > 0
        assert a_end - a + b_end - b <= 61
        assert document_of[a] == document_of[a_end - 1]
        assert document_of[b] == document_of[b_end - 1]
        assert (document_of[a] == document_of[b]) == (label == 0)
        if label == 0:
            assert a_end <= b


@pytest.mark.parametrize("longest", [25, 8 * 61])
@pytest.mark.parametrize("seed", range(20))
def test_the_same_draws_give_googles_pairs(seed, longest):
    def another(chance, count, index):  # one draw, where google may need ten
        other = chance.randrange(count - 1)
        return other + (other >= index)

    documents = lengths(documents=10, longest=longest, seed=seed)
    pieces = as_pieces(documents)
    chance = random.Random(seed)
    want = [pair for index in range(10) for pair in google_pairs.pairs_of(pieces, index, 61, 0.5, chance, another)]
    got = pair_spans(documents, room=61, short_seq_prob=0.5, chance=random.Random(seed))
    assert [(a[0], a[-1] + 1, b[0], b[-1] + 1, int(label)) for a, b, label in want] == [*map(tuple, got.tolist())]


def test_very_long_sentences_take_few_draws():
    """Of a sentence of a million pieces, as in a text without spaces, as many are cut in front as at the end."""
    size, draws = 1_000_000, [0]

    class Counted(random.Random):
        def random(self):
            draws[0] += 1
            return super().random()

    spans = pair_spans([[size]] * 100, room=61, short_seq_prob=0, chance=Counted(0))
    assert draws[0] < 100 * 20 * 61
    assert (spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2] == 61).all()
    cut = np.concatenate([spans[:, 0], spans[:, 2]]) % size  # in front
    deviation = np.sqrt(size) / 2
    assert abs(cut.mean() - size / 2) < 4 * deviation / np.sqrt(200)
    assert 0.7 * deviation < cut.std() < 1.3 * deviation


@pytest.mark.long
def test_statistics_are_googles():
    documents = lengths(documents=400, seed=3)
    want = [
        pair
        for index in range(400)
        for pair in google_pairs.pairs_of(as_pieces(documents), index, 61, 0.1, random.Random(index))
    ]
    got = np.concatenate(
        [pair_spans(documents, room=61, short_seq_prob=0.1, chance=random.Random(seed)) for seed in range(3)]
    )
    ours = {"rows": len(got) / 3, "random": got[:, 4].mean()}
    assert abs(ours["rows"] - len(want)) < 0.03 * len(want)
    share = np.mean([label for _, _, label in want])
    assert abs(ours["random"] - share) < 3 * np.sqrt(0.25 / len(want) + 0.25 / len(got))


def test_half_of_the_segments_are_next_where_possible():
    documents = [[10] * 41] * 1000  # every chunk has several sentences but for a last one of 10
    spans = pair_spans(documents, room=61, short_seq_prob=0, chance=random.Random(1))
    last = (spans[:, 1] % 410 == 0) & (spans[:, 4] == 1)  # a last sentence by itself has no next
    free = spans[~last]
    assert len(free) > 5000
    assert abs(free[:, 4].mean() - 0.5) < 3 * 0.5 / np.sqrt(len(free))


def test_a_single_document_has_no_random_segment():
    spans = pair_spans([[5, 5, 5, 5]], room=10, short_seq_prob=0, chance=random.Random(0))
    assert spans[:, 4].tolist() == [0, 0]
    assert pair_spans([[5]], room=10, short_seq_prob=0, chance=random.Random(0)).shape == (0, 5)


def test_documents_of_one_sentence_have_only_random_segments():
    spans = pair_spans([[5]] * 50, room=20, short_seq_prob=0, chance=random.Random(0))
    assert len(spans) == 50
    assert spans[:, 4].all()


def test_a_sentence_longer_than_the_row_is_cut_from_both_sides():
    spans = pair_spans([[100], [100]], room=20, short_seq_prob=0, chance=random.Random(0))
    assert ((spans[:, 1] - spans[:, 0]) + (spans[:, 3] - spans[:, 2]) == 20).all()
    assert (spans[:, 0] > 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_full_rows_hold_every_piece_once(seed):
    documents = lengths(longest=60, seed=seed)
    rows = full_spans(documents, room=40)
    flat = [piece for row in rows for begin, end in row for piece in range(begin, end)]
    assert flat == list(range(sum(map(sum, documents))))
    starts = {0, *accumulate(length for document in documents for length in document)}
    bounds = {0, *accumulate(sum(document) for document in documents)}
    long = [length for document in documents for length in document if length > 40]
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        size = sum(end - begin for begin, end in row) + len(row) - 1
        assert size <= 40
        for _, end in row[:-1]:
            assert end in bounds  # a row continues with another document only at the end of one
        if after is not None and not long:
            assert row[-1][1] in starts
            begin = after[0][0]
            next_sentence = min(start for start in starts if start > begin) - begin
            assert size + next_sentence + (begin in bounds) > 40  # the next sentence would not have fitted


def test_half_of_the_pairs_in_books_are_random(shared):
    chosen = sorted((shared / "books").glob("A*.md"))[:4]
    documents = [[len(sentence.split()) for sentence in sentences_of(document)] for document in read_documents(chosen)]
    documents = [document for document in documents if document]
    spans = pair_spans(documents, room=125, short_seq_prob=0, chance=random.Random(5))
    starts = np.concatenate([[0], np.cumsum([length for document in documents for length in document])])
    last_sentences = np.cumsum([len(document) for document in documents]) - 1
    first = np.searchsorted(starts, spans[:, 0], "right") - 1
    last = np.searchsorted(starts, spans[:, 1] - 1, "right") - 1
    # A chunk of one sentence has no next segment: the last of a document, or one that fills the row.
    single = np.isin(last, last_sentences) | ((first == last) & (starts[last + 1] - starts[last] >= 125))
    free = spans[~single]
    assert len(free) > 3000
    assert abs(free[:, 4].mean() - 0.5) < 3 * 0.5 / np.sqrt(len(free))
    assert (spans[single, 4] == 1).all()
