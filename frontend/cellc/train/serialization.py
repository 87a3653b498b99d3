"""Saving the weights of a network and loading them again.

Files are MindSpore's `.ckpt` or safetensors. They are written whole or not at all, every byte of
a file is checked before anything is changed, and a network is changed only if all that is to be
loaded fits.
"""

from __future__ import annotations

import atexit
import io
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.dtypes import out_of_range
from cellc_runtime.forks import in_child, renewed
from cellc_runtime.lazy import lazy_imports, logging, no_attribute
from cellc_runtime.world import world

from ..core.declared import BOOL, FUNCTION, instance
from ..nn.cell import Cell
from ..nn.cell.unregistered import look_through
from ..ranks.settings import divides_networks
from ..storage.elsewhere import is_elsewhere
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, elements_now, tensor_of
from .weights_file import FORMATS, read, with_suffix, write

if TYPE_CHECKING:
    from ..ranks.layouts import PartLayout
with lazy_imports(__name__):  # parts of checkpoints are for several processes
    from . import older_names, parts

Array = np.ndarray[Any, Any]
Choice = Callable[[str], bool]
_INSTEAD = {
    **dict.fromkeys((".pt", ".pth", ".bin"), "; load_torch_weights reads files of PyTorch"),
    **dict.fromkeys((".onnx", ".mindir", ".cir"), "; load reads networks"),
    ".safetensors": "; give format='safetensors'", ".ckpt": "; give format='ckpt'",
    ".cellc": "; cellc_runtime.load reads artifacts",
}
"""Advice for other files, by their endings."""


def _log() -> logging.Logger:
    return logging.getLogger("cellc")


# --- saving -------------------------------------------------------------------------------------


def save_checkpoint(
    save_obj: Cell | list[Any] | dict[str, Any],
    ckpt_file_name: str,
    integrated_save: bool = True,
    async_save: bool | str = False,
    append_dict: dict[str, Any] | None = None,
    enc_key: bytes | None = None,
    enc_mode: str = "AES-GCM",
    choice_func: Choice | None = None,
    crc_check: bool = False,
    format: str = "ckpt",
    **kwargs: Any,
) -> None:
    """Write the parameters of a network, or a list or dict of tensors, to a file.

    The file is written beside its place and renamed, so a reader sees the old file or the new
    one, also if the process dies meanwhile.

    Args:
        save_obj: a Cell (its parameters; in a pipeline those of this process's stage), a list of
            Parameters or of `{"name", "data"}`, or a dict of name to Parameter or Tensor.
        ckpt_file_name: the file; the suffix `.ckpt` or `.safetensors` is added if it is missing.
        integrated_save: of parameters that are parted among ranks, whether each rank's file has
            all of them; else its part, and a manifest is written (see `load_distributed_checkpoint`
            and `latest_checkpoint`), also where graphs are cut and nothing is parted. Either way
            all ranks save; those of several stages that write whole files each have one of their
            own, with what their stage holds.
        async_save: whether a thread writes the file while the caller goes on; what is written is
            the value at the time of the call. "thread" and "process" both mean that thread. If it
            fails, the next `save_checkpoint` raises, or the end of `Model.train`; otherwise the
            process ends with an error message and status 1.
        append_dict: more to save: int, float, bool, str, Parameter or Tensor by name.
        enc_key, enc_mode: encryption is not supported; a key is an error.
        choice_func: called with the name of a parameter; whether it is saved.
        crc_check: whether a CRC-32 is written, which finds damage but no manipulation.
        format: "ckpt" or "safetensors".
        kwargs: `remove_redundancy`, a bool: with parts, what several ranks have alike is in the
            part of one of them. Parts are written before the call returns, `async_save` or not.

    Raises:
        ValueError: `async_save` or `format` is not one of the above, or encryption is requested.
        OSError: the file cannot be written; an older one is as it was. Or a thread could not
            write the file of an earlier call; nothing is saved then.
    """
    _check_save(save_obj, ckpt_file_name, integrated_save, async_save, crc_check, format)
    _Background.raise_failed()
    _no_encryption("save_checkpoint", "enc", enc_key, enc_mode)
    path = os.path.realpath(ckpt_file_name)
    if not ckpt_file_name or os.path.isdir(path):
        raise IsADirectoryError("For 'save_checkpoint', 'ckpt_file_name' must be a file, but "
                                f"{path} is a directory.")
    entries = _choose(_entries_of(save_obj), choice_func)
    entries |= _appended(append_dict)
    path = with_suffix(path, format)
    single = kwargs.get("remove_redundancy")
    instance(bool, NoneType)(single, "save_checkpoint", "remove_redundancy")
    layouts = _parted(save_obj)
    if layouts and integrated_save:
        entries = parts.merged(entries, layouts)
    elif layouts or (not integrated_save and isinstance(save_obj, Cell) and divides_networks()):
        parts.save(path, entries, layouts, format, crc_check, not single)
        return
    _Background.wait_for(path)
    _Background.raise_failed()
    if not async_save:
        write(path, entries, format, crc_check)
        return
    copies = {n: v if isinstance(v, str) else np.array(v) for n, v in entries.items()}
    _Background(path, lambda: write(path, copies, format, crc_check)).start()


