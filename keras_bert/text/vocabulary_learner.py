"""WordPiece pieces from a corpus: sample it, count its words, and let HuggingFace's trainer merge them.

By itself, the trainer returns a different vocabulary in each run: it numbers the letters "##x" in the order of a hash
table, and these numbers decide between equally frequent pairs. Here they are numbered first, as special tokens.
"""

import heapq
import logging
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from keras_bert.checks import check_positive
from keras_bert.corpus.documents import read_texts
from keras_bert.lazy import tf
from keras_bert.progress import progress
from keras_bert.text.normalizer import Normalizer
from keras_bert.text.plain_words import PlainNormalizer
from keras_bert.text.rules import TextRules
from keras_bert.text.split_hangul import REMEDY, is_split
from keras_bert.text.tensors import uses_tensorflow
from keras_bert.text.wordpiece import MAX_CHARACTERS

logger = logging.getLogger("keras_bert")

BLOCK_BYTES = 1 << 16
MAX_LETTERS = 4_000_000  # of all distinct words together; the trainer needs up to 250 bytes for each


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Learns pieces; `Vocabulary.learn` explains the arguments."""

    size: int
    rules: TextRules
    min_count: int
    alphabet: int | None
    sample_bytes: int
    seed: int

    def __post_init__(self) -> None:
        check_positive(self, "size", "min_count", "sample_bytes")

    def pieces(self, sources: Iterable[str | os.PathLike], reserved: int) -> list[str]:
        """At most `size` minus `reserved` pieces: first words and beginnings of words, then those with ##."""
        room = self.size - reserved
        if room < 1:
            raise ValueError(
                f"`size` leaves no room after the {reserved} reserved pieces. Raise it. Received: size={self.size}"
            )
        words = self.count_words(self.sample(blocks(sources)))
        letters = self.letters(words)
        words = {word: count for word, count in words.items() if letters.issuperset(word)}
        if not words:
            raise ValueError(
                "The texts have no word to learn from. Pass more text, lower `min_count` (--min-count) or raise "
                f"`alphabet` (--alphabet). Received: min_count={self.min_count}, alphabet={self.alphabet}"
            )
        whole = {letter for word in words for letter in word}
        inner = sorted({f"##{letter}" for word in words for letter in word[1:]})
        if (least := reserved + len(whole) + len(inner)) > self.size:
            raise ValueError(
                f"`size` must be at least {least}: {reserved} reserved pieces, one piece for each letter, and one with "
                f"## for each letter that continues a word. Raise `size` or lower `alphabet`. "
                f"Received: size={self.size}"
            )
        pieces = self.merge(words, inner, room)
        if len(pieces) < room:
            logger.warning("The texts yield only %d pieces. Requested: %d.", len(pieces) + reserved, self.size)
        return sorted(pieces, key=lambda piece: (piece.startswith("##"), piece))

    def sample(self, blocks: Iterable[bytes]) -> list[bytes]:
        """All blocks, or a random sample of `sample_bytes`, in their order."""
        chance, kept, seen = random.Random(self.seed), 0, 0
        heap: list[tuple[float, int, bytes]] = []
        for number, block in enumerate(blocks):
            heapq.heappush(heap, (chance.random(), number, block))
            kept, seen = kept + len(block), seen + len(block)
            while kept > self.sample_bytes and len(heap) > 1:
                kept -= len(heapq.heappop(heap)[2])
        if kept < seen:
            logger.warning(
                "The texts have %.0f MB; the vocabulary is learned from a sample of %.0f MB (seed %d).",
                seen / 1e6, kept / 1e6, self.seed,
            )  # fmt: skip
        return [block for _, _, block in sorted(heap, key=lambda entry: entry[1])]

    def count_words(self, blocks: list[bytes]) -> dict[str, int]:
        """The words that the tokenizer makes of the texts, with their counts."""
        count = _counted if uses_tensorflow() else _plainly_counted
        counted = count(blocks, self.rules.lowercase, self.rules.strips_accents, self.rules.split_cjk)
        counts: dict[str, int] = {}
        letters, crowded = 0, False
        for found in progress(counted, "Counting words", len(blocks)):
            for word, number in found:
                if len(word) <= MAX_CHARACTERS:  # a longer one is [UNK] to the tokenizer
                    letters += 0 if word in counts else len(word)
                    counts[word] = counts.get(word, 0) + number
            if letters > 2 * MAX_LETTERS:
                counts, letters = _most_frequent(counts)
                crowded = True
        if crowded or letters > MAX_LETTERS:
            counts, _ = _most_frequent(counts)
            logger.warning("The texts have too many different words; the %d most frequent are kept.", len(counts))
        if not self.rules.strips_accents and any(map(is_split, counts)):
            logger.warning(
                "The texts have Hangul syllables that are split into letters (Unicode's NFD), so the vocabulary does "
                "not fit texts with whole ones. %s", REMEDY,
            )  # fmt: skip
        return dict(sorted(counts.items()))

    def letters(self, words: dict[str, int]) -> set[str]:
        """The characters that occur `min_count` times or more, at most the `alphabet` most frequent ones."""
        seen: Counter[str] = Counter()
        for word, count in words.items():
            for letter in word:
                seen[letter] += count
        most = self.size // 4 if self.alphabet is None else self.alphabet
        frequent = sorted((-count, letter) for letter, count in seen.items() if count >= self.min_count)
        if len(frequent) > most:
            logger.info(
                "The %d most frequent of %d characters are kept; words with other characters become [UNK]. A larger %s "
                "keeps more.",
                most, len(seen), "`size` (--size)" if self.alphabet is None else "`alphabet` (--alphabet)",
            )  # fmt: skip
        return {letter for _, letter in frequent[:most]}

    def merge(self, words: dict[str, int], inner: list[str], room: int) -> list[str]:
        """Run HuggingFace's WordPiece trainer on counted words, with numbered letters inside of words."""
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.WordPiece())
        tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
        trainer = trainers.WordPieceTrainer(
            vocab_size=room,
            min_frequency=self.min_count,
            limit_alphabet=room,
            special_tokens=inner,
            show_progress=False,
        )
        tokenizer.train_from_iterator(
            progress(_repeated(words), "Learning pieces", len(words)), trainer, length=len(words)
        )
        return list(tokenizer.get_vocab())


