"""TensorFlow's stateless random numbers in numpy, so that an order that depends on a seed is the same without it.

Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
"""

from typing import Any

import numpy as np

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85
_SCRAMBLER = 0x3EC8F720, 0x02461E29  # the key with which TensorFlow scrambles a seed
_MASK = 0xFFFFFFFF


def random_bits(seed: Any, count: int) -> np.ndarray:
    """uint32 [count], as `tf.random.stateless_uniform` draws them on a CPU for a seed of two integers.

    >>> random_bits([1, 2], 2).dtype
    dtype('uint32')
    """
    words = [int(part) & (_MASK << 32 | _MASK) for part in seed]
    counter = [word >> shift & _MASK for word in words for shift in (0, 32)]
    mixed = _philox(np.array([counter], "uint64"), _SCRAMBLER)[0]
    blocks = -(-count // 4)
    counters = np.empty((blocks, 4), "uint64")
    counters[:, 0] = np.arange(blocks)
    counters[:, 1] = 0
    counters[:, 2:] = mixed[2:]
    return _philox(counters, (int(mixed[0]), int(mixed[1]))).reshape(-1)[:count].astype("uint32")


def _philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Ten rounds over counters [n, 4] of 32 bits each."""
    a, b, c, d = counters.T
    low, high = key
    for _ in range(10):
        first, second = a * np.uint64(_MULTIPLIERS[0]), c * np.uint64(_MULTIPLIERS[1])
        mask, shift = np.uint64(_MASK), np.uint64(32)
        a, b, c, d = (
            (second >> shift) ^ b ^ np.uint64(low),
            second & mask,
            (first >> shift) ^ d ^ np.uint64(high),
            first & mask,
        )
        low, high = (low + _STEPS[0]) & _MASK, (high + _STEPS[1]) & _MASK
    return np.stack([a, b, c, d], axis=1)
