"""Files and folders that appear completely or not at all, on this machine and remotely, and one process at a time."""

import errno
import fcntl
import hashlib
import os

import numpy as np
import pytest

from keras_bert import storage
from tests.subprocesses import fork, python


@pytest.fixture(params=["local", "remote"])
def place(request, tmp_path):
    if request.param == "local":
        return str(tmp_path)
    tf = pytest.importorskip("tensorflow")
    place = f"ram://{tmp_path}"
    tf.io.gfile.makedirs(place)
    return place


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('["a"]', r"settings\.json must hold one JSON object.*Received: list in"),
        ("null", "one JSON object.*NoneType"),
        ("{", r"settings\.json must be JSON.*Received: .*settings\.json \("),
        ("[" * 100_000, "must be JSON.*recursion"),
    ],
)
def test_json_without_an_object_is_refused(place, content, error):
    storage.write_text(f"{place}/settings.json", content)
    with pytest.raises(ValueError, match=error):
        storage.read_json(f"{place}/settings.json")


def test_json_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "settings.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match=r"must be JSON.*utf-8"):
        storage.read_json(tmp_path / "settings.json")


def test_json_with_a_byte_order_mark(tmp_path):
    (tmp_path / "settings.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert storage.read_json(tmp_path / "settings.json") == {"a": 1}


def test_json_is_read_as_it_was_written(place):
    path = f"{place}/settings.json"
    assert storage.read_json(path) == {}
    storage.write_json(path, {"가": [1, None]})
    assert storage.read_text(path) == '{\n  "가": [\n    1,\n    null\n  ]\n}\n'
    assert storage.read_json(path) == {"가": [1, None]}


def test_whole_numbers_of_numpy(tmp_path):
    data = {"epochs": np.int64(3), "sizes": (np.int32(1), 2)}
    storage.write_json(tmp_path / "settings.json", data)
    assert storage.read_json(tmp_path / "settings.json") == storage.as_read(data) == {"epochs": 3, "sizes": [1, 2]}
    with pytest.raises(TypeError, match=r"type set cannot be written as JSON.* Received: \{3\}"):
        storage.write_json(tmp_path / "settings.json", {"epochs": {3}})


def test_files(place):
    storage.make_folder(f"{place}/a/b")
    storage.write_text(f"{place}/a/film.txt", "one\r\ntwo\n")
    assert storage.read_bytes(f"{place}/a/film.txt") == b"one\r\ntwo\n"
    assert storage.sha256_of(f"{place}/a/film.txt") == hashlib.sha256(b"one\r\ntwo\n").hexdigest()
    assert storage.names_in(f"{place}/a") == ["b", "film.txt"]
    assert storage.names_in(f"{place}/none") == []
    storage.remove(f"{place}/a/film.txt")
    assert not storage.exists(f"{place}/a/film.txt")
    storage.remove(f"{place}/a")
    assert not storage.exists(f"{place}/a")
    with pytest.raises(OSError, match=r"none\.txt"):
        storage.read_bytes(f"{place}/none.txt")


def test_an_interrupted_write_leaves_the_old_file(place):
    path = f"{place}/film.txt"
    storage.write_text(path, "old")

    def interrupted():
        with storage.new_file(path) as temporary:
            storage.write_text(temporary, "half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert storage.read_text(path) == "old"
    assert storage.is_remote(path) or os.listdir(place) == ["film.txt"]


def test_a_full_disk_is_reported_with_the_file(tmp_path):
    def full():
        with storage.new_file(tmp_path / "film.txt"):
            raise OSError(errno.ENOSPC, "whatever")

    with pytest.raises(OSError, match=rf"Could not write {tmp_path}/film\.txt: No space left.*Free some") as found:
        full()
    assert found.value.errno == errno.ENOSPC
    with pytest.raises(FileNotFoundError, match=rf"Could not write {tmp_path}/none/film\.txt: No such file"):
        storage.write_text(tmp_path / "none" / "film.txt", "a")
    assert not list(tmp_path.iterdir())


def test_an_output_is_a_file(tmp_path):
    with pytest.raises(OSError, match=r"The output must be a file.*Received: /dev/null"):
        storage.write_text("/dev/null", "a")
    (tmp_path / "link").symlink_to(tmp_path / "film.txt")
    storage.write_text(tmp_path / "link", "a")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "film.txt").read_text() == "a"


@pytest.mark.parametrize("name", ["x" * 255, "가" * 85])
def test_the_longest_names(tmp_path, name):
    storage.write_text(tmp_path / name, "a")
    assert os.listdir(tmp_path) == [name]


def test_a_folder_appears_completely_or_not_at_all(tmp_path):
    def make(fail):
        with storage.new_folder(tmp_path / "film") as partial:
            (partial / "a").touch()
            if fail:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(fail=True)
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="Could not write /proc/film: No such file"), storage.new_folder("/proc/film"):
        pass
    (tmp_path / "film").mkdir()
    make(fail=False)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["film", "film/a"]
    with pytest.raises(FileExistsError, match=r"new or empty folder.*Received: .*film"):
        make(fail=False)


