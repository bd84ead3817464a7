"""Checks of options by name, with one wording for all."""

import math
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np


def check_positive(options: Any, *names: str) -> None:
    """Raise an error for an option that is not a whole number of at least 1.

    >>> from types import SimpleNamespace
    >>> check_positive(SimpleNamespace(steps=0), "steps")
    Traceback (most recent call last):
    ValueError: `steps` must be at least 1. Use a larger value. Received: steps=0
    """
    for name in names:
        value = getattr(options, name)
        if value is None:
            raise TypeError(f"`{name}` must be a whole number. Received: {name}=None")
        count_of(name, value, 1)


def check_finite(options: Any, *names: str) -> None:
    """Raise an error for an option that is not a finite number of at least 0."""
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, Real) or not 0 <= value < math.inf:  # type: ignore[operator]  # refuses NaN too
            raise ValueError(f"`{name}` must be a finite number of at least 0. Received: {name}={value!r}")


def check_above_zero(name: str, value: Any, advice: str = "Use another value.") -> None:
    """Raise an error for a value that is not a finite number above 0. advice: what it says to do."""
    # `float` would overflow for an integer of 400 digits. mypy knows no order of `Real`.
    if not isinstance(value, Real) or not 0 < value < math.inf:  # type: ignore[operator]  # refuses NaN too
        raise ValueError(f"`{name}` must be above 0 and finite. {advice} Received: {name}={value!r}")


def check_share(options: Any, *names: str) -> None:
    """Raise an error for an option that is not between 0 and 1."""
    for name in names:
        if not 0 <= getattr(options, name) <= 1:
            raise ValueError(
                f"`{name}` must be between 0 and 1. Use another value. Received: {name}={getattr(options, name)}"
            )


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise an error for a value that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}")


def check_engine_dtype(engine: str | None, dtype: str) -> None:
    """Refuse a dtype that `inference` does not have, or not with this engine."""
    check_choice("dtype", dtype, ("float32", "bfloat16", "int8"))
    if engine == "onnxruntime" and dtype == "bfloat16":
        raise ValueError(
            'ONNX Runtime cannot multiply matrices in bfloat16 on CPUs. Use engine="tensorflow", or dtype="int8". '
            f"Received: engine={engine!r}, dtype={dtype!r}"
        )


def check_flag(name: str, value: Any) -> None:
    """Raise an error for a value that is not True or False, such as the text "no", which counts as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}")


def check_no_class(loss: Any) -> None:
    """Refuse a class in place of a loss, which Keras would call as a function of targets and logits."""
    if isinstance(loss, type):
        raise TypeError(
            f"`loss` is the class {loss.__name__}, but an object of it is needed. Add parentheses: "
            f"loss={loss.__name__}(). Received: loss={loss.__name__}"
        )


def count_of(what: str, given: int | None, default: int) -> int:
    """A batch size or a number of epochs as given, or else its default."""
    if given is not None and not hasattr(given, "__index__"):
        is_text = what == "batch_size" and isinstance(given, str | list) and not str(given).isdecimal()
        pair = ' A pair of texts is one argument: ("a", "b").' if is_text else ""
        raise TypeError(f"`{what}` must be a whole number, without quotes.{pair} Received: {what}={given!r}")
    if given is not None and given < 1:
        raise ValueError(f"`{what}` must be at least 1. Use a larger value. Received: {what}={given}")
    return default if given is None else operator.index(given)  # JSON cannot hold the numbers of numpy


def check_length(length: int | None, positions: int) -> None:
    """Refuse a sequence longer than the model's position table."""
    if length is not None and length > positions:
        raise ValueError(
            f"`seq_length` must not exceed the model's {positions} positions. Use a smaller value, or load a model "
            f"with more positions. Received: seq_length={length}"
        )
