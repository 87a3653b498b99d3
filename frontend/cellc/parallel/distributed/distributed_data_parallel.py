"""A network whose gradients are means over processes, summed while they are computed.

The sums are part of the backward pass (`eager.reductions`): where that is one program, a bucket is
sent as soon as its gradients are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from cellc_runtime.world import world

from ... import context
from ...core.declared import is_int
from ...core.dispatch import active_tracer
from ...eager.recorder import active_recordings
from ...eager.reductions import Reduction
from ...nn.cell import Cell
from ...nn.grad_reducer import broadcast_parameters, buckets, summed
from ...ops.functional import collectives
from ...ops.functional.creation import zeros
from ...ranks.groups import HCCL_WORLD_COMM_GROUP, rank_in, ranks_of
from ...tensors.parameter import Parameter
from ...tensors.tensor import Grads, Tensor, Tensors
from ...transforms.gradient import zeros_of

_MEGABYTE = 1 << 20
_USUAL_MB = 25
"""Megabytes of a bucket if nothing is said; then the first is of one, so that sending starts early.
"""
_MODES = ("CppReducer", "PythonReducer")


class DistributedDataParallel(Cell):
    """A network trained by several processes on a part of the batch each, in PyNative mode.

    Gradients of its Parameters, asked for by `grad` or `value_and_grad`, are means over the
    processes of a group. They are added in the order of the ranks, so n processes give the bits of
    one that adds the gradients of the same n parts of the batch. They are sent in buckets, as the
    backward pass makes them ready.

    Gradients add up (in `grad` of each Parameter, which is also what one gets) until `zero_grad`.
    Parameters with `layerwise_parallel` are each process's own: neither sent nor reduced.

    Args:
        module: the network.
        init_sync: whether all start with the Parameters and buffers of the group's first process.
        process_group: the processes; None: all.
        bucket_cap_mb: megabytes of a bucket, from which on the next one begins; None: 25, and 1
            for the first.
        find_unused_parameters: whether Parameters of which this process has no gradient take part
            with zeros; without it that is an error.
        average_in_collective: whether the sum is divided by the number of processes; else each
            gradient is, before it is added.
        static_graph: every step does the same: buckets are filled in the order in which the first
            step (of the first process) reads Parameters, and `find_unused_parameters` holds.
        reducer_mode: `"CppReducer"` or `"PythonReducer"`: one and the same here.

    Attributes:
        module: the network.
        sync_enabled: whether gradients are sent now; see `no_sync`.
        bucketed_params: Parameters whose gradients are reduced.
        skipped_params: the others.

    Raises:
        TypeError, ValueError: an argument of a wrong kind or value, or there is no such group.
        RuntimeError: this process is not in the group. At a call: graph mode. In the backward pass:
            a Parameter has no gradient; or the pass is itself differentiated or recomputed.

    Examples:
        >>> net = DistributedDataParallel(nn.Dense(3, 2))
        >>> loss = value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
        >>> value, grads = loss(ops.ones((4, 3)))
        >>> optimizer(grads)
        >>> net.zero_grad()
    """

    def __init__(
        self, module: Cell, init_sync: bool = True, process_group: str | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        average_in_collective: bool = False, static_graph: bool = False,
        reducer_mode: str = "CppReducer",
    ) -> None:
        super().__init__(auto_prefix=False)
        flags = {"init_sync": init_sync, "find_unused_parameters": find_unused_parameters,
                 "average_in_collective": average_in_collective, "static_graph": static_graph}
        _check(module, bucket_cap_mb, flags, reducer_mode)
        self.process_group = process_group or HCCL_WORLD_COMM_GROUP
        rank_in(self.process_group, self.cls_name)
        self.module = module
        self.init_sync, self.static_graph = init_sync, static_graph
        self.find_unused_parameters = find_unused_parameters
        self.average_in_collective = average_in_collective
        self.bucket_cap_mb, self.reducer_mode = bucket_cap_mb, reducer_mode
        self.sync_enabled = True
        own = list(module.get_parameters())
        shared = [p for p in own if p.requires_grad and not p.layerwise_parallel]
        self.bucketed_params = tuple(shared)
        self.skipped_params = tuple([p for p in own if all(p is not s for s in shared)])
        self._held: set[int] = set()
        self._order: list[int] | None = None
        if init_sync:
            self._broadcast(own)

    def _broadcast(self, parameters: Sequence[Parameter]) -> None:
        broadcast_parameters(parameters, self.process_group)
        ranks = ranks_of(self.process_group, self.cls_name)
        for buffer in self.module.buffers() if len(ranks) > 1 else ():
            buffer.assign_value(collectives.broadcast(buffer, ranks[0], self.process_group))

    def construct(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the network's result."""
        self._follow()
        return self.module(*inputs, **kwargs)

    def _follow(self) -> None:
        """Have recordings that are made reduce gradients."""
        if active_tracer() is not None or context.in_graph_mode():
            raise RuntimeError(
                f"{self.cls_name} works in PyNative mode: set_context(mode=PYNATIVE_MODE), and "
                "compile the network inside instead (jit); or leave it out and train in the "
                "parallel mode 'data_parallel', which graphs know")
        for recording in active_recordings():
            recording.reduce_by(self, self.bucketed_params)

    def zero_grad(self) -> None:
        """Forget the gradients: `grad` of the Parameters are zeros, which the next ones replace."""
        self._held.clear()
        for parameter in self.bucketed_params:
            parameter.grad = zeros_of(parameter)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block gradients are added up on each process alone; the first backward pass
        after it sends the sums."""
        before, self.sync_enabled = self.sync_enabled, False
        try:
            yield
        finally:
            self.sync_enabled = before

    # --- gradients ------------------------------------------------------------------------------

    def reduction(
        self, chosen: Mapping[int, int], reads: Callable[[], Sequence[int]]
    ) -> Reduction:
        """Return the reduction of the gradients of `chosen`; see `eager.reductions.Reducer`."""
        numbers = list(chosen)
        parameters = [self.bucketed_params[i] for i in numbers]
        held = [i in self._held and p.grad is not None
                for i, p in zip(numbers, parameters, strict=True)]
        ranks = ranks_of(self.process_group, self.cls_name)
        sends = self.sync_enabled and len(ranks) > 1
        sent = self._buckets(numbers, reads) if sends else []
        key = (tuple(chosen.items()), tuple(held), ranks, self.average_in_collective,
               self._may_lack, tuple(map(tuple, sent)))

        def run(grads: Grads, state: Tensors) -> list[Tensor]:
            kept = iter(state)
            local = [_added(next(kept) if h else None, g, p, self._may_lack)
                     for h, g, p in zip(held, grads, parameters, strict=True)]
            return self._means(local, sent, len(ranks)) if sends else local

        return Reduction(list(chosen.values()), key,
                         [p.grad for p, h in zip(parameters, held, strict=True)
                          if h and p.grad is not None], run, partial(self._keep, numbers))

    @property
    def _may_lack(self) -> bool:
        return self.find_unused_parameters or self.static_graph

    def _keep(self, numbers: Sequence[int], grads: Tensors) -> None:
        self._held.update(numbers)
        for i, grad in zip(numbers, grads, strict=True):
            self.bucketed_params[i].grad = grad

    def _means(self, local: Tensors, sent: Sequence[Sequence[int]], count: int) -> list[Tensor]:
        """Gradients over the processes, a bucket at a time."""
        out = list(local)
        for bucket in sent:
            parts = [local[i] for i in bucket]
            if not self.average_in_collective:
                parts = [g * (1.0 / count) for g in parts]
            for i, total in zip(bucket, summed(parts, self.process_group), strict=True):
                out[i] = total / count if self.average_in_collective else total
        return out

    def _buckets(
        self, numbers: Sequence[int], reads: Callable[[], Sequence[int]]
    ) -> list[list[int]]:
        """Which of some gradients are sent together, in the order in which they are."""
        if self.static_graph and self._order is None:
            order = np.argsort(np.asarray(reads(), np.int32), kind="stable").astype(np.int32)
            ranks = ranks_of(self.process_group, self.cls_name)
            first = collectives.broadcast(Tensor(order), ranks[0], self.process_group)
            self._order = first.asnumpy().tolist()
        places = list(range(len(numbers)))
        if self._order is not None:
            at = {n: i for i, n in enumerate(self._order)}
            places.sort(key=lambda i: at[numbers[i]])
        start, nbytes = len(places), 0
        sizes = [self.bucketed_params[numbers[i]].nbytes for i in places]
        while self.bucket_cap_mb is None and start and nbytes < _MEGABYTE:
            start -= 1
            nbytes += sizes[start]
        return [[part[i] for i in bucket] for part in (places[start:], places[:start])
                for bucket in self._filled([self.bucketed_params[numbers[i]] for i in part])]

    def _filled(self, parameters: Sequence[Parameter]) -> list[list[int]]:
        megabytes = _USUAL_MB if self.bucket_cap_mb is None else self.bucket_cap_mb
        count = len(parameters)
        return buckets([p.dtype for p in parameters], [p.size for p in parameters], [1] * count,
                       [()] * count, int(megabytes * _MEGABYTE))


def _added(held: Tensor | None, grad: Tensor | None, parameter: Parameter, lack: bool) -> Tensor:
    """A gradient with what was held of it before."""
    if grad is None:
        if not lack:
            raise RuntimeError(
                f"the Parameter {parameter.name} has no gradient in rank {world().rank}, for which "
                "the other processes of a DistributedDataParallel would wait: use it in what is "
                "differentiated, or say find_unused_parameters=True (which adds zeros)")
        return zeros(parameter.shape, dtype=parameter.dtype) if held is None else held
    return grad if held is None else held + grad


def _check(module: Any, cap: Any, flags: Mapping[str, Any], mode: Any) -> None:
    what = "For 'DistributedDataParallel', "
    if not isinstance(module, Cell):
        raise TypeError(f"{what}'module' must be a Cell, but got {type(module).__name__}.")
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{what}'{name}' must be a bool, but got {type(value).__name__}.")
    if cap is not None:
        if not (is_int(cap) or isinstance(cap, float)):
            raise TypeError(f"{what}'bucket_cap_mb' must be a number of megabytes or None, but got "
                            f"{type(cap).__name__}.")
        if not 0 <= cap < float("inf"):
            raise ValueError(f"{what}'bucket_cap_mb' must not be negative or infinite, but got "
                             f"{cap}.")
    if mode not in _MODES:
        raise ValueError(f"{what}'reducer_mode' must be one of {_MODES}, but got {mode!r}.")
    if not any(p.requires_grad for p in module.get_parameters()):
        raise ValueError(f"{what}'module' has no Parameter that a gradient is taken of.")


__all__ = ["DistributedDataParallel"]
