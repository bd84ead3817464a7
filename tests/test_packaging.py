"""What a user gets: an import that is light and registers every class, and a wheel with the whole package."""

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.subprocesses import python

ROOT = Path(__file__).parents[1]


def test_import_is_light():
    """It imports nothing but Keras and JAX, and above all no TensorFlow."""
    code = """
        import sys, keras
        before = set(sys.modules)
        import keras_bert
        print("tensorflow" in sys.modules)
        print(*{name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
    """
    assert python(code, KERAS_BACKEND="jax").split() == ["False", "keras_bert"]


def _registered(tree):
    """The classes that a file registers with Keras, as they are named in saved files."""
    for node in ast.walk(tree):
        decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
        if any("register_keras_serializable" in decorator for decorator in decorators):
            yield f"keras_bert>{node.name}"


LOAD = """
import sys
import keras, keras_bert
print(*(type(keras.models.load_model(path)).__name__ for path in sys.argv[1:]))
print(*(name for name in keras.saving.get_custom_objects() if name.startswith("keras_bert>")))
"""


@pytest.mark.long
@pytest.mark.parametrize("script", ["load.py", "keras-bert"])
def test_import_registers_every_class(tmp_path, script):
    """Whatever the name of the process: the package once imported less in the process of its command line."""
    models = sorted((ROOT / "tests" / "fixtures").glob("*.keras"))
    (tmp_path / script).write_text(LOAD)
    command = [sys.executable, "-W", "ignore", tmp_path / script, *models]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    loaded, registered = done.stdout.splitlines()
    tasks = "QuestionAnswerer Bert MultipleChoice TextClassifier TextRegressor TokenTagger Pretrainer"
    assert loaded == tasks
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "keras_bert").rglob("*.py"))
    assert set(registered.split()) == {name for tree in trees for name in _registered(tree)}


def test_the_abandoned_package_is_installed_too(tmp_path):
    """Both write into the folder keras_bert, so that neither works."""
    metadata = tmp_path / "keras_bert-0.89.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: keras-bert\nVersion: 0.89.0\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-c", "import keras_bert"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert "pip uninstall -y keras-bert keras3-bert" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "error",
    [
        "ModuleNotFoundError(\"No module named 'jax'\")",
        'RuntimeError("jaxlib is version 0.9.0, but this version of jax requires version >= 0.10.0.")',
    ],
)
def test_jax_that_cannot_be_imported(tmp_path, error):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text(f"raise {error}")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-m", "keras_bert_cli", "pretrain", "--data", "x", "--output", "y"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    said = error.partition('"')[2].removesuffix('")')
    assert done.stderr.startswith("keras-bert: KERAS_BACKEND=jax needs the packages jax and jaxlib")
    assert done.stderr.endswith(f" Run: pip install --upgrade jax jaxlib. Received: {said}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_wheel(tmp_path):
    source = tmp_path / "source"
    packages = ("keras_bert", "keras_bert_cli")
    for package in packages:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "cli", source / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    files = {
        str(path.relative_to(source))
        for package in packages
        for path in (source / package).rglob("*")
        if path.is_file()
    }
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
    assert {"keras_bert/py.typed", "keras_bert/weights/models.json", "keras_bert_cli/__main__.py"} <= packed
