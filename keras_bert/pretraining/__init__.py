"""From raw text to a pretrained BERT: documents, examples, and the run that learns from them."""

from typing import Any

_WHERE = {
    "write_examples": "write",
    "read_examples": "read",
    "pretrain": "pretrain",
    "evaluate": "evaluate",
    "Recipe": "recipe",
    "RECIPES": "recipe",
}

__all__ = ["RECIPES", "Recipe", "evaluate", "pretrain", "read_examples", "write_examples"]


def __getattr__(name: str) -> Any:  # each is imported when it is asked for
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
