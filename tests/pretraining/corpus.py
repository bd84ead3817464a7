"""A small corpus and its vocabulary, made by chance."""

import random
from pathlib import Path

from keras_bert.text.vocabulary import Vocabulary

LETTERS = "abcdefghij"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
VOCABULARY = Vocabulary([*SPECIAL, ".", *LETTERS, *(f"##{letter}" for letter in LETTERS)])


def sentence(chance: random.Random) -> str:
    """Two to twelve words of up to three letters, each letter a piece; the last, of one, is no abbreviation."""
    words = ["".join(chance.choices(LETTERS, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 11))]
    return f"{' '.join([*words, chance.choice(LETTERS)])}.".capitalize()


def document(chance: random.Random, sentences: int = 20) -> str:
    return " ".join(sentence(chance) for _ in range(chance.randint(1, sentences)))


def corpus(folder: Path, files: int = 3, documents: int = 30, seed: int = 0) -> Path:
    """A folder of text files, and vocab.txt beside it."""
    chance = random.Random(seed)
    (folder / "corpus").mkdir(parents=True)
    for number in range(files):
        text = "\n\n".join(document(chance) for _ in range(documents))
        (folder / "corpus" / f"{number}.txt").write_text(text, encoding="utf-8")
    VOCABULARY.save(folder / "vocab.txt")
    return folder / "corpus"
