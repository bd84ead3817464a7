"""BertConfig: the settings that define one BERT, and the table of the released sizes."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checks import check_above_zero
from keras_bert.storage import json_object, write_json

logger = logging.getLogger("keras_bert")

CONFIG = "bert_config.json"  # Google's name, in our folders and exports too
UNCASED_VOCAB = 30522
SIZES = {  # the released sizes: layers, hidden size and attention heads
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}

_ACTIVATIONS = ("gelu_tanh", "gelu_erf")
GELU_LEAST = -0.1701  # just below the lowest value of both
_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
_MOST_LAYERS = 1000
_POSITIVE = (*_REQUIRED, "max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The architecture of a BERT, under the keys of `bert_config.json`.

    >>> config = BertConfig.from_size("tiny")
    >>> config.hidden_size, config.head_size
    (128, 64)
    >>> BertConfig.from_dict(dataclasses.asdict(config)) == config
    True
    """

    vocab_size: int = UNCASED_VOCAB
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"  # gelu_tanh: Google, Model Garden, KerasHub; gelu_erf: HuggingFace
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    layer_norm_eps: float = 1e-12

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and isinstance(value, np.integer):  # which JSON cannot hold
                value = int(value)
                object.__setattr__(self, field.name, value)
            kind: Any = (int, float) if field.type is float else field.type
            if not isinstance(value, kind) or isinstance(value, bool):
                raise TypeError(
                    f"`{field.name}` must be of type {getattr(field.type, '__name__', field.type)}. "
                    f"Correct the config. Received: {field.name}={value!r}"
                )
        for name in _POSITIVE:
            check_above_zero(name, getattr(self, name), "Correct the config.")
        if self.num_hidden_layers > _MOST_LAYERS:  # all weights would be listed before one is found missing
            raise ValueError(
                f"`num_hidden_layers` must be at most {_MOST_LAYERS}. Correct the config. "
                f"Received: num_hidden_layers={self.num_hidden_layers}"
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be at least 0 and below 1. Correct the config. "
                    f"Received: {name}={getattr(self, name)}"
                )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_attention_heads`. Change either. "
                f"Received: hidden_size={self.hidden_size}, num_attention_heads={self.num_attention_heads}"
            )
        if self.hidden_act not in _ACTIVATIONS:
            raise ValueError(
                f"`hidden_act` must be {' or '.join(_ACTIVATIONS)}, the two forms of GELU. In a config file it may "
                "also be 'gelu'. A model with another activation is not a BERT. "
                f"Received: hidden_act={self.hidden_act!r}"
            )

    @property
    def head_size(self) -> int:
        """D, the size of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_size(cls, size: str, **changes: Any) -> "BertConfig":
        """The config of a released size.

        >>> BertConfig.from_size("base", vocab_size=28996).num_hidden_layers  # the cased one
        12
        """
        if size not in SIZES:
            raise ValueError(f"`size` is not a released size. Use one of {', '.join(SIZES)}. Received: size={size!r}")
        layers, hidden, heads = SIZES[size]
        numbers = {
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
        }
        return cls(**{**numbers, **changes})

    @classmethod
    def from_json(cls, path: str | Path) -> "BertConfig":
        """Read Google's `bert_config.json`, HuggingFace's `config.json`, or our own; other keys are ignored.

        The log says which form of GELU a plain `"gelu"` means, and why.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BertConfig.from_size("tiny").to_json(f"{folder}/bert_config.json")
        ...     BertConfig.from_json(f"{folder}/bert_config.json").num_hidden_layers
        2
        """
        return cls.from_dict(json_object(Path(path).read_bytes(), path), source=str(path))

    @classmethod
    def from_dict(cls, data: Any, source: str = "`data`") -> "BertConfig":
        """The same, from the content of the file."""
        if not isinstance(data, dict):
            raise ValueError(
                f"{source} is not one JSON object, as a config must be. Use a bert_config.json or config.json. "
                f"Received: {type(data).__name__}"
            )
        if (kind := data.get("model_type", "bert")) != "bert":
            raise ValueError(
                f"{source} is not the config of a BERT. Load the model with its own package. "
                f"Received: model_type={kind!r}"
            )
        if (kind := data.get("position_embedding_type") or "absolute") != "absolute":
            raise ValueError(
                f"{source} has relative positions, which BERT does not have. Load the model with transformers. "
                f"Received: position_embedding_type={kind!r}"
            )
        if missing := [key for key in _REQUIRED if key not in data]:
            raise ValueError(
                f"{source} lacks {', '.join(missing)}, which a config must have. Use the model's own config. "
                f"Received: {'the keys ' + ', '.join(map(str, data)) if data else 'no keys'}"
            )
        names = {field.name for field in dataclasses.fields(cls)}
        known = {key: value for key, value in data.items() if key in names}
        known["hidden_act"] = _which_gelu(data, source)
        try:
            return cls(**known)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{source}: {error}") from None

    def to_json(self, path: str | Path) -> None:
        """Write the config for `from_json`, its keys in the order of the fields.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BertConfig().to_json(f"{folder}/bert_config.json")
        """
        write_json(path, dataclasses.asdict(self))


def _which_gelu(data: dict[str, Any], source: str) -> str:
    """The GELU that a file means: a plain "gelu" is the tanh form in Google's files, the erf form in HuggingFace's."""
    name = data.get("hidden_act", "gelu")
    if name in ("gelu_new", "gelu_pytorch_tanh"):
        return "gelu_tanh"
    if name == "gelu_python":
        return "gelu_erf"
    if name != "gelu":
        return name
    sign = next((key for key in ("model_type", "architectures", "transformers_version") if key in data), None)
    if sign:
        taken, why = "gelu_erf", f"the file has {sign!r}, so it is from HuggingFace, where 'gelu' means the erf form"
    else:
        taken, why = "gelu_tanh", "the file is from Google or Model Garden, where 'gelu' means the tanh form"
    logger.info("%s: hidden_act 'gelu' is read as %r: %s.", source, taken, why)
    return taken
