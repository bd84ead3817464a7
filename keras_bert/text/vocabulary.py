"""The pieces that a model knows, with their ids: line n of a vocab.txt, counted from 0, is the piece with id n."""

import logging
import os
from collections.abc import Iterable, Iterator

from keras_bert.storage import read_bytes, write_text
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary_learner import Learner

logger = logging.getLogger("keras_bert")

REQUIRED = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
SPECIAL = (*REQUIRED, "[MASK]")
_MANY_UNKNOWN, _MANY_PIECES = 0.25, 1000  # fewer pieces say little


class Vocabulary:
    """Pieces with the ids 0, 1, 2 ..., looked up both ways.

    >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "here", "##s"])
    >>> vocabulary["here"], vocabulary.token(6), len(vocabulary)
    (5, '##s', 7)
    >>> vocabulary.special_tokens
    {'[PAD]': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, '[MASK]': 4}
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vocabulary.save(f"{folder}/vocab.txt")
    ...     Vocabulary.from_file(f"{folder}/vocab.txt").tokens[5:]
    ('here', '##s')
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        if isinstance(tokens, str | os.PathLike) or not isinstance(tokens, Iterable):
            raise TypeError(
                "`tokens` must be the pieces in the order of their ids. For a file, use Vocabulary.from_file(path). "
                f"Received: {tokens!r}"
            )
        self._tokens = tuple(tokens)
        odd = [token for token in self._tokens if not isinstance(token, str) or "\n" in token]
        if odd:
            raise ValueError(f"Every piece must be a string without a line feed. Received: {odd[0]!r}")
        try:
            "".join(self._tokens).encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                "A piece has half of a surrogate pair, which is not a character. Rename it to [unusedN], which keeps "
                f"the other ids. Received: {error.object[error.start : error.end]!r}"
            ) from None
        self._ids = {token: number for number, token in enumerate(self._tokens)}
        self._check()

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "Vocabulary":
        """Read a vocab.txt with one piece on each line. Lines end with LF or CRLF; the last line end is optional.

        As in Google's reader, no other character ends a line, so that pieces such as U+2028 and U+0085 are possible.
        """
        data = read_bytes(path)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"{path}, line {line} is not UTF-8. Save the vocabulary as UTF-8. "
                f"Received: {data[error.start : error.start + 8]!r}"
            ) from None
        if not text:
            raise ValueError(f"{path} is empty. A vocabulary file has one piece on each line. Received: 0 bytes")
        lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
        # Lines end with CRLF only if all do; otherwise a \r belongs to its piece.
        if all(line.endswith("\r") for line in lines[:-1]):
            lines = [line.removesuffix("\r") for line in lines]
        try:
            return cls(lines)
        except ValueError as error:
            raise ValueError(f"{error} (file {str(path)!r})") from None

    @classmethod
    def learn(
        cls,
        texts_or_files: Iterable[str | os.PathLike],
        size: int = 30522,
        lowercase: bool = True,
        *,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        min_count: int = 2,
        alphabet: int | None = None,
        unused: int = 0,
        sample_bytes: int = 128_000_000,
        seed: int = 0,
    ) -> "Vocabulary":
        """Learn WordPiece from texts (`str`) or files (`pathlib.Path`). The same texts always give the same vocabulary.

        Files are those that `write_examples` reads: .txt, .md, .jsonl, .json and Wikipedia's .xml, plain or compressed,
        and folders and patterns of them.

        lowercase, strip_accents, split_cjk: as for the tokenizer that will use the vocabulary.
        min_count: how often a character, or a pair that is merged into one piece, must occur.
        alphabet: how many characters to keep, the most frequent first. None: a quarter of `size`.
        unused: how many `[unusedN]` pieces to add. They can be renamed later without changing an id.
        sample_bytes: from a larger corpus, a sample of this size is drawn with `seed`. Memory stays below 2 GB.

        >>> vocabulary = Vocabulary.learn(["low lower lowest new newer newest"] * 9, size=31, alphabet=8)
        >>> [piece for piece in vocabulary.tokens if len(piece) > 4 and piece[0] != "["]
        ['lower', 'lowest', 'newer', 'newest', '##wer', '##west']
        """
        learner = Learner(
            size=size,
            rules=TextRules(lowercase, strip_accents, split_cjk),
            min_count=min_count,
            alphabet=alphabet,
            sample_bytes=sample_bytes,
            seed=seed,
        )
        sources = [texts_or_files] if isinstance(texts_or_files, str | os.PathLike) else texts_or_files
        reserved = [*SPECIAL, *(f"[unused{number}]" for number in range(unused))]
        return cls([*reserved, *learner.pieces(sources, reserved=len(reserved))])

    def save(self, path: str | os.PathLike) -> None:
        """Write a vocab.txt for `from_file` and Google's code. If writing is interrupted, the old file stays."""
        write_text(path, "".join(f"{token}\n" for token in self._tokens))

    @property
    def tokens(self) -> tuple[str, ...]:
        """All pieces in the order of their ids."""
        return self._tokens

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens of this vocabulary, with their ids."""
        return {token: self._ids[token] for token in SPECIAL if token in self._ids}

    def token(self, id: int) -> str:
        """The piece with this id."""
        if not hasattr(id, "__index__"):
            raise TypeError(
                f"`id` must be a whole number. For the id of a piece, use vocabulary[piece]. Received: {id!r}"
            )
        if not 0 <= id < len(self._tokens):
            raise IndexError(f"`id` must be from 0 to {len(self) - 1}, the last id of the vocabulary. Received: {id}")
        return self._tokens[id]

    def __getitem__(self, token: str) -> int:
        try:
            return self._ids[token]
        except KeyError:
            raise KeyError(f"The vocabulary has no piece {token!r}. For the ids of a text, use a Tokenizer.") from None

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tokens)

    def __eq__(self, other: object) -> bool:
        return self._tokens == other._tokens if isinstance(other, Vocabulary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} pieces, {self.special_tokens})"

    def _check(self) -> None:
        if len(self._ids) < len(self._tokens):
            number, token = next((i, t) for i, t in enumerate(self._tokens) if self._ids[t] != i)
            raise ValueError(
                "A piece occurs twice in the vocabulary. Give one of the two a name that no other piece has. Do not "
                "delete its line, which would change the ids of the pieces after it. "
                f"Received: {token!r} with the ids {number} and {self._ids[token]}"
            )
        missing = [token for token in REQUIRED if token not in self._ids]
        if missing:
            raise ValueError(
                "A vocabulary must have the pieces [PAD], [UNK], [CLS] and [SEP]. Add the missing ones, each on a line "
                f"of its own. Received: {len(self)} pieces without {', '.join(missing)}"
            )


def warn_of_unknown(unknown: int, pieces: int, where: str) -> None:
    """Log it if a large part of the pieces that are learned from is [UNK]."""
    if pieces >= _MANY_PIECES and unknown >= _MANY_UNKNOWN * pieces:
        logger.warning(
            "%.0f %% of the pieces of %s are [UNK], so the vocabulary does not fit the texts. Use a model or a "
            "vocabulary for their language, with the options for which it was made: if it has capitals or accents, do "
            "not remove those of the texts (--cased or --keep-accents; lowercase=False or strip_accents=False).",
            100 * unknown / pieces, where,
        )  # fmt: skip
