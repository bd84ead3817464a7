"""The most work that one request may ask for, counted in pieces, and the most values that its answer may hold."""

import math
from typing import Any

from keras_bert.inputs import INPUTS
from keras_bert.serving.predict_requests import ModelRequest

MAX_PIECES = 262_144  # 512 rows of 512 pieces
MAX_VALUES = 2**23  # half a gigabyte while the answer is written


class TooMuchWork(ValueError):
    """A request is larger than a limit, which the message names."""


def most_pieces(request: ModelRequest) -> list[int]:
    """A number of pieces that no row of a request exceeds: the number of its ids, or that of the bytes of its texts.

    Masked positions count like ids, because the answer to each is as long as the vocabulary.
    """
    ids = request.columns.get(INPUTS[0])
    if ids is not None:
        return [max(math.prod(column.shape[1:]) for column in request.columns.values())] * len(ids)
    return [sum(map(len, row)) for row in request.texts]


def refusal(pieces: list[int], outputs: dict[str, Any], max_pieces: int, widest: int | None = None) -> str | None:
    """Why a request is refused whose rows have these numbers of pieces; None if it is not.

    outputs: those of the signature. widest: the most pieces of a row that the signature shows; None if it shows all.
    """
    rows, longest = len(pieces), max(pieces, default=0)
    if sum(pieces) > max_pieces:
        return (
            f"A request may have at most {max_pieces} pieces, the limit of keras-bert serve --max-pieces. Split it. "
            f"Received: {sum(pieces)} pieces"
        )
    # An output without a fixed size, such as the entities of a tagger, is padded to the longest row.
    shapes = [tuple(spec.shape)[1:] for spec in outputs.values() if spec.shape.rank]
    padded = [shape for shape in shapes if None in shape]
    width = longest if widest is None else min(longest, widest)
    values = rows * sum(math.prod(width if size is None else size for size in shape) for shape in padded)
    if values > MAX_VALUES:
        return (
            f"An answer may have at most {MAX_VALUES} values, and all its rows are as long as the longest. Send fewer "
            f"rows at once, and long rows separately. Received: {rows} rows, the longest with {longest} pieces"
        )
    return None
