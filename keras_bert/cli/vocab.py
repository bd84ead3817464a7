"""`keras-bert vocab`: learn a vocabulary from text files."""

from pathlib import Path

import typer

from keras_bert.cli import app

NOT_TEXT = (".gz", ".zst", ".bz2", ".xz", ".zip", ".jsonl", ".json", ".tfrecord")


@app.command(epilog="Example: keras-bert vocab books/*.md --size 30000 --output vocab.txt")
def vocab(
    files: list[Path] = typer.Argument(..., help="Text files in UTF-8.", metavar="FILES..."),
    output: Path = typer.Option(..., "--output", "-o", help="Where the vocabulary goes, one piece a line."),
    size: int = typer.Option(30522, min=1, help="How many pieces, special ones included."),
    cased: bool = typer.Option(False, "--cased", help="Keep upper case and accents."),
    keep_accents: bool = typer.Option(
        False, "--keep-accents", help="Lower-case alone, as for Korean: Hangul stays whole."
    ),
    no_split_cjk: bool = typer.Option(False, "--no-split-cjk", help="Let words hold more than one ideograph."),
    min_count: int = typer.Option(2, min=1, help="How often a character or a pair must be seen to count."),
    alphabet: int | None = typer.Option(
        None, min=1, help="How many characters to keep at most.", show_default="a quarter of --size"
    ),
    unused: int = typer.Option(0, min=0, help="How many [unusedN] pieces to add."),
    seed: int = typer.Option(0, help="Decides the sample of a corpus over 128 MB."),
) -> None:
    """Learn a WordPiece vocabulary from text files; the same files give the same bytes."""
    from keras_bert.text.vocabulary import Vocabulary

    if odd := [file for file in files if file.is_dir() or file.suffix.lower() in NOT_TEXT]:
        raise ValueError(
            "A vocabulary is learnt from files of plain text: unpack them, and name the files of a folder. "
            f"Received: {odd[0]}"
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(f"--output needs a folder that exists. Make it first. Received: {output}")
    vocabulary = Vocabulary.learn(
        files,
        size=size,
        lowercase=not cased,
        strip_accents=False if keep_accents else None,
        split_cjk=not no_split_cjk,
        min_count=min_count,
        alphabet=alphabet,
        unused=unused,
        seed=seed,
    )
    vocabulary.save(output)
    typer.echo(f"{output}: {len(vocabulary)} pieces")
