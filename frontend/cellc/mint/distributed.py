"""Processes that work together, with PyTorch's parameters: there is one, rank 0 of 1.

Collectives of one process write their input into their output; sums and other reductions over one
process change nothing. What needs another process (`send`, `recv`) is an error. Source:
`mindspore.mint.distributed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_runtime.lazy import public_names

from ..communication import management as processes
from ..ops.arguments import boolean, is_int
from ..ops.arguments import tensor as as_tensor
from ..tensors.tensor import Tensor

_WORLD = processes.HCCL_WORLD_COMM_GROUP
_BACKENDS = ("hccl", "mccl")
_REDUCTIONS = ("sum", "prod", "max", "min", "avg")


class CommHandle:
    """What a collective with `async_op` returns: it is done already."""

    def wait(self) -> None:
        """Return once the collective is done."""


# --- groups ---------------------------------------------------------------------------------------


def _name(group: Any, what: str) -> str:
    """The name of a group; of all processes if None.

    Raises:
        TypeError: no string.
        ValueError: there is no such group.
    """
    if group is None:
        return _WORLD
    processes._known(group, what)
    return str(group)


def _int_zero(rank: Any, name: str, what: str) -> None:
    """Raise unless `rank` is that of the one process.

    Raises:
        TypeError: no int.
        ValueError: another process.
    """
    if not is_int(rank):
        raise TypeError(
            f"For '{what}', '{name}' must be an int, but got {type(rank).__name__}.")
    if rank != 0:
        raise ValueError(f"For '{what}', '{name}' must be 0, the one process, but got {rank}.")


def init_process_group(
    backend: str = "hccl", init_method: str | None = None, timeout: Any = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None,
) -> None:
    """Set up the group of all processes: this one.

    Args:
        backend: `"hccl"` or `"mccl"`.
        world_size, rank: 1 and 0, or -1 for what is there.
        init_method, timeout, store, group_name, pg_options, device_id: nothing is connected.

    Raises:
        ValueError: another backend, size or rank; both `init_method` and `store`.
        RuntimeError: a launcher has started several processes.
    """
    what = "init_process_group"
    if backend not in _BACKENDS:
        raise ValueError(f"For '{what}', 'backend' must be one of {_BACKENDS}, but got "
                         f"{backend!r}.")
    if init_method is not None and store is not None:
        raise ValueError(f"For '{what}', only one of 'init_method' and 'store' can be given.")
    for value, name, allowed in ((world_size, "world_size", (-1, 1)), (rank, "rank", (-1, 0))):
        if not is_int(value) or value not in allowed:
            raise ValueError(f"For '{what}', '{name}' must be one of {allowed}: cellc runs in one "
                             f"process, but got {value!r}.")
    processes.init()


def destroy_process_group(group: str | None = None) -> None:
    """End a group; all of them if None.

    Raises:
        TypeError, ValueError: no group's name.
    """
    name = _name(group, "destroy_process_group")
    if group is None or name == _WORLD:
        processes.release()
    else:
        processes.destroy_group(name)


def is_available() -> bool:
    """Whether the functions of this module can be used: yes."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return bool(processes.GlobalComm.INITED)


def get_rank(group: str | None = None) -> int:
    """This process's number in a group: 0."""
    return processes.get_rank(_name(group, "get_rank"))


def get_world_size(group: str | None = None) -> int:
    """How many processes are in a group: 1."""
    return processes.get_group_size(_name(group, "get_world_size"))


def get_backend(group: str | None = None) -> str:
    """The backend of a group: `"hccl"`, as MindSpore says where nothing is connected."""
    _name(group, "get_backend")
    return "hccl"


def get_process_group_ranks(group: str | None = None) -> list[int]:
    """The numbers of the processes of a group: [0]."""
    return processes.get_process_group_ranks(_name(group, "get_process_group_ranks"))


def get_global_rank(group: str | None, group_rank: int) -> int:
    """The number among all processes of one of a group: 0."""
    _int_zero(group_rank, "group_rank", "get_global_rank")
    return processes.get_world_rank_from_group_rank(_name(group, "get_global_rank"), group_rank)


def get_group_rank(group: str | None, global_rank: int) -> int:
    """The number in a group of one of all processes: 0."""
    _int_zero(global_rank, "global_rank", "get_group_rank")
    return processes.get_group_rank_from_world_rank(global_rank, _name(group, "get_group_rank"))


