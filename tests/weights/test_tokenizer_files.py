"""The files beside the weights of a HuggingFace folder: tokenizer settings, and how texts become vectors."""

import json
import re
import shutil

import pytest

from keras_bert.text.plain_tokenizer import PlainTokenizer
from keras_bert.text.rules import TextRules
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.vectors import Pooling
from keras_bert.weights import hugging_face
from keras_bert.weights.convert import convert
from keras_bert.weights.load import read
from keras_bert.weights.sentence_transformers import transformer_folder
from tests.weights import small
from tests.weights.hugging_face_folders import bert_of_theirs, edit, folder_of

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("flags", "rules"),
    [
        ({}, TextRules(True, None, True)),
        ({"do_lower_case": False}, TextRules(False, None, True)),
        ({"strip_accents": False, "tokenize_chinese_chars": False}, TextRules(True, False, False)),
        ({"never_split": ["[MASK]"]}, TextRules()),
    ],
)
def test_tokenizer_flags_are_honoured(tmp_path, flags, rules):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    edit(folder / "tokenizer_config.json", **flags)
    assert read(folder).rules == rules


@pytest.mark.parametrize(
    "flags",
    [
        {"never_split": ["New York"]},
        {"do_basic_tokenize": False},
        {"tokenizer_class": "BertJapaneseTokenizer"},
        {"cls_token": "<s>"},
        {"added_tokens_decoder": {"24": {"content": "<ent>"}}},
        {"additional_special_tokens": ["w3"]},
        {"do_lower_case": None},
        {"strip_accents": "no"},
        {"clean_text": False},
        {"wordpieces_prefix": "@@"},
    ],
)
def test_tokenizer_flags_are_refused(tmp_path, flags):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    edit(folder / "tokenizer_config.json", **flags)
    with pytest.raises(ValueError, match="splits text in another way"):
        read(folder)


@pytest.mark.parametrize(
    ("piece", "rules"),
    [("É", TextRules(True, False)), ("Rome", TextRules(False)), ("e", TextRules(True))],
)
def test_only_a_vocabulary_shows_the_casing(tmp_path, caplog, piece, rules):
    caplog.set_level("INFO")
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    Vocabulary([*small.VOCABULARY.tokens[:-1], piece]).save(folder / "vocab.txt")
    assert read(folder).rules == rules
    assert f"{folder}: taken as {'cased' if piece == 'Rome' else 'uncased'}" in caplog.text


def test_vocabulary_from_tokenizer_json(tmp_path):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False)
    (folder / "vocab.txt").unlink()
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    checkpoint = read(folder)
    assert checkpoint.vocabulary == small.VOCABULARY
    assert checkpoint.rules.lowercase is False


def test_the_limit_of_the_length_of_words(tmp_path, minilm):
    """100 characters in MiniLM's tokenizer.json, where Google's code has 200."""
    import tokenizers

    theirs = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    checkpoint = read(minilm)
    assert checkpoint.text_settings == {"max_word_length": 100}
    assert "max_word_length" not in checkpoint.left_out | hugging_face.cannot_hold(checkpoint)
    texts = [f"so {letter * n} it is" for letter in ("a", "é", "글") for n in (30, 34, 99, 100, 101, 150, 201)]
    expected = theirs.encode_batch(texts, add_special_tokens=False)
    for kind in (Tokenizer, PlainTokenizer):
        tokenizer = kind(checkpoint.vocabulary, **vars(checkpoint.rules), **checkpoint.text_settings)
        found = tokenizer.tokenize_with_offsets(texts)
        ids, start, end = (part.merge_dims(1, 2).to_list() for part in found)
        for i, encoding in enumerate(expected):
            assert ids[i] == encoding.ids
            if "글" not in texts[i]:  # NFD splits a syllable into letters, which have no offsets of their own in theirs
                assert list(zip(start[i], end[i], strict=True)) == encoding.offsets