def _counted(blocks: list[bytes], *rules: Any) -> Iterator[Iterable[tuple[str, int]]]:
    """The words of each block with their counts."""
    normalizer = Normalizer(*rules)

    def count(block: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        words = tf.strings.split(normalizer.normalize(normalizer.decode(block[tf.newaxis])))
        found, _, times = tf.unique_with_counts(words.flat_values)
        return found, times

    dataset = tf.data.Dataset.from_generator(lambda: blocks, output_signature=tf.TensorSpec((), tf.string))
    for found, times in dataset.map(count, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4):
        words = [word.decode("utf-8") for word in found.numpy().tolist()]
        yield zip(words, times.numpy().tolist(), strict=True)


def _plainly_counted(blocks: list[bytes], *rules: Any) -> Iterator[Iterable[tuple[str, int]]]:
    """The same without TensorFlow."""
    normalizer = PlainNormalizer(*rules)
    for block in blocks:
        chunks = Counter(normalizer.chunks(normalizer.decode(block)))
        counts: Counter[str] = Counter()
        for words, number in zip(normalizer.words(list(chunks)), chunks.values(), strict=True):
            for word in words:
                counts[word] += number
        yield counts.items()


def blocks(sources: Iterable[str | os.PathLike]) -> Iterator[bytes]:
    """Texts, and the texts of files, in blocks of about 64 KB of UTF-8."""
    gathered: list[bytes] = []
    size = 0
    for text in _texts(sources):
        for begin in range(0, len(text), BLOCK_BYTES):  # a file may be one line
            gathered.append(text[begin : begin + BLOCK_BYTES].encode("utf-8", "ignore"))
            size += len(gathered[-1])
            if size >= BLOCK_BYTES:
                yield b"\n".join(gathered)
                gathered, size = [], 0
    if gathered:
        yield b"\n".join(gathered)


def _texts(sources: Iterable[str | os.PathLike]) -> Iterator[str]:
    for number, source in enumerate(sources):
        if isinstance(source, os.PathLike):
            yield from read_texts(source)
            continue
        if not isinstance(source, str):
            raise TypeError(
                f"Every source must be a string or a pathlib.Path. Received: {source!r} ({type(source).__name__}) at "
                f"index {number}"
            )
        # A generator, as that of the lines of a corpus, yields texts: one of them may look like a path.
        if number == 0 and not isinstance(sources, GeneratorType) and len(source) < 4096 and os.path.isfile(source):
            raise ValueError(
                "A string is a text to learn from, but this one is the path of a file. Use pathlib.Path. "
                f"Received: {source!r}"
            )
        yield source


def _repeated(words: dict[str, int]) -> Iterator[str]:
    """Each word as often as it was counted, because the trainer counts words itself."""
    for word, count in words.items():
        yield " ".join([word] * count)


def _most_frequent(counts: dict[str, int]) -> tuple[dict[str, int], int]:
    """The most frequent words that together have at most `MAX_LETTERS` letters, and the number of these letters."""
    kept: dict[str, int] = {}
    letters = 0
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if letters + len(word) > MAX_LETTERS:
            break
        kept[word] = count
        letters += len(word)
    return kept, letters
