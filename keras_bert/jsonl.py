"""A line of a JSONL file, of a corpus or of labelled rows: parsed, or an error that names the file and the line."""

import json
import os
from typing import Any


def parse_line(line: str, path: str | os.PathLike, number: int) -> Any:
    """The value in a line.

    >>> parse_line('{"text": "a film", "label": 1}', "films.jsonl", 1)
    {'text': 'a film', 'label': 1}
    """
    try:
        value = json.loads(line)
        if "\\u" in line:  # only an escape can make half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        reason = "too deep"
    except UnicodeEncodeError:
        reason = "half of a surrogate pair, which is no character"
    except ValueError as error:
        reason = str(error)
    else:
        return value
    raise ValueError(
        f"Each line of a JSONL file must be a JSON value of whole characters. Mend the line. Received: {reason} at "
        f"{path}:{number}"
    )
