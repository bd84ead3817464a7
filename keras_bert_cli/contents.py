"""The `keras-bert` application: what `--help` lists, and how a command is registered."""

import logging
import os
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# Each command has a file of its name in this folder. --help lists them in this order, which is that of a model's life.
CONTENTS = {
    "Text": ("vocab",),
    "Vectors": ("embed", "search", "attention"),
    "Pretraining": ("examples", "pretrain", "fill-mask"),
    "Tasks": ("finetune", "evaluate", "predict"),
    "Serving": ("export", "verify", "serve", "play"),
    "Weights": ("models", "convert"),
}


class _PlainIfNarrow:
    """Prints help without Rich's tables where the terminal is too narrow for them: they would truncate option names."""

    table_width: int
    rich_markup_mode: Any

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if shutil.get_terminal_size().columns < self.table_width:
            self.rich_markup_mode = None
        super().format_help(ctx, formatter)  # type: ignore[misc]


class Command(_PlainIfNarrow, TyperCommand):
    table_width = 100

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the value that an option refused, without the words of pydantic, which checks it for Typer."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            cause: Any = error.__cause__
            if hasattr(cause, "errors"):
                found = cause.errors()[0]
                own = found["msg"].removeprefix("Value error, ")  # which has the value
                said = found["msg"].partition(", unable to parse")[0].replace("Input should", "It should")
                error.message = own if own != found["msg"] else f"{said}. Received: {found['input']!r}"
            raise


class _Group(_PlainIfNarrow, TyperGroup):
    table_width = 60

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept options before the name of the command too."""
        places = [place for place, word in enumerate(args) if word in self.commands]
        if places and args[0].startswith("-"):
            # A word after an option may be its value: `finetune --output tag classify`.
            place = next((place for place in places if not args[place - 1].startswith("-")), places[0])
            args = [args[place], *args[:place], *args[place + 1 :]]
        return super().parse_args(ctx, args)


class _Contents(_PlainIfNarrow, TyperGroup):
    table_width = 60

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in CONTENTS.values() for name in names]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept --debug after the command too."""
        others = [word for word in args if word != "--debug"]
        return super().parse_args(ctx, [*(["--debug"] if len(others) < len(args) else []), *others])


app = typer.Typer(
    cls=_Contents,
    name="keras-bert",
    help="BERT for Keras 3, from a vocabulary to a served model.",
    epilog="keras-bert COMMAND --help lists the options of a command and shows an example.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def command(name: str, *, example: str, **settings: Any) -> Callable:
    """Registers a function as the command of this name, with an example at the end of its help."""
    return app.command(name, cls=Command, rich_help_panel=_panel(name), epilog=f"Example: {example}", **settings)


def group(name: str, *, example: str, help: str) -> typer.Typer:
    """Registers a command that has commands of its own, as `finetune classify`."""
    commands = typer.Typer(cls=_Group, no_args_is_help=True, help=help, epilog=f"Example: {example}")
    app.add_typer(commands, name=name, rich_help_panel=_panel(name))
    return commands


def _panel(name: str) -> str:
    return next(panel for panel, names in CONTENTS.items() if name in names)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("keras3-bert"))
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show every log message of keras-bert and the traceback of an error.")
    ] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    context.ensure_object(dict)["debug"] = debug
    if not logging.root.handlers:  # otherwise the process decides itself what it logs
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        logging.getLogger("keras_bert").setLevel(logging.DEBUG if debug else logging.INFO)
    if not debug:  # errors are raised as exceptions too, and the rest is not about the user's work
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow reads it when it is imported
        for name in ("absl", "tensorflow"):
            logging.getLogger(name).setLevel(logging.ERROR)
        for name in ("jax", "httpx", "httpx2", "matplotlib"):  # the addresses of downloads may have a signature
            logging.getLogger(name).setLevel(logging.WARNING)
