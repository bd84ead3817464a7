"""safetensors, presets and our own folder under JAX and torch, on a machine without TensorFlow."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_bert.weights import hugging_face, keras_hub, our_folder
from tests.weights import small

SCRIPT = """
import sys
for name in ("tensorflow", "tensorflow_text"):
    sys.modules[name] = None  # importing it fails, as where it is not installed
import keras, numpy as np
import keras_bert
for path in sys.argv[2:]:
    bert = keras_bert.load(path)
    assert bert.preprocessor.vocabulary["w3"] == 8
    inputs = dict(np.load(sys.argv[1]))
    expected = inputs.pop("expected")
    outputs = bert(inputs)
    difference = np.abs(np.asarray(keras.ops.convert_to_numpy(outputs["pooled_output"])) - expected).max()
    assert difference <= 1e-5, difference
"""


@pytest.mark.long
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_load(tmp_path, backend):
    pytest.importorskip(backend)
    made = small.checkpoint("mlm", "nsp")
    np.savez(tmp_path / "inputs.npz", **small.INPUTS, expected=small.outputs(made)["pooled_output"])
    hugging_face.write_checkpoint(made, tmp_path / "hf")
    our_folder.write_checkpoint(made, tmp_path / "own")
    keras_hub.write_checkpoint(small.checkpoint(), tmp_path / "preset")
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(root)}
    folders = [str(tmp_path / name) for name in ("hf", "own", "preset")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "inputs.npz"), *folders],
        env=environment,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
