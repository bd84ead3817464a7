"""Options that several commands share, each written once, and the checks of their values."""

import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from keras_bert_cli.without_the_package import without_the_package

MOST = 10_000_000  # of pieces, rows and the like: a larger number is a typing mistake that would fill the memory
AS_TRAINED = "as in training"

# === Models ===

MODEL = "A name that `keras-bert models` lists, a local path in any supported format, or hf://org/name."


def known_model(source: str | None) -> str | None:
    """The name of a model as it was given; an error if it names nothing."""
    if source is not None:
        with without_the_package():
            from keras_bert.weights.source_names import check_name

            check_name(source)
    return source


Model = Annotated[str, typer.Option("--model", "-m", callback=known_model, help=MODEL)]
CacheDir = Annotated[str | None, typer.Option(help="Folder for downloads.")]
LocalOnly = Annotated[bool, typer.Option("--local-only", help="Never use the network.")]
SeqLength = Annotated[
    int | None, typer.Option(min=3, max=MOST, help="Number of pieces to truncate texts to.", show_default="the model's")
]

# === Running ===

BatchSize = Annotated[int, typer.Option(min=1, max=MOST, help="Rows per batch.")]
Strategy = Annotated[
    str,
    typer.Option(
        help="Devices: one, mirrored (all devices of this machine), multi_worker (several machines), "
        "tpu, tpu:NAME, or auto."
    ),
]
Engine = Annotated[
    Literal["auto", "tensorflow", "onnxruntime"] | None,
    typer.Option(help="What computes the answers.", show_default="Keras's backend, or auto with --dtype"),
]
InferenceDtype = Annotated[
    Literal["float32", "bfloat16", "int8"] | None,
    typer.Option(
        help="Type to compute in.", show_default="the model's; float32 with --engine auto or --engine onnxruntime"
    ),
]
TrainingDtype = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Damaged = Annotated[str, typer.Option(help="What to do at a truncated or damaged shard: stop, or skip the rest of it.")]


def seed(used_for: str) -> Any:
    """The option --seed, whose range is that of numpy's seeds."""
    return typer.Option(min=0, max=2**32 - 1, help=f"Random seed for {used_for}.")


def check_inference(engine: str | None, dtype: str | None) -> None:
    """Refuse a dtype that `inference` does not have, or not with this engine, before the model is loaded."""
    with without_the_package():
        from keras_bert.checks import check_engine_dtype

        check_engine_dtype(engine, "float32" if dtype is None else dtype)


def asked_by(model: Any, engine: str | None, dtype: str | None) -> Any:
    """The model, or its `inference` where another engine or dtype was asked for."""
    # The commands that ask never change weights, so oneDNN may pack them once. It reads this at the first product.
    os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")
    if dtype is None and engine is None:
        return model
    from keras_bert.inference import check_engine, inference

    if dtype is None and engine == "tensorflow":  # in the model's own dtype
        check_engine(engine)
        return model
    return inference(model, engine or "auto", dtype or "float32")


# === Raw text ===

CORPUS = "Files, patterns or folders of .txt, .md, .jsonl, .json or Wikipedia's .xml, also compressed (.gz, .bz2, .zst)"
CorpusEncoding = Annotated[
    str, typer.Option("--encoding", help="Encoding of .txt, .md and .jsonl files, such as latin-1, cp949 or utf-16.")
]
TextField = Annotated[str, typer.Option(help="Name of the field that holds the text in .jsonl files.")]
Cased = Annotated[bool, typer.Option("--cased", help="Keep upper case and accents.")]
KeepAccents = Annotated[
    bool, typer.Option("--keep-accents", help="Lowercase but keep accents. For Korean: Hangul syllables stay whole.")
]
NoSplitCjk = Annotated[bool, typer.Option("--no-split-cjk", help="Do not make each Chinese character a word.")]


def text_rules(options: Mapping[str, Any]) -> dict[str, Any]:
    """The three switches as the arguments of `Preprocessor`."""
    return {
        "lowercase": not options["cased"],
        "strip_accents": False if options["keep_accents"] else None,
        "split_cjk": not options["no_split_cjk"],
    }


# === Files of rows. For a finished task, the default of each option is its value in training. ===


def column(value: str | None) -> Any:
    """A column by its name or, if the value is all digits, by its number."""
    return int(value) if value and value.isdecimal() else value


def columns(values: Iterable[str]) -> tuple[str | int, ...]:
    return tuple(map(column, values))


