"""The notebooks run on a CPU with a tiny model, are stored without outputs, and install as the README says."""

import re
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
TPU = "colab_tpu_finetuning"

nbformat = pytest.importorskip("nbformat", reason="pip install keras3-bert[test]")


def read(path):
    return nbformat.read(path, as_version=4)


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="written for TensorFlow")
@pytest.mark.parametrize(("name", "backend"), [(TPU, "jax"), (TPU, "tensorflow"), ("korean_gpu_finetuning", "")])
def test_runs(name, backend, tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("KERAS_BERT_TINY", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = read(ROOT / "examples" / f"{name}.ipynb")
    setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
    setup.source, changed = re.subn('^BACKEND = "jax"', f'BACKEND = "{backend}"', setup.source, flags=re.M)
    assert changed == bool(backend)
    done = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = "".join(output.get("text", "") for cell in done.cells for output in cell.get("outputs", ()))
    assert f"{backend} " in said  # printed by the cell on devices
    assert "Classification(label=" in said  # printed by the last cell


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_kept_without_outputs(path):
    notebook = read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not any(cell.outputs or cell.execution_count for cell in code)


def test_a_tpu_is_set_up_as_the_readme_says():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## On a TPU")[1].split("\n## ")[0]
    lines = re.findall(r"^    (pip install .*)$", section, re.M)
    source = "\n".join(cell.source for cell in read(ROOT / f"examples/{TPU}.ipynb").cells)
    assert lines == re.findall(r"^ +%(pip install .*)$", source, re.M)
