"""LongTextTask: what a task does with a text that is too long for a row: cut it, keep both ends, or read windows."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.checks import check_choice, count_of
from keras_bert.choices import LONG, MAX_WINDOWS, POOLS
from keras_bert.layers.padding import Padding
from keras_bert.layers.windows import RealWindows, WindowPooling
from keras_bert.tasks.cached_task import CachedTask
from keras_bert.tasks.column_task import ColumnTask
from keras_bert.tasks.columns.other_columns import checked_columns, column_specs, columns_in_graph
from keras_bert.tasks.columns.text_columns import column
from keras_bert.tasks.decoding.in_batches import in_batches
from keras_bert.tasks.heads import pooled_encoder
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.tasks.rows.windowed_rows import WindowedRows
from keras_bert.tasks.signature import Logits, Signature, strings
from keras_bert.text.packing import Packer
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.tensors import tf
from keras_bert.text.tokenized_rows import as_tensors, pieces
from keras_bert.text.windows import text_windows

logger = logging.getLogger("keras_bert")

CHUNK = 64  # texts whose windows have vectors at a time
ADVICE = 'With long="head-tail" (--long head-tail) the end of a text is read too, and with "windows" all of it.'


def text_vectors(bert: Bert, long: str, pool: str) -> tuple[dict[str, Any], Any]:
    """The inputs of a task, and a vector of each text [B, H]: the pooled output, or what its windows' are pooled to."""
    check_choice("long", long, LONG)
    check_choice("pool", pool, POOLS)
    if long != "windows":
        return bert.input, bert.output["pooled_output"]
    inputs = {name: keras.Input((None, None), dtype="int32", name=name) for name in bert.input}  # [B, K, S]
    padding = Padding(name="window_padding")(ops.max(inputs["input_mask"], axis=-1))  # of [B, K]
    windows = {name: RealWindows(name=f"{name}_windows")(x, padding) for name, x in inputs.items()}  # [W, S]
    pooling = WindowPooling(pool, dtype="float32", name="window_pooling")
    return inputs, pooling(pooled_encoder(bert)(windows), padding)  # [B, H]