TextFile = Annotated[
    Path,
    typer.Argument(
        dir_okay=False,
        allow_dash=True,
        help="A file with one text per line, a table (.tsv, .csv, .jsonl, .parquet), or - for standard input.",
    ),
]
TextColumn = Annotated[
    str, typer.Option(callback=column, help="Column of a table with the text, by name or by number from 0.")
]
_format = partial(
    typer.Option,
    help="tsv, csv, jsonl, parquet or label-text; for tag conll, conllu or klue-ner; for answer squad or korquad.",
)
_text = partial(
    typer.Option,
    callback=columns,
    help="Column with the text, by name or by number from 0. Give it twice for text pairs.",
)
_label = partial(
    typer.Option, callback=column, help="Column with the label, the score, or the number of the right choice."
)
_choices = partial(
    typer.Option, "--choice", callback=columns, help="Column with a choice. Give it once for each choice."
)
_number = partial(
    typer.Option, callback=columns, help="Column with a number to read beside the text. Repeat it for further columns."
)
_category = partial(
    typer.Option,
    callback=columns,
    help="Column with a category to read beside the text, such as a brand. Repeat it for further columns.",
)
_separator = partial(
    typer.Option, help="Text between the labels of a row that may have several labels. JSONL lists need none."
)
_scale = partial(typer.Option, help="Divide each score by this number, such as 5 if the scores are from 0 to 5.")
_positive = partial(typer.Option, metavar="LABEL", help="Label that the score f1 is for.")
_delimiter = partial(typer.Option, help="Character between the columns of a tsv or csv file. Write tab for a tab.")
_encoding = partial(typer.Option, help="Encoding of the file, such as latin-1, cp949 or utf-16.")
_header = partial(typer.Option, help="Whether the first row holds the names of the columns.")
_EMPTY = "Drop rows with an empty text."
_BAD = "Drop rows that cannot be read, or have no text or label; their number is in the log."
Format = Annotated[str | None, _format(show_default="by the name of the file")]
Text = Annotated[list[str], _text()]
Label = Annotated[str, _label()]
Choices = Annotated[list[str], _choices()]
Number = Annotated[list[str], _number()]
Category = Annotated[list[str], _category()]
Header = Annotated[bool | None, _header(show_default="yes if a column is given by name")]
Delimiter = Annotated[str | None, _delimiter(show_default="found in the names; without names a tab or a comma")]
Encoding = Annotated[str, _encoding()]
SkipEmpty = Annotated[bool, typer.Option("--skip-empty", help=_EMPTY)]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help=_BAD)]
TrainedFormat = Annotated[str | None, _format(show_default=AS_TRAINED)]
TrainedText = Annotated[list[str], _text(show_default=AS_TRAINED)]
TrainedLabel = Annotated[str | None, _label(show_default=AS_TRAINED)]
TrainedChoices = Annotated[list[str], _choices(show_default=AS_TRAINED)]
TrainedNumber = Annotated[list[str], _number(show_default=AS_TRAINED)]
TrainedCategory = Annotated[list[str], _category(show_default=AS_TRAINED)]
TrainedHeader = Annotated[bool | None, _header(show_default="yes if a column is given by name, else as in training")]
TrainedDelimiter = Annotated[str | None, _delimiter(show_default=AS_TRAINED)]
TrainedEncoding = Annotated[str | None, _encoding(show_default=AS_TRAINED)]
AnsweredEncoding = Annotated[str | None, _encoding(show_default=f"{AS_TRAINED}; utf-8 for lines from standard input")]
TrainedSkipEmpty = Annotated[bool | None, typer.Option(help=_EMPTY, show_default=AS_TRAINED)]
TrainedSkipBad = Annotated[bool | None, typer.Option(help=_BAD, show_default=AS_TRAINED)]
Positive = Annotated[str | None, _positive(show_default="the second of two, in alphabetical order")]
TrainedPositive = Annotated[str | None, _positive(show_default=AS_TRAINED)]
Scale = Annotated[float, _scale()]
TrainedScale = Annotated[float | None, _scale(show_default=AS_TRAINED)]
Separator = Annotated[str | None, _separator()]
TrainedSeparator = Annotated[str | None, _separator(show_default=AS_TRAINED)]


def fields_of(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command's options that are fields of a dataclass."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value not in (None, (), [])}


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line has an option."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def refuse(context: typer.Context, names: Iterable[str], reason: str) -> None:
    """Raises an error if one of these options was given, which the command would not use."""
    for option in context.command.params:
        if option.name in names and is_given(context, option.name):
            raise typer.BadParameter(f"{option.opts[0]} {reason}")


# === Input and output ===


def check_input(file: Path) -> None:
    """Raises an error where there is nothing to read."""
    if str(file) != "-" and not file.exists():
        raise FileNotFoundError(f"There is no file {str(file)!r}. Name one, or - for standard input. Received: {file}")


def check_new_file(
    path: Path | None, option: str, endings: tuple[str, ...] = ("",), inputs: Iterable[str | Path] = ()
) -> None:
    """Raises an error where no file can be written, before the work is done.

    inputs: the files that the command reads, which it must not replace.
    """
    from keras_bert.storage import check_ending, output_file

    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{option} must be a file. Add a file name. Received: the folder {path}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{option} needs a folder that exists. Make it first. Received: {path}")
    output_file(path)
    if path.exists() and any(os.path.exists(source) and path.samefile(source) for source in inputs):
        raise FileExistsError(
            f"{option} must not be a file that the command reads. Name another file. Received: {path}"
        )
    check_ending(path, endings, option)


def print_scores(
    scores: Mapping[str, float], details: Mapping[str, Any], beside: Mapping[str, Mapping[str, float]] = {}
) -> None:
    """A line for each score, and the table of the labels if there is one. beside: the scores in other dtypes."""
    from keras_bert.tasks.metrics.by_label import table_lines

    for name, value in scores.items():
        others = "".join(f"\t{other[name]:.4f} in {dtype}" for dtype, other in beside.items())
        typer.echo(f"{name}\t{value:.4f}{others}")
    for line in table_lines(details):
        typer.echo(line)


def standard_input(encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """The lines of standard input with their numbers."""
    from keras_bert.tasks.readers.rows import lines_of

    if sys.stdin is None:
        raise OSError("Standard input is closed. Pipe text into the command, or name a file instead of '-'.")
    return lines_of(sys.stdin.buffer, "standard input", encoding)
