"""Collectives and groups with PyTorch's parameters. Source: `mindspore.ops.communication`,
`mindspore.mint.distributed`.

Results are written into tensors that the caller gives. Collectives started without waiting
(`async_op`) run in PyNative on the thread of the collectives, and write their results when the
handle is waited for; they take their operands as they are at the call. In a graph, and where a
gradient is recorded, it is done as soon as anything reads it. All processes of a group reach the
same collectives in the same order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from cellc_runtime.dtypes import int64, uint8
from cellc_runtime.lazy import public_names
from cellc_runtime.world import world

from ..context import OPTIONS
from ..core.declared import INT, instance, misuse
from ..core.dispatch import active_tracer
from ..core.invalidation import changed
from ..core.native import names_itself
from ..eager.recorder import active_recordings
from ..ranks import management as processes
from ..ranks.groups import a_rank, ranks_of
from ..tensors.tensor import Tensor, tensor_of
from .arguments import boolean, ints, is_int
from .arguments import tensor as as_tensor
from .functional import collectives, joining, shapes
from .functional.creation import zeros_like
from .tcp_store import TCPStore

_WORLD = processes.HCCL_WORLD_COMM_GROUP
_BACKENDS = ("hccl", "mccl")


class CommHandle:
    """The result of a collective that need not be waited for."""

    def __init__(self, finish: Callable[[], object] | None = None) -> None:
        self._finish = finish

    def wait(self) -> None:
        """Return once it is done."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


def handle(async_op: Any, what: str) -> CommHandle | None:
    """The handle of what is done already, if one is requested."""
    return CommHandle() if boolean(async_op, what, "async_op") else None


def goes_on(async_op: Any, what: str) -> bool:
    """Whether a collective may go on while this process computes: it is requested, others take
    part, and neither a graph nor a gradient is made of it."""
    return boolean(async_op, what, "async_op") and world().channel is not None \
        and active_tracer() is None and not active_recordings()


def begin(
    what: str, given: Sequence[Tensor], exchange: Callable[..., Any], write: Callable[[Any], object]
) -> CommHandle:
    """Start a collective of the operands as they are now; what it gives is written when the handle
    is waited for.

    Raises:
        CollectiveError: (the handle) see `cellc_runtime.world.World`.
    """
    channel = world().channel
    assert channel is not None
    copies = [t.copy() for t in given]
    pending = channel.start(lambda: exchange(*copies), what)
    return CommHandle(lambda: write(pending.wait()))


def _exchange(
    what: str, async_op: Any, given: Sequence[Tensor], exchange: Callable[..., Any],
    write: Callable[[Any], object],
) -> CommHandle | None:
    """A collective of some operands, and what is done with its result: now, or by the handle."""
    if goes_on(async_op, what):
        return begin(what, [as_tensor(t, what, "tensor") for t in given], exchange, write)
    write(exchange(*given))
    return handle(async_op, what)


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
        RuntimeError: a launcher other than MPI's, or no mpi4py.
    """
    what = "init_process_group"
    if backend not in _BACKENDS:
        raise misuse(what, f"'backend' must be one of {_BACKENDS}", repr(backend))
    if init_method is not None and store is not None:
        raise misuse(what, "only one of 'init_method' and 'store' can be given")
    processes.init()
    here = world()
    for value, name, right in ((world_size, "world_size", here.size), (rank, "rank", here.rank)):
        if not is_int(value) or value not in (-1, right):
            raise misuse(what, f"'{name}' must be -1 or {right}, as the launcher has it",
                         repr(value))


def destroy_process_group(group: str | None = None) -> None:
    """End a group of processes, which can then not be used; all groups if `group` is None."""
    ranks_of(group, "destroy_process_group")
    if group is None or group == _WORLD:
        processes.release()
    else:
        processes.destroy_group(group)


def is_available() -> bool:
    """Whether the functions of this module can be used, a Python bool: True in every installation,
    also for one process alone."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called and the processes are connected, as a Python bool."""
    return bool(processes.GlobalComm.INITED)


def get_rank(group: str | None = None) -> int:
    """The number of this process in a group (all processes by default), from 0; -1 if it is not in
    the group."""
    ranks, here = ranks_of(group, "get_rank"), world().rank
    return ranks.index(here) if here in ranks else -1


