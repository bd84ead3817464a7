"""One unit of documents becomes one shard of examples: all the work, for a process of ours or a worker of Beam's.

A shard is a pure function of the settings, its number and its documents, so that it does not matter who makes it.
"""

import os
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert import storage
from keras_bert.corpus.documents import Document
from keras_bert.corpus.sentences import sentences_of
from keras_bert.pretraining.examples.example_settings import Settings
from keras_bert.pretraining.examples.masking import Masker
from keras_bert.pretraining.examples.pairs import full_spans, pair_spans
from keras_bert.pretraining.examples.records import id_type, static_record
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

ONE_DOCUMENT = (
    "A random next text comes from another document, and there is none. Give more documents, part them by another "
    "boundary (--documents), or leave out next sentences: nsp=False, --no-nsp. Received: one document"
)


class Shard(NamedTuple):
    """What a shard holds, as its note beside it says."""

    name: str
    examples: int
    size: int  # bytes of the file
    documents: int
    sentences: int
    text: int  # bytes of the text it was made from
    digest: int  # of that text
    next_texts: int  # examples whose second text is the next


class Row(NamedTuple):
    """An example before its masks."""

    ids: bytes  # as dynamic records have them
    first: int  # pieces of the first text with its [CLS] and [SEP]
    label: int | None  # None where there is no pair


def units(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """The documents in their order, in parts of `size` characters, but two documents at least: one needs another."""
    held: list[Document] = []
    unit: list[Document] = []
    length = 0
    for document in documents:
        unit.append(document)
        length += len(document.text)
        if length >= size and len(unit) > 1:
            if held:
                yield held
            held, unit, length = unit, [], 0
    if held and len(unit) > 1:
        yield held
        held = []
    if held or unit:
        yield held + unit


def digest_of(unit: Sequence[Document]) -> int:
    """Tells another text from this one."""
    digest = 0
    for document in unit:
        digest = zlib.crc32(document.text.encode("utf-8", "surrogatepass"), digest)
    return digest


def shard_name(number: int) -> str:
    return f"examples-{number:05d}.tfrecord"


def note_name(number: int) -> str:
    return f"examples-{number:05d}.json"


class ShardWriter:
    """Writes shards into a directory."""

    def __init__(self, settings: Settings, vocabulary: Vocabulary, directory: str) -> None:
        self.settings = settings
        self.directory = directory
        self._tokenizer = Tokenizer(vocabulary, settings.lowercase, settings.strip_accents, settings.split_cjk)
        self._type = id_type(len(vocabulary))
        self._start, self._end = (np.array(vocabulary[name], self._type).tobytes() for name in ("[CLS]", "[SEP]"))
        self._pad = vocabulary["[PAD]"]
        self._masker = Masker(settings.masking, vocabulary, settings.seq_length)

    def write(self, number: int, unit: Sequence[Document]) -> Shard:
        """The shard of this unit, and then the note that it is finished."""
        import tensorflow as tf

        ids, documents = self.pieces(unit)
        name = shard_name(number)
        path = os.path.join(self.directory, name)
        examples = next_texts = 0
        with storage.new_file(path) as temporary, tf.io.TFRecordWriter(temporary) as file:
            for record, label in self.records(number, ids, documents):
                file.write(record)
                examples += 1
                next_texts += label == 0
        shard = Shard(
            name=name,
            examples=examples,
            size=tf.io.gfile.stat(path).length,
            documents=len(documents),
            sentences=sum(map(len, documents)),
            text=sum(len(document.text.encode("utf-8", "ignore")) for document in unit),
            digest=digest_of(unit),
            next_texts=next_texts,
        )
        storage.write_json(os.path.join(self.directory, note_name(number)), shard._asdict())
        return shard

    def pieces(self, unit: Sequence[Document]) -> tuple[np.ndarray, list[list[int]]]:
        """The ids of all sentences in a row, and how many each has, by document; those without a piece are left out."""
        texts: list[bytes] = []
        counts = []
        for document in unit:
            before = len(texts)
            texts += (text.encode("utf-8", "ignore") for text in sentences_of(document, self.settings.sentences))
            counts.append(len(texts) - before)
        if not texts:
            return np.zeros(0, np.int32), []
        ids = self._tokenizer.tokenize(texts).merge_dims(1, 2)  # [sentences, (pieces)]
        lengths = iter(ids.row_lengths().numpy().tolist())
        documents = [[length for _, length in zip(range(count), lengths, strict=False) if length] for count in counts]
        return ids.values.numpy(), [document for document in documents if document]

    def records(self, number: int, ids: np.ndarray, documents: list[list[int]]) -> Iterator[tuple[bytes, int | None]]:
        """The shard's records, shuffled, with their labels."""
        data = ids.astype(self._type).tobytes()
        labels = {label: np.array(label or 0, self._type).tobytes() for label in (None, 0, 1)}
        for turn in range(self.settings.dupe_factor):
            chance = random.Random(f"{self.settings.seed}/{number}/{turn}")
            rows = self.rows(data, documents, chance)
            chance.shuffle(rows)
            if self.settings.mode == "dynamic":
                yield from ((labels[row.label] + row.ids, row.label) for row in rows)
            else:
                yield from self._masked(rows, (self.settings.seed, number * self.settings.dupe_factor + turn))

    def rows(self, data: bytes, documents: list[list[int]], chance: random.Random) -> list[Row]:
        """The examples of one pass over the documents, whose ids stand in a row."""
        start, end, room, wide = self._start, self._end, self.settings.seq_length, self._type.itemsize
        if self.settings.nsp:
            spans = pair_spans(documents, room=room - 3, short_seq_prob=self.settings.short_seq_prob, chance=chance)
            return [
                Row(
                    start + data[wide * a : wide * a_end] + end + data[wide * b : wide * b_end] + end,
                    a_end - a + 2,
                    label,
                )
                for a, a_end, b, b_end, label in spans.tolist()
            ]
        return [
            Row(start + b"".join(data[wide * a : wide * a_end] + end for a, a_end in spans), room, None)
            for spans in full_spans(documents, room=room - 2)
        ]

    def _masked(self, rows: list[Row], seed: tuple[int, int]) -> Iterator[tuple[bytes, int | None]]:
        if not rows:
            return
        columns = np.arange(self.settings.seq_length)[np.newaxis]  # [1, S]
        lengths = np.array([len(row.ids) for row in rows])[:, np.newaxis] // self._type.itemsize  # [N, 1]
        first = np.array([row.first for row in rows])[:, np.newaxis]  # [N, 1]
        real = columns < lengths  # [N, S]
        ids = np.full(real.shape, self._pad, np.int32)
        ids[real] = np.frombuffer(b"".join(row.ids for row in rows), self._type)
        masked: dict[str, Any] = {name: value.numpy() for name, value in self._masker(ids, seed).items()}
        masked |= {"input_mask": real.astype(np.int32), "segment_ids": (real & (columns >= first)).astype(np.int32)}
        for index, row in enumerate(rows):
            yield static_record({name: values[index] for name, values in masked.items()}, row.label), row.label
