"""The native entry: an interpreter-level function over an image's `cellc_entry`.

The image's code does the usual call by itself, from a context this module fills. It is used where
its assumptions hold on this very interpreter and numpy, which `supported` verifies on a live array;
everywhere else the Python path serves alone.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from .abi import STRUCTURES, Ext
from .dtypes import ALL, DType
from .platform import Scratch, address_of
from .program import Program
from .shape_polymorphic import LIMIT

_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_METH_FASTCALL = 0x80
_NEW_FROM_DESCR = 94
"""Place of `PyArray_NewFromDescr` in numpy's C-API table (the same in 1.x and 2.x)."""
_SET_HANDLER = 304  # Place of `PyDataMem_SetHandler` (since numpy 1.22)
_LAYOUT = np.dtype(
    {
        "names": ["type", "data", "nd", "dims", "descr", "flags"],
        "formats": ["u8", "u8", "i4", "u8", "u8", "i4"],
        "offsets": [8, 16, 24, 32, 56, 64],
    }
)
_PYTHON = {
    Ext.CAPSULE_GET_POINTER: "PyCapsule_GetPointer", Ext.VECTORCALL: "PyObject_Vectorcall",
    Ext.CALL_NO_ARGS: "PyObject_CallNoArgs", Ext.CALL_ONE_ARG: "PyObject_CallOneArg",
    Ext.TUPLE_NEW: "PyTuple_New", Ext.TUPLE_SET_ITEM: "PyTuple_SetItem",
    Ext.INC_REF: "Py_IncRef", Ext.DEC_REF: "Py_DecRef", Ext.SAVE_THREAD: "PyEval_SaveThread",
    Ext.RESTORE_THREAD: "PyEval_RestoreThread", Ext.LONG_FROM_LONG: "PyLong_FromLong",
    Ext.LONG_AS_VOID_PTR: "PyLong_AsVoidPtr", Ext.GENERIC_ALLOC: "PyType_GenericAlloc",
    Ext.LIST_APPEND: "PyList_Append", Ext.RICH_COMPARE_BOOL: "PyObject_RichCompareBool",
    Ext.THREAD_STATE_GET: "PyThreadState_Get", Ext.TUPLE_GET_ITEM: "PyTuple_GetItem",
    Ext.ERR_CLEAR: "PyErr_Clear",
}  # fmt: skip


@cache
def python_functions() -> dict[Ext, int]:
    """Addresses of the interpreter's and numpy's functions for the external table; empty where
    the native entry cannot be used."""
    if not supported():
        return {}
    api = ctypes.pythonapi
    table = {ext: address_of(getattr(api, name)) for ext, name in _PYTHON.items()}
    numpy_table = _numpy_table()
    table[Ext.NEW_FROM_DESCR] = int(numpy_table[_NEW_FROM_DESCR] or 0)
    table[Ext.SET_HANDLER] = int(numpy_table[_SET_HANDLER] or 0)
    return table


@cache
def supported() -> bool:
    """Whether this interpreter and numpy are what the native entry assumes."""
    if sys.implementation.name != "cpython" or sys.platform == "win32":
        return False
    if "t" in getattr(sys, "abiflags", "") or sys.maxsize != 2**63 - 1:
        return False  # free threading guards nothing by one lock, and objects look different
    if not all(hasattr(ctypes.pythonapi, name) for name in _PYTHON.values()):
        return False
    table = _numpy_table()
    return _layout_holds() and table is not None and bool(table[_SET_HANDLER])


def _layout_holds() -> bool:
    array: Any = np.zeros((3, 5), np.float32)
    if array.__sizeof__() < _LAYOUT.itemsize or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    raw = (ctypes.c_char * _LAYOUT.itemsize).from_address(id(array))
    fields = np.frombuffer(memoryview(raw), _LAYOUT)[0]
    wanted = (id(np.ndarray), array.__array_interface__["data"][0], 2, id(array.dtype))
    if tuple(int(fields[name]) for name in ("type", "data", "nd", "descr")) != wanted:
        return False
    usual = _C_CONTIGUOUS | _ALIGNED | _WRITEABLE
    writeable = int(fields["flags"]) & usual == usual
    array.flags.writeable = False
    read_only = int(np.frombuffer(memoryview(raw), _LAYOUT)[0]["flags"]) & _WRITEABLE == 0
    dims = tuple((ctypes.c_int64 * 2).from_address(int(fields["dims"])))
    return writeable and read_only and dims == (3, 5)


