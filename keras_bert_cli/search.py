"""`keras-bert search`: the texts of a file that are nearest to a query."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command
from keras_bert_cli.embed import texts_of_file
from keras_bert_cli.vectors_file import beside, is_of, is_of_model, read_vectors, write_vectors
from keras_bert_cli.without_the_package import without_the_package

COMPARED = 8  # texts that are embedded again, to see whether a file has the vectors of this model


@command("search", example='keras-bert search questions.txt --query "How do I reset it?" --model minilm --top 3')
def search(
    context: typer.Context,
    corpus: options.TextFile,
    query: Annotated[list[str], typer.Option(help="What to look for. Give it again for several queries.")],
    top: Annotated[int, typer.Option(min=1, max=options.MOST, help="How many texts to print for each query.")] = 5,
    model: options.Model = "base",
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="A file, .npy, that keeps the vectors of the corpus: written if it is new, else read. For standard "
            "input, only a file that embed or search wrote is read."
        ),
    ] = None,
    text: options.TextColumn = "text",
    header: options.Header = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per text found, with query, text, row and score.")
    ] = False,
    engine: options.Engine = None,
    dtype: options.InferenceDtype = None,
    cache_dir: options.CacheDir = None,
    local_only: options.LocalOnly = False,
) -> None:
    """Print the texts of a file that are nearest to each query, with the cosines of their vectors.

    The search is exact: each query is compared with every text. Rows are counted from 0. Empty lines are
    never an answer.
    """
    with without_the_package():
        from keras_bert.text_encoding import is_blank
    if blank := list(filter(is_blank, query)):
        raise ValueError(f"--query must have some text. Write what to look for. Received: {blank[0]!r}")
    options.check_inference(engine, dtype)
    options.check_input(corpus)
    with without_the_package():
        options.check_new_file(vectors, "--vectors", (".npy",), [corpus])
        options.check_new_file(vectors and beside(vectors), "--vectors", inputs=[corpus])
        texts, _ = texts_of_file(context, corpus, text, header=header, delimiter=delimiter, encoding=encoding)
    name = "standard input" if str(corpus) == "-" else str(corpus)
    if all(map(is_blank, texts)):
        raise ValueError(f"{name} has only empty texts. Name another file or column. Received: {len(texts)} texts")
    stored = None
    if vectors is not None and vectors.exists():
        stored = read_vectors(vectors)
        if len(stored) != len(texts):
            raise _other_vectors(
                f"is not of these texts, which are {len(texts)} and not {len(stored)}", vectors, stored, name
            )
        with without_the_package():
            is_of_corpus = is_of(vectors, texts, corpus)
        if not is_of_corpus:
            older = "was not written by keras-bert" if name == "standard input" else f"is older than {corpus}"
            raise _other_vectors(f"{older}, or has vectors of other texts", vectors, stored, name)
    import numpy as np

    from keras_bert.nearest import nearest
    from keras_bert.weights.load import load
    from keras_bert.wording import cell

    loaded = load(model, cache_dir=cache_dir, local_only=local_only)
    bert = options.asked_by(loaded, engine, dtype)
    found = bert.embed(texts) if stored is None else stored
    if vectors is not None and stored is None:
        write_vectors(vectors, found, texts, loaded)
    elif vectors is not None:
        _check_vectors(vectors, stored, texts, name, loaded, bert)
    empty = {row for row, one in enumerate(texts) if is_blank(one)}  # they have vectors, but are never an answer
    nearest_rows, cosines = nearest(np.asarray(bert.embed(query)), found, top + len(empty))
    for asked, rows, scores in zip(query, nearest_rows.tolist(), cosines.tolist(), strict=True):
        if not as_json:
            typer.echo(cell(asked))
        for row, score in [hit for hit in zip(rows, scores, strict=True) if hit[0] not in empty][:top]:
            hit = {"query": asked, "score": round(score, 4), "row": row, "text": texts[row]}
            typer.echo(json.dumps(hit, ensure_ascii=False) if as_json else f"{score:.4f}\t{row}\t{cell(texts[row])}")


def _check_vectors(file: Path, stored: Any, texts: list[str], corpus: str, loaded: Any, bert: Any) -> None:
    """Raises an error if the vectors in a file are not those of the corpus by this model.

    bert: the loaded model, or its copy that computes.
    """
    import numpy as np

    from keras_bert.nearest import unit

    rows = np.unique(np.linspace(0, len(texts) - 1, COMPARED).astype(int))
    some = unit(bert.embed([texts[row] for row in rows]))
    wrong = None
    if stored.shape[1] != some.shape[1]:
        wrong = f"has no vectors of this model, which are {some.shape[1]} wide"
    elif not is_of_model(file, loaded):
        wrong = "has vectors of another model than --model"
    elif not ((unit(stored[rows]) * some).sum(-1) > 0.998).all():
        wrong = "has vectors of other texts or of another model"
    if wrong:
        raise _other_vectors(wrong, file, stored, corpus)


def _other_vectors(wrong: str, file: Path, stored: Any, corpus: str) -> ValueError:
    """The error for vectors that are not those of the corpus."""
    return ValueError(
        f"{file} {wrong}. Delete it, or name another file. Received: an array of shape {stored.shape} for {corpus}"
    )
