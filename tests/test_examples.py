"""Every example script of a task runs on a few rows of real data with a tiny random model."""

import runpy
import sys
from pathlib import Path

import keras
import pytest

import keras_bert

EXAMPLES = Path(__file__).parents[1] / "examples"
RUNS = {
    "classify.py": (),
    "classify_korean.py": (),
    "classify_pairs.py": (),
    "score_pairs.py": ("--cosine",),
    "tag.py": (),
    "tag_korean.py": (),
    "answer.py": (),
    "choose.py": (),
    "features.py": (),
    "own_task.py": (),
}
MADE = {"choose.py", "own_task.py"}  # these need no file

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="written for TensorFlow")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A model with one block of width 8 and a vocabulary of letters."""
    texts = ["abcdefghijklmnopqrstuvwxyz .,?!0123456789", "가나다라마바사아자차카타파하에서는은을를이다"]
    vocabulary = keras_bert.Vocabulary.learn(texts * 2, size=200, strip_accents=False)
    config = keras_bert.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=384,
    )
    path = tmp_path_factory.mktemp("tiny") / "bert.keras"
    keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary, strip_accents=False)).save(path)
    return path


def run(monkeypatch, name, *options):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "own_task.py" else ()) for name in RUNS]
)
def test_runs(name, tiny, eager, monkeypatch, capsys, request):
    if name not in MADE:
        request.getfixturevalue("shared")
    run(monkeypatch, name, "--model", tiny, "--limit", 24, "--epochs", 1, *RUNS[name])
    said = capsys.readouterr().out
    assert any(score in said for score in ("accuracy", "spearman", "entity_f1", "exact_match"))


def test_every_example_of_a_task_is_run():
    tasks = {path.name for path in EXAMPLES.glob("*.py") if "task.fit(" in path.read_text(encoding="utf-8")}
    assert tasks == set(RUNS)


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_file_that_is_not_there(name, monkeypatch, capsys):
    """The error names the option and the file it needs."""
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, name, "--train", "nothing.tsv")
    assert stopped.value.code == 2
    assert "--train" in capsys.readouterr().err
