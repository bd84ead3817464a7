"""`keras-bert convert`: a model in any format, written in another."""

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.options import MODEL, CacheDir, LocalOnly, known_model, refuse
from keras_bert_cli.sigterm import unwound_by_sigterm
from keras_bert_cli.without_the_package import without_the_package

_NO_VOCABULARY = "none: the result reads ids, not text. Put vocab.txt beside the source, and convert it again"


@command("convert", example="keras-bert convert uncased_L-12_H-768_A-12 --to hf bert-base")
def convert(
    context: typer.Context,
    source: Annotated[str, typer.Argument(callback=known_model, help=f"{MODEL} Or the folder of a run.")],
    to: Annotated[
        Literal["hf", "google", "keras-hub", "keras-bert"], typer.Option("--to", help="The format to write.")
    ],
    directory: Annotated[
        Path | None, typer.Argument(help="A new or empty folder.", show_default="with --push a temporary one")
    ] = None,
    push: Annotated[
        str | None, typer.Option(metavar="ORG/NAME", help="Upload the result to the HuggingFace Hub, with --to hf.")
    ] = None,
    language: Annotated[
        list[str], typer.Option(help="Language of the model for its card on the Hub, such as en or ko; repeatable.")
    ] = [],  # noqa: B006 - Typer copies it
    private: Annotated[bool, typer.Option("--private", help="Make a new repository on the Hub private.")] = False,
    cache_dir: CacheDir = None,
    local_only: LocalOnly = False,
) -> None:
    """Convert a model to another format, load the result, and compare the outputs of both."""
    if push is not None and to != "hf":
        raise typer.BadParameter(f"--push uploads a HuggingFace folder. Add --to hf. Received: --to {to}")
    if push is None and directory is None:
        raise typer.BadParameter("DIRECTORY is missing. Name a new folder. Received: none")
    if push is None:
        refuse(context, ["language", "private"], "is for --push. Add --push ORG/NAME, or leave it out.")
    if directory is not None:
        with without_the_package():
            from keras_bert.storage import check_new_folder

            check_new_folder(directory)
    from keras_bert.weights.convert import convert
    from keras_bert.weights.share import check_can_push

    if push is not None:
        check_can_push(push)
    with unwound_by_sigterm(), nullcontext(directory) if directory else TemporaryDirectory() as parent:
        folder = directory or Path(parent, "model")
        done = convert(source, to, folder, cache_dir=cache_dir, local_only=local_only)
        checkpoint = done.checkpoint
        vocabulary = f"{len(checkpoint.vocabulary)} pieces" if checkpoint.vocabulary else _NO_VOCABULARY
        lines = [
            ("read", f"{checkpoint.source} ({checkpoint.format})"),
            ("encoder", f"{len(checkpoint.weights)} arrays"),
            *((f"head {name}", f"{len(head.weights)} arrays") for name, head in checkpoint.heads.items()),
            ("vocabulary", vocabulary),
            *((f"left out: {name}", reason) for name, reason in done.left_out.items()),
            *([("written", f"{directory} ({to})")] if directory else []),
            ("largest difference of outputs", f"{done.difference:.1e}"),
        ]
        for name, value in lines:
            typer.echo(f"{name}\t{value}")
        if push is not None:
            typer.echo(f"pushed\t{_push(folder, push, checkpoint, source, language, private)}")


def _push(folder: Path, name: str, checkpoint: Any, source: str, languages: list[str], private: bool) -> str:
    """Upload a converted model, with the scores of the run that it comes from."""
    from keras_bert.storage import read_json
    from keras_bert.tasks.run.run_folder import METRICS_FILE, SETTINGS_FILE, metrics_of
    from keras_bert.weights import zoo
    from keras_bert.weights.share import model_card, push

    scores: dict[str, Any] = {}
    run = zoo.path_of(source)
    if run and (run / METRICS_FILE).is_file() and (run / SETTINGS_FILE).is_file():
        settings = read_json(run / SETTINGS_FILE)
        valid = Path(settings["valid"] or settings["train"]).name
        scores = {"scores": metrics_of(run)["valid"], "data": valid}
    return push(folder, name, model_card(checkpoint, name, languages=languages, **scores), private=private)
