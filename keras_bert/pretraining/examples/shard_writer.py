"""ShardWriter: some documents become one shard of examples, in a process of `write_examples` or a worker of Beam.

A shard is a pure function of the settings, its number and its documents, so any process can write it.
"""

import os
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert import storage
from keras_bert.corpus.documents import Document
from keras_bert.corpus.sentences import sentences_of
from keras_bert.lazy import tf
from keras_bert.pretraining.examples.example_settings import ExampleSettings
from keras_bert.pretraining.examples.masking import Masker
from keras_bert.pretraining.examples.pairs import full_spans, pair_spans
from keras_bert.pretraining.examples.record_format import id_type, parse_dynamic, static_records
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary


class Shard(NamedTuple):
    """What a shard holds; kept in a note beside it, and then in examples.json."""

    name: str
    examples: int
    size: int  # bytes of the file
    documents: int
    sentences: int
    text: int  # bytes of the text it was made from
    digest: int  # of that text
    next_texts: int  # examples whose second segment follows the first in its document
    pieces: int = 0  # of all rows together; 0: not counted, by an older release
    unknown: int = 0  # of these, [UNK]


def split_into_shards(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """The documents of each shard: `size` characters, and at least two documents, since pairs need another one."""
    held: list[Document] = []
    documents_of_shard: list[Document] = []
    length = 0
    for document in documents:
        documents_of_shard.append(document)
        length += len(document.text)
        if length >= size and len(documents_of_shard) > 1:
            if held:
                yield held
            held, documents_of_shard, length = documents_of_shard, [], 0
    if held and len(documents_of_shard) > 1:
        yield held
        held = []
    if held or documents_of_shard:
        yield held + documents_of_shard


def note_of(path: str) -> str:
    """The note beside a shard."""
    return path.removesuffix(".tfrecord") + ".json"


def digest_of(documents: Iterable[Document]) -> int:
    """A digest of the text of a shard."""
    digest = 0
    for document in documents:
        digest = zlib.crc32(document.text.encode("utf-8", "surrogatepass"), digest)
    return digest


class ShardWriter:
    """Writes shards, each with a note, into a directory."""

    def __init__(self, settings: ExampleSettings, vocabulary: Vocabulary, directory: str) -> None:
        self.settings = settings
        self.directory = directory
        self.vocabulary = vocabulary
        self._tokenizer = Tokenizer(vocabulary, settings.lowercase, settings.strip_accents, settings.split_cjk)
        self._type = id_type(len(vocabulary))
        self._labels = [np.array(label, self._type).tobytes() for label in (0, 1)]
        self._masker = Masker(settings.masking, vocabulary, settings.seq_length)

    def write(self, number: int, documents: Sequence[Document]) -> Shard:
        """Write a shard, then its note. A shard that has a note is kept, if it was made from the same documents."""
        path = os.path.join(self.directory, f"examples-{number:05d}.tfrecord")
        note = note_of(path)
        digest = digest_of(documents)
        if found := storage.read_json(note):
            if found["digest"] != digest:
                raise ValueError(
                    f"The corpus has changed since {path} was made from it. Empty the directory of this file, "
                    f"or write to another directory. Received: documents with the digest {digest}, "
                    f"instead of {found['digest']}"
                )
            return Shard(**found)
        ids, lengths = self._tokenize(documents)
        examples = next_texts = pieces = unknown = 0
        with storage.new_file(path) as temporary, tf.io.TFRecordWriter(temporary) as file:
            for turn in range(self.settings.passes):
                rows = self._rows(ids, lengths, random.Random(f"{self.settings.seed}/{number}/{turn}"))
                examples += len(rows)
                of_rows = [np.frombuffer(row, self._type)[1:] for row in rows]  # without the label
                pieces += sum(map(len, of_rows))
                unknown += sum(int((row == self.vocabulary["[UNK]"]).sum()) for row in of_rows)
                next_texts += sum(row.startswith(self._labels[0]) for row in rows)
                if self.settings.mode == "static":
                    rows = self._masked(rows, (self.settings.seed, number * self.settings.passes + turn))
                for row in rows:
                    file.write(row)
        shard = Shard(
            name=os.path.basename(path),
            examples=examples,
            size=storage.size_of(path),
            documents=len(lengths),
            sentences=sum(map(len, lengths)),
            text=sum(len(document.text.encode("utf-8", "ignore")) for document in documents),
            digest=digest,
            next_texts=next_texts if self.settings.nsp else 0,
            pieces=pieces,
            unknown=unknown,
        )
        storage.write_json(note, shard._asdict())
        return shard

    def _tokenize(self, documents: Sequence[Document]) -> tuple[np.ndarray, list[list[int]]]:
        """The ids of all sentences in a row, and the lengths of the sentences of each document.

        Sentences and documents without a piece are left out.
        """
        texts: list[bytes] = []
        counts = []
        for document in documents:
            before = len(texts)
            texts += (text.encode("utf-8", "ignore") for text in sentences_of(document, self.settings.sentences))
            counts.append(len(texts) - before)
        if not texts:
            return np.zeros(0, np.int32), []
        ids = without_words(self._tokenizer.tokenize(texts))  # [sentences, (pieces)]
        lengths = iter(ids.row_lengths().numpy().tolist())
        found = [[length for _, length in zip(range(count), lengths, strict=False) if length] for count in counts]
        return ids.values.numpy(), [sentences for sentences in found if sentences]

    def _rows(self, ids: np.ndarray, lengths: list[list[int]], chance: random.Random) -> list[bytes]:
        """The rows of one pass over the documents, shuffled, as dynamic records."""
        data, width, room = ids.astype(self._type).tobytes(), self._type.itemsize, self.settings.seq_length
        start, end = (np.array(self.vocabulary[name], self._type).tobytes() for name in ("[CLS]", "[SEP]"))
        if self.settings.nsp:
            short = self.settings.short_seq_prob
            pairs = pair_spans(lengths, room=room - 3, short_seq_prob=short, chance=chance)
            spans_and_labels = [([(a, a_end), (b, b_end)], label) for a, a_end, b, b_end, label in pairs.tolist()]
        else:
            spans_and_labels = [(spans, 0) for spans in full_spans(lengths, room=room - 2)]
        rows = [
            self._labels[label] + start + b"".join(data[width * first : width * last] + end for first, last in spans)
            for spans, label in spans_and_labels
        ]
        chance.shuffle(rows)
        return rows

    def _masked(self, rows: list[bytes], seed: tuple[int, int]) -> list[bytes]:
        """Static records of the rows."""
        if not rows:
            return []
        batch = parse_dynamic(rows, self.settings.seq_length, self.vocabulary, self.settings.nsp)
        return static_records(batch | self._masker(batch["input_ids"], seed))
