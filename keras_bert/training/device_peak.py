"""device_peak: how fast the devices can multiply, by their data sheets."""

import os
import re
from typing import Any

import keras

from keras_bert.lazy import tf
from keras_bert.training.strategy import replicas

# Dense bfloat16 FLOP/s of a device (float16 before Ampere), by a part of its name; longer names come first.
PEAKS = {
    "v6e": 918e12,
    "TPU v6 lite": 918e12,  # JAX's names of TPUs; it counts whole chips from v4 on
    "TPU v5 lite": 197e12,
    "TPU v5": 459e12,
    "TPU v4": 275e12,
    "v5p": 459e12,
    "v5litepod": 197e12,
    "v4": 275e12 / 2,  # a core: TensorFlow counts two a chip up to v4
    "v3": 123e12 / 2,
    "v2": 46e12 / 2,
    "GH200": 989e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "A10G": 70e12,
    "A10": 125e12,
    "L40S": 362e12,
    "L4": 121e12,
    "V100S": 130e12,
    "V100": 125e12,
    "T4": 65e12,
}


def device_peak(strategy: Any) -> float | None:
    """FLOP/s of all replicas together; None if the device is not known, such as a CPU."""
    if keras.backend.backend() == "jax":
        name = strategy.device_mesh.backend_mesh.devices[0].device_kind
    elif isinstance(strategy, tf.distribute.TPUStrategy):
        name = os.environ.get("TPU_ACCELERATOR_TYPE", "")  # such as v5litepod-8
    else:
        gpus = tf.config.list_physical_devices("GPU")
        name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "") if gpus else ""
    peak = peak_of(name)
    return peak and peak * replicas(strategy)


def peak_of(name: str) -> float | None:
    """FLOP/s of one device with this name, as TensorFlow or a TPU VM reports it.

    >>> peak_of("NVIDIA L4"), peak_of("NVIDIA L40")
    (121000000000000.0, None)
    """
    return next((peak for words, peak in PEAKS.items() if re.search(rf"\b{words}\b", name)), None)
