"""Help, completion, and the commands that help and pages show."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len

import keras_bert
import keras_bert_cli as cli
from keras_bert_cli.contents import CONTENTS
from keras_bert_cli.finetune_tasks import TASKS
from keras_bert_cli.first_look import _function

ROOT = Path(__file__).parents[2]
COMMANDS = [name for names in CONTENTS.values() for name in names]


@pytest.fixture(scope="module")
def commands():
    return typer.main.get_command(cli.app).commands


def test_help_is_a_table_of_contents(run):
    code, shown, _ = run("--help")
    places = [shown.index(f"─ {panel} ─") for panel in CONTENTS]
    assert code == 0
    assert places == sorted(places)
    assert re.findall(r"^│ ([a-z][a-z-]+)  ", shown, re.MULTILINE) == COMMANDS
    files = {path.stem.replace("_", "-") for path in (ROOT / "keras_bert_cli").glob("[a-z]*.py")}
    others = {"contents", "finetune-checks", "finetune-tasks", "first-look", "options", "sigterm"}
    others |= {"vectors-file", "without-the-package"}
    assert files - others == set(COMMANDS)


def _parse(commands, line):
    """Raises an error for a command or an option that does not exist."""
    name, *words = shlex.split(line.split(" && ")[0].removesuffix(" &"), comments=True)[1:]
    if not name.startswith("-"):
        found = commands[name]
        if getattr(found, "commands", None) and words and words[0] in found.commands:  # finetune classify
            found, words = found.commands[words[0]], words[1:]
        found.make_parser(typer.Context(found)).parse_args(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(commands, name):
    example = commands[name].epilog.removeprefix("Example: ")
    _parse(commands, example.partition(" | ")[2] or example)
    assert f"keras-bert {name} " in example


def _pages():
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "saved_models" / "README.md"):
        yield page, page.read_text(encoding="utf-8")
    for page in ROOT.glob("examples/*.py"):
        yield page, ast.get_docstring(ast.parse(page.read_text(encoding="utf-8")))


def test_commands_in_the_pages_exist(commands):
    found = 0
    for page, text in _pages():
        joined = re.sub(r"\\\n\s*", "", text)
        for line in re.findall(r"^\s+(?:\$ |.*\| )?(keras-bert .+)", joined, re.MULTILINE):
            try:
                _parse(commands, line)
            except Exception as error:
                raise AssertionError(f"{page.name}: {line}") from error
            found += 1
    assert found > 10


def test_commands_of_the_demo_exist(commands, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    commands_run = []

    def step(why, command):
        commands_run.append(command)
        return dict.fromkeys(("masked_lm_accuracy", "next_sentence_accuracy", "entity_f1"), 0.95) | {
            "most_frequent_accuracy": 0.1,
            "accuracy": 0.5 if "bag" in command else 0.94,
        }

    monkeypatch.setattr(demo, "step", step)
    monkeypatch.setattr(demo, "serve", lambda export, _: commands_run.append(f"keras-bert serve {export}"))
    monkeypatch.setattr(demo.shutil, "rmtree", lambda *_, **__: None)
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as end:
        demo.main()
    assert end.value.code == 1  # since one bar of five is not met
    assert capsys.readouterr().out.count("NOT MET") == 1
    assert len(commands_run) == demo.STEPS
    ours = [line for line in commands_run if "keras-bert" in line]
    assert len(ours) > 10
    for line in ours:
        _parse(commands, line[line.index("keras-bert") :])


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_on_a_dumb_terminal(run, commands, monkeypatch, name, columns):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    code, shown, _ = run(*([name] if name else []), "--help")
    assert code == 0
    assert "\x1b" not in shown
    assert "…" not in shown
    assert columns < 80 or max(map(cell_len, shown.splitlines())) <= columns  # lists of choices may be longer
    if name:
        options = {option for param in commands[name].params for option in (*param.opts, *param.secondary_opts)}
        assert {option for option in options if option[0] == "-"} <= set(re.findall(r"--?[\w-]+", shown))


def test_the_tasks_of_finetune(commands):
    """They are written in the command line too, since its help does not import the package."""
    tasks = keras_bert.Task.commands()
    assert set(TASKS) == set(commands["finetune"].commands) == set(tasks)
    everywhere = {param.name for param in commands["finetune"].commands["answer"].params} - {"format"}
    for name, task in tasks.items():
        own = {*task.run_fields, *(["cosine"] if name == "regress" else [])}
        assert _function(TASKS[name].read) is task.reader
        assert TASKS[name].formats == task.formats
        assert TASKS[name].batch_size == task.default_batch_size
        assert TASKS[name].seq_length == task.default_seq_length
        assert bool(TASKS[name].read_training) == task.learns_texts
        assert set(TASKS[name].options) == set(task.reading_fields) | own
        params = {param.name: param for param in commands["finetune"].commands[name].params}
        assert set(params) == everywhere | set(task.reading_fields) | own
        assert task.formats[-1] in params["format"].help
        _parse(commands, commands["finetune"].commands[name].epilog.removeprefix("Example: "))


def test_defaults_that_depend_on_other_options(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    shown = " ".join(run("predict", "--help")[1].replace("│", " ").split())
    assert "as in training; utf-8 for lines from standard input" in shown
    assert "the model's; float32 with --engine auto or --engine onnxruntime" in shown


def test_options_before_the_task(run):
    code, _, err = run("finetune", "--train", "none.tsv", "classify")
    assert code == 2
    assert "none.tsv" in err
    assert "keras-bert finetune classify " in run("finetune", "--output", "tag", "classify", "--help")[1]
    assert "keras-bert finetune tag " in run("finetune", "--cased", "tag", "--output", "classify", "--help")[1]


COMPLETION = {"_KERAS_BERT_COMPLETE": "complete_bash", "COMP_WORDS": "keras-bert f", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (["--version"], {}, f"{keras_bert.__version__}\n"),
        (["models", "--language", "korean"], {}, "klue/bert-base"),
        (["--help"], {}, "keras-bert COMMAND --help"),
        *((([name, "--help"]), {}, f"keras-bert {name} ") for name in COMMANDS),
        *((["finetune", name, "--help"], {}, f"keras-bert finetune {name} ") for name in TASKS),
        ([], COMPLETION, "fill-mask\nfinetune"),
    ],
)
def test_help_and_completion_import_no_backend(words, environment, said):
    """Importing Keras and its backend takes seconds, and the package imports both."""
    command = [sys.executable, "-X", "importtime", "-m", "keras_bert_cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert not re.findall(r"\| +(?:keras|keras_bert|tensorflow|torch|jax)$", done.stderr, re.MULTILINE)
