"""Layouts of the parameters that graphs are cut by, kept for those who ask while the job runs.

Source: `mindspore.parallel.strategy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from cellc_runtime.records import dataclass

from .layout import Placement
from .layouts import PartLayout


@dataclass(frozen=True, slots=True)
class Laid:
    """A parameter of a graph that is cut."""

    parameter: Any  # what has it
    shape: tuple[int, ...]  # of the whole
    placement: Placement  # over the ranks of a stage


_saving: list[bool] = []  # Not empty once somebody wants them
_kept: WeakKeyDictionary[Any, dict[str, Laid]] = WeakKeyDictionary()


def enable() -> None:
    """Keep layouts of networks that are compiled from now on."""
    _saving[:] = [True]


def clear() -> None:
    """Forget the layouts that were kept."""
    _kept.clear()


def keep(network: Any, laid: Mapping[str, Laid]) -> None:
    """A network has been compiled with these layouts; those of earlier graphs of it stay. Tensors
    that are no parameters of it (the state of draws, say) are left out."""
    if _saving and hasattr(network, "parameters_dict"):
        own = network.parameters_dict()
        _kept[network] = {**{name: one for name, one in laid.items() if name in own},
                          **_kept.get(network, {})}


def of(network: Any) -> Mapping[str, Laid] | None:
    """Return the layouts kept for a network, by the names of its parameters; None: none."""
    return _kept.get(network)


def part_layout(laid: Laid) -> PartLayout:
    """The same with axes counted from the last, as files have it."""
    matrix, cuts = laid.placement
    return PartLayout(tuple(matrix), tuple([tuple([len(matrix) - 1 - a for a in cut])
                                            for cut in cuts]))
