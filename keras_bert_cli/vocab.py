"""`keras-bert vocab`: learn a vocabulary from a corpus."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.options import (
    CORPUS,
    MOST,
    Cased,
    KeepAccents,
    NoSplitCjk,
    TextField,
    check_new_file,
    seed,
    text_rules,
)


@command("vocab", example="keras-bert vocab books/*.md --size 30000 --output vocab.txt")
def vocab(
    corpus: Annotated[list[str], typer.Argument(help=f"{CORPUS}.", metavar="CORPUS")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The vocabulary to write, one piece per line.")],
    size: Annotated[
        int, typer.Option(min=1, max=MOST, help="Maximum number of pieces, including the special ones.")
    ] = 30522,
    text_field: TextField = "text",
    cased: Cased = False,
    keep_accents: KeepAccents = False,
    no_split_cjk: NoSplitCjk = False,
    min_count: Annotated[
        int, typer.Option(min=1, help="How often a character or a pair of pieces must occur to be used.")
    ] = 2,
    alphabet: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, help="Maximum number of characters to keep.", show_default="a quarter of --size"),
    ] = None,
    unused: Annotated[
        int, typer.Option(min=0, max=MOST, help="Number of [unused] pieces to add, which you can rename later.")
    ] = 0,
    seed: Annotated[int, seed("the sample of a corpus over 128 MB")] = 0,
) -> None:
    """Learn a WordPiece vocabulary from a corpus. The same files and options give the same vocabulary."""
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
        **text_rules(cased, keep_accents, no_split_cjk),
        min_count=min_count,
        alphabet=alphabet,
        unused=unused,
        seed=seed,
    )
    vocabulary.save(output)
    typer.echo(f"{output}: {len(vocabulary)} pieces")
