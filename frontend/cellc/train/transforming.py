"""Checkpoints of several ranks for another number of ranks, or as one: file to file.

A folder has the checkpoint of rank i in `rank_i`. Strategy files say which part of each parameter a
rank has before and after; without one every rank has all of it. Parameters in no strategy (rates,
counters) are copied as they are. Source: `mindspore.parallel`, "distributed checkpoints".
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.files import write_atomically

from ..core.declared import INT, instance, one_of
from ..ranks.layouts import PartLayout, assembled, sources, undivided
from ..ranks.strategies import ParallelLayouts, Strategy, by_parameter, read, write
from .weights_file import FORMATS, Entries
from .weights_file import read as read_weights
from .weights_file import write as write_weights

Array = np.ndarray[Any, Any]
Layouts = Mapping[str, PartLayout]
MAP_FILE = "param_name_map.json"
HYPER_FILE = "hyper_param.safetensors"
_PART_BYTES = 3 << 30  # Bytes of a file of merged parameters at most, if no parameter is larger


def build_searched_strategy(strategy_filename: str) -> dict[str, ParallelLayouts] | None:
    """The layouts in a strategy file, by parameter.

    Args:
        strategy_filename: the file; None gives None.

    Raises:
        ValueError: there is no such file, or it is empty.
    """
    if strategy_filename is None:
        return None
    return read(strategy_filename, "build_searched_strategy").layouts


def merge_pipeline_strategys(src_strategy_dirs: str, dst_strategy_file: str) -> None:
    """Write the strategy files of all stages of a pipeline as one.

    Args:
        src_strategy_dirs: the folder with a file for each stage (or rank), all of them `.ckpt` or
            all `.json`.
        dst_strategy_file: the file to write; parameters are called `STAGE-NAME` in it.

    Raises:
        NotADirectoryError: the folder is none.
        ValueError: the files are of both kinds, or one is empty.
    """
    if not os.path.isdir(src_strategy_dirs):
        raise NotADirectoryError(f"src_strategy_dirs {src_strategy_dirs} is not a directory.")
    found = {kind: sorted(Path(src_strategy_dirs).glob(f"*.{kind}")) for kind in ("ckpt", "json")}
    if all(found.values()):
        raise ValueError("The strategys format should be all '.ckpt' or all '.json'")
    merged = Strategy(stage=1)
    seen: set[int] = set()
    for file in found["ckpt"] or found["json"]:
        one = read(str(file), "merge_pipeline_strategys")
        if not one.layouts or not one.ops:
            raise ValueError(f"The strategy file {file} is empty")
        stage = one.first_stage()
        if stage not in seen:
            seen.add(stage)
            merged.ops |= one.ops
            merged.layouts |= {f"{stage}-{name}": own for name, own in one.layouts.items()}
    write(dst_strategy_file, merged)


# --- which ranks --------------------------------------------------------------------------------


def _read_layouts(given: Any, what: str) -> dict[str, ParallelLayouts] | None:
    """The layouts of a strategy file, or those given."""
    if given is None or isinstance(given, dict):
        return given
    return read(given, what).layouts


def _per_stage(layouts: Layouts | None) -> int:
    """How many ranks a stage has."""
    return next(iter(layouts.values())).count if layouts else 1


def _ranks(layouts: Layouts | None) -> int:
    """How many ranks there are in all stages."""
    stages = {s for own in (layouts or {}).values() for s in own.stages} or {0}
    if stages != set(range(len(stages))):
        raise ValueError("The strategy file for pipeline parallel does not contains all stages.")
    return _per_stage(layouts) * len(stages)


def _stage_layouts(have: Layouts | None, want: Layouts | None, rank: int) -> tuple[Any, Any]:
    """The layouts of the parameters that the stage of a rank has."""
    if want is None:
        return have, want
    stage = rank // _per_stage(want)
    kept = {name: own for name, own in want.items() if stage in own.stages}
    if have is not None:
        have = {name: own for name, own in have.items() if name in kept or name not in want}
    return have, kept


def rank_list_for_transform(
    rank_id: int, src_strategy_file: str | None = None, dst_strategy_file: str | None = None
) -> list[int]:
    """The ranks whose checkpoints are needed to make that of a rank, the last one first.

    Args:
        rank_id: the rank whose checkpoint is to be made.
        src_strategy_file: how the checkpoints there are were parted; None: not at all.
        dst_strategy_file: how that of `rank_id` is to be; None: not at all.

    Raises:
        ValueError: a strategy file is not there, or empty.
    """
    if not isinstance(rank_id, int):
        raise TypeError("The rank_id should be a int.")
    what = "rank_list_for_transform"
    return _rank_list(rank_id, _read_layouts(src_strategy_file, what),
                      _read_layouts(dst_strategy_file, what))


def _rank_list(rank_id: int, source: Any, target: Any) -> list[int]:
    """`rank_list_for_transform` from layouts."""
    if source is None:
        return [0]
    have, want = _stage_layouts(by_parameter(source),
                                None if target is None else by_parameter(target, rank_id), rank_id)
    if not have:
        raise ValueError("The src_strategy_file is empty.")
    count = _per_stage(want)
    needed = _needed_ranks(rank_id % count if count > 1 else rank_id, have, want)
    stages = {s for own in have.values() for s in own.stages}
    return sorted({s * _per_stage(have) + rank for s in stages for rank in needed}, reverse=True)


def _needed_ranks(rank: int, have: Layouts, want: Layouts | None) -> set[int]:
    """The ranks of a stage that have what a rank of another stage wants."""
    out: set[int] = set()
    for name, own in have.items():
        if want is not None and name not in want:
            continue
        other = undivided(len(own.cuts)) if want is None else want[name]
        # Any shape that both layouts cut: which parts overlap does not depend on it.
        shape = [a * b for a, b in zip(own.parts(), other.parts(), strict=True)]
        even = [PartLayout(x.devices, x.cuts, x.opt_size) for x in (own, other)]
        out.update(sources(rank, even[0], even[1], shape, name))
    return out


# --- what is in them ----------------------------------------------------------------------------


class _Files:
    """Checkpoints by rank; each is read once, its arrays are views of the file."""

    def __init__(self, names: Mapping[int, str], per_stage: int) -> None:
        self.names, self.per_stage = names, per_stage
        self._read: dict[int, Entries] = {}

    def entries(self, rank: int) -> Entries:
        """Return the contents of a rank's checkpoint."""
        if rank not in self._read:
            name = self.names[rank]
            self._read[rank] = read_weights(name, kind_of(name))
        return self._read[rank]

    def parameters(self, ranks: Iterable[int]) -> dict[str, dict[int, Any]]:
        """The parts of each parameter by rank of the stage."""
        out: dict[str, dict[int, Any]] = {}
        for rank in ranks:
            for name, value in self.entries(rank).items():
                out.setdefault(name, {})[rank % self.per_stage] = value
        return out


