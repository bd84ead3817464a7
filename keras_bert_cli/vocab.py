"""`keras-bert vocab`: learn a vocabulary from a corpus."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command
from keras_bert_cli.without_the_package import without_the_package


@command("vocab", example="keras-bert vocab books/*.md --size 30000 --output vocab.txt")
def vocab(
    context: typer.Context,
    corpus: Annotated[list[str], typer.Argument(help=f"{options.CORPUS}.", metavar="CORPUS")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The vocabulary to write, one piece per line.")],
    size: Annotated[
        int, typer.Option(min=1, max=options.MOST, help="Maximum number of pieces, including the special ones.")
    ] = 30522,
    text_field: options.TextField = "text",
    encoding: options.CorpusEncoding = "utf-8",
    cased: options.Cased = False,
    keep_accents: options.KeepAccents = False,
    no_split_cjk: options.NoSplitCjk = False,
    min_count: Annotated[
        int, typer.Option(min=1, help="How often a character or a pair of pieces must occur to be used.")
    ] = 2,
    alphabet: Annotated[
        int | None,
        typer.Option(
            min=1, max=options.MOST, help="Maximum number of characters to keep.", show_default="a quarter of --size"
        ),
    ] = None,
    unused: Annotated[
        int, typer.Option(min=0, max=options.MOST, help="Number of [unused] pieces to add, which you can rename later.")
    ] = 0,
    seed: Annotated[int, options.seed("the sample of a corpus over 128 MB")] = 0,
) -> None:
    """Learn a WordPiece vocabulary from a corpus. The same files and options give the same vocabulary."""
    with without_the_package():
        from keras_bert.corpus.files import find_files

        files = find_files(corpus)
        options.check_new_file(output, "--output", inputs=files)
    from keras_bert.corpus.documents import read_texts
    from keras_bert.progress import bar
    from keras_bert.storage import size_of
    from keras_bert.text.vocabulary import Vocabulary

    def texts() -> Iterator[str]:
        with bar("Reading", sum(map(size_of, files))) as advance:
            yield from read_texts(files, text_field=text_field, encoding=encoding, seen=advance)

    rules = options.text_rules(context.params)
    vocabulary = Vocabulary.learn(
        texts(), size=size, **rules, min_count=min_count, alphabet=alphabet, unused=unused, seed=seed
    )
    vocabulary.save(output)
    typer.echo(f"{output}: {len(vocabulary)} pieces")
