"""Examples from a corpus, on all cores of this machine."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any, NamedTuple

from keras_bert.corpus.documents import Document, is_files, read_documents
from keras_bert.corpus.streams import find_files, size_of
from keras_bert.pretraining.examples.example_settings import Settings, sha256_of
from keras_bert.pretraining.examples.examples_directory import begin, check_text, finish, finished_shards, text_beside
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.pretraining.examples.shards import ONE_DOCUMENT, Shard, ShardWriter, units
from keras_bert.progress import bar
from keras_bert.text.vocabulary import Vocabulary

_REPAYS = 50_000_000  # bytes of text that are written in the time in which a process starts


class Written(NamedTuple):
    """What a run of `write_examples` gave."""

    documents: int
    sentences: int
    examples: int
    megabytes: float  # of text
    seconds: float


def write_examples(
    corpus: Any,
    directory: str | os.PathLike,
    *,
    vocabulary: Vocabulary | str | os.PathLike,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
    seq_length: int = 128,
    mode: str = "dynamic",
    nsp: bool = True,
    masking: Masking | None = None,
    short_seq_prob: float = 0.1,
    dupe_factor: int | None = None,
    boundary: str = "auto",
    sentences: str = "rules",
    text_field: str = "text",
    shard_size: int = 4_000_000,
    seed: int = 0,
    workers: int | None = None,
    beam: Sequence[str] | None = None,
) -> Written:
    """Write shards of pretraining examples and `examples.json` into a directory; the same seed gives the same bytes.

    Run again, it keeps the shards that are finished. A script that calls it with several workers needs
    `if __name__ == "__main__":`, since they are processes that import it.

    corpus: paths, patterns or folders of .txt, .md, .jsonl and Wikipedia's .xml (plain, .gz, .bz2 or .zst), local or
        gs://; or a tf.data.Dataset or generator of strings, a document each.
    mode: "dynamic" leaves masking to the reader, afresh in each epoch; "static" writes google-research/bert's records.
    nsp: False packs full sentences for MLM alone.
    dupe_factor: passes over the documents; None: 1, or 10 where masks are static.
    boundary, text_field: see `read_documents`; sentences: "rules", or "line" where each line is a sentence.
    shard_size: characters of text a shard is made of. A random second text comes from the same shard's documents.
    workers: how many processes; None: one for each core, as far as the text repays the seconds that one takes to start.
    beam: options of an Apache Beam runner, such as ["--runner=DataflowRunner"], for files that one machine cannot do.
    """
    start = time.perf_counter()
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.from_file(vocabulary)
    if dupe_factor is None:
        dupe_factor = 10 if mode == "static" else 1
    settings = Settings(
        seq_length=seq_length,
        mode=mode,
        nsp=nsp,
        masking=masking or Masking(),
        short_seq_prob=short_seq_prob,
        dupe_factor=dupe_factor,
        seed=seed,
        boundary=boundary,
        sentences=sentences,
        text_field=text_field,
        shard_size=shard_size,
        lowercase=lowercase,
        strip_accents=strip_accents,
        split_cjk=split_cjk,
        vocabulary_size=len(vocabulary),
        vocabulary_sha256=sha256_of(vocabulary),
    )
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1. Received: workers={workers}")
    directory = os.fspath(directory)
    if beam is not None or is_files(corpus):
        corpus = find_files(corpus)
        sizes = [size_of(file) for file in corpus]
        named = [[os.path.basename(file), size] for file, size in zip(corpus, sizes, strict=True)]
    else:
        sizes, named = [], []
    if workers is None:
        workers = os.cpu_count() or 1
        if sizes:
            workers = min(workers, 1 + sum(sizes) * dupe_factor // _REPAYS)
    run = {"settings": settings.to_dict(), "corpus": named, "writer": "local" if beam is None else "beam"}
    shards = finished_shards(directory, run)
    if shards is None:
        if beam is None:
            with bar("Writing examples", sum(sizes) or None) as advance:
                documents = read_documents(corpus, boundary=boundary, text_field=text_field, seen=advance)
                shards = _write_all(numbered(documents, settings), settings, vocabulary, directory, run, workers)
        else:
            from keras_bert.pretraining.examples.pipeline import write_with_beam

            shards = write_with_beam(corpus, sum(sizes), settings, vocabulary, directory, run, beam)
        finish(directory, run, shards)
    return Written(
        documents=sum(shard.documents for shard in shards),
        sentences=sum(shard.sentences for shard in shards),
        examples=sum(shard.examples for shard in shards),
        megabytes=sum(shard.text for shard in shards) / 1e6,
        seconds=time.perf_counter() - start,
    )


def numbered(documents: Iterator[Document], settings: Settings) -> Iterator[tuple[int, list[Document]]]:
    """The units of the corpus; one that has no document, or no other document, is refused."""
    found = units(documents, settings.shard_size)
    first = next(found, None)
    if first is None:
        raise ValueError("A corpus must hold text. Give other files. Received: no document")
    if settings.nsp and len(first) < 2:
        raise ValueError(ONE_DOCUMENT)
    return enumerate(chain([first], found))


def _write_all(
    numbered: Iterator[tuple[int, list[Document]]],
    settings: Settings,
    vocabulary: Vocabulary,
    directory: str,
    run: dict[str, Any],
    workers: int,
) -> list[Shard]:
    """All shards, but for those that an earlier run finished."""
    first = list(islice(numbered, 2))
    done = begin(directory, run, settings, vocabulary)
    numbered = chain(first, numbered)
    kept: list[Shard] = []

    def missing() -> Iterator[tuple[int, list[Document]]]:
        for number, unit in numbered:
            if number not in done:
                yield number, unit
                continue
            check_text(directory, done[number], unit)
            kept.append(done[number])

    writer = ShardWriter(settings, vocabulary, directory)
    if workers == 1 or len(first) == 1:
        written = [writer.write(number, unit) for number, unit in missing()]
    else:
        context = get_context("spawn")  # TensorFlow's threads do not live through a fork
        with ProcessPoolExecutor(workers - 1, context, _start_worker, (settings, directory)) as pool:
            written = list(_spread(pool, missing(), 2 * (workers - 1), writer))
    return sorted(kept + written)


def _spread(
    pool: Executor, todo: Iterator[tuple[int, list[Document]]], most: int, writer: ShardWriter
) -> Iterator[Shard]:
    """Shards as they are finished: the pool has so many units at hand, and this process makes the next meanwhile."""
    running: set[Future[Shard]] = set()
    try:
        for number, unit in todo:
            if len(running) < most:
                running.add(pool.submit(_write_shard, number, unit))
            else:
                yield writer.write(number, unit)
            finished, running = wait(running, timeout=0)
            yield from (future.result() for future in finished)
        for future in running:
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_writer: ShardWriter  # of a worker process


def _start_worker(settings: Settings, directory: str) -> None:
    global _writer
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)  # there is a process for each core
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _writer = ShardWriter(settings, text_beside(directory)[0], directory)


def _write_shard(number: int, unit: list[Document]) -> Shard:
    return _writer.write(number, unit)