def new_group(
    ranks: Sequence[int] | None = None, timeout: Any = None, backend: str | None = None,
    pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None,
) -> str:
    """Make a group of processes, which can be this one only; its name.

    Args:
        ranks: [0]; the group of all processes if None.
        timeout, backend, pg_options, use_local_synchronization, group_desc: without effect.

    Raises:
        TypeError: no list of ints, or a rank twice.
        ValueError: other processes.
    """
    what = "new_group"
    if ranks is None:
        return _WORLD
    if not isinstance(ranks, (list, tuple)) or len(set(ranks)) != len(ranks):
        raise TypeError(f"For '{what}', 'ranks' must be a list of different ints, got {ranks!r}.")
    if list(ranks) != [0]:
        raise ValueError(f"For '{what}', 'ranks' must be [0], the one process, but got {ranks}.")
    count = 0
    while True:
        name = f"{count}-0"
        try:
            processes.create_group(name, [0])
        except RuntimeError:  # there is one already
            count += 1
        else:
            return name


# --- collectives of tensors -----------------------------------------------------------------------


def _one_of(xs: Any, name: str, what: str) -> Tensor:
    """The tensor for the one process in a list.

    Raises:
        TypeError: no list of one Tensor.
    """
    if not isinstance(xs, (list, tuple)) or len(xs) != 1:
        raise TypeError(
            f"For '{what}', '{name}' must be a list of as many Tensors as there are processes, 1, "
            f"but got {len(xs) if isinstance(xs, (list, tuple)) else type(xs).__name__}.")
    return as_tensor(xs[0], what, f"{name}[0]")


def _options(group: Any, async_op: Any, what: str) -> CommHandle | None:
    _name(group, what)
    return CommHandle() if boolean(async_op, what, "async_op") else None


def _reduction(op: Any, what: str) -> None:
    if not isinstance(op, str) or op not in _REDUCTIONS:
        raise TypeError(f"For '{what}', 'op' must be one of {_REDUCTIONS}, but got {op!r}.")


def _write(out: Tensor, x: Tensor, what: str) -> None:
    """Write a tensor into another.

    Raises:
        TypeError: of another type or shape.
    """
    if out.shape != x.shape or out.dtype != x.dtype:
        raise TypeError(
            f"For '{what}', the output must have the type and shape of what arrives, "
            f"{x.dtype} {x.shape}, but is {out.dtype} {out.shape}.")
    out.copy_(x)


def _sizes(sizes: Any, x: Tensor, name: str, what: str) -> None:
    if sizes is not None and (not isinstance(sizes, (list, tuple))
                              or list(sizes) != [x.shape[0] if x.ndim else 1]):
        raise ValueError(
            f"For '{what}', '{name}' must hold the rows for the one process, "
            f"[{x.shape[0] if x.ndim else 1}], but got {sizes!r}.")


