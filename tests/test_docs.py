"""The pages of docs/ build without warnings or network, their Python code runs, and public names have examples."""

import ast
import doctest
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from typer.testing import CliRunner

import keras_bert
import keras_bert.pretraining
from keras_bert_cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(ROOT.glob("docs/*.md"))


def test_site(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        html = (tmp_path / f"{page.stem}.html").read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img)\b[^>]*(src|href)=\"(https?:)?//", html), page.name


def test_journeys_through_the_code():
    """The files of each journey exist, and a reader does not have to open many."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    journeys = [section for section in page.split("\n## ") if section.startswith("From ")]
    for journey, most in zip(journeys, (14, 18, 28), strict=True):
        steps = re.findall(r"^\d+\. (?:.*\n)(?: +.*\n)*", journey, re.MULTILINE)
        paths = {path for step in steps for path in re.findall(r"`([\w/]+\.py)`", step)}
        assert [path for path in paths if not any((ROOT / part / path).exists() for part in ("", "keras_bert"))] == []
        assert 5 < len(paths) <= most
        assert f"These are {len(paths)} files." in journey


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the pages are written for TensorFlow")
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "migrating"], ids=lambda page: page.stem)
def test_code_runs(page, tmp_path, monkeypatch):
    """Run the code blocks of a page in order, as a reader would paste them; tests/test_migrating.py runs its page.

    On most pages, only blocks that define a model run in graphs. Other tests trace what the others train.
    """
    import tensorflow as tf

    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        defines_a_model = re.search(r"(^class \w+\(keras_bert\.)|(keras\.Model\()", block, re.MULTILINE)
        tf.config.run_functions_eagerly(page.stem != "training" and not defines_a_model)
        exec(compile(block, str(page), "exec"), names)


# === Docstrings ===

# These need a docstring but no example: training, scoring, exports and the command line call them, users do not.
HOOKS = {
    "examples", "labelled_examples", "held_out_examples", "with_targets", "target_ids", "class_weight_ids", "settings",
    "check_learnable", "check_rows", "check_run", "other_names", "start_head", "objective", "measures", "measures_of",
    "check_batch_size", "table_label", "decoded",
    "is_distributed", "text_runner", "held_out_measures", "parts",
    "logits", "runners", "stack_logits", "target_scores", "report_logits", "report_options", "decode_words",
    "recipe_loss", "weighs_labels_in_loss", "has_preprocessor", "held_out_loss", "packer", "own_settings",
    "best_score_of", "findings", "default_reading", "table_texts", "soft_loss", "lesson", "taught", "copy_head",
    "read_training_rows", "fit_options",
}  # fmt: skip
# Nor do these, which the author of a task writes: examples/own_task.py shows how.
CONTRACT = {
    "decode", "answers_in_graph", "signatures", "report", "best_score", "read_rows", "read_lines", "from_rows",
    "details", "labels_of", "answers", "answers_as_json", "as_json",
}  # fmt: skip
KERAS = (keras.Model, keras.layers.Layer, keras.optimizers.Optimizer)  # they document what overrides theirs


def _public():
    """Every public function, class and method: its name, and the docstrings that may hold its example."""
    for package in (keras_bert, keras_bert.pretraining):
        for name in package.__all__:
            thing = getattr(package, name)
            if callable(thing):  # not the version or the table of recipes
                yield name, [thing.__doc__, package.__doc__]
            if isinstance(thing, type):
                yield from _members(thing)


def _members(kind):
    owners = [owner for owner in kind.__mro__ if owner.__module__.startswith("keras_bert")]
    for owner in owners:
        for name, member in vars(owner).items():
            method = isinstance(member, property | classmethod) or inspect.isfunction(member)
            if method and not name.startswith("_") and not any(hasattr(k, name) for k in KERAS):
                yield f"{kind.__name__}.{name}", [member.__doc__, *(owner.__doc__ for owner in owners)]


PUBLIC = dict(_public())  # for an overridden method, the entry of the base class is last and has the docstring


@pytest.mark.parametrize("name", PUBLIC)
def test_has_docstring_and_example(name):
    """The examples themselves run as doctests of keras_bert/."""
    own, *_ = PUBLIC[name]
    assert own, f"{name} has no docstring"
    if name.split(".")[-1] in HOOKS | CONTRACT:
        return
    used = set()
    for docstring in filter(None, PUBLIC[name]):
        for example in doctest.DocTestParser().get_examples(docstring):
            if doctest.SKIP not in example.options:
                nodes = ast.walk(ast.parse(example.source))
                used |= {getattr(node, "attr", getattr(node, "id", None)) for node in nodes}
    assert name.split(".")[-1] in used, f"{name} is in no example that runs"


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow exports")
def test_from_a_table_to_a_served_model(minilm, tmp_path, monkeypatch):
    """The commands of the page, with the example's table."""
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, ROOT / "examples" / "support_messages.py"], check=True)
    page = (ROOT / "docs" / "first_model.md").read_text(encoding="utf-8")
    (tmp_path / "new.csv").write_text("message\nMy card was debited two times\n")
    printed = {}
    for line in re.findall(r"^    (?:echo .* \| )?keras-bert (.*)$", page.replace("\\\n", ""), re.MULTILINE):
        command, *words = shlex.split(line.partition(" >")[0])
        if command in ("play", "serve"):
            continue
        text = "My card was debited two times\n"
        done = CliRunner().invoke(app, [command, *words], input=text, catch_exceptions=False)
        assert done.exit_code == 0, line
        printed[command] = printed.get(command, "") + done.stdout
    assert list(printed) == ["finetune", "evaluate", "predict", "export"]
    for accuracy in re.findall(r"^accuracy\t(.*)$", printed["evaluate"], re.MULTILINE):
        assert float(accuracy) >= 0.7
    assert printed["predict"].count('"label": "billing"') == 2
    assert (tmp_path / "mistakes" / "index.html").is_file()
    assert (tmp_path / "saved_models" / "tickets" / "text" / "1").is_dir()
