"""A directory of examples: shards, `examples.json` about them, and the vocabulary with its text rules.

Until all shards are written, `unfinished.json` takes the place of examples.json, and each shard has a note of its own.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from keras_bert import storage
from keras_bert.corpus.documents import Document
from keras_bert.corpus.files import kind_of
from keras_bert.pretraining.examples.example_settings import ExampleSettings
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.pretraining.examples.shard_writer import Shard, digest_of, note_of
from keras_bert.text.vocabulary import Vocabulary, warn_of_unknown
from keras_bert.weights.tokenizer_files import tokenizer_config
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")

FINISHED = "examples.json"
UNFINISHED = "unfinished.json"
VOCABULARY = "vocab.txt"
RULES = "tokenizer_config.json"
LOCK = ".lock"
FORMAT = 1
ONE_DOCUMENT = (
    "The corpus has one document, but a random second segment must come from another one. Add documents, separate "
    "them in another way (--documents), or write no pairs (nsp=False, --no-nsp). Received: one document"
)


class Written(NamedTuple):
    """The totals of `write_examples`."""

    documents: int
    sentences: int
    examples: int
    megabytes: float  # of text
    seconds: float  # 0: some of it was written before
    real_share: float | None = None  # of the positions of a row, those with a piece; None: not counted
    random_share: float | None = None  # of the pairs, those with a random second segment; None: no pairs

    def __str__(self) -> str:
        parts = [f"{self.documents:,} documents, {self.sentences:,} sentences, {self.examples:,} examples"]
        if self.real_share is not None:
            parts.append(f"{self.real_share:.0%} of a row is text")
        if self.random_share is not None:
            parts.append(f"{self.random_share:.0%} of the pairs are random")
        if self.seconds:
            parts.append(f"{self.megabytes / self.seconds:.1f} MB/s")
        return ", ".join(parts)


# === Writing ===


@contextmanager
def reserved(directory: str) -> Iterator[None]:
    """Keep other processes out of the directory. A new one that is still empty at the end is removed."""
    if storage.is_remote(directory):  # where there are no locks
        yield
        return
    is_new = not storage.exists(directory)
    storage.make_folder(directory)
    lock_file = os.path.join(directory, LOCK)
    with storage.lock(lock_file):
        try:
            yield
        finally:
            storage.remove(lock_file)
            if is_new:
                with suppress(OSError):  # it is not empty
                    os.rmdir(directory)


def origin_of(
    settings: ExampleSettings, vocabulary: Vocabulary, corpus: list[list[Any]], writer: str
) -> dict[str, Any]:
    """What examples are made from, by which an interrupted directory is recognized.

    corpus: the name and size of each file. writer: "local" or "beam".
    """
    more = {"vocabulary_size": len(vocabulary), "vocabulary_sha256": _sha256(vocabulary), "format": FORMAT}
    return {"settings": settings.to_dict() | more, "corpus": corpus, "writer": writer}


def finished_shards(directory: str, origin: dict[str, Any]) -> list[Shard] | None:
    """The shards of finished examples; None if they are still to be written. Other examples there are an error."""
    finished = storage.read_json(os.path.join(directory, FINISHED))
    found = finished or storage.read_json(os.path.join(directory, UNFINISHED))
    if not found:
        if names := [name for name in storage.names_in(directory) if name != LOCK]:
            raise FileExistsError(
                f"{directory} is not empty. Write the examples into a new or empty directory. Received: {directory}, "
                f"which holds {names[0]}"
            )
        return None
    if "settings" in found:
        found = found | {"settings": _with_defaults(found["settings"])}
    for part, value in origin.items():
        if found.get(part) != value:
            raise FileExistsError(
                f"{directory} holds other examples. Choose another directory, empty this one, or use the options that "
                f"its examples were written with. Received: other {part}: {differences(found.get(part), value)}"
            )
    if not finished:
        return None
    _remove_notes(directory)  # a process that is killed between its last two steps leaves them
    logger.info("%s: the examples are already finished.", directory)
    return [Shard(**shard) for shard in finished["shards"]]


def check_texts(directory: str, shards: list[Shard], documents_of_shards: Iterable[list[Document]]) -> None:
    """Raise an error if finished examples were made from another corpus in memory, which has no names and sizes."""
    digests = [digest_of(documents) for documents in documents_of_shards]
    if sorted(digests) != sorted(shard.digest for shard in shards):
        raise FileExistsError(
            f"{directory} holds the examples of another corpus. Choose another directory, or empty this one. "
            f"Received: a corpus of {len(digests)} shards, not the {len(shards)} shards of the directory"
        )


def begin(directory: str, origin: dict[str, Any], settings: ExampleSettings, vocabulary: Vocabulary) -> None:
    """Create the directory with everything but shards."""
    storage.make_folder(directory)
    storage.write_json(os.path.join(directory, UNFINISHED), origin)  # first, since it marks the directory
    vocabulary.save(os.path.join(directory, VOCABULARY))
    storage.write_json(os.path.join(directory, RULES), tokenizer_config(settings.rules, settings.seq_length))


def noted_shards(directory: str) -> list[Shard]:
    """The shards that were written into a directory whose examples are not finished."""
    return [Shard(**storage.read_json(os.path.join(directory, name))) for name in _notes(directory)]


def finish(directory: str, origin: dict[str, Any], shards: list[Shard]) -> None:
    """Move the notes of these shards into examples.json. If nothing can be learned from them, remove everything."""
    settings = origin["settings"]
    written = summarize(shards, settings)
    if settings["nsp"] and written.documents == 1:
        _clear(directory)
        raise ValueError(ONE_DOCUMENT)
    if not written.examples:
        _clear(directory)
        raise ValueError(
            "The corpus has too little text to make an example of it. Add text. "
            f"Received: {written.documents} documents"
        )
    if written.random_share is not None and not 0.2 < written.random_share < 0.8:
        files = [name for name, _ in origin["corpus"]]
        logger.warning(
            "In %.0f %% of the pairs%s the second segment is random, but it should be random in half of the pairs. A "
            "document of one sentence has no next segment, and without other documents there is no random segment. "
            "Separate documents in another way (--documents), or write no pairs (nsp=False, --no-nsp).",
            100 * written.random_share, f" from {listed(files)}" if files else "",
        )  # fmt: skip
    elif settings["nsp"] and written.real_share and written.real_share < 0.6 and _has_blank_lines(origin):
        logger.warning(
            "Only %.0f %% of a row is text, because the documents are short: %.1f sentences on average. In .txt files, "
            "a blank line ends a document. If it only ends a paragraph in your files, write the examples again with "
            "one document for each file (--documents file) or each heading (--documents heading).",
            100 * written.real_share, written.sentences / written.documents,
        )  # fmt: skip
    warn_of_unknown(sum(shard.unknown for shard in shards), sum(shard.pieces for shard in shards), "the examples")
    # Others are of a longer corpus, the writing of which was interrupted.
    _remove_shards(directory, set(noted_shards(directory)) - set(shards))
    in_order = sorted(shards, key=lambda shard: (len(shard.name), shard.name))  # by number, which may have six digits
    storage.write_json(os.path.join(directory, FINISHED), origin | {"shards": [shard._asdict() for shard in in_order]})
    _remove_notes(directory)


def _notes(directory: str) -> list[str]:
    return [name for name in storage.names_in(directory) if name.startswith("examples-") and name.endswith(".json")]


def _remove_notes(directory: str) -> None:
    """Remove what `examples.json` replaces."""
    for name in [UNFINISHED, *_notes(directory)]:
        if storage.exists(path := os.path.join(directory, name)):
            storage.remove(path)


def _remove_shards(directory: str, shards: Iterable[Shard]) -> None:
    for shard in shards:
        path = os.path.join(directory, shard.name)
        storage.remove(note_of(path))  # first, since a shard with a note is kept
        storage.remove(path)


def _clear(directory: str) -> None:
    """Remove everything, so that the directory can be used for another corpus or with other settings."""
    _remove_shards(directory, noted_shards(directory))
    for name in (VOCABULARY, RULES, UNFINISHED):  # the last one marks the directory
        storage.remove(os.path.join(directory, name))


def summarize(shards: list[Shard], settings: dict[str, Any], seconds: float = 0.0) -> Written:
    """The totals of shards that were written with these settings."""
    documents, sentences, examples, text, next_texts, pieces = (
        sum(getattr(shard, name) for shard in shards)
        for name in ("documents", "sentences", "examples", "text", "next_texts", "pieces")
    )
    real_share = pieces / (examples * settings["seq_length"]) if pieces else None
    random_share = 1 - next_texts / examples if settings["nsp"] and examples else None
    return Written(documents, sentences, examples, text / 1e6, seconds, real_share, random_share)


def _has_blank_lines(origin: dict[str, Any]) -> bool:
    """Whether blank lines end documents in some file of the corpus."""
    return origin["settings"]["boundary"] in ("auto", "blank-line") and any(
        kind_of(name) == "text" for name, _ in origin["corpus"]
    )


def differences(found: Any, wanted: Any) -> str:
    """In what two sets of settings, or two values, differ."""
    if not isinstance(found, dict):
        return f"{str(wanted)[:60]} (was {str(found)[:60]})"
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    return ", ".join(f"{name}={wanted.get(name)!r} (was {found.get(name)!r})" for name in names)


# === Reading ===


def is_examples_directory(path: str) -> bool:
    """Whether `write_examples` wrote this directory, if only in part."""
    return any(storage.exists(os.path.join(path, name)) for name in (FINISHED, UNFINISHED))


def read_shards(directory: str) -> list[Shard]:
    """The shards of finished examples."""
    found = storage.read_json(os.path.join(directory, FINISHED))
    if not found:
        raise FileNotFoundError(
            f"The examples in {directory} are not finished: there is no {FINISHED}. Repeat the command that writes "
            f"them; it continues where it stopped. Received: {directory}"
        )
    return [Shard(**shard) for shard in found["shards"]]


def read_settings(directory: str) -> tuple[ExampleSettings, Vocabulary]:
    """The settings and the vocabulary of the examples, finished or not."""
    path = os.path.join(directory, FINISHED)
    found = storage.read_json(path) or storage.read_json(os.path.join(directory, UNFINISHED))
    found = _with_defaults(found["settings"])
    size, digest = found.pop("vocabulary_size", None), found.pop("vocabulary_sha256", None)
    if (version := found.pop("format", None)) != FORMAT or set(found) != set(ExampleSettings().to_dict()):
        raise ValueError(
            f"{path} has examples of another release, whose settings differ. Write them again with this release, which "
            f"writes format {FORMAT}. Received: format {version} with the settings {', '.join(sorted(found))}"
        )
    path = os.path.join(directory, VOCABULARY)
    vocabulary = Vocabulary.from_file(path)
    if _sha256(vocabulary) != digest:
        raise ValueError(
            f"{path} is not the vocabulary that these examples were written with. Restore that vocabulary, or write "
            f"the examples again. Received: {len(vocabulary)} pieces; the other vocabulary had {size} pieces and "
            "another SHA-256 digest"
        )
    return ExampleSettings(**found | {"masking": Masking(**found["masking"])}), vocabulary


def _with_defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of an older release, with the defaults of those that it did not have."""
    defaults = ExampleSettings().to_dict()
    return defaults | settings | {"masking": defaults["masking"] | settings.get("masking", {})}


def _sha256(vocabulary: Vocabulary) -> str:
    return hashlib.sha256("".join(f"{token}\n" for token in vocabulary).encode()).hexdigest()
