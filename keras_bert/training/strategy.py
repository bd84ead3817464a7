"""strategy: the devices a model trains on, and what they require."""

import contextlib
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

import keras

from keras_bert.choices import STRATEGIES
from keras_bert.installation import need_tensorflow
from keras_bert.lazy import tf
from keras_bert.progress import reported_if_slow
from keras_bert.training.processes import meet
from keras_bert.training.tf_config import addresses, check_workers
from keras_bert.training.workers import SECONDS_UNTIL_NAMED, starting_with_workers
from keras_bert.wording import first_line

logger = logging.getLogger("keras_bert")


def strategy(name: str = "auto") -> Any:
    """A `tf.distribute.Strategy`, on JAX a `keras.distribution.DataParallel`. Build the model inside its `scope()`.

    The log shows which devices were chosen, and why.

    name: "auto" is the first of these that the machine has; on JAX it is all devices.
        "tpu": the TPU named by TPU_NAME, or else the chips of this TPU VM. "tpu:NAME": a TPU by its name, not on JAX.
        "multi_worker": the processes that TF_CONFIG lists, of which this is one. On JAX, those that
            `jax.distributed.initialize` finds.
        "mirrored": all GPUs of this machine, or its logical CPUs if there are several.
        "one": one GPU or the CPU.

    >>> replicas(strategy("one"))
    1
    """
    kind, _, tpu_name = name.partition(":")
    if kind not in STRATEGIES or (tpu_name and kind != "tpu"):
        raise ValueError(f"`strategy` must be one of {', '.join(STRATEGIES)}. Received: {name!r}")
    if keras.backend.backend() == "jax":
        return _jax_strategy(name)
    if keras.backend.backend() != "tensorflow" and name != "one":
        raise ValueError(
            "Several devices need TensorFlow or JAX. Set KERAS_BACKEND to one of them, or train on one device. "
            f"Received: strategy {name!r}, backend {keras.backend.backend()!r}"
        )
    need_tensorflow("`keras_bert.strategy`")
    if kind == "tpu" or (kind == "auto" and _tpu()):
        return _tpu_strategy(tpu_name or _tpu())
    if kind == "multi_worker" or (kind == "auto" and len(addresses()) > 1):
        return _multi_worker_strategy()
    devices = _devices()
    if kind == "mirrored" or (kind == "auto" and len(devices) > 1):
        _check_one_kind(_kinds_of_gpus())
        logger.info("Running on the %d devices of this machine: %s.", len(devices), ", ".join(devices))
        return tf.distribute.MirroredStrategy(devices)
    logger.info("Running on one device, %s.", devices[0])
    return tf.distribute.get_strategy()  # the default strategy, which models can use without its scope


def replicas(strategy: Any) -> int:
    """The number of devices that share a batch."""
    return strategy.num_model_replicas if _is_of_jax(strategy) else strategy.num_replicas_in_sync


def is_chief(strategy: Any) -> bool:
    """Whether this process writes what all workers share: the chief, or the first worker if there is no chief."""
    if _is_of_jax(strategy):
        import jax

        return jax.process_index() == 0
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or not resolver.task_type:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return resolver.task_type == first and resolver.task_id == 0


def is_distributed(strategy: Any) -> bool:
    """Whether a strategy is of several devices or of a TPU, which need steps of their own."""
    if _is_of_jax(strategy):
        return replicas(strategy) > 1
    return replicas(strategy) > 1 or isinstance(strategy, tf.distribute.TPUStrategy)


def built_on_several(model: Any) -> bool:
    """Whether a Keras model was built under a strategy of TensorFlow that is distributed."""
    return keras.backend.backend() == "tensorflow" and is_distributed(model.distribute_strategy)


def scope_of(model: Any) -> contextlib.AbstractContextManager[Any]:
    """The scope of the strategy that a Keras model was built under; on one device, a block that changes nothing."""
    return model.distribute_strategy.scope() if built_on_several(model) else contextlib.nullcontext()


def check_backend() -> None:
    """Raise an error under a backend that cannot pretrain."""
    need_tensorflow("Pretraining", "tensorflow_text")
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        raise RuntimeError(
            "Pretraining and evaluating pretrained weights need the TensorFlow or the JAX backend. Start again with "
            "KERAS_BACKEND=tensorflow or KERAS_BACKEND=jax. Every backend can load the pretrained model. "
            f"Received: backend {backend!r}"
        )
    if backend == "jax":
        with contextlib.suppress(RuntimeError):  # it has started already
            tf.config.set_visible_devices([], "GPU")  # it only reads the examples, and would take all memory


def check_batch_size(batch_size: int, strategy: Any, accumulate: int = 1) -> None:
    """Raise an error for a global batch that cannot be split evenly."""
    devices = replicas(strategy)
    parts = devices * accumulate
    if batch_size < 1 or batch_size % parts:
        raise ValueError(
            f"`batch_size` must be a multiple of {parts}: {devices} replicas times "
            f"accumulate={accumulate}. Use {max(1, round(batch_size / parts)) * parts}. "
            f"Received: batch_size={batch_size}"
        )


