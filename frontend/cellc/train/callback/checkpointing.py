"""Callbacks that save: ModelCheckpoint and its CheckpointConfig, OnRequestExit.

Source: `mindspore.train`.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Annotated, Any

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.world import world

from ...core.declared import NonNegative, checks_arguments, instance, one_of
from ...core.native import names_itself
from ...nn.cell import Cell
from ...tensors.tensor import Tensor
from ..export import export
from ..rules import DIRECTORY, NO_KEY, PREFIX
from ..serialization import finish_saves, save_checkpoint
from .callback import Callback, RunContext

with lazy_imports(__name__):  # one process needs none
    from .. import parts

_COUNTS = ("save_checkpoint_steps", "save_checkpoint_seconds", "keep_checkpoint_max",
           "keep_checkpoint_per_n_minutes")
_NAME = re.compile(r"(.+)-\d+_\d+(_breakpoint)?\.(ckpt|safetensors)(\.whole\.json)?$")
"""Names of checkpoints, and of the manifests of those of several ranks."""


@names_itself
class CheckpointConfig:
    """When checkpoints are saved, which are kept, and what is in them.

    Args:
        save_checkpoint_steps: every how many steps; 0 for not by steps.
        save_checkpoint_seconds: every how many seconds; used if not by steps.
        keep_checkpoint_max: how many of the newest are kept; 0 for not by number.
        keep_checkpoint_per_n_minutes: one is kept in this number of minutes; used if not by number.
        integrated_save: as in `save_checkpoint`: of parameters that are parted among ranks whole
            ones, or parts and a manifest; all ranks have the callback then.
        async_save: as in `save_checkpoint`. An older file is removed once the newer one is on the
            disk: before the next save, or at the end of the training.
        saved_network: what is saved; default: the network with its optimizer.
        append_info: more to save: "epoch_num", "step_num", and dicts.
        enc_key, enc_mode: encryption is not supported; a key is an error.
        exception_save: whether a checkpoint is saved when the training ends with an exception.
        crc_check: whether a CRC-32 is written.
        remove_redundancy: as in `save_checkpoint`.
        format: "ckpt" or "safetensors".
    """

    def __init__(
        self, save_checkpoint_steps: NonNegative | None = 1,
        save_checkpoint_seconds: NonNegative | None = 0,
        keep_checkpoint_max: NonNegative | None = 5,
        keep_checkpoint_per_n_minutes: NonNegative | None = 0, integrated_save: bool = True,
        async_save: bool | str = False,
        saved_network: Annotated[Cell, instance(Cell)] | None = None,
        append_info: Annotated[list[Any], instance(list)] | None = None,
        enc_key: Annotated[Any, NO_KEY] = None, enc_mode: str = "AES-GCM",
        exception_save: bool = False, crc_check: bool = False, remove_redundancy: bool = False,
        format: Annotated[str, one_of("ckpt", "safetensors")] = "ckpt", **kwargs: Any,
    ) -> None:
        if not any((save_checkpoint_steps, save_checkpoint_seconds, keep_checkpoint_max,
                    keep_checkpoint_per_n_minutes)):
            raise ValueError("For 'CheckpointConfig', when all of 'save_checkpoint_steps', "
                             "'save_checkpoint_seconds', 'keep_checkpoint_max' and "
                             "'keep_checkpoint_per_n_minutes' are 0, nothing would be saved or "
                             "kept.")
        self.save_checkpoint_steps = save_checkpoint_steps or None
        self.save_checkpoint_seconds = None if save_checkpoint_steps else save_checkpoint_seconds
        self.keep_checkpoint_max = keep_checkpoint_max or None
        self.keep_checkpoint_per_n_minutes = \
            None if keep_checkpoint_max else keep_checkpoint_per_n_minutes
        self.integrated_save, self.async_save = integrated_save, async_save
        self.saved_network = saved_network
        self.enc_key, self.enc_mode = enc_key, enc_mode
        self.exception_save, self.crc_check = exception_save, crc_check
        self.remove_redundancy, self.format = remove_redundancy, format
        self._infos, self.append_dict = _appended(append_info)

    def get_checkpoint_policy(self) -> dict[str, Any]:
        """When checkpoints are saved and which are kept."""
        return {name: getattr(self, name) for name in (*_COUNTS, "saved_network")}


def _appended(info: Any) -> tuple[list[str], dict[str, Any] | None]:
    """The names of run-time facts, and the fixed values, of `append_info`."""
    if info is None:
        return [], None
    names: list[str] = []
    fixed: dict[str, Any] = {}
    for item in info:
        if item in ("epoch_num", "step_num"):
            names.append(item)
        elif isinstance(item, dict):
            for key, value in item.items():
                if not isinstance(key, str) or not isinstance(value, (int, float, bool, Tensor)):
                    raise TypeError("For 'CheckpointConfig', dicts of 'append_info' must map "
                                    "strings to int, float, bool, Parameter or Tensor, but one "
                                    f"maps {type(key)} to {type(value)}.")
            fixed |= item
        else:
            raise TypeError("For 'CheckpointConfig', 'append_info' holds 'epoch_num', 'step_num' "
                            f"and dicts, but got {item!r}.")
    return names, fixed


class ModelCheckpoint(Callback):
    """Saves the network and its optimizer while it trains, as `PREFIX-EPOCH_STEP.ckpt`.

    Args:
        prefix: how names of files begin, or a function of the callback parameters that gives it.
        directory: the folder, or a function of the callback parameters; default: the current one.
        config: when to save and what to keep.

    Raises:
        OSError: a file cannot be written.
    """

    @checks_arguments
    def __init__(
        self, prefix: Annotated[Any, PREFIX] = "CKP",
        directory: Annotated[Any, DIRECTORY] = None,
        config: CheckpointConfig | None = None,
    ) -> None:
        self._prefix, self._directory = prefix, directory
        self._config = config or CheckpointConfig()
        self._latest = ""
        self._own: str | None = None
        self._kept: list[Path] = []
        self._last_step = 0
        self._last_time = time.time()
        self._minute_start = time.time()
        self._context: RunContext | None = None

    @property
    def latest_ckpt_file_name(self) -> str:
        """The file saved last."""
        return self._latest

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is not None and self._config.exception_save and self._context is not None:
            self._save(self._context.original_args(), "_breakpoint")

    def begin(self, run_context: RunContext) -> None:
        """A run starts: files of earlier ones are left alone."""
        params = run_context.original_args()
        if params.get("mode") == "eval":
            return
        self._context = run_context
        self._own = None
        self._kept = []
        self._last_step = params.get("cur_step_num", 0)
        self._last_time = self._minute_start = time.time()

    def step_end(self, run_context: RunContext) -> None:
        """Save, if it is time."""
        params = run_context.original_args()
        if params.get("mode") == "eval":
            return
        self._context = run_context
        if self._is_time(params):
            self._save(params)

    def end(self, run_context: RunContext) -> None:
        """Save what was done since the last time."""
        params = run_context.original_args()
        if params.get("mode") == "eval":
            return
        if params.cur_step_num != self._last_step:
            self._save(params)
        self._settle()

    def _is_time(self, params: Any) -> bool:
        steps, seconds = self._config.save_checkpoint_steps, self._config.save_checkpoint_seconds
        if steps:
            return int(params.cur_step_num) >= self._last_step + steps
        return bool(seconds) and time.time() - self._last_time > float(seconds or 0)

    def _folder(self, params: Any) -> Path:
        given = self._directory(params) if callable(self._directory) else self._directory
        folder = Path(given) if given is not None else Path.cwd()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _name(self, params: Any, folder: Path) -> str:
        """The prefix of this run: one that no file of another run has."""
        if callable(self._prefix):
            return str(self._prefix(params))
        if self._own is None:
            taken = {m[1] for f in folder.iterdir() if (m := _NAME.match(f.name))}
            self._own, n = self._prefix, 0
            while self._own in taken:
                n += 1
                self._own = f"{self._prefix}_{n}"
        return self._own

    def _settle(self) -> None:
        """Wait until all checkpoints are on the disk, then remove the older ones."""
        finish_saves()
        self._drop_old()

    def _save(self, params: Any, mark: str = "") -> None:
        self._settle()
        folder = self._folder(params)
        config = self._config
        epoch = params.cur_epoch_num
        step = params.get("step_in_epoch", params.cur_step_num)
        file = folder / f"{self._name(params, folder)}-{epoch}_{step}{mark}.{config.format}"
        network = config.saved_network or params.train_network
        facts = {"epoch_num": epoch, "step_num": params.cur_step_num}
        more = {name: facts[name] for name in config._infos} | (config.append_dict or {})
        save_checkpoint(network, str(file), config.integrated_save, config.async_save, more or None,
                        crc_check=config.crc_check, format=config.format,
                        remove_redundancy=config.remove_redundancy)
        if world().size > 1:
            file = Path(parts.manifest_of(str(file)) or file)
        self._latest = str(file)
        self._last_step, self._last_time = params.cur_step_num, time.time()
        params["last_save_ckpt_step"], params["latest_ckpt_file"] = self._last_step, self._latest
        self._kept = [old for old in self._kept if old != file] + [file]
        if not config.async_save:
            self._drop_old()

    def _drop_old(self) -> None:
        if self._config.keep_checkpoint_max:
            while len(self._kept) > self._config.keep_checkpoint_max:
                _remove(self._kept.pop(0))
            return
        minutes = self._config.keep_checkpoint_per_n_minutes
        if minutes:
            # Of those saved within the present span of minutes, only the newest is kept.
            for old in self._kept[:-1]:
                _remove(old)
            del self._kept[:-1]
            if time.time() - self._minute_start >= minutes * 60:
                self._kept.clear()
                self._minute_start = time.time()


def _remove(old: Path) -> None:
    """Remove a checkpoint: a file, or with the other ranks a manifest and its parts."""
    if world().size > 1 and old.name.endswith(parts.SUFFIX):
        parts.remove(str(old))
    else:
        old.unlink(missing_ok=True)


class OnRequestExit(Callback):
    """Saves a checkpoint (and the graph) and ends the training when the process is asked to end.

    Args:
        save_ckpt: whether a checkpoint is saved, `FILE_NAME_train.ckpt`.
        save_mindir: whether the network's graph is saved for its last inputs,
            `FILE_NAME_train.mindir` (after the checkpoint; a graph that draws is an error).
        file_name: how the files' names begin.
        directory: their folder.
        config_file: accepted for compatibility.
        sig: the signal.
    """

    def __init__(
        self, save_ckpt: bool = True, save_mindir: bool = True, file_name: str = "Net",
        directory: str = "./", config_file: str | None = None, sig: int = signal.SIGTERM,
    ) -> None:
        if not isinstance(file_name, str) or not isinstance(directory, str):
            raise ValueError("For 'OnRequestExit', 'file_name' and 'directory' must be strings.")
        if sig in (signal.SIGKILL, signal.SIGINT):
            raise ValueError(f"For 'OnRequestExit', {sig!r} cannot be used.")
        self.save_ckpt, self.save_mindir = save_ckpt, save_mindir
        self.file_name, self.directory, self.sig = file_name, directory, sig
        self.stop = False
        self._old: Any = None

    def __enter__(self) -> OnRequestExit:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(self.sig, self._asked)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._old is not None:
            signal.signal(self.sig, self._old)
            self._old = None

    def _asked(self, number: int, frame: Any) -> None:
        self.stop = True

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Save and stop, if it was requested."""
        if not self.stop:
            return
        self.stop = False
        params = run_context.original_args()
        os.makedirs(self.directory, exist_ok=True)
        path = os.path.join(self.directory, f"{self.file_name}_train")
        if self.save_ckpt:
            save_checkpoint(params.train_network, path, append_dict={
                "epoch_num": params.cur_epoch_num, "step_num": params.cur_step_num})
        if self.save_mindir:
            export(params.train_network, *params.train_dataset_element, file_name=path,
                   file_format="MINDIR")
        run_context.request_stop()


class TrainFaultTolerance(Callback):
    """Training that survives the loss of one of many devices: not on one CPU.

    Args:
        ckpt_save_path: where checkpoints would be saved.
        kwargs: `ckpt_save_fn`.

    Raises:
        RuntimeError: otherwise: it needs several Ascend devices.
    """

    def __init__(self, ckpt_save_path: str | None = None, **kwargs: Any) -> None:
        if ckpt_save_path is None and "ckpt_save_fn" not in kwargs:
            raise ValueError("TrainFaultTolerance needs 'ckpt_save_path' or 'ckpt_save_fn'.")
        raise RuntimeError("TrainFaultTolerance takes the place of lost Ascend devices by others; "
                           "cellc trains on one CPU. BackupAndRestore and OnRequestExit save a "
                           "training that is interrupted.")
