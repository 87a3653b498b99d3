"""Checkpoints of several ranks into networks, and parts of parameters put together.

Source: `mindspore.parallel`, "distributed checkpoints".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.protobuf import Message, signed_numbers
from cellc_runtime.world import world

from ..core.declared import instance
from ..nn.cell import Cell
from ..ops.functional import collectives
from ..ranks.layouts import PartLayout, assembled, layout_of, undivided
from ..ranks.settings import get_auto_parallel_context
from ..ranks.strategies import ParallelLayouts, by_parameter, read
from ..tensors.parameter import Parameter
from ..tensors.tensor import host_arrays_of, tensor_of
from .parts import Manifest, layouts_of, written_layouts
from .serialization import load_checkpoint, load_param_into_net, save_checkpoint
from .transforming import build_searched_strategy, kind_of, transformed, unified_entries
from .weights_file import FORMATS
from .weights_file import read as read_weights

Array = np.ndarray[Any, Any]


def load_distributed_checkpoint(
    network: Cell | None, checkpoint_filenames: list[str] | str | None = None,
    predict_strategy: dict[str, Any] | str | None = None,
    train_strategy_filename: str | None = None, strict_load: bool = False,
    dec_key: bytes | None = None, dec_mode: str = "AES-GCM", format: str = "ckpt",
    unified_safetensors_dir: str | None = None, dst_safetensors_dir: str | None = None,
    rank_id: int | None = None, output_format: str = "safetensors",
    name_map: dict[str, str] | None = None, max_process_num: int = 64,
    return_param_dict: bool = False,
) -> Any:
    """Load what several ranks saved, each a part, into a network on any number of ranks.

    Args:
        network: takes this rank's parts. None, with `format="safetensors"`: files are written.
        checkpoint_filenames: the files of the parts in the order of ranks; or the manifest that
            was written with them (see `latest_checkpoint`), which is checked against them; or one
            file that has all of it.
        predict_strategy: the layouts that the network has now, by parameter; a strategy file, with
            `format="safetensors"`. None: those in its `parameter_layout_dict`, else whole.
        train_strategy_filename: the strategy file of the parts. None: the setting
            `strategy_ckpt_load_file`, else what safetensors have in them.
        strict_load: see `load_param_into_net`.
        dec_key, dec_mode: encryption is not supported; a key is an error.
        format: "ckpt" for files of parts; "safetensors" for what `unified_safetensors` wrote.
        unified_safetensors_dir: where that is.
        dst_safetensors_dir: without a network, where `rank_i/net.FORMAT` are written.
        rank_id: without a network, of which rank; None: of all.
        output_format: of these files.
        name_map: what parameters are called in `unified_safetensors_dir`, by name.
        max_process_num: accepted for compatibility.
        return_param_dict: give the parameters instead of loading them.

    Returns:
        True; with `format="safetensors"` and a network the names that got nothing and those it
        does not have, or the parameters.

    Raises:
        ValueError: a file or part is missing (named, with its rank) or damaged, or a strategy is
            wrong. Nothing is loaded then.

    Source: `mindspore.load_distributed_checkpoint`; a manifest is cellc's own.
    """
    what = "load_distributed_checkpoint"
    for given in (format, output_format):
        if given not in FORMATS:
            raise ValueError(f"For '{what}', 'format' and 'output_format' must be 'ckpt' or "
                             f"'safetensors', but got {given}.")
    if dec_key is not None:
        raise ValueError(f"For '{what}', encrypted checkpoints are not supported: leave 'dec_key' "
                         "out.")
    if format == FORMATS[1]:
        for name, value in (("checkpoint_filenames", checkpoint_filenames),
                            ("train_strategy_filename", train_strategy_filename)):
            if value is not None:
                raise ValueError(f"For '{what}', {name} must be None when format is 'safetensors'.")
        return _load_unified(network, unified_safetensors_dir, predict_strategy,
                             dst_safetensors_dir, rank_id, output_format, name_map,
                             return_param_dict)
    instance(Cell)(network, what, "network")
    assert network is not None, "checked above"
    found, have = _parts(checkpoint_filenames, train_strategy_filename, what)
    want = layouts_of(network) if predict_strategy is None else \
        _wanted_layouts(predict_strategy, what)
    names = {p.name for p in network.get_parameters()}
    known = {n: p for n, p in found.items() if n in names}
    load_param_into_net(network, _assemble_parameters(known, have, want), strict_load)
    return True


def _parts(given: Any, strategy: str | None, what: str) -> tuple[dict[str, dict[int, Any]], Any]:
    """The parts of each parameter by rank, and how they are parted."""
    if isinstance(given, str) and given.endswith(tuple(f".{f}" for f in FORMATS)):
        return {n: {0: v} for n, v in read_weights(given, kind_of(given)).items()}, {}
    if isinstance(given, str):
        manifest = Manifest(given)
        read_part: Callable[[int], Any] = manifest.entries
        count, have = len(manifest.parts), manifest.layouts
        if missing := manifest.missing():
            raise ValueError(f"the checkpoint {given} is not whole: there is no part {missing[0]}, "
                             "or not all of it.")
    else:
        instance(list, tuple, wanted="a list of names or the name of a manifest")(
            given, what, "checkpoint_filenames")
        for i, name in enumerate(given):
            if not isinstance(name, str) or not name.endswith(tuple(f".{f}" for f in FORMATS)) or \
                    not os.path.isfile(name) or not os.path.getsize(name):
                raise ValueError(f"For '{what}', please check 'checkpoint_filenames', and make "
                                 f"sure the {name} at index {i} is a valid checkpoint file: the "
                                 f"part of rank {i} is missing, empty or no '.ckpt'.")
        read_part, count = lambda rank: read_weights(given[rank], kind_of(given[rank])), len(given)
        have = _trained(strategy, given, what)
    out: dict[str, dict[int, Any]] = {}
    for rank in range(count):
        for name, value in read_part(rank).items():
            out.setdefault(name, {})[rank] = value
    return out, have


def _trained(strategy: str | None, files: Any, what: str) -> dict[str, PartLayout]:
    """How files are parted, by a strategy file or by what they say."""
    name = strategy or get_auto_parallel_context("strategy_ckpt_load_file") or \
        get_auto_parallel_context("strategy_ckpt_config")["load_file"]
    if not name:
        if all(file.endswith(FORMATS[1]) for file in files):
            return written_layouts(files)
        raise ValueError(f"For '{what}', give 'train_strategy_filename', the strategy file that "
                         "was written with the parts.")
    have = by_parameter(read(name, what).layouts)
    for layout in have.values():
        if layout.count != len(files):
            raise ValueError(f"For '{what}', the length of 'checkpoint_filenames' should be equal "
                             "to the device count of training process. But got the length of "
                             f"'checkpoint_filenames' is {len(files)} and the device count is "
                             f"{layout.count}.")
    return have


def _wanted_layouts(given: Any, what: str) -> dict[str, PartLayout]:
    """The layouts of a `predict_strategy`."""
    if isinstance(given, str):
        return by_parameter(read(given, what).layouts, world().rank)
    instance(Mapping, wanted="a dict")(given, what, "predict_strategy")
    return {name: layout_of(own, f"predict_strategy[{name!r}]") for name, own in given.items()}


def _assemble_parameters(
    found: Mapping[str, Mapping[int, Any]], have: Mapping[str, PartLayout],
    want: Mapping[str, PartLayout],
) -> dict[str, Any]:
    """This rank's Parameters, from the parts of all ranks."""
    out: dict[str, Any] = {}
    for name, parts in found.items():
        value = next(iter(parts.values()))
        if not isinstance(value, str):
            whole = undivided(np.ndim(value))
            source, target = have.get(name, whole), want.get(name, whole)
            value = assembled(world().rank % target.count, source, target,
                              {rank % source.count: part for rank, part in parts.items()}, name)
            out[name] = Parameter(tensor_of(value), name=name)
    return out


