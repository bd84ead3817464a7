import keras
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("text and serving are the same under every backend", allow_module_level=True)
