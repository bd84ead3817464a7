"""The JSON of TF Serving's Predict: rows (`instances`) or columns (`inputs`) in, `predictions` or `outputs` out."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_bert.inputs import INPUTS
from keras_bert.jsonl import TwiceError, each_name_once
from keras_bert.wording import first_line

MAX_BODY = 2 << 20  # bytes of a request
MAX_ROWS = 256  # of a request


class BadRequest(ValueError):
    """A mistake of the client; the message is the answer."""


class ModelRequest(NamedTuple):
    """A request whose columns are arrays, and the texts of each row."""

    signature: str
    columns: dict[str, np.ndarray]
    by_rows: bool
    texts: list[list[bytes]]


def read_request(body: bytes, signatures: Mapping[str, Any]) -> ModelRequest:
    """The request in a body, for a model with these signatures."""
    data = parse(body, {"instances", "inputs", "signature_name"})
    if ("instances" in data) == ("inputs" in data):
        raise BadRequest("The body must have either `instances` or `inputs`. Send exactly one of them.")
    name = chosen(data, signatures)
    specs = signatures[name].structured_input_signature[1]
    by_rows = "instances" in data
    columns = _columns_of_rows(data["instances"], specs) if by_rows else data["inputs"]
    if not isinstance(columns, dict) and len(specs) == 1:
        columns = {next(iter(specs)): columns}
    if not isinstance(columns, dict) or set(columns) != set(specs):
        received = sorted(columns) if isinstance(columns, dict) else type(columns).__name__
        raise BadRequest(f"The signature {name!r} takes the inputs {sorted(specs)}. Received: {received}")
    if single := sorted(key for key, spec in specs.items() if spec.shape.rank == 0):
        raise BadRequest(
            f"The signature {name!r} has the input {single[0]!r}, which is one value for all rows, but this server "
            "passes one value for each row. Use another signature, or TF Serving. Received: an input of shape []"
        )
    arrays = {key: _array(key, values, specs[key]) for key, values in columns.items()}
    sizes = {len(array) for array in arrays.values()}
    if len(sizes) > 1:
        raise BadRequest(f"All columns must have the same number of rows. Received: {sorted(sizes)} rows")
    shapes = {array.shape for key, array in arrays.items() if key in INPUTS}
    if len(shapes) > 1:
        raise BadRequest(
            f"{', '.join(INPUTS)} must have the same shape. Pad them. Received: {sorted(map(list, shapes))}"
        )
    if any(0 in shape[1:] for shape in shapes):
        raise BadRequest(
            f"Each row of {', '.join(INPUTS)} must have at least one id, that of [CLS]. Received: a row without ids"
        )
    check_rows(min(sizes))
    texts = [array.reshape(len(array), -1).tolist() for array in arrays.values() if array.dtype == object]
    rows = [[text for column in row for text in column] for row in zip(*texts, strict=True)]
    return ModelRequest(name, arrays, by_rows, rows)


def parse(body: bytes, keys: set[str]) -> dict[str, Any]:
    """The object in a body, which may have these keys only."""
    try:
        data = json.loads(body, object_pairs_hook=each_name_once)
    except RecursionError:
        raise BadRequest(f"The body must be JSON that is not nested so deeply. Received: {len(body)} bytes") from None
    except TwiceError as error:
        received = repr(error.args[0][:40])
        raise BadRequest(f"An object in the body has a name twice. Give each name once. Received: {received}") from None
    except ValueError as error:  # broken JSON or UTF-8, or a number of thousands of digits
        said = first_line(error).split("; use")[0]
        advice = r" Write a line break in a string as \n, and a tab as \t." if "control character" in said else ""
        raise BadRequest(f"The body must be JSON in UTF-8.{advice} Received: {said}") from None
    if not isinstance(data, dict):
        raise BadRequest(f"The body must be an object, {{...}}. Received: {type(data).__name__}")
    if unknown := set(data) - keys:
        raise BadRequest(f"The body may have only the keys {sorted(keys)}. Received: {sorted(unknown)}")
    return data


def chosen(data: dict[str, Any], signatures: Mapping[str, Any]) -> str:
    """The name of the signature that a request names, or of the default one."""
    name = data.get("signature_name", "serving_default")
    if not isinstance(name, str) or name not in signatures:
        given = repr(name) if "signature_name" in data else f"no signature_name, which means {name!r}"
        raise BadRequest(f"`signature_name` must be one of {sorted(signatures)}. Received: {given}")
    return name


def check_rows(rows: int) -> None:
    """Refuse a request without rows, as TF Serving does, and one with too many."""
    if not rows:
        raise BadRequest("A request must have at least one row. Received: an empty list")
    if rows > MAX_ROWS:
        raise BadRequest(f"A request may have at most {MAX_ROWS} rows. Split it. Received: {rows} rows")


def write_answer(request: ModelRequest, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The body of an answer; a single output is not named, as in TF Serving."""
    columns = {name: plain(values) for name, values in outputs.items()}
    if not request.by_rows:
        return {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}