def _load_unified(
    network: Cell | None, folder: Any, strategy: Any, target: Any, rank: int | None, format: str,
    name_map: Any, as_dict: bool,
) -> Any:
    """Load, or write for each rank, what `unified_safetensors` wrote."""
    what = "load_distributed_checkpoint"
    if folder is None:
        raise ValueError(f"For '{what}', 'unified_safetensors_dir' can not be None when format is "
                         "'safetensors'.")
    found = {name: {0: value} for name, value in unified_entries(folder, name_map).items()}
    if network is None and target is None:
        raise ValueError(f"For '{what}', 'dst_safetensors_dir' can not be None when network is "
                         "None.")
    want = None if strategy is None else _wanted_layouts(strategy, what)
    if network is not None:
        taken = _assemble_parameters(found, {}, layouts_of(network) if want is None else want)
        return taken if as_dict else load_param_into_net(network, taken)
    count = next(iter(want.values())).count if want else 1
    for each in range(count) if rank is None else (rank,):
        file = os.path.join(target, f"rank_{each}", f"net.{format}")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        own = transformed(each % count, found, None, want)
        save_checkpoint({n: v if isinstance(v, str) else tensor_of(v) for n, v in own.items()},
                        file, format=format)
    return True


def merge_sliced_parameter(
    sliced_parameters: list[Parameter], strategy: dict[str, ParallelLayouts] | None = None
) -> Parameter:
    """One parameter of its parts.

    Args:
        sliced_parameters: the parts in the order of ranks.
        strategy: layouts by parameter, as `build_searched_strategy` gives them; None: the parts
            lie one after the other along the first axis.

    Raises:
        ValueError: the list is empty, or the parts do not fit together.
        KeyError: the strategy does not have the parameter.
    """
    what = "merge_sliced_parameter"
    instance(list)(sliced_parameters, what, "sliced_parameters")
    if not sliced_parameters:
        raise ValueError(f"For '{what}', the argument 'sliced_parameters' should not be empty.")
    if strategy:
        instance(dict)(strategy, what, "strategy")
    for i, part in enumerate(sliced_parameters):
        instance(Parameter)(part, what, f"sliced_parameters[{i}]")
    first = sliced_parameters[0]
    for i, part in enumerate(sliced_parameters):
        if (part.name, part.shape[1:]) != (first.name, first.shape[1:]):
            raise ValueError(
                f"For '{what}', please make sure that the elements in 'slice_parameters' have the "
                "same name, dimension length and shape except 0 axis: those of index 0 are "
                f"{first.name} and {first.shape}, but those of index {i} {part.name} and "
                f"{part.shape}.")
    values = host_arrays_of(sliced_parameters)
    if not strategy:
        whole = np.concatenate(values)
    elif first.name not in strategy:
        raise KeyError(f"For '{what}', the parameter name {first.name} should be a key in the "
                       "'strategy'. Please check 'sliced_parameter' and 'strategy'.")
    else:
        layout = strategy[first.name].part_layout()
        if layout.count != len(values):
            raise ValueError(f"For '{what}', the length of 'sliced_parameters' should be equal to "
                             f"device_count. The length of 'sliced_parameters' is {len(values)}, "
                             f"but device_count is {layout.count}.")
        whole = assembled(0, layout, undivided(first.ndim), dict(enumerate(values)), first.name)
    return Parameter(tensor_of(whole), first.name, first.requires_grad, first.layerwise_parallel)


