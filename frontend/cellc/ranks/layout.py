"""How a tensor is to lie on the ranks: `Layout`, and strategies by numbers of parts.

Both become a `Placement`: the ranks as an array, and for each axis of the tensor the axes of that
array that cut it. Source: `mindspore.Layout`, `mindspore.ops.Primitive.shard`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any

from cellc_runtime.world import world

from ..core.declared import instance
from ..core.native import names_itself

Placement = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""The sizes of an array of ranks, and for each axis of a tensor the axes of it that cut it, major
first."""


@names_itself
class Layout:
    """Devices as an array with named axes; called with names, how a tensor is cut along them.

    Args:
        device_matrix: the sizes of the array of devices.
        alias_name: a name for each of its axes.
        rank_list: the numbers of the devices; default: from 0.

    Raises:
        ValueError: lengths that differ, or a name twice.
    """

    def __init__(
        self, device_matrix: tuple[int, ...], alias_name: tuple[str, ...],
        rank_list: Sequence[int] | None = None,
    ) -> None:
        for name, value in (("device_matrix", device_matrix), ("alias_name", alias_name)):
            if not isinstance(value, tuple):
                raise TypeError(f"{name} must be tuple type, but got:{type(value)}")
        if any(type(n) is not int or n < 1 for n in device_matrix):
            raise TypeError(f"device_matrix must hold positive ints, but got {device_matrix}")
        if any(not isinstance(a, str) or not a for a in alias_name):
            raise TypeError(f"alias_name must hold names, but got {alias_name}")
        if len(device_matrix) != len(alias_name):
            raise ValueError("device_matrix length should be equal to alias_name length")
        if len(set(alias_name)) != len(alias_name):
            raise ValueError(f"Each element of alias_name {alias_name} should be different")
        if "None" in alias_name:
            raise ValueError("alias_name must not hold 'None', which says that an axis is not cut")
        count = math.prod(device_matrix)
        ranks = list(range(count)) if rank_list is None else list(rank_list)
        if len(ranks) != count or len(set(ranks)) != count:
            raise ValueError(f"rank_list must hold {count} different numbers, but is {ranks}")
        self._matrix, self._names, self._ranks = device_matrix, alias_name, ranks
        self._map: tuple[Any, ...] | None = None

    def __call__(self, *tensor_map: str | tuple[str, ...]) -> Layout:
        """This layout for a tensor whose axes are cut along the named axes of the devices.

        Args:
            tensor_map: for each axis of the tensor a name, a tuple of names, or `"None"`.

        Raises:
            ValueError: a name that is not there, or one used twice.
        """
        used: list[str] = []

        def place(name: Any) -> int:
            if name == "None":
                return -1
            if name not in self._names:
                raise ValueError(f"The axis {name} is not found in {self._names}")
            if name in used:
                raise ValueError(f"The axis {name} is used twice in {tensor_map}")
            used.append(name)
            return len(self._names) - 1 - self._names.index(name)

        out = copy(self)
        out._map = tuple(
            tuple(place(n) for n in entry) if isinstance(entry, tuple) else place(entry)
            for entry in tensor_map
        )
        return out

    def placement(self, what: str, size: int) -> Placement:
        """Return its placement of a tensor.

        Args:
            size: how many ranks there are.

        Raises:
            ValueError: it was not called with a tensor's axes, or its devices are not the ranks.
        """
        entries = self.to_dict()["tensor_map"]
        # An axis of this name is none of devices: parts that each computes one after the other.
        axes = [a for a, name in enumerate(self._names) if name != "interleaved_parallel"]
        matrix = tuple(self._matrix[a] for a in axes)
        _check_count(what, matrix, size, exact=True)
        if self._ranks != sorted(self._ranks):
            raise ValueError(f"For '{what}', the ranks of a Layout must be in order, but got "
                             f"rank_list={self._ranks}.")
        last = len(self._matrix) - 1
        return matrix, tuple(
            tuple(axes.index(last - m) for m in (entry if isinstance(entry, tuple) else (entry,))
                  if m >= 0 and last - m in axes)
            for entry in entries)

    def to_dict(self) -> dict[str, Any]:
        """The layout as a dict.

        Raises:
            ValueError: it was not called with a tensor's axes yet.
        """
        if self._map is None:
            raise ValueError("The tensor_map of layout is None: call the layout with the names of "
                             "a tensor's axes first")
        return {"device_matrix": self._matrix, "tensor_map": self._map,
                "interleaved_parallel": "interleaved_parallel" in self._names,
                "alias_name": self._names, "rank_list": self._ranks}


def _check_count(what: str, matrix: Sequence[int], size: int, exact: bool = False) -> None:
    """The ranks must be as many as a layout has, or a multiple of a strategy's parts."""
    count = math.prod(matrix)
    if size % count or (exact and size != count):
        where = "run" if size == world().size else "work on each stage"
        raise ValueError(f"For '{what}', {tuple(matrix)} are {count} devices, but {size} ranks "
                         f"{where}: " + ("there must be as many." if exact else
                                         "the parts must divide them."))


