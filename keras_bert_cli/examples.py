"""`keras-bert examples`: pretraining examples from a corpus."""

from pathlib import Path

import typer

from keras_bert_cli import MOST, app
from keras_bert_cli.vocab import CASED, FILES, KEEP_ACCENTS, NO_SPLIT_CJK, TEXT_FIELD


@app.command(
    epilog="Example: keras-bert examples books/*.md --vocab vocab.txt --output examples",
    context_settings={"ignore_unknown_options": True},  # Beam's
)
def examples(
    corpus: list[str] = typer.Argument(
        ...,
        help=f"{FILES}; behind them the options of Beam's runner.",
        metavar="CORPUS",
    ),
    vocab: Path = typer.Option(..., "--vocab", help="The vocabulary, one piece a line."),
    output: str = typer.Option(..., "--output", "-o", help="The directory for the examples, local or gs://."),
    seq_length: int = typer.Option(128, min=3, max=MOST, help="Pieces in a row, [CLS] and [SEP] included."),
    mode: str = typer.Option(
        "dynamic", help="dynamic: masked anew in each epoch of training; static: once, in google-research's records."
    ),
    no_nsp: bool = typer.Option(
        False, "--no-nsp", help="No pairs for next sentence prediction: full sentences, for masked words alone."
    ),
    rate: float = typer.Option(0.15, min=0, max=1, help="Share of the pieces to be guessed."),
    mask: float = typer.Option(0.8, min=0, max=1, help="Share of these that become [MASK]."),
    random: float = typer.Option(0.1, min=0, max=1, help="Share of these that become another piece."),
    whole_word: bool = typer.Option(False, "--whole-word", help="Mask all pieces of a word or none."),
    max_predictions: int | None = typer.Option(
        None, min=1, max=MOST, help="Masked positions of a row.", show_default="--rate of --seq-length"
    ),
    short_seq_prob: float = typer.Option(0.1, min=0, max=1, help="Share of the documents with shorter examples."),
    dupe_factor: int | None = typer.Option(
        None, min=1, max=MOST, help="Passes over the corpus.", show_default="1, static 10"
    ),
    documents: str = typer.Option(
        "auto",
        help="What parts documents in text: blank-line, heading or file; auto: a heading in .md, else a blank line.",
    ),
    sentences: str = typer.Option("rules", help="rules: for English and Korean; line: each line is a sentence."),
    text_field: str = TEXT_FIELD,
    cased: bool = CASED,
    keep_accents: bool = KEEP_ACCENTS,
    no_split_cjk: bool = NO_SPLIT_CJK,
    shard_size: int = typer.Option(4_000_000, min=1, help="Characters of text that a file of examples is made of."),
    seed: int = typer.Option(0, help="Decides the pairs and static masks: same seed, same bytes."),
    workers: int | None = typer.Option(
        None, min=1, help="Processes.", show_default="one for each core, if the text repays their start"
    ),
    runner: str = typer.Option("local", help="local, beam, or the name of a runner of Beam's."),
) -> None:
    """Write pretraining examples; run again, the same command keeps the shards that are finished."""
    from keras_bert.pretraining.examples.masking import Masking
    from keras_bert.pretraining.examples.write_examples import write_examples

    first = next((index for index, word in enumerate(corpus) if word.startswith("-")), len(corpus))
    corpus, options = corpus[:first], corpus[first:]
    if options and runner == "local":
        raise typer.BadParameter(f"No such option: {options[0]}. Beam's options need --runner beam.")
    if not corpus:
        raise typer.BadParameter("CORPUS comes first, then the options of Beam's runner.")
    beam = None if runner == "local" else [*([] if runner == "beam" else [f"--runner={runner}"]), *options]
    written = write_examples(
        corpus,
        output,
        vocabulary=vocab,
        lowercase=not cased,
        strip_accents=False if keep_accents else None,
        split_cjk=not no_split_cjk,
        seq_length=seq_length,
        mode=mode,
        nsp=not no_nsp,
        masking=Masking(rate=rate, mask=mask, random=random, whole_word=whole_word, max_predictions=max_predictions),
        short_seq_prob=short_seq_prob,
        dupe_factor=dupe_factor,
        boundary=documents,
        sentences=sentences,
        text_field=text_field,
        shard_size=shard_size,
        seed=seed,
        workers=workers,
        beam=beam,
    )
    typer.echo(
        f"{output}: {written.documents:,} documents, {written.sentences:,} sentences, {written.examples:,} examples, "
        f"{written.megabytes / written.seconds:.1f} MB/s"
    )
