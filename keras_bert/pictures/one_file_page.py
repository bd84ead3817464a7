"""An HTML page with its style and its script inside, which its security policy allows and no others."""

import base64
import hashlib
import json
from importlib.resources import files
from string import Template
from typing import Any


def one_file_page(name: str, **values: str) -> str:
    """The page `name`.html of this folder, with the style and the script of that name and with these values."""
    page = Template(_file(f"{name}.html"))
    values["style"] = _file(f"{name}.css")
    values["style_hash"] = source_hash(values["style"])
    if "script" in page.get_identifiers():
        values["script"] = _file(f"{name}.js")
        values["script_hash"] = source_hash(values["script"])
    return page.substitute(values)


def script_json(data: Any) -> str:
    """Data as JSON in a script element, which no text in it can end."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def source_hash(source: str) -> str:
    """The hash by which the page's security policy allows this source and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _file(name: str) -> str:
    return files("keras_bert.pictures").joinpath(name).read_text(encoding="utf-8")