def _numpy_table() -> Any:
    core = getattr(np, "_core", None) or np.core
    capsule = getattr(getattr(core, "_multiarray_umath", None), "_ARRAY_API", None)
    if capsule is None:
        return None
    kind = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    get = kind(address_of(ctypes.pythonapi.PyCapsule_GetPointer))
    return (ctypes.c_void_p * 400).from_address(get(capsule, None))


_KINDS = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32}


def structure(name: str) -> Any:
    """The class of a structure that generated code reads."""
    fields = [(field, _KINDS[kind]) for field, kind in STRUCTURES[name]]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_Spec, _Context, _Block = map(structure, ("spec", "context", "block"))


class MethodDef(ctypes.Structure):
    """C's `PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


def native_function(
    definition: MethodDef, data: ctypes.Structure, owner: object
) -> tuple[Callable[..., Any], object]:
    """A function whose code is given a capsule of `data`, and the capsule. It keeps `owner`, which
    must keep the definition and the data."""
    new, _ = _constructors()
    capsule = _capsule(data, None)
    return new(ctypes.addressof(definition), capsule, owner), capsule


def _capsule(data: ctypes.Structure, name: int | None) -> object:
    capsule: object = _constructors()[1](ctypes.addressof(data), name, None)
    return capsule


@cache
def _constructors() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Python's functions that make a builtin function and a capsule."""
    anything, pointer = ctypes.py_object, ctypes.c_void_p
    return (ctypes.PYFUNCTYPE(anything, pointer, anything, anything)(
                address_of(ctypes.pythonapi.PyCFunction_NewEx)),
            ctypes.PYFUNCTYPE(anything, pointer, pointer, pointer)(
                address_of(ctypes.pythonapi.PyCapsule_New)))


