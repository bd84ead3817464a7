"""`keras-bert vocab`: learn a vocabulary from a corpus."""

from collections.abc import Iterator
from pathlib import Path

import typer

from keras_bert_cli import LAST_SEED, MOST, app, check_new_file

FILES = "Files, patterns or folders of .txt, .md, .jsonl or Wikipedia's .xml, plain or .gz, .bz2, .zst"
TEXT_FIELD = typer.Option("text", help="Where a line of .jsonl has its text.")
CASED = typer.Option(False, "--cased", help="Keep upper case and accents.")
KEEP_ACCENTS = typer.Option(False, "--keep-accents", help="Lower-case alone, as for Korean: Hangul stays whole.")
NO_SPLIT_CJK = typer.Option(False, "--no-split-cjk", help="Let words hold more than one ideograph.")


@app.command(epilog="Example: keras-bert vocab books/*.md --size 30000 --output vocab.txt")
def vocab(
    corpus: list[str] = typer.Argument(..., help=f"{FILES}.", metavar="CORPUS"),
    output: Path = typer.Option(..., "--output", "-o", help="Where the vocabulary goes, one piece a line."),
    size: int = typer.Option(30522, min=1, max=MOST, help="How many pieces at most, special ones included."),
    text_field: str = TEXT_FIELD,
    cased: bool = CASED,
    keep_accents: bool = KEEP_ACCENTS,
    no_split_cjk: bool = NO_SPLIT_CJK,
    min_count: int = typer.Option(2, min=1, help="How often a character or a pair must be seen to count."),
    alphabet: int | None = typer.Option(
        None, min=1, max=MOST, help="How many characters to keep at most.", show_default="a quarter of --size"
    ),
    unused: int = typer.Option(0, min=0, max=MOST, help="How many unused pieces to add, to be named later."),
    seed: int = typer.Option(0, min=0, max=LAST_SEED, help="Decides the sample of a corpus over 128 MB."),
) -> None:
    """Learn a WordPiece vocabulary from a corpus; the same files give the same bytes."""
    from keras_bert.corpus.documents import read_texts
    from keras_bert.corpus.files import find_files, size_of
    from keras_bert.progress import bar
    from keras_bert.text.vocabulary import Vocabulary

    check_new_file(output, "--output")
    files = find_files(corpus)

    def texts() -> Iterator[str]:
        with bar("Reading", sum(map(size_of, files))) as advance:
            yield from read_texts(files, text_field=text_field, seen=advance)

    vocabulary = Vocabulary.learn(
        texts(),
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