def all_reduce(
    tensor: Tensor, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """`tensor` becomes the sum (or `op`) over the processes: it stays as it is."""
    as_tensor(tensor, "all_reduce", "tensor")
    _reduction(op, "all_reduce")
    return _options(group, async_op, "all_reduce")


def reduce(
    tensor: Tensor, dst: int, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """`tensor` of the process `dst` becomes the sum (or `op`) over the processes."""
    as_tensor(tensor, "reduce", "tensor")
    _int_zero(dst, "dst", "reduce")
    _reduction(op, "reduce")
    return _options(group, async_op, "reduce")


def broadcast(
    tensor: Tensor, src: int, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """`tensor` becomes that of the process `src`: it stays as it is."""
    as_tensor(tensor, "broadcast", "tensor")
    _int_zero(src, "src", "broadcast")
    return _options(group, async_op, "broadcast")


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """The tensors of the processes, written into those of `tensor_list`."""
    handle = _options(group, async_op, "all_gather")
    _write(_one_of(tensor_list, "tensor_list", "all_gather"),
           as_tensor(tensor, "all_gather", "tensor"), "all_gather")
    return handle


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """The tensors of the processes along the first axis, written into `output_tensor`."""
    what = "all_gather_into_tensor"
    handle = _options(group, async_op, what)
    _write(as_tensor(output_tensor, what, "output_tensor"),
           as_tensor(input_tensor, what, "input_tensor"), what)
    return handle


def all_gather_into_tensor_uneven(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """`all_gather_into_tensor` of tensors whose numbers of rows differ."""
    what = "all_gather_into_tensor_uneven"
    handle = _options(group, async_op, what)
    _sizes(output_split_sizes, as_tensor(output, what, "output"), "output_split_sizes", what)
    _write(output, as_tensor(input, what, "input"), what)
    return handle


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: str = "sum", group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's part of the sums (or `op`) over the processes, written into `output`."""
    what = "reduce_scatter"
    handle = _options(group, async_op, what)
    _reduction(op, what)
    _write(as_tensor(output, what, "output"), _one_of(input_list, "input_list", what), what)
    return handle


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = "sum", group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's rows of the sum (or `op`) over the processes, written into `output`."""
    what = "reduce_scatter_tensor"
    handle = _options(group, async_op, what)
    _reduction(op, what)
    _write(as_tensor(output, what, "output"), as_tensor(input, what, "input"), what)
    return handle


def reduce_scatter_tensor_uneven(
    output: Tensor, input: Tensor, input_split_sizes: Any = None, op: str = "sum",
    group: str | None = None, async_op: bool = False,
) -> CommHandle | None:
    """`reduce_scatter_tensor` whose parts have different numbers of rows."""
    what = "reduce_scatter_tensor_uneven"
    handle = _options(group, async_op, what)
    _reduction(op, what)
    _sizes(input_split_sizes, as_tensor(input, what, "input"), "input_split_sizes", what)
    _write(as_tensor(output, what, "output"), input, what)
    return handle


def gather(
    tensor: Tensor, gather_list: list[Tensor], dst: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """The tensors of the processes, written into those of `gather_list` of the process `dst`."""
    handle = _options(group, async_op, "gather")
    _int_zero(dst, "dst", "gather")
    _write(_one_of(gather_list, "gather_list", "gather"), as_tensor(tensor, "gather", "tensor"),
           "gather")
    return handle


def scatter(
    tensor: Tensor, scatter_list: list[Tensor], src: int = 0, group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """This process's tensor of `scatter_list` of the process `src`, written into `tensor`."""
    handle = _options(group, async_op, "scatter")
    _int_zero(src, "src", "scatter")
    _write(as_tensor(tensor, "scatter", "tensor"),
           _one_of(scatter_list, "scatter_list", "scatter"), "scatter")
    return handle


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Each process's tensors for this one, written into those of `output_tensor_list`."""
    what = "all_to_all"
    handle = _options(group, async_op, what)
    _write(_one_of(output_tensor_list, "output_tensor_list", what),
           _one_of(input_tensor_list, "input_tensor_list", what), what)
    return handle


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: str | None = None, async_op: bool = False,
) -> CommHandle | None:
    """Each process's rows for this one, written into `output`."""
    what = "all_to_all_single"
    handle = _options(group, async_op, what)
    _sizes(output_split_sizes, as_tensor(output, what, "output"), "output_split_sizes", what)
    _sizes(input_split_sizes, as_tensor(input, what, "input"), "input_split_sizes", what)
    _write(output, input, what)
    return handle


def barrier(
    group: str | None = None, async_op: bool = False, device_ids: Any = None
) -> CommHandle | None:
    """Wait for all processes of a group: there is no other."""
    return _options(group, async_op, "barrier")


# --- collectives of objects -----------------------------------------------------------------------


def _place(objects: Any, name: str, what: str) -> list[Any]:
    """A list with a place for the object of the one process.

    Raises:
        TypeError: no list of one.
    """
    if not isinstance(objects, list) or len(objects) != 1:
        raise TypeError(
            f"For '{what}', '{name}' must be a list of as many objects as there are processes, 1, "
            f"but got {objects!r}.")
    return objects


def all_gather_object(object_list: list[Any], obj: Any, group: str | None = None) -> None:
    """The objects of the processes, written into `object_list`."""
    _name(group, "all_gather_object")
    _place(object_list, "object_list", "all_gather_object")[0] = obj


def broadcast_object_list(
    object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None
) -> None:
    """`object_list` becomes that of the process `src`: it stays as it is.

    Raises:
        TypeError: it is no list.
    """
    _name(group, "broadcast_object_list")
    _int_zero(src, "src", "broadcast_object_list")
    if not isinstance(object_list, list):
        raise TypeError("For 'broadcast_object_list', 'object_list' must be a list, but got "
                        f"{type(object_list).__name__}.")


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: str | None = None
) -> None:
    """The objects of the processes, written into the list of the process `dst`."""
    _name(group, "gather_object")
    _int_zero(dst, "dst", "gather_object")
    _place(object_gather_list, "object_gather_list", "gather_object")[0] = obj


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any], src: int = 0,
    group: str | None = None,
) -> None:
    """This process's object of the list of the process `src`, written into the output list.

    Raises:
        TypeError: the output is no list, or empty.
    """
    what = "scatter_object_list"
    _name(group, what)
    _int_zero(src, "src", what)
    given = _place(scatter_object_input_list, "scatter_object_input_list", what)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise TypeError(f"For '{what}', 'scatter_object_output_list' must be a list that is not "
                        f"empty, but got {scatter_object_output_list!r}.")
    scatter_object_output_list[0] = given[0]


# --- what needs another process -------------------------------------------------------------------


def _to_another(peer: Any, name: str, group: Any, what: str) -> Any:
    _name(group, what)
    if not is_int(peer):
        raise TypeError(f"For '{what}', '{name}' must be an int, but got {type(peer).__name__}.")
    raise RuntimeError(
        f"For '{what}', '{name}' must be another process, but cellc runs in one: there is nobody "
        "to exchange with.")


def send(tensor: Tensor, dst: int = 0, group: str | None = None, tag: int = 0) -> None:
    """Send to another process: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another(dst, "dst", group, "send")


def recv(tensor: Tensor, src: int = 0, group: str | None = None, tag: int = 0) -> int:
    """Receive from another process: there is none.

    Raises:
        RuntimeError: always.
    """
    return int(_to_another(src, "src", group, "recv"))


def isend(tensor: Tensor, dst: int = 0, group: str | None = None, tag: int = 0) -> CommHandle:
    """Send to another process without waiting: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another(dst, "dst", group, "isend")
    return CommHandle()


def irecv(tensor: Tensor, src: int = 0, group: str | None = None, tag: int = 0) -> CommHandle:
    """Receive from another process without waiting: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another(src, "src", group, "irecv")
    return CommHandle()


def send_object_list(
    object_list: list[Any], dst: int, group: str | None = None, device: Any = None
) -> None:
    """Send objects to another process: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another(dst, "dst", group, "send_object_list")


def recv_object_list(
    object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None
) -> int:
    """Receive objects from another process: there is none.

    Raises:
        RuntimeError: always.
    """
    return int(_to_another(src, "src", group, "recv_object_list"))


class P2POp:
    """One exchange for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`, or its name.
        tensor: what is sent, or written.
        peer: the other process.
        group: the group of both.
        tag: 0.

    Raises:
        TypeError: arguments of another kind.
        ValueError: another tag.
    """

    def __init__(
        self, op: Any, tensor: Tensor, peer: int, group: str | None = None, tag: int = 0
    ) -> None:
        name = op if isinstance(op, str) else getattr(op, "__name__", None)
        if name not in ("isend", "irecv"):
            raise TypeError(f"For 'P2POp', 'op' must be isend or irecv, but got {op!r}.")
        if not is_int(peer):
            raise TypeError(f"For 'P2POp', 'peer' must be an int, but got {type(peer).__name__}.")
        if tag != 0:
            raise ValueError(f"For 'P2POp', 'tag' must be 0, but got {tag!r}.")
        self.op = name
        self.tensor = as_tensor(tensor, "P2POp", "tensor")
        self.peer = peer
        self.group = group
        self.tag = tag


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[CommHandle]:
    """Exchange with other processes: there are none.

    Raises:
        TypeError: no list of `P2POp`.
        RuntimeError: always, where the list is right.
    """
    if not isinstance(p2p_op_list, list) or not p2p_op_list or \
            not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise TypeError("For 'batch_isend_irecv', 'p2p_op_list' must be a list of P2POp, but got "
                        f"{p2p_op_list!r}.")
    first = p2p_op_list[0]
    return [_to_another(first.peer, "peer", first.group, "batch_isend_irecv")]


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