def _parted(obj: Any) -> dict[str, PartLayout]:
    """How parameters of a network are parted among ranks; one process has whole ones."""
    return parts.layouts_of(obj) if isinstance(obj, Cell) and world().size > 1 else {}


def _check_save(
    save_obj: Any, name: Any, integrated: Any, async_save: Any, crc: Any, format: Any
) -> None:
    instance(Cell, list, dict, wanted="a Cell, a list or a dict")(
        save_obj, "save_checkpoint", "save_obj")
    instance(str)(name, "save_checkpoint", "ckpt_file_name")
    BOOL(integrated, "save_checkpoint", "integrated_save")
    BOOL.always(ValueError)(crc, "save_checkpoint", "crc_check")
    instance(bool, str)(async_save, "save_checkpoint", "async_save")
    if isinstance(async_save, str) and async_save not in ("process", "thread"):
        raise ValueError("For 'save_checkpoint', the argument 'async_save' can only be 'process' "
                         f"or 'thread', but got {async_save}.")
    _check_format("save_checkpoint", format)


def _check_format(function: str, format: Any) -> None:
    if format not in FORMATS:
        raise ValueError(
            f"For '{function}', the format must be 'safetensors' or 'ckpt', but got {format}.")


def _no_encryption(function: str, argument: str, key: Any, way: Any) -> None:
    instance(str).always(ValueError)(way, function, f"{argument}_mode")
    instance(bytes, NoneType).always(ValueError)(key, function, f"{argument}_key")
    if key is None:
        return
    raise ValueError(f"For '{function}', encrypted checkpoints are not supported: leave "
                     f"'{argument}_key' out, and encrypt the file, or the disk it is on, with a "
                     "tool made for it.")


def _entries_of(save_obj: Any) -> dict[str, Array | str]:
    if isinstance(save_obj, Cell):
        return {name: _array_of(value) for name, value in _state_of(save_obj).items()}
    if isinstance(save_obj, dict):
        return dict(_entry_of(name, value) for name, value in save_obj.items())
    out: dict[str, Array | str] = {}
    for item in save_obj:
        if isinstance(item, dict):
            if not {"name", "data"} <= item.keys():
                raise TypeError("For 'save_checkpoint', each dict in the list 'save_obj' must have "
                                "the keys 'name' and 'data', but one has "
                                f"{sorted(map(str, item))}.")
            out |= [_entry_of(item["name"], item["data"])]
        elif isinstance(item, Parameter):
            out[item.name] = _array_of(item)
        else:
            raise TypeError("For 'save_checkpoint', the list 'save_obj' must hold Parameters or "
                            f"dicts, but holds a {type(item)}.")
    return out


def _state_of(net: Cell) -> dict[str, Tensor]:
    """Return the state of a network: its parameters and persistent buffers, by name."""
    look_through(net)
    state: dict[str, Tensor] = {p.name: p for p in net.get_parameters() if not is_elsewhere(p)}
    kept = net.state_dict()
    return state | {name: b for name, b in net.named_buffers() if name in kept}


