"""HuggingFace folders whose weights are in pytorch_model.bin."""

import zipfile

import numpy as np
import pytest

from keras_bert.text.rules import TextRules
from keras_bert.weights.load import build, read
from tests.weights import small
from tests.weights.hugging_face_folders import bert_of_theirs, folder_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def test_torch_file_and_half_precision(tmp_path):
    model = bert_of_theirs().to(torch.bfloat16)
    folder = folder_of(tmp_path / "model", model)
    whole = read(folder)
    build(whole)
    expected = {name: entry.read() for name, entry in whole.weights.items()}
    (folder / "model.safetensors").unlink()
    for zipped in (True, False):  # as since torch 1.6, and before
        torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        for name, entry in read(folder).weights.items():
            assert np.array_equal(entry.read(), expected[name].astype("float32"))


def test_torch_file_that_unpacks_to_much(tmp_path):
    """Torch reads the pickle in it into memory before it looks at it."""
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(100 << 20))
    with pytest.raises(ValueError, match=r"something other than the tensors.*a zip that unpacks to 104857600 bytes"):
        read(folder)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"x": TextRules()}, r"Unsupported global: GLOBAL keras_bert\.text\.rules\.TextRules"),
        ({"epoch": 3}, "not tensors: epoch"),
        ({"state_dict": {"x": torch.ones(2)}}, "not tensors: state_dict"),
        ([torch.ones(2)], "AttributeError: 'list' object"),
        ({0: torch.ones(2)}, "names of tensors that are not text: 0"),
        ({"x": torch.ones(2).to_sparse()}, "sparse, meta or quantized tensors: x"),
        ({"x": torch.ones(2, device="meta")}, "sparse, meta or quantized tensors: x"),
        ({"x": torch.zeros(1).expand(10**9, 8)}, "tensors that are larger than their data: x"),
    ],
)
def test_torch_file_of_something_else(tmp_path, zipped, other, error):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    (folder / "model.safetensors").unlink()
    torch.save(other, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=f"something other than the tensors.*{error}") as raised:
        read(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "module._orig_mod.bert.", "model.bert."])
def test_prefixes_of_models_around_it(tmp_path, prefix):
    """Of data parallelism, torch.compile and Lightning."""
    model = bert_of_theirs()
    folder = folder_of(tmp_path / "model", model)
    expected = read(folder).weights
    folder = folder_of(tmp_path / "other", model)
    (folder / "model.safetensors").unlink()
    torch.save({prefix + name: x for name, x in model.state_dict().items()}, folder / "pytorch_model.bin")
    small.assert_equal_arrays(expected, read(folder).weights)


def test_complex_weights(tmp_path):
    model = bert_of_theirs()
    folder = folder_of(tmp_path / "model", model)
    (folder / "model.safetensors").unlink()
    torch.save({name: x.to(torch.complex64) for name, x in model.state_dict().items()}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"complex numbers: embeddings\.word_embeddings\.weight.*Received: complex64"):
        build(read(folder))


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_file_cut_off(tmp_path, zipped):
    folder = folder_of(tmp_path / "model", bert_of_theirs())
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save({"x": torch.ones(100)}, path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"download it again.*RuntimeError: (PytorchStreamReader|unexpected EOF)"):
        read(folder)
