"""WordPiece pieces from a corpus: sample it, count its words, and let HuggingFace's trainer merge them.

The trainer alone gives another vocabulary at each run: it numbers the letters "##x" in the order of a hash table, and
these numbers decide between pairs that are equally frequent. Here they are numbered beforehand, as special tokens.
"""

import heapq
import logging
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from keras_bert.progress import progress
from keras_bert.text.normalizer import Normalizer

logger = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 16
MAX_LETTERS = 4_000_000  # of all distinct words together; the trainer takes up to 250 bytes for each
MAX_WORD_LENGTH = 200  # longer ones are [UNK] to the tokenizer


@dataclass(frozen=True, kw_only=True)
class Learner:
    """How to learn; `Vocabulary.learn` says what each argument means."""

    size: int
    lowercase: bool
    strip_accents: bool | None
    split_cjk: bool
    min_count: int
    alphabet: int | None
    sample_bytes: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("size", "min_count", "sample_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={getattr(self, name)}")

    def pieces(self, sources: Iterable[str | os.PathLike], reserved: int) -> list[str]:
        """At most `size` minus `reserved` pieces: words and their beginnings first, then those with ##."""
        room = self.size - reserved
        if room < 1:
            raise ValueError(f"size must be above the {reserved} reserved pieces. Raise it. Received: size={self.size}")
        words = self.count_words(self.sample(blocks(sources)))
        letters = self.letters(words)
        words = {word: count for word, count in words.items() if letters.issuperset(word)}
        if not words:
            raise ValueError(
                "The texts hold no word to learn from. Give more text, lower min_count (--min-count) or raise "
                f"alphabet (--alphabet). Received: min_count={self.min_count}, alphabet={self.alphabet}"
            )
        first = sorted({word[0] for word in words})
        inner = sorted({f"##{letter}" for word in words for letter in word[1:]})
        if len(first) + len(inner) > room:
            raise ValueError(
                f"size must hold {reserved} reserved pieces and each letter twice, at the start of a word and within "
                f"one: {reserved + len(first) + len(inner)}. Raise size or lower alphabet. Received: size={self.size}"
            )
        pieces = self.merge(words, inner, room)
        if len(pieces) < room:
            logger.warning("The texts yield %d pieces; %d were asked for.", len(pieces) + reserved, self.size)
        return sorted(pieces, key=lambda piece: (piece.startswith("##"), piece))

    def sample(self, blocks: Iterable[bytes]) -> list[bytes]:
        """All blocks, or a random choice of `sample_bytes` in their own order."""
        chance, kept, seen = random.Random(self.seed), 0, 0
        heap: list[tuple[float, int, bytes]] = []
        for number, block in enumerate(blocks):
            heapq.heappush(heap, (chance.random(), number, block))
            kept, seen = kept + len(block), seen + len(block)
            while kept > self.sample_bytes and len(heap) > 1:
                kept -= len(heapq.heappop(heap)[2])
        if kept < seen:
            logger.warning(
                "The texts hold %.0f MB; the vocabulary is learnt from a sample of %.0f MB (seed %d).",
                seen / 1e6, kept / 1e6, self.seed,
            )  # fmt: skip
        return [block for _, _, block in sorted(heap, key=lambda entry: entry[1])]

    def count_words(self, blocks: list[bytes]) -> dict[str, int]:
        """Each word as the tokenizer splits it, with its count."""
        import tensorflow as tf

        strip_accents = self.lowercase if self.strip_accents is None else self.strip_accents
        normalizer = Normalizer(self.lowercase, strip_accents, self.split_cjk)

        def count(block: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            words = tf.strings.split(normalizer.normalize(normalizer.decode(block[tf.newaxis])))
            found, _, times = tf.unique_with_counts(words.flat_values)
            return found, times

        counts: dict[str, int] = {}
        letters, crowded = 0, False
        dataset = tf.data.Dataset.from_generator(lambda: blocks, output_signature=tf.TensorSpec((), tf.string))
        counted = dataset.map(count, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
        for found, times in progress(counted, "Counting words", len(blocks)):
            for piece, number in zip(found.numpy().tolist(), times.numpy().tolist(), strict=True):
                word = piece.decode("utf-8")
                if len(word) <= MAX_WORD_LENGTH:
                    letters += 0 if word in counts else len(word)
                    counts[word] = counts.get(word, 0) + number
            if letters > 2 * MAX_LETTERS:
                counts, letters = _most_frequent(counts)
                crowded = True
        if crowded or letters > MAX_LETTERS:
            counts, _ = _most_frequent(counts)
            logger.warning("The texts hold very many words; the %d most frequent are kept.", len(counts))
        return dict(sorted(counts.items()))

    def letters(self, words: dict[str, int]) -> set[str]:
        """The characters seen `min_count` times, at most `alphabet` of them, the most frequent first."""
        seen: Counter[str] = Counter()
        for word, count in words.items():
            for letter in word:
                seen[letter] += count
        most = self.size // 4 if self.alphabet is None else self.alphabet
        frequent = sorted((-count, letter) for letter, count in seen.items() if count >= self.min_count)
        if len(frequent) > most:
            logger.info("Of %d characters the %d most frequent are kept; words with others are [UNK].", len(seen), most)
        return {letter for _, letter in frequent[:most]}

    def merge(self, words: dict[str, int], inner: list[str], room: int) -> list[str]:
        """HuggingFace's WordPiece trainer on counted words, with the letters within words numbered beforehand."""
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


def blocks(sources: Iterable[str | os.PathLike]) -> Iterator[bytes]:
    """Texts, and those of files, in blocks of about 64 KB, as UTF-8."""
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
    from keras_bert.corpus.documents import read_texts

    for number, source in enumerate(sources):
        if isinstance(source, os.PathLike):
            yield from read_texts(source)
            continue
        if not isinstance(source, str):
            raise TypeError(f"Learn from strings, or files as pathlib.Path. Received: {source!r} at index {number}")
        if number == 0 and isinstance(sources, list | tuple) and len(source) < 4096 and os.path.isfile(source):
            raise ValueError(f"A str is a text to learn from. Pass a file as pathlib.Path. Received: {source!r}")
        yield source


def _repeated(words: dict[str, int]) -> Iterator[str]:
    """The trainer counts words itself, so each comes as often as it was counted."""
    for word, count in words.items():
        yield " ".join([word] * count)


def _most_frequent(counts: dict[str, int]) -> tuple[dict[str, int], int]:
    """The most frequent words that have `MAX_LETTERS` together, and how many letters they have."""
    kept: dict[str, int] = {}
    letters = 0
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if letters + len(word) > MAX_LETTERS:
            break
        kept[word] = count
        letters += len(word)
    return kept, letters