def _entry_of(name: Any, value: Any) -> tuple[str, Array | str]:
    instance(str)(name, "save_checkpoint", "the name of a tensor")
    instance(Tensor, str)(value, "save_checkpoint", f"{name}")
    return name, _array_of(value) if isinstance(value, Tensor) else value


def _array_of(tensor: Tensor) -> Array:
    array: Array = elements_now(tensor)
    return array


def _choose(entries: dict[str, Array | str], choice: Choice | None) -> dict[str, Array | str]:
    if choice is None:
        return entries
    FUNCTION(choice, "save_checkpoint", "choice_func")
    return {name: value for name, value in entries.items() if choice(name)}


def _appended(given: Any) -> dict[str, Array | str]:
    if given is None:
        return {}
    instance(dict)(given, "save_checkpoint", "append_dict")
    out: dict[str, Array | str] = {}
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, (bool, int, float, str, Tensor)):
            raise TypeError("For 'save_checkpoint', 'append_dict' must have string keys and values "
                            "that are int, float, bool, string, Parameter or Tensor, but got key: "
                            f"{type(key)}, value: {type(value)}")
        if isinstance(value, str):
            out[key] = value
        else:
            out[key] = _array_of(value if isinstance(value, Tensor) else Tensor(value))
    return out


class _Background(threading.Thread):
    """Writes one file; the process does not end before it is done."""

    running: dict[str, _Background] = {}
    failed: list[tuple[str, BaseException]] = []
    """Files that could not be written, with the error, until it is raised."""
    _lock = renewed(threading.Lock())

    def __init__(self, path: str, work: Callable[[], None]) -> None:
        super().__init__(name="asyn_save_ckpt", daemon=False)
        self.path, self.work = path, work
        with self._lock:
            self.running[path] = self

    def run(self) -> None:
        try:
            self.work()
        except BaseException as e:
            _log().error("the checkpoint %s was not saved: %s", self.path, e)
            self.failed.append((self.path, e))
        finally:
            with self._lock:
                self.running.pop(self.path, None)

    @classmethod
    def wait_for(cls, path: str | None = None) -> None:
        """Wait for the one that writes `path`, or for all."""
        with cls._lock:
            found = [t for p, t in cls.running.items() if path in (None, p)]
        for thread in found:
            thread.join()

    @classmethod
    def raise_failed(cls) -> None:
        """Raise the first failure that was not raised yet. Raises OSError if a file was not
        written."""
        if cls.failed:
            (path, error), *others = cls.failed
            cls.failed.clear()
            more = f" (nor were {[p for p, _ in others]})" if others else ""
            raise OSError(f"For 'save_checkpoint', the checkpoint {path} was not saved{more}: "
                          f"the thread that wrote it failed: {error}") from error

    @classmethod
    def start_in_child(cls) -> None:
        """A forked process has none of the threads, and none of their failures."""
        cls.running.clear()
        cls.failed.clear()


class _ExitStatus:
    """Ends the process with status 1 when this module is cleared, after all exit functions have
    run and the standard streams are flushed.

    Python has no way to set the status once the program has ended: it ignores what an exit function
    raises, SystemExit too, and `os._exit` in one skips those that were registered earlier (of
    logging and multiprocessing, say) and files that are open.
    """

    def __del__(self, end: Callable[[int], Any] = os._exit) -> None:
        end(1)


_exit_status: _ExitStatus | None = None


def finish_saves() -> None:
    """Wait for the files that threads write. Raises OSError if one was not written."""
    _Background.wait_for()
    _Background.raise_failed()


def _finish_at_exit() -> None:
    global _exit_status
    try:
        finish_saves()
    except OSError:
        _exit_status = _ExitStatus()
        raise


atexit.register(_finish_at_exit)
in_child(_Background.start_in_child)


def async_ckpt_thread_status() -> bool:
    """Whether a checkpoint is being written by a thread."""
    return bool(_Background.running)


# --- loading ------------------------------------------------------------------------------------


