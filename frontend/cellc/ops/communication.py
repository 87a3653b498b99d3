"""Collectives and groups with PyTorch's parameters. Source: `mindspore.ops.communication`,
`mindspore.mint.distributed`.

Results are written into tensors that the caller gives. What is asked for without waiting
(`async_op`) is done when the call returns. All processes of a group come to the same collectives in
the same order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_runtime.lazy import public_names
from cellc_runtime.records import dataclass
from cellc_runtime.world import world

from ..ranks import management as processes
from ..ranks.groups import a_rank, ranks_of
from ..tensors.tensor import Tensor, tensor_of
from . import functional_array as fa
from . import functional_collectives as collectives
from . import functional_join as fj
from .arguments import boolean, is_int
from .arguments import tensor as as_tensor

_WORLD = processes.HCCL_WORLD_COMM_GROUP
_BACKENDS = ("hccl", "mccl")


class CommHandle:
    """What a collective that need not be waited for returns."""

    def __init__(self, finish: Callable[[], None] | None = None) -> None:
        self._finish = finish

    def wait(self) -> None:
        """Return once it is done."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


def handle(async_op: Any, what: str) -> CommHandle | None:
    """The handle of what is done already, if one is asked for."""
    return CommHandle() if boolean(async_op, what, "async_op") else None


# --- groups ---------------------------------------------------------------------------------------


def init_process_group(
    backend: str = "hccl", init_method: str | None = None, timeout: Any = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None,
) -> None:
    """Set up the group of all processes: those that `mpirun` started, or this one.

    Args:
        backend: `"hccl"` or `"mccl"`; MPI connects the processes.
        world_size, rank: as MPI has them, or -1.
        init_method, timeout, store, group_name, pg_options, device_id: MPI knows where everyone is.

    Raises:
        ValueError: another backend, size or rank; both `init_method` and `store`.
        RuntimeError: a launcher other than MPI's, or no mpi4py.
    """
    what = "init_process_group"
    if backend not in _BACKENDS:
        raise ValueError(f"For '{what}', 'backend' must be one of {_BACKENDS}, but got "
                         f"{backend!r}.")
    if init_method is not None and store is not None:
        raise ValueError(f"For '{what}', only one of 'init_method' and 'store' can be given.")
    processes.init()
    here = world()
    for value, name, right in ((world_size, "world_size", here.size), (rank, "rank", here.rank)):
        if not is_int(value) or value not in (-1, right):
            raise ValueError(f"For '{what}', '{name}' must be -1 or {right}, as the launcher has "
                             f"it, but got {value!r}.")


def destroy_process_group(group: str | None = None) -> None:
    """End a group; all of them if None.

    Raises:
        TypeError, ValueError: no group's name.
    """
    ranks_of(group, "destroy_process_group")
    if group is None or group == _WORLD:
        processes.release()
    else:
        processes.destroy_group(group)


def is_available() -> bool:
    """Whether the functions of this module can be used: yes."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return bool(processes.GlobalComm.INITED)


def get_rank(group: str | None = None) -> int:
    """This process's number in a group; -1 if it is not in it."""
    ranks, here = ranks_of(group, "get_rank"), world().rank
    return ranks.index(here) if here in ranks else -1


def get_world_size(group: str | None = None) -> int:
    """How many processes are in a group."""
    return len(ranks_of(group, "get_world_size"))


def get_backend(group: str | None = None) -> str:
    """The backend of a group: `"hccl"`, as MindSpore says where nothing is connected."""
    ranks_of(group, "get_backend")
    return "hccl"


def get_process_group_ranks(group: str | None = None) -> list[int]:
    """The numbers of the processes of a group."""
    return list(ranks_of(group, "get_process_group_ranks"))


def get_global_rank(group: str | None, group_rank: int) -> int:
    """The number among all processes of one of a group."""
    ranks = ranks_of(group, "get_global_rank")
    return ranks[a_rank(group_rank, "group_rank", "get_global_rank", range(len(ranks)))]


def get_group_rank(group: str | None, global_rank: int) -> int:
    """The number in a group of one of all processes."""
    ranks = ranks_of(group, "get_group_rank")
    return ranks.index(a_rank(global_rank, "global_rank", "get_group_rank", ranks))


def new_group(
    ranks: Sequence[int] | None = None, timeout: Any = None, backend: str | None = None,
    pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None,
) -> str:
    """Make a group of processes; its name, or "" for a process that is not in it.

    Args:
        ranks: the processes; the group of all if None.
        timeout, backend, pg_options, use_local_synchronization, group_desc: MPI needs none.

    Raises:
        TypeError: no list of ints, or a rank twice.
        ValueError: a process that there is not.
    """
    what = "new_group"
    if ranks is None:
        return _WORLD
    if not isinstance(ranks, (list, tuple)) or len(set(ranks)) != len(ranks):
        raise TypeError(f"For '{what}', 'ranks' must be a list of different ints, got {ranks!r}.")
    for rank in ranks:
        a_rank(rank, "ranks", what, range(world().size))
    if world().rank not in ranks:
        return ""
    count = 0
    while f"{count}-{ranks}" in world().groups:
        count += 1
    processes.create_group(f"{count}-{ranks}", ranks)
    return f"{count}-{ranks}"


