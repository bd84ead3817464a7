"""The checksums of TFRecord files: CRC-32C, of many records at once."""

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, with its bits reversed
_MASK = 0xA282EAD8  # what TensorFlow adds, so that a checksum of data with checksums in it is of use


def _after_a_byte() -> np.ndarray:
    """What the register holds after each byte; uint32 [256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ _POLYNOMIAL, table >> 1).astype(np.uint32)
    return table


_TABLE = _after_a_byte()


def masked_crc32c(content: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The checksum of each of N pieces of the bytes, as TFRecord files store it; uint32 [N].

    All pieces advance by a byte at a time, the longest first, so that those that have ended are left out at the end.

    >>> hex(masked_crc32c(np.frombuffer(b"123456789", np.uint8), np.array([0]), np.array([9]))[0])
    '0xc78ab0e5'
    """
    order = np.argsort(-lengths, kind="stable")
    places = starts[order]
    register = np.full(len(order), 0xFFFFFFFF, np.uint32)
    unfinished = np.searchsorted(-lengths[order], -np.arange(lengths.max(initial=0)), "left")
    for place, count in enumerate(unfinished.tolist()):
        byte = content[places[:count] + place]
        register[:count] = _TABLE[(register[:count] ^ byte) & 0xFF] ^ (register[:count] >> 8)
    checksums = np.empty_like(register)
    checksums[order] = ~register
    return (checksums >> 15 | checksums << 17) + np.uint32(_MASK)
