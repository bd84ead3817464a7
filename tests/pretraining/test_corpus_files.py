"""The files of a corpus: which are found, and what is in compressed ones."""

import bz2
import errno
import gzip
import os
import random
import tracemalloc

import pytest
import zstandard

from keras_bert.corpus.files import open_bytes
from tests.pretraining.test_documents import TEXT, texts, write


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", zstandard.compress)]
)
def test_compressed(tmp_path, suffix, pack):
    text = "".join(f"Sentence {random.Random(n).random()}.\n\n" for n in range(5000))
    path = tmp_path / f"a.txt{suffix}"
    data = pack(text.encode()[:60]) + pack(text.encode()[60:])  # several members, as parallel compressors write
    path.write_bytes(data)
    assert len(texts(path)) == 5000
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=rf"a\.txt\{suffix} could not be decompressed"):
        texts(path)
    path.write_bytes(b"not compressed")
    with pytest.raises(ValueError, match=rf"a\.txt\{suffix}"):
        texts(path)


# A frame whose header asks for a window of 2 GiB, as `zstd --long=31` writes it, in front of blocks of up to 128 KiB.
LONG = bytes.fromhex("28b52ffd00a8")


def test_a_long_window_of_zstandard(tmp_path):
    path = tmp_path / "a.txt.zst"
    path.write_bytes(LONG + (len(b"One.") << 3 | 1).to_bytes(3, "little") + b"One.")
    assert texts(path) == ["One."]


def test_a_zstandard_bomb(tmp_path):
    """Blocks of 4 bytes hold 128 KiB each: 64 KiB of them would be 2 GiB."""
    repeated = (1 << 17 << 3 | 1 << 1).to_bytes(3, "little")
    path = tmp_path / "a.txt.zst"
    path.write_bytes(zstandard.compress(b"") + bytes.fromhex("28b52ffd0038") + 16_000 * (repeated + b"a"))
    tracemalloc.start()
    with open_bytes(str(path), lambda size: None) as stream:
        assert all(stream.read(1 << 20) == b"a" * (1 << 20) for _ in range(100))
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_seen_counts_the_bytes_of_the_files(tmp_path):
    path = write(tmp_path, "a.txt", TEXT)
    seen = []
    texts(path, seen=seen.append)
    assert sum(seen) == path.stat().st_size


def test_remote_files():
    import tensorflow as tf

    for name, data in (("x/a.txt", b"One.\n\nTwo."), ("x/b.txt.gz", gzip.compress(b"Three."))):
        tf.io.gfile.makedirs("ram://corpus/x")
        with tf.io.gfile.GFile(f"ram://corpus/{name}", "wb") as file:
            file.write(data)
    assert texts("ram://corpus/x/*") == ["One.", "Two.", "Three."]
    assert texts(["ram://corpus/x/a.txt"]) == ["One.", "Two."]


def test_hidden_files_and_folders_are_skipped(tmp_path, monkeypatch):
    import tensorflow as tf

    folder = tmp_path / ".hidden" / "corpus"  # folders above the named one do not count
    for name in ("a.md", ".b.md", ".ipynb_checkpoints/a-checkpoint.md", "sub/.git/c.txt", "sub/d.txt"):
        for root in (folder, "ram://hidden/.hidden/corpus"):
            path = f"{root}/{name}"
            tf.io.gfile.makedirs(path.rpartition("/")[0])
            with tf.io.gfile.GFile(path, "w") as file:
                file.write(name)
    for root in (folder, f"{folder}/", "ram://hidden/.hidden/corpus"):
        assert texts(root) == ["a.md", "sub/d.txt"]
    monkeypatch.chdir(folder)
    assert texts(".") == ["a.md", "sub/d.txt"]


def test_folders_and_patterns(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "b.txt", "B.")
    write(tmp_path, "a.md", "A.")
    write(tmp_path, "picture.png", "C.")
    assert texts(tmp_path) == ["A.", "B."]
    assert texts([str(tmp_path / "*.md"), tmp_path / "a.md"]) == ["A."]
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        texts(tmp_path / "none.txt")


