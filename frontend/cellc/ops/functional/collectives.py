"""Collectives: what several processes compute together, in graphs and eagerly, with gradients.

Each function does one op of the graph (`cellc_compiler.ops.collective`) and gives a new tensor. All
processes of a group reach the same collectives in the same order. `mint.distributed` has the same
with PyTorch's parameters. Source: `mindspore.communication.comm_func`, MPI 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime.world import world

from ...core.declared import INT, misuse
from ...core.dispatch import apply, apply_one
from ...ranks.groups import HCCL_WORLD_COMM_GROUP, a_rank, rank_in, ranks_of
from ...tensors.tensor import Tensor
from ..arguments import dtype_of, integer, tensor
from . import creation, joining, shapes

REDUCTIONS = ("sum", "prod", "max", "min", "avg")
"""The reductions of tensors of several processes; an average is the sum over their number."""


def checked_reduction(op: Any, what: str) -> str:
    """The name of a reduction."""
    if not isinstance(op, str) or op not in REDUCTIONS:
        raise misuse(what, f"'op' must be one of {REDUCTIONS}", repr(op), TypeError)
    return op


def _reduce(op: str, kind: str, x: Tensor, ranks: Sequence[int], **attrs: Any) -> Tensor:
    total = apply_one(kind, x, reduction="sum" if op == "avg" else op, ranks=tuple(ranks), **attrs)
    return total / len(ranks) if op == "avg" else total


def all_reduce(x: Tensor, op: str = "sum", group: str | None = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The sum (or `op`) over the processes of a group, in the order of their numbers, on each.

    The gradient of a sum adds up the cotangents of all processes.
    """
    what = "all_reduce"
    return _reduce(checked_reduction(op, what), what, tensor(x, what, "tensor"),
                   ranks_of(group, what))


def all_reduce_ranks(x: Tensor, ranks: tuple[int, ...]) -> Tensor:
    """The sum over these ranks, of which this is one."""
    return apply_one("all_reduce", x, reduction="sum", ranks=ranks)


def broadcast_ranks(x: Tensor, ranks: tuple[int, ...]) -> Tensor:
    """The tensor of the first of these ranks, of which this is one."""
    return apply_one("broadcast_from", x, root=ranks[0], ranks=ranks)


def own_ranks(groups: Any, what: str) -> tuple[int, ...]:
    """Of lists of ranks the one with this process; all ranks if there are no lists."""
    here = world()
    if groups is None:
        return tuple(range(here.size))
    if not isinstance(groups, list) or not all(isinstance(g, list) for g in groups):
        raise misuse(what, "'process_groups' must be a list of lists of ranks", repr(groups),
                     TypeError)
    for rank in (given := [r for g in groups for r in g]):
        a_rank(rank, "process_groups", what, range(here.size))
    if len(set(given)) != len(given):
        raise misuse(what, "a rank must be in one of 'process_groups'", groups)
    return next((tuple(g) for g in groups if here.rank in g), (here.rank,))


