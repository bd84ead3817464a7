"""The released BERTs by name: what each is, where its weights lie, and how its text is cut."""

import difflib
import math
from dataclasses import dataclass

from keras_bert.config import BertConfig
from keras_bert.text.rules import TextRules
from keras_bert.weights.tables import encoder_shapes

CASED = TextRules(lowercase=False)
# Lower-cased and without accents. Google lists its Chinese model with these (run_classifier.py's check of the casing),
# and its vocabulary has no capital letter; others call it cased, which makes [UNK] of every capital.
UNCASED = TextRules(lowercase=True)


@dataclass(frozen=True)
class Release:
    """One released model.

    google: folder and name of the zip on Google's storage. hugging_face: the repository with the same weights as
    safetensors. aliases: what other tools call these weights.
    """

    name: str
    aliases: tuple[str, ...]
    language: str
    rules: TextRules
    config: BertConfig
    google: str | None
    hugging_face: str

    @property
    def parameters(self) -> int:
        """Of the encoder with its pooler."""
        return sum(math.prod(shape) for shape in encoder_shapes(self.config).values())


def _config(layers: int, hidden: int, vocabulary: int = 30522, **changes: object) -> BertConfig:
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": hidden // 64}
    return BertConfig(**{"vocab_size": vocabulary, "intermediate_size": 4 * hidden, **sizes, **changes})  # type: ignore[arg-type]


def _google(
    name: str, file: str, repository: str, others: str, language: str, rules: TextRules, config: BertConfig
) -> Release:
    zipped = file.split("/")[1]
    aliases = (zipped, repository.split("/")[1], repository, *others.split())
    return Release(name, aliases, language, rules, config, file, repository)


# name, zip on Google's storage, HuggingFace repository, KerasHub's and TF-Hub's names, language, rules, config
_GOOGLE = (
    ("base", "2018_10_18/uncased_L-12_H-768_A-12", "google-bert/bert-base-uncased",
     "bert_base_en_uncased bert_en_uncased_L-12_H-768_A-12", "English", UNCASED, _config(12, 768)),
    ("large", "2018_10_18/uncased_L-24_H-1024_A-16", "google-bert/bert-large-uncased",
     "bert_large_en_uncased bert_en_uncased_L-24_H-1024_A-16", "English", UNCASED, _config(24, 1024)),
    ("base-cased", "2018_10_18/cased_L-12_H-768_A-12", "google-bert/bert-base-cased",
     "bert_base_en bert_en_cased_L-12_H-768_A-12", "English", CASED, _config(12, 768, 28996)),
    ("large-cased", "2018_10_18/cased_L-24_H-1024_A-16", "google-bert/bert-large-cased",
     "bert_large_en bert_en_cased_L-24_H-1024_A-16", "English", CASED, _config(24, 1024, 28996)),
    ("large-wwm", "2019_05_30/wwm_uncased_L-24_H-1024_A-16", "google-bert/bert-large-uncased-whole-word-masking",
     "bert_en_wwm_uncased_L-24_H-1024_A-16", "English", UNCASED, _config(24, 1024)),
    ("large-wwm-cased", "2019_05_30/wwm_cased_L-24_H-1024_A-16", "google-bert/bert-large-cased-whole-word-masking",
     "bert_en_wwm_cased_L-24_H-1024_A-16", "English", CASED, _config(24, 1024, 28996)),
    ("multilingual", "2018_11_23/multi_cased_L-12_H-768_A-12", "google-bert/bert-base-multilingual-cased",
     "multilingual-cased bert_base_multi bert_multi_cased_L-12_H-768_A-12", "104 languages", CASED,
     _config(12, 768, 119547)),
    ("multilingual-uncased", "2018_11_03/multilingual_L-12_H-768_A-12", "google-bert/bert-base-multilingual-uncased",
     "", "102 languages", UNCASED, _config(12, 768, 105879)),
    ("chinese", "2018_11_03/chinese_L-12_H-768_A-12", "google-bert/bert-base-chinese",
     "bert_base_zh bert_zh_L-12_H-768_A-12", "Chinese", UNCASED, _config(12, 768, 21128)),
)  # fmt: skip
# The sizes of "Well-Read Students Learn Better" (Turc et al. 2019) that have a name of their own.
_MINIATURES = {
    (2, 128): ("tiny", "bert_tiny_en_uncased"),
    (4, 256): ("mini", ""),
    (4, 512): ("small", "bert_small_en_uncased"),
    (8, 512): ("medium", "bert_medium_en_uncased"),
}


def _miniature(layers: int, hidden: int) -> Release:
    sizes = f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"
    name, others = _MINIATURES.get((layers, hidden), (sizes, ""))
    hub = f"bert_{sizes}"
    # Google gave the largest the file name of its BERT-Base of 2018, to which that name belongs here.
    clash = (layers, hidden) == (12, 768)
    aliases: tuple[str, ...] = () if clash or name == sizes else (sizes,)
    aliases += (f"google/{hub}", f"small_bert/bert_en_{sizes}", *others.split())
    if clash:
        name = hub
    else:
        aliases += (hub,)
    return Release(name, aliases, "English", UNCASED, _config(layers, hidden), f"2020_02_20/{sizes}", f"google/{hub}")


def _korean(name: str, repository: str, others: str, config: BertConfig) -> Release:
    return Release(name, (repository, *others.split()), "Korean", CASED, config, None, repository)


# HuggingFace is the only source of these; GELU is what the config there says.
_ERF = {"hidden_act": "gelu_erf"}
_KOREAN = (
    ("klue-base", "klue/bert-base", "klue-bert-base", _config(12, 768, 32000, **_ERF)),
    ("kcbert-base", "beomi/kcbert-base", "", _config(12, 768, 30000, max_position_embeddings=300, **_ERF)),
    ("kcbert-large", "beomi/kcbert-large", "", _config(24, 1024, 30000, max_position_embeddings=300, **_ERF)),
    ("kr-bert-char", "snunlp/KR-BERT-char16424", "KR-BERT-char16424", _config(12, 768, 16424, **_ERF)),
)

RELEASES: tuple[Release, ...] = (
    *(_google(*row) for row in _GOOGLE),
    *(_miniature(layers, hidden) for layers in (2, 4, 6, 8, 10, 12) for hidden in (128, 256, 512, 768)),
    *(_korean(*row) for row in _KOREAN),
)
_BY_NAME = {name.lower(): release for release in RELEASES for name in (release.name, *release.aliases)}


def find(name: str) -> Release | None:
    """The release of this name, whatever the case of its letters."""
    return _BY_NAME.get(name.lower())


def close_names(name: str) -> list[str]:
    """Known names that look like this one, for an error message."""
    found = difflib.get_close_matches(name.lower(), list(_BY_NAME), n=6, cutoff=0.5)
    return list(dict.fromkeys(_BY_NAME[match].name for match in found)) or [release.name for release in RELEASES[:3]]


@dataclass(frozen=True)
class Model:
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


def list_models() -> list[Model]:
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
            Model(release.name, release.aliases, release.language, not release.rules.lowercase, *sizes, source)
        )
    return models