def kind_of(name: str) -> str:
    """The format of a checkpoint, by its name."""
    return FORMATS[1] if name.endswith(FORMATS[1]) else FORMATS[0]


def transformed(
    rank: int, found: Mapping[str, Mapping[int, Any]], have: Layouts | None, want: Layouts | None
) -> dict[str, Any]:
    """The entries of a rank's checkpoint, from parts of parameters by rank.

    Args:
        rank: of its stage.
        found: parts by parameter and rank.
        have: how they are parted; None: not at all.
        want: how the rank has them; None: whole.
    """
    out, count, met = {}, 1, False
    for name, parts in found.items():
        if any(layouts is not None and name not in layouts for layouts in (have, want)):
            continue
        axes = np.ndim(next(iter(parts.values())))
        source = undivided(axes) if have is None else have[name]
        target = undivided(axes) if want is None else want[name]
        out[name], count, met = assembled(rank, source, target, parts, name), source.count, True
    if not met:
        raise ValueError("None of the parameters in checkpoint file are in either src strategy or "
                         "dst strategy. Please check correctness of strategy files.")
    for name, parts in found.items():
        if name not in out:
            out[name] = parts.get(rank % count, next(iter(parts.values())))
    return {name: out[name] for name in found}


def transform_checkpoint_by_rank(
    rank_id: int, checkpoint_files_map: dict[int, str], save_checkpoint_file_name: str,
    src_strategy_file: str | None = None, dst_strategy_file: str | None = None,
) -> None:
    """Write the checkpoint of one rank, from those that `rank_list_for_transform` names.

    Args:
        rank_id: the rank whose checkpoint is written.
        checkpoint_files_map: the files there are, by rank.
        save_checkpoint_file_name: the file to write, `.ckpt` (or `.safetensors`).
        src_strategy_file: how the files are parted; None: not at all.
        dst_strategy_file: how the new one is to be; None: not at all.

    Raises:
        ValueError: a file or a part is missing, or a strategy is wrong.
    """
    what = "transform_checkpoint_by_rank"
    instance(dict)(checkpoint_files_map, what, "checkpoint_files_map")
    INT(rank_id, what, "rank_id")
    instance(str)(save_checkpoint_file_name, what, "save_checkpoint_file_name")
    if not save_checkpoint_file_name.endswith(tuple(f".{f}" for f in FORMATS)):
        raise ValueError(f"The save_checkpoint_file_name {save_checkpoint_file_name} should end "
                         "with .ckpt")
    for rank, name in checkpoint_files_map.items():
        if not os.path.exists(name):
            raise ValueError(f"Checkpoint file {name} in rank {rank} not exits: ")
    _transform_one(rank_id, checkpoint_files_map, save_checkpoint_file_name,
                   _read_layouts(src_strategy_file, what), _read_layouts(dst_strategy_file, what))


