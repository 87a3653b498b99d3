"""Which gradients are sent together: the settings `comm_fusion` and `all_reduce_fusion_config`.

Source: `mindspore.set_auto_parallel_context`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.declared import BOOL

_MEGABYTE = 1 << 20
_MODES = {"allreduce": ("auto", "size", "index"), "allgather": ("auto", "size"),
          "reducescatter": ("auto", "size")}


def checked_indices(indices: Sequence[Any], name: str) -> None:
    """Refuse what are no places of gradients in ascending order."""
    what = f"For 'set_auto_parallel_context', '{name}'"
    if not isinstance(indices, list) or any(
            isinstance(i, bool) or not isinstance(i, int) for i in indices):
        raise TypeError(f"{what} must be a list of ints, but got {indices!r}.")
    if not indices or indices[0] < 0 or sorted(set(indices)) != indices:
        raise ValueError(f"{what} must hold places of gradients, from 0, in ascending order, but "
                         f"got {indices!r}.")


def merged(old: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The setting `comm_fusion` with what is given in place of what was there."""
    for key, value in given.items():
        if key == "openstate":
            BOOL(value, "comm_fusion", "openstate")
        elif key in _MODES:
            _check_fusion(key, value)
        else:
            raise KeyError("comm fusion type must be openstate,allreduce, allgather or "
                           f"reducescatter, but got {key}")
    return {**old, "openstate": True, **given}


def _check_fusion(kind: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"For 'comm_fusion', {kind} config must be dict, but got the type : "
                        f"{type(value)}.")
    for key in ("mode", "config"):
        if key not in value:
            raise KeyError(f"For 'comm_fusion', the key '{key}' should be contained.")
    mode, config = value["mode"], value["config"]
    if mode not in _MODES[kind]:
        raise KeyError(f"fusion method mode must be one of {_MODES[kind]}, but got {mode}")
    if mode == "index":
        checked_indices(config, f"comm_fusion[{kind!r}]['config']")
    elif mode == "size":
        if isinstance(config, bool) or not isinstance(config, int):
            raise TypeError(f"For 'comm_fusion', the 'config' of {kind} must be an int, in MB, but "
                            f"got {config!r}.")
        if config < 0:
            raise ValueError(f"fusion threshold must be larger than 0, but got {config}")


def gradient_fusion(
    comm_fusion: Mapping[str, Any], ends: Sequence[int], usual: int
) -> tuple[int, tuple[int, ...]]:
    """How gradients are sent together: bytes at most, and the places at which a bucket ends
    whatever it holds (where there are some, bytes do not count).

    Args:
        comm_fusion, ends: the settings `comm_fusion` and `all_reduce_fusion_config`.
        usual: the bytes of mode `"auto"`.
    """
    if not comm_fusion["openstate"]:
        return 0, ()
    mode, config = comm_fusion["allreduce"]["mode"], comm_fusion["allreduce"]["config"]
    if mode == "index":
        return usual, tuple(config)
    return (config * _MEGABYTE if mode == "size" else usual), tuple(ends)
