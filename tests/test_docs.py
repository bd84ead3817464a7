"""The pages of docs/ build without a warning and need no network; their Python runs; every public name has an example."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import keras_bert
import keras_bert.pretraining

ROOT = Path(__file__).parents[1]
PAGES = sorted(ROOT.glob("docs/*.md"))


def test_site(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        html = (tmp_path / f"{page.stem}.html").read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img)\b[^>]*(src|href)=\"(https?:)?//", html), page.name


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the pages are written for TensorFlow")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_runs(page, tmp_path, monkeypatch):
    """The blocks of a page one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        exec(compile(block, str(page), "exec"), names)
