"""The README's Python runs as written."""

import re
from pathlib import Path

import keras
import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="text goes into a functional model on TensorFlow")
def test_code_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them saves a model
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, str(README), "exec"), {})
