"""The files that say how text is split: vocab.txt, and transformers' tokenizer_config.json and tokenizer.json.

Each setting in them is followed or refused; where they have none, the vocabulary shows how its text was split.
"""

import logging
import unicodedata
from pathlib import Path
from typing import Any

from keras_bert.storage import read_json
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import SPECIAL, Vocabulary
from keras_bert.text.wordpiece import MAX_CHARACTERS
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")

VOCABULARY, TOKENIZER, FAST_TOKENIZER = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
THEIR_LIMIT = 100  # characters of a word in transformers' BertTokenizer, which no tokenizer_config.json changes
_FLAGS = (  # in tokenizer_config.json, in tokenizer.json's BertNormalizer, ours, transformers' default
    ("do_lower_case", "lowercase", "lowercase", True),
    ("strip_accents", "strip_accents", "strip_accents", None),
    ("tokenize_chinese_chars", "handle_chinese_chars", "split_cjk", True),
)
_CLASSES = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
_PARTS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer", "model": "WordPiece"}
_SPECIAL_KEYS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_OTHER_TOKENIZERS = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "tokenizer_78b3253a26.model")


def read_tokenizer(folder: Path) -> tuple[Vocabulary | None, TextRules]:
    """The folder's vocabulary, None where it has no tokenizer, and the rules by which text is split."""
    config, fast = read_json(folder / TOKENIZER), read_json(folder / FAST_TOKENIZER)
    try:
        vocabulary = _vocabulary(folder, fast)
        if vocabulary is None:
            return None, TextRules()
        if (folder / TOKENIZER).is_file() or fast:
            rules = rules_in(config, fast.get("normalizer") or {}, folder)
        else:
            rules = rules_of(vocabulary, str(folder))
        _refuse_others(folder, config, fast, vocabulary)
    except (AttributeError, KeyError, TypeError) as error:  # a list, for example, where an object belongs
        raise ValueError(
            f"{folder} has a tokenizer file in a form that transformers does not write. Download it again. "
            f"Received: {error}"
        ) from None
    return vocabulary, rules


def word_limit(folder: Path) -> int:
    """The most characters of a word in tokenizer.json, or else in transformers' own tokenizer."""
    model = read_json(folder / FAST_TOKENIZER).get("model")
    limit = model.get("max_input_chars_per_word", THEIR_LIMIT) if isinstance(model, dict) else THEIR_LIMIT
    if type(limit) is not int or not 1 <= limit <= MAX_CHARACTERS:
        _refuse(folder, f"words have at most {MAX_CHARACTERS} characters", f"max_input_chars_per_word={limit!r}")
    return limit


def rules_in(config: dict[str, Any], normalizer: dict[str, Any] | None = None, folder: Path = Path()) -> TextRules:
    """The rules in tokenizer_config.json, or else in the normalizer of tokenizer.json, or else transformers' own."""
    rules: dict[str, Any] = {}
    for key, fast_key, rule, default in _FLAGS:
        rules[rule] = config[key] if key in config else (normalizer or {}).get(fast_key, default)
        if not isinstance(rules[rule], bool) and rules[rule] is not default:
            _refuse(folder, f"{key} must be true or false", f"{key}={rules[rule]!r}")
    return TextRules(**rules)


def rules_of(vocabulary: Vocabulary, source: str) -> TextRules:
    """The rules under which the pieces of this vocabulary can be found at all; the log says what was concluded.

    A piece with a capital letter is never found in lower-cased text. A Hangul syllable is never found in text whose
    accents are stripped, since NFD splits it into letters.
    """
    pieces = [piece for piece in vocabulary.tokens if not piece.startswith("[")]
    capital = next((piece for piece in pieces if piece.isascii() and piece != piece.lower()), None)
    if capital is not None:
        logger.info("%s: taken as cased, since its vocabulary has %r.", source, capital)
        return TextRules(lowercase=False)
    if keeps_accents(vocabulary):
        logger.info("%s: taken as uncased with accents kept, since its vocabulary has letters with accents.", source)
        return TextRules(lowercase=True, strip_accents=False)
    logger.info("%s: taken as uncased, since its vocabulary has no capital letter.", source)
    return TextRules()


def keeps_accents(vocabulary: Vocabulary) -> bool:
    """Whether it has pieces that NFD would split, such as Hangul syllables or letters with accents."""
    return any(unicodedata.normalize("NFD", piece) != piece for piece in vocabulary.tokens if not piece.isascii())


