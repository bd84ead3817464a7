"""Two small exports, made once for all tests of requests."""

import keras
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("text and serving are the same under every backend", allow_module_level=True)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    from tests.hostile.test_requests import Server

    return Server(tmp_path_factory.mktemp("exports"))