def load_segmented_checkpoints(
    ckpt_file_dir: str, net: Cell | None = None, strict_load: bool = False,
    filter_prefix: Any = None, dec_key: bytes | None = None, dec_mode: str = "AES-GCM",
    specify_prefix: Any = None, choice_func: Any = None,
) -> dict[str, Any]:
    """Read all `.ckpt` files of a folder, which have some parameters each, as one.

    Args:
        ckpt_file_dir: the folder.
        net, strict_load, filter_prefix, dec_key, dec_mode, specify_prefix, choice_func: see
            `load_checkpoint`.

    Raises:
        ValueError: no folder, or a file cannot be loaded.
    """
    instance(str)(ckpt_file_dir, "load_distributed_checkpoint", "ckpt_file_dir")
    if not os.path.isdir(ckpt_file_dir):
        raise ValueError(f"The dst_strategy_file: {ckpt_file_dir} doesn't exist. Or it's not a "
                         "directory")
    out: dict[str, Any] = {}
    for file in sorted(Path(ckpt_file_dir).glob("*.ckpt")):
        out |= load_checkpoint(str(file), net, strict_load, filter_prefix, dec_key, dec_mode,
                               specify_prefix, choice_func)
    return out


def sync_pipeline_shared_parameters(net: Cell) -> None:
    """Give parameters to the stages of a pipeline that share them.

    The network's `parameter_layout_dict` says which they are: after the whole shape and a field of
    MindSpore's own come whether the parameter is shared, whether this rank sends it, the other
    rank, and the tag.
    """
    instance(Cell)(net, "sync_pipeline_shared_parameters", "net")
    layouts = net.parameter_layout_dict
    for name, parameter in net.parameters_and_names():
        layout = layouts.get(name, ())
        if len(layout) < 12 or not layout[8]:
            continue
        sends, other, tag = layout[9:12]
        if sends:
            collectives.send(parameter.value(), other, tag)
        else:
            parameter.set_data(collectives.receive(parameter.shape, parameter.dtype, other, tag))


