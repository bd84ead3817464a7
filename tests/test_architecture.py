"""The modules import each other in one direction. The layers are in pyproject.toml, where import-linter checks them."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

PACKAGE = Path(__file__).parents[1] / "keras_bert"


def test_no_circles():
    """Not even through imports inside functions."""
    graph = grimp.build_graph("keras_bert", "keras_bert_cli", cache_dir=None)
    modules = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(modules).prepare()  # a CycleError names the modules of a circle


def test_private_apis_are_in_one_file():
    private = re.compile(r"__internal__|tensorflow\.python|keras\.src")
    files = [path for path in PACKAGE.rglob("*.py") if private.search(path.read_text(encoding="utf-8"))]
    assert files == [PACKAGE / "compat.py"]
