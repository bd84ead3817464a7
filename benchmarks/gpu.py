"""One GPU: keras_bert on JAX beside HuggingFace on torch, whose model is compiled, both in bfloat16.

    python benchmarks/gpu.py                            pretraining, fine-tuning and vectors, base and large
    python benchmarks/gpu.py --only 'base, 64 x 512'    the cases whose name contains this, or one of several words
    python benchmarks/gpu.py --tiny                     to try the program on a CPU

Needs JAX and torch with CUDA, and transformers; TensorFlow is not needed. All cases get ready at the same time, in a
process for each package, and then run in turn.

Rows of pretraining are full, and both packages get a mask. The texts of fine-tuning and of vectors have uneven lengths:
30 tokens on average, 128 at most. In keras_bert they share rows, or with "padding" they do not. HuggingFace's are
sorted by length within 50 batches, as its Trainer can do, and padded to a multiple of 32.

"Of peak" is the work on real tokens, without what is computed twice, over the dense bfloat16 peak of the data sheet.
HuggingFace's head for masked words also computes the logits of all other words, which is not counted as work. The ratio
is that of the seconds, the median over the rounds.
"""

import argparse
import dataclasses
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

import gpu_peers
from gpu_peers import HUGGING_FACE, SIZES, VOCAB
from interleave import Contestant, race, ratio, serve
from rich.console import Console
from rich.table import Table

ENVIRONMENT = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "",  # JAX chooses
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # the GPU is shared by the processes
}


@dataclasses.dataclass(frozen=True)
class Case:
    """`rows` are those of a step, or its texts if their lengths are uneven."""

    kind: str  # "pretraining", "finetuning" or "embedding"
    size: str = "base"
    rows: int = 64
    length: int = 512
    dropout: float = 0.1
    steps: int = 8  # in a run

    def __str__(self) -> str:
        dropout = "" if self.kind == "embedding" else f", dropout {self.dropout:g}"
        return f"{self.kind}, {self.size}, {self.rows} x {self.length}{dropout}"

    @property
    def contestants(self) -> tuple[str, ...]:
        if self.kind == "pretraining":
            return "keras_bert", HUGGING_FACE
        return "keras_bert_shared", "keras_bert_padding", HUGGING_FACE

    @property
    def lengths(self) -> list[int]:
        """Of the rows or texts of a run."""
        if self.kind == "pretraining":
            return [self.length] * self.rows * self.steps
        return [len(ids) for ids in gpu_peers.texts(dataclasses.asdict(self))]

    @property
    def flops(self) -> float:
        """Of a run: each weight of a matrix multiplies and adds once forward and twice backward."""
        layers, hidden, _ = SIZES[self.size]
        blocks = sum(layers * length * (12 * hidden**2 + 2 * hidden * length) for length in self.lengths)
        if self.kind != "pretraining":
            return (6 if self.kind == "finetuning" else 2) * blocks
        masked = self.steps * self.rows * gpu_peers.predictions(self.length)
        return 6 * (blocks + masked * (hidden**2 + hidden * VOCAB))


CASES = (
    Case("pretraining", dropout=0.0),
    Case("pretraining"),
    Case("pretraining", rows=256, length=128, dropout=0.0),
    Case("pretraining", rows=256, length=128),
    Case("pretraining", "large", rows=32, dropout=0.0),
    Case("pretraining", "large", rows=128, length=128),
    Case("finetuning", rows=128, length=128, steps=32),
    Case("embedding", rows=256, length=128, dropout=0.0, steps=32),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORDS", help="cases whose name has one of them")
    parser.add_argument("--at-once", type=int, default=len(CASES), help="cases that are ready at the same time")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tiny", action="store_true", help="a tiny model and few rows")
    options = parser.parse_args()
    cases = [case for case in CASES if any(words in str(case) for words in options.only)]
    if not cases:
        parser.error("No case has this in its name. The cases:\n  " + "\n  ".join(map(str, CASES)))
    if options.tiny:
        cases = [dataclasses.replace(case, size="tiny", rows=8, steps=2) for case in cases]
    table = Table("", "package", "ms a step", "tokens/s", "of peak", "GiB", "ratio")
    try:
        for start in range(0, len(cases), options.at_once):
            for case, field in ready(cases[start : start + options.at_once]):
                race(field, options.rounds)
                for cells in lines(case, field):
                    print(*cells, file=sys.stderr, sep="  ", flush=True)
                    table.add_row(*cells)
                table.title = field[0].ready["device"] + versions()
    finally:  # what is there, if a case fails or is stopped
        Console(width=130).print(table)


def versions() -> str:
    return "".join(f", {name} {version(name)}" for name in ("jax", "keras", "torch", "transformers"))


def ready(cases: list[Case]) -> list[tuple[Case, list[Contestant]]]:
    """The processes of each case, when all have compiled."""

    def start(case: Case, name: str) -> Contestant:
        return Contestant(__file__, name, dataclasses.asdict(case), ENVIRONMENT)

    with ThreadPoolExecutor(64) as threads:
        begun = [(case, [threads.submit(start, case, name) for name in case.contestants]) for case in cases]
        found = [(case, [future.result() for future in futures]) for case, futures in begun]
    for case, field in found:
        for contestant in field:
            if "missing" in contestant.ready:
                print(f"{case}: {contestant.name} left out, {contestant.ready['missing']}", flush=True)
    return [(case, [one for one in field if "missing" not in one.ready]) for case, field in found]


def lines(case: Case, field: list[Contestant]) -> list[list[str]]:
    """The lines of a case, after its race. The ratio is how many times as fast as the last one the others are."""
    from keras_bert.training.device_peak import peak_of

    found = []
    for contestant in field:
        peak = peak_of(contestant.ready["device"])
        found.append(
            [
                str(case) if contestant is field[0] else "",
                contestant.name,
                f"{1e3 * contestant.median / case.steps:.1f}",
                f"{sum(case.lengths) / contestant.median:,.0f}",
                f"{case.flops / contestant.median / peak:.1%}" if peak else "-",
                f"{contestant.ready['gib']:.1f}",
                "" if contestant is field[-1] else f"{ratio(field[-1], contestant):.2f}",
            ]
        )
    for contestant in field:
        contestant.close()
    return found


def worker(name: str, case: dict[str, Any]) -> None:
    facts: dict[str, Any] = {}

    def prepare() -> Any:
        run = getattr(gpu_peers, name)(case)
        run()
        facts.update(device=gpu_peers.device_name(name), gib=gpu_peers.peak_gib(name))
        return run

    serve(prepare, facts=facts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], json.loads(sys.argv[3]))
    else:
        os.environ.setdefault("KERAS_BACKEND", "jax")
        main()