def test_a_folder_behind_a_link(tmp_path, monkeypatch):
    """And the folder in which the command runs, which cannot be replaced, is refused before the work."""
    (tmp_path / "there").mkdir()
    (tmp_path / "film").symlink_to("there")
    with storage.new_folder(tmp_path / "film") as partial:
        (partial / "a").touch()
    assert (tmp_path / "film").is_symlink()
    assert os.listdir(tmp_path / "there") == ["a"]
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(FileExistsError, match=r"the folder in which the command runs.*Received: \."):
        storage.check_new_folder(".")


def test_a_mount_point_cannot_be_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    for name in ("disk", "link"):
        with pytest.raises(FileExistsError, match=rf"cannot be a mount point.*Received: .*{name}"):
            storage.check_new_folder(tmp_path / name)
    assert storage.check_new_folder(tmp_path / "new") == tmp_path / "new"


def test_the_only_file_of_a_kind(tmp_path):
    assert storage.only_file(tmp_path, "*.keras") is None
    (tmp_path / "a.keras").touch()
    assert storage.only_file(tmp_path, "*.keras") == tmp_path / "a.keras"
    (tmp_path / "b.keras").touch()
    with pytest.raises(ValueError, match=r"Give the path.*Received: a\.keras, b\.keras in"):
        storage.only_file(tmp_path, "*.keras")


def _lock(path):
    with storage.lock(path):
        pass


@pytest.mark.long
def test_a_lock_is_held_by_one_process(tmp_path):
    with storage.lock(tmp_path / "lock"), pytest.raises(RuntimeError, match=f"{tmp_path} is in use by another process"):
        fork(_lock, tmp_path / "lock")
    fork(_lock, tmp_path / "lock")


def test_local_files_need_no_tensorflow(tmp_path):
    code = """
        import sys
        from keras_bert import storage

        folder = sys.argv[1]
        storage.write_json(f"{folder}/a.json", storage.read_json(f"{folder}/a.json"))
        with storage.new_folder(f"{folder}/new") as new, storage.lock(f"{folder}/lock"):
            storage.make_folder(new / "b")
        print(storage.names_in(folder), storage.sha256_of(f"{folder}/a.json")[:4], "tensorflow" in sys.modules)
    """
    digest = hashlib.sha256(b"{}\n").hexdigest()[:4]
    assert python(code, str(tmp_path), KERAS_BACKEND="jax") == f"['a.json', 'lock', 'new'] {digest} False"


def test_what_killed_processes_left_is_removed(tmp_path):
    """And what a living process writes is not, nor a file of the user."""
    for name in (".a.txt.1.partial", ".a.txt.2.partial", ".b.txt.1.partial", ".a.txt.1.old.partial"):
        (tmp_path / name).touch()
    (tmp_path / ".folder.1.partial").mkdir()
    (tmp_path / ".folder.1.partial" / "weights").touch()
    with open(tmp_path / ".a.txt.2.partial") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        storage.write_text(tmp_path / "a.txt", "new")
    with storage.new_folder(tmp_path / "folder"):
        pass
    left = {".a.txt.2.partial", ".b.txt.1.partial", ".a.txt.1.old.partial"}
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "folder", *left}


def test_what_is_in_the_place_of_a_json_file(tmp_path):
    (tmp_path / "link.json").symlink_to("gone")
    (tmp_path / "folder.json").mkdir()
    assert storage.read_json(tmp_path / "none.json") == {}
    for name in ("link.json", "folder.json"):
        with pytest.raises(ValueError, match=rf"{name} cannot be read: it is a broken link, a folder or a device"):
            storage.read_json(tmp_path / name)
    (tmp_path / "digits.json").write_text('{"a": ' + "9" * 5000 + "}")
    with pytest.raises(ValueError, match=r"digits\.json must be JSON"):
        storage.read_json(tmp_path / "digits.json")
