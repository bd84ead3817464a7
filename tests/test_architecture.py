"""The modules import each other in one direction. The layers are in pyproject.toml, where import-linter checks them."""

from graphlib import TopologicalSorter

import grimp


def test_no_circles():
    """Not even through imports inside functions."""
    graph = grimp.build_graph("keras_bert", "keras_bert_cli", cache_dir=None)
    modules = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(modules).prepare()  # a CycleError names the modules of a circle
