"""The dtypes that weights can be trained in."""

from collections.abc import Iterable
from typing import Any

import keras

HALF = ("bfloat16", "float16")
TRAINABLE_DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


def check_trainable(variables: Iterable[Any]) -> None:
    """Refuse to train weights in half precision: steps as small as those of fine-tuning are rounded away there."""
    for variable in variables:
        dtype = keras.backend.standardize_dtype(variable.dtype)
        if dtype in HALF:
            raise ValueError(
                f"The model has trainable weights in {dtype}, in which the small steps of training are lost to "
                f'rounding. Build it with dtype="mixed_{dtype}", which keeps weights in float32. '
                f"Received: {variable.path} in {dtype}"
            )
