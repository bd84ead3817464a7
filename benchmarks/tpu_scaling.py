"""What the TPU compiler says of whole training steps on 1 to 256 v5e chips, and the least time that a step can take.

    python benchmarks/tpu_scaling.py                              pretraining base at 128 and 512 on 1, 8 and 256 chips
    python benchmarks/tpu_scaling.py --size large --optimizer lamb --chips 256 --length 128 --rows 128 --accumulate 8
    python benchmarks/tpu_scaling.py --step finetuning            texts that share rows, on one chip
    python benchmarks/tpu_scaling.py --engine tensorflow --chips 8

The program is the one that trains: forward and backward pass with dropout, the parts of the batch, the sums over the
chips, clipping and the optimizer, on JAX in its loop of steps. libtpu compiles it on a machine without a TPU; a case
takes about a minute, of large several. Nothing runs on a TPU. Needs: pip install 'jax[tpu]==0.10.2'.

A step takes at least as long as its slowest part, by the figures that Google publishes for a v5e (Cloud TPU
documentation, "TPU v5e"): 197 TFLOP/s in bfloat16, 819 GB/s to the chip's memory, and 1,600 Gbit/s to other chips. A
real step is slower. "Most MFU" is the share of the peak that this leaves. "Sent" are the bytes of the arrays that chips
sum or gather, by kind. "Rows/s" are those of all chips together, at the least time.
"""

import argparse
import dataclasses
import itertools
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any
from unittest import mock

from tpu_compile import ENVIRONMENT, TOPOLOGIES, Compiled, compile_for_tpu, pretraining_step, v5e

PEAK, MEMORY, LINKS = 197e12, 819e9, 200e9  # of a chip: FLOP/s, bytes/s, bytes/s in each direction
ROWS = {128: 32, 512: 8}  # of a chip, where --rows does not say it
TEXTS = 4  # that share a row in fine-tuning
TRIPS = {"all-reduce": 2}  # how often each byte crosses a chip's links: to be summed, and back


@dataclasses.dataclass(frozen=True)
class Case:
    """A training step. `rows` are those of one chip, in `accumulate` parts."""

    engine: str = "jax"
    step: str = "pretraining"
    size: str = "base"
    optimizer: str = "adamw"
    chips: int = 1
    length: int = 128
    rows: int = 32
    accumulate: int = 1
    dropout: float = 0.1
    remat: bool = False

    def __str__(self) -> str:
        said = [self.engine, self.step, self.size, self.optimizer, *["remat"] * self.remat]
        said += [f"dropout {self.dropout:g}"] * (self.dropout != 0.1)
        parts = f" in {self.accumulate} parts" if self.accumulate > 1 else ""
        return f"{' '.join(said)}, {self.rows} x {self.length}{parts}"

    def config(self, **changes: Any) -> Any:
        """The model's, which may differ from the released one of its size."""
        from keras_bert.config import BertConfig

        rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), self.dropout)
        return BertConfig.from_size(self.size, **rates, **changes)

    @property
    def recipe(self) -> Any:
        from keras_bert.pretraining import Recipe

        return Recipe(optimizer=self.optimizer, accumulate=self.accumulate, remat=self.remat)


def least_seconds(found: Compiled, chips: int) -> dict[str, float]:
    """What a step takes at least, by what it keeps busy."""
    sent = sum(TRIPS.get(kind, 1) * size for kind, size in found.sent.items()) * (chips - 1) / chips
    return {"compute": found.flops / PEAK, "memory": found.traffic / MEMORY, "links": sent / LINKS}


# === The steps ===


def account(case: Case, **changes: Any) -> Compiled:
    """What the compiler reports about a step.

    changes: of the model's config.
    """
    config = case.config(**changes)
    if case.engine == "tensorflow":
        shape = {"batch": case.rows, "length": case.length, "chips": case.chips}
        return compile_for_tpu(pretraining_step(config, case.recipe, **shape), case.chips)

    import jax

    from keras_bert.bert import Bert
    from keras_bert.layers.dense import blank_weights

    with (
        mock.patch.object(jax, "default_backend", return_value="tpu"),  # so that the model is that of a TPU
        blank_weights(),
    ):
        bert = Bert(config, dtype=case.recipe.dtype, remat=case.remat)
        return (jax_pretraining if case.step == "pretraining" else jax_finetuning)(bert, case)


