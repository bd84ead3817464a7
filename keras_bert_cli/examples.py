"""`keras-bert examples`: pretraining examples from a corpus."""

from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command
from keras_bert_cli.without_the_package import quiet, without_the_package


@command(
    "examples",
    example="keras-bert examples books/*.md --vocab vocab.txt --output examples",
    context_settings={"ignore_unknown_options": True},  # those of Beam's runners
)
def examples(
    context: typer.Context,
    corpus: Annotated[
        list[str],
        typer.Argument(help=f"{options.CORPUS}; then the options of the Beam runner, if any.", metavar="CORPUS"),
    ],
    vocab: Annotated[Path, typer.Option("--vocab", help="The vocabulary, one piece per line.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for the examples, local or gs://.")],
    recipe: Annotated[
        str | None,
        typer.Option(
            help="The recipe of keras-bert pretrain that these examples are for. base-one-gpu-24h provides other "
            "defaults: --no-nsp and --rate 0.3."
        ),
    ] = None,
    seq_length: Annotated[
        int, typer.Option(min=3, max=options.MOST, help="Pieces per example, including [CLS] and [SEP].")
    ] = 128,
    mode: Annotated[
        str,
        typer.Option(
            help="dynamic: training draws new masks in each epoch; static: masked once, in google-research's format."
        ),
    ] = "dynamic",
    nsp: Annotated[
        bool, typer.Option(help="Write pairs for next sentence prediction, or full sentences for masked words only.")
    ] = True,
    rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the pieces that are chosen for the model to guess.")
    ] = 0.15,
    mask: Annotated[float, typer.Option(min=0, max=1, help="Share of the chosen pieces that become [MASK].")] = 0.8,
    random: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the chosen pieces that become a random piece.")
    ] = 0.1,
    whole_word: Annotated[bool, typer.Option("--whole-word", help="Mask either all pieces of a word or none.")] = False,
    max_predictions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.MOST,
            help="Maximum number of masked pieces per example.",
            show_default="--rate x --seq-length",
        ),
    ] = None,
    short_seq_prob: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the documents whose pairs are shorter.")
    ] = 0.1,
    dupe_factor: Annotated[
        int | None, typer.Option(min=1, max=options.MOST, help="Passes over the corpus.", show_default="1; static: 10")
    ] = None,
    boundary: Annotated[
        str,
        typer.Option(
            "--documents",
            help="What separates documents in a text file: blank-line, heading, file, or auto (headings in .md files, "
            "blank lines in others).",
        ),
    ] = "auto",
    sentences: Annotated[
        str,
        typer.Option(help="How sentences are found: rules (for English and Korean) or line (one sentence per line)."),
    ] = "rules",
    text_field: options.TextField = "text",
    encoding: options.CorpusEncoding = "utf-8",
    cased: options.Cased = False,
    keep_accents: options.KeepAccents = False,
    no_split_cjk: options.NoSplitCjk = False,
    shard_size: Annotated[int, typer.Option(min=1, help="Characters of text per file of examples.")] = 4_000_000,
    seed: Annotated[
        int, typer.Option(help="Random seed for the pairs and static masks: the same seed gives the same bytes.")
    ] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of processes, with --runner local.", show_default="one per core; 1 for a small corpus"
        ),
    ] = None,
    runner: Annotated[str, typer.Option(help="local, beam, or the name of a Beam runner.")] = "local",
) -> None:
    """Write pretraining examples. If it is interrupted, the same command keeps the finished shards and resumes."""
    if "-" in corpus:
        raise typer.BadParameter("CORPUS cannot be standard input. Write the text to a file, and name it. Received: -")
    first = next((index for index, word in enumerate(corpus) if word.startswith("-")), len(corpus))
    corpus, of_beam = corpus[:first], corpus[first:]
    if of_beam and runner == "local":
        raise typer.BadParameter(f"No such option: {of_beam[0]}. If it is one of Apache Beam, add --runner beam.")
    if runner != "local":
        options.refuse(
            context, ["workers"], f"is for --runner local. A Beam runner has options of its own. Received: {runner!r}"
        )
    ours = [name for one in context.command.params for name in one.opts]
    for word in of_beam:
        if close := [name for name in ours if word.startswith("--") and name.startswith(word.partition("=")[0])]:
            raise typer.BadParameter(
                f"No such option: {word}. Did you mean {close[0]}? Options of Beam come after those of keras-bert."
            )
    if not corpus:
        raise typer.BadParameter("CORPUS is missing. Name its files first, then the options of the Beam runner.")
    if not any("://" in path for path in corpus):
        with without_the_package(), quiet():
            from keras_bert.corpus.files import find_files
            from keras_bert.text.vocabulary import Vocabulary

            find_files(corpus)  # both raise an error if there is nothing to read
            Vocabulary.from_file(vocab)
    from keras_bert.pretraining.examples.example_settings import ExampleSettings
    from keras_bert.pretraining.examples.masking import Masking
    from keras_bert.pretraining.examples.write_examples import write_examples
    from keras_bert.pretraining.run.pretrain_recipe import find_recipe

    beam = None if runner == "local" else [*([] if runner == "beam" else [f"--runner={runner}"]), *of_beam]
    values = dict(context.params)
    if recipe is not None:
        defaults = find_recipe(recipe).examples or {}
        values |= {name: value for name, value in defaults.items() if not options.is_given(context, name)}
    if not values["nsp"]:
        options.refuse(
            context, ("short_seq_prob",), "is for pairs, and these examples have none. Leave it out, or add --nsp."
        )
    settings = options.fields_of(ExampleSettings, values) | options.text_rules(values)
    settings |= {"masking": Masking(**options.fields_of(Masking, values))}
    written = write_examples(corpus, output, vocabulary=vocab, workers=workers, beam=beam, **settings)
    typer.echo(f"{output}: {written}")
