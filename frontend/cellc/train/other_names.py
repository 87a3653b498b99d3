"""Names of MindSpore's top level about files of its own, clusters and dumps."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellc_runtime.errors import ArtifactError
from cellc_runtime.files import read_file, write_atomically
from cellc_runtime.lazy import lazy_imports

from ..core.absent import absent
from ..core.declared import checks_arguments, instance
from ..devices import empty_cache
from ..nn.cell import Cell
from ..ops.primitive import Primitive

with lazy_imports(__name__):  # what reads MindIR files
    from ..mindir import proto

_ONE_DEVICE = "Not on one device: it {}."
_OWN_FILES = "Not for cellc's files: it {}."


def _cluster(name: str, what: str, instead: str) -> Callable[..., Any]:
    return absent(name, f"{what}, but cellc trains on one device: {instead}.",
                  _ONE_DEVICE.format(what))


def _file(name: str, what: str, instead: str) -> Callable[..., Any]:
    return absent(name, f"{what}, which cellc's files are not: {instead}.", _OWN_FILES.format(what))


SummaryLandscape = _cluster(
    "SummaryLandscape", "draws the landscape of a loss from several processes",
    "SummaryCollector records the loss")
export_split_mindir = _cluster(
    "export_split_mindir", "splits a file over devices", "export writes one for it")
flops_collection = _cluster(
    "flops_collection", "counts operations of a graph of Ascend devices", "see cellc.profile")
load_obf_params_into_net = _file(
    "load_obf_params_into_net", "reads obfuscated checkpoints",
    "use load_checkpoint and load_param_into_net, and encrypt files outside")
obfuscate_ckpt = _file(
    "obfuscate_ckpt", "obfuscates checkpoints", "use save_checkpoint, and encrypt files outside")


@checks_arguments
def load_mindir(file_name: str) -> proto.ModelProto:
    """A MindIR file as an object: what it says about itself can be read and changed, its graphs
    are kept. `load` gives the network.

    Args:
        file_name: the file.

    Raises:
        ValueError: it cannot be read, or is no MindIR file.

    Source: `mindspore.load_mindir`.
    """
    try:
        return proto.ModelProto(read_file(file_name))
    except (OSError, ArtifactError) as e:
        raise ValueError(f"For 'load_mindir', {file_name} cannot be read: {e}.") from e


@checks_arguments
def save_mindir(model: Any, file_name: str) -> None:
    """Write what `load_mindir` has given to a file.

    Args:
        model: the object.
        file_name: the file; `.mindir` is added if it is missing, and its folder is made.

    Raises:
        TypeError: `model` is something else, or holds other things than texts.
        ValueError: the file cannot be written.

    Source: `mindspore.save_mindir`.
    """
    instance(proto.ModelProto)(model, "save_mindir", "model")
    pieces = model.pieces()
    path = file_name if file_name.endswith(".mindir") else f"{file_name}.mindir"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        write_atomically(path, pieces)
    except OSError as e:
        raise ValueError(f"For 'save_mindir', {path} cannot be written: {e}.") from e


def get_ckpt_path_with_strategy(cur_ckpt_path: str, cur_strategy_path: str) -> str | None:
    """A checkpoint that this device can read: the one that is named, if it is there.

    Args:
        cur_ckpt_path: the checkpoint.
        cur_strategy_path: the file of the strategy that it was written under.

    Returns:
        The checkpoint, None if it is not there.

    Raises:
        FileNotFoundError: the strategy is not there.
    """
    if not Path(cur_strategy_path).exists():
        raise FileNotFoundError("For 'get_ckpt_path_with_strategy', there is no strategy "
                                f"{cur_strategy_path!r}.")
    return cur_ckpt_path if Path(cur_ckpt_path).exists() else None


@checks_arguments
def mindio_preload(ckpt_file_name: str) -> bool:
    """Read a checkpoint ahead: False, as there is no MindIO server to do it."""
    return False


@checks_arguments
def set_mindio_server_info(data_block_pool_capacity_in_gb: int = 100) -> None:
    """The size of a MindIO server's memory: checked; there is no such server."""


def ms_memory_recycle() -> None:
    """Free what nothing refers to any more."""
    gc.collect()
    empty_cache()


def set_dump(target: Any, enabled: bool = True) -> None:
    """Whether an Ascend device dumps the data of a Cell or Primitive: the attribute `dump` of the
    Primitive, or of all that the Cell holds, and the flag of its Cells. A CPU dumps none.

    Args:
        target: a Cell or Primitive.
        enabled: whether it does.

     To see values on the CPU, use `watch_ranges` or a hook.
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
