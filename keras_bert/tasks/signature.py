"""The signatures of a task's SavedModel: functions from strings to answers, in graph ops."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from keras_bert.text.ragged_rows import without_words
from keras_bert.text.tensors import tf, uses_tensorflow
from keras_bert.wording import first_line

if TYPE_CHECKING:
    from keras_bert.text.packing import Packer
    from keras_bert.text.preprocessor import Preprocessor

CLASSIFY_INPUTS, CLASSIFY_OUTPUTS = {"inputs"}, {"classes", "scores"}  # the names that TF Serving's Classify requires

Logits = Callable[[dict[str, Any]], Any]  # runs the exported model on packed rows


@dataclass(frozen=True)
class Signature:
    """A function from tensors to a dict of tensors, and the `tf.TensorSpec` of each of its arguments by name."""

    function: Callable[..., dict[str, Any]]
    inputs: dict[str, Any]


def strings(*names: str) -> dict[str, "tf.TensorSpec"]:
    """Inputs of a signature that are columns of strings."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def text_signatures(answer: Callable[..., dict[str, Any]], more: dict[str, Any] | None = None) -> dict[str, Signature]:
    """`serving_default` answers a column of texts, `pair` two columns; `more` are further inputs of both, by name."""
    one, two = ({**strings(*names), **(more or {})} for names in (("text",), ("text", "text_pair")))
    answer = shared_graph(answer)
    return {
        "serving_default": Signature(lambda text, **others: answer(text, **others), one),
        "pair": Signature(lambda text, text_pair, **others: answer(text, text_pair, **others), two),
    }


def shared_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function. All graphs that call it share one graph of it, which is traced once."""

    @cache
    def graph() -> Any:
        return tf.function(function, autograph=False)

    def call(*columns: Any, **others: Any) -> Any:
        called = graph() if uses_tensorflow() and tf.inside_function() else function
        return called(*columns, **others)

    return call


def pack_texts(
    preprocessor: "Preprocessor",
    columns: Sequence["tf.Tensor"],
    seq_length: int,
    *,
    rows: int = 1,
    packer: "Packer | None" = None,
) -> tuple[dict[str, "tf.Tensor"], "tf.Tensor"]:
    """Rows as long as the longest of the batch, at most `seq_length`, and whether an example was truncated, bool [B].

    rows: of each example. If there are several, the result has the shape [B, rows, S]. packer: in place of the
    preprocessor's.
    """
    packer = replace(packer or preprocessor.packer, max_length=seq_length)
    segments = [without_words(preprocessor.tokenize(column)) for column in columns]
    packed, of_segments = packer.pack_and_cut(segments, "longest")
    cut = tf.reduce_any(of_segments, axis=1)
    if rows == 1:
        return packed, cut
    packed = {name: tf.reshape(x, [-1, rows, tf.shape(x)[1]]) for name, x in packed.items()}
    return packed, tf.reduce_any(tf.reshape(cut, [-1, rows]), axis=1)


# === The answers of a user's task ===


def checked_answers(task: Any, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
    """What `answers_in_graph` returns, if an export can have it."""
    method = f"{type(task).__name__}.answers_in_graph"
    if not uses_tensorflow():  # a server computes in numpy what was exported before
        return task.answers_in_graph(logits, texts)
    try:
        answers = task.answers_in_graph(logits, texts)
        tensors = {name: _tensor(x) for name, x in answers.items()} if isinstance(answers, dict) else None
    except Exception as error:
        raise TypeError(
            f"{method} failed in the graph of the export. Write it in TensorFlow ops, such as tf.argmax, without "
            "functions of numpy, and without loops or conditions of Python over tensors. "
            f"Received: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not tensors:
        raise TypeError(
            f'{method} must return tensors by name. Return a dict, such as {{"score": tensor}}. '
            f"Received: {answers if isinstance(answers, dict) else type(answers).__name__}"
        )
    if "truncated" in tensors:
        raise ValueError(
            f"{method} returns an output 'truncated', but the export adds one of this name itself. Use another name. "
            f"Received: {', '.join(tensors)}"
        )
    rows = tf.convert_to_tensor(texts[0]).shape[0]  # None in a graph
    check_rows_of_answers(task, {name: x.shape for name, x in tensors.items()}, rows)
    return tensors


def _tensor(x: Any) -> Any:
    return x if isinstance(x, tf.RaggedTensor) else tf.convert_to_tensor(x)


def check_rows_of_answers(task: Any, shapes: dict[str, Any], rows: int | None) -> None:
    """Refuse outputs that are not of as many rows as there are texts."""
    for name, shape in shapes.items():
        if shape.rank is not None and (shape.rank == 0 or shape[0] != rows):
            raise ValueError(
                f"{type(task).__name__}.answers_in_graph must return an answer for each text, but the output {name!r} "
                f"has another number of rows. Return a tensor of shape [B, ...]. Received: shape {shape} for "
                f"{'B' if rows is None else rows} texts"
            )


# === TF Serving's Classify: serialized tf.train.Examples in, classes with scores out ===


def classify_signatures(text: Signature, pair: Signature | None) -> dict[str, Signature]:
    """`classify` reads the inputs of `text` as features of each tf.train.Example, `classify_pair` those of `pair`."""
    found = {"classify": _classify(text)}
    return found if pair is None else {**found, "classify_pair": _classify(pair)}


def _classify(signature: Signature) -> Signature:
    def classify(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {name: tf.io.FixedLenFeature([], spec.dtype) for name, spec in signature.inputs.items()}
        found = signature.function(**tf.io.parse_example(inputs, features))
        return {"classes": found["labels"], "scores": found["scores"]}  # each [B, C]

    return Signature(classify, strings("inputs"))


def is_classify(function: Any) -> bool:
    """Whether a traced or loaded signature is one for Classify."""
    positional, named = function.structured_input_signature
    outputs = function.structured_outputs
    names = {spec.name for spec in (*positional, *named.values())}
    return names == CLASSIFY_INPUTS and isinstance(outputs, dict) and set(outputs) == CLASSIFY_OUTPUTS
