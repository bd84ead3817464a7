"""TextRules: how a model's text is tokenized, without Keras, so that listing models starts fast."""

from dataclasses import dataclass
from typing import Any

from keras_bert.checks import check_flag


@dataclass(frozen=True)
class TextRules:
    """How text was tokenized when the model was trained; the arguments of `Preprocessor`."""

    lowercase: bool = True
    strip_accents: bool | None = None  # None: as lowercase
    split_cjk: bool = True

    def __post_init__(self) -> None:
        check_flag("lowercase", self.lowercase)
        check_flag("split_cjk", self.split_cjk)
        if self.strip_accents is not None:
            check_flag("strip_accents", self.strip_accents)

    @classmethod
    def of(cls, preprocessor: Any) -> "TextRules":
        return cls(preprocessor.lowercase, preprocessor.strip_accents, preprocessor.split_cjk)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextRules) and self._rules == other._rules

    def __hash__(self) -> int:
        return hash(self._rules)

    @property
    def strips_accents(self) -> bool:
        """`strip_accents`, decided."""
        return self.lowercase if self.strip_accents is None else self.strip_accents

    @property
    def _rules(self) -> tuple[bool, bool, bool]:
        return self.lowercase, self.strips_accents, self.split_cjk