def _vocabulary(folder: Path, fast: dict[str, Any]) -> Vocabulary | None:
    model = fast.get("model", {})
    ids = model.get("vocab", {}) if model.get("type", "WordPiece") == "WordPiece" else {}
    if (folder / VOCABULARY).is_file():
        vocabulary = Vocabulary.from_file(folder / VOCABULARY)
        if ids and ids != {token: i for i, token in enumerate(vocabulary.tokens)}:
            _refuse(folder, f"{VOCABULARY} and {FAST_TOKENIZER} must give the same ids", "two vocabularies")
        return vocabulary
    if ids:
        tokens = sorted(ids, key=ids.__getitem__)
        if [ids[token] for token in tokens] != list(range(len(tokens))):
            raise ValueError(
                f"{folder / FAST_TOKENIZER} has a vocabulary whose ids do not run from 0 without gaps. Add the "
                f"{VOCABULARY} of the model. Received: {len(tokens)} pieces with ids up to {max(ids.values())}"
            )
        return Vocabulary(tokens)
    others = [name for name in _OTHER_TOKENIZERS if (folder / name).is_file()]
    if others or model:
        raise ValueError(
            f"{folder} has no WordPiece vocabulary, which BERT needs. Models with a SentencePiece tokenizer (KoBERT, "
            f"ALBERT, XLM-R) need their own package. Received: {listed(others) or model.get('type')}"
        )
    return None


def _refuse_others(folder: Path, config: dict[str, Any], fast: dict[str, Any], vocabulary: Vocabulary) -> None:
    """An error for each setting that our tokenizer does not have."""
    kind = config.get("tokenizer_class") or "BertTokenizer"
    if kind not in _CLASSES:
        _refuse(folder, f"tokenizer_class must be one of {', '.join(_CLASSES)}", f"tokenizer_class={kind!r}")
    for settings in (config, read_json(folder / "special_tokens_map.json")):
        for key, piece in _SPECIAL_KEYS.items():
            value = settings.get(key, piece)
            value = value.get("content") if isinstance(value, dict) else value
            if value not in (None, piece):
                _refuse(folder, f"{key} must be {piece}", f"{key}={value!r}")
    if config.get("do_basic_tokenize", True) is False:
        _refuse(folder, "text is split into words before WordPiece", "do_basic_tokenize=False")
    if never := set(config.get("never_split") or ()) - set(SPECIAL):
        _refuse(folder, "every word is split by the same rules", f"never_split={sorted(never)}")
    for part, expected in _PARTS.items():
        if (kind := (fast.get(part) or {}).get("type") or expected) != expected:
            _refuse(folder, f"the {part} of {FAST_TOKENIZER} must be {expected}", repr(kind))
    if False in (config.get("clean_text"), (fast.get("normalizer") or {}).get("clean_text")):
        _refuse(folder, "control characters are removed", "clean_text=False")
    for prefix in ((fast.get("model") or {}).get("continuing_subword_prefix"), config.get("wordpieces_prefix")):
        if prefix not in (None, "##"):
            _refuse(folder, "pieces within a word begin with ##", repr(prefix))
    added = _added_tokens(folder, config, fast)
    if unknown := [token for token in added if token not in vocabulary]:
        _refuse(folder, f"every added token must be in {VOCABULARY}", f"added tokens {listed(unknown)}")
    if matched := [token for token in added if token not in SPECIAL and not token.startswith("[unused")]:
        _refuse(folder, "only special tokens are searched for in the text", f"added tokens {listed(matched)}")


def _added_tokens(folder: Path, config: dict[str, Any], fast: dict[str, Any]) -> list[str]:
    added = [token["content"] for token in fast.get("added_tokens") or ()]
    added += [token["content"] for token in (config.get("added_tokens_decoder") or {}).values()]
    added += list(read_json(folder / "added_tokens.json"))
    for key in ("additional_special_tokens", "extra_special_tokens"):
        added += [token["content"] if isinstance(token, dict) else token for token in config.get(key) or ()]
    return sorted(set(added))


def _refuse(folder: Path, rule: str, received: str) -> None:
    raise ValueError(
        f"{folder} has a tokenizer that splits text in another way than keras_bert, where {rule}. To use only the "
        f"encoder, load a copy of the folder without its tokenizer files. Received: {received}"
    )


def tokenizer_config(rules: TextRules, max_length: int) -> dict[str, Any]:
    """What transformers reads back as the same rules."""
    flags = {key: getattr(rules, rule) for key, _, rule, _ in _FLAGS}
    return {"tokenizer_class": "BertTokenizer", **flags, "model_max_length": max_length, **_SPECIAL_KEYS}
