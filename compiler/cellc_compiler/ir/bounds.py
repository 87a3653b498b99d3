"""Bounds of numbers and tensors in graphs, for every op alike.

Graphs also come from files. All numbers fit 64 bits, so that arithmetic on them is cheap, and a
tensor has no more bytes than a process can address. Ranges of attributes: `ir/attributes.py`.
"""

from __future__ import annotations

from .types import TensorType

LEAST, MOST = -(1 << 63), (1 << 64) - 1  # The integers that some element type can represent
MOST_BYTES = 1 << 47  # The most memory that a process can address on existing machines
MOST_PARTS = 1 << 16
"""Into how many parts, or how often, a function or layer does what it does one by one."""
MOST_AXES = 64  # The rank up to which numpy, and so the reference interpreter, has arrays


def check_size(what: str, ty: TensorType) -> None:
    """A tensor that a process could address. Symbolic sizes are known later.

    Raises:
        ValueError: it is larger, has too many axes, or a size is negative.
    """
    if len(ty.shape) > MOST_AXES:
        raise ValueError(f"{what} would have {len(ty.shape)} axes, which is more than {MOST_AXES}")
    nbytes = ty.dtype.itemsize
    for n in ty.shape:
        if type(n) is int:
            if n < 0:
                raise ValueError(f"{what} would have the negative size {n}")
            nbytes *= n or 1
            if nbytes > MOST_BYTES:
                raise ValueError(f"{what} would be a tensor {_shape(ty)}, which is more than "
                                 f"{MOST_BYTES >> 40} TiB")


def _shape(ty: TensorType) -> str:
    text = str(ty)
    return text if len(text) <= 100 else text[:97] + "..."
