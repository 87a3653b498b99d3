"""Tensors of files that `torch.save` wrote, read without torch and without running any code.

A file is a zip archive: `data.pkl` says how tensors lie in storages, and each storage is a record
of plain bytes. The pickle is interpreted (`core.pickles`); of torch's objects it can make only the
tensors that `_GLOBALS` lists, and any other name is refused. A tensor is a view of its storage,
whose bounds are checked first.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.checkpoint import array_over
from cellc_runtime.dtypes import DType
from cellc_runtime.errors import ArtifactError, CutOff, UnsupportedType
from cellc_runtime.records import dataclass

from ..core.pickles import Name, PickleMachine

Array = np.ndarray[Any, Any]
MOST_PICKLE = 64 << 20  # Bytes of `data.pkl`: it has some 150 for each tensor
MOST_OBJECTS = 4_000_000
_MOST_AXES, _MOST_ELEMENTS = 32, 1 << 48
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""How files begin that torch wrote before version 1.6: a number, pickled."""

_TYPES = {
    "Float": dtypes.float32, "Double": dtypes.float64, "Half": dtypes.float16,
    "BFloat16": dtypes.bfloat16, "Long": dtypes.int64, "Int": dtypes.int32, "Short": dtypes.int16,
    "Char": dtypes.int8, "Byte": dtypes.uint8, "Bool": dtypes.bool_,
    "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
}
_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}
_ELEMENTS: dict[str, DType] = {
    **{f"torch.{name}Storage": dtype for name, dtype in _TYPES.items()},
    **{f"torch.{name}": _TYPES[of] for name, of in _NAMES.items()},
    "torch.uint16": dtypes.uint16, "torch.uint32": dtypes.uint32, "torch.uint64": dtypes.uint64,
}
_REFUSED = {
    "_rebuild_sparse_tensor": "a sparse tensor: make it dense (`.to_dense()`) before it is saved",
    "_rebuild_nested_tensor": "a nested tensor, which no layer here takes",
    "_rebuild_qtensor": "a quantised tensor: save the weights before they are quantised",
    "_rebuild_meta_tensor_no_storage": "a tensor of the device 'meta', which has no elements",
    "_rebuild_from_type_v2": "a subclass of Tensor: save plain tensors",
    "_rebuild_wrapper_subclass": "a subclass of Tensor: save plain tensors",
}


@dataclass(frozen=True, slots=True)
class _Storage:
    """The bytes of a storage; `dtype` is None where each tensor says it."""

    data: bytes
    dtype: DType | None


def read_torch(path: str | os.PathLike[str]) -> Any:
    """The object that `torch.save` wrote: nested dicts and lists, tensors as read-only arrays.
    Raises ArtifactError if it is damaged, of another format, or holds what is no data; OSError if
    it cannot be read."""
    with open(path, "rb") as file:
        head = file.read(len(_LEGACY))
        if head.startswith(_LEGACY[:14]):
            raise ArtifactError(f"it is in the legacy format that torch wrote before version 1.6 "
                                f"(a row of pickles), which is not read: {_AGAIN}")
        size = file.seek(0, os.SEEK_END)
        file.seek(257)
        if file.read(5) == b"ustar":
            raise ArtifactError("it is a tar archive, the legacy format that torch wrote before "
                                f"version 0.1.10, which is not read: {_AGAIN}")
        if not head.startswith(b"PK"):
            raise ArtifactError("it is no zip archive, as torch.save writes them")
        try:
            with zipfile.ZipFile(file) as archive:
                return _Archive(archive, size).read()
        except ArtifactError:
            raise
        except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, struct.error,
                OverflowError) as e:
            raise CutOff(f"it is damaged, or cut off: {e or type(e).__name__}") from None


_AGAIN = "load it in torch, and save the state_dict again"