def jax_pretraining(bert: Any, case: Case) -> Compiled:
    """The loop of `jax_engine.Trainer`, with `case.rows` rows on each chip."""
    import jax
    import numpy as np
    from jax.sharding import Mesh

    from keras_bert.pretraining.examples.masking import Masking
    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.training.jax_engine import AXIS, SAME, STACKED, Trainer

    mesh = Mesh(np.array(v5e(case.chips)), (AXIS,))
    model, recipe = Pretrainer(bert), case.recipe
    optimizer = recipe.build_optimizer()
    optimizer.build(model.trainable_variables)
    strategy = SimpleNamespace(device_mesh=SimpleNamespace(backend_mesh=mesh))
    dataset = SimpleNamespace(as_numpy_iterator=lambda: iter(()))
    settings = {"accumulate": recipe.accumulate, "clip_norm": recipe.clip_norm}
    trainer = Trainer(model, optimizer, dataset, None, strategy=strategy, **settings)

    def batches(*shape: int, dtype: str = "int32") -> Any:
        return array((2, case.chips * case.rows, *shape), dtype, mesh, STACKED)  # of two steps

    state = tuple(like(variables, mesh) for variables in trainer.variables)
    predictions = Masking().predictions(case.length)
    x = {name: batches(case.length) for name in bert.input} | {"masked_lm_positions": batches(predictions)}
    y = {"mlm_logits": batches(predictions), "nsp_logits": batches()}
    weight = {"mlm_logits": batches(predictions, dtype="float32"), "nsp_logits": batches(dtype="float32")}
    found = compiled(trainer.compiled_loop, state, (x, y, weight), array((), "int32", mesh, SAME))
    if case.accumulate == 1:
        return found
    # The compiler counts one part. What it counts without the update, each other part costs too.
    weights, _, moments = state
    update = compiled(jax.jit(optimizer.stateless_apply, donate_argnums=(0, 2)), moments, weights, weights)
    others = case.accumulate - 1
    return dataclasses.replace(
        found,
        flops=found.flops + others * (found.flops - update.flops),
        traffic=found.traffic + others * (found.traffic - update.traffic),
    )


def jax_finetuning(bert: Any, case: Case) -> Compiled:
    """Keras's step, as `fit` runs it on one chip, of a classifier whose rows have several texts each."""
    import jax
    import numpy as np
    from jax.sharding import Mesh

    from keras_bert.tasks.finetune_recipe import FinetuneRecipe
    from keras_bert.tasks.text_classifier import TextClassifier
    from keras_bert.text.shared_rows import SHARED_ROWS

    mesh = Mesh(np.array(v5e(1)), ("batch",))
    model = TextClassifier(bert, labels=("0", "1"))
    model.compile(FinetuneRecipe().optimizer(steps=1000), model.default_loss())
    model.optimizer.build(model.trainable_variables)
    texts = TEXTS * case.rows
    x = {name: array((texts, case.length), "int32", mesh) for name in bert.input}
    batch = (
        {**x, SHARED_ROWS: array((case.rows, case.length), "int32", mesh)},
        *(array((texts,), dtype, mesh) for dtype in ("int32", "float32")),
    )
    variables = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
    state = tuple(like(some, mesh) for some in (*variables, model.metrics_variables))
    return compiled(jax.jit(model.train_step, donate_argnums=0), state, batch)


def compiled(function: Any, *arguments: Any) -> Compiled:
    return Compiled.of(function.lower(*arguments).compile().runtime_executable())


