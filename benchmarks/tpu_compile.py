"""Compile a training step with the real TPU compiler, on a machine without a TPU.

    python benchmarks/tpu_compile.py                      an encoder step of base, 8 x 128, in mixed_bfloat16
    python benchmarks/tpu_compile.py --size large --batch 32 --remat
    python benchmarks/tpu_compile.py --pretraining        the pretraining steps of base in its recipes
    python benchmarks/tpu_compile.py --pretraining --batch 64 --length 512 --accumulate 4

TensorFlow traces the step with the static shapes that a TPU needs, libtpu compiles its HLO for a v5e, and this prints
the memory and FLOPs that the compiler reports. An op that TPUs lack, or a dynamic shape, is an error. Nothing runs on a
TPU. `tpu_scaling.py` has the steps of JAX, many chips, and the least time. Needs: pip install 'jax[tpu]==0.10.2'.
"""

import argparse
import contextlib
import dataclasses
import os
from types import SimpleNamespace
from typing import Any
from unittest import mock

from collectives import bytes_by_kind
from memory_traffic import memory_traffic

ENVIRONMENT = {  # the machine that libtpu compiles for, so that it does not look for one
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # without a chip, no lock is needed: two processes may compile at a time
    "JAX_PLATFORMS": "cpu",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "KERAS_BACKEND": "tensorflow",
}
V5E_MEMORY = 16 * 2**30  # bytes per chip
TOPOLOGIES = {1: "2x2", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}  # by chips


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the compiler reports about one step on one chip. It counts a loop's body once."""

    arguments: int  # bytes: weights, optimizer state, inputs
    temporary: int  # bytes: activations and gradients
    flops: float
    traffic: int  # bytes that are read from the chip's memory and written to it
    sent: dict[str, int]  # bytes that chips sum or gather, by the kind of operation

    @classmethod
    def of(cls, executable: Any) -> "Compiled":
        memory, program = executable.get_compiled_memory_stats(), executable.hlo_modules()[0].to_string()
        return cls(
            arguments=memory.argument_size_in_bytes,
            temporary=memory.temp_size_in_bytes,
            flops=executable.cost_analysis()["flops"],
            traffic=memory_traffic(program),
            sent=bytes_by_kind(program),
        )

    @property
    def memory(self) -> int:
        return self.arguments + self.temporary


def training_step(config, *, batch: int, length: int, dtype: str, remat: bool):
    """A function from weights, moments and inputs to the new weights and moments, as a TPU would run it in a loop."""
    import keras
    import tensorflow as tf

    from keras_bert import kernels
    from keras_bert.bert import Bert

    bert = Bert(config, dtype=dtype, remat=remat)
    model = keras.Model(bert.input, keras.layers.Dense(2, dtype="float32")(bert.output["pooled_output"]))
    optimizer = keras.optimizers.AdamW(3e-5)
    optimizer.build(model.trainable_variables)
    inputs = {name: tf.zeros([batch, length], tf.int32) for name in bert.input}
    labels = tf.zeros([batch], tf.int32)

    @tf.function(jit_compile=True)
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    with kernels.static_shapes():
        return step.experimental_get_compiler_ir(inputs, labels)(stage="hlo_serialized")


def pretraining_step(config, recipe=None, *, batch: int, length: int, chips: int = 1, **options: Any):
    """What `pretrain` runs on each chip, with the sums over `chips`: `batch` examples in the recipe's parts.

    options: of the recipe, by default the paper's.
    """
    import tensorflow as tf

    from keras_bert import kernels
    from keras_bert.bert import Bert
    from keras_bert.compat import summed_gradients
    from keras_bert.pretraining.examples.masking import Masking
    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.pretraining.run.pretrain_recipe import PAPER
    from keras_bert.training.orbit_engine import Trainer

    recipe = dataclasses.replace(recipe or PAPER, **options)
    model = Pretrainer(Bert(config, dtype=recipe.dtype, remat=recipe.remat))
    optimizer = recipe.build_optimizer()
    optimizer.build(model.trainable_variables)
    settings = {"accumulate": recipe.accumulate, "clip_norm": recipe.clip_norm}
    trainer = Trainer(model, optimizer, None, None, strategy=tf.distribute.get_strategy(), **settings)
    predictions = Masking().predictions(length)
    x = {name: tf.zeros([batch, length], tf.int32) for name in model.bert.input}
    x["masked_lm_positions"] = tf.zeros([batch, predictions], tf.int32)
    y = {"mlm_logits": tf.zeros([batch, predictions], tf.int32), "nsp_logits": tf.zeros([batch], tf.int32)}
    weight = {name: tf.ones(ids.shape) for name, ids in y.items()}
    step = tf.function(lambda *batch: trainer.replica_step(batch), jit_compile=True)
    with kernels.static_shapes(), summed_gradients(optimizer), _chips_that_sum(chips):
        return step.experimental_get_compiler_ir(x, y, weight)(stage="hlo_serialized")


