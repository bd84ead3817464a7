"""A directory of examples: shards, `examples.json` over them, and the vocabulary with its text rules.

While it is written, `unfinished.json` stands for examples.json, and each finished shard has a note of its own.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any

from keras_bert import storage
from keras_bert.corpus.documents import Document
from keras_bert.pretraining.examples.example_settings import Settings, sha256_of
from keras_bert.pretraining.examples.shards import ONE_DOCUMENT, Shard, digest_of
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.tokenizer_files import tokenizer_config

logger = logging.getLogger(__name__)

FINISHED = "examples.json"
UNFINISHED = "unfinished.json"
VOCABULARY = "vocab.txt"
RULES = "tokenizer_config.json"


def finished_shards(directory: str, run: dict[str, Any]) -> list[Shard] | None:
    """The shards of a run that ended; None where there is something to do. Another run's directory is refused.

    run: what tells this run from others: the settings, the corpus and the writer.
    """
    ended = storage.read_json(os.path.join(directory, FINISHED))
    found = ended or storage.read_json(os.path.join(directory, UNFINISHED))
    if not found:
        if names := storage.names_in(directory):
            raise FileExistsError(
                "Examples are written into a new or empty directory. Choose another or empty it. "
                f"Received: {directory}, which holds {names[0]}"
            )
        return None
    for part, value in run.items():
        if found.get(part) != value:
            raise FileExistsError(
                "A directory of examples holds one run. Choose another, empty it, or give what it was begun with. "
                f"Received: {directory}, whose {part} differ: {_difference(found.get(part), value)}"
            )
    if not ended:
        return None
    logger.info("%s: finished by an earlier run", directory)
    return [Shard(**shard) for shard in ended["shards"]]


def begin(directory: str, run: dict[str, Any], settings: Settings, vocabulary: Vocabulary) -> dict[int, Shard]:
    """Make the directory ready; the shards that an earlier run finished, by their numbers."""
    storage.make_folder(directory)
    rules = TextRules(settings.lowercase, settings.strip_accents, settings.split_cjk)
    storage.write_json(os.path.join(directory, UNFINISHED), run)  # first: by it the directory is known again
    storage.write_text(os.path.join(directory, VOCABULARY), "".join(f"{token}\n" for token in vocabulary))
    storage.write_json(os.path.join(directory, RULES), tokenizer_config(rules, settings.seq_length))
    return {int(shard.name[len("examples-") : -len(".tfrecord")]): shard for shard in noted_shards(directory)}


def check_text(directory: str, shard: Shard, unit: Sequence[Document]) -> None:
    """Refuse a shard that an earlier run made from another text."""
    if shard.digest != digest_of(unit):
        raise ValueError(
            "A run goes on from the same corpus. Empty the directory, or choose another. Received: "
            f"{os.path.join(directory, shard.name)}, made from another text"
        )


def finish(directory: str, run: dict[str, Any], shards: list[Shard]) -> None:
    """Write examples.json over the shards, and drop what stood for it."""
    examples = sum(shard.examples for shard in shards)
    documents = sum(shard.documents for shard in shards)
    if run["settings"]["nsp"] and documents == 1:
        raise ValueError(ONE_DOCUMENT)
    if not examples:
        raise ValueError(f"A corpus must give an example at least. Give more text. Received: {documents} documents")
    next_texts = sum(shard.next_texts for shard in shards)
    if run["settings"]["nsp"] and not 0.2 < next_texts / examples < 0.8:
        logger.warning(
            "Of %d examples %d have the text that is next, where half should: documents of one sentence have no next, "
            "and a single document has no other. Part documents otherwise (--documents), or leave out pairs "
            "(nsp=False, --no-nsp).",
            examples, next_texts,
        )  # fmt: skip
    storage.write_json(
        os.path.join(directory, FINISHED), run | {"shards": [shard._asdict() for shard in sorted(shards)]}
    )
    for name in [UNFINISHED, *_notes(directory)]:
        storage.remove(os.path.join(directory, name))


def noted_shards(directory: str) -> list[Shard]:
    """The shards that are finished, in a directory that is not."""
    return [Shard(**storage.read_json(os.path.join(directory, name))) for name in _notes(directory)]


def read_directory(directory: str) -> tuple[Settings, list[Shard]]:
    """The settings and shards of finished examples."""
    path = os.path.join(directory, FINISHED)
    found = storage.read_json(path)
    if not found:
        unfinished = storage.exists(os.path.join(directory, UNFINISHED))
        raise FileNotFoundError(
            f"Examples have an {FINISHED}. "
            + ("Run the command that writes them once more to finish them. " if unfinished else "Write them first. ")
            + f"Received: {directory}"
        )
    return Settings.from_dict(found["settings"], path), [Shard(**shard) for shard in found["shards"]]


def text_beside(directory: str) -> tuple[Vocabulary, TextRules]:
    """The vocabulary the examples were made with, and how text was cut."""
    settings = storage.read_json(os.path.join(directory, FINISHED)) or storage.read_json(
        os.path.join(directory, UNFINISHED)
    )
    path = os.path.join(directory, VOCABULARY)
    vocabulary = Vocabulary(storage.read_text(path).removesuffix("\n").split("\n"))
    found = Settings.from_dict(settings["settings"], directory)
    if sha256_of(vocabulary) != found.vocabulary_sha256:
        raise ValueError(
            "The vocabulary beside examples must be the one they were made with. Put it back, or write the examples "
            f"again. Received: {path}, {len(vocabulary)} pieces, where {found.vocabulary_size} with another digest "
            "were used"
        )
    return vocabulary, TextRules(found.lowercase, found.strip_accents, found.split_cjk)


def _notes(directory: str) -> list[str]:
    return [name for name in storage.names_in(directory) if name.startswith("examples-") and name.endswith(".json")]


def _difference(found: Any, wanted: Any) -> str:
    if not isinstance(found, dict):
        return f"{str(found)[:60]} (now {str(wanted)[:60]})"
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    return ", ".join(f"{name}={found.get(name)!r} (now {wanted.get(name)!r})" for name in names)
