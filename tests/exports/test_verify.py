"""`keras-bert verify` finds every file that is missing, extra or different."""

import json
import os
import shutil

import pytest
from typer.testing import CliRunner

from keras_bert.exports.manifest import write_manifest
from keras_bert_cli import app


@pytest.fixture
def version(tmp_path):
    """The files of a SavedModel, which need not be one: only bytes are compared."""
    folder = tmp_path / "film" / "text" / "1"
    for name, content in {
        "saved_model.pb": b"graph",
        "variables/variables.index": b"",
        "assets/vocab.txt": b"a\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "assets.extra").mkdir()
    write_manifest(folder, {"part": "text"})
    return folder


def verify(folder):
    result = CliRunner().invoke(app, ["verify", str(folder)])
    return result.exit_code, result.output.splitlines()


def test_an_unchanged_export(version):
    for folder in (version, version.parents[1]):
        code, lines = verify(folder)
        assert (code, len(lines)) == (0, 1)
        assert lines[0].startswith(f"{version}: complete and unchanged")


def test_each_fault(version):
    shutil.copytree(version, version.with_name("2"))
    (version / "saved_model.pb").write_bytes(b"Graph")
    (version / "variables" / "variables.index").write_bytes(b"more")
    (version / "assets" / "vocab.txt").unlink()
    (version / "assets" / "extra.so").write_bytes(b"")
    os.symlink("nowhere", version / "link")
    assert verify(version.parents[1]) == (
        1,
        [
            f"{version}/assets/extra.so: extra; the manifest does not list it",
            f"{version}/assets/vocab.txt: missing",
            f"{version}/link: extra; the manifest does not list it",
            f"{version}/saved_model.pb: its SHA-256 is not that of the manifest",
            f"{version}/variables/variables.index: has 4 bytes, and the manifest lists 0",
            *verify(version.with_name("2"))[1],
        ],
    )


def test_a_copy_that_stopped_before_the_text(version):
    export = version.parents[1]
    version.parent.rename(export / "preprocess")
    code, lines = verify(export)
    assert (code, lines[1:]) == (1, [f"{version}: missing, although {export}/preprocess/1 is there"])
    assert verify(export / "preprocess" / "1")[0] == 0


def test_a_folder_in_the_place_of_a_file(version):
    (version / "saved_model.pb").unlink()
    (version / "saved_model.pb").mkdir()
    assert verify(version) == (1, [f"{version}/saved_model.pb: missing"])


def test_a_manifest_cannot_name_files_outside(version):
    manifest = version / "assets.extra" / "manifest.json"
    data = json.loads(manifest.read_text())
    data["files"]["../../../secret"] = data["files"]["saved_model.pb"]
    (version.parents[2] / "secret").write_bytes(b"graph")
    manifest.write_text(json.dumps(data))
    assert verify(version) == (1, [f"{version}/../../../secret: missing"])


def test_an_export_without_digests(version):
    manifest = version / "assets.extra" / "manifest.json"
    for content, reason in (('{"part": "text"}', "no digests"), ('{"files": {"a": {"bytes": 1}}}', "no digests")):
        manifest.write_text(content)
        code, (line,) = verify(version)
        assert (code, reason in line) == (1, True)
    manifest.unlink()
    assert verify(version)[1] == [f"{manifest}: missing, so the files of this version cannot be checked"]


def test_no_export(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not an export"):
        CliRunner().invoke(app, ["verify", str(tmp_path)], catch_exceptions=False)
