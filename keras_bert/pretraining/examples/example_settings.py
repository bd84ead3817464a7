"""ExampleSettings: the options of `write_examples`, as examples.json keeps them."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from keras_bert.checks import check_choice, check_positive, check_share
from keras_bert.corpus.documents import check_boundary
from keras_bert.corpus.sentences import SENTENCES
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.text.packing import check_seq_length
from keras_bert.text.rules import TextRules
from keras_bert.text_encoding import checked_encoding

MODES = ("dynamic", "static")


@dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """How documents become examples; together with the corpus and the vocabulary, this decides every byte.

    lowercase, strip_accents, split_cjk: see `keras_bert.Preprocessor`.
    seq_length: pieces in a row, [CLS] and [SEP] included.
    mode: "dynamic" masks while reading, differently in each epoch; "static" writes masked rows in the format of
        google-research/bert.
    nsp: whether rows are pairs of segments for next sentence prediction; False fills rows with full sentences, for
        masked words only.
    masking: which pieces are masked, and how.
    short_seq_prob: the share of documents whose pairs are cut to a random shorter length; without `nsp` not used.
    dupe_factor: passes over the documents, each with pairs and masks of its own; None: 1, or 10 in static mode.
    boundary, text_field, encoding: see `keras_bert.corpus.documents.read_documents`.
    sentences: "rules" splits text into sentences; "line" takes each line as one sentence.
    shard_size: characters of text in a shard. A random second segment comes from a document of the same shard.
    """

    seq_length: int = 128
    mode: str = "dynamic"
    nsp: bool = True
    masking: Masking = field(default_factory=Masking)
    short_seq_prob: float = 0.1
    dupe_factor: int | None = None
    seed: int = 0
    boundary: str = "auto"
    sentences: str = "rules"
    text_field: str = "text"
    encoding: str = "utf-8"
    shard_size: int = 4_000_000
    lowercase: bool = True
    strip_accents: bool | None = None
    split_cjk: bool = True

    def __post_init__(self) -> None:
        check_seq_length(self.seq_length, segments=1)
        if self.seq_length < (least := 5 if self.nsp else 3):
            raise ValueError(
                f"`seq_length` must be at least {least}, for [CLS], and a piece and [SEP] of each segment. Received: "
                f"seq_length={self.seq_length}"
            )
        check_choice("mode", self.mode, MODES)
        check_choice("sentences", self.sentences, SENTENCES)
        check_boundary(self.boundary)
        checked_encoding(self.encoding)
        check_positive(self, "shard_size", *(["dupe_factor"] if self.dupe_factor is not None else []))
        check_share(self, "short_seq_prob")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"`seed` must fit into 64 bits. Received: seed={self.seed}")

    @property
    def passes(self) -> int:
        """Passes over the documents."""
        if self.dupe_factor is not None:
            return self.dupe_factor
        return 10 if self.mode == "static" else 1

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of `read_documents`."""
        return {"boundary": self.boundary, "text_field": self.text_field, "encoding": self.encoding}

    @property
    def rules(self) -> TextRules:
        """How text is tokenized."""
        return TextRules(self.lowercase, self.strip_accents, self.split_cjk)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"dupe_factor": self.passes}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> "ExampleSettings":
        """The settings given to `write_examples` as keyword arguments; None stands for the default."""
        known = [entry.name for entry in dataclasses.fields(cls)]
        if unknown := [name for name in options if name not in known]:
            raise TypeError(
                f"write_examples() has no argument `{unknown[0]}`. Use one of {', '.join(known)}. "
                f"Received: {unknown[0]}={options[unknown[0]]!r}"
            )
        return cls(**{name: value for name, value in options.items() if value is not None})