def reduce_scatter(x: Tensor, op: str = "sum", group: str | None = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """This process's rows of the sum (or `op`) over the processes."""
    what = "reduce_scatter"
    return _reduce(checked_reduction(op, what), what, tensor(x, what, "tensor"),
                   ranks_of(group, what))


def reduce(
    x: Tensor, dst: int, op: str = "sum", group: str | None = HCCL_WORLD_COMM_GROUP
) -> Tensor:
    """The sum (or `op`) over the processes, on the process `dst` (its number among all); zeros on
    the others."""
    what = "reduce"
    ranks = ranks_of(group, what)
    return _reduce(checked_reduction(op, what), "reduce_to", tensor(x, what, "tensor"), ranks,
                   root=a_rank(dst, "dst", what, ranks))


def all_gather(x: Tensor, group: str | None = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The tensors of the processes along the first axis, on each."""
    ranks = ranks_of(group, "all_gather")
    return apply_one("all_gather", tensor(x, "all_gather", "tensor"), ranks=ranks)


def broadcast(x: Tensor, src: int = 0, group: str | None = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The tensor of the process `src` (its number among all), on each."""
    return _apply_rooted("broadcast", "broadcast_from", x, ("src", src), group)


def gather(x: Tensor, dst: int = 0, group: str | None = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The tensors of the processes along the first axis, on the process `dst`; zeros elsewhere."""
    return _apply_rooted("gather", "gather_to", x, ("dst", dst), group)


def scatter(x: Tensor, src: int = 0, group: str | None = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """This process's rows of the tensor of the process `src`."""
    return _apply_rooted("scatter", "scatter_from", x, ("src", src), group)


def _apply_rooted(what: str, kind: str, x: Any, given: tuple[str, Any], group: Any) -> Tensor:
    ranks, (name, root) = ranks_of(group, what), given
    return apply_one(kind, tensor(x, what, "tensor"), root=a_rank(root, name, what, ranks),
                     ranks=ranks)


def all_to_all(
    x: Tensor, split_count: int, split_dim: int, concat_dim: int,
    group: str | None = HCCL_WORLD_COMM_GROUP,
) -> Tensor:
    """`x` cut along `split_dim`, a part for each process; what comes along `concat_dim`."""
    what = "all_to_all"
    ranks, given = ranks_of(group, what), tensor(x, what, "tensor")
    if split_count != len(ranks):
        raise ValueError(f"For '{what}', 'split_count' must be the number of processes of the "
                         f"group, {len(ranks)}, but got {split_count}.")
    split, concat = (integer(split_dim, what, "split_dim"), integer(concat_dim, what, "concat_dim"))
    return apply_one(what, given, split_axis=split % max(given.ndim, 1),
                     concat_axis=concat % max(given.ndim, 1), ranks=ranks)


def all_to_all_rows(
    x: Tensor, send_sizes: Sequence[int], receive_sizes: Sequence[int],
    group: str | None = HCCL_WORLD_COMM_GROUP,
) -> Tensor:
    """Send `send_sizes` consecutive rows to each process; concatenate `receive_sizes` rows of each.
    """
    what = "all_to_all"
    ranks, here = ranks_of(group, what), world().rank
    sent, received = tuple(map(int, send_sizes)), tuple(map(int, receive_sizes))
    if here in ranks and len(sent) == len(received) == len(ranks):
        own = ranks.index(here)
        if sent[own] != received[own]:
            raise misuse(what, f"this process sends {sent[own]} rows to itself, but expects "
                         f"{received[own]} of itself")
    return apply_one("all_to_all_v", tensor(x, what, "tensor"), send_sizes=sent,
                     receive_sizes=received, ranks=ranks)


def all_gather_rows(
    x: Tensor, sizes: Sequence[int], group: str | None = HCCL_WORLD_COMM_GROUP
) -> Tensor:
    """The rows of the processes, one after the other: `sizes` says how many each has."""
    return all_to_all_rows(
        joining.concat([x] * len(sizes), 0), [x.shape[0]] * len(sizes), sizes, group)


def reduce_scatter_rows(
    x: Tensor, sizes: Sequence[int], op: str = "sum", group: str | None = HCCL_WORLD_COMM_GROUP
) -> Tensor:
    """Return this process's rows of the sum (or `op`) over the processes, which get `sizes`."""
    what = "reduce_scatter"
    place = rank_in(group, what)
    start = sum(sizes[:place])
    total: Tensor = all_reduce(x, op, group)[start : start + sizes[place]]
    return total


def counts(given: Any) -> list[int]:
    """Numbers that are known when the op is made, in a list or a Tensor of any shape."""
    found = np.asarray(given.asnumpy() if isinstance(given, Tensor) else given)
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"expected ints, but got {given!r}")
    return found.astype(np.int64).reshape(-1).tolist()


def matrix_sizes(matrix: Any, group: str | None, what: str) -> tuple[list[int], list[int]]:
    """How many elements this process sends to each and gets from each. `matrix`: what rank i sends
    to rank j, at i * n + j."""
    n, here = len(ranks_of(group, what)), rank_in(group, what)
    try:
        flat = counts(matrix)
    except (TypeError, ValueError) as e:
        raise TypeError(f"For '{what}', 'send_count_matrix' must be a list or a Tensor of ints, "
                        f"but got {matrix!r}.") from e
    if len(flat) != n * n:
        raise ValueError(f"For '{what}', 'send_count_matrix' must hold {n} x {n} sizes, one for "
                         f"each two processes, but got {len(flat)}.")
    return flat[here * n : (here + 1) * n], flat[here::n]


def all_to_all_tensors(
    given: Sequence[Tensor], sizes: Sequence[Sequence[int]],
    group: str | None = HCCL_WORLD_COMM_GROUP,
) -> tuple[Tensor, ...]:
    """A tensor for each process; what each sends, of these sizes."""
    flat = [shapes.reshape(t, (-1,)) for t in given]
    counts = [t.size for t in given]
    wanted = [_size(s) for s in sizes]
    rows = all_to_all_rows(joining.concat(flat, 0), counts, wanted, group)
    starts = [sum(wanted[:i]) for i in range(len(wanted))]
    return tuple(shapes.reshape(rows[a : a + n], tuple(s))
                 for a, n, s in zip(starts, wanted, sizes, strict=True))


def _size(shape: Sequence[int]) -> int:
    count = 1
    for d in shape:
        count *= int(d)
    return count


def send(x: Tensor, dst: int, tag: int = 0, group: str | None = HCCL_WORLD_COMM_GROUP) -> None:
    """Give a tensor to the process `dst`, without waiting until it has it."""
    given = tensor(x, "send", "tensor")
    a_tag(tag, "send")
    apply("send_to", given, rank=another_rank(dst, "dst", "send", group), tag=tag)


def receive(
    shape: Sequence[int], dtype: Any, src: int, tag: int = 0,
    group: str | None = HCCL_WORLD_COMM_GROUP,
) -> Tensor:
    """The tensor that the process `src` gives by `send` with the same tag."""
    what = "receive"
    a_tag(tag, what)
    return apply_one("receive_from", rank=another_rank(src, "src", what, group),
                     dtype=dtype_of(dtype, what), shape=tuple(shape), tag=tag)


def a_tag(tag: Any, what: str) -> None:
    """Refuse what is no number of a message."""
    INT(tag, what, "tag")


def another_rank(rank: Any, name: str, what: str, group: Any) -> int:
    """The rank of another process of a group."""
    others = [r for r in ranks_of(group, what) if r != world().rank]
    if not others:
        raise RuntimeError(f"For '{what}', '{name}' must be another process, but cellc runs in "
                           "one: there is nobody to exchange with.")
    return a_rank(rank, name, what, others)


def barrier(group: str | None = HCCL_WORLD_COMM_GROUP) -> None:
    """Wait until all processes of a group have come."""
    all_reduce(creation.zeros((1,)), "sum", group)
