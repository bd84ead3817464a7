"""What a search tries: the words of --search as a grid, and its combinations. Needs no Keras, as PlainSettings."""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from keras_bert.tasks.finetune_recipe import OPTIONS
from keras_bert.tasks.run.plain_settings import PlainSettings
from keras_bert.weights.source_names import check_name

Grid = Mapping[str, tuple[Any, ...]]
SomeSettings = TypeVar("SomeSettings", bound=PlainSettings)
GRID: dict[str, tuple[Any, ...]] = {
    "batch_size": (16, 32),
    "learning_rate": (5e-5, 3e-5, 2e-5),
    "epochs": (2, 3, 4),
}
OTHER_NAMES = {"lr": "learning_rate", "freeze_blocks": "freeze"}  # of the command line
OF_EMBED = ("loss", "temperature", "symmetric", "pooling")
SEARCHED = (*GRID, *OPTIONS, "seed", "freeze", "lora", "seq_length", "patience", "model", *OF_EMBED)
MOST = 10_000_000
WHOLE: dict[str, tuple[int, int]] = {  # options that are whole numbers, with the bounds of the command line
    "batch_size": (1, MOST), "epochs": (1, MOST), "accumulate": (1, MOST), "seed": (0, 2**32 - 1), "freeze": (0, MOST),
    "lora": (1, MOST), "seq_length": (8, MOST), "patience": (1, MOST),
}  # fmt: skip
WORDS = ("class_weight", "model", "loss", "pooling")  # whose values are not numbers
OPTIONAL = tuple(  # their None is a value of its own, and not only the default
    one.name
    for one in dataclasses.fields(PlainSettings)
    if one.default is None and one.name in SEARCHED and one.name not in GRID
)


def grid_of(given: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """The grid that words such as learning_rate=2e-5,5e-5 describe, by the names of the settings.

    >>> grid_of(["learning_rate=2e-5,5e-5", "class-weight=none,balanced"])
    {'learning_rate': (2e-05, 5e-05), 'class_weight': (None, 'balanced')}
    >>> grid_of(["class_weight=none,spam=3"])
    {'class_weight': (None, {'spam': 3.0})}
    >>> grid_of(["lr=1e-4,0.0001"])
    {'learning_rate': (0.0001,)}
    """
    grid: dict[str, tuple[Any, ...]] = {}
    for word in given:
        name, _, values = word.partition("=")
        name = name.replace("-", "_")
        name = OTHER_NAMES.get(name, name)
        found = list(map(_weight if name == "class_weight" else _value, values.split(",")))
        if name not in SEARCHED:
            known = ["freeze_blocks" if one == "freeze" else one for one in SEARCHED if one not in OF_EMBED]
            raise ValueError(
                f"The search {word!r} names no option that can be searched. Write NAME=VALUE,VALUE, in which NAME is "
                f"one of {', '.join(known)}, and for embed also {', '.join(OF_EMBED)}. Received: {word!r}"
            )
        if name in grid:
            raise ValueError(
                f"{name} is in two searches. Write all its values in one --search, as in epochs=2,3. Received: {word!r}"
            )
        if not values:
            raise ValueError(f"The search of {name} has no values. Write them as in epochs=2,3. Received: {word!r}")
        if wrong := [value for value in found if not _is_right(name, value)]:
            raise ValueError(
                f"The value {wrong[0]!r} of {name} in --search is not {_needed(name)}. Correct it. Received: {word!r}"
            )
        if None in found and name not in OPTIONAL:
            raise ValueError(
                f"{name} cannot be 'none'. Give it other values; only {', '.join(OPTIONAL)} can be 'none'. "
                f"Received: {word!r}"
            )
        grid[name] = tuple(value for place, value in enumerate(found) if value not in found[:place])  # each value once
    return grid


def combinations(settings: SomeSettings, grid: Grid) -> list[tuple[dict[str, Any], SomeSettings]]:
    """Each combination of the values of a grid, and the settings with it."""
    if "model" in grid and settings.vocab is not None:
        raise ValueError(
            "The search names models, but with --size and --vocab all runs start from random weights. Leave out the "
            f"search of the model, or --size and --vocab. Received: model={','.join(map(str, grid['model']))}"
        )
    if "epochs" in grid and settings.steps is not None:
        raise ValueError(
            "The search names epochs, but with --steps all runs have the same number of batches. Leave out --steps, or "
            f"the search of epochs. Received: epochs={','.join(map(str, grid['epochs']))}, steps={settings.steps}"
        )
    for model in grid.get("model", ()):
        check_name(model)
    each = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [(values, dataclasses.replace(settings, **values)) for values in each]


def seeded(settings: SomeSettings, count: int, average: bool) -> tuple[SomeSettings, Grid]:
    """The settings and the grid of `count` runs with several seeds; average: their weights will be averaged."""
    if count < 2:
        raise ValueError(f"The number of seeds must be at least 2. Use a larger number. Received: seeds={count}")
    if average and settings.lora is not None:
        raise ValueError(
            "Runs with LoRA cannot be averaged, since the average of the LoRA factors does not give the average of the "
            f"weights. Leave out --average or --lora. Received: average=True, lora={settings.lora}"
        )
    if average and settings.calibrate:
        raise ValueError(
            "--calibrate calibrates the model of each run, but not the model with the averaged weights. Leave out "
            "--calibrate, and call `calibrate` of the finished task. Received: average=True, calibrate=True"
        )
    seeds = tuple(range(settings.seed, settings.seed + count))
    dataclasses.replace(settings, seed=seeds[-1])  # an error if it is too large
    return dataclasses.replace(settings, head_seed=settings.seed) if average else settings, {"seed": seeds}


def _is_right(name: str, value: Any) -> bool:
    """Whether a value is of the kind and in the range that an option has; whether it can be None is another matter."""
    if value is None:
        return True
    if name == "class_weight":
        return isinstance(value, dict) or value == "balanced"
    if name in WORDS:
        return isinstance(value, str)
    if name in WHOLE:
        return type(value) is int and WHOLE[name][0] <= value <= WHOLE[name][1]
    return type(value) in (int, float) or (name == "symmetric" and isinstance(value, bool))


def _needed(name: str) -> str:
    """What the values of an option must be."""
    if name == "class_weight":
        return "none, balanced, or a label with its weight, as in spam=3"
    if name in WHOLE:
        return "a whole number from {} to {:,}".format(*WHOLE[name])
    return "a name" if name in WORDS else "true or false" if name == "symmetric" else "a number"


def _weight(word: str) -> dict[str, float] | str | None:
    """The weight of a label, such as spam=3, None for "none", or else the word; also for spam=-1 and spam=nan."""
    label, _, weight = word.rpartition("=")
    try:
        found = float(weight)
    except ValueError:
        return None if word == "none" else word
    return {label: found} if label and 0 <= found < math.inf else word


def _value(word: str) -> Any:
    """A number if the word is one, None for "none", or else the word."""
    if word == "none":
        return None
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word
