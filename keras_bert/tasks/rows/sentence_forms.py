"""The forms of rows that a `SentenceEmbedder` learns from, and the losses for each form. Needs no Keras."""

from collections.abc import Callable, Sequence
from typing import Any

from keras_bert.checks import check_choice
from keras_bert.tasks.columns.value_columns import check_cosines, number_column
from keras_bert.tasks.readers.bad_rows import DROP
from keras_bert.tasks.readers.only_texts import check_held_out
from keras_bert.tasks.readers.row_stream import RowStream
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.sentences import check_negatives

FORMS = {"ranking": "pairs", "cosine": "scores", "cosent": "scores", "triplet": "labels"}  # of each loss
OF_LOSSES = {"temperature": ("ranking", "cosent"), "symmetric": ("ranking",)}  # the losses that have an option
BY_FORM = {"pairs": "ranking", "scores": "cosine", "labels": "triplet"}  # the default loss of each form
SCORES = {  # of held-out rows of each form; the first one chooses the best epoch
    "pairs": ("mrr", "recall@1", "recall@5", "recall@10"),
    "scores": ("spearman", "pearson"),
    "labels": ("neighbour_accuracy",),
}
OTHER_LOSS = ', or use loss="cosent" (--loss cosent)'  # what else an error about the range of scores advises


def form_of(columns: Sequence[Any], y: Any) -> str:
    """What rows of these columns teach; `y` is None if nothing is to be learned, and empty if there are no targets."""
    if y is None:
        return ""
    if not len(y):
        return "pairs"
    if len(columns) == 3:
        raise ValueError(
            "y was given with queries, positives and negatives, which need no y. Leave out y, or the negatives. "
            f"Received: y of {len(y)} values"
        )
    return "labels" if len(columns) == 1 else "scores"


def check_form(loss: str, of_loss: str, form: str) -> None:
    """Refuse a loss that does not learn from rows of this form, but of another."""
    if of_loss != form:
        raise ValueError(
            f"The loss {loss} learns from {of_loss}, but {form} were passed. Use the loss {BY_FORM[form]!r} (--loss "
            f"{BY_FORM[form]}), or pass other columns. Received: {loss}"
        )


def check_sentences(rows: Rows | RowStream, loss: str | None) -> None:
    """Refuse training rows from which a loss, by default that of their form, cannot learn."""
    sample = rows.sample
    form = form_of(sample.columns, sample.y)
    name = loss or BY_FORM[form]
    check_form(name, FORMS[name], form)
    if name == "cosine":
        check_cosines(number_column(sample.y, "score"), sample.place, OTHER_LOSS)
    if form == "labels" and len(rows) > 1:
        check_label_count(len({*sample.y}), len(rows), rows.path)
    if form == "pairs" and isinstance(sample.x, tuple):
        check_ranked(*sample.x[1:], place=sample.place)


def check_sentence_run(settings: Any, train: Rows, valid: Rows | None) -> None:
    """Refuse training and validation rows that do not go with the settings of a run."""
    check_sentences(train, settings.loss)
    check_cached(train, settings.cache_batch, settings.batch_size)
    check_held_out(train, settings.split, settings.valid)
    check_score(settings.best_by, train if valid is None else valid)


def check_cached(rows: Rows, cache_batch: int | None, batch_size: int) -> None:
    """Refuse to compute as many texts at a time as a batch of these training rows has."""
    columns = len(rows.columns) if rows.y else max(2, len(rows.columns))  # only texts are pairs of themselves
    if cache_batch is not None and cache_batch >= columns * batch_size:
        raise ValueError(
            "`cache_batch` (--cache-batch) is how many texts are computed at a time, but a batch has only "
            f"{columns * batch_size}. Use a smaller number, or leave it out. Received: cache_batch={cache_batch}"
        )


def check_batch_size(batch_size: int | None, columns: int, *, compares_rows: bool) -> None:
    """Refuse batches of one row if the loss compares rows, unless the row has a negative of its own.

    columns: the texts of a row.
    """
    if batch_size == 1 and compares_rows and columns < 3:
        raise ValueError(
            "The texts of a batch are compared with one another, so one row is too few. Use a larger `batch_size` "
            '(--batch-size). Only loss="cosine" (--loss cosine) can learn from one pair at a time. Received: '
            "batch_size=1"
        )


def check_score(best_by: str | None, rows: Rows) -> None:
    """Refuse a score by which these held-out rows cannot be judged."""
    if best_by is not None:
        check_choice("best_by", best_by, SCORES[form_of(rows.columns, rows.y)])


def check_label_count(labels: int, texts: int, where: str) -> None:
    """Refuse labels that are all the same, or of which no two are."""
    if labels == texts:
        raise ValueError(
            f"{where} has a different label for each text, so no texts belong together. Give several texts the same "
            "label, or pass pairs: x=(queries, positives) and y=None (on the command line, --text twice). "
            f"Received: {labels} labels for {texts} texts"
        )
    if labels == 1:
        raise ValueError(
            f"{where} has the same label for each text, so there are no texts to tell apart. Add texts of another "
            "label, or pass pairs: x=(queries, positives) and y=None (on the command line, --text twice). "
            f"Received: 1 label for {texts} texts"
        )


def check_ranked(
    positives: Sequence[str], *negatives: Sequence[str], place: Callable[[int], str], drop: str = DROP
) -> None:
    """Refuse rows that all have one positive, and what `check_negatives` refuses, with the same arguments."""
    if len(set(positives)) < 2:
        raise ValueError(
            "All rows have the same positive, so there are no negatives. Give rows with different texts. "
            f"Received: only {positives[0]!r}"
        )
    for column in negatives:
        check_negatives(positives, column, place, drop)