def array(shape: tuple[int, ...], dtype: Any, mesh: Any, spec: Any = None) -> Any:
    """The shape of an array and how it is spread over the chips, by default the same on all."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec or PartitionSpec()))


def like(variables: Any, mesh: Any) -> list[Any]:
    return [array(variable.shape, variable.value.dtype, mesh) for variable in variables]


# === The table ===


def cells(case: Case) -> list[str]:
    """The line of a case."""
    try:
        found = account(case)
    except Exception as error:
        used = re.search(r"Used ([\d.]+)G of ([\d.]+)G hbm", str(error))
        if used is None:
            raise
        return [str(case), str(case.chips), f"{used[1]} of {used[2]}", "too large"]
    least = least_seconds(found, case.chips)
    longest = max(least, key=lambda part: least[part])
    return [
        str(case),
        str(case.chips),
        f"{found.arguments / 2**30:.2f} + {found.temporary / 2**30:.2f}",
        f"{found.flops / 1e12:.3f}",
        f"{found.traffic / 1e9:.1f}",
        ", ".join(f"{kind} {size / 1e6:.2f}" for kind, size in found.sent.items()) or "0",
        *(f"{1e3 * seconds:.1f}" for seconds in least.values()),
        longest,
        f"{least['compute'] / least[longest]:.0%}",
        f"{case.chips * case.rows / least[longest]:,.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("jax", "tensorflow"), default="jax")
    parser.add_argument("--step", choices=("pretraining", "finetuning"), default="pretraining")
    parser.add_argument("--size", nargs="*", default=["base"])
    parser.add_argument("--optimizer", nargs="*", choices=("adamw", "lamb"), default=["adamw"])
    parser.add_argument("--chips", type=int, nargs="*", choices=tuple(TOPOLOGIES), default=[1, 8, 256])
    parser.add_argument("--length", type=int, nargs="*", default=list(ROWS))
    parser.add_argument("--rows", type=int, help="of a chip; by default 32 of 128, or 8 of 512")
    parser.add_argument("--accumulate", type=int, default=1, help="parts of a chip's rows that run one after another")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--remat", action="store_true", help="compute attention maps again in the backward pass")
    options = parser.parse_args()
    finetuning = options.step == "finetuning"
    if options.engine == "tensorflow" and (finetuning or options.accumulate > 1):
        parser.error("TensorFlow's steps are of pretraining, in one part. Leave out --step and --accumulate.")
    if finetuning and options.accumulate > 1:
        parser.error("The steps of fine-tuning are in one part. Leave out --accumulate.")
    if finetuning:  # on several chips, texts do not share rows
        options.optimizer, options.chips = ["adamw"], [1]
    same = {name: getattr(options, name) for name in ("engine", "step", "accumulate", "dropout", "remat")}
    cases = [
        Case(
            size=size, optimizer=optimizer, chips=chips, length=length, rows=options.rows or ROWS.get(length, 8), **same
        )
        for size, optimizer, length, chips in itertools.product(
            options.size, options.optimizer, options.length, options.chips
        )
    ]
    os.environ.update(ENVIRONMENT | {"KERAS_BACKEND": options.engine})
    show(cases)


def show(cases: list[Case]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="A training step in mixed_bfloat16, per v5e chip")
    table.add_column("step, rows of a chip")
    for column in (
        "chips",
        "GiB",
        "TFLOP",
        "GB",
        "sent, MB",
        "compute, ms",
        "memory",
        "links",
        "bound",
        "most MFU",
        "rows/s",
    ):
        table.add_column(column, justify="right")
    # Each case has a process of its own, since TensorFlow keeps the weights of a model that was traced.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        try:
            for number, case in enumerate(cases, 1):
                print(f"{number} of {len(cases)}: {case}, {case.chips} chips ...", end=" ", file=sys.stderr, flush=True)
                begin = time.perf_counter()
                table.add_row(*processes.submit(cells, case).result())
                print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)
        finally:  # what is there, if a case fails or is stopped
            Console(width=160).print(table)


if __name__ == "__main__":
    main()
