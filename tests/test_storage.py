"""JSON files, read where weights lie and where TensorFlow's file systems reach."""

import pytest

from keras_bert import storage
from keras_bert.weights import folder

pytest.importorskip("tensorflow")
READERS = {"weights": folder.read_json, "storage": lambda path: storage.read_json(str(path))}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'["a"]', r"settings\.json must hold one JSON object.*Received: list in"),
        (b"null", "one JSON object.*NoneType"),
        (b"{", r"settings\.json must be JSON.*Received: .*settings\.json \("),
        (b'{"a": "\xff"}', "must be JSON.*utf-8"),
        (b"[" * 100_000, "must be JSON.*recursion"),
    ],
)
def test_json_that_is_no_object(tmp_path, reader, content, error):
    (tmp_path / "settings.json").write_bytes(content)
    with pytest.raises(ValueError, match=error):
        READERS[reader](tmp_path / "settings.json")


@pytest.mark.parametrize("reader", READERS)
def test_json_object(tmp_path, reader):
    assert READERS[reader](tmp_path / "settings.json") == {}
    (tmp_path / "settings.json").write_text('{"가": 1}', encoding="utf-8")
    assert READERS[reader](tmp_path / "settings.json") == {"가": 1}
