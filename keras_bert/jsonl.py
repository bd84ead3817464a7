"""Lines of JSONL files, and values as JSON holds them. An error names the file and the line."""

import json
import math
import os
from collections import Counter
from typing import Any

import numpy as np


class TwiceError(ValueError):
    """An object has two values with this name."""


def parse_line(line: str, path: str | os.PathLike, number: int, *, remedy: str = "Correct the line") -> Any:
    """The value in a line; `remedy` is what the error advises.

    >>> parse_line('{"text": "a film", "label": 1}', "films.jsonl", 1)
    {'text': 'a film', 'label': 1}
    """
    try:
        value = _DECODER.decode(line)
        if "\\u" in line:  # only an escape can stand for half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        reason = "nested too deeply"
    except UnicodeEncodeError:
        reason = "half of a surrogate pair, which is not a character,"
    except json.JSONDecodeError as error:
        reason = f"{error.msg.removesuffix(' at')} in column {error.colno}"
    except TwiceError as error:
        reason = f"the name {error.args[0]!r} twice"
    except ValueError as error:  # such as a number with too many digits
        reason = str(error)
    else:
        return value
    raise ValueError(f"Line {number} of {path} is not valid JSON. {remedy}. Received: {reason} at {path}:{number}")


def each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, for `object_pairs_hook`. Python's own would keep the last of two values with the same name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise TwiceError(next(name for name, count in counts.items() if count > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=each_name_once)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: with Python's types in place of numpy's, and None in place of NaN and infinity.

    >>> plain({np.int64(1): (np.float32(0.5), np.arange(2), "a"), "f1": float("nan"), "x": np.array([1, np.inf])})
    {1: [0.5, [0, 1], 'a'], 'f1': None, 'x': [1.0, None]}
    """
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "biuf" and np.isfinite(value).all():  # it is not converted number by number
            return value.tolist()
        return plain(value.tolist())
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
