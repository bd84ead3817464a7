"""The preprocessing SavedModel: TF-Hub's Preprocessor API for BERT, from strings to the encoder's inputs.

Shapes are derived from those of the texts, so that a caller with static shapes, such as a TPU, gets static ones back.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from keras_bert.compat import trackable
from keras_bert.exports.pieces_signatures import pieces_signatures
from keras_bert.exports.saved_functions import saved_functions
from keras_bert.exports.text_reader import TextReader
from keras_bert.tasks.signature import Signature, shared_graph, strings
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.tensors import tf

_SPECIAL = {  # TF-Hub's name, ours
    "padding_id": "[PAD]",
    "start_of_sequence_id": "[CLS]",
    "end_of_segment_id": "[SEP]",
    "mask_id": "[MASK]",
}


def preprocess(reader: TextReader) -> tuple[Any, dict[str, Any]]:
    """The object to save and its signatures; the reader's `seq_length` is the default of its callables."""
    preprocessor, seq_length = reader.preprocessor, reader.seq_length
    texts = tf.TensorSpec([None], tf.string, "text")

    # === tokenize ===

    @tf.function(input_signature=[texts], autograph=False)
    def tokenize(text: tf.Tensor) -> tf.RaggedTensor:
        return _with_batch(preprocessor.tokenize(_column(text)), text)

    @tf.function(input_signature=[texts], autograph=False)
    def tokenize_with_offsets(text: tf.Tensor) -> list[tf.RaggedTensor]:
        return [_with_batch(part, text) for part in preprocessor.tokenize_with_offsets(_column(text))]

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict() -> dict[str, tf.Tensor]:
        special = preprocessor.vocabulary.special_tokens
        ids = {theirs: special[ours] for theirs, ours in _SPECIAL.items() if ours in special}
        return {name: tf.constant(id) for name, id in {"vocab_size": len(preprocessor.vocabulary), **ids}.items()}

    # === bert_pack_inputs ===

    @tf.function(autograph=False)
    def bert_pack_inputs(inputs: list[tf.RaggedTensor], seq_length: Any = seq_length) -> dict[str, tf.Tensor]:
        # These rows come from users, so they are checked, which `without_words` does not do.
        rows = [segment.merge_dims(1, 2) if segment.ragged_rank == 2 else segment for segment in inputs]
        batch = tf.shape(rows[0].row_splits)[0] - 1
        packed = preprocessor.packer.pack(rows, seq_length)
        return {name: tf.reshape(x, [batch, seq_length]) for name, x in packed.items()}

    length = tf.TensorSpec([], tf.int32, "seq_length")  # without a name, saving would trace each graph again
    for rank in (1, 2):
        for segments in (1, 2):
            spec = tf.RaggedTensorSpec([None] * (rank + 1), tf.int32, rank)
            bert_pack_inputs.get_concrete_function([spec] * segments, seq_length=length)

    # === Text to inputs ===

    packed = shared_graph(partial(_packed, reader, tokenize))

    # Callers of TF-Hub's API may give `training`; it makes no difference here.
    @tf.function(autograph=False)
    def call(text: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        return packed(text)

    for mode in (False, True):
        call.get_concrete_function(texts, training=mode)

    signatures = preprocess_signatures(reader, tokenize)
    special = trackable(get_special_tokens_dict)
    root = trackable(call)
    root.variables, root.trainable_variables, root.regularization_losses = [], [], []
    root.tokenize = trackable(tokenize)
    root.tokenize_with_offsets = trackable(tokenize_with_offsets)
    root.tokenize.get_special_tokens_dict = special
    root.tokenize_with_offsets.get_special_tokens_dict = special
    root.bert_pack_inputs = trackable(bert_pack_inputs)
    return root, saved_functions(signatures)


def preprocess_signatures(reader: TextReader, tokenize: Callable[[Any], Any]) -> dict[str, Signature]:
    """The signatures of the part. tokenize: that of the reader's preprocessor, or a graph of it."""
    packed = partial(_packed, reader, tokenize)
    # Of any rank, as in Model Garden's export: a single text, not in a list, is a row too.
    any_rank = {"text": tf.TensorSpec(None, tf.string, "text")}
    return {
        "serving_default": Signature(lambda text: packed(tf.reshape(text, [-1])), any_rank),
        "pair": Signature(lambda text, text_pair: packed(text, text_pair), strings("text", "text_pair")),
        **pieces_signatures(reader),
    }


def _packed(reader: TextReader, tokenize: Callable[[Any], Any], *columns: "tf.Tensor") -> dict[str, "tf.Tensor"]:
    """The encoder's inputs for columns of texts."""
    segments = [without_words(tokenize(column)) for column in columns]
    found = reader.preprocessor.packer.pack(segments, reader.seq_length)
    return {name: tf.reshape(x, [tf.size(columns[0]), reader.seq_length]) for name, x in found.items()}


def _column(texts: "tf.Tensor") -> "tf.Tensor":
    """The texts as a vector, also for one text that is not in a list: TensorFlow's tutorials call served models so.

    The graph declares its input as a vector, so TensorFlow would leave out a plain reshape to one.
    """
    return tf.reshape(texts, [-1, 1])[:, 0]


def _with_batch(ragged: "tf.RaggedTensor", texts: "tf.Tensor") -> "tf.RaggedTensor":
    """The same rows; shape inference also knows that there are as many as texts."""
    splits = tf.concat([tf.zeros([1], tf.int64), tf.reshape(ragged.row_splits[1:], [tf.size(texts)])], 0)  # [B + 1]
    return tf.RaggedTensor.from_row_splits(ragged.values, splits, validate=False)
