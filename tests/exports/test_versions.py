"""A version of an export appears completely or not at all, on a disk and in a bucket, whatever was there before."""

import itertools
import os
import signal
import threading

import pytest
import tensorflow as tf

import keras_bert
from keras_bert.exports import new_version as placing
from keras_bert.exports.new_version import new_version
from keras_bert.weights import export_folder
from tests.exports.conftest import PARTS
from tests.subprocesses import FORKS


def _files(folder):
    return {file.relative_to(folder): file.stat().st_mtime_ns for file in folder.rglob("*")}


def test_a_version_that_exists(exported, bert):
    before = _files(exported)
    with pytest.raises(FileExistsError, match=r"overwrite=True \(--overwrite\).*preprocess/1, which exists"):
        keras_bert.export(bert, exported)
    assert _files(exported) == before


def _write(directory, version=1, parts=PARTS, content="", overwrite=False):
    with new_version(directory, version, overwrite) as staged:
        for part in parts:
            folder = staged / part / str(version)
            (folder / "variables").mkdir(parents=True)
            for name in ("saved_model.pb", "variables/variables.index"):
                (folder / name).write_text(content)


def test_overwritten_in_one_step(tmp_path):
    _write(tmp_path, content="old")
    stop, gaps = threading.Event(), []

    def watch():
        while not stop.is_set():
            gaps.extend(part for part in PARTS if not (tmp_path / part / "1" / "saved_model.pb").exists())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(20):
            _write(tmp_path, content="new", overwrite=True)
    finally:
        stop.set()
        watcher.join()
    assert not gaps
    assert {file.read_text() for file in tmp_path.rglob("*.*") if file.is_file()} == {"new"}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(PARTS)


def test_versions_beside_one_another(tmp_path):
    for version in (1, 2, 10):
        _write(tmp_path, version)
    assert sorted(entry.name for entry in (tmp_path / "encoder").iterdir()) == ["1", "10", "2"]


def test_no_part_of_an_older_model_stays(tmp_path):
    _write(tmp_path, content="old")
    _write(tmp_path, content="new", parts=("preprocess", "text"), overwrite=True)
    assert not (tmp_path / "encoder" / "1").exists()
    with pytest.raises(FileExistsError):
        _write(tmp_path)


def test_failure_leaves_nothing(tmp_path):
    _write(tmp_path, content="old")
    before = _files(tmp_path)

    def fail():
        with new_version(tmp_path, 1, overwrite=True) as staged:
            (staged / "text").mkdir()
            raise OSError("in the middle")

    with pytest.raises(OSError, match="in the middle"):
        fail()
    assert _files(tmp_path).keys() == before.keys()


def test_two_exports_of_one_version_at_once(tmp_path):
    """The second one is refused before it does its work; another version may be written at the same time."""
    with new_version(tmp_path, 1, overwrite=False) as staged:
        for overwrite in (False, True):
            with pytest.raises(RuntimeError, match=f"{tmp_path} is in use by another process"):
                _write(tmp_path, overwrite=overwrite)
        _write(tmp_path, version=2)
        (staged / "text" / "1").mkdir(parents=True)
    assert sorted(entry.name for entry in (tmp_path / "text").iterdir()) == ["1", "2"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(PARTS)


def _killed(directory, version, overwrite, name, number):
    """Write a version, and be killed at this call of a function of the module."""
    function, calls = getattr(placing, name), itertools.count(1)

    def call(*arguments):
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        function(*arguments)

    setattr(placing, name, call)
    _write(directory, version, content="killed", overwrite=overwrite)


@pytest.mark.long
@pytest.mark.parametrize(("name", "number"), [("_put_all", 1), ("swap", 2), ("swap", 3)])
def test_a_killed_export(tmp_path, name, number):
    """The same export succeeds, the next one removes what it left, and versions that exist are not touched."""
    _write(tmp_path, 1, content="old")
    before = _files(tmp_path)
    for version, overwrite in ((2, False), (1, True)):
        process = FORKS.Process(target=_killed, args=(tmp_path, version, overwrite, name, number))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        if not overwrite:
            with pytest.raises(FileExistsError, match="Version 1"):
                _write(tmp_path, 1)
            assert _files(tmp_path).keys() == before.keys()
        _write(tmp_path, version, content="new", overwrite=overwrite)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(PARTS)
    assert {file.read_text() for file in tmp_path.rglob("*.*") if file.is_file()} == {"new"}


def test_a_complete_version_stays_although_its_temporary_folder_was_not_removed(tmp_path, monkeypatch):
    def fail(folder):
        raise OSError(f"{folder} is busy")

    with monkeypatch.context() as context:
        context.setattr(placing.shutil, "rmtree", fail)
        with pytest.raises(OSError, match="is busy"):
            _write(tmp_path, 1)
    _write(tmp_path, 2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(PARTS)
    assert {entry.name for entry in tmp_path.glob("*/*")} == {"1", "2"}


def test_a_part_that_cannot_be_placed(tmp_path, monkeypatch):
    """The parts before it go back to what they were."""
    _write(tmp_path, content="old")
    before = _files(tmp_path)
    exchange = placing._exchange

    def fail_for_text(new, place):
        if "text" in place.parts[-2:]:
            raise OSError("no such right")
        exchange(new, place)

    monkeypatch.setattr(placing, "_exchange", fail_for_text)
    with pytest.raises(OSError, match="no such right"):
        _write(tmp_path, content="new", overwrite=True)
    assert _files(tmp_path).keys() == before.keys()
    assert {file.read_text() for file in tmp_path.rglob("*.*") if file.is_file()} == {"old"}


@pytest.mark.parametrize("place", ["export", "export/text"])
def test_a_file_where_a_folder_goes(tmp_path, place):
    """Refused before anything is written."""
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    before = _files(tmp_path)
    with pytest.raises(NotADirectoryError, match="which is a file"):
        _write(tmp_path / "export")
    assert _files(tmp_path) == before


def test_bucket():
    """TensorFlow's file systems, gs:// among them; ram:// is one that every machine has."""
    _write("ram://bucket/small", content="old")
    with pytest.raises(FileExistsError, match="overwrite"):
        _write("ram://bucket/small")
    _write("ram://bucket/small", content="new", overwrite=True)
    for part in PARTS:
        for name in ("saved_model.pb", "variables/variables.index"):
            assert tf.io.gfile.GFile(f"ram://bucket/small/{part}/1/{name}").read() == "new"


def test_the_newest_version_of_any_part_is_loaded(tmp_path):
    """Not an older one of an encoder, from before the model had a task."""
    for version, parts in (("1", ("encoder", "text")), ("2", ("text",)), ("3", ("preprocess",))):
        for part in parts:
            (tmp_path / part / version / "assets.extra").mkdir(parents=True)
            (tmp_path / part / version / "saved_model.pb").touch()
            if part != "preprocess":
                (tmp_path / part / version / "assets.extra" / "bert_config.json").touch()
    assert export_folder.saved_model_at(tmp_path) == tmp_path / "text" / "2"
    (tmp_path / "text" / "2" / "saved_model.pb").unlink()
    assert export_folder.saved_model_at(tmp_path) is None
