"""Lines of JSONL files. An error names the file and the line."""

import json
import os
from typing import Any


def parse_line(line: str, path: str | os.PathLike, number: int, *, remedy: str = "Correct the line") -> Any:
    """The value in a line; `remedy` is what the error advises.

    >>> parse_line('{"text": "a film", "label": 1}', "films.jsonl", 1)
    {'text': 'a film', 'label': 1}
    """
    try:
        value = json.loads(line)
        if "\\u" in line:  # only an escape can stand for half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        reason = "nested too deeply"
    except UnicodeEncodeError:
        reason = "half of a surrogate pair, which is not a character,"
    except json.JSONDecodeError as error:
        reason = f"{error.msg.removesuffix(' at')} in column {error.colno}"
    except ValueError as error:  # such as a number with too many digits
        reason = str(error)
    else:
        return value
    raise ValueError(f"Line {number} of {path} is not valid JSON. {remedy}. Received: {reason} at {path}:{number}")
