"""How a tensor lies on several devices, as data. Source: `mindspore.Layout`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


class Layout:
    """Devices as an array with named axes; called with names, how a tensor is cut along them.

    Args:
        device_matrix: the sizes of the array of devices.
        alias_name: a name for each of its axes.
        rank_list: the numbers of the devices; default: from 0.

    Raises:
        TypeError: arguments of a wrong kind.
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

        self._map = tuple(
            tuple(place(n) for n in entry) if isinstance(entry, tuple) else place(entry)
            for entry in tensor_map
        )
        return self

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


__all__ = ["Layout"]
