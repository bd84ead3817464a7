"""Exports without `preprocess`, which has nothing of the model and takes half of the time."""

from typing import Any

import pytest

from keras_bert.exports import export


def leave_out_preprocess(patch: pytest.MonkeyPatch) -> None:
    parts = export._parts

    def others(*options: Any) -> dict[str, Any]:
        return {name: make for name, make in parts(*options).items() if name != "preprocess"}

    patch.setattr(export, "_parts", others)
