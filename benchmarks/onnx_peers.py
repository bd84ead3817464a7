"""ONNX Runtime as others use it: HuggingFace's model written by torch.onnx, and HuggingFace's tokenizer in front.

int8 is that of `quantize_dynamic(per_channel=True)`. As a script, this file is a server of a classifier on the web
framework that ours uses too: `python benchmarks/onnx_peers.py FOLDER FILE --port PORT`.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 128  # pieces
Ask = Callable[[list[str]], list[dict[str, Any]]]
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def session(file: str) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


# === Files that all contestants start from ===


@contextlib.contextmanager
def written(script: str, size: str) -> Iterator[str]:
    """A folder that `python SCRIPT write SIZE FOLDER` has written. What is missing for that ends this process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", script, "write", size, folder]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"The models for {size} could not be written: {done.stderr.strip().rpartition(chr(10))[2]}")
        yield folder


def write_classifier(size: str, folder: str) -> None:
    """A HuggingFace folder of a classifier with a random head, on MiniLM's weights or on random ones of base.

    It also has FOLDER/model.onnx and FOLDER/model.onnx.int8.
    """
    import transformers
    from finetuning_data import minilm

    transformers.set_seed(0)
    source, kind = minilm(), transformers.BertForSequenceClassification
    model = kind.from_pretrained(source) if size == "minilm" else kind(transformers.BertConfig())
    model.save_pretrained(folder)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(source) / name, folder)
    write_onnx(model.eval(), f"{folder}/model.onnx")


def write_onnx(model: Any, file: str) -> None:
    """Write FILE with the first output of HuggingFace's model, and FILE.int8, as most people do."""
    import onnx
    import torch
    from onnxruntime.quantization import quantize_dynamic

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types)[0]

    ids = torch.ones(2, 16, dtype=torch.long)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=512)}
    shapes, options = (axes, axes, axes), {"dynamo": True, "external_data": False, "verbose": False}
    torch.onnx.export(Positional(), (ids, ids, ids * 0), file, input_names=_INPUTS, dynamic_shapes=shapes, **options)
    graph = onnx.load(file)
    del graph.graph.value_info[:]  # the exporter leaves shapes of weights that it transposed, which are refused
    quantize_dynamic(graph, f"{file}.int8", per_channel=True)


# === Texts in, answers out ===


def classifier(folder: str, file: str) -> Ask:
    """The tokenizer of the package tokenizers itself, and one padded call."""
    import tokenizers

    tokenizer, run = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json"), session(file)
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding()  # to the longest text, where MiniLM's file says 128

    def classify(texts: list[str]) -> list[dict[str, Any]]:
        rows = tokenizer.encode_batch_fast(texts)
        columns = ([row.ids for row in rows], [row.attention_mask for row in rows], [row.type_ids for row in rows])
        return _answers(run.run(None, dict(zip(_INPUTS, map(_ids, columns), strict=True)))[0])

    return classify


def classifier_like_optimum(folder: str, file: str) -> Ask:
    """The tokenizer of transformers, as in optimum's models and pipelines."""
    import transformers

    tokenizer, run = transformers.AutoTokenizer.from_pretrained(folder), session(file)

    def classify(texts: list[str]) -> list[dict[str, Any]]:
        packed = tokenizer(texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="np")
        return _answers(run.run(None, {name: _ids(packed[name]) for name in _INPUTS})[0])

    return classify


def _ids(column: Any) -> np.ndarray:
    return np.asarray(column, "int64")


def _answers(logits: np.ndarray) -> list[dict[str, Any]]:
    """The label and the score of each row, by a softmax."""
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    return [{"label": f"LABEL_{row.argmax()}", "score": float(row.max()), "scores": row.tolist()} for row in scores]


# === Over REST ===


def main() -> None:
    """One request is one padded call, in a thread of the pool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("file")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    classify = classifier(options.folder, options.file)
    classify(["warm"])

    async def predict(request: Request) -> JSONResponse:
        rows = json.loads(await request.body())["instances"]
        return JSONResponse({"predictions": await run_in_threadpool(classify, rows)})

    application = Starlette(routes=[Route("/v1/models/base:predict", predict, methods=["POST"])])
    uvicorn.run(application, port=options.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
