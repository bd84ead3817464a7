"""What all commands share: wrong usage, errors, signals, and streams and terminals of every kind."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from unittest.mock import Mock

import keras
import pytest

import keras_bert_cli as cli
from keras_bert import progress
from tests.subprocesses import python
from tests.tasks.small import small_task

ROOT = Path(__file__).parents[2]


JSONL = ROOT / "tests/hostile/corpus.jsonl"


def test_an_error_on_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    code, _, said = run("examples")
    assert code == 2
    assert "Missing argument 'CORPUS'" in said


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("term", "moves"), [("dumb", False), ("xterm", True)])
def test_a_bar_only_where_it_can_move(monkeypatch, term, moves):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", _Terminal())
    assert list(progress.progress("abc", "Spelling", total=3)) == ["a", "b", "c"]
    with progress.bar("Reading", total=3) as advance:
        advance(3)
    assert ("\x1b" in sys.stderr.getvalue()) is moves
    assert bool(sys.stderr.getvalue()) is moves


@pytest.mark.parametrize(
    ("machine", "given", "expected"),
    [("x86_64", None, "1"), ("AMD64", None, "1"), ("x86_64", "0", "0"), ("aarch64", None, None)],
)
def test_onednn_is_on_where_it_helps(run, monkeypatch, machine, given, expected):
    monkeypatch.setattr(cli.platform, "machine", lambda: machine)
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if given is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", given)
    run("--version")
    assert os.environ.get("TF_ENABLE_ONEDNN_OPTS") == expected


def test_wrong_usage(run):
    for words, said in (
        (["vocabulary"], "No such command"),
        (["models", "--sead"], "No such option"),
        (["vocab", "a.txt"], "--output"),
    ):
        code, out, err = run(*words)
        assert code == 2
        assert said in err
        assert not out


def test_an_error_is_one_line(run, monkeypatch):
    wrong = ["models", "--language", "klingon"]
    code, out, err = run(*wrong)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"keras-bert: --language must be one of English, .+ Received: 'klingon'\n", err)
    for words in (["--debug", *wrong], [*wrong, "--debug"]):
        monkeypatch.setattr(sys, "argv", ["keras-bert", *words])
        with pytest.raises(ValueError, match="klingon"):
            cli.main()


@pytest.mark.parametrize(
    ("words", "levels"),
    [(["models"], ["INFO", "WARNING", "ERROR", "INFO"]), (["models", "--debug"], ["DEBUG", "INFO", "INFO", "INFO"])],
)
def test_which_messages_are_shown(words, levels):
    """The addresses of downloads may have a signature. Beam shows the state of its jobs."""
    code = """
        import logging, sys
        from typer.testing import CliRunner
        from keras_bert_cli import app
        assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 0
        for name in ("keras_bert", "httpx2", "absl", "apache_beam"):
            print(logging.getLevelName(logging.getLogger(name).getEffectiveLevel()))
    """
    assert python(code, *words).split() == levels


def test_an_error_of_several_lines_is_one_line(run, monkeypatch):
    def fail(_):
        raise ValueError("First.\n  Second.")

    monkeypatch.setattr(cli.models.dataclasses, "asdict", fail)
    assert run("models") == (1, "", "keras-bert: First. Second.\n")


def test_an_unexpected_error_is_one_line(run, monkeypatch):
    monkeypatch.setattr(cli.models.dataclasses, "asdict", Mock(side_effect=AttributeError("no attribute\n'strip'")))
    code, out, err = run("models")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"keras-bert: .*with --debug .*Received: AttributeError: no attribute 'strip'\n", err)
    monkeypatch.setattr(sys, "argv", ["keras-bert", "--debug", "models"])
    with pytest.raises(AttributeError):
        cli.main()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", "tiny", "b", "--to", "hf", "--private"], "--private is for --push"),
        (["convert", "tiny", "b", "--to", "hf", "--language", "ko"], "--language is for --push"),
        (
            ["pretrain", "--data", "a", "--output", "b", "--size", "tiny", "--from", "mini"],
            "--size is for random",
        ),
        (["examples", "-", "-o", "b", "--vocab", "v"], "CORPUS cannot be standard input"),
        (["pretrain", "--data", "a", "--output", "b", "--validate-every", "9"], "--validate-every is for --validation"),
        (
            ["examples", "a", "-o", "b", "--vocab", "v", "--runner", "beam", "--workers", "8"],
            "--workers is for --runner local",
        ),
        (
            ["finetune", "classify", "--train", JSONL, "--split", ".1", "-o", "b", "--header"],
            "--header and --no-header",
        ),
        (
            ["examples", "a", "-o", "b", "--vocab", "v", "--runner", "beam", "--seq-len", "9"],
            "mean --seq-length?",
        ),
        (["examples", "a", "-o", "b", "--vocab", "v", "--runner", "beam", "--seq-len=9"], "Did you mean --seq-length?"),
    ],
)
def test_an_option_that_would_not_be_used_is_refused(run, words, said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    code, _, err = run(*words)
    assert code == 2
    assert said in err


def test_an_empty_host_is_refused(run, tmp_path):
    """A socket takes it for all addresses of the machine."""
    code, _, err = run("serve", tmp_path, "--host", "")
    assert code == 1
    assert "--host is empty" in err


def test_rows_from_a_pipe(run, tmp_path):
    """They can be read only once."""
    os.mkfifo(tmp_path / "rows.tsv")
    words = ["--train", tmp_path / "rows.tsv", "--split", "0.1", "--output", tmp_path / "out"]
    code, _, err = run("finetune", "classify", *words)
    assert code == 1
    assert "rows.tsv is a pipe or a device" in err


def test_evaluate_rows_from_a_pipe(run, tmp_path):
    os.mkfifo(tmp_path / "rows.tsv")
    code, _, err = run("evaluate", "tiny", "--data", tmp_path / "rows.tsv")
    assert code == 1
    assert "The path of --data is a pipe or a device" in err


def test_numbers_have_bounds(run):
    for words in (["vocab", "a.txt", "-o", "b", "--unused", 10**11], ["evaluate", "a", "--data", "b", "--seed", 2**32]):
        code, _, err = run(*words)
        assert code == 2
        assert f"Invalid value for '{words[-2]}'" in err


def test_standard_input_is_closed(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run("embed", "--model", "tiny", "--json")
    assert code == 1
    assert "Standard input is closed" in err


def test_evaluate_refuses_options_that_it_would_not_use(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    (tmp_path / "rows.tsv").write_text("text\tlabel\n")
    (tmp_path / "config.json").write_text("{}")
    for data, option, value in (("rows.tsv", "--strategy", "one"), (".", "--engine", "auto"), (".", "--text", "a")):
        code, _, err = run("evaluate", tmp_path, "--data", tmp_path / data, option, value)
        assert code == 2
        assert f"{option} is for a " in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "run", "--batch-size", "abc"], "It should be a valid integer. Received: 'abc'"),
        (["predict", "run", "--batch-size", "0"], "It should be greater than or equal to 1. Received: '0'"),
        (["embed", "--pooling", "avg"], "'avg' is not one of 'mean', 'cls', 'max', 'pooled'."),
    ],
)
def test_a_refused_value_is_shown(run, words, said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, _, err = run(*words)
    assert code == 2
    assert f"Invalid value for '{words[-2]}': {said}" in err


def test_interrupted_while_it_imports(run, monkeypatch):
    class Interrupt:
        def find_spec(self, name, *_):
            if name.startswith("keras_bert."):
                raise KeyboardInterrupt

    for name in [name for name in sys.modules if name.startswith("keras_bert.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])
    assert run("convert", "a", "b", "--to", "hf") == (130, "", "")


def test_interrupted_in_the_callback_of_a_weak_reference(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", cli._again_after_a_callback)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores the signal
    try:
        reference = weakref.ref(value := {1}, Mock(side_effect=KeyboardInterrupt))
        del value
        assert reference() is None
        with pytest.raises(KeyboardInterrupt):
            _sleep_in_parts(10)
    finally:
        signal.signal(signal.SIGINT, before)


def _sleep_in_parts(seconds):
    for _ in range(100 * seconds):
        time.sleep(0.01)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize("words", [["models"], ["models", "--json"], ["--help"]])
def test_standard_output_is_full(words):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "keras_bert_cli", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"keras-bert: Could not write to standard output: No space left on device\. .+\n", done.stderr)


def test_standard_output_is_closed():
    done = subprocess.run(
        ["sh", "-c", '"$0" -m keras_bert_cli models >&-', sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    said = "keras-bert: Standard output is closed. Send it to a file or to /dev/null. Received: no standard output\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_broken_pipe_is_quiet():
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as broken:
        command = [sys.executable, "-m", "keras_bert_cli", "models"]
        done = subprocess.run(command, stdout=broken, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_failing_import_is_one_line():
    command = [sys.executable, "-m", "keras_bert_cli", "fill-mask", "[MASK]", "--model", "base"]
    environment = os.environ | {"KERAS_BACKEND": "foo"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert re.fullmatch(r"keras-bert: .*foo\n", done.stderr)


@pytest.mark.parametrize(
    ("options", "expected", "said"),
    [
        (["--dtype", "Int8"], 1, "`dtype` must be int8 or a Keras policy of real numbers. Use float32"),
        (["--format", "onnx", "--dtype", "bfloat16"], 1, "`dtype` of onnx files must be float32 or int8"),
        (["--seq-length", "2"], 2, "It should be greater than or equal to 3"),
        ([], 1, "--format savedmodel needs the TensorFlow backend"),
    ],
)
def test_an_export_is_refused_before_the_model_is_loaded(run, tmp_path, monkeypatch, options, expected, said):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(cli.export, "load_any", Mock(side_effect=AssertionError))
    if not options:
        monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    code, _, err = run("export", "tiny", "--name", "a", "--output", tmp_path, *options)
    assert code == expected
    assert said in err


def test_pretraining_on_torch_is_refused(run, monkeypatch):
    import keras_bert.pretraining.run.evaluation
    import keras_bert.pretraining.run.pretrain  # noqa: F401  before Keras names another backend

    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    for words in (["pretrain", "--data", "none", "--output", "none"], ["evaluate", "tiny", "--data", str(ROOT)]):
        code, _, err = run(*words)
        assert code == 1
        assert re.fullmatch(r"keras-bert: .*the TensorFlow or the JAX backend.*Received: backend 'torch'\n", err)


def test_too_little_memory_is_one_line():
    assert cli._message(MemoryError()).startswith("Not enough memory. Use a smaller model, or")


def test_an_error_in_a_graph_is_one_line():
    shown = 'in user code:\n\n    File "a.py", line 1, in call  *\n        x()\n\n    ValueError: x: too large\n'
    assert cli._message(ValueError(shown)) == "x: too large"


@pytest.mark.long
def test_a_saved_task_is_found_by_its_class(tmp_path):
    """The command registers the task's class before it reads the file."""
    small_task("classifier").save(tmp_path / "task.keras")
    command = [sys.executable, "-m", "keras_bert_cli", "predict", str(tmp_path / "task.keras")]
    done = subprocess.run(command, input="good film", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["label"] in ("negative", "positive")


def test_a_path_that_does_not_exist(run, tmp_path):
    code, out, err = run("embed", tmp_path / "none", "--model", "tiny", "--json")
    assert (code, out) == (1, "")
    assert re.fullmatch(rf"keras-bert: There is no file '{tmp_path}/none'\. Name one.+\n", err)


def test_fill_mask_numbers_the_masks_over_all_texts(run, monkeypatch):
    from keras_bert.pretraining.fill_mask import Filling
    from keras_bert.pretraining.pretrainer import Pretrainer

    class Guesses:
        def fill_mask(self, texts, top_k):
            return [[[Filling("a", 1, 0.5, text)] * top_k] * text.count("[MASK]") for text in texts]

    monkeypatch.setattr(Pretrainer, "load", lambda *_, **__: Guesses())
    code, shown, _ = run("fill-mask", "[MASK] [MASK]", "[MASK]", "--model", "base", "--top-k", "1")
    assert code == 0
    assert [line.split("\t")[::3] for line in shown.splitlines()] == [
        ["1", "[MASK] [MASK]"],
        ["2", "[MASK] [MASK]"],
        ["3", "[MASK]"],
    ]