class _DataHandler(ctypes.Structure):
    """numpy's `PyDataMem_Handler` (NEP 49)."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("ctx", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("malloc", "calloc", "realloc", "free")),
    ]  # fmt: skip


_CAPSULE_NAME = ctypes.create_string_buffer(b"mem_handler")


def data_handler(functions: Sequence[int]) -> int:
    """The capsule through which numpy calls these functions (malloc, calloc, realloc, free).

    It is never freed, and neither may the functions be: arrays that own memory from them can
    outlive everything else.
    """
    handler = _DataHandler(b"cellc", 1, None, *functions)
    capsule = _capsule(handler, ctypes.addressof(_CAPSULE_NAME))
    for keep in (handler, capsule):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(keep))
    return id(capsule)


class _Slots:
    """Which slots of a program are what, for contexts of it at several sizes.

    Attributes:
        count: of all slots.
        inputs, outputs: numbers of these.
        written: those that updates are written to.
        aliases: the pairs of an update and that, one after the other.
    """

    def __init__(self, program: Program) -> None:
        slots = program.slots
        self.count = len(slots)
        self.inputs, self.outputs = ([i for i, s in enumerate(slots) if s.kind == kind]
                                     for kind in ("input", "output"))
        self.written = {s.alias for s in slots if s.alias is not None}
        numbers = [n for i, s in enumerate(slots) if s.alias is not None for n in (i, s.alias)]
        self.aliases = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


class Grow:
    """Called by the entry when all blocks are in use: the address of one more.

    A block is what one call needs for itself: the table of slots, the arena, and room for the
    results. It owns the blocks it made.
    """

    def __init__(self, program: Program, slots: _Slots) -> None:
        self._program = program
        self._slots, self._outputs = slots.count, len(slots.outputs)
        self._made: list[Any] = []

    def __call__(self) -> int:
        slots = (ctypes.c_void_p * max(self._slots, 1))()
        results = (ctypes.c_void_p * max(self._outputs, 1))()
        try:
            arena = Scratch(self._program.arena_bytes)
        except MemoryError as e:
            given = ", ".join(f"{s.name}: {s.dtype.name}{list(s.shape)}"
                              for s in self._program.slots if s.kind == "input")
            raise MemoryError(f"{self._program.name} with {given or 'no inputs'}: {e}") from None
        block = _Block(
            slots=ctypes.addressof(slots), results=ctypes.addressof(results), arena=arena.address
        )
        self._made.append((slots, results, arena, block))
        return ctypes.addressof(block)


class Context:
    """The data that the native entry of one program reads.

    Args:
        main: address of `cellc_main`.
        consts: address of the constants.
        slow: called for anything unusual, with the arguments.
        fail: called with an error code and the address of the call's arena; raises.
        like: the context of a program whose slots differ in shapes of inputs and outputs alone.

    The callables are borrowed: whoever owns this context keeps them.
    """

    _slots: _Slots

    def __init__(
        self, program: Program, main: int, consts: int, slow: object,
        fail: Callable[[int, int], None], like: Context | None = None,
    ) -> None:  # fmt: skip
        raw = _Context()
        self._raw = raw
        self._keep: list[Any] = []
        raw.main, raw.consts, raw.ndarray = main, consts, id(np.ndarray)
        raw.slow, raw.fail = id(slow), id(fail)
        found = _Slots(program) if like is None else like._slots
        self._slots = found
        self.grow = Grow(program, found)
        raw.grow = id(self.grow)
        raw.nargs, raw.nouts, raw.nslots = len(found.inputs), len(found.outputs), found.count
        raw.args = self._specs(program, found.inputs, found.written)
        raw.outs = self._specs(program, found.outputs, found.written)
        self.template = (ctypes.c_void_p * max(raw.nslots, 1))()
        raw.template = ctypes.addressof(self.template)
        raw.naliases, raw.aliases = len(found.written), ctypes.addressof(found.aliases)
        if program.broadcasts:
            raw.sized, raw.limit = 1, LIMIT

    def _specs(self, program: Program, indices: Sequence[int], written: set[int]) -> int:
        specs = (_Spec * max(len(indices), 1))()
        for spec, index in zip(specs, indices, strict=False):
            slot = program.slots[index]
            dims = (ctypes.c_int64 * max(len(slot.shape), 1))(*slot.shape)
            descr = _descr(slot.dtype)
            flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if index in written else 0)
            spec.descr, spec.dims = id(descr), ctypes.addressof(dims)
            spec.ndim, spec.flags, spec.slot = len(slot.shape), flags, index
            spec.nbytes = slot.nbytes
            if program.broadcasts:  # any shape; how an input is broadcast, the output's elements
                last = index == len(program.broadcasts)
                spec.ndim = -1
                spec.nbytes = slot.dtype.itemsize if last else program.broadcasts[index]
            self._keep += [dims, descr]
        self._keep.append(specs)
        return ctypes.addressof(specs)

    def bind(
        self, bound: tuple[object, ...], addresses: Sequence[tuple[int, int]],
        written: Sequence[tuple[int, int]], release: int,
    ) -> None:  # fmt: skip
        """Enter the addresses `(slot, address)` of what is bound, kept alive by `bound`, and
        the ranges `(first, past)` that calls write.

        `release`: whether calls release the interpreter lock; of a shape-polymorphic program, from
        how many elements on.
        """
        self._raw.ready = 0
        for slot, address in addresses:
            self.template[slot] = address
        self._written = (ctypes.c_int64 * max(2 * len(written), 1))(
            *(n for pair in written for n in pair)
        )
        self._raw.nwritten = len(written)
        self._set_bound(bound, release)

    def bind_like(self, other: Context, bound: tuple[object, ...], release: int) -> None:
        """Enter what is bound in the context of a program that takes the same; see `bind`."""
        self._raw.ready = 0
        ctypes.memmove(self.template, other.template, ctypes.sizeof(self.template))
        self._written, self._raw.nwritten = other._written, other._raw.nwritten
        self._set_bound(bound, release)

    def _set_bound(self, bound: tuple[object, ...], release: int) -> None:
        raw = self._raw
        raw.written = ctypes.addressof(self._written)
        raw.bound, raw.release, raw.ready = id(bound), release, 1

    def function(self, name: str, entry: int, owner: object) -> Callable[..., Any]:
        """The function over the entry at address `entry`; it keeps `owner` alive."""
        self._definition = MethodDef(name.encode(), entry, _METH_FASTCALL, None)
        made, self.capsule = native_function(self._definition, self._raw, owner)
        return made


def canonical(dtype: np.dtype[Any]) -> bool:
    """Whether this is the very object that numpy gives its own arrays."""
    return any(dtype is _descr(d) for d in ALL if d.numpy == dtype)


@cache
def _descr(dtype: DType) -> np.dtype[Any]:
    """The element type object that numpy gives its own arrays."""
    found: np.dtype[Any] = np.empty(0, dtype.numpy).dtype
    return found
