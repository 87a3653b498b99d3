"""Mixed precision of whole networks: `auto_mixed_precision` and `custom_mixed_precision`.

Source: the same names in `mindspore.amp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from cellc_runtime.dtypes import DType, bfloat16, float16, float32

from .. import nn, ops
from ..calls.precision import AUTO_FLAG, as_type
from ..compiled.inline import inline
from ..core.declared import checks_arguments
from ..core.dispatch import active_tracer, computing_in
from ..core.invalidation import changed
from ..nn.cell import Cell
from ..nn.layer.base import Family
from ..ops.primitive import Primitive

LEVELS = ("O0", "O1", "O2", "O3", "auto")

_WHITE: tuple[type, ...] = (
    nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Conv1dTranspose, nn.Conv2dTranspose, nn.Conv3dTranspose,
    nn.Dense, nn.LSTMCell, nn.RNNCell, nn.GRUCell, ops.Conv2D, ops.Conv3D, ops.Conv2DTranspose,
    ops.Conv3DTranspose, ops.MatMul, ops.BatchMatMul, ops.PReLU, ops.ReLU, ops.Ger,
)
_BLACK: tuple[type, ...] = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm)


def get_white_list() -> list[type]:
    """The Cells and Primitives that level O1 runs in low precision: a copy."""
    return list(_WHITE)


def get_black_list() -> list[type]:
    """The Cells that level O2 leaves in full precision: a copy."""
    return list(_BLACK)


class _OutputTo(Family):
    """A Cell whose floating-point results are converted."""

    dtype: DType

    def __init__(self, backbone: Any) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        if isinstance(backbone, Cell) and backbone.training:
            self.set_train()

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the Cell, converted."""
        return as_type(self._backbone(*args, **kwargs), self.dtype)


class _OutputTo16(_OutputTo, dtype=float16):
    """Results in float16."""


class _OutputToBF16(_OutputTo, dtype=bfloat16):
    """Results in bfloat16."""


class _OutputTo32(_OutputTo, dtype=float32):
    """Results in float32."""


_LOW: dict[DType, type[_OutputTo]] = {float16: _OutputTo16, bfloat16: _OutputToBF16}


class _LowPrimitive:
    """A Primitive on operands in low precision, with results in float32."""

    def __init__(self, primitive: Any, dtype: DType) -> None:
        self.primitive, self.dtype = primitive, dtype

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return as_type(self.primitive(*as_type(args, self.dtype), **kwargs), float32)

    def __repr__(self) -> str:
        return repr(self.primitive)


def auto_mixed_precision(
    network: Any, amp_level: str = "O0", dtype: DType = float16
) -> Any:
    """A network with casts to low precision where a level says so.

    Args:
        network: a Cell, changed in place; for level "auto" also a function.
        amp_level:
            "O0": nothing changes.
            "O1": Cells and Primitives of `get_white_list` get low-precision inputs and
                parameters and give float32.
            "O2": all Cells but those of `get_black_list`; the network gives float32.
            "O3": all Cells; the network gives float32.
            "auto": ops convert their operands by their class (`cellc ops` lists them): products
                and convolutions to low precision; exponentials, logarithms, sums, norms, softmax
                and losses to float32; ops of several operands to the widest.
        dtype: float16 or bfloat16.

    Returns:
        The network, or a Cell around it.
    """
    _check_type(dtype)
    if amp_level not in LEVELS:
        raise ValueError(
            "The argument `amp_level` must be one of " + ", ".join(map(repr, LEVELS))
            + f", but got {amp_level!r}."
        )
    if not isinstance(network, Cell):
        if amp_level == "auto" and callable(network):
            return _automatic(network, dtype)
        raise TypeError("The argument `network` must be a Cell (for 'auto' also a function), but "
                        f"got {type(network)}.")
    if amp_level == "O1":
        return _with_white_list(network, _WHITE, dtype)
    if amp_level == "O2":
        return _with_black_list(network, _BLACK, dtype)
    if amp_level == "O3":
        return _OutputTo32(network.to_float(dtype))
    if amp_level == "auto":
        network.add_flags(**{AUTO_FLAG: dtype})
    return network


@checks_arguments
def custom_mixed_precision(
    network: Cell, *, white_list: Sequence[type] | None = None,
    black_list: Sequence[type] | None = None, dtype: DType = float16,
) -> Cell:
    """A network with casts to low precision by a list of one's own.

    Args:
        network: a Cell, changed in place.
        white_list: Cell and Primitive classes that run in low precision.
        black_list: instead of it, Cell classes that do not.
        dtype: float16 or bfloat16.

    Returns:
        The network, or a Cell around it.
    """
    if (white_list is None) == (black_list is None):
        raise ValueError("Exactly one of `white_list` and `black_list` must be given.")
    _check_type(dtype)
    if white_list is not None:
        return _with_white_list(network, _classes(white_list, (Cell, Primitive)), dtype)
    assert black_list is not None
    return _with_black_list(network, _classes(black_list, (Cell,)), dtype)


def _classes(given: Any, bases: tuple[type, ...]) -> tuple[type, ...]:
    names = " or ".join(b.__name__ for b in bases)
    if not isinstance(given, (list, tuple)) or not all(
        isinstance(c, type) and issubclass(c, bases) for c in given
    ):
        raise TypeError(f"The list must hold subclasses of {names}, but is {given}.")
    return tuple(given)


def _check_type(dtype: Any) -> None:
    if dtype not in (float16, bfloat16):
        raise ValueError("The argument `dtype` must be mstype.float16 or mstype.bfloat16, but got "
                         f"{dtype}.")


def _with_white_list(network: Cell, white: tuple[type, ...], dtype: DType) -> Cell:
    if isinstance(network, white):
        return _OutputTo32(network.to_float(dtype))
    for name, child in list(network.name_cells().items()):
        _replace(network, name, _with_white_list(child, white, dtype))
    for name, value in list(vars(network).items()):
        if isinstance(value, Primitive) and isinstance(value, white):
            setattr(network, name, _LowPrimitive(value, dtype))
    return network


def _with_black_list(network: Cell, black: tuple[type, ...], dtype: DType) -> Cell:
    """The whole network in low precision; those of the list, inside it, in float32."""
    network.to_float(dtype)
    _keep_full(network, black, dtype)
    if isinstance(network, black):
        network.to_float(float32)
    return _OutputTo32(network)


def _keep_full(network: Cell, black: tuple[type, ...], dtype: DType) -> None:
    for name, child in list(network.name_cells().items()):
        if isinstance(child, black):
            _replace(network, name, _LOW[dtype](child.to_float(float32)))
        else:
            _keep_full(child, black, dtype)


def _replace(network: Cell, name: str, child: Cell) -> None:
    cells = network._cells
    if cells.get(name) is not child:
        cells[name] = child  # parameters keep their names, so it is not inserted again
        if isinstance(network, nn.SequentialCell):
            network.cell_list = tuple(cells.values())
        changed(network, name)


def _automatic(function: Callable[..., Any], dtype: DType) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        tracer = active_tracer()
        with computing_in(None, dtype):
            if tracer is not None:
                return inline(tracer, function, args, kwargs)
            return function(*args, **kwargs)

    return run


__all__ = [
    "LEVELS", "auto_mixed_precision", "custom_mixed_precision", "get_black_list",
    "get_white_list",
]
