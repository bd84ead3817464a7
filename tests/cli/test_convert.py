"""`keras-bert convert`."""

import dataclasses
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.vectors import Pooling
from keras_bert.weights import our_folder
from keras_bert.weights.convert import compare, convert
from keras_bert.weights.load import read
from keras_bert_cli import app
from tests.weights import small


def _convert(*arguments):
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("to", ["hf", "google", "keras-hub", "keras-bert"])
def test_there_and_back(tmp_path, to):
    ours = small.checkpoint("mlm", "nsp", num_hidden_layers=1)
    our_folder.write_checkpoint(ours, tmp_path / "ours")
    said = _convert(tmp_path / "ours", tmp_path / "theirs", "--to", to)
    assert "largest difference of outputs\t0.0e+00" in said
    _convert(tmp_path / "theirs", tmp_path / "again", "--to", "keras-bert")
    again = read(tmp_path / "again")
    if to == "keras-hub":
        assert "left out: head mlm\tKerasHub computes its heads" in said
        ours.heads.clear()
    small.assert_same(ours, again)


@pytest.mark.parametrize("to", ["hf", "google", "keras-hub", "keras-bert"])
def test_pooling(tmp_path, to):
    ours = small.checkpoint(num_hidden_layers=1)
    ours.pooling = Pooling("cls", True, 12)
    our_folder.write_checkpoint(ours, tmp_path / "ours")
    said = _convert(tmp_path / "ours", tmp_path / "theirs", "--to", to)
    kept = to in ("hf", "keras-bert")
    assert read(tmp_path / "theirs").pooling == (ours.pooling if kept else None)
    assert ("left out: pooling" in said) is not kept


def test_what_was_not_compared_has_no_name(tmp_path, monkeypatch):
    our_folder.write_checkpoint(small.checkpoint(num_hidden_layers=1), tmp_path / "ours")
    for error in KeyboardInterrupt(), RuntimeError("another model"):
        with monkeypatch.context() as patch:
            patch.setattr("keras_bert.weights.convert.compare", Mock(side_effect=error))
            with pytest.raises(type(error)):
                convert(tmp_path / "ours", "hf", tmp_path / "theirs")
        assert [path.name for path in tmp_path.iterdir()] == ["ours"]
    with pytest.raises(TypeError, match=r"Name a new folder\. Received: directory=None"):
        convert(tmp_path / "ours", "hf", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file is a file, so nothing can be in it\. .*file/new"):
        convert(tmp_path / "ours", "hf", tmp_path / "file" / "new" / "theirs")


def test_the_log_does_not_name_the_temporary_folder(tmp_path, caplog):
    ours = small.checkpoint(num_hidden_layers=1)
    ours.config = dataclasses.replace(ours.config, hidden_act="gelu_erf")
    our_folder.write_checkpoint(ours, tmp_path / "ours")
    with caplog.at_level("INFO"):
        convert(tmp_path / "ours", "hf", tmp_path / "theirs")
    assert ".partial" not in caplog.text
    with caplog.at_level("INFO"):
        read(tmp_path / "theirs")
    assert "hidden_act 'gelu' is read as 'gelu_erf'" in caplog.text


def test_a_folder_that_is_not_empty(tmp_path):
    our_folder.write_checkpoint(small.checkpoint(), tmp_path / "ours")
    with pytest.raises(FileExistsError, match="new or empty folder"):
        _convert(tmp_path / "ours", tmp_path / "ours", "--to", "hf")


@pytest.mark.parametrize("to", ["hf", "google", "keras-hub", "keras-bert"])
@pytest.mark.parametrize("rules", [TextRules(False, True), TextRules(True, False, False)])
def test_rules_of_text(tmp_path, to, rules):
    ours = small.checkpoint(num_hidden_layers=1, rules=rules)
    ours.vocabulary = Vocabulary([*small.VOCABULARY.tokens[:-1], "e"])  # which shows neither rule
    our_folder.write_checkpoint(ours, tmp_path / "ours")
    _convert(tmp_path / "ours", tmp_path / "theirs", "--to", to)
    again = read(tmp_path / "theirs")
    assert (again.rules, again.vocabulary) == (rules, ours.vocabulary)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"rules": TextRules(False)}, r"TextRules\(lowercase=False.* instead of TextRules\(lowercase=True"),
        ({"vocabulary": None}, "another vocabulary"),
    ],
)
def test_text_that_comes_back_different(change, error):
    ours = small.checkpoint(num_hidden_layers=1)
    assert compare(ours, ours) == 0
    with pytest.raises(RuntimeError, match=error):
        compare(ours, dataclasses.replace(ours, **change))


@pytest.mark.parametrize("to", ["hf", "google", "keras-bert"])
def test_without_a_pooler(tmp_path, to):
    ours = small.checkpoint("mlm", num_hidden_layers=1)
    del ours.weights["pooler/kernel"], ours.weights["pooler/bias"]
    our_folder.write_checkpoint(ours, tmp_path / "ours")
    said = _convert(tmp_path / "ours", tmp_path / "theirs", "--to", to)
    assert "left out: pooler\tthe file has none" in said
    small.assert_same(ours, read(tmp_path / "theirs"))


@pytest.mark.parametrize("multi_label", [False, True])
def test_what_googles_format_does_not_hold(tmp_path, multi_label):
    ours = small.checkpoint("classifier", num_hidden_layers=1, hidden_act="gelu_erf", layer_norm_eps=1e-5)
    head = dataclasses.replace(ours.heads["classifier"], labels=("a", "b", "c"), multi_label=multi_label)
    ours.heads["classifier"] = head
    our_folder.write_checkpoint(ours, tmp_path / "ours")
    said = _convert(tmp_path / "ours", tmp_path / "theirs", "--to", "google")
    assert "left out: hidden_act\tkept for keras_bert; Google's scripts" in said
    assert "left out: layer_norm_eps\tkept for keras_bert; Google's scripts compute with 1e-12 instead of 1e-05" in said
    assert ("left out: labels\t" in said) is not multi_label
    assert ("left out: head classifier\tseveral of its labels" in said) is multi_label
    ours.heads = {} if multi_label else {"classifier": dataclasses.replace(head, labels=None)}
    small.assert_same(ours, read(tmp_path / "theirs"))
