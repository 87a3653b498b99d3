"""Conversion of checkpoint files from one format to the other. Source: `mindspore`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from cellc_runtime.lazy import futures

from ..core import progress
from .weights_file import read, write


def ckpt_to_safetensors(
    file_path: str,
    save_path: str | None = None,
    name_map: Mapping[str, str] | None = None,
    file_name_regex: str | None = None,
    processes_num: int = 1,
) -> None:
    """Convert `.ckpt` files to safetensors.

    Args:
        file_path: a file, or a folder whose files are converted, those of its folders included.
        save_path: the folder for the results, which keeps the folders below; default: beside
            each file.
        name_map: new names of tensors, by their old ones.
        file_name_regex: which files of a folder: their name, without suffix, matches this.
        processes_num: how many files are converted at once.

    Raises:
        ValueError: there is no such file, it is damaged, or `save_path` is a file; or
            `processes_num` is less than 1.
    """
    _convert("ckpt_to_safetensors", "ckpt", "safetensors",
             file_path, save_path, name_map, file_name_regex, processes_num)


def safetensors_to_ckpt(
    file_path: str,
    save_path: str | None = None,
    name_map: Mapping[str, str] | None = None,
    file_name_regex: str | None = None,
    processes_num: int = 1,
) -> None:
    """Convert safetensors files to `.ckpt`.

    Arguments and errors are those of `ckpt_to_safetensors`.
    """
    _convert("safetensors_to_ckpt", "safetensors", "ckpt",
             file_path, save_path, name_map, file_name_regex, processes_num)


def _convert(
    function: str, source: str, target: str, file_path: str, save_path: str | None,
    name_map: Mapping[str, str] | None, regex: str | None, workers: int,
) -> None:
    if save_path is not None and os.path.exists(save_path) and not os.path.isdir(save_path):
        raise ValueError(f"For {function}, save_path must be a folder, but got {save_path}")
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ValueError(f"For {function}, processes_num must be at least 1, but got {workers}")
    root, files = _files(function, file_path, source, regex)
    out = Path(save_path) if save_path is not None else root
    work = {f: (out / f.relative_to(root)).with_suffix(f".{target}") for f in files}
    crew = futures.ThreadPoolExecutor(workers)
    with progress.stage(file_path, "converting") as say, crew as pool:
        jobs = {pool.submit(_one, f, to, source, target, name_map or {}): f
                for f, to in work.items()}
        for done, (job, file) in enumerate(jobs.items(), 1):
            job.result()
            say(f"{file.name}, {done} of {len(jobs)}")


def _files(
    function: str, file_path: str, suffix: str, regex: str | None
) -> tuple[Path, list[Path]]:
    """The folder that results are relative to, and the files to convert."""
    path = Path(file_path)
    if path.is_dir():
        found = sorted(path.rglob(f"*.{suffix}"))
        wanted = re.compile(regex) if regex is not None else None
        return path, [f for f in found if wanted is None or wanted.match(f.stem)]
    if not path.is_file():
        raise ValueError(f"For {function}, the input path must be a valid path or file, but got "
                         f"{file_path}")
    if path.suffix != f".{suffix}":
        raise ValueError(f"For {function}, the input file must be a .{suffix} file, but got "
                         f"{file_path}")
    return path.parent, [path]


def _one(
    file: Path, to: Path, source: str, target: str, name_map: Mapping[str, str]
) -> None:
    entries = read(str(file), source)
    renamed = {name_map.get(name, name): value for name, value in entries.items()}
    if len(renamed) != len(entries):
        raise ValueError(f"{file}: name_map gives two tensors one name")
    to.parent.mkdir(parents=True, exist_ok=True)
    write(str(to), renamed, target)
