"""Writing examples with Apache Beam, for a corpus that is too large for one machine.

Each document is assigned to a random shard, and a worker of Beam writes each shard just as a process of
`write_examples` does. The same seed gives the same bytes on every runner. They differ from what `write_examples` writes
without Beam, whose shards hold documents that are neighbours in the corpus.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keras_bert.corpus.documents import Document, read_documents
from keras_bert.installation import need
from keras_bert.pretraining.examples.example_settings import ExampleSettings
from keras_bert.pretraining.examples.examples_directory import read_settings
from keras_bert.pretraining.examples.shard_writer import ShardWriter

Placed = tuple[int, int, Document]  # the number of the file, and of the document in it


def new_pipeline(options: Sequence[str]) -> Any:
    """An empty pipeline; wrong options are an error."""
    beam = need("apache_beam", "Writing examples with Beam", "beam")
    from apache_beam.options.pipeline_options import PipelineOptions

    try:
        return beam.Pipeline(options=PipelineOptions(list(options)))
    except ValueError as error:
        raise ValueError(
            "Beam does not accept these options. Use --runner local, beam, or the name of a Beam runner followed by "
            f"its options. Received: {' '.join(options)}: {' '.join(str(error).split())}"
        ) from None


def write_with_beam(pipeline: Any, files: Sequence[str], size: int, settings: ExampleSettings, directory: str) -> None:
    """Write all shards. The workers must have access to the files and the directory.

    size: of all files together, in bytes on the disk. It decides how many shards there are, so that compressed files
        give larger ones.
    """
    import apache_beam as beam

    class Write(beam.DoFn):
        def setup(self) -> None:
            self.writer = ShardWriter(*read_settings(directory), directory)

        def process(self, shard: tuple[int, Iterable[Placed]]) -> None:
            number, placed = shard
            self.writer.write(number, [document for _, _, document in sorted(placed)])

    count = max(1, round(size / settings.shard_size))
    with pipeline:
        _ = (
            pipeline
            | "Files" >> beam.Create(list(enumerate(files)))
            | "Spread files" >> beam.Reshuffle()
            | "Documents" >> beam.FlatMap(_numbered_documents, settings, count)
            | "Shards" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(Write())
        )


def _numbered_documents(
    numbered: tuple[int, str], settings: ExampleSettings, count: int
) -> Iterator[tuple[int, Placed]]:
    """The documents of a file, each with the number of its random shard."""
    number, path = numbered
    documents = read_documents(path, **settings.reading)
    for place, document in enumerate(documents):
        shard = zlib.crc32(f"{settings.seed}/{number}/{place}".encode()) % count
        yield shard, (number, place, document)
