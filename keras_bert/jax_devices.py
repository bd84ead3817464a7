"""What each device of JAX computes by itself, of its rows of a batch, and how its results become those of all."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, PartitionSpec

AXIS = "batch"  # the axis of the mesh, as Keras names it
SAME, SPLIT, STACKED = PartitionSpec(), PartitionSpec(AXIS), PartitionSpec(None, AXIS)  # [B, ...], [steps, B, ...]


def on_each_device(step: Callable, mesh: Mesh, inputs: Any, outputs: Any = SAME) -> Callable:
    """A function of which each device computes its part. `inputs` and `outputs`: what is split among them."""
    # With check_vma, JAX would sum gradients by itself, before they are float32 again under a mixed policy.
    return jax.shard_map(step, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)


def part_of_process(mesh: Mesh) -> tuple[int, int]:
    """Which part of a batch this process has, from 0, and of how many. The mesh has the devices process by process."""
    processes = sorted({device.process_index for device in mesh.devices.flat})
    return processes.index(jax.process_index()), len(processes)


def with_own_seeds(variables: Any, sign: int = 1) -> list[Any]:
    """The seeds among these values made different on each device, as their draws must differ; -1: made equal again."""
    shift = jax.lax.axis_index(AXIS).astype("uint32") * np.uint32(0x9E3779B9 * sign % 2**32)
    return [x.at[0].add(shift) if _is_seed(x) else x for x in variables]


def _is_seed(x: Any) -> bool:
    """Whether this is the state of one of Keras's random generators."""
    return x.dtype == "uint32" and x.shape == (2,)


def _of_all(new: Any, old: Any) -> Any:
    """The mean over the devices of what the rows have changed, such as the averages of a BatchNormalization."""
    return new if new is old or not jnp.issubdtype(new.dtype, jnp.floating) else jax.lax.pmean(new, AXIS)


def called_on_each_device(call: Callable, weights: Any, others: Any, *inputs: Any, **options: Any) -> Any:
    """What a model's `stateless_call` returns, with its losses. Of several devices, each computes its rows of a batch.

    If the compiler splits the batch by itself, it sums gradients in the type of the products, such as bfloat16. Here,
    they are summed at the weights, in float32.
    """
    chosen = keras.distribution.distribution()
    if not isinstance(chosen, keras.distribution.DataParallel) or chosen.num_model_replicas == 1:
        return call(weights, others, *inputs, return_losses=True, **options)

    def rows(weights: Any, others: Any, *inputs: Any) -> tuple[Any, Any, Any]:
        before = with_own_seeds(others)
        outputs, after, losses = call(weights, before, *inputs, return_losses=True, **options)
        after = [_of_all(new, old) for new, old in zip(after, before, strict=True)]
        return outputs, with_own_seeds(after, -1), jax.lax.pmean(losses, AXIS)

    split = [SPLIT] * len(inputs)
    on_devices = on_each_device(rows, chosen.device_mesh.backend_mesh, (SAME, SAME, *split), (SPLIT, SAME, SAME))
    return on_devices(weights, others, *inputs)
