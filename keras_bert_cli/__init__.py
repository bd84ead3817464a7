"""The command line `keras-bert`: one file a command."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# What --help lists, in the order of a BERT's life; each name is that of a file beside this one.
CONTENTS = {
    "Text": ("vocab",),
    "Vectors": ("embed", "attention"),
    "Pretraining": ("examples", "pretrain", "fill-mask"),
    "Tasks": ("finetune", "evaluate", "predict"),
    "Serving": ("export", "serve"),
    "Weights": ("models", "convert"),
}

# What several commands ask for.
MODEL = "A name that `keras-bert models` lists, a path of any format, or hf://org/name."
CACHE_DIR = typer.Option(None, help="Where downloads are kept.")
LOCAL_ONLY = typer.Option(False, "--local-only", help="Never use the network.")
MOST = 10_000_000  # of pieces, of rows and the like: a larger number is a slip, which would take all memory
LAST_SEED = 2**32 - 1  # numpy's
STRATEGY = "Devices: one; mirrored (all of this machine); multi_worker (TF_CONFIG lists them); tpu or tpu:NAME; auto."


class _Help:
    """Help that keeps the names of options whole where the panels of a wide terminal would cut them."""

    wide = 100
    rich_markup_mode: Any

    def format_help(self, ctx: Any, formatter: Any) -> None:
        columns = shutil.get_terminal_size().columns
        if columns < self.wide:
            self.rich_markup_mode = None
            formatter.width = min(formatter.width, columns - 2)
            formatter.write_dl = partial(formatter.write_dl, col_max=columns // 3)
        super().format_help(ctx, formatter)  # type: ignore[misc]


class _Command(_Help, TyperCommand): ...


class _Contents(_Help, TyperGroup):
    wide = 60


app = typer.Typer(
    cls=_Contents,
    name="keras-bert",
    help="BERT for Keras 3, from a vocabulary to a served model.",
    epilog="keras-bert COMMAND --help tells the options of a command, with an example.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("keras3-bert"))
        raise typer.Exit


@app.callback()
def _options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error, and all that is logged."),
    show_version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    if "--debug" not in sys.argv:
        for name in ("absl", "tensorflow"):  # remarks that are not about the user's work; errors are raised besides
            logging.getLogger(name).setLevel(logging.ERROR)


def check_new_file(path: Path | None, option: str) -> None:
    """Refuse a place where no file can be written, before the work is done."""
    from keras_bert.storage import output_file

    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{option} must be a file. Add its name. Received: the folder {path}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{option} needs a folder that exists. Make it first. Received: {path}")
    output_file(path)


def standard_input() -> Iterator[tuple[int, str]]:
    """The lines of standard input with their numbers."""
    from keras_bert.tasks.readers.rows import lines_of

    if sys.stdin is None:
        raise OSError("Standard input must be open. Pipe text into it, or name a file. Received: a closed one")
    return lines_of(sys.stdin.buffer, "standard input")


def register() -> None:
    """Import the file of each command, which registers it, and put them in order."""
    panels = {name: panel for panel, names in CONTENTS.items() for name in names}
    for name in panels:
        import_module(f"{__name__}.{name.replace('-', '_')}")
    order = list(panels)
    app.registered_commands.sort(key=lambda command: order.index(_name(command)))
    for command in app.registered_commands:
        command.rich_help_panel = panels[_name(command)]
        command.cls = _Command


def _name(command: Any) -> str:
    return command.name or command.callback.__name__


def main() -> None:
    """Run a command: exit code 0, 1 with one clear line, 2 for a wrong usage, 128 + n for the signal n."""
    debug = "--debug" in sys.argv
    if os.environ.get("TERM") in ("dumb", "unknown"):  # where Rich takes any size for 80 x 25
        for name, size in zip(("COLUMNS", "LINES"), shutil.get_terminal_size(), strict=True):
            os.environ.setdefault(name, str(size))
    if not debug:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # the errors are told here; read when TensorFlow is imported
    try:
        register()
        app([word for word in sys.argv[1:] if word != "--debug"], prog_name="keras-bert")  # wherever it stands
    except KeyboardInterrupt:
        sys.exit(130)
    except (
        ValueError, TypeError, KeyError, OSError, RuntimeError, ImportError, FloatingPointError, OverflowError,
        MemoryError, *_tensorflow_errors(),
    ) as error:  # fmt: skip
        if debug:
            raise
        typer.echo(f"keras-bert: {_message(error)}", err=True)
        sys.exit(1)


def _tensorflow_errors() -> tuple[Any, ...]:
    """Those of its graphs and files; none where a command did not load TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return (tensorflow.errors.OpError,) if tensorflow else ()


def _message(error: Exception) -> Any:
    if isinstance(error, KeyError):
        return error.args[0]
    # What tf.data was told by us stands in the midst of many lines.
    if isinstance(error, _tensorflow_errors()):
        found = re.search(r"(?:[A-Z]\w*Error|assertion failed): (.+)", str(error))
        return found[1] if found else str(error).splitlines()[0]
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return error.strerror
        remedy = "Mend what the system says of it, or give another."
        return f"This path cannot be used. {remedy} Received: {error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"This needs more memory than there is. Ask for less, as by a smaller --batch-size. Received: {error}"
    if str(error).startswith("in user code:"):  # of a graph: many files, and what was said in the last of them
        return [line for line in str(error).splitlines() if re.match(r" +[A-Z]\w*Error: ", line)][-1].split(": ", 1)[1]
    return error
