"""Which weights can be trained at all."""

from collections.abc import Iterable
from typing import Any

import keras

HALF = ("bfloat16", "float16")
TRAINABLE_DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


def check_trainable(variables: Iterable[Any]) -> None:
    """Refuse to train weights of half precision, in which a step as small as fine-tuning's moves none."""
    for variable in variables:
        dtype = keras.backend.standardize_dtype(variable.dtype)
        if dtype in HALF:
            raise ValueError(
                f"Weights to train must be float32: in {dtype} a step this small moves none of them. Build the "
                f'model with dtype="mixed_{dtype}". Received: {variable.path} in {dtype}'
            )
