"""The entities of a batch as a table with a row for each text, which is how an export returns them."""

from keras_bert.text.tensors import tf

CELLS = 2**16  # of any batch; a cell takes 60 bytes
COLUMNS = ("type", "text", "start", "end", "score")


def entity_table(found: dict[str, "tf.Tensor"], text: "tf.Tensor") -> dict[str, "tf.Tensor"]:
    """`COLUMNS`, each [B, E], of which the first `count` [B] are entities. E is that of the text with the most.

    One long text among many short ones would fill memory with padding. A batch that needs more than `CELLS` cells, and
    one for each byte of its texts, is refused in the graph.

    found: columns [entities of all texts], and `row`, the text of each. text: [B].
    """
    rows = tf.size(text)
    count = tf.math.bincount(found["row"], minlength=rows, dtype=tf.int32)  # [B]
    widest = tf.reduce_max(tf.concat([count, [0]], 0))
    cells = tf.cast(rows, tf.int64) * tf.cast(widest, tf.int64)
    most = CELLS + tf.reduce_sum(tf.cast(tf.strings.length(text), tf.int64))
    refusal = (
        "The answer to this batch would be too large: the number of its texts, multiplied by the most entities in one "
        f"text, must not exceed {CELLS} plus the bytes of all texts. Send long texts in requests of their own."
    )
    with tf.control_dependencies([tf.debugging.assert_less_equal(cells, most, refusal)]):
        row = tf.identity(found["row"])
    table = {
        name: tf.RaggedTensor.from_value_rowids(found[name], row, rows, validate=False).to_tensor() for name in COLUMNS
    }
    return {**table, "count": count}
