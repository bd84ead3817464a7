"""The front pages: their Python code runs, links and files exist, and both languages have the same content."""

import re
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[1]
README, KOREAN = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.ko.md"))

COUNT = re.compile(r"^\d+(?= of 24 new messages)")


def _parts(page: str) -> dict[str, list[str]]:
    """The parts that are the same in every language."""
    return {
        "python": [re.sub("  # .*", "", block) for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)],
        "output": re.findall(r"```text\n(.*?)```", page, re.DOTALL),
        "commands": re.findall(r"^    (?!\s*#)(\S.*?)(?:  +.*)?$", page, re.MULTILINE),
        "headings": re.findall(r"^#+(?= )", page, re.MULTILINE),
        "rows of tables": [row.count("|") for row in re.findall(r"^\|.*$", page, re.MULTILINE)],
        "figures": re.findall(r"\d+\.\d+", page),
        "links": sorted(link for link in _links(page) if not link.startswith("README")),
    }


def _links(page: str) -> list[str]:
    return re.findall(r"\]\((?!http)([^)#]+)", page)


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow takes text in a functional model")
def test_code_blocks_run(minilm, tmp_path, monkeypatch, capsys):
    """And print what the page shows. The classifier of the first screen is right on 90 % of the new messages; how many
    they are exactly may depend on the processor."""
    monkeypatch.chdir(tmp_path)  # a block saves a model
    monkeypatch.syspath_prepend(str(ROOT))  # a block imports from examples/
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README, re.DOTALL)
    assert len(blocks) == len(_parts(README)["python"])
    names: dict = {}  # later blocks use the names of earlier ones
    for block, output in blocks:
        exec(compile(block, "README.md", "exec"), names)
        printed = capsys.readouterr().out
        if output:
            assert COUNT.sub("", printed) == COUNT.sub("", output)
    assert sum(names["right"]) >= 0.9 * len(names["right"])


@pytest.mark.parametrize("what", _parts(README))
def test_the_korean_readme_has_the_same(what):
    assert _parts(KOREAN)[what] == _parts(README)[what]


@pytest.mark.parametrize("page", [README, KOREAN], ids=["English", "Korean"])
def test_links_lead_somewhere(page):
    assert [link for link in _links(page) if not (ROOT / link).exists()] == []


def test_files_that_contributing_names_are_there():
    rows = re.findall(r"^\|.*\| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([\w/.]+)`", row)]
    assert len(paths) > 20
    assert [path for path in paths if not any((ROOT / part / path).exists() for part in ("", "keras_bert"))] == []