def splits_fit_on_jax(rows: int, batch_size: int, variables: Any, *, fills: bool) -> bool:
    """Whether several devices of JAX split the batches of Keras's `fit`; an error if they cannot split them evenly.

    It is also an error that the task was built for them, but `fit` is called outside of their strategy's scope.

    rows: of an epoch. fills: whether the last batch can have fillers, of weight 0.
    """
    if keras.backend.backend() != "jax":
        return False
    chosen = keras.distribution.distribution()
    if chosen is None:
        devices = len(variables[0].value.devices()) if variables else 1
        if devices > 1:
            raise ValueError(
                f"The task was built for {devices} devices, but `fit` was called outside of the strategy's scope. Call "
                f"it inside `with strategy.scope():` too. Received: weights on {devices} devices"
            )
        return False
    if not is_distributed(chosen):
        return False
    check_batch_size(batch_size, chosen)
    last, devices = rows % batch_size, replicas(chosen)
    if last % devices and not fills:
        raise ValueError(
            f"The last batch has {last} rows, which {devices} devices cannot split evenly. Leave out "
            f"{last % devices} rows, or use another batch size. Received: {rows} rows, batch_size={batch_size}"
        )
    return True


def _is_of_jax(strategy: Any) -> bool:
    return isinstance(strategy, keras.distribution.DataParallel)


def _jax_strategy(name: str) -> Any:
    import jax

    if name == "multi_worker" and not jax.distributed.is_initialized():
        with reported_if_slow(_waiting_for_processes, SECONDS_UNTIL_NAMED):
            keras.distribution.initialize()
        meet()
    found = jax.local_devices() if name in ("one", "mirrored") else jax.devices()
    found = sorted(found, key=lambda device: (device.process_index, device.id))  # a process has rows in a row
    if name.startswith("tpu:"):
        raise ValueError(
            "A TPU cannot be named on the JAX backend. Use 'tpu', which is the chips of this TPU VM. Received: "
            f"strategy {name!r}"
        )
    if name == "tpu" and found[0].platform != "tpu":
        raise ValueError(
            "The strategy 'tpu' needs a TPU, but JAX found none on this machine. Run on a TPU VM, or use another "
            f"strategy. Received: {found[0].device_kind}"
        )
    found = found[:1] if name == "one" else found
    _check_one_kind([device.device_kind for device in found])
    devices = [f"{device.platform}:{device.id}" for device in found]
    logger.info("Running on %s: %s.", f"{len(devices)} devices" if devices[1:] else "one device", ", ".join(devices))
    return keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)


def _check_one_kind(kinds: list[str]) -> None:
    """Refuse devices of different kinds, of which the fast ones would wait for the slow ones in each step."""
    counts = Counter(kinds)
    if len(counts) > 1:
        raise ValueError(
            "The devices are of different kinds, but each gets an equal share of a batch. Choose devices of one kind, "
            "for example with CUDA_VISIBLE_DEVICES, or use the strategy 'one'. "
            f"Received: {', '.join(f'{count} {kind}' for kind, count in counts.items())}"
        )


def _waiting_for_processes(seconds: float) -> str:
    return (
        f"Waiting for the other processes, for {seconds:.0f} seconds. Start the same command for each of them. "
        f"Received: KERAS_DISTRIBUTION_JOB_ADDRESSES={os.environ.get('KERAS_DISTRIBUTION_JOB_ADDRESSES')!r}"
    )


def _tpu() -> str | None:
    """TPU_NAME, or "local" on a TPU VM, whose chips are files under /dev, or None."""
    if os.environ.get("TPU_NAME"):
        return os.environ["TPU_NAME"]
    chips = [*Path("/dev").glob("accel[0-9]*"), *Path("/dev/vfio").glob("[0-9]*")]
    on_tpu_vm = bool(chips) and ("TPU_ACCELERATOR_TYPE" in os.environ or Path("/dev/accel0").exists())
    return "local" if on_tpu_vm else None


def _tpu_strategy(name: str | None) -> Any:
    if name is None:
        raise ValueError(
            "The strategy 'tpu' needs a TPU, but this machine has none and TPU_NAME is not set. Run on a TPU VM, or "
            "name a TPU with TPU_NAME=... or 'tpu:NAME'. Received: strategy 'tpu'"
        )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"The TPU {name!r} does not respond. Check its name and whether it is ready (gcloud compute tpus tpu-vm "
            "list). If this machine is the TPU VM, install tensorflow-tpu and use the strategy 'tpu:local'. Received: "
            f"{first_line(error)}"
        ) from error
    chosen = tf.distribute.TPUStrategy(resolver)
    logger.info("Running on TPU %r: %d cores.", name, chosen.num_replicas_in_sync)
    return chosen


def _multi_worker_strategy() -> Any:
    check_workers()
    _check_one_kind(_kinds_of_gpus())
    try:
        with starting_with_workers():
            chosen = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise RuntimeError(
            "The strategy for several workers cannot be created after models or tensors. Call keras_bert.strategy "
            f"first. Received: {error}"
        ) from error
    resolver = chosen.cluster_resolver
    logger.info(
        "Running on the %d workers in TF_CONFIG, of which this is %s %d: %d replicas.",
        len(addresses()),
        resolver.task_type,
        resolver.task_id,
        chosen.num_replicas_in_sync,
    )
    return chosen


def _devices() -> list[str]:
    """The GPUs of this machine, or its CPUs if it has none."""
    for kind in ("GPU", "CPU"):
        if devices := tf.config.list_logical_devices(kind):
            return [device.name for device in devices]
    raise RuntimeError("TensorFlow found no device. Check CUDA_VISIBLE_DEVICES. Received: no GPU and no CPU")


def _kinds_of_gpus() -> list[str]:
    """The names of the GPUs that TensorFlow sees, such as NVIDIA L4."""
    gpus = tf.config.get_visible_devices("GPU")
    return [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
