"""Names of MindSpore's top level about files of its own, clusters and dumps."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.absent import absent
from ..core.declared import checks_arguments
from ..devices import empty_cache
from ..nn.cell import Cell
from ..ops.primitive import Primitive

_ONE_DEVICE = "Not on one device: it {}."
_OWN_FILES = "Not for cellc's files: it {}."


def _cluster(name: str, what: str, instead: str) -> Callable[..., Any]:
    return absent(name, f"{what}, but cellc trains on one device: {instead}.",
                  _ONE_DEVICE.format(what))


def _file(name: str, what: str, instead: str) -> Callable[..., Any]:
    return absent(name, f"{what}, which cellc's files are not: {instead}.",
                  _OWN_FILES.format(what))


SummaryLandscape = _cluster(
    "SummaryLandscape", "draws the landscape of a loss from several processes",
    "SummaryCollector records the loss")
export_split_mindir = _cluster(
    "export_split_mindir", "splits a file over devices", "export writes one for it")
flops_collection = _cluster(
    "flops_collection", "counts operations of a graph of Ascend devices", "see cellc.profile")
load_mindir = _file("load_mindir", "reads a file as MindSpore's protobuf", "use load")
save_mindir = _file("save_mindir", "writes MindSpore's protobuf", "use export")
load_obf_params_into_net = _file(
    "load_obf_params_into_net", "reads obfuscated checkpoints",
    "use load_checkpoint and load_param_into_net, and encrypt files outside")
obfuscate_ckpt = _file(
    "obfuscate_ckpt", "obfuscates checkpoints", "use save_checkpoint, and encrypt files outside")


def get_ckpt_path_with_strategy(cur_ckpt_path: str, cur_strategy_path: str) -> str | None:
    """A checkpoint that this device can read: the one that is named, if it is there.

    Args:
        cur_ckpt_path: the checkpoint.
        cur_strategy_path: the file of the strategy that it was written under.

    Returns:
        The checkpoint, None if it is not there.

    Raises:
        FileNotFoundError: the strategy is not there.

    Source: `mindspore.get_ckpt_path_with_strategy`.
    """
    if not Path(cur_strategy_path).exists():
        raise FileNotFoundError("For 'get_ckpt_path_with_strategy', there is no strategy "
                                f"{cur_strategy_path!r}.")
    return cur_ckpt_path if Path(cur_ckpt_path).exists() else None


@checks_arguments
def mindio_preload(ckpt_file_name: str) -> bool:
    """Read a checkpoint ahead: False, as there is no MindIO server to do it.

    Source: `mindspore.mindio_preload`.
    """
    return False


@checks_arguments
def set_mindio_server_info(data_block_pool_capacity_in_gb: int = 100) -> None:
    """The size of a MindIO server's memory: checked; there is no such server.

    Source: `mindspore.set_mindio_server_info`.
    """


def ms_memory_recycle() -> None:
    """Free what nothing refers to any more. Source: `mindspore.ms_memory_recycle`."""
    gc.collect()
    empty_cache()


def set_dump(target: Any, enabled: bool = True) -> None:
    """Whether an Ascend device dumps the data of a Cell or Primitive: the attribute `dump` of the
    Primitive, or of all that the Cell holds, and the flag of its Cells. A CPU dumps none.

    Args:
        target: a Cell or Primitive.
        enabled: whether it does.

    Source: `mindspore.set_dump`. To see values on the CPU, use `watch_ranges` or a hook.
    """
    if not isinstance(target, (Cell, Primitive)):
        raise ValueError('The "target" parameter must be an instance of Cell or Primitive, but got '
                         f"an instance of {type(target)}.")
    if not isinstance(enabled, bool):
        raise ValueError('The "enabled" parameter must be bool, but got '
                         f"{type(enabled).__name__}.")
    cells = [cell for _, cell in target.cells_and_names()] if isinstance(target, Cell) else []
    for cell in cells:
        cell.add_flags(dump=enabled)
    held = [value for cell in cells for value in vars(cell).values()]
    for primitive in [value for value in [target, *held] if isinstance(value, Primitive)]:
        primitive.add_prim_attr("dump", str(enabled).lower())


__all__ = [
    "SummaryLandscape", "export_split_mindir", "flops_collection", "get_ckpt_path_with_strategy",
    "load_mindir", "load_obf_params_into_net", "mindio_preload", "ms_memory_recycle",
    "obfuscate_ckpt", "save_mindir", "set_dump", "set_mindio_server_info",
]
