"""The mark of tests that take minutes."""

import os

import pytest

IN_SOAK = pytest.mark.skipif("HOSTILE" not in os.environ, reason="takes minutes; `make soak` runs it")
