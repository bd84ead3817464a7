"""An independent oracle: what google-research/bert's create_pretraining_data.py does, told in plain Python.

Documents are lists of sentences, sentences lists of pieces. Random draws are in the order its rules name them.
"""

import random
from collections.abc import Callable

SPECIAL = ("[CLS]", "[SEP]")


def examples_of(
    documents: list[list[list[str]]],
    *,
    seq_length: int,
    pieces: list[str],
    chance: random.Random,
    short_seq_prob: float = 0.1,
    mask_prob: float = 0.15,
    max_predictions: int = 20,
    dupe_factor: int = 1,
    whole_word: bool = False,
) -> list[dict]:
    """The examples of all documents, shuffled: tokens, segment_ids, is_random_next, positions and labels."""
    documents = [document for document in documents if document]
    chance.shuffle(documents)
    found = []
    for _ in range(dupe_factor):
        for index in range(len(documents)):
            for a, b, is_random in pairs_of(documents, index, seq_length - 3, short_seq_prob, chance):
                tokens = ["[CLS]", *a, "[SEP]", *b, "[SEP]"]
                segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
                tokens, positions, labels = mask(tokens, pieces, chance, mask_prob, max_predictions, whole_word)
                found.append(
                    {
                        "tokens": tokens,
                        "segment_ids": segments,
                        "is_random_next": is_random,
                        "positions": positions,
                        "labels": labels,
                    }
                )
    chance.shuffle(found)
    return found


def another(chance: random.Random, count: int, index: int) -> int:
    """Up to ten draws for a document that is not this one."""
    for _ in range(10):
        other = chance.randint(0, count - 1)
        if other != index:
            break
    return other


def pairs_of(
    documents: list,
    index: int,
    room: int,
    short_seq_prob: float,
    chance: random.Random,
    another: Callable[[random.Random, int, int], int] = another,
) -> list[tuple]:
    """(pieces of a, pieces of b, is b random) of one document."""
    document = documents[index]
    target = room
    if chance.random() < short_seq_prob:
        target = chance.randint(2, room)
    found, chunk, length, position = [], [], 0, 0
    while position < len(document):
        chunk.append(document[position])
        length += len(document[position])
        if position == len(document) - 1 or length >= target:
            a_end = chance.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a = [piece for sentence in chunk[:a_end] for piece in sentence]
            b: list[str] = []
            is_random = len(chunk) == 1 or chance.random() < 0.5
            if is_random:
                wanted = target - len(a)
                other = another(chance, len(documents), index)
                begin = chance.randint(0, len(documents[other]) - 1)
                for sentence in documents[other][begin:]:
                    b += sentence
                    if len(b) >= wanted:
                        break
                position -= len(chunk) - a_end  # the unused segments come again
            else:
                b = [piece for sentence in chunk[a_end:] for piece in sentence]
            truncate(a, b, room, chance)
            found.append((a, b, is_random))
            chunk, length = [], 0
        position += 1
    return found


def truncate(a: list, b: list, room: int, chance: random.Random) -> None:
    while len(a) + len(b) > room:
        longer = a if len(a) > len(b) else b
        if chance.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def mask(
    tokens: list[str], pieces: list[str], chance: random.Random, rate: float, most: int, whole_word: bool
) -> tuple[list[str], list[int], list[str]]:
    words: list[list[int]] = []
    for position, token in enumerate(tokens):
        if token in SPECIAL:
            continue
        if whole_word and words and token.startswith("##"):
            words[-1].append(position)
        else:
            words.append([position])
    chance.shuffle(words)
    number = min(most, max(1, round(len(tokens) * rate)))
    shown, covered = list(tokens), []
    for word in words:
        if len(covered) >= number:
            break
        if len(covered) + len(word) > number:
            continue
        for position in word:
            covered.append(position)
            if chance.random() < 0.8:
                shown[position] = "[MASK]"
            elif chance.random() < 0.5:
                shown[position] = tokens[position]
            else:
                shown[position] = pieces[chance.randint(0, len(pieces) - 1)]
    covered.sort()
    return shown, covered, [tokens[position] for position in covered]