def get_world_size(group: str | None = None) -> int:
    """The number of processes of a group (all processes by default); 1 where nothing is
    connected."""
    return len(ranks_of(group, "get_world_size"))


def get_backend(group: str | None = None) -> str:
    """The name of the backend of a group of processes: `"hccl"`, as MindSpore says where nothing is
    connected. Scripts ask for it."""
    ranks_of(group, "get_backend")
    return "hccl"


def get_process_group_ranks(group: str | None = None) -> list[int]:
    """The numbers, among all processes, of the processes of a group, in the order of the group."""
    return list(ranks_of(group, "get_process_group_ranks"))


def get_global_rank(group: str | None, group_rank: int) -> int:
    """The number among all processes of the process that has the number `group_rank` in a group."""
    ranks = ranks_of(group, "get_global_rank")
    return ranks[a_rank(group_rank, "group_rank", "get_global_rank", range(len(ranks)))]


def get_group_rank(group: str | None, global_rank: int) -> int:
    """The number in a group of the process that has the number `global_rank` among all
    processes."""
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
    """
    what = "new_group"
    if ranks is None:
        return _WORLD
    if not isinstance(ranks, (list, tuple)) or len(set(ranks)) != len(ranks):
        raise misuse(what, "'ranks' must be a list of different ints", repr(ranks), TypeError)
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


_apart: set[str] = set()
"""Functions that do not write into what they are given; see `set_comm_ops_inplace`."""


def set_comm_ops_inplace(is_enable: bool, func_list: Sequence[str] | None = None) -> None:
    """Whether functions of this module (and of `mint.distributed`, which are the same) write their
    results into tensors that are given, as they do at first.

    Where they do not, `all_reduce`, `all_gather_into_tensor`, `reduce_scatter_tensor` and `irecv`
    give `(result, handle)` and `recv` the result; the others raise a ValueError when called.

    Args:
        is_enable: whether they do.
        func_list: which functions; all if None.
    """
    what = "set_comm_ops_inplace"
    boolean(is_enable, what, "is_enable")
    instance(list, tuple, NoneType)(func_list, what, "func_list")
    names = [n for n in __all__ if n not in ("P2POp", "TCPStore", what)]
    wrong = [n for n in func_list or () if n not in names]
    if wrong:
        raise misuse(what, f"'func_list' must hold names of {', '.join(names)}", wrong)
    chosen = names if func_list is None else func_list
    (_apart.difference_update if is_enable else _apart.update)(chosen)
    changed(OPTIONS, "ranks")


def _store(
    out: Any, what: str, async_op: bool, x: Tensor, exchange: Callable[[Tensor], Tensor]
) -> Any:
    """A collective whose result is written into `out`: its handle, or None; where writing is off,
    the result itself with a handle."""
    if what in _apart:
        return exchange(x), handle(async_op, what)
    return _exchange(what, async_op, [x], exchange, lambda found: _write(out, found, what))


def _write(out: Any, x: Tensor, what: str) -> None:
    """Write a tensor into another."""
    if what in _apart:
        raise misuse(what, "results are written into tensors that are given: call "
                     f"set_comm_ops_inplace(True, [{what!r}]) first")
    as_tensor(out, what, "output")
    if out.shape != x.shape or out.dtype != x.dtype:
        raise misuse(what, f"the output must have the type and shape of what arrives, {x.dtype} "
                     f"{x.shape}, but is {out.dtype} {out.shape}", kind=TypeError)
    out.copy_(x)


def _write_all(places: Sequence[Tensor], found: Sequence[Tensor], what: str) -> None:
    for place, x in zip(places, found, strict=True):
        _write(place, x, what)


def _list(given: Any, name: str, what: str, group: Any) -> list[Tensor]:
    """A tensor for each process of a group."""
    count = len(ranks_of(group, what))
    if not isinstance(given, (list, tuple)) or len(given) != count:
        raise misuse(what,
                     f"'{name}' must be a list of as many Tensors as there are processes, {count}",
                     repr(len(given) if isinstance(given, (list, tuple)) else given), TypeError)
    return [as_tensor(t, what, f"{name}[{i}]") for i, t in enumerate(given)]


def _parts(x: Tensor, sizes: Any, name: str, what: str, group: Any) -> list[int]:
    return row_counts(x.shape, sizes, name, what, group)


def row_counts(
    shape: Sequence[int], sizes: Any, name: str, what: str, group: str | None
) -> list[int]:
    """How many of some rows belong to each process of a group: equal parts if not given."""
    count, rows = len(ranks_of(group, what)), shape[0] if shape else 1
    found = [rows // count] * count if sizes is None else list(ints(sizes, what, name))
    if len(found) != count or sum(found) != rows:
        raise ValueError(f"For '{what}', '{name}' must hold the rows for each of {count} "
                         f"processes, {rows} together, but got {sizes!r}.")
    return found


def all_reduce(
    tensor: Tensor, op: str = "sum", group: str | None = None, async_op: bool = False
) -> Any:
    """Change `tensor` in place to the sum (`op`: sum, max, min, prod) over all processes of a
    group. With `async_op`, a handle to wait for."""
    what = "all_reduce"
    ranks_of(group, what)
    collectives.checked_reduction(op, what)
    return _store(tensor, what, async_op, tensor, lambda x: collectives.all_reduce(x, op, group))


def reduce(
    tensor: Tensor, dst: int, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Change `tensor` of the process `dst` in place to the sum (`op`: sum, max, min, prod) over all
    processes of a group."""
    what = "reduce"
    a_rank(dst, "dst", what, ranks_of(group, what))
    collectives.checked_reduction(op, what)
    return _exchange(what, async_op, [tensor], lambda x: collectives.reduce(x, dst, op, group),
                     lambda total: _write(tensor, total, what) if world().rank == dst else None)