def _transform_one(
    rank: int, names: Mapping[int, str], file: str, source: Any, target: Any
) -> None:
    origin_have = None if source is None else by_parameter(source)
    origin_want = None if target is None else by_parameter(target, rank)
    have, want = _stage_layouts(origin_have, origin_want, rank)
    found = _Files(names, _per_stage(origin_have)).parameters(sorted(names))
    elsewhere = set() if origin_want is None else origin_want.keys() - want.keys()
    found = {name: parts for name, parts in found.items() if name not in elsewhere}
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    write_weights(file, transformed(rank % _per_stage(origin_want), found, have, want),
                  kind_of(file))


def collected(folder: str, format: str, suffix: str | None = None) -> dict[int, str]:
    """The checkpoints in the folders `rank_0`, `rank_1`, ... by rank.

    Of several in one folder the one whose last two numbers (epoch and step) are largest.
    """
    out: dict[int, str] = {}
    for inner in Path(folder).glob("rank_*"):
        number = inner.name.removeprefix("rank_")
        if not number.isdigit() or not inner.is_dir():
            continue
        files = list(inner.glob(f"*{suffix or ''}.{format}"))
        if files:
            out[int(number)] = str(max(files, key=_age))
        elif suffix is not None:
            raise ValueError(f"No {format} files found in directory '{inner}' with suffix "
                             f"'{suffix}'. Please verify the directory contains the expected "
                             "files.")
    return out


def _age(file: Path) -> tuple[list[int], str]:
    return [int(n) for n in re.findall(r"\d+", file.name)][-2:], file.name


def _one_kind(folder: str, what: str, suffix: str | None = None) -> tuple[dict[int, str], str]:
    """The checkpoints of a folder by rank, and their format."""
    found = {kind: collected(folder, kind, suffix if kind == FORMATS[1] else None)
             for kind in FORMATS}
    if all(found.values()):
        raise ValueError(f"For '{what}', {folder} cannot contain both ckpt file and safetensors "
                         "file simultaneously")
    for kind, names in found.items():
        if names:
            return names, kind
    raise ValueError(f"For '{what}', {folder} can not be empty: no checkpoint is in a folder "
                     "rank_0, rank_1, ... of it.")


def transform_checkpoints(
    src_checkpoints_dir: str, dst_checkpoints_dir: str, ckpt_prefix: str,
    src_strategy_file: str | None = None, dst_strategy_file: str | None = None,
    process_num: int = 1, output_format: str = "ckpt",
) -> None:
    """Write the checkpoints of all ranks of another strategy.

    Args:
        src_checkpoints_dir: the folder with `rank_0`, `rank_1`, ...; of several files in one of
            them the last epoch and step is taken.
        dst_checkpoints_dir: where `rank_i/PREFIXi.ckpt` are written.
        ckpt_prefix: how their names begin.
        src_strategy_file, dst_strategy_file: see `transform_checkpoint_by_rank`.
        process_num: accepted for compatibility: files are written one after the other.
        output_format: `"ckpt"` or `"safetensors"`.

    Raises:
        ValueError: a checkpoint is missing, or a strategy is wrong.
        NotADirectoryError: `src_checkpoints_dir` is none.
    """
    what = "transform_checkpoints"
    instance(str)(ckpt_prefix, what, "ckpt_prefix")
    one_of(*FORMATS)(output_format, what, "output_format")
    if not os.path.isdir(src_checkpoints_dir):
        raise NotADirectoryError(f"src_checkpoints_dir {src_checkpoints_dir} is not a directory.")
    names, _ = _one_kind(src_checkpoints_dir, what)
    source, target = (_read_layouts(f, what) for f in (src_strategy_file, dst_strategy_file))
    for rank in range(_ranks(None if target is None else by_parameter(target))):
        needed = _rank_list(rank, source, target)
        for other in needed:
            if other not in names:
                raise ValueError(f"The checkpoint file of rank{other} is needed for converting "
                                 f"rank{rank}'s checkpoint, but it is missing.")
        file = os.path.join(os.path.realpath(dst_checkpoints_dir), f"rank_{rank}",
                            f"{ckpt_prefix}{rank}.{output_format}")
        _transform_one(rank, {r: names[r] for r in needed}, file, source, target)


# --- one checkpoint of all ----------------------------------------------------------------------