def test_the_kind_of_a_file_by_its_name(tmp_path):
    """JSON Lines in .json, as in C4, and the parts of Wikimedia's dumps. A file without a suffix is plain text."""
    pages = "<mediawiki><page><ns>0</ns><revision><text>One page.</text></revision></page></mediawiki>"
    for name, text in (
        ("c4-train.00000-of-01024.json.gz", '{"text": "C4.", "url": "https://x"}\n{"text": "Two."}\n'),
        ("dewiki-pages-articles1.xml-p1p41242.bz2", pages),
        ("part-00000", "Three.\n\nFour."),
    ):
        pack = {"gz": gzip.compress, "bz2": bz2.compress}.get(name.rpartition(".")[2], bytes)
        (tmp_path / name).write_bytes(pack(text.encode()))
    assert texts(tmp_path / "part-00000") == ["Three.", "Four."]
    assert texts(tmp_path) == ["C4.", "Two.", "One page."]
    path = write(tmp_path, "list.json", '[\n  {"text": "One."}\n]\n')
    with pytest.raises(ValueError, match=r"Line 1 of .*list\.json is not valid JSON\. Write one JSON value in"):
        texts(path)


@pytest.mark.parametrize("name", ["a.html", "a.HTM", "a.csv", "a.tsv.gz", "a.parquet"])
def test_tables_and_web_pages_are_refused(tmp_path, name):
    path = write(tmp_path, name, "One,Two")
    for corpus in (path, tmp_path / "a.*"):
        with pytest.raises(ValueError, match=r"/a\..* cannot be read as text.*save its text as \.txt or \.jsonl"):
            texts(corpus)


def test_files_of_a_folder_that_are_left_out(tmp_path, caplog):
    write(tmp_path, "a.txt", "One.")
    assert texts(tmp_path) == ["One."]
    assert not caplog.text
    (tmp_path / "sub").mkdir()
    for name in ("b.csv", "c.png", "info.json", "part-00000", "sub/d.html", ".hidden.csv"):
        write(tmp_path, name, "Two.")
    assert texts(tmp_path) == ["One."]
    assert f"{tmp_path}: left out 5 files (b.csv, c.png, info.json and 2 more). In a folder, only" in caplog.text


def test_each_file_is_found_once(tmp_path, monkeypatch):
    """However it is named. A link to it is a file of its own: some corpora repeat a file on purpose."""
    path = write(tmp_path, "a.txt", "One.")
    monkeypatch.chdir(tmp_path)
    assert texts(["a.txt", path, "./a.txt", tmp_path, tmp_path / "*.txt"]) == ["One."]
    (tmp_path / "link.txt").symlink_to(path)
    assert texts([path, tmp_path]) == ["One.", "One."]


def test_patterns_of_several_levels(tmp_path):
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "sub", tmp_path / "sub" / "deep"):
        write(folder, "a.txt", f"{folder.name}.")
    assert sorted(texts(tmp_path / "**" / "*.txt")) == sorted([f"{tmp_path.name}.", "sub.", "deep."])
    with pytest.raises(ValueError, match=r"A remote pattern cannot have `\*\*`\..*Received: ram://"):
        texts("ram://corpus/**/*.txt")


def test_links_to_folders_are_followed(tmp_path, monkeypatch):
    """Each folder is entered once, even if a link leads back to it."""
    (tmp_path / "corpus" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    write(tmp_path / "corpus" / "sub", "a.txt", "A.")
    write(tmp_path / "other", "b.txt", "B.")
    (tmp_path / "corpus" / "back").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "link").symlink_to(tmp_path / "other")
    assert texts(tmp_path / "corpus") == ["B.", "A."]

    def scandir(folder, scan=os.scandir):
        if folder.endswith("sub"):
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(OSError, match=r"The folder .*/sub of the corpus could not be read\."):
        texts(tmp_path / "corpus")
