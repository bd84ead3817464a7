"""`keras-bert verify`: whether an export is complete and unchanged."""

from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.without_the_package import without_the_package


@command("verify", example="keras-bert verify saved_models/sentiment")
def verify(
    directory: Annotated[Path, typer.Argument(help="The folder of an export, or of one of its versions.")],
) -> None:
    """Compare the files of an export with the SHA-256 digests in its manifests. Exits with 1 if any differs."""
    with without_the_package():
        from keras_bert.exports.new_version import MANIFEST
        from keras_bert.exports.verify import faults, missing_texts, versions_of
        from keras_bert.storage import sha256_of

    wrong = False
    for version in versions_of(directory):
        found = list(faults(version))
        wrong |= bool(found)
        for line in found:
            typer.echo(line)
        if not found:
            typer.echo(
                f"{version}: complete and unchanged. The SHA-256 of its manifest is {sha256_of(version / MANIFEST)}"
            )
    for line in missing_texts(directory):
        wrong = True
        typer.echo(line)
    raise typer.Exit(int(wrong))
