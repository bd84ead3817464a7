"""The tokenizer settings of a HuggingFace folder: each is honoured or refused, none is passed over."""

from pathlib import Path
from typing import Any

from keras_bert.storage import read_json
from keras_bert.text.vocabulary import SPECIAL, Vocabulary
from keras_bert.weights.checkpoint import TextRules
from keras_bert.wording import listed

# tokenizer_config.json, BertNormalizer in tokenizer.json, our rule, what transformers takes where neither says.
FLAGS = (
    ("do_lower_case", "lowercase", "lowercase", True),
    ("strip_accents", "strip_accents", "strip_accents", None),
    ("tokenize_chinese_chars", "handle_chinese_chars", "split_cjk", True),
)
_CLASSES = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
_SPECIAL_KEYS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_OTHER_TOKENIZERS = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "tokenizer_78b3253a26.model")


def read_text(folder: Path) -> tuple[Vocabulary | None, TextRules]:
    """The folder's vocabulary, None where it has no tokenizer, and how text is cut."""
    try:
        return _read_text(folder)
    except (AttributeError, KeyError, TypeError) as error:  # what is no object where one belongs
        raise ValueError(
            f"A tokenizer's files must be as transformers writes them. Get them again. Received: {folder} ({error})"
        ) from None


def _read_text(folder: Path) -> tuple[Vocabulary | None, TextRules]:
    config, fast = read_json(folder / "tokenizer_config.json"), read_json(folder / "tokenizer.json")
    vocabulary = _vocabulary(folder, fast)
    if vocabulary is None:
        return None, TextRules()
    normalizer = fast.get("normalizer") or {}
    rules: dict[str, Any] = {}
    for key, fast_key, rule, default in FLAGS:
        rules[rule] = config[key] if key in config else normalizer.get(fast_key, default)
        if not isinstance(rules[rule], bool) and rules[rule] is not default:
            _refuse(folder, f"{key} must be true or false", f"{key}={rules[rule]!r}")
    _refuse_others(folder, config, fast, vocabulary)
    return vocabulary, TextRules(**rules)


def _vocabulary(folder: Path, fast: dict[str, Any]) -> Vocabulary | None:
    model = fast.get("model", {})
    ids = model.get("vocab", {}) if model.get("type", "WordPiece") == "WordPiece" else {}
    if (folder / "vocab.txt").is_file():
        vocabulary = Vocabulary.from_file(folder / "vocab.txt")
        if ids and ids != {token: i for i, token in enumerate(vocabulary.tokens)}:
            _refuse(folder, "vocab.txt and tokenizer.json must give the same ids", "two vocabularies")
        return vocabulary
    if ids:
        tokens = sorted(ids, key=ids.__getitem__)
        if [ids[token] for token in tokens] != list(range(len(tokens))):
            raise ValueError(
                "The ids of a vocabulary must run from 0 without gaps. Give a vocab.txt. "
                f"Received: {folder / 'tokenizer.json'}"
            )
        return Vocabulary(tokens)
    others = [name for name in _OTHER_TOKENIZERS if (folder / name).is_file()]
    if others or model:
        raise ValueError(
            f"BERT's tokenizer must be WordPiece, with a vocab.txt. A SentencePiece model (KoBERT, ALBERT, XLM-R) is "
            f"another tokenizer: load it with its own package. Received: {listed(others) or model.get('type')}"
            f" in {folder}"
        )
    return None


def _refuse_others(folder: Path, config: dict[str, Any], fast: dict[str, Any], vocabulary: Vocabulary) -> None:
    kind = config.get("tokenizer_class") or "BertTokenizer"
    if kind not in _CLASSES:
        _refuse(folder, f"its class must be one of {', '.join(_CLASSES)}", f"tokenizer_class={kind!r}")
    for settings in (config, read_json(folder / "special_tokens_map.json")):
        for key, piece in _SPECIAL_KEYS.items():
            value = settings.get(key, piece)
            value = value.get("content") if isinstance(value, dict) else value
            if value not in (None, piece):
                _refuse(folder, f"{key} must be {piece}", f"{key}={value!r}")
    if config.get("do_basic_tokenize", True) is False:
        _refuse(folder, "words are split before WordPiece", "do_basic_tokenize=False")
    never = set(config.get("never_split") or ()) - set(SPECIAL)
    if never:
        _refuse(folder, "every word is split by the same rules", f"never_split={sorted(never)}")
    for part, kinds in (
        ("normalizer", "BertNormalizer"),
        ("pre_tokenizer", "BertPreTokenizer"),
        ("model", "WordPiece"),
    ):
        kind = (fast.get(part) or {}).get("type") or kinds
        if kind != kinds:
            _refuse(folder, f"the {part} of tokenizer.json must be {kinds}", repr(kind))
    if False in (config.get("clean_text"), (fast.get("normalizer") or {}).get("clean_text")):
        _refuse(folder, "control characters are dropped", "clean_text=False")
    for prefix in ((fast.get("model") or {}).get("continuing_subword_prefix"), config.get("wordpieces_prefix")):
        if prefix not in (None, "##"):
            _refuse(folder, "pieces within a word begin with ##", repr(prefix))
    added = _added_tokens(folder, config, fast)
    if unknown := [token for token in added if token not in vocabulary]:
        _refuse(folder, "every added token must be in vocab.txt", f"added tokens {listed(unknown)}")
    if matched := [token for token in added if token not in SPECIAL and not token.startswith("[unused")]:
        _refuse(folder, "no token but the special ones is looked for in the text", f"added tokens {listed(matched)}")


def _added_tokens(folder: Path, config: dict[str, Any], fast: dict[str, Any]) -> list[str]:
    added = [token["content"] for token in fast.get("added_tokens") or ()]
    added += [token["content"] for token in (config.get("added_tokens_decoder") or {}).values()]
    added += list(read_json(folder / "added_tokens.json"))
    for key in ("additional_special_tokens", "extra_special_tokens"):
        added += [token["content"] if isinstance(token, dict) else token for token in config.get(key) or ()]
    return sorted(set(added))


def _refuse(folder: Path, rule: str, received: str) -> None:
    raise ValueError(
        f"This tokenizer cuts text in a way of its own; here {rule}. To use the encoder alone, load a copy of the "
        f"folder without its tokenizer files. Received: {received} in {folder}"
    )


def tokenizer_config(rules: TextRules, max_length: int) -> dict[str, Any]:
    """What transformers reads back as the same rules."""
    flags = {key: getattr(rules, rule) for key, _, rule, _ in FLAGS}
    return {"tokenizer_class": "BertTokenizer", **flags, "model_max_length": max_length, **_SPECIAL_KEYS}