def parameter_broadcast(
    net: Cell, layout: Mapping[str, Any], cur_rank: int = 0, initial_rank: int = 0
) -> None:
    """Give the ranks that have the same part of a parameter that of the first of them. All ranks of
    a stage do it.

    Args:
        net: the network.
        layout: layouts by the names of parameters, as `Cell.parameter_layout_dict` or
            `build_searched_strategy` gives them.
        cur_rank: this process.
        initial_rank: the first process of its stage of a pipeline.

    Raises:
        ValueError: another rank than this process's, one that begins no stage, a name that the
            network lacks, or what is no layout.
    """
    what = "parameter_broadcast"
    instance(Cell)(net, what, "net")
    instance(Mapping, wanted="a dict")(layout, what, "layout")
    here = world()
    if not layout or here.size == 1:
        return
    if cur_rank != here.rank:
        raise ValueError(f"For '{what}', 'cur_rank' must be this process's, {here.rank}, but got "
                         f"{cur_rank}.")
    size = here.size // get_auto_parallel_context("pipeline_stages")
    if initial_rank != here.rank // size * size:
        raise ValueError(f"For '{what}', 'initial_rank' must be {here.rank // size * size}, where "
                         f"this process's stage begins, but got {initial_rank}.")
    if any(isinstance(one, ParallelLayouts) for one in layout.values()):
        known = by_parameter(layout, cur_rank)
    else:
        known = {name: layout_of(one, f"{what}: {name}") for name, one in layout.items()}
    own = net.parameters_dict()
    for name in sorted(known):
        if name not in own:
            raise ValueError(f"For '{what}', the network has no parameter {name!r}.")
        ranks = _equal_ranks(known[name], own[name], range(initial_rank, initial_rank + size))
        if len(ranks) > 1:
            own[name].set_data(collectives.broadcast_ranks(own[name].value(), ranks))


def _equal_ranks(layout: PartLayout, part: Parameter, stage: range) -> tuple[int, ...]:
    """The ranks of a stage that have the same part of a parameter as this one."""
    shape = part.shape if part.cut is None and not part.sliced else layout.whole(part.shape)
    first = stage.start
    mine = layout.box(world().rank - first, shape, part.name)
    return tuple(r for r in stage if layout.box(r - first, shape, part.name) == mine)


def restore_group_info_list(group_info_file_name: str) -> list[int]:
    """The ranks that have the same checkpoint, from a file of groups.

    Args:
        group_info_file_name: a file as MindSpore writes it (`GROUP_INFO_FILE`).

    Raises:
        ValueError: there is no such file, or it has no such ranks.
    """
    what = "restore_group_info_list"
    instance(str)(group_info_file_name, what, "group_info_file_name")
    if not os.path.isfile(group_info_file_name):
        raise ValueError(f"For '{what}', no such group information file: {group_info_file_name}.")
    data = Path(group_info_file_name).read_bytes()
    if not data:
        raise ValueError(f"For '{what}', the group information file {group_info_file_name} should "
                         "not be empty.")
    message = Message(memoryview(data), f"group information file {group_info_file_name}")
    out = [rank for number, field in message.fields() if number == 2
           for rank in signed_numbers(message, [c for _, c in message.inner(field).fields()])]
    if not out:
        raise ValueError(f"For '{what}', the group information file {group_info_file_name} has no "
                         "restore rank list.")
    return out


__all__ = [
    "build_searched_strategy", "load_distributed_checkpoint", "load_segmented_checkpoints",
    "merge_sliced_parameter", "restore_group_info_list", "sync_pipeline_shared_parameters",
]
