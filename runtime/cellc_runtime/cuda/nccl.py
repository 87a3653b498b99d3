"""NVIDIA's library for collectives of GPUs (libnccl) through ctypes.

Source: NVIDIA, NCCL 2.32 (nccl.h); `tests/cuda/test_nccl.py` compares the two.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .. import knobs
from ..errors import CollectiveError

Handle = ctypes.c_void_p
ID_BYTES = 128  # `NCCL_UNIQUE_ID_BYTES`
UINT8 = 1  # `ncclUint8`: all that is moved but not added is bytes
TYPES = {"int8": 0, "uint8": UINT8, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6,
         "float32": 7, "float64": 8, "bfloat16": 9}
"""`ncclDataType_t`."""
REDUCTIONS = {"sum": 0, "prod": 1}  # `ncclRedOp_t`, of those that are used
_INT, _SIZE = ctypes.c_int, ctypes.c_size_t
LEAST_VERSION = 21800  # NCCL 2.18; graphs and messages came with 2.9


class UniqueId(ctypes.Structure):
    """`ncclUniqueId`: by what the ranks of a communicator find each other."""

    _fields_ = [("internal", ctypes.c_char * ID_BYTES)]


SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "ncclGetVersion": (Handle,),
    "ncclGetUniqueId": (Handle,),
    "ncclCommInitRank": (Handle, _INT, UniqueId, _INT),
    "ncclCommAbort": (Handle,),
    "ncclCommGetAsyncError": (Handle, Handle),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclSend": (Handle, _SIZE, _INT, _INT, Handle, Handle),
    "ncclRecv": (Handle, _SIZE, _INT, _INT, Handle, Handle),
    "ncclAllGather": (Handle, Handle, _SIZE, _INT, Handle, Handle),
    "ncclBroadcast": (Handle, Handle, _SIZE, _INT, _INT, Handle, Handle),
    "ncclAllReduce": (Handle, Handle, _SIZE, _INT, _INT, Handle, Handle),
    "ncclReduceScatter": (Handle, Handle, _SIZE, _INT, _INT, Handle, Handle),
}
"""The functions in use, with the types of their arguments; all return an `ncclResult_t`."""
TEXTS: Mapping[str, tuple[Any, ...]] = {
    "ncclGetErrorString": (_INT,), "ncclGetLastError": (Handle,),
}
"""Functions that return a text."""

_IN_PROGRESS = 7
_REMEDIES = {
    1: "a call of the driver failed: is there one GPU for each rank, and memory left on it? "
       "NCCL_DEBUG=WARN says more",
    2: "a call of the system failed: NCCL_DEBUG=WARN says which; NCCL_SOCKET_IFNAME chooses the "
       "network, and containers need room in /dev/shm",
    3: "an error of NCCL itself: NCCL_DEBUG=INFO says more; CELLC_NCCL=none does without it",
    5: "ranks disagree about what they do, or two of them use one GPU (set_device chooses it)",
    6: "another rank has ended, or its machine cannot be reached: what that rank says comes first",
}


class Library(Protocol):
    """A library with NCCL's functions as attributes: libnccl, or its stand-in in tests."""

    def __getattr__(self, name: str) -> Any:
        """A function of `SIGNATURES` or `TEXTS`."""


class NoNccl(RuntimeError):
    """There is no NCCL to use; the text says why, and what to do."""


class NcclError(CollectiveError):
    """NCCL refused a call."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code  # the `ncclResult_t`


class Nccl:
    """The library.

    Raises:
        NoNccl: it is too old.
    """

    def __init__(self, library: Library) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        for names, result in ((SIGNATURES, _INT), (TEXTS, ctypes.c_char_p)):
            for name, types in names.items():
                try:
                    function = getattr(library, name)
                except AttributeError:
                    raise NoNccl(f"the library of NCCL has no {name}: {_OLD}") from None
                function.argtypes, function.restype = types, result
                self._functions[name] = function
        number = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(number))
        self.version = number.value  # 23203 is 2.32.3
        if self.version < LEAST_VERSION:
            raise NoNccl(f"this is NCCL {dotted(self.version)}: {_OLD}")

    def call(self, name: str, *arguments: Any, doing: str = "", comm: int | None = None) -> None:
        """Call a function.

        Args:
            doing: for what, for errors.
            comm: the communicator, which may know more of an error.

        Raises:
            NcclError: it says no.
        """
        code = self._functions[name](*arguments)
        if code:
            raise self.error(code, name, doing, comm)

    def error(self, code: int, name: str, doing: str = "", comm: int | None = None) -> NcclError:
        """The exception for a result of a function."""
        said, more = (self._text(n, a) for n, a in
                      (("ncclGetErrorString", code), ("ncclGetLastError", comm)))
        text = f"{doing + ': ' if doing else ''}{name}: {said or f'ncclResult {code}'}"
        text += f" ({more})" if more else ""
        return NcclError(f"{text}\n{_REMEDIES[code]}" if code in _REMEDIES else text, code)

    def unique_id(self) -> bytes:
        """By what ranks will find each other."""
        made = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made)

    def communicator(self, made: bytes, size: int, place: int, doing: str) -> int:
        """Meet the other ranks; all of them call this, and wait for each other.

        Args:
            made: what `unique_id` gave one of them.
            size: how many they are.
            place: this one's number among them.
            doing: for errors.

        Raises:
            NcclError: they cannot reach each other.
        """
        out = Handle()
        self.call("ncclCommInitRank", ctypes.byref(out), size, UniqueId.from_buffer_copy(made),
                  place, doing=doing)
        return out.value or 0

    def check(self, comm: int, doing: str) -> None:
        """See that nothing that was requested earlier has failed. Raises NcclError if something
        has."""
        code = ctypes.c_int()
        self.call("ncclCommGetAsyncError", comm, ctypes.byref(code), doing=doing, comm=comm)
        if code.value not in (0, _IN_PROGRESS):
            raise self.error(code.value, "what was asked for before", doing, comm)

    def _text(self, name: str, argument: Any) -> str:
        found: bytes | None = self._functions[name](argument)
        return (found or b"").decode("utf-8", "replace").strip()


def dotted(version: int) -> str:
    """23203 as 2.32.3."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


_INSTALL = "pip install 'cellc[nccl]' brings it"
_OLD = f"cellc needs {dotted(LEAST_VERSION)} or newer; {_INSTALL}"


def found() -> str:
    """The path or name of the library: what `CELLC_NCCL` says, else that of the package
    `nvidia-nccl-cu13`, else the system's; "" for `CELLC_NCCL=none`."""
    given = knobs.read().nccl
    if given is not None:
        return "" if given == "none" else given
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(folder, "nccl", "lib", "libnccl.so.2")
        if os.path.exists(path):
            return path
    return "libnccl.so.2"


def load(path: str) -> Nccl:
    """The library at a path, or of a name that the system knows.

    Raises:
        NoNccl: it cannot be loaded, or is too old.
    """
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise NoNccl(f"the library {path} cannot be loaded ({error}); {_INSTALL}") from None
    return Nccl(library)