def unified_safetensors(
    src_dir: str, src_strategy_file: str, dst_dir: str, merge_with_redundancy: bool = True,
    file_suffix: str | None = None, max_process_num: int = 64,
    choice_func: Callable[[str], bool | str] | None = None, split_dst_file: tuple[int, ...] = (),
) -> None:
    """Write the safetensors of all ranks as whole parameters.

    `part0.safetensors`, `part1.safetensors`, ... have the parameters, 3 GiB each at most;
    `param_name_map.json` says which is where, and `hyper_param.safetensors` has what is in no
    strategy.

    Args:
        src_dir: the folder with `rank_0`, `rank_1`, ...
        src_strategy_file: how the parameters are parted.
        dst_dir: where the files are written.
        merge_with_redundancy: accepted for compatibility: a parameter is taken of any rank that
            has it.
        file_suffix: of the files that are meant, without the format.
        max_process_num: accepted for compatibility: files are written one after the other.
        choice_func: called with a name; whether the parameter is written, or its new name.
        split_dst_file: (i, n): write the i-th of n shares of the files.

    Raises:
        ValueError: a rank's file is missing, or the strategy is wrong.
    """
    what = "unified_safetensors"
    names = collected(src_dir, FORMATS[1], file_suffix)
    layouts = by_parameter(_read_layouts(src_strategy_file, what) or {})
    for rank in rank_list_for_transform(0, src_strategy_file):
        if rank not in names:
            raise ValueError(f"The safetensor file of rank{rank} is needed for converting rank0's "
                             "safetensor, but it is missing.")
    files = _Files(names, _per_stage(layouts))
    found = files.parameters(sorted(names))
    merged: dict[str, Any] = {}
    for name, parts in found.items():
        new = name if choice_func is None else choice_func(name)
        if name not in layouts or name.startswith("accu_grads") or new is False:
            continue
        own = layouts[name]
        merged[new if isinstance(new, str) else name] = assembled(
            0, own, undivided(len(own.cuts)), parts, name)
    os.makedirs(dst_dir, exist_ok=True)
    _write_unified(dst_dir, merged, split_dst_file)
    rest = {name: next(iter(parts.values())) for name, parts in found.items()
            if name not in layouts}
    if rest and split_dst_file[:1] in ((), (1,)):
        write_weights(os.path.join(dst_dir, HYPER_FILE), rest, FORMATS[1])


def _write_unified(folder: str, merged: Mapping[str, Array], share: Sequence[int]) -> None:
    """The files of merged parameters, and which parameter is where."""
    sizes = {name: value.nbytes for name, value in merged.items()}
    count = max(1, min(math.ceil(sum(sizes.values()) / _PART_BYTES), len(sizes)))
    groups = _balance(sizes, count)
    for i, group in enumerate(groups):
        if not share or i % share[1] == share[0] - 1:
            write_weights(os.path.join(folder, f"part{i}.safetensors"),
                          {name: merged[name] for name in group}, FORMATS[1])
    if not share or share[0] == 1:
        where = {name: f"part{i}.safetensors" for i, group in enumerate(groups) for name in group}
        content = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": where}
        write_atomically(os.path.join(folder, MAP_FILE), [json.dumps(content, indent=4).encode()])


def _balance(sizes: Mapping[str, int], count: int) -> list[list[str]]:
    """Return the names in `count` groups, the largest first, each to the group that has least."""
    groups: list[list[str]] = [[] for _ in range(count)]
    totals = [0] * count
    for name in sorted(sizes, key=lambda n: -sizes[n]):
        least = totals.index(min(totals))
        groups[least].append(name)
        totals[least] += sizes[name]
    return groups


def unified_entries(folder: str, name_map: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The whole parameters that `unified_safetensors` wrote, and what is in no strategy.

    Args:
        folder: where they are.
        name_map: what a parameter is called in the files, by its name.
    """
    files = sorted(f for f in os.listdir(folder) if f.endswith(".safetensors") and f != HYPER_FILE)
    index = os.path.join(folder, MAP_FILE)
    if os.path.isfile(index):
        content = json.loads(Path(index).read_text())
        files = sorted(set(content.get("weight_map", content).values()))
    elif len(files) != 1:
        raise ValueError(f"For 'load_distributed_checkpoint', {folder} must have a file "
                         f"'{MAP_FILE}', as unified_safetensors writes it.")
    out: dict[str, Any] = {}
    for file in [*files, HYPER_FILE]:
        path = os.path.join(folder, file)
        if os.path.isfile(path):
            out |= read_weights(path, FORMATS[1])
        elif file != HYPER_FILE:
            raise ValueError(f"For 'load_distributed_checkpoint', the file {path} is missing.")
    called = {new: name for name, new in (name_map or {}).items()}
    return {called.get(name, name): value for name, value in out.items()}


# MindSpore's newer names.
rank_list_for_convert = rank_list_for_transform
convert_checkpoint_by_rank = transform_checkpoint_by_rank
convert_checkpoints = transform_checkpoints
