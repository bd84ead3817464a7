"""Exports that ONNX Runtime answers for, beside their SavedModels."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def same_process(monkeypatch):
    """What another process writes for the server is written by this one, which takes less time."""
    from keras_bert.serving import onnx_files, onnx_signatures

    def write(folder, output, int8):
        onnx_files.write(folder, Path(output), int8=int8)

    monkeypatch.setattr(onnx_signatures, "run_writer", write)


def columns_of(signature, rows):
    """Columns of other texts for each input."""
    names = signature.structured_input_signature[1]
    return {name: np.roll(np.array(rows, object), number) for number, name in enumerate(names)}


def check_equal(found, expected, rows):
    """The signatures of one version against those of another."""
    for name, signature in found.signatures.items():
        if name.startswith("classify"):
            continue
        columns = columns_of(signature, rows)
        answers, wanted = (one.batchers[name]._run(dict(columns)) for one in (found, expected))
        assert list(answers) == list(wanted)
        for key, values in wanted.items():
            assert (answers[key].dtype, answers[key].shape) == (values.dtype, values.shape), (name, key)
            if values.dtype == "float32":
                assert np.abs(answers[key] - values).max() <= 1e-5, (name, key)
            else:
                assert answers[key].tolist() == values.tolist(), (name, key)
