"""write_examples: a directory of examples from a corpus, on all cores of this machine or on Apache Beam."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any

from keras_bert.corpus.documents import Document, is_files, read_documents
from keras_bert.corpus.files import find_files
from keras_bert.installation import need_tensorflow
from keras_bert.lazy import tf
from keras_bert.pretraining.examples.example_settings import ExampleSettings
from keras_bert.pretraining.examples.examples_directory import (
    ONE_DOCUMENT,
    Written,
    begin,
    check_texts,
    finish,
    finished_shards,
    is_examples_directory,
    noted_shards,
    origin_of,
    read_settings,
    reserved,
    summarize,
)
from keras_bert.pretraining.examples.shard_writer import Shard, ShardWriter, split_into_shards
from keras_bert.pretraining.examples.write_with_beam import new_pipeline, write_with_beam
from keras_bert.progress import bar
from keras_bert.storage import size_of
from keras_bert.text.vocabulary import Vocabulary

_TEXT_PER_WORKER = 50_000_000  # bytes that are written in the time in which a process starts


def write_examples(
    corpus: Any,
    directory: str | os.PathLike,
    *,
    vocabulary: Vocabulary | str | os.PathLike,
    workers: int | None = None,
    beam: Sequence[str] | None = None,
    **options: Any,
) -> Written:
    """Write pretraining examples from a corpus into a directory; the same seed gives the same bytes.

    Call it again with the same arguments to resume after an interruption: finished shards are kept. Files are
    recognized by their names and sizes, and a corpus in memory by its texts, which must come in the same order. A
    script that uses several workers needs `if __name__ == "__main__":`, because each worker is a process that imports
    it.

    corpus: paths, patterns or folders of .txt, .md, .jsonl, .json and Wikipedia's .xml files (plain, .gz, .bz2 or
        .zst), local or gs://; or a tf.data.Dataset or generator of strings, each a document.
    workers: the number of processes; None: one for each core, but only as many as the amount of text is worth.
    beam: the options of an Apache Beam runner, such as ["--runner=DataflowRunner"], for a corpus that one machine
        cannot handle.
    options: seq_length, mode, nsp, masking, short_seq_prob, dupe_factor, seed, boundary, sentences, text_field,
        encoding, shard_size, lowercase, strip_accents and split_cjk; see `ExampleSettings` in
        keras_bert/pretraining/examples/example_settings.py for their meaning and defaults.
    """
    need_tensorflow("`write_examples`", "tensorflow_text")
    start = time.perf_counter()
    settings = ExampleSettings.from_options(options)
    if workers is not None and workers < 1:
        raise ValueError(f"`workers` must be at least 1. Received: workers={workers}")
    if workers is not None and beam is not None:
        raise ValueError(
            "`workers` cannot be used with `beam`, because the runner of Beam has workers of its own. Leave it out, "
            f"and use the runner's option. Received: workers={workers}, beam={beam}"
        )
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.from_file(vocabulary)
    directory = os.fspath(directory)
    files: list[list[Any]] = []  # the name and the size of each; none if the corpus is in memory
    if beam is not None or is_files(corpus):
        corpus = find_files(corpus)
        files = [[os.path.basename(file), size_of(file)] for file in corpus]
    size = sum(size for _, size in files)
    origin = origin_of(settings, vocabulary, files, "local" if beam is None else "beam")
    with reserved(directory):
        is_new = not is_examples_directory(directory)
        shards = finished_shards(directory, origin)
        if shards is None:
            writer = ShardWriter(settings, vocabulary, directory)  # first, since it checks the vocabulary
            if beam is None:
                shards = _write_locally(corpus, size, writer, origin, workers)
            else:
                pipeline = new_pipeline(beam)
                begin(directory, origin, settings, vocabulary)
                write_with_beam(pipeline, corpus, size, settings, directory)
                shards = noted_shards(directory)
            finish(directory, origin, shards)
        elif not files:
            documents = read_documents(corpus, **settings.reading)
            check_texts(directory, shards, split_into_shards(documents, settings.shard_size))
    return summarize(shards, settings.to_dict(), time.perf_counter() - start if is_new else 0.0)


def _write_locally(
    corpus: Any, size: int, writer: ShardWriter, origin: dict[str, Any], workers: int | None
) -> list[Shard]:
    """Write all shards on this machine.

    size: of the files of the corpus together, in bytes; 0 if it is in memory.
    """
    settings = writer.settings
    if workers is None:
        workers = os.cpu_count() or 1
        if size:
            workers = min(workers, 1 + size * settings.passes // _TEXT_PER_WORKER)
    with bar("Writing examples", size or None) as advance:
        documents = read_documents(corpus, **settings.reading, seen=advance)
        shards_to_write = split_into_shards(documents, settings.shard_size)
        first = list(islice(shards_to_write, 2))
        if not first:
            raise ValueError("The corpus has no text. Name other files. Received: no document")
        if settings.nsp and len(first[0]) < 2:
            raise ValueError(ONE_DOCUMENT)
        begin(writer.directory, origin, settings, writer.vocabulary)
        return _write_all(enumerate(chain(first, shards_to_write)), writer, workers if len(first) > 1 else 1)


def _write_all(todo: Iterator[tuple[int, list[Document]]], writer: ShardWriter, workers: int) -> list[Shard]:
    """Write all shards, in this process and in `workers - 1` others. They are returned in any order."""
    if workers == 1:
        return [writer.write(number, documents) for number, documents in todo]
    context = get_context("spawn")  # TensorFlow's threads do not survive a fork
    with ProcessPoolExecutor(workers - 1, context, _start_worker, (writer.directory,)) as pool:
        shards: list[Shard] = []
        running: set[Future[Shard]] = set()
        try:
            for number, documents in todo:
                if len(running) < 2 * (workers - 1):
                    with _without_ctrl_c():
                        running.add(pool.submit(_write_shard, number, documents))
                else:  # the other processes have enough to do
                    shards.append(writer.write(number, documents))
                finished, running = wait(running, timeout=0)
                shards += [future.result() for future in finished]
            return [*shards, *(future.result() for future in running)]
        except BrokenProcessPool:
            raise RuntimeError(
                f"A worker process ended while it wrote examples into {writer.directory}, probably for lack of memory. "
                "Repeat the call with fewer processes (workers, --workers), which keeps the finished shards, or write "
                "smaller shards (shard_size, --shard-size) into another directory. In a script, the call must be below "
                f'`if __name__ == "__main__":`. Received: workers={workers}'
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes that begin in this block get Ctrl-C only when they are ready for it, and this process after the block.

    A terminal sends it to all of them. A worker that is still importing would print a traceback.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


_writer: ShardWriter  # of a worker process
_interrupted = False  # whether this worker got Ctrl-C


def _start_worker(directory: str) -> None:
    global _writer
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until it writes, it just ends
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    tf.config.threading.set_intra_op_parallelism_threads(1)  # there is a process for each core
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _writer = ShardWriter(*read_settings(directory), directory)
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(*_: Any) -> None:
    """Leave the shard that is being written, without a traceback; the parent got Ctrl-C too."""
    global _interrupted
    _interrupted = True
    sys.exit()


def _write_shard(number: int, documents: list[Document]) -> Shard:
    if _interrupted:  # the parent cannot take back what it has passed on already
        sys.exit()
    return _writer.write(number, documents)