def test_a_folder_without_tokenizer_json_has_the_limit_of_transformers(tmp_path):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    assert read(folder).text_settings == {"max_word_length": 100}
    for wrong in (1000, True):
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"max_input_chars_per_word": wrong}}))
        with pytest.raises(ValueError, match=rf"at most 200 characters.*Received: max_input_chars_per_word={wrong}"):
            read(folder)


def test_convert_keeps_the_limit_or_lists_it(tmp_path):
    from keras_bert.weights import google

    google.write_checkpoint(small.checkpoint(), tmp_path / "google")
    done = convert(tmp_path / "google", "hf", tmp_path / "hf")
    assert "above 100 characters become [UNK] in transformers, above 200" in done.left_out["max_word_length"]
    done = convert(tmp_path / "hf", "keras-bert", tmp_path / "ours")
    assert not done.left_out
    assert read(tmp_path / "ours").text_settings == {"max_word_length": 100}


def test_sentence_transformers_settings(tmp_path, minilm, caplog):
    folder = tmp_path / "model"
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").symlink_to(minilm / "model.safetensors")
    edit(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True)
    assert read(folder).pooling.pooling == "cls"
    edit(folder / "1_Pooling" / "config.json", pooling_mode_max_tokens=True)
    unknown = read(folder)
    assert unknown.pooling is None
    assert "modules.json" in unknown.left_out
    assert "keras_bert has no pooling by cls and max" in caplog.text
    changes = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False, "pooling_mode_max_tokens": False}
    edit(folder / "1_Pooling" / "config.json", **changes)
    assert read(folder).pooling == Pooling("mean", True, 256)
    edit(folder / "config_sentence_transformers.json", default_prompt_name="query")
    assert read(folder).pooling is None
    assert "prompt 'query' in front of each text" in caplog.text
    (folder / "1_Pooling" / "config.json").unlink()
    assert read(folder).pooling is None
    assert "it lacks the settings of its pooling, 1_Pooling/config.json" in caplog.text


@pytest.mark.parametrize(
    "module",
    [{"type": None, "path": ""}, {"type": "Transformer", "path": None}, {"type": "a.Transformer", "path": "../b"}],
)
def test_modules_that_are_none(tmp_path, module):
    (tmp_path / "modules.json").write_text(json.dumps([module]))
    with pytest.raises(ValueError, match=r"modules.json is not a list of modules with a type and a path\. Download it"):
        transformer_folder(tmp_path)


def test_sentence_transformers_with_a_folder_for_bert(tmp_path):
    hugging_face.write_checkpoint(small.checkpoint(rules=TextRules(lowercase=False)), tmp_path / "0_Transformer")
    (tmp_path / "0_Transformer" / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    kinds = {"Transformer": "0_Transformer", "Pooling": "1_Pooling"}
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds.items()]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    checkpoint = read(tmp_path)
    assert checkpoint.pooling == Pooling("mean", False)
    assert checkpoint.rules == TextRules(lowercase=True, strip_accents=False)


@pytest.mark.parametrize(
    ("file", "key"),
    [("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")],
)
def test_the_most_pieces_of_a_text(tmp_path, file, key):
    folder = tmp_path / "model"
    checkpoint = small.checkpoint()
    checkpoint.pooling = Pooling()
    hugging_face.write_checkpoint(checkpoint, folder)
    if file == "tokenizer_config.json":
        (folder / "sentence_bert_config.json").unlink()
    for length, expected in ((12, 12), (12.0, 12), (16, None), (1e30, None), (10**30, None), (None, None)):
        edit(folder / file, **{key: length})
        assert read(folder).pooling.max_length == expected
    for length in ("128", -1, 2, True, [128], float("nan")):
        edit(folder / file, **{key: length})
        with pytest.raises(ValueError, match=rf"{re.escape(file)} has a {key} that is not .* Received: {key}="):
            read(folder)