def load_checkpoint(
    ckpt_file_name: str | io.BytesIO,
    net: Cell | None = None,
    strict_load: bool = False,
    filter_prefix: str | list[str] | tuple[str, ...] | None = None,
    dec_key: bytes | None = None,
    dec_mode: str = "AES-GCM",
    specify_prefix: str | list[str] | tuple[str, ...] | None = None,
    choice_func: Choice | None = None,
    crc_check: bool = False,
    remove_redundancy: bool = False,
    format: str = "ckpt",
) -> dict[str, Any]:
    """Read a checkpoint: Parameters (texts as `str`) by name, in the order of the file.

    Args:
        ckpt_file_name: a `.ckpt` or `.safetensors` file, or the bytes of a safetensors file.
        net: a network that takes the values, as with `load_param_into_net`.
        strict_load: see `load_param_into_net`.
        filter_prefix, specify_prefix: leave out, or take only, names with these prefixes; older
            forms of `choice_func`, which they override.
        dec_key, dec_mode: encryption is not supported; a key is an error.
        choice_func: called with a name; whether it is loaded.
        crc_check: whether the CRC-32 of the file is checked; there must be one then.
        remove_redundancy: see `load_param_into_net`.
        format: "ckpt" or "safetensors".

    Raises:
        ValueError: there is no such file, it is damaged or of another format, or nothing in it
            was chosen. Nothing is loaded then.
    """
    _check_format("load_checkpoint", format)
    _check_file(ckpt_file_name, format)
    _no_encryption("load_checkpoint", "dec", dec_key, dec_mode)
    for what, value in (("crc_check", crc_check), ("remove_redundancy", remove_redundancy)):
        BOOL.always(ValueError)(value, "load_checkpoint", what)
    taken = _selection(filter_prefix, specify_prefix, choice_func)
    try:
        found = read(ckpt_file_name, format, crc_check)
    except OSError as e:
        raise ValueError(f"For 'load_checkpoint', {ckpt_file_name} cannot be read: "
                         f"{e.strerror or e}.") from e
    loaded = {name: _loaded(name, value) for name, value in found.items() if taken(name)}
    if not loaded:
        file = "the file" if isinstance(ckpt_file_name, io.BytesIO) else ckpt_file_name
        raise ValueError("The loaded parameter dict is empty after filter or specify, please check "
                         f"whether {file} has parameters that were chosen; it has "
                         f"{_listed(list(found))}.")
    if net is not None:
        load_param_into_net(net, loaded, strict_load, remove_redundancy)
    return loaded


def _loaded(name: str, value: Array | str) -> Parameter | str:
    return value if isinstance(value, str) else Parameter(tensor_of(value), name=name)


def _check_file(file: Any, format: str) -> None:
    if isinstance(file, io.BytesIO):
        if format != "safetensors":
            raise TypeError("For 'load_checkpoint', an io.BytesIO is read as safetensors only: "
                            "give format='safetensors'.")
        return
    instance(str)(file, "load_checkpoint", "ckpt_file_name")
    if not file.endswith(format):
        ending = os.path.splitext(file)[1]
        raise ValueError("For 'load_checkpoint', the name of the file must end in the value of "
                         f"'format', but got file_name:'{file}', "
                         f"format:'{format}'{_INSTEAD.get(ending, '')}")
    if not os.path.isfile(file):
        raise ValueError(f"For 'load_checkpoint', the checkpoint file: {os.path.realpath(file)} "
                         "does not exist, please check whether the 'ckpt_file_name' is correct.")


def _selection(left_out: Any, only: Any, choice: Choice | None) -> Choice:
    """Which names to load."""
    excluded, included = _prefixes(left_out), _prefixes(only)
    if included or excluded:
        return lambda name: (not included or name.startswith(included)) and not (
            excluded and name.startswith(excluded)
        )
    instance(Callable, NoneType, wanted="a function or None")(
        choice, "load_checkpoint", "choice_func")
    return choice or (lambda name: True)


