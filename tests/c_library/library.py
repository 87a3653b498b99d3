"""C libraries called from Python by ctypes, through the layouts that the compiler writes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler.c_library.abi import ABI, DTYPES, MAX_NDIM, STRUCTURES, Code, code_of
from cellc_runtime import dtypes

Array = np.ndarray[Any, Any]
_KINDS: dict[str, Any] = {
    "ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
    "i8": ctypes.c_uint8, f"[{MAX_NDIM} x i64]": ctypes.c_int64 * MAX_NDIM,
    "[1016 x i8]": ctypes.c_char * 1016,
}
PUBLIC = ("error", "tensor", "size", "argument", "entry", "weight", "options", "library")
"""The structures that the header declares."""


def structure(name: str) -> Any:
    """A structure of the interface for ctypes."""
    fields = [(field, _KINDS[kind]) for field, kind in STRUCTURES[name]]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


Error, Tensor, Options, Library, Entry, Argument, Size, DLTensor = map(structure, (
    "error", "tensor", "options", "library", "entry", "argument", "size", "dltensor"))

_I32, _PTR = ctypes.c_int32, ctypes.c_void_p
_SIGNATURES = {
    "create": (_PTR, _PTR, _PTR, _PTR), "destroy": (_PTR,), "reset": (_PTR, _PTR),
    "clone": (_PTR, _PTR, _PTR), "find": (_PTR, ctypes.c_char_p),
    "measure": (_PTR, _I32, _PTR, _I32, _PTR, _I32, _PTR),
    "run": (_PTR, _I32, _PTR, _I32, _PTR, _I32, _PTR),
    "run_dlpack": (_PTR, _I32, _PTR, _I32, _PTR, _I32, _PTR),
    "weight": (_PTR, ctypes.c_char_p, _PTR, _PTR), "save": (_PTR, ctypes.c_char_p, _PTR),
    "set_threads": (_PTR, _I32, _PTR), "set_executor": (_PTR, _PTR, _PTR),
}


class Failed(Exception):
    """A code that is not OK."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = Code(code)


class CLibrary:
    """A shared library."""

    def __init__(self, path: Path) -> None:
        self.dll = ctypes.CDLL(str(path))
        get = self.dll.cellc_get_library
        get.restype, get.argtypes = _PTR, (_I32, _PTR)
        self.address = get(ABI, None)
        self.table = Library.from_address(self.address)

    def function(self, name: str) -> Any:
        """A function of the table."""
        result = None if name in ("destroy", "set_executor") else _I32
        return ctypes.CFUNCTYPE(result, *_SIGNATURES[name])(getattr(self.table, name))

    def check(self, name: str, *args: Any) -> None:
        """Call a function that can fail; the error comes after these."""
        error = Error()
        code = self.function(name)(*args, ctypes.addressof(error))
        text = error.text.decode()
        assert code == error.code and len(error.text) == error.length
        assert (code == 0) == (text == "")
        if code:
            raise Failed(code, text)

    def entries(self) -> list[Any]:
        """What it says about its entries."""
        return list((Entry * self.table.nentries).from_address(self.table.entries))

    def session(self, weights: Path | str | None = None, threads: int = 0) -> Session:
        """A new session."""
        path = None if weights is None else str(weights).encode()
        options = Options(ctypes.cast(ctypes.c_char_p(path), _PTR).value, threads, 0)
        made = ctypes.c_void_p()
        self.check("create", self.address, ctypes.addressof(options), ctypes.addressof(made))
        return Session(self, made)


def tensor(array: Array | None) -> Any:
    """An array as a tensor; None: nothing."""
    if array is None:
        return Tensor()
    made = Tensor(array.ctypes.data, array.nbytes, code_of(dtypes.from_numpy(array.dtype)),
                  array.ndim)
    for i, d in enumerate(array.shape[:MAX_NDIM]):
        made.shape[i] = d
    return made


class Session:
    """A session of a library."""

    def __init__(self, library: CLibrary, handle: Any) -> None:
        self.library, self.handle = library, handle

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Destroy it."""
        self.library.function("destroy")(self.handle)
        self.handle = ctypes.c_void_p()

    def number(self, entry: str) -> int:
        """The number of an entry."""
        return int(self.library.function("find")(self.library.address, entry.encode()))

    def raw(self, function: str, entry: int, inputs: Any, outputs: Any) -> None:
        """`run` or `measure` on arrays of tensors."""
        self.library.check(function, self.handle, entry, ctypes.addressof(inputs), len(inputs),
                           ctypes.addressof(outputs), len(outputs))

    def types(self, entry: str, *arrays: Array) -> list[Array]:
        """Empty arrays for the outputs."""
        number = self.number(entry)
        count = self.library.entries()[number].noutputs
        outputs = (Tensor * count)()
        self.raw("measure", number, (Tensor * len(arrays))(*map(tensor, arrays)), outputs)
        out = []
        for o in outputs:
            dtype = DTYPES[o.dtype]
            assert dtype is not None
            out.append(np.empty(tuple(o.shape[: o.ndim]), dtype.numpy))
            assert out[-1].nbytes == o.nbytes
        return out

    def run(self, entry: str, *arrays: Array, out: Sequence[Array] | None = None) -> list[Array]:
        """Call an entry."""
        results = self.types(entry, *arrays) if out is None else out
        inputs = (Tensor * len(arrays))(*map(tensor, arrays))
        outputs = (Tensor * len(results))(*map(tensor, results))
        self.raw("run", self.number(entry), inputs, outputs)
        for made, o in zip(results, outputs, strict=True):
            assert tuple(o.shape[: o.ndim]) == made.shape
        return list(results)

    def clone(self) -> Session:
        """Another one with its values."""
        made = ctypes.c_void_p()
        self.library.check("clone", self.handle, ctypes.addressof(made))
        return Session(self.library, made)

    def reset(self) -> None:
        """Give the weights their first values."""
        self.library.check("reset", self.handle)

    def save(self, path: Path | str) -> None:
        """Write the weights."""
        self.library.check("save", self.handle, str(path).encode())

    def weight(self, name: str) -> Array:
        """A copy of a weight."""
        found = Tensor()
        self.library.check("weight", self.handle, name.encode(), ctypes.addressof(found))
        dtype = DTYPES[found.dtype]
        assert dtype is not None
        raw = ctypes.string_at(found.data, found.nbytes)
        return np.frombuffer(raw, dtype.numpy).reshape(tuple(found.shape[: found.ndim]))