# --- collectives of tensors -----------------------------------------------------------------------


def _write(out: Any, x: Tensor, what: str) -> None:
    """Write a tensor into another.

    Raises:
        TypeError: no tensor, or one of another type or shape.
    """
    as_tensor(out, what, "output")
    if out.shape != x.shape or out.dtype != x.dtype:
        raise TypeError(
            f"For '{what}', the output must have the type and shape of what arrives, "
            f"{x.dtype} {x.shape}, but is {out.dtype} {out.shape}.")
    out.copy_(x)


def _list(given: Any, name: str, what: str, group: Any) -> list[Tensor]:
    """A tensor for each process of a group.

    Raises:
        TypeError: no list of as many.
    """
    count = len(ranks_of(group, what))
    if not isinstance(given, (list, tuple)) or len(given) != count:
        raise TypeError(
            f"For '{what}', '{name}' must be a list of as many Tensors as there are processes, "
            f"{count}, but got {len(given) if isinstance(given, (list, tuple)) else given!r}.")
    return [as_tensor(t, what, f"{name}[{i}]") for i, t in enumerate(given)]


def _parts(x: Tensor, sizes: Any, name: str, what: str, group: Any) -> list[int]:
    """How many rows of `x` belong to each process of a group: equal parts if not given.

    Raises:
        ValueError: they do not add up to the rows.
    """
    count, rows = len(ranks_of(group, what)), x.shape[0] if x.ndim else 1
    found = list(sizes) if sizes is not None else [rows // count] * count
    if len(found) != count or sum(found) != rows:
        raise ValueError(f"For '{what}', '{name}' must hold the rows for each of {count} "
                         f"processes, {rows} together, but got {sizes!r}.")
    return found


def all_reduce(
    tensor: Tensor, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """`tensor` becomes the sum (or `op`) over the processes."""
    _write(tensor, collectives.all_reduce(tensor, op, group), "all_reduce")
    return handle(async_op, "all_reduce")


def reduce(
    tensor: Tensor, dst: int, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """`tensor` of the process `dst` becomes the sum (or `op`) over the processes."""
    total = collectives.reduce(tensor, dst, op, group)
    if world().rank == dst:
        _write(tensor, total, "reduce")
    return handle(async_op, "reduce")


def broadcast(
    tensor: Tensor, src: int, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """`tensor` becomes that of the process `src`."""
    _write(tensor, collectives.broadcast(tensor, src, group), "broadcast")
    return handle(async_op, "broadcast")


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """The tensors of the processes, written into those of `tensor_list`."""
    what = "all_gather"
    places = _list(tensor_list, "tensor_list", what, group)
    found = collectives.all_gather(fa.expand_dims(as_tensor(tensor, what, "tensor"), 0), group)
    for i, place in enumerate(places):
        _write(place, found[i], what)
    return handle(async_op, what)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """The tensors of the processes along the first axis, written into `output_tensor`."""
    what = "all_gather_into_tensor"
    _write(output_tensor, collectives.all_gather(input_tensor, group), what)
    return handle(async_op, what)


def all_gather_into_tensor_uneven(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """`all_gather_into_tensor` of tensors whose numbers of rows differ."""
    what = "all_gather_into_tensor_uneven"
    receive = _parts(output, output_split_sizes, "output_split_sizes", what, group)
    copies = fj.concat([as_tensor(input, what, "input")] * len(receive), 0)
    rows = input.shape[0]
    _write(output, collectives.all_to_all_rows(copies, [rows] * len(receive), receive, group), what)
    return handle(async_op, what)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: str = "sum", group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's part of the sums (or `op`) over the processes, written into `output`."""
    what = "reduce_scatter"
    given = fj.stack(_list(input_list, "input_list", what, group), 0)
    _write(output, collectives.reduce_scatter(given, op, group)[0], what)
    return handle(async_op, what)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = "sum", group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's rows of the sum (or `op`) over the processes, written into `output`."""
    what = "reduce_scatter_tensor"
    _write(output, collectives.reduce_scatter(input, op, group), what)
    return handle(async_op, what)


def reduce_scatter_tensor_uneven(
    output: Tensor, input: Tensor, input_split_sizes: Any = None, op: str = "sum",
    group: str | None = None, async_op: bool = False,
) -> CommHandle | None:
    """`reduce_scatter_tensor` whose parts have different numbers of rows."""
    what = "reduce_scatter_tensor_uneven"
    sizes = _parts(input, input_split_sizes, "input_split_sizes", what, group)
    place = get_rank(group)
    start = sum(sizes[:place])
    total = collectives.all_reduce(input, op, group)
    _write(output, total[start : start + sizes[place]], what)
    return handle(async_op, what)


def gather(
    tensor: Tensor, gather_list: list[Tensor], dst: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """The tensors of the processes, written into those of `gather_list` of the process `dst`."""
    found = collectives.gather(fa.expand_dims(as_tensor(tensor, "gather", "tensor"), 0), dst, group)
    if world().rank == dst:
        for i, place in enumerate(_list(gather_list, "gather_list", "gather", group)):
            _write(place, found[i], "gather")
    return handle(async_op, "gather")


def scatter(
    tensor: Tensor, scatter_list: list[Tensor], src: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's tensor of `scatter_list` of the process `src`, written into `tensor`."""
    given = _list(scatter_list, "scatter_list", "scatter", group) if world().rank == src \
        else [tensor] * len(ranks_of(group, "scatter"))
    _write(tensor, collectives.scatter(fj.stack(given, 0), src, group)[0], "scatter")
    return handle(async_op, "scatter")


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Each process's tensors for this one, written into those of `output_tensor_list`."""
    what = "all_to_all"
    places = _list(output_tensor_list, "output_tensor_list", what, group)
    given = _list(input_tensor_list, "input_tensor_list", what, group)
    found = collectives.all_to_all_tensors(given, [p.shape for p in places], group)
    for place, x in zip(places, found, strict=True):
        _write(place, x, what)
    return handle(async_op, what)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: str | None = None, async_op: bool = False,
) -> CommHandle | None:
    """Each process's rows for this one, written into `output`."""
    what = "all_to_all_single"
    receive = _parts(output, output_split_sizes, "output_split_sizes", what, group)
    send_sizes = _parts(input, input_split_sizes, "input_split_sizes", what, group)
    _write(output, collectives.all_to_all_rows(input, send_sizes, receive, group), what)
    return handle(async_op, what)


def barrier(
    group: str | None = None, async_op: bool = False, device_ids: Any = None
) -> CommHandle | None:
    """Wait for all processes of a group."""
    collectives.barrier(group)
    return handle(async_op, "barrier")


# --- messages -------------------------------------------------------------------------------------


def send(tensor: Tensor, dst: int = 0, group: str | None = None, tag: int = 0) -> int:
    """Give a tensor to another process; 0."""
    collectives.send(tensor, dst, tag, group)
    return 0


def recv(tensor: Tensor, src: int = 0, group: str | None = None, tag: int = 0) -> int:
    """`tensor` becomes what another process sends; 0."""
    _write(tensor, collectives.receive(tensor.shape, tensor.dtype, src, tag, group), "recv")
    return 0


def isend(tensor: Tensor, dst: int = 0, group: str | None = None, tag: int = 0) -> CommHandle:
    """`send`; a handle."""
    collectives.send(tensor, dst, tag, group)
    return CommHandle()


def irecv(tensor: Tensor, src: int = 0, group: str | None = None, tag: int = 0) -> CommHandle:
    """`recv`, done when the handle is waited for."""
    collectives.another_rank(src, "src", "irecv", group)
    return CommHandle(lambda: _write(
        tensor, collectives.receive(tensor.shape, tensor.dtype, src, tag, group), "irecv"))


@dataclass(frozen=True)
class P2POp:
    """One message of `batch_isend_irecv`.

    Args:
        op: `"isend"` or `"irecv"`.
        tensor: what is sent; of the type and shape of what comes.
        peer: the other process.
        group, tag: see `isend`.
        recv_dtype: of what comes, if it is not that of `tensor`.
    """

    op: str
    tensor: Any
    peer: int
    group: str | None = None
    tag: int = 0
    recv_dtype: Any = None

    def __post_init__(self) -> None:
        name = self.op if isinstance(self.op, str) else getattr(self.op, "__name__", "")
        if name not in ("isend", "irecv"):
            raise TypeError(f"For 'P2POp', 'op' must be isend or irecv, but got {self.op!r}.")
        if not is_int(self.peer):
            raise TypeError(
                f"For 'P2POp', 'peer' must be an int, but got {type(self.peer).__name__}.")
        object.__setattr__(self, "op", name)


def send_all(p2p_op_list: Any) -> None:
    """What a list of messages sends.

    Raises:
        TypeError: no list of P2POp.
    """
    if not isinstance(p2p_op_list, (list, tuple)) or not p2p_op_list or not all(
            isinstance(p, P2POp) for p in p2p_op_list):
        raise TypeError("For 'batch_isend_irecv', 'p2p_op_list' must be a list of P2POp, but got "
                        f"{p2p_op_list!r}.")
    for p in p2p_op_list:
        if p.op == "isend":
            collectives.send(p.tensor, p.peer, p.tag, p.group)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[CommHandle]:
    """Messages to and from other processes; a handle each, done when it is waited for."""
    send_all(p2p_op_list)
    return [CommHandle() if p.op == "isend" else irecv(p.tensor, p.peer, p.group, p.tag)
            for p in p2p_op_list]


# --- collectives of objects -----------------------------------------------------------------------


def _pickled(obj: Any) -> Tensor:
    """An object as bytes. The processes are parts of one program: they trust one another."""
    return tensor_of(np.frombuffer(pickle.dumps(obj), np.uint8).copy())


def _all_objects(obj: Any, group: Any) -> list[Any]:
    """The object of each process."""
    own = _pickled(obj)
    count = len(ranks_of(group, "all_gather_object"))
    sizes = collectives.all_gather(tensor_of(np.array([own.size], np.int64)), group).asnumpy()
    copies = fj.concat([own] * count, 0)
    rows = collectives.all_to_all_rows(copies, [own.size] * count, sizes.tolist(), group).asnumpy()
    return [pickle.loads(part.tobytes()) for part in np.split(rows, np.cumsum(sizes)[:-1])]


def _into(objects: Any, found: Sequence[Any], name: str, what: str) -> None:
    """Write objects into a list.

    Raises:
        TypeError: no list of as many.
    """
    if not isinstance(objects, list) or len(objects) != len(found):
        raise TypeError(
            f"For '{what}', '{name}' must be a list of as many objects as come, {len(found)}, but "
            f"got {objects!r}.")
    objects[:] = found


def all_gather_object(object_list: list[Any], obj: Any, group: str | None = None) -> None:
    """The objects of the processes, written into `object_list`."""
    _into(object_list, _all_objects(obj, group), "object_list", "all_gather_object")


def broadcast_object_list(
    object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None
) -> None:
    """`object_list` becomes that of the process `src`.

    Raises:
        TypeError: it is no list of as many.
    """
    what = "broadcast_object_list"
    ranks = ranks_of(group, what)
    found = _all_objects(list(object_list), group)[ranks.index(a_rank(src, "src", what, ranks))]
    _into(object_list, found, "object_list", what)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: str | None = None
) -> None:
    """The objects of the processes, written into `object_gather_list` of the process `dst`."""
    what = "gather_object"
    a_rank(dst, "dst", what, ranks_of(group, what))
    found = _all_objects(obj, group)
    if world().rank == dst:
        _into(object_gather_list, found, "object_gather_list", what)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None,
    src: int = 0, group: str | None = None,
) -> None:
    """This process's object of the list of the process `src`, written into the first place.

    Raises:
        TypeError: no list of as many objects as there are processes, or no list with a place.
    """
    what = "scatter_object_list"
    ranks = ranks_of(group, what)
    found = _all_objects(scatter_object_input_list, group)[
        ranks.index(a_rank(src, "src", what, ranks))]
    if not isinstance(found, list) or len(found) != len(ranks):
        raise TypeError(f"For '{what}', 'scatter_object_input_list' must be a list of as many "
                        f"objects as there are processes, {len(ranks)}, but got {found!r}.")
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise TypeError(f"For '{what}', 'scatter_object_output_list' must be a list with a place, "
                        f"but got {scatter_object_output_list!r}.")
    scatter_object_output_list[0] = found[ranks.index(world().rank)]


def send_object_list(
    object_list: list[Any], dst: int, group: str | None = None, device: Any = None
) -> None:
    """Give objects to another process."""
    data = _pickled(object_list)
    collectives.send(tensor_of(np.array([data.size], np.int64)), dst, 0, group)
    collectives.send(data, dst, 0, group)


def recv_object_list(
    object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None
) -> None:
    """`object_list` becomes what another process sends."""
    size = int(collectives.receive((1,), np.int64, src, 0, group).asnumpy()[0])
    data = collectives.receive((size,), np.uint8, src, 0, group).asnumpy()
    _into(object_list, pickle.loads(data.tobytes()), "object_list", "recv_object_list")


__all__ = [
    "P2POp", "all_gather", "all_gather_into_tensor", "all_gather_into_tensor_uneven",
    "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "destroy_process_group", "gather",
    "gather_object", "get_backend", "get_global_rank", "get_group_rank",
    "get_process_group_ranks", "get_rank", "get_world_size", "init_process_group", "irecv",
    "is_available", "is_initialized", "isend", "new_group", "recv", "recv_object_list", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_tensor_uneven", "scatter",
    "scatter_object_list", "send", "send_object_list",
]
__dir__ = public_names(__name__)
