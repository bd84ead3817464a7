"""What decides the bytes of a directory of examples, as examples.json has it."""

import dataclasses
import hashlib
from dataclasses import dataclass, field
from typing import Any

from keras_bert.corpus.documents import check_boundary
from keras_bert.corpus.sentences import RULES
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.text.packing import check_seq_length
from keras_bert.text.vocabulary import Vocabulary

MODES = ("dynamic", "static")
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How text became examples."""

    seq_length: int = 128
    mode: str = "dynamic"  # masked when read, or "static": masked when written
    nsp: bool = True  # pairs of texts; False: full sentences, for MLM alone
    masking: Masking = field(default_factory=Masking)
    short_seq_prob: float = 0.1  # share of the documents whose examples are cut shorter
    dupe_factor: int = 1  # passes over the documents, each with pairs and masks of its own
    seed: int = 0
    boundary: str = "auto"  # what parts the documents of a text file
    sentences: str = "rules"  # how sentences are told, or "line"
    text_field: str = "text"  # of a JSONL file
    shard_size: int = 4_000_000  # characters of text
    lowercase: bool = True
    strip_accents: bool | None = None  # None: as lowercase
    split_cjk: bool = True
    vocabulary_size: int = 0
    vocabulary_sha256: str = ""
    format: int = FORMAT

    def __post_init__(self) -> None:
        check_seq_length(self.seq_length, segments=2 if self.nsp else 1)
        if self.nsp and self.seq_length < 5:
            raise ValueError(f"Pairs need room for a piece of each text. Received: seq_length={self.seq_length}")
        for name, known in (("mode", MODES), ("sentences", RULES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}. Received: {name}={getattr(self, name)!r}")
        check_boundary(self.boundary)
        for name in ("dupe_factor", "shard_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={getattr(self, name)}")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob must be between 0 and 1. Received: {self.short_seq_prob}")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"seed must be a whole number of 64 bits. Received: seed={self.seed}")

    @property
    def predictions(self) -> int:
        """P, the masked positions of a row."""
        return self.masking.predictions(self.seq_length)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any], source: str) -> "Settings":
        """The settings in examples.json; those of a newer release are refused."""
        known = {entry.name for entry in dataclasses.fields(cls)}
        if data.get("format") != FORMAT or set(data) != known:
            raise ValueError(
                f"Examples must be of format {FORMAT}. Write them again with this release. "
                f"Received: {source}, format {data.get('format')}"
            )
        return cls(**(data | {"masking": Masking(**data["masking"])}))


def sha256_of(vocabulary: Vocabulary) -> str:
    """The digest of the vocabulary's file."""
    return hashlib.sha256("".join(f"{token}\n" for token in vocabulary).encode()).hexdigest()