class _Archive:
    """The records of a file by their names, without the folder that all are in."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self.archive = archive
        self.records: dict[str, zipfile.ZipInfo] = {}
        self.storages: dict[str, _Storage] = {}
        for info in archive.infolist():
            name = info.filename.partition("/")[2]
            if name in self.records:
                raise ArtifactError(f"it has two records named {name[:80]!r}")
            self.records[name] = info
        if sum(info.file_size for info in self.records.values()) > size:
            raise CutOff("it is damaged, or cut off: its records are longer than the file")
        if "constants.pkl" in self.records or any(n.startswith("code/") for n in self.records):
            raise ArtifactError("it is a TorchScript program, which holds code: save the "
                                "state_dict of the module instead")
        if "data.pkl" not in self.records:
            raise ArtifactError("it has no record 'data.pkl', so torch.save did not write it")

    def read(self) -> Any:
        """The object that was saved."""
        if "byteorder" in self.records and self.bytes("byteorder", 16) != b"little":
            raise ArtifactError("a big-endian machine wrote it, which is not read")
        return _Unpickler(self).run(self.bytes("data.pkl", MOST_PICKLE))

    def bytes(self, name: str, most: int | None = None) -> bytes:
        """The bytes of a record; its CRC-32 is checked."""
        info = self.records.get(name)
        if info is None:
            raise ArtifactError(f"it has no record {name[:80]!r}, which a tensor is in")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or \
                info.file_size != info.compress_size:
            raise ArtifactError(f"its record {name[:80]!r} is compressed or encrypted, as "
                                "torch.save writes none")
        if most is not None and info.file_size > most:
            raise ArtifactError(f"its record {name!r} has {info.file_size} bytes; {most} are the "
                                "most that is read")
        return self.archive.read(info)

    def storage(self, given: Any) -> _Storage:
        """The storage that a persistent id names: a kind, a type, a record, a device, a length."""
        if not isinstance(given, tuple) or len(given) != 5 or given[0] != "storage" or \
                not isinstance(given[2], str) or not _is_count(given[4]):
            raise ArtifactError("its pickle refers to something that is no storage")
        _, kind, key, _, count = given
        name = str(kind) if isinstance(kind, Name) else type(kind).__name__
        untyped = name == "torch.storage.UntypedStorage"
        dtype = None if untyped else _element_type(name)
        found = self.storages.get(key)
        if found is None:
            found = self.storages[key] = _Storage(self.bytes(f"data/{key}"), dtype)
        if found.dtype is not dtype or count * (dtype.itemsize if dtype else 1) != len(found.data):
            raise CutOff(f"its storage {key[:80]!r} has {len(found.data)} bytes, which are not "
                         f"{count} elements of {name}")
        return found


def _is_count(n: Any) -> bool:
    return type(n) is int and 0 <= n < _MOST_ELEMENTS


def _element_type(name: Any) -> DType:
    found = _ELEMENTS.get(name)
    if found is None:
        raise UnsupportedType(f"it holds elements of the type {name}, which no tensor here has")
    return found


# --- what the pickle may call ---------------------------------------------------------------------


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, grad: Any = False,
            hooks: Any = None, metadata: Any = None, dtype: DType | None = None) -> Array:
    """A view of a storage, within its bounds."""
    dtype = dtype or getattr(storage, "dtype", None)
    if not isinstance(storage, _Storage) or dtype is None or not _is_count(offset) or \
            not all(isinstance(s, tuple) and len(s) <= _MOST_AXES and all(map(_is_count, s))
                    for s in (size, stride)) or len(size) != len(stride):
        raise ArtifactError("it has a malformed tensor")
    if metadata:
        raise ArtifactError("it has a tensor that is conjugated or negated when it is read: save "
                            "a copy of it (`.resolve_conj().resolve_neg()`)")
    if math.prod(size) >= _MOST_ELEMENTS:
        raise ArtifactError(f"it has a tensor of the impossible shape {size}")
    count = len(storage.data) // dtype.itemsize
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if all(size) and last >= count:
        raise ArtifactError(f"it has a tensor of shape {size} with strides {stride} that reaches "
                            f"element {last} of a storage of {count}")
    flat = array_over(storage.data[: count * dtype.itemsize], dtype, (count,), "a tensor of bools")
    if not all(size):
        return array_over(b"", dtype, size, "a tensor")
    return np.lib.stride_tricks.as_strided(
        flat[offset:], size, [s * dtype.itemsize for s in stride], writeable=False)


def _tensor_of_type(storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any,
                    dtype: Any, metadata: Any = None) -> Array:
    name = str(dtype) if isinstance(dtype, Name) else None
    return _tensor(storage, offset, size, stride, grad, hooks, metadata, _element_type(name))


def _parameter(data: Any, grad: Any, hooks: Any, state: Any = None) -> Any:
    return data


def _ordered() -> OrderedDict[Any, Any]:
    return OrderedDict()  # (its items are set one by one, so that keys are looked at)


def _plain(*given: Any) -> Any:
    """An object that is no weight, such as a device: left out."""
    return None


_GLOBALS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_type,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "collections.OrderedDict": _ordered,
    "torch.Size": lambda dims=(): tuple(dims),
    "torch.device": _plain,
    "torch.serialization._get_layout": _plain,
}


# --- the pickle -----------------------------------------------------------------------------------


class _Unpickler(PickleMachine):
    """Makes tensors besides, of the storages of an archive."""

    what = "weights"
    most_steps = MOST_OBJECTS
    keys = (str, int, float, bool, NoneType)

    def __init__(self, archive: _Archive) -> None:
        super().__init__()
        self.persistent = archive.storage  # type: ignore[method-assign]  # what ids stand for

    def old_text(self, text: bytes) -> str:
        """A text, whoever wrote it."""
        return text.decode()

    def named(self, name: Name) -> Name:
        """A name of torch's that tensors need."""
        if name.name in _REFUSED and name.module.startswith("torch"):
            raise UnsupportedType(f"it holds {_REFUSED[name.name]}")
        full = str(name)
        known = full in _GLOBALS or full in _ELEMENTS or (
            name.module in ("torch", "torch.storage") and (
                name.name.endswith("Storage")
                or name.name.startswith(("float", "quint", "qint"))))
        if not known:
            raise ArtifactError(f"its pickle asks for {full!r}, which is no data: only tensors, "
                                "numbers, texts, lists and dicts are read. Save the state_dict "
                                "alone")
        return name

    def called(self, function: Any, given: Any) -> Any:
        """Call one of `_GLOBALS`."""
        name = str(function) if isinstance(function, Name) else ""
        if name not in _GLOBALS or not isinstance(given, tuple):
            raise ArtifactError(f"its pickle calls {name or type(function).__name__!r}, "
                                "which is not allowed")
        try:
            return _GLOBALS[name](*given)
        except (TypeError, ValueError) as e:
            if isinstance(e, ArtifactError):
                raise
            raise ArtifactError(f"its pickle calls {name} with arguments that do not fit") from None

    def build(self, target: Any, state: Any) -> None:
        """The attributes of an ordered dict, which are no weights."""
        self.top(OrderedDict)
