"""The same examples by Apache Beam, for a corpus larger than one machine.

Documents are dealt out to shards by their place in the corpus, and a worker of Beam's makes a shard of those it got
just as a process of `write_examples` does. The same seed gives the same bytes on every runner; the local writer's
differ, since its shards hold documents that stand together.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keras_bert.corpus.documents import Document, read_documents
from keras_bert.pretraining.examples.example_settings import Settings
from keras_bert.pretraining.examples.examples_directory import begin, check_text, noted_shards, text_beside
from keras_bert.pretraining.examples.shards import Shard, ShardWriter
from keras_bert.text.vocabulary import Vocabulary

Placed = tuple[int, int, Document]  # the file's number, the document's in it


def write_with_beam(
    files: Sequence[str],
    size: int,
    settings: Settings,
    vocabulary: Vocabulary,
    directory: str,
    run: dict[str, Any],
    options: Sequence[str],
) -> list[Shard]:
    """All shards; the workers must reach the files and the directory.

    size: of the files together, in bytes, which decides how many shards there are.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise ImportError("Beam is a package of its own. Run: pip install 'keras3-bert[beam]'") from error

    class Write(beam.DoFn):
        def setup(self) -> None:
            self.writer = ShardWriter(settings, text_beside(directory)[0], directory)

        def process(self, unit: tuple[int, Iterable[Placed]]) -> None:
            number, placed = unit
            documents = [document for _, _, document in sorted(placed)]
            if number in done:
                check_text(directory, done[number], documents)
            else:
                self.writer.write(number, documents)

    try:
        pipeline = beam.Pipeline(options=PipelineOptions(list(options)))  # first, since its options may be wrong
    except ValueError as error:
        raise ValueError(
            "--runner must be local, beam, or a runner that Beam knows, with its options behind. Give others. "
            f"Received: {' '.join(options)}: {' '.join(str(error).split())}"
        ) from None
    done = begin(directory, run, settings, vocabulary)
    count = max(1, round(size / settings.shard_size))
    with pipeline:
        _ = (
            pipeline
            | "Files" >> beam.Create(list(enumerate(files)))
            | "Spread files" >> beam.Reshuffle()
            | "Documents" >> beam.FlatMap(_dealt_documents, settings, count)
            | "Shards" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(Write())
        )
    return noted_shards(directory)


def _dealt_documents(numbered: tuple[int, str], settings: Settings, count: int) -> Iterator[tuple[int, Placed]]:
    """The documents of a file, each with the number of the shard that chance gave it."""
    number, path = numbered
    documents = read_documents(path, boundary=settings.boundary, text_field=settings.text_field)
    for place, document in enumerate(documents):
        shard = zlib.crc32(f"{settings.seed}/{number}/{place}".encode()) % count
        yield shard, (number, place, document)
