"""strategy: where a model trains, on one device or on many."""

import json
import logging
import os
from pathlib import Path
from typing import Any

logger = logging.getLogger("keras_bert")

NAMES = ("auto", "tpu", "tpu:NAME", "multi_worker", "mirrored", "one")


def strategy(name: str = "auto") -> Any:
    """A `tf.distribute.Strategy`; the log says which one and why. Build the model inside its `scope()`.

    name: "auto" takes the first of these that the machine has.
        "tpu": the TPU named by TPU_NAME, else the chips of this TPU VM. "tpu:NAME": a TPU by its name.
        "multi_worker": the processes that TF_CONFIG lists, this being one of them.
        "mirrored": all GPUs of this machine, or its logical CPUs where it has several.
        "one": one GPU or the CPU.

    >>> strategy("one").num_replicas_in_sync
    1
    """
    kind, _, tpu_name = name.partition(":")
    if kind not in ("auto", "tpu", "multi_worker", "mirrored", "one") or (tpu_name and kind != "tpu"):
        raise ValueError(f"strategy must be one of {', '.join(NAMES)}. Received: {name!r}")
    if kind == "tpu" or (kind == "auto" and _tpu()):
        return _tpu_strategy(tpu_name or _tpu())
    if kind == "multi_worker" or (kind == "auto" and len(_workers()) > 1):
        return _multi_worker_strategy()
    devices = _devices()
    if kind == "mirrored" or (kind == "auto" and len(devices) > 1):
        return _mirrored_strategy(devices)
    return _one_device(devices)


def _tpu() -> str | None:
    """TPU_NAME; "local" on a TPU VM, whose chips are files under /dev; None elsewhere."""
    if os.environ.get("TPU_NAME"):
        return os.environ["TPU_NAME"]
    chips = [*Path("/dev").glob("accel[0-9]*"), *Path("/dev/vfio").glob("[0-9]*")]
    on_tpu_vm = bool(chips) and ("TPU_ACCELERATOR_TYPE" in os.environ or Path("/dev/accel0").exists())
    return "local" if on_tpu_vm else None


def _tpu_strategy(name: str | None) -> Any:
    import tensorflow as tf

    if name is None:
        raise ValueError(
            "strategy 'tpu' needs a TPU. Run on a TPU VM, or give its name: TPU_NAME=... or 'tpu:NAME'. "
            "Received: no TPU on this machine and no TPU_NAME"
        )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"The TPU must answer. Check its name and that it is ready (gcloud compute tpus tpu-vm list); on the TPU "
            f"VM itself take 'local', with tensorflow-tpu. Received: {name!r} ({str(error).splitlines()[0]})"
        ) from error
    chosen = tf.distribute.TPUStrategy(resolver)
    logger.info("Running on TPU %r: %d cores.", name, chosen.num_replicas_in_sync)
    return chosen


def _workers() -> list[str]:
    """The addresses of the workers that TF_CONFIG lists."""
    if not os.environ.get("TF_CONFIG"):
        return []
    try:
        cluster = json.loads(os.environ["TF_CONFIG"]).get("cluster", {})
        return [*cluster.get("chief", []), *cluster.get("worker", [])]
    except (ValueError, AttributeError) as error:
        raise ValueError(
            'TF_CONFIG must be JSON such as {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
            f'"index": 0}}}}. Mend or unset it. Received: {os.environ["TF_CONFIG"]!r} ({error})'
        ) from None


def _multi_worker_strategy() -> Any:
    import tensorflow as tf

    workers = _workers()
    if not workers:
        raise ValueError(
            "strategy 'multi_worker' needs the list of workers. Set TF_CONFIG in each of them. "
            "Received: no TF_CONFIG, or one without workers"
        )
    try:
        chosen = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise RuntimeError(
            "keras_bert.strategy must come first in a program of several workers, before any model or tensor. "
            f"Received: {error}"
        ) from error
    resolver = chosen.cluster_resolver
    logger.info(
        "Running on %d workers by TF_CONFIG, this being %s %d: %d replicas.",
        len(workers),
        resolver.task_type,
        resolver.task_id,
        chosen.num_replicas_in_sync,
    )
    return chosen


def _devices() -> list[str]:
    """This machine's GPUs, else its CPUs."""
    import tensorflow as tf

    for kind in ("GPU", "CPU"):
        if devices := tf.config.list_logical_devices(kind):
            return [device.name for device in devices]
    raise RuntimeError("TensorFlow must see a device. Look at CUDA_VISIBLE_DEVICES. Received: none")


def _mirrored_strategy(devices: list[str]) -> Any:
    import tensorflow as tf

    logger.info("Running on the %d devices of this machine: %s.", len(devices), ", ".join(devices))
    return tf.distribute.MirroredStrategy(devices)


def _one_device(devices: list[str]) -> Any:
    import tensorflow as tf

    logger.info("Running on one device, %s.", devices[0])
    return tf.distribute.get_strategy()  # the default one, for which models need no scope
