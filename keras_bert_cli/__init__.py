"""The command line `keras-bert`: one file per command.

A command imports `keras_bert` only when it runs, so that help and completion need not wait for Keras and TensorFlow.
"""

import _thread
import os
import platform
import re
import shutil
import sys
import threading
from collections.abc import Callable
from typing import Any

import typer

from keras_bert_cli import (  # noqa: F401 - each registers its command
    attention,
    convert,
    embed,
    evaluate,
    examples,
    export,
    fill_mask,
    finetune,
    models,
    play,
    predict,
    pretrain,
    search,
    serve,
    verify,
    vocab,
)
from keras_bert_cli.contents import app

_WITH_A_MESSAGE = (  # the types of errors whose texts are for users
    ValueError, TypeError, KeyError, OSError, RuntimeError, ImportError, FloatingPointError, OverflowError, MemoryError,
)  # fmt: skip
_NARROWEST = 40  # columns; in fewer, Rich shows nothing of an error but the edges of its box


def main() -> None:
    """Runs a command. Exit code: 0; 1 after an error, in one line; 2 for wrong usage; 128 + n after signal n."""
    if os.environ.get("TERM") in ("dumb", "unknown"):  # Rich assumes that these have 80 columns and 25 lines
        for name, size in zip(("COLUMNS", "LINES"), shutil.get_terminal_size(), strict=True):
            os.environ.setdefault(name, str(size))
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns) < _NARROWEST:
        os.environ["COLUMNS"] = str(_NARROWEST)
    if platform.machine() in ("x86_64", "AMD64"):  # on older of these CPUs, TensorFlow leaves oneDNN off otherwise
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    sys.unraisablehook = _again_after_a_callback
    options: dict[str, Any] = {}
    try:
        if sys.stdout is None:  # the next file that is opened would take its place
            raise OSError("Standard output is closed. Send it to a file or to /dev/null. Received: no standard output")
        sys.stdout = _Output(sys.stdout)
        app(prog_name="keras-bert", obj=options)
    except Exception as error:
        if options.get("debug"):
            raise
        typer.echo(f"keras-bert: {' '.join(_message(error).split())}", err=True)
        sys.exit(1)


class _Output:
    """Standard output. Its errors say so, since those of the system name no file."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._call(self._stream.write, text)

    def flush(self) -> None:
        self._call(self._stream.flush)

    @staticmethod
    def _call(function: Callable, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OSError as error:  # Click ends the program without a word if it has the number of a broken pipe
            said = f"Could not write to standard output: {error.strerror}. Free some space, or send it elsewhere."
            raise OSError(error.errno, said) from None


def _again_after_a_callback(unraisable: Any) -> None:
    """Ctrl-C comes again if it came in a callback of a weak reference, where Python drops every error."""
    if unraisable.exc_type is KeyboardInterrupt:
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)


def _tensorflow_errors() -> tuple[Any, ...]:
    """The errors of TensorFlow's graphs and files; none if the command did not import TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return (tensorflow.errors.OpError,) if tensorflow else ()


def _message(error: Exception) -> str:
    """What the user reads of an error."""
    text = str(error)
    if not isinstance(error, (*_WITH_A_MESSAGE, *_tensorflow_errors())):
        return (
            "An unexpected error ended the command. Run it with --debug to see the traceback, and if it is a bug of "
            f"keras-bert, please report it. Received: {type(error).__name__}: {text}"
        )
    if isinstance(error, KeyError):
        return str(error.args[0])
    if isinstance(error, _tensorflow_errors()):  # tf.data puts our message among many lines of its own
        ours = re.search(r"(?:[A-Z]\w*Error|assertion failed): (.+)", text)
        return ours[1] if ours else text.splitlines()[0]
    if text.startswith("in user code:"):  # an error inside a graph: a traceback, whose last line has the message
        return [line for line in text.splitlines() if re.match(r" +[A-Z]\w*Error: ", line)][-1].split(": ", 1)[1]
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return error.strerror
        return f"Could not use {error.filename}: {error.strerror}. Check the path, its permissions and the free space."
    if isinstance(error, MemoryError):
        return (
            "Not enough memory. Use a smaller model, or a smaller --batch-size or --seq-length if the command has one. "
            f"Received: {text or 'MemoryError'}"
        )
    return text