class LongTextTask(CachedTask, ColumnTask):
    """What `TextClassifier` and `TextRegressor` share: the three ways to read a text that is too long.

    long: "truncate" reads the first pieces. "head-tail" reads the first quarter and the last three quarters of what
    fits, see `text.packing.Packer`. "windows" reads all of a single text, in windows of seq_length pieces that overlap
    by a quarter, and pools their vectors.
    """

    pool: str = "mean"
    max_windows: int = MAX_WINDOWS
    run_fields: tuple[str, ...] = ("long", "pool", "max_windows", "cache_batch", "stream")
    own_fields: tuple[str, ...] = ("long", "other_columns")  # that `own_settings` compares with their defaults
    taught_fields: tuple[str, ...] = ("labels", "other_columns")

    def _keep_settings(self, long: str, pool: str, max_windows: int, other_columns: Any) -> None:
        """Keep these arguments of the constructor."""
        self.long = long
        self.pool = pool
        self.max_windows = count_of("max_windows", max_windows, 1)
        if long != "windows" and (pool, max_windows) != (type(self).pool, type(self).max_windows):
            logger.warning('pool=%r and max_windows=%d have no effect without long="windows".', pool, max_windows)
        self.other_columns = checked_columns(other_columns)
        if self.other_columns is not None:
            self.heads = (f"{type(self).heads[0]} with other columns",)  # which other formats do not have

    # === Files and the command line ===

    @classmethod
    def _options(cls, rows: Rows, settings: Any) -> dict[str, Any]:
        """The arguments that `FinetuneSettings` and the training rows decide."""
        given = {name: getattr(settings, name) for name in ("long", "pool", "max_windows")}
        given["other_columns"] = cls._learned(rows, settings.reading)
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def fit_options(cls, settings: Any) -> dict[str, Any]:
        return {"cache_batch": settings.cache_batch}

    @property
    def own_settings(self) -> tuple[str, ...]:
        """Settings with another value than the default, which formats of other packages cannot hold."""
        return tuple(name for name in self.own_fields if getattr(self, name) != getattr(type(self), name))

    # === Rows ===

    @property
    def packer(self) -> Packer:
        return replace(super().packer, head_tail=self.long == "head-tail")

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        if self.long != "windows":
            rows = super().examples(x, y, sample_weight, class_weight)
            return replace(rows, advice=ADVICE) if self.long == "truncate" else rows
        x, others = self._split(x)
        if isinstance(x, tuple) and len(x) != 1:
            raise ValueError(
                'A pair of texts was given, but long="windows" reads single texts. Join both texts of a pair, or '
                f'use long="head-tail". Received: {len(x)} columns'
            )
        texts = column(x[0] if isinstance(x, tuple) else x)
        ids = as_tensors(pieces(self.bert.preprocessor, texts))
        with tf.device("CPU:0"):
            windows, text = text_windows(ids, self.packer)
        counts = np.bincount(np.asarray(text), minlength=len(texts))
        max_windows = None if y is None else self.max_windows
        rows = WindowedRows([windows], self.packer, counts=counts, max_windows=max_windows, others=others)
        return self.with_targets(rows, y, sample_weight, class_weight)

    def held_out_examples(self, x: Any, y: Any, sample_weight: Any = None) -> LabelledRows:
        rows = super().held_out_examples(x, y, sample_weight)
        return replace(rows, max_windows=None) if isinstance(rows, WindowedRows) else rows

    # === Training ===

    def _check_cached(self, cache_batch: int, teacher: Any) -> None:
        if self.long != "windows":
            raise ValueError(
                "`cache_batch` is how many windows are computed at a time, but this task reads no windows. Build it "
                'with long="windows". For short texts, use smaller batches and FinetuneRecipe(accumulate=...). '
                f"Received: cache_batch={cache_batch}, long={self.long!r}"
            )
        super()._check_cached(cache_batch, teacher)

    def parts(self, x: dict[str, Any]) -> tuple[Any, dict[str, Any], Callable[[Any], Any]]:
        """The encoder, the windows [W, S] that it reads for a batch, and the logits [B, C] of its vectors [W, H]."""
        padding = self.get_layer("window_padding")(ops.max(x["input_mask"], axis=-1))
        windows = {name: self.get_layer(f"{name}_windows")(x[name], padding) for name in self.bert.input}  # [W, S]
        pooling = self.get_layer("window_pooling")
        others = [name for name in self.input if name not in windows]
        head = keras.Model([pooling.output, *(self.input[name] for name in others)], self.output)

        def logits(vectors: Any) -> Any:
            return head([pooling(vectors, padding), *(x[name] for name in others)], training=True)

        return self.get_layer("encoder"), windows, logits

    # === Logits ===

    def logits(self, examples: LabelledRows, batch_size: int = 32) -> list[np.ndarray]:
        if not isinstance(examples, WindowedRows):
            return super().logits(examples, batch_size)
        batch_size = count_of("batch_size", batch_size, 32)
        run = self.text_runner()
        found: list[Any] = []
        for start in range(0, len(examples), CHUNK):
            rows, counts = examples.windows(slice(start, start + CHUNK))
            vectors = np.zeros((len(rows), self.bert.config.hidden_size), "float32")
            for index in rows.by_length(batch_size):
                vectors[index] = run(rows, index)
            of_texts = np.split(vectors, np.cumsum(counts)[:-1])
            for number, one in enumerate(of_texts, start):
                others = {name: values[number] for name, values in examples.others.items()}
                found.append(ops.convert_to_numpy(self._head(ops.convert_to_tensor(one), others)))
        return found

    def text_runner(self) -> Any:
        return self._vector_runner() if self.long == "windows" else super().text_runner()

    def _head(self, vectors: Any, others: dict[str, Any]) -> Any:
        """The logits [C] of a text from the vectors of its windows [K, H], and from its other columns."""
        real = ops.ones(ops.shape(vectors)[:1], dtype="bool")  # [K]
        pooled = self.get_layer("window_pooling").pooled(vectors[None], real[None])  # [1, H]
        return self._of_vectors(pooled, {name: one[None] for name, one in others.items()})[0]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        if self.long != "windows":
            return super().signatures(logits, seq_length)
        packer, encoder = replace(self.packer, max_length=seq_length), pooled_encoder(self.bert)
        size, columns = self.bert.config.hidden_size, self.other_columns

        def vectors(rows: dict[str, Any]) -> Any:
            return tf.cast(encoder(rows, training=False), tf.float32)

        def answer(text: Any, **fields: Any) -> dict[str, Any]:
            windows, number = text_windows(without_words(self.bert.preprocessor.tokenize(text)), packer)
            rows = packer.pack([windows], "longest")  # [W, S]
            found = tf.ensure_shape(in_batches(vectors, rows, (size,)), (None, size))  # [W, H]
            by_text = tf.RaggedTensor.from_value_rowids(found, number, tf.size(text), validate=False)  # [B, (W), H]
            others = {} if columns is None else columns_in_graph(columns, fields)
            output = tf.TensorSpec(self.output_shape[1:])
            logits = tf.map_fn(lambda one: self._head(*one), (by_text, others), fn_output_signature=output)  # [B, C]
            return {**self.answers_in_graph(logits, (text,)), "truncated": tf.fill(tf.shape(text), False)}

        more = {} if columns is None else column_specs(columns)
        return {"serving_default": Signature(answer, {**strings("text"), **more})}
