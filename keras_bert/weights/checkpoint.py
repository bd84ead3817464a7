"""Checkpoint: what a file of any format holds, under our own names."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.layers.dense import initializer
from keras_bert.named_weights import named_weights
from keras_bert.storage import write_json
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece import MAX_CHARACTERS
from keras_bert.vectors import Pooling
from keras_bert.weights.tables import HEADS, Stored, encoder_shapes, head_shapes
from keras_bert.weights.tokenizer_files import TOKENIZER, VOCABULARY, tokenizer_config
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")

# Settings of a preprocessor that released formats do not have, and their defaults.
TEXT_SETTINGS = {"truncation": "longest_first", "special_tokens_in_text": False, "max_word_length": MAX_CHARACTERS}
OF_ITS_CLASS = "only the class that it belongs to can load it"  # why a head is left out
ONLY_OURS = "only .keras files and exports of keras_bert have it"  # and a setting


@dataclass(frozen=True)
class Head:
    """The weights of a head, "layer/weight" to array.

    labels: in the order of its outputs. multi_label: whether several may apply to one text, so that each is a sigmoid.
    config: what its layers are computed with, where it differs from the encoder's.
    """

    weights: dict[str, Stored]
    labels: tuple[str, ...] | None = None
    multi_label: bool = False
    config: BertConfig | None = None


@dataclass
class Checkpoint:
    """A model on disk or in memory, its arrays unread.

    weights: of the encoder, "layer/weight" of `Bert`. heads: by name, see `HEADS`.
    text_settings: those of `TEXT_SETTINGS` that differ from their defaults.
    left_out: what the source has and this does not, with the reason.
    """

    source: str
    format: str
    config: BertConfig
    weights: dict[str, Stored]
    _: KW_ONLY
    heads: dict[str, Head] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None
    rules: TextRules = field(default_factory=TextRules)
    pooling: Pooling | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    text_settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any) -> "Checkpoint":
        """The checkpoint of a `Bert` in memory, or of a task with its heads."""
        bert = getattr(model, "bert", model)
        stored = {name: Stored(tuple(w.variable.shape), w.read) for name, w in named_weights(model).items()}
        checkpoint = cls(
            model.name, type(model).__name__, bert.config, {name: stored[name] for name in encoder_shapes(bert.config)}
        )
        for head in getattr(model, "heads", ()):
            if head not in HEADS:
                checkpoint.left_out[f"head {head}"] = OF_ITS_CLASS
                continue
            weights = {name: stored[name] for name in head_shapes(head, bert.config)}
            config = getattr(model, "mlm_config", None) if head == "mlm" else None
            labels, multi_label = getattr(model, "labels", None), getattr(model, "multi_label", False)
            checkpoint.heads[head] = Head(weights, labels, multi_label, config)
        if bert.has_preprocessor:
            checkpoint.vocabulary = bert.preprocessor.vocabulary
            checkpoint.rules = TextRules.of(bert.preprocessor)
            checkpoint.text_settings = text_settings_of(bert.preprocessor)
            if (length := bert.preprocessor.seq_length) != min(128, bert.config.max_position_embeddings):  # as `load`
                checkpoint.left_out["seq_length"] = f"pass seq_length={length!r} when you load the result"
        checkpoint.left_out |= {f"setting {name}": ONLY_OURS for name in getattr(model, "own_settings", ())}
        checkpoint.pooling = bert.pooling
        return checkpoint

    def check(self) -> "Checkpoint":
        """An error if the vocabulary and the word table are of different lengths."""
        if self.vocabulary is not None and len(self.vocabulary) != self.config.vocab_size:
            raise ValueError(
                f"{self.source} has {self.config.vocab_size} word vectors, but its vocabulary has "
                f"{len(self.vocabulary)} pieces. Use the vocab.txt that came with the weights. If there are more "
                "vectors than pieces, append a line for each missing piece: [unused0], [unused1] and so on. "
                f"Received: {len(self.vocabulary)} pieces"
            )
        return self

    def heads_unlike_encoder(self) -> dict[str, str]:
        """The heads computed with another epsilon or GELU than the encoder, as `cannot_hold` of a format lists them."""
        reason = "it has another epsilon or GELU than its encoder, which the format cannot express"
        return {f"head {name}": reason for name, head in self.heads.items() if head.config not in (None, self.config)}

    def settings_unlike(self, *known: str) -> dict[str, str]:
        """The text settings that a format does not know, as its `cannot_hold` lists them."""
        reason = "the format has no such setting; set it when you load the model"
        return {name: reason for name in self.text_settings if name not in known}

    def write_tokenizer(self, folder: Path, **settings: Any) -> None:
        """Write the vocabulary, and in a second file the rules, as transformers has them, and `settings`."""
        if self.vocabulary is not None:
            self.vocabulary.save(folder / VOCABULARY)
            rules = tokenizer_config(self.rules, self.config.max_position_embeddings)
            write_json(folder / TOKENIZER, rules | settings)

    def without(self, lost: Collection[str]) -> "Checkpoint":
        """The checkpoint without the parts named in `lost`, as a format's `cannot_hold` names them."""
        heads = {name: head for name, head in self.heads.items() if f"head {name}" not in lost}
        if "labels" in lost:
            heads = {name: replace(head, labels=None) for name, head in heads.items()}
        weights = {
            name: entry
            for name, entry in self.weights.items()
            if "pooler" not in lost or not name.startswith("pooler/")
        }
        text = {name: value for name, value in self.text_settings.items() if name not in lost}
        pooling = None if "pooling" in lost else self.pooling
        return replace(self, weights=weights, heads=heads, pooling=pooling, text_settings=text)

    def assign_to(self, bert: Any) -> None:
        """Put the encoder's arrays into a built `Bert`, one at a time; a missing pooler is drawn at random."""
        ours = named_weights(bert)
        if missing := sorted(set(ours) - set(self.weights) - {"pooler/kernel", "pooler/bias"}):
            raise ValueError(
                f"{self.source} lacks weights of the encoder. Build the Bert with this checkpoint's config. "
                f"Missing: {listed(missing)}. Received: {len(self.weights)} weights"
            )
        for name, stored in self.weights.items():
            ours[name].variable.assign(stored.read())
        if "pooler/kernel" not in self.weights:
            kernel = ours["pooler/kernel"].variable
            kernel.assign(initializer(self.config)(kernel.shape, dtype=kernel.dtype))
            logger.warning(
                "%s has no pooler, so a new one is drawn at random. Only `pooled_output` depends on it, and means "
                "nothing until it is trained.",
                self.source,
            )


def text_settings_of(preprocessor: Any) -> dict[str, Any]:
    return changed_text_settings({name: getattr(preprocessor, name) for name in TEXT_SETTINGS})


def changed_text_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `TEXT_SETTINGS` that are in `settings` and differ from their defaults."""
    return {name: settings[name] for name, usual in TEXT_SETTINGS.items() if settings.get(name, usual) != usual}


def refuse_lost_heads(checkpoint: Checkpoint, lost: Mapping[str, str]) -> None:
    """An error if a format cannot hold a head of the checkpoint."""
    for name, reason in lost.items():
        if name.startswith("head "):
            raise ValueError(
                f"{checkpoint.source} has the {name}, which this format cannot hold: {reason}. Leave the head out, or "
                f"write another format. Received: heads {', '.join(checkpoint.heads)}"
            )
