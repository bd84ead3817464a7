"""The command line `keras-bert`: one file a command."""

import logging
import os
import re
import sys
from typing import Any

import typer

app = typer.Typer(
    name="keras-bert",
    help="BERT for Keras 3, from a vocabulary to a served model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options(debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error.")) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("absl").setLevel(logging.WARNING)  # TensorFlow's and Orbit's own remarks


def main() -> None:
    """Run a command: exit code 0, 1 with one clear line, or 2 for a wrong usage."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Each file registers its command.
    from keras_bert.cli import (  # noqa: F401
        attention,
        convert,
        embed,
        evaluate,
        examples,
        export,
        fill_mask,
        finetune,
        models,
        predict,
        pretrain,
        serve,
        vocab,
    )

    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except (
        ValueError, TypeError, KeyError, OSError, RuntimeError, ImportError, FloatingPointError, *_tensorflow_errors()
    ) as error:  # fmt: skip
        if "--debug" in sys.argv:
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
    return error
