"""Who takes part: one process, rank 0 of 1. Source: `mindspore.communication`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
MCCL_WORLD_COMM_GROUP = "mccl_world_group"
_WORLD = (HCCL_WORLD_COMM_GROUP, NCCL_WORLD_COMM_GROUP, MCCL_WORLD_COMM_GROUP)
_COUNTS = ("RANK_SIZE", "MS_WORKER_NUM", "OMPI_COMM_WORLD_SIZE", "WORLD_SIZE")
_groups: set[str] = set()


class GlobalComm:
    """The group of all processes, and whether it was set up."""

    BACKEND = "mccl"
    WORLD_COMM_GROUP = MCCL_WORLD_COMM_GROUP
    INITED = False
    CHECK_ENVS = True


def init(backend_name: str | None = None) -> None:
    """Set up the group of all processes: this one.

    Args:
        backend_name: `"mccl"`; `"hccl"` and `"nccl"` are of other devices.

    Raises:
        TypeError: no string.
        ValueError: another name.
        RuntimeError: a backend of another device, or a launcher has started several processes.
    """
    if backend_name is not None:
        if not isinstance(backend_name, str):
            raise TypeError("For 'init', the argument 'backend_name' must be a string, but got the "
                            f"type : {type(backend_name)}")
        if backend_name != "mccl":
            raise RuntimeError(
                "For 'init', the argument 'backend_name' must be 'mccl', that of the CPU, but got "
                f"{backend_name!r}: 'hccl' and 'nccl' connect Ascend devices and GPUs, on which "
                "this installation does not run."
            )
    for name in _COUNTS:
        count = os.environ.get(name, "")
        if count.isdigit() and int(count) > 1:
            raise RuntimeError(
                f"For 'init', {name}={count} says that {count} processes take part, but cellc "
                "trains in one process. Start the script without a launcher (msrun, mpirun)."
            )
    GlobalComm.INITED = True


def release() -> None:
    """Leave the group of all processes; the groups made since `init` end."""
    GlobalComm.INITED = False
    _groups.clear()


def _known(group: Any, what: str) -> None:
    if not isinstance(group, str):
        raise TypeError(f"For '{what}', the argument 'group' must be type of string, but got "
                        f"'group' type : {type(group)}.")
    if group not in _WORLD and group not in _groups:
        raise ValueError(
            f"For '{what}', there is no group {group!r}; there are {_WORLD[-1]!r} and those that "
            f"'create_group' made: {sorted(_groups)}."
        )


def _zero(rank: Any, name: str, what: str) -> None:
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise TypeError(f"For '{what}', the argument '{name}' must be int, but got {type(rank)}.")
    if rank != 0:
        raise ValueError(f"For '{what}', '{name}' must be 0 where one process runs, but got {rank}."
                         )


def get_rank(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """This process's number in a group: 0.

    Raises:
        TypeError, ValueError: no group's name.
    """
    _known(group, "get_rank")
    return 0


def get_local_rank(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """This process's number among those of a group on this machine: 0."""
    _known(group, "get_local_rank")
    return 0


def get_group_size(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """How many processes are in a group: 1."""
    _known(group, "get_group_size")
    return 1


def get_local_rank_size(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """How many processes of a group are on this machine: 1."""
    _known(group, "get_local_rank_size")
    return 1


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """The number among all processes of one of a group: 0."""
    _known(group, "get_world_rank_from_group_rank")
    _zero(group_rank_id, "group_rank_id", "get_world_rank_from_group_rank")
    return 0


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """The number in a group of one of all processes: 0."""
    _zero(world_rank_id, "world_rank_id", "get_group_rank_from_world_rank")
    _known(group, "get_group_rank_from_world_rank")
    return 0


def get_process_group_ranks(group: str = HCCL_WORLD_COMM_GROUP) -> list[int]:
    """The numbers of the processes of a group: [0]."""
    _known(group, "get_process_group_ranks")
    return [0]


def get_comm_name(group: str = HCCL_WORLD_COMM_GROUP) -> str:
    """How the backend calls a group: by its name."""
    _known(group, "get_comm_name")
    return group


def create_group(group: str, rank_ids: Sequence[int], options: Any = None) -> None:
    """Make a group of processes, which can be this one only.

    Raises:
        TypeError: no name, or no list.
        RuntimeError: the group has other processes, or is there already.
    """
    if not isinstance(group, str) or not isinstance(rank_ids, (list, tuple)):
        raise TypeError("For 'create_group', 'group' must be a string and 'rank_ids' a list, but "
                        f"got {group!r} and {rank_ids!r}.")
    if list(rank_ids) != [0]:
        raise RuntimeError(
            f"For 'create_group', 'rank_ids' must be [0], the one process that runs, but got "
            f"{list(rank_ids)}."
        )
    if group in _WORLD or group in _groups:
        raise RuntimeError(f"For 'create_group', there is a group {group!r} already.")
    _groups.add(group)


def destroy_group(group: str) -> None:
    """End a group that `create_group` made.

    Raises:
        TypeError, ValueError: no group's name, or that of all processes.
    """
    _known(group, "destroy_group")
    if group in _WORLD:
        raise ValueError("For 'destroy_group', the group of all processes cannot be destroyed.")
    _groups.discard(group)


__all__ = [
    "HCCL_WORLD_COMM_GROUP", "MCCL_WORLD_COMM_GROUP", "NCCL_WORLD_COMM_GROUP", "GlobalComm",
    "create_group", "destroy_group", "get_comm_name", "get_group_rank_from_world_rank",
    "get_group_size", "get_local_rank", "get_local_rank_size", "get_process_group_ranks",
    "get_rank", "get_world_rank_from_group_rank", "init", "release",
]
