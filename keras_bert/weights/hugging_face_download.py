"""Repositories of the HuggingFace Hub, which huggingface_hub downloads into our cache."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_bert.storage import lock
from keras_bert.weights.download import MOST_BYTES, OFFLINE, TIMEOUT, offline
from keras_bert.weights.sentence_transformers import transformer_folder
from keras_bert.weights.weight_files import WEIGHT_FILES
from keras_bert.wording import first_line

logger = logging.getLogger("keras_bert")

# The * matches folders too: older sentence-transformers repositories have all of BERT in 0_Transformer.
_WANTED = ["*.json", "*vocab.txt", "*.safetensors"]
_UNUSED = ["onnx/*", "openvino/*", "checkpoint-*/*"]  # the same model in other formats, or from earlier in training


def snapshot(repository: str, root: Path, *, revision: str | None = None, local_only: bool = False) -> Path:
    """The folder of a repository in the cache, with the weights of only the first of `WEIGHT_FILES` that it has."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, LocalEntryNotFoundError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise ValueError(
            "A repository of the HuggingFace Hub is written hf://org/name, or hf://org/name@revision. Correct it. "
            f"Received: {f'hf://{repository}'!r}"
        ) from None
    cache = root / "huggingface"
    try:
        if local_only or offline():
            return _wanted(repository, cache, revision, {}, local=True)
        with _held(cache, repository):
            folder = _wanted(repository, cache, revision, _published_sizes(repository, revision))
            _remove_partials(folder.parents[1])
            return folder
    except LocalEntryNotFoundError as error:
        cause = str(error.__cause__ or error.__context__ or "").partition("\n")[0]
        received = f"local_only={local_only}{f', {cause}' if cause else ''}"
        raise _not_in_cache(repository, cache, received) from None
    except json.JSONDecodeError as error:
        raise OSError(
            f"hf://{repository} could not be read: the answer is not JSON, so it may be that of a proxy or a login "
            f"page. Check the network and HF_ENDPOINT. {OFFLINE} Received: {error}"
        ) from None
    except HfHubHTTPError as error:
        raise OSError(
            f"hf://{repository} could not be read. Check its name, or log in with: hf auth login. {OFFLINE} "
            f"Received: {first_line(error)}"
        ) from None
    except HTTPError as error:
        raise OSError(
            f"hf://{repository} could not be downloaded, because the connection failed. Check the network, its proxy "
            f"and HF_ENDPOINT, and try again. {OFFLINE} Received: {type(error).__name__}: {first_line(error)}"
        ) from None


def _wanted(repository: str, cache: Path, revision: str | None, sizes: dict[str, int], *, local: bool = False) -> Path:
    """The folder, when it has the files that we read; `sizes` are those of all its files on the Hub."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import filter_repo_objects

    def fetch(patterns: list[str]) -> Path:
        chosen = filter_repo_objects(sizes, allow_patterns=patterns, ignore_patterns=_UNUSED)
        if (size := sum(sizes[name] for name in chosen)) > MOST_BYTES:
            raise ValueError(
                f"The files of hf://{repository} are larger than those of any BERT, and nothing was downloaded. Check "
                f"the name of the repository. If it is right, run: hf download {repository} --cache-dir {cache}, and "
                f"load it with local_only=True (--local-only). Received: {size} bytes, where {MOST_BYTES} is the limit"
            )
        return Path(
            snapshot_download(
                repository,
                revision=revision,
                cache_dir=cache,
                local_files_only=local,
                allow_patterns=patterns,
                ignore_patterns=_UNUSED,
            )
        )

    folder = fetch(_WANTED)
    bert = transformer_folder(folder)
    patterns = ["*".join(os.path.splitext(name)) for name in WEIGHT_FILES]  # shards too

    def has_weights() -> bool:
        return any(file for known in patterns for file in bert.glob(known))

    for pattern in patterns[1:]:
        if has_weights():
            break
        more = [os.path.relpath(bert / name, folder) for name in (pattern, "spiece.model")]
        folder = fetch([*_WANTED, *more])
    if not sizes and not has_weights():  # what a download that was interrupted left
        raise _not_in_cache(repository, cache, f"no weights in {folder}")
    return folder


def _not_in_cache(repository: str, cache: Path, received: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"hf://{repository} is not in the cache, or not complete there, and it cannot be downloaded. On a machine with "
        f"a network, run: hf download {repository} --cache-dir {cache}. Then copy that folder here. {OFFLINE} "
        f"Received: {received}"
    )


def _published_sizes(repository: str, revision: str | None) -> dict[str, int]:
    """The sizes of the files of a repository; {} if they cannot be had."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
    except Exception as error:  # the download, which asks again, reports what is wrong, or uses the cache
        logger.debug("The sizes of hf://%s are not known: %s", repository, error)
        return {}
    return {file.rfilename: file.size or 0 for file in info.siblings or ()}


@contextmanager
def _held(cache: Path, repository: str) -> Iterator[None]:
    """Let no other process of keras_bert download this repository; a cache that cannot be written is only read."""
    locks = cache / ".locks"
    with suppress(OSError):
        locks.mkdir(parents=True, exist_ok=True)
    if os.access(locks, os.W_OK):
        with lock(locks / f"{repository.replace('/', '--')}.lock", wait=True):
            yield
    else:
        yield


def _remove_partials(folder: Path) -> None:
    """Remove what killed downloads left in a repository's folder: partial files whose lock no process holds.

    huggingface_hub gives each partial file a new name, so it would never finish or remove those of another process.
    """
    locks = folder.parent / ".locks" / folder.name
    for partial in folder.glob("blobs/*.incomplete"):
        tag = partial.name.split(".")[0]
        with suppress(OSError, RuntimeError), lock(locks / f"{tag}.lock"):
            partial.unlink()
    # These have no locks: the names in refs and the lists of files in trees, each of which is written in an instant.
    for partial in (*folder.glob("refs/**/*.????????.tmp"), *folder.glob("trees/tmp????????.tmp")):
        with suppress(OSError):
            partial.unlink()
