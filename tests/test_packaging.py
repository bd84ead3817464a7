"""What a user gets: an import that is light, and a wheel that holds the package, all of it and nothing else."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.subprocesses import python

ROOT = Path(__file__).parents[1]


def test_import_is_light():
    """Nothing comes beside Keras and JAX, TensorFlow least of all."""
    code = """
        import sys, keras
        before = set(sys.modules)
        import keras_bert
        print("tensorflow" in sys.modules)
        print(*{name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
    """
    assert python(code, KERAS_BACKEND="jax").split() == ["False", "keras_bert"]


@pytest.mark.slow
def test_wheel(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "keras_bert", source / "keras_bert", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "cli", source / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    files = {str(path.relative_to(source)) for path in (source / "keras_bert").rglob("*") if path.is_file()}
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        tmp_path,
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("keras3_bert-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == files
    assert "keras_bert/py.typed" in packed
