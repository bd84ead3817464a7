"""What makes a HuggingFace folder one of sentence-transformers: modules.json, and how vectors are pooled."""

import logging
from pathlib import Path, PurePath

from keras_bert.config import BertConfig
from keras_bert.storage import json_list, read_json, write_json
from keras_bert.vectors import Pooling
from keras_bert.weights.tokenizer_files import TOKENIZER

logger = logging.getLogger("keras_bert")

_POOLING = {  # a key in the pooling module's config.json, and the name of its pooling
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    **{f"pooling_mode_{mode}": mode for mode in ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")},
}
_SETTINGS = "sentence_bert_config.json"
_PROMPTS = "config_sentence_transformers.json"


def transformer_folder(folder: Path) -> Path:
    """Where BERT itself is, which older sentence-transformers folders keep in a folder of its own."""
    return folder / _modules(folder).get("Transformer", "")


def _modules(folder: Path) -> dict[str, str]:
    """The modules of a sentence-transformers folder and their paths; {} for any other folder."""
    file = folder / "modules.json"
    if not file.is_file():
        return {}
    try:
        modules = json_list(file.read_bytes(), file)
        paths = {module["type"].split(".")[-1]: module["path"] for module in modules}
        if outside := [path for path in paths.values() if PurePath(path).is_absolute() or ".." in PurePath(path).parts]:
            raise ValueError(f"the path {outside[0]!r}")
        return paths
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{file} is not a list of modules with a type and a path. Download it again. Received: {error!r}"
        ) from None


def lowercases(folder: Path) -> bool:
    """Whether sentence-transformers calls lower() on the text, and leaves the accents to the tokenizer."""
    return bool(read_json(folder / _SETTINGS).get("do_lower_case"))


def read_pooling(folder: Path, positions: int, left_out: dict[str, str]) -> Pooling | None:
    """The pooling of a sentence-transformers folder; None for any other, and for one that we do not have."""
    paths = _modules(folder)
    if not paths:
        return None
    reason = ""
    file = folder / paths.get("Pooling", "1_Pooling") / "config.json"
    settings = read_json(file)
    chosen = [mode for key, mode in _POOLING.items() if settings.get(key)]
    chosen = chosen or [str(settings.get("pooling_mode"))]
    if others := sorted(set(paths) - {"Transformer", "Pooling", "Normalize"}):
        reason = f"keras_bert lacks its modules after BERT: {', '.join(others)}"
    elif not settings:
        reason = f"it lacks the settings of its pooling, {file.relative_to(folder)}"
    elif len(chosen) > 1 or chosen[0] not in ("mean", "cls", "max"):
        reason = f"keras_bert has no pooling by {' and '.join(chosen)}"
    elif prompt := read_json(folder / _PROMPTS).get("default_prompt_name"):
        reason = f"it puts the prompt {prompt!r} in front of each text"
    if reason:
        left_out["modules.json"] = f"{reason}; `embed` uses its own defaults"
        logger.warning("%s: %s.", folder, left_out["modules.json"])
        return None
    bert = transformer_folder(folder)
    length = _length(bert / _SETTINGS, "max_seq_length") or _length(bert / TOKENIZER, "model_max_length")
    return Pooling(chosen[0], "Normalize" in paths, int(length) if length and length < positions else None)


def _length(file: Path, key: str) -> float | None:
    """The most pieces of a text, in a file of settings."""
    length = read_json(file).get(key)
    if length is not None and (type(length) not in (int, float) or not length >= 3):  # transformers writes 1e30 too
        raise ValueError(
            f"{file} has a {key} that is not a number of at least 3 pieces. Correct it. Received: {key}={length!r}"
        )
    return length


def write_pooling(folder: Path, pooling: Pooling, config: BertConfig) -> None:
    paths = {"Transformer": "", "Pooling": "1_Pooling"} | ({"Normalize": "2_Normalize"} if pooling.normalize else {})
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(paths.items())
    ]
    write_json(folder / "modules.json", modules)
    for path in list(paths.values())[1:]:
        (folder / path).mkdir()
    modes = {key: mode == pooling.pooling for key, mode in _POOLING.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.hidden_size, **modes})
    write_json(folder / _PROMPTS, {"similarity_fn_name": "cosine", "prompts": {}, "default_prompt_name": None})
    length = pooling.max_length or config.max_position_embeddings
    write_json(folder / _SETTINGS, {"max_seq_length": length, "do_lower_case": False})
