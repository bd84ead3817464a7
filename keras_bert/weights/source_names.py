"""What the name of a source can be, and the error for a name of nothing. Needs no Keras, so it is asked early."""

import os
import re
from pathlib import Path

from keras_bert.weights import zoo

HUGGING_FACE = "hf://"
_PAGE = re.compile(r"https?://(?:www\.)?huggingface\.co/([\w.-]+/[\w.-]+)")
_SHOWN = 300  # characters of a source in an error


def check_name(source: str) -> None:
    """Refuse a name that is neither that of a release nor a path here; an address is not looked up.

    >>> check_name("base")
    >>> check_name("bsae")
    Traceback (most recent call last):
    ValueError: `source` is neither a known name nor a path that exists. Close names: base...
    """
    here = os.path.exists(source) or os.path.isfile(f"{source}.index")  # the prefix of a checkpoint
    if _PAGE.match(source) or not ("://" in source or zoo.find(source) or here):
        raise nothing_at(source)


def nothing_at(source: str) -> ValueError:
    """The error for a name of nothing."""
    shown = repr(source) if len(source) <= _SHOWN else f"{source[:_SHOWN]!r}... of {len(source)} characters"
    if page := _PAGE.match(source):
        return ValueError(
            f"`source` is the address of a web page. Write hf://{page[1]} to download the model. Received: {shown}"
        )
    if len(Path(source).parts) > 1:
        return ValueError(
            "There is no file or folder at `source`"
            f"{'; ~ is not expanded' if source.startswith('~') else ''}. Correct it, or use a name that "
            f"`keras-bert models` lists, or hf://org/name. Received: {shown}"
        )
    close = ", ".join(zoo.close_names(source))
    return ValueError(
        "`source` is neither a known name nor a path that exists. "
        f"{f'Close names: {close}. ' if close else ''}Use a name that `keras-bert models` lists, a path "
        f"or hf://org/name. Received: {shown}"
    )