def broadcast(
    tensor: Tensor, src: int, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Change `tensor` in place to that of the process `src`, in all processes of a group; shapes
    and types must agree."""
    what = "broadcast"
    a_rank(src, "src", what, ranks_of(group, what))
    return _exchange(what, async_op, [tensor], lambda x: collectives.broadcast(x, src, group),
                     lambda found: _write(tensor, found, what))


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Write the tensors of all processes of a group into the tensors of `tensor_list`, in the order
    of the processes. With `async_op`, a handle to wait for."""
    what = "all_gather"
    places = _list(tensor_list, "tensor_list", what, group)
    return _exchange(
        what, async_op, [as_tensor(tensor, what, "tensor")],
        lambda x: collectives.all_gather(shapes.expand_dims(x, 0), group),
        lambda found: _write_all(places, [found[i] for i in range(len(places))], what))


def all_gather_into_tensor(
    output_tensor: Tensor | None, input_tensor: Tensor, group: str | None = None,
    async_op: bool = False,
) -> Any:
    """The tensors of the processes along the first axis, written into `output_tensor`; a handle,
    or None."""
    what = "all_gather_into_tensor"
    ranks_of(group, what)
    return _store(output_tensor, what, async_op, as_tensor(input_tensor, what, "input_tensor"),
                  lambda x: collectives.all_gather(x, group))


def all_gather_into_tensor_uneven(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Join the tensors of all processes along axis 0 in `output`, as `all_gather_into_tensor` does,
    where their numbers of rows differ: `output_split_sizes` has them."""
    what = "all_gather_into_tensor_uneven"
    as_tensor(output, what, "output")
    receive = _parts(output, output_split_sizes, "output_split_sizes", what, group)
    return _exchange(what, async_op, [as_tensor(input, what, "input")],
                     lambda x: collectives.all_gather_rows(x, receive, group),
                     lambda found: _write(output, found, what))


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: str = "sum", group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's part of the sums (or `op`) over the processes, written into `output`."""
    what = "reduce_scatter"
    given = joining.stack(_list(input_list, "input_list", what, group), 0)
    collectives.checked_reduction(op, what)
    return _exchange(what, async_op, [given], lambda x: collectives.reduce_scatter(x, op, group),
                     lambda total: _write(output, total[0], what))


def reduce_scatter_tensor(
    output: Tensor | None, input: Tensor, op: str = "sum", group: str | None = None,
    async_op: bool = False,
) -> Any:
    """This process's rows of the sum (or `op`) over the processes, written into `output`; a
    handle, or None."""
    what = "reduce_scatter_tensor"
    ranks_of(group, what)
    collectives.checked_reduction(op, what)
    return _store(output, what, async_op, as_tensor(input, what, "input"),
                  lambda x: collectives.reduce_scatter(x, op, group))


def reduce_scatter_tensor_uneven(
    output: Tensor, input: Tensor, input_split_sizes: Any = None, op: str = "sum",
    group: str | None = None, async_op: bool = False,
) -> CommHandle | None:
    """Add up the tensors of all processes and write the own part of the rows into `output`, as
    `reduce_scatter_tensor` does, where parts differ in rows: `input_split_sizes` has them."""
    what = "reduce_scatter_tensor_uneven"
    as_tensor(input, what, "input")
    sizes = _parts(input, input_split_sizes, "input_split_sizes", what, group)
    collectives.checked_reduction(op, what)
    return _exchange(what, async_op, [input],
                     lambda x: collectives.reduce_scatter_rows(x, sizes, op, group),
                     lambda total: _write(output, total, what))


def gather(
    tensor: Tensor, gather_list: list[Tensor], dst: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """The tensors of the processes, written into those of `gather_list` of the process `dst`."""
    what = "gather"
    a_rank(dst, "dst", what, ranks_of(group, what))
    places = _list(gather_list, "gather_list", what, group) if world().rank == dst else []
    return _exchange(
        what, async_op, [as_tensor(tensor, what, "tensor")],
        lambda x: collectives.gather(shapes.expand_dims(x, 0), dst, group),
        lambda found: _write_all(places, [found[i] for i in range(len(places))], what))


def gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, dst: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """The tensors of the processes along the first axis, written into `output_tensor` of the
    process `dst`."""
    what = "gather_into_tensor"
    found = collectives.gather(as_tensor(input_tensor, what, "input_tensor"), dst, group)
    if world().rank == dst:
        _write(output_tensor, found, what)
    return handle(async_op, what)


def scatter_tensor(
    output_tensor: Tensor, input_tensor: Tensor, src: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's rows of `input_tensor` of the process `src`, written into `output_tensor`."""
    what = "scatter_tensor"
    given = as_tensor(input_tensor, what, "input_tensor")
    _write(output_tensor, collectives.scatter(given, src, group), what)
    return handle(async_op, what)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor], src: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's tensor of `scatter_list` of the process `src`, written into `tensor`."""
    what = "scatter"
    a_rank(src, "src", what, ranks_of(group, what))
    given = _list(scatter_list, "scatter_list", what, group) if world().rank == src \
        else [tensor] * len(ranks_of(group, what))
    return _exchange(what, async_op, [joining.stack(given, 0)],
                     lambda x: collectives.scatter(x, src, group),
                     lambda found: _write(tensor, found[0], what))


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Each process's tensors for this one, written into those of `output_tensor_list`."""
    what = "all_to_all"
    places = _list(output_tensor_list, "output_tensor_list", what, group)
    given = _list(input_tensor_list, "input_tensor_list", what, group)
    shapes = [p.shape for p in places]
    return _exchange(what, async_op, given,
                     lambda *xs: collectives.all_to_all_tensors(xs, shapes, group),
                     lambda found: _write_all(places, found, what))


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: str | None = None, async_op: bool = False,
) -> CommHandle | None:
    """Scatter the rows of `input` to all processes, and write the rows received from each into
    `output`."""
    what = "all_to_all_single"
    as_tensor(output, what, "output")
    as_tensor(input, what, "input")
    receive = _parts(output, output_split_sizes, "output_split_sizes", what, group)
    send_sizes = _parts(input, input_split_sizes, "input_split_sizes", what, group)
    return _exchange(what, async_op, [input],
                     lambda x: collectives.all_to_all_rows(x, send_sizes, receive, group),
                     lambda found: _write(output, found, what))


def all_to_all_v_c(
    output: Tensor, input: Tensor, send_count_matrix: Any, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Each process's elements for this one, written into `output`.

    Args:
        send_count_matrix: how many elements rank i sends to rank j, at i * n + j: a list or a
            Tensor, the same on all processes.
    """
    what = "all_to_all_v_c"
    as_tensor(output, what, "output")
    as_tensor(input, what, "input")
    send_sizes, receive = collectives.matrix_sizes(send_count_matrix, group, what)
    _write(output, collectives.all_to_all_rows(input, send_sizes, receive, group), what)
    return handle(async_op, what)


def barrier(
    group: str | None = None, async_op: bool = False, device_ids: Any = None
) -> CommHandle | None:
    """Wait until all processes of a group have called `barrier`: what each did before is done."""
    ranks_of(group, "barrier")
    return _exchange("barrier", async_op, [], lambda: collectives.barrier(group), lambda _: None)


# --- messages -------------------------------------------------------------------------------------


def send(tensor: Tensor, dst: int = 0, group: str | None = None, tag: int = 0) -> int:
    """Send a tensor to the process `dst`, which calls `recv` for one of its shape and type; returns
    0."""
    collectives.send(tensor, dst, tag, group)
    return 0


def recv(tensor: Tensor, src: int = 0, group: str | None = None, tag: int = 0) -> Any:
    """Change `tensor` in place to what the process `src` sends with `send`; returns 0. Shapes and
    types must agree."""
    as_tensor(tensor, "recv", "tensor")
    found = collectives.receive(tensor.shape, tensor.dtype, src, tag, group)
    if "recv" in _apart:
        return found
    _write(tensor, found, "recv")
    return 0


def isend(tensor: Tensor, dst: int = 0, group: str | None = None, tag: int = 0) -> CommHandle:
    """`send` that returns at once: a handle, whose `wait` returns when the tensor may be
    changed."""
    collectives.send(tensor, dst, tag, group)
    return CommHandle()


def irecv(tensor: Tensor, src: int = 0, group: str | None = None, tag: int = 0) -> Any:
    """`recv` that returns at once: `tensor` is what was sent when `wait` of the handle has
    returned."""
    as_tensor(tensor, "irecv", "tensor")
    collectives.a_tag(tag, "irecv")
    collectives.another_rank(src, "src", "irecv", group)
    apart = "irecv" in _apart
    out = zeros_like(tensor) if apart else tensor

    def finish() -> None:
        out.copy_(collectives.receive(tensor.shape, tensor.dtype, src, tag, group))

    return (out, CommHandle(finish)) if apart else CommHandle(finish)


@names_itself
class P2POp:
    """One message of `batch_isend_irecv`.

    Args:
        op: `"isend"` or `"irecv"`, or the function.
        tensor: what is sent; of the type and shape of what comes.
        peer: the other process.
        group, tag: see `isend`.
        recv_dtype: of what comes, if it is not that of `tensor`.
    """

    def __init__(
        self, op: Any, tensor: Any, peer: int, group: str | None = None, tag: int = 0,
        recv_dtype: Any = None,
    ) -> None:
        name = op if isinstance(op, str) else getattr(op, "__name__", "")
        if name not in ("isend", "irecv"):
            raise misuse("P2POp", "'op' must be isend or irecv", repr(op), TypeError)
        INT(peer, "P2POp", "peer")
        self.op, self.tensor, self.peer = name, tensor, peer
        self.group, self.tag, self.recv_dtype = group, tag, recv_dtype


def send_all(p2p_op_list: Any) -> None:
    """Return the operands of a list of messages."""
    if not isinstance(p2p_op_list, (list, tuple)) or not p2p_op_list or not all(
            isinstance(p, P2POp) for p in p2p_op_list):
        raise misuse("batch_isend_irecv", "'p2p_op_list' must be a list of P2POp",
                     repr(p2p_op_list), TypeError)
    if len({p.group or _WORLD for p in p2p_op_list}) > 1:
        raise misuse("batch_isend_irecv", "all of 'p2p_op_list' must be of one group",
                     [p.group for p in p2p_op_list], TypeError)
    for p in p2p_op_list:
        if p.op == "isend":
            collectives.send(p.tensor, p.peer, p.tag, p.group)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[CommHandle]:
    """Messages to and from other processes. All that is sent goes first; then what comes is written
    into the tensors of the list.

    Returns:
        One handle, of what is done.
    """
    send_all(p2p_op_list)
    for p in p2p_op_list:
        if p.op == "irecv":
            _write(p.tensor, collectives.receive(p.tensor.shape, p.tensor.dtype, p.peer, p.tag,
                                                 p.group), "batch_isend_irecv")
    return [CommHandle()]


# --- collectives of objects -----------------------------------------------------------------------


def _pickle(obj: Any) -> Tensor:
    """An object as bytes. The processes are parts of one program: they trust one another."""
    return tensor_of(np.frombuffer(pickle.dumps(obj), np.uint8).copy())


def _all_objects(obj: Any, group: Any) -> list[Any]:
    """The object of each process."""
    own = _pickle(obj)
    count = len(ranks_of(group, "all_gather_object"))
    sizes = collectives.all_gather(tensor_of(np.array([own.size], np.int64)), group).asnumpy()
    copies = joining.concat([own] * count, 0)
    rows = collectives.all_to_all_rows(copies, [own.size] * count, sizes.tolist(), group).asnumpy()
    return [pickle.loads(part.tobytes()) for part in np.split(rows, np.cumsum(sizes)[:-1])]


def _fill(objects: Any, found: Sequence[Any], name: str, what: str) -> None:
    """Write objects into a list."""
    if not isinstance(objects, list) or len(objects) != len(found):
        raise misuse(what, f"'{name}' must be a list of as many objects as come, {len(found)}",
                     repr(objects), TypeError)
    objects[:] = found


def all_gather_object(object_list: list[Any], obj: Any, group: str | None = None) -> None:
    """Write the objects of all processes of a group into `object_list`, in the order of the
    processes; they are pickled."""
    _fill(object_list, _all_objects(obj, group), "object_list", "all_gather_object")


def broadcast_object_list(
    object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None
) -> None:
    """Change `object_list` in place to the objects of the process `src`, in all processes of a
    group; they are pickled."""
    what = "broadcast_object_list"
    ranks = ranks_of(group, what)
    instance(list)(object_list, what, "object_list")
    found = _all_objects(object_list, group)[ranks.index(a_rank(src, "src", what, ranks))]
    _fill(object_list, found, "object_list", what)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: str | None = None
) -> None:
    """The objects of the processes, written into `object_gather_list` of the process `dst`."""
    what = "gather_object"
    a_rank(dst, "dst", what, ranks_of(group, what))
    found = _all_objects(obj, group)
    if world().rank == dst:
        _fill(object_gather_list, found, "object_gather_list", what)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None,
    src: int = 0, group: str | None = None,
) -> None:
    """This process's object of the list of the process `src`, written into the first place."""
    what = "scatter_object_list"
    ranks = ranks_of(group, what)
    found = _all_objects(scatter_object_input_list, group)[
        ranks.index(a_rank(src, "src", what, ranks))]
    if not isinstance(found, list) or len(found) != len(ranks):
        raise misuse(what, "'scatter_object_input_list' must be a list of as many objects as "
                     f"there are processes, {len(ranks)}", repr(found), TypeError)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise misuse(what, "'scatter_object_output_list' must be a list with a place",
                     repr(scatter_object_output_list), TypeError)
    scatter_object_output_list[0] = found[ranks.index(world().rank)]


def send_object_list(
    object_list: list[Any], dst: int, group: str | None = None, device: Any = None
) -> None:
    """Send a list of objects, pickled, to the process `dst`, which calls `recv_object_list`."""
    data = _pickle(object_list)
    collectives.send(tensor_of(np.array([data.size], np.int64)), dst, 0, group)
    collectives.send(data, dst, 0, group)


def recv_object_list(
    object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None
) -> None:
    """Change `object_list` in place to the objects that the process `src` sends; they are
    pickled."""
    size = int(collectives.receive((1,), int64, src, 0, group).asnumpy()[0])
    data = collectives.receive((size,), uint8, src, 0, group).asnumpy()
    _fill(object_list, pickle.loads(data.tobytes()), "object_list", "recv_object_list")


__all__ = [
    "P2POp", "TCPStore", "all_gather", "all_gather_into_tensor", "all_gather_into_tensor_uneven",
    "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single", "all_to_all_v_c",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "destroy_process_group",
    "gather", "gather_into_tensor", "gather_object", "get_backend", "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size",
    "init_process_group", "irecv",
    "is_available", "is_initialized", "isend", "new_group", "recv", "recv_object_list", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_tensor_uneven", "scatter",
    "scatter_object_list", "scatter_tensor", "send", "send_object_list", "set_comm_ops_inplace",
]
__dir__ = public_names(__name__)
