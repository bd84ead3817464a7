"""What the text SavedModel of a `Pretrainer` answers with its heads: masked words, and the next sentence."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras

from keras_bert.exports.pieces_signatures import piece_names
from keras_bert.pretraining.fill_mask import MASK, mask_tokenizer
from keras_bert.pretraining.pretrainer import POSITIONS, Pretrainer
from keras_bert.tasks.decoding.in_batches import in_batches
from keras_bert.tasks.signature import Signature, pack_texts, strings
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.tensors import tf

TOP = 10  # pieces for each mask


def pretrainer_signatures(
    pretrainer: Pretrainer,
    encode: Callable[[dict[str, Any]], dict[str, Any]],
    seq_length: int,
    run_of: Callable[[keras.Model], Any],
) -> dict[str, Signature]:
    """`fill_mask` and, where there is a head for it, `is_next`.

    encode: runs the exported encoder on packed rows. run_of: from a model, the head, to what runs it.
    """
    signatures = {}
    preprocessor, outputs = pretrainer.bert.preprocessor, pretrainer.bert.output
    if MASK in preprocessor.vocabulary:
        signatures["fill_mask"] = _fill_mask(pretrainer, encode, seq_length, run_of)
    if pretrainer.nsp:
        head = run_of(keras.Model(outputs["pooled_output"], pretrainer.output["nsp_logits"]))

        def is_next(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
            rows, truncated = pack_texts(preprocessor, (text, text_pair), seq_length)
            score = tf.nn.softmax(head(encode(rows)["pooled_output"]))[:, 0]  # 0 is the next sentence
            return {"is_next": score >= 0.5, "score": score, "truncated": truncated}

        signatures["is_next"] = Signature(is_next, strings("text", "text_pair"))
    return signatures


def _fill_mask(pretrainer: Pretrainer, encode: Any, seq_length: int, run_of: Any) -> Signature:
    """`token`, `id`, `score` [B, M, 10]: the best pieces for each [MASK], of which a text has `count` [B].

    `start`, `end` [B, M]: the characters of each [MASK]. Those that were truncated with the text are left out.
    """
    preprocessor, vocabulary = pretrainer.bert.preprocessor, pretrainer.bert.preprocessor.vocabulary
    tokenizer = mask_tokenizer(preprocessor)
    packer = replace(preprocessor.packer, max_length=seq_length)
    inputs = [pretrainer.bert.output["sequence_output"], pretrainer.input[POSITIONS]]
    head = run_of(keras.Model(inputs, pretrainer.output["mlm_logits"]))
    top, names = min(TOP, len(vocabulary)), piece_names(vocabulary)

    def best(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        vectors = batch["vectors"][:, tf.newaxis]  # [M, 1, H]
        logits = head([vectors, tf.zeros(tf.shape(vectors)[:2], tf.int32)])[:, 0]  # [M, V]
        scores, ids = tf.math.top_k(tf.nn.softmax(logits)[:, : len(vocabulary)], top)
        return tf.stack([scores, tf.cast(ids, tf.float32)], axis=1)  # [M, 2, top]; float32 holds every id exactly

    def fill_mask(text: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, start, end = (without_words(part) for part in tokenizer.tokenize_with_offsets(text))  # [B, (pieces)]
        packed, cut = packer.pack_and_cut([ids], "longest")
        place = tf.cast(tf.where(packed["input_word_ids"] == vocabulary[MASK]), tf.int32)  # [M, 2]: row and column
        vectors = tf.gather_nd(encode(packed)["sequence_output"], place)  # [M, H]
        found = in_batches(best, {"vectors": vectors}, (2, top))  # [M, 2, top]
        number = tf.gather(tf.cast(ids.row_starts(), tf.int32), place[:, 0]) + place[:, 1] - 1  # without [CLS]
        best_ids = tf.cast(found[:, 1], tf.int32)
        masks = {
            "token": tf.gather(tf.constant(names), best_ids),
            "id": best_ids,
            "score": found[:, 0],
            "start": tf.gather(start.values, number),
            "end": tf.gather(end.values, number),
        }
        count = tf.shape(text)[0]
        rows = [tf.RaggedTensor.from_value_rowids(x, place[:, 0], count, validate=False) for x in masks.values()]
        return {
            **{name: ragged.to_tensor() for name, ragged in zip(masks, rows, strict=True)},
            "count": tf.math.bincount(place[:, 0], minlength=count, dtype=tf.int32),
            "truncated": cut[:, 0],
        }

    return Signature(fill_mask, strings("text"))
