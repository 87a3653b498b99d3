"""The ranks: those that MPI started, or one process. Source: `mindspore.communication`."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any

from cellc_runtime.world import world

from ..core.declared import instance
from . import groups
from .groups import (
    HCCL_WORLD_COMM_GROUP,
    MCCL_WORLD_COMM_GROUP,
    NCCL_WORLD_COMM_GROUP,
    a_rank,
    rank_in,
    ranks_of,
)


class GlobalComm:
    """The group of all processes, and whether it was set up."""

    BACKEND = "mccl"
    WORLD_COMM_GROUP = MCCL_WORLD_COMM_GROUP
    INITED = False
    CHECK_ENVS = True


def init(backend_name: str | None = None) -> None:
    """Set up the group of all processes: those that `mpirun` started, or this one.

    Args:
        backend_name: `"mccl"`; `"hccl"` and `"nccl"` are of other devices.

    Raises:
        RuntimeError: a backend of another device; a launcher other than MPI's, or no mpi4py.
    """
    if backend_name is not None:
        instance(str)(backend_name, "init", "backend_name")
        if backend_name != "mccl":
            raise RuntimeError("For 'init', the argument 'backend_name' must be 'mccl', that of "
                               f"the CPU, but got {backend_name!r}: 'hccl' and 'nccl' connect "
                               "Ascend devices and GPUs, on which this installation does not run.")
    groups.connect("init")
    GlobalComm.INITED = True


def release() -> None:
    """Leave the group of all processes; the groups made since `init` end."""
    GlobalComm.INITED = False
    groups.disconnect()


def get_rank(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """This process's number in a group.

    Raises:
        RuntimeError: this process is not in it.
    """
    return rank_in(group, "get_rank")


def get_group_size(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """How many processes are in a group."""
    return len(ranks_of(group, "get_group_size"))


def get_local_rank(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """This process's number among those of a group on this machine."""
    rank_in(group, "get_local_rank")
    return _on_this_machine(group, "get_local_rank").index(world().rank)


def get_local_rank_size(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """How many processes of a group are on this machine."""
    return len(_on_this_machine(group, "get_local_rank_size"))


def _on_this_machine(group: str, what: str) -> list[int]:
    return [r for r in ranks_of(group, what) if r in world().near]


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """The number among all processes of one of a group."""
    what = "get_world_rank_from_group_rank"
    ranks = ranks_of(group, what)
    return ranks[a_rank(group_rank_id, "group_rank_id", what, range(len(ranks)))]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """The number in a group of one of all processes."""
    what = "get_group_rank_from_world_rank"
    ranks = ranks_of(group, what)
    return ranks.index(a_rank(world_rank_id, "world_rank_id", what, ranks))


def get_process_group_ranks(group: str = HCCL_WORLD_COMM_GROUP) -> list[int]:
    """The numbers of the processes of a group."""
    return list(ranks_of(group, "get_process_group_ranks"))


def get_comm_name(group: str = HCCL_WORLD_COMM_GROUP) -> str:
    """How the backend calls a group: by its name."""
    ranks_of(group, "get_comm_name")
    return group


class GroupOptions:
    """Options of a group for other devices' libraries (`hccl_config`): MPI has none of them."""

    def __init__(self) -> None:
        self.hccl_config: dict[str, Any] = {}


def create_group(
    group: str, rank_ids: Sequence[int], options: GroupOptions | None = None
) -> None:
    """Make a group of processes. All of them call it.

    Args:
        group: its name.
        rank_ids: the processes, by their numbers among all.
        options: a GroupOptions, of other devices' libraries; without effect here.

    Raises:
        ValueError: a process that there is not, or one twice.
        RuntimeError: the group is there already, or this process is not in it.
    """
    instance(GroupOptions, NoneType)(options, "create_group", "options")
    groups.create(group, rank_ids)


def destroy_group(group: str) -> None:
    """End a group that `create_group` made.

    Raises:
        TypeError, ValueError: no group's name, or that of all processes.
    """
    groups.destroy(group)


__all__ = [
    "HCCL_WORLD_COMM_GROUP", "MCCL_WORLD_COMM_GROUP", "NCCL_WORLD_COMM_GROUP", "GlobalComm",
    "create_group", "destroy_group", "get_comm_name", "get_group_rank_from_world_rank",
    "get_group_size", "get_local_rank", "get_local_rank_size", "get_process_group_ranks",
    "get_rank", "get_world_rank_from_group_rank", "init", "release",
]