def check_strategy(strategy: Any, name: str, what: str) -> None:
    """Whether something is a strategy: a tuple of tuples of ints, or of Layouts."""
    instance(tuple)(strategy, what, name)
    for entry in strategy:
        if not isinstance(entry, (tuple, Layout)):
            raise TypeError(f"For '{what}', the elements of '{name}' must be tuples of ints or "
                            f"Layouts, but got: {type(entry)}.")
        if isinstance(entry, tuple):
            for parts in entry:
                if isinstance(parts, bool) or not isinstance(parts, int):
                    raise TypeError(f"For '{what}', '{name}' must hold ints, but got {strategy}.")
                if parts < 1:
                    raise ValueError(f"For '{what}', '{name}' must hold numbers of parts of at "
                                     f"least 1, but got {strategy}.")
    if len({type(entry) for entry in strategy}) > 1:
        raise TypeError(f"For '{what}', '{name}' must hold tuples of ints or Layouts, not both.")


_PRODUCTS = ("MatMul", "BatchMatMul", "Dense")
_READS = ("Gather", "EmbeddingLookup", "SparseGatherV2")
_BY_CHANNEL = ("BatchNorm", "BiasAdd", "InstanceNorm", "PReLU")
"""Primitives with one number for each channel, axis 1 of the first operand."""
_BY_ROW = ("NLLLoss", "SparseSoftmaxCrossEntropyWithLogits", "UnsortedSegmentMax",
           "UnsortedSegmentMin", "UnsortedSegmentSum")
"""Primitives that read an element for each row of the first operand, with its first axes."""
_CONVOLUTIONS = {"Conv2D": False, "Conv2DTranspose": True, "Conv2DBackpropInput": True,
                 "Conv3D": False, "Conv3DTranspose": True}
"""Whether the images' channels are the first axis of the weights, not the second."""


def placements(
    strategy: tuple[Any, ...], what: str, size: int, op: str = "",
    flipped: tuple[bool, bool] = (False, False), leading: bool = False,
) -> list[Placement]:
    """Return a strategy's placement of each of some tensors.

    Numbers of parts make an array of ranks as MindSpore does: an axis for each axis that an op goes
    over, and if there are more ranks than parts, one more at the end.

    Args:
        size: how many ranks there are.
        op: the primitive whose operands these are: those of a product share the axis that is summed
            over, those of a convolution or of `BiasAdd` channels, those of `Gather` none; others
            are broadcast to each other.
        flipped: of a product, which operands are transposed.
        leading: the tensors share their first axes, not their last ones.
    """
    if strategy and isinstance(strategy[0], Layout):
        return [entry.placement(what, size) for entry in strategy]
    keys = _convolution_keys(op, strategy) or [
        _keys(len(entry), i, op, flipped, leading, max(map(len, strategy)))
        for i, entry in enumerate(strategy)]
    parts: dict[Any, int] = {}
    for names, entry in zip(keys, strategy, strict=True):
        for key, n in zip(names, entry, strict=True):
            if n != 1 and parts.get(key, 1) not in (1, n):
                raise ValueError(f"For '{what}', the strategy {strategy} cuts an axis that the "
                                 f"operands share into {parts[key]} and {n} parts.")
            parts[key] = max(n, parts.get(key, 1))
    order = sorted(parts)
    matrix = [parts[key] for key in order]
    _check_count(what, matrix, size)
    if (rest := size // math.prod(matrix)) > 1:
        matrix.append(rest)
    return [(tuple(matrix), tuple((order.index(key),) if n > 1 else ()
                                  for key, n in zip(names, entry, strict=True)))
            for names, entry in zip(keys, strategy, strict=True)]


def _convolution_keys(
    op: str, strategy: tuple[Any, ...]
) -> list[list[tuple[int, int]]] | None:
    """Names for the axes of images and weights; None: the op is no convolution, or these are not
    theirs."""
    rank = len(strategy[0]) if strategy else 0
    if op not in _CONVOLUTIONS or rank < 4 or [len(entry) for entry in strategy] != [rank, rank]:
        return None
    images, weights = strategy
    shared, own = (0, 1), (0, rank)  # the channels of the images, and those that weights alone have
    outputs, inputs = (shared, own) if _CONVOLUTIONS[op] else (own, shared)
    if images[1] > 1 and weights[1] == 1:  # by groups
        outputs, inputs = shared, own
    return [[(0, 0), shared, *((0, a) for a in range(2, rank))],
            [outputs, inputs, *((1, a) for a in range(2, rank))]]


def _keys(
    rank: int, number: int, op: str, flipped: tuple[bool, bool], leading: bool, longest: int
) -> list[tuple[int, int]]:
    """A name for each axis of an operand, in the order of the array of ranks; those that operands
    share are equal."""
    if op in _READS:
        return [(number, a) for a in range(rank)]
    if leading or op in _BY_ROW:
        return [(0, a) for a in range(rank)]
    if op in _BY_CHANNEL and number and rank == 1 and longest > 1:
        return [(0, 1)]
    if op not in _PRODUCTS:
        return [(0, a + longest - rank) for a in range(rank)]
    rows, columns, summed = (1, 0), (1, 2), (1, 1)
    if op == "Dense" and number:  # weights (out, in), a bias (out)
        return [columns, summed][:rank]
    last = [rows, summed] if number == 0 else [summed, columns]
    batch = [(0, a + longest - rank) for a in range(rank - 2)]
    return batch + (last[::-1] if flipped[number] else last)


__all__ = ["Layout", "Placement", "check_strategy", "placements"]
