"""Optimizers' state sharded over ranks: which rows of which parameter a rank keeps state of.

In data-parallel training every rank has the whole parameters and would have the whole state. With
`enable_parallel_optimizer` it keeps the state of some rows of each large parameter, updates these
rows, and gathers those of the others. An element's update depends on that element alone, so the
bits are those of an optimizer with the whole state. Source: Rajbhandari et al., "ZeRO: Memory
Optimizations Toward Training Trillion Parameter Models", 2020 (stages 1 and 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cellc_runtime.records import dataclass
from cellc_runtime.world import world

from ...core.declared import misuse
from ...core.dispatch import apply_one
from ...core.module_names import module_of
from ...ranks.groups import HCCL_WORLD_COMM_GROUP
from ...ranks.settings import ParallelMode, get_auto_parallel_context, optimizer_sharding
from ...tensors.initializer import initializer
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of a parameter that one rank keeps state of."""

    ranks: tuple[int, ...]  # those that all rows are sharded over, in the order of the rows
    first: int  # this rank's first row
    rows: int  # how many it has

    def of(self, x: Tensor) -> Tensor:
        """This rank's rows of something that has all rows, or no more than these."""
        return x if x.shape[0] == self.rows else x[self.first : self.first + self.rows]

    def gathered(self, x: Tensor) -> Tensor:
        """All rows, from what each rank has of them."""
        return apply_one("all_gather", x, ranks=self.ranks)


def shares(parameters: Sequence[Parameter], optimizer: Any) -> tuple[Share | None, ...]:
    """Return this rank's share of each parameter's state; None: all of it.

    Raises:
        RuntimeError: the mode is neither data parallel nor one that cuts graphs, or the
            optimizer's `construct` is a user's.
    """
    mode = get_auto_parallel_context("parallel_mode")
    if mode != ParallelMode.DATA_PARALLEL:
        raise RuntimeError(
            f"For 'Optimizer', enable_parallel_optimizer parts the state among the ranks of "
            f"parallel_mode='data_parallel' or a mode that cuts graphs, but the mode is {mode!r}: "
            "set it before the optimizer is made, or leave enable_parallel_optimizer out.")
    kind = type(optimizer)
    if not module_of(kind.construct).startswith("cellc."):
        raise RuntimeError(
            f"For 'Optimizer', enable_parallel_optimizer parts the state of cellc's optimizers, "
            f"but {kind.__name__} has a construct of its own, which reads whole states: leave "
            "enable_parallel_optimizer out.")
    ranks = _group()
    return tuple(_share(p, ranks) for p in parameters)


def _group() -> tuple[int, ...]:
    """The ranks that this one's state is sharded over."""
    here, size = world(), optimizer_sharding("optimizer_weight_shard_size")
    if size == -1:
        size = here.size
    if here.size % size:
        raise misuse("Optimizer", "'optimizer_weight_shard_size' must divide the number of ranks, "
                     f"{here.size}, but is {size}")
    first = here.rank // size * size
    return tuple(range(first, first + size))


def _share(parameter: Parameter, ranks: tuple[int, ...]) -> Share | None:
    least = optimizer_sharding("parallel_optimizer_threshold") * 1024
    count = len(ranks)
    if count == 1 or not parameter.parallel_optimizer or parameter.nbytes < least or \
            parameter.ndim == 0 or parameter.shape[0] == 0 or parameter.shape[0] % count:
        return None
    rows = parameter.shape[0] // count
    return Share(ranks, ranks.index(world().rank) * rows, rows)


def clone(
    parameters: Sequence[Parameter], parts: Sequence[Share | None], prefix: str, init: Any
) -> ParameterTuple:
    """State for each parameter, of the rows that this rank keeps; named `prefix.name`."""
    made = []
    for p, part in zip(parameters, parts, strict=True):
        state = p.clone(init) if part is None else Parameter(
            initializer(init, (part.rows, *p.shape[1:]), p.dtype),
            requires_grad=p.requires_grad, layerwise_parallel=p.layerwise_parallel)
        state.name = f"{prefix}.{p.name}"
        made.append(state)
    return ParameterTuple(made)


def layouts(
    state: Iterable[Parameter], parts: Sequence[Share | None]
) -> dict[str, tuple[Any, ...]]:
    """The layouts of sharded state by name, in MindSpore's form.

    Each is (device matrix, tensor map, shape of the part, field size, whether parts are equal,
    group among which the first axis is parted, whole shape).
    """
    return {
        p.name: ([world().size], [-1] * p.ndim, list(p.shape), 0, True, _group_name(part.ranks),
                 [part.rows * len(part.ranks), *p.shape[1:]])
        for p, part in zip(state, parts, strict=True) if part is not None
    }


def _group_name(ranks: tuple[int, ...]) -> str:
    """The name of a group of ranks; made if there is none."""
    here = world()
    if len(ranks) == here.size:
        return HCCL_WORLD_COMM_GROUP
    name = f"opt_shard_{ranks[0]}_{ranks[-1]}"
    here.groups.setdefault(name, ranks)
    return name