def _prefixes(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    many = (given,) if isinstance(given, str) else given
    if many in ((), []):
        raise ValueError("For 'load_checkpoint', the argument 'specify_prefix' or 'filter_prefix' "
                         "can't be empty when it is a list or tuple.")
    if not isinstance(many, (list, tuple)) or not all(isinstance(p, str) for p in many):
        raise TypeError("For 'load_checkpoint', the type of 'specify_prefix' or 'filter_prefix' "
                        f"must be string, list[string] or tuple[string], but got {type(given)}.")
    if "" in many:
        raise ValueError("For 'load_checkpoint', the value of 'specify_prefix' or 'filter_prefix' "
                         "can't include ''.")
    return tuple(many)


class ParamDictFuture:
    """The result of `load_checkpoint_async`: `result()` waits for the parameters."""

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        self._value: dict[str, Any] = {}
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], dict[str, Any]]) -> None:
        try:
            self._value = work()
        except BaseException as e:
            self._error = e

    def result(self) -> dict[str, Any]:
        """The parameters by name."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value


def load_checkpoint_async(
    ckpt_file_name: str,
    net: Cell | None = None,
    strict_load: bool = False,
    filter_prefix: str | list[str] | tuple[str, ...] | None = None,
    dec_key: bytes | None = None,
    dec_mode: str = "AES-GCM",
    specify_prefix: str | list[str] | tuple[str, ...] | None = None,
    choice_func: Choice | None = None,
) -> ParamDictFuture:
    """`load_checkpoint` in a thread, of the format that the file's suffix tells.

    Returns:
        ParamDictFuture, whose `result()` gives what `load_checkpoint` returns, or raises.
    """
    name = ckpt_file_name
    format = "safetensors" if isinstance(name, str) and name.endswith(".safetensors") else "ckpt"
    return ParamDictFuture(
        lambda: load_checkpoint(name, net, strict_load, filter_prefix, dec_key, dec_mode,
                                specify_prefix, choice_func, format=format)
    )


# --- into a network -----------------------------------------------------------------------------


def load_param_into_net(
    net: Cell,
    parameter_dict: Mapping[str, Any],
    strict_load: bool = False,
    remove_redundancy: bool = False,
) -> tuple[list[str], list[str]]:
    """Copy parameters into those of a network that have the same names.

    Nothing is copied if one of them does not fit.

    Args:
        net: the network (or optimizer).
        parameter_dict: Parameters by name, as `load_checkpoint` returns them; of those that are
            parted among ranks this rank's part, or the whole.
        strict_load: whether names and types must be equal. Otherwise a parameter that is not
            there takes one whose name ends with a dot and its own (`backbone.conv.weight` for
            `conv.weight`), and values are converted among floats and among signed integers, if
            they are in the range of the new type.
        remove_redundancy: what this rank's file lacks comes from the ranks whose files have it;
            all ranks call it.

    Returns:
        Names of the network that got nothing, and names of `parameter_dict` that the network
        does not have.

    Raises:
        TypeError: `net` is no Cell, `parameter_dict` no dict of Parameters by name, or
            `strict_load` no bool.
        RuntimeError: a shape, a type or a value does not fit, or several names end alike.
    """
    instance(Cell)(net, "load_param_into_net", "net")
    BOOL(strict_load, "load_param_into_net", "strict_load")
    BOOL.always(ValueError)(remove_redundancy, "load_param_into_net", "remove_redundancy")
    given = _parameters(parameter_dict)
    own = _state_of(net)
    layouts = _parted(net)
    given = _own_parts(given, own, layouts)
    if remove_redundancy and world().size > 1:
        given = parts.completed(given, own, layouts)
    pairs = [(name, given[name]) for name in own if name in given]
    missing = [name for name in own if name not in given]
    if missing and not strict_load:
        by_suffix = _match_suffixes(missing, [n for n in given if n not in own])
        pairs += [(name, given[source]) for name, source in by_suffix.items()]
        missing = [name for name in missing if name not in by_suffix]
    values = [_fitted(name, own[name], new, strict_load) for name, new in pairs]
    buffers = {}
    for (name, _), value in zip(pairs, values, strict=True):
        parameter = own[name]
        if isinstance(parameter, Parameter):
            parameter.set_data(value)
        else:
            buffers[name] = value
    if buffers:
        net.load_state_dict(buffers, strict=False)
    if missing:
        _log().warning(
            "For 'load_param_into_net', %d parameters in the 'net' are not loaded, because they "
            "are not in the 'parameter_dict': %s", len(missing), _listed(missing),
        )
    return missing, [name for name in given if name not in own]


def _parameters(given: Any) -> dict[str, Parameter]:
    instance(Mapping, wanted="a dict")(given, "load_param_into_net", "parameter_dict")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, (Parameter, str)):
            raise TypeError("For 'parameter_dict', the element in the argument 'parameter_dict' "
                            f"should be a 'str' and 'Parameter', but got {type(name)} and "
                            f"{type(value)}.")
    return {name: value for name, value in given.items() if isinstance(value, Parameter)}


def _own_parts(
    given: dict[str, Parameter], own: Mapping[str, Tensor], layouts: Mapping[str, PartLayout]
) -> dict[str, Parameter]:
    """Of whole parameters of which this rank has a part, this part."""
    out = dict(given)
    for name, layout in layouts.items():
        if name in given and name in own and given[name].shape == layout.whole(own[name].shape):
            part = parts.own_part(name, _array_of(given[name]), layout)
            out[name] = Parameter(tensor_of(part), name=name)
    return out


def _match_suffixes(missing: Iterable[str], unused: list[str]) -> dict[str, str]:
    """Which unused name each missing one takes: a prefix, a dot and the missing name.

    Of several, the one whose prefix serves most of the missing names, and then the shortest, if
    the others only prepend more to it (`backbone.w` and `moments.backbone.w` for `w`).
    """
    ending = {name: [u for u in unused if u.endswith("." + name)] for name in missing}
    uses = Counter(u.removesuffix(name) for name, candidates in ending.items() for u in candidates)
    out: dict[str, str] = {}
    for name, candidates in ending.items():
        most = max((uses[u.removesuffix(name)] for u in candidates), default=0)
        best = sorted((u for u in candidates if uses[u.removesuffix(name)] == most), key=len)
        if unclear := [u for u in best if not f".{u}".endswith(f".{best[0]}")]:
            raise RuntimeError(
                f"For 'load_param_into_net', {name} in the argument 'net' could take "
                f"{_listed([best[0], *unclear])} of the argument 'parameter_dict'. Remove all but "
                "one of them, or give strict_load=True, which takes none.")
        if best:
            out[name] = best[0]
    return out


def _fitted(name: str, old: Tensor, new: Parameter, strict: bool) -> Tensor:
    """The value that `old` takes from `new`."""
    if old.shape != new.shape and not (old.shape == () and new.shape == (1,)):
        raise RuntimeError(f"For 'load_param_into_net', {name} in the argument 'net' should have "
                           f"the same shape as {new.name} in the argument 'parameter_dict'. But "
                           f"got its shape {old.shape} in the argument 'net' and shape {new.shape} "
                           "in the argument 'parameter_dict'. Check that the network was built as "
                           "it was for the checkpoint.")
    if old.dtype is not new.dtype:
        kinds = {old.dtype.kind, new.dtype.kind}
        if strict or kinds not in ({"float"}, {"int"}):
            raise RuntimeError(f"For 'load_param_into_net', {name} in the argument 'net' should "
                               f"have the same type as {new.name} in the argument "
                               f"'parameter_dict'. But got its type {old.dtype} in the argument "
                               f"'net' and type {new.dtype} in the argument 'parameter_dict'.")
        _log().warning(
            "The type of %s:%s in 'parameter_dict' is different from the type of it in "
            "'net':%s, then the type convert from %s to %s in the network.",
            new.name, new.dtype, old.dtype, new.dtype, old.dtype,
        )
        _check_range(name, old, new)
    value: Tensor = new.value().astype(old.dtype)
    if value.shape != old.shape:
        value = value.reshape(old.shape)
    return value


def _check_range(name: str, old: Tensor, new: Parameter) -> None:
    given = _array_of(new)
    lost = np.argwhere(out_of_range(given, old.dtype.numpy))
    if len(lost):
        at = tuple(lost[0].tolist())
        raise RuntimeError(
            f"For 'load_param_into_net', {name} in the argument 'net' is {old.dtype}, which cannot "
            f"hold {given[at]}, the value at {list(at)} of {new.name} in the argument "
            f"'parameter_dict' ({new.dtype}). Build the network with {new.dtype}, or change the "
            "value.")


def _listed(names: list[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{names[:most]}{more}"


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        """Names of MindSpore's module that are defined elsewhere."""
        if name in older_names.NAMES:
            return older_names.NAMES[name]
        raise no_attribute(__name__, name)