def _chips_that_sum(chips: int) -> Any:
    """A block in which the step of each replica sums by the op that a TPUStrategy of so many chips would use."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_all_reduce

    def all_reduce(_: str, values: Any) -> Any:
        chosen = {"group_assignment": [[*range(chips)]], "reduce_op": "Add", "mode": "CrossReplica"}
        return tf.nest.map_structure(lambda x: xla_all_reduce(x, **chosen), values)

    context = SimpleNamespace(all_reduce=all_reduce, replica_id_in_sync_group=0)  # the seeds of one chip, for all
    if chips == 1:
        return contextlib.nullcontext()
    return mock.patch.object(tf.distribute, "get_replica_context", return_value=context)


def compile_for_tpu(hlo: bytes, chips: int = 1) -> Compiled:
    """Compile a serialized HLO module for v5e chips that all run it."""
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jaxlib import xla_client

    context = mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    with context:
        module = ir.Module.parse(xla_client._xla.mlir.hlo_to_stablehlo(hlo))
        text = module.operation.get_asm(print_generic_op_form=True)
        # The only op that TensorFlow leaves outside StableHLO. A barrier keeps the values, as a copy would.
        module = ir.Module.parse(text.replace('"mhlo.copy"', '"stablehlo.optimization_barrier"'))
    devices = v5e(chips)
    options = xla_client.CompileOptions()
    if chips > 1:
        options.num_replicas = chips
        options.device_assignment = xla_client.DeviceAssignment.create(np.arange(chips)[:, None])  # [replicas, 1]
    return Compiled.of(devices[0].client.compile(module, xla_client.DeviceList(tuple(devices)), options))


def v5e(chips: int) -> list[Any]:
    """So many chips of the smallest slice that has them, which need not exist."""
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=f"v5e:{TOPOLOGIES[chips]}").devices[:chips]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base")
    parser.add_argument("--batch", type=int, default=8, help="examples per chip")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--dtype", default="mixed_bfloat16")
    parser.add_argument("--remat", action="store_true")
    parser.add_argument("--pretraining", action="store_true")
    parser.add_argument(
        "--accumulate",
        type=int,
        default=1,
        help="number of parts that each chip's batch is split into, with --pretraining",
    )
    options = parser.parse_args()
    if options.pretraining and options.batch == parser.get_default("batch"):
        for batch, accumulate in ((32, 1), (256, 8)):  # base-v5e-8, base-v5e-1
            for length in (128, 512):
                show(
                    argparse.Namespace(**{**vars(options), "batch": batch, "length": length, "accumulate": accumulate})
                )
    else:
        show(options)


def show(options: argparse.Namespace) -> None:
    from keras_bert.config import BertConfig

    config = BertConfig.from_size(options.size)
    shape = {"batch": options.batch, "length": options.length, "dtype": options.dtype, "remat": options.remat}
    if options.pretraining:
        hlo = pretraining_step(config, accumulate=options.accumulate, **shape)
    else:
        hlo = training_step(config, **shape)
    compiled = compile_for_tpu(hlo)
    gib = 2**30
    print(
        f"{options.size} {options.dtype} {options.batch} x {options.length}"
        f"{' pretraining' if options.pretraining else ''}"
        f"{f' in {options.accumulate} parts' if options.accumulate > 1 else ''}"
        f"{' remat' if options.remat else ''} on one v5e:\n"
        f"  weights, moments, inputs {compiled.arguments / gib:6.2f} GiB\n"
        f"  activations, gradients   {compiled.temporary / gib:6.2f} GiB\n"
        f"  of the chip's {V5E_MEMORY / gib:.0f} GiB      {compiled.memory / V5E_MEMORY:6.0%}\n"
        f"  a step                   {compiled.flops / 1e12:6.2f} TFLOP"
    )


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    main()