def _columns_of_rows(rows: Any, specs: Mapping[str, Any]) -> dict[str, list[Any]]:
    if not isinstance(rows, list):
        raise BadRequest(f"`instances` must be a list of rows. Received: {type(rows).__name__}")
    check_rows(len(rows))
    only = next(iter(specs)) if len(specs) == 1 else None
    columns: dict[str, list[Any]] = {name: [] for name in specs}
    for number, row in enumerate(rows):
        if only is not None and not (isinstance(row, dict) and set(row) != {"b64"}):
            row = {only: row}
        if not isinstance(row, dict) or set(row) != set(specs):
            received = sorted(row) if isinstance(row, dict) else type(row).__name__
            raise BadRequest(
                f"Every row must have exactly the columns {sorted(specs)}. Received: {received} in row {number}"
            )
        for name, value in row.items():
            columns[name].append(value)
    return columns


def _array(name: str, values: Any, spec: Any) -> np.ndarray:
    dtype = np.dtype(spec.dtype.as_numpy_dtype)
    read = text_of if dtype.kind == "O" else _real(dtype) if dtype.kind == "f" else _number(dtype)
    flat: list[Any] = []
    wanted = (None,) if spec.shape.rank is None else tuple(spec.shape)
    try:
        shape = _collect(name, values, read, flat, len(wanted))
    except BadRequest as error:
        if len(wanted) > 1 or not isinstance(values, list):
            raise
        raise BadRequest(f"Row {len(flat)}: {error}") from None
    if any(a is not None and a != b for a, b in zip(wanted, shape, strict=True)):
        sizes = ", ".join("*" if size is None else str(size) for size in wanted)
        raise BadRequest(f"`{name}` must be of shape [{sizes}], where * is any size. Received: shape {list(shape)}")
    return np.array(flat, dtype).reshape(shape)


def _collect(name: str, value: Any, read: Callable[..., Any], flat: list[Any], rank: int) -> tuple[int, ...]:
    """Append the values of a nested list to `flat`, as `read` makes them, and return its shape.

    Lists of uneven length are refused.
    """
    if rank == 0:
        flat.append(read(name, value))
        return ()
    if not isinstance(value, list):
        raise BadRequest(
            f"`{name}` has a {type(value).__name__} where a list{' of lists' * (rank - 1)} is needed. "
            f"Put it in brackets. Received: {type(value).__name__}"
        )
    shapes = {_collect(name, one, read, flat, rank - 1) for one in value}
    if len(shapes) > 1:
        raise BadRequest(
            f"The rows of `{name}` must have the same length. Pad them. Received: rows of the shapes {sorted(shapes)}"
        )
    return (len(value), *(shapes.pop() if shapes else (0,) * (rank - 1)))


def text_of(name: str, value: Any) -> bytes:
    """The bytes of a string, or of {"b64": ...}."""
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except ValueError as error:  # not only binascii.Error: the text may not even be ASCII
            raise BadRequest(f"`{name}` has a b64 value that is not valid base64. Received: {error}") from None
    if not isinstance(value, str):
        raise BadRequest(f"`{name}` must hold strings. Received: {shown(value)}")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(f"`{name}` has half of a surrogate pair, which is not a character. Repair the text.") from None


def _number(dtype: np.dtype) -> Callable[[str, Any], int]:
    limits = np.iinfo(dtype if dtype.kind in "iu" else np.int32)

    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not limits.min <= value <= limits.max:
            raise BadRequest(f"`{name}` must hold integers of {limits.bits} bits. Received: {shown(value)}")
        return value

    return read


def _real(dtype: np.dtype) -> Callable[[str, Any], float]:
    largest = float(np.finfo(dtype).max)

    def read(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= largest:  # nor NaN
            raise BadRequest(f"`{name}` must hold finite numbers. Received: {shown(value)}")
        return float(value)

    return read


def shown(value: Any) -> str:
    """A value as errors show it."""
    try:
        return f"{type(value).__name__} {str(value)[:40]}"
    except RecursionError:  # json can read a little deeper than Python can show
        return f"{type(value).__name__}, nested too deeply"


def plain(values: np.ndarray) -> Any:
    """The array as lists, which JSON can hold."""
    return _decoded(values.tolist()) if values.dtype == object else values.tolist()


def _decoded(x: Any) -> Any:
    return x.decode("utf-8", "replace") if isinstance(x, bytes) else [_decoded(one) for one in x]
