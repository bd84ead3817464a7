"""The page of the development server: one HTML file without other files, for whatever is served.

It is made from the files in `browser/`, by which its security policy allows only its own style and script.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from keras_bert.pictures.one_file_page import script_json, source_hash
from keras_bert.serving.served_version import ServedVersion

_SCRIPTS = ("elements", "requests", "pieces", "answers", "attention", "masks", "samples", "tools", "main")  # in order
_HANGUL = re.compile("^(?:##)?[가-힣\u1100-\u11ff]", re.MULTILINE)  # syllables, or the letters that NFD makes of them
_LATIN = re.compile("^(?:##)?[A-Za-z]{3,}$", re.MULTILINE)
_SAFE = {  # also for browsers that would guess a type, send this address on, or show the page inside another
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",  # the next server at this address may serve another model
}


class Page(NamedTuple):
    html: bytes
    headers: dict[str, str]


def make_page(models: Mapping[str, Mapping[int, ServedVersion]]) -> Page:
    """The page for the newest versions of the parts of one export."""
    newest = {name: versions[max(versions)] for name, versions in models.items()}
    asked = next((name for name, one in newest.items() if one.part == "text"), None)
    pieces = next((name for name, one in newest.items() if "pieces" in one.signatures), None)
    facts = newest[asked or next(iter(newest))].facts
    data = {
        "name": asked or next(iter(models)),
        "about": _about(facts),
        "asked": asked,
        "pieces": pieces,
        "language": "ko" if any(_is_korean(one.vocabulary_file) for one in newest.values()) else "en",
        "signatures": newest[asked].metadata()["signature_def"]["signature_def"] if asked else {},
    }
    style = _file("page.css")
    script = "\n".join(['"use strict";', "(() => {", *(_file(f"{name}.js") for name in _SCRIPTS), "})();"])
    html = Template(_file("page.html")).substitute(style=style, script=script, data=script_json(data))
    rules = {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "style-src": f"'{source_hash(style)}'",
        "script-src": f"'{source_hash(script)}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    policy = "; ".join(f"{name} {value}" for name, value in rules.items())
    return Page(html.encode(), {"Content-Security-Policy": policy, **_SAFE})


def _about(facts: dict[str, Any]) -> str:
    """What the manifest says of the model, in a line."""
    known = {
        "model": "{}",
        "source": "from {}",
        "version": "version {}",
        "seq_length": "texts of up to {} pieces, with [CLS] and [SEP]",
        "dtype": "{}",
    }
    return " · ".join(text.format(facts[name]) for name, text in known.items() if facts.get(name) is not None)


def _is_korean(vocabulary: Path) -> bool:
    """Whether a vocab.txt has more pieces in Hangul than pieces of three or more Latin letters.

    A multilingual vocabulary has more of the latter.
    """
    if not vocabulary.is_file():
        return False
    pieces = vocabulary.read_text(encoding="utf-8", errors="replace")
    return len(_HANGUL.findall(pieces)) > len(_LATIN.findall(pieces))


def _file(name: str) -> str:
    return files("keras_bert.serving").joinpath("browser", name).read_text(encoding="utf-8")
