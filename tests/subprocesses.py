"""Python code in a process of its own, for what must be set before a backend starts."""

import os
import subprocess
import sys
import textwrap


def python(code: str, *arguments: str, **environment: str) -> str:
    """What the code prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
