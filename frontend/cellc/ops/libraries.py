"""Functions of libraries, of the C signature that MindSpore's `aot` operators have.

    int name(int nparam, void **params, int *ndims, int64_t **shapes, const char **dtypes,
             void *stream, void *extra)

`params` are the addresses of the inputs, then of the results, which the function fills; it returns
0.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.types import TensorType
from cellc_runtime.dtypes import from_numpy

from ..core.declared import misuse

Array = np.ndarray[Any, Any]


class LibraryFunction:
    """A C function of a library.

    Args:
        path: of the library.
        name: of the function.

    Raises:
        OSError: there is no such library, or it cannot be loaded.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = os.path.realpath(path), name
        found = getattr(ctypes.CDLL(self.path), name)
        found.restype = ctypes.c_int
        self.function = found

    def returning(self, types: Sequence[TensorType]) -> Callable[..., tuple[Array, ...]]:
        """A Python function over arrays that gives arrays of these types."""
        def call(*inputs: Array) -> tuple[Array, ...]:
            results = [np.empty(t.dims, t.dtype.numpy) for t in types]
            self._run([*map(np.ascontiguousarray, inputs), *results])
            return tuple(results)

        call.__name__ = self.name
        return call

    def _run(self, arrays: Sequence[Array]) -> None:
        n = len(arrays)
        shapes = [(ctypes.c_int64 * max(1, a.ndim))(*a.shape) for a in arrays]
        names = [from_numpy(a.dtype).name.removesuffix("_").encode() for a in arrays]
        code = self.function(
            ctypes.c_int(n),
            (ctypes.c_void_p * n)(*(a.ctypes.data for a in arrays)),
            (ctypes.c_int * n)(*(a.ndim for a in arrays)),
            (ctypes.c_void_p * n)(*map(ctypes.addressof, shapes)),
            (ctypes.c_char_p * n)(*names), None, None)
        if code:
            raise RuntimeError(f"the function {self.name}() of {self.path} returned {code}: 0 says "
                               f"that it has succeeded")


def library_function(where: Any) -> LibraryFunction:
    """The function that `"path.so:name"` says.

    Raises:
        OSError: no such library.
    """
    path, _, name = where.rpartition(":") if isinstance(where, str) else ("", "", "")
    if not path or not name:
        raise misuse("Custom' with 'func_type' aot, 'func' should be like 'file_name:func_name",
                     f"but got {where!r}", kind=TypeError)
    if path.endswith((".cc", ".cpp", ".cu", ".c")):
        raise misuse("Custom", f"{path} is a source: compile it to a library first, as 'g++ "
                     f"--shared -fPIC -o add.so {path}'")
    try:
        return LibraryFunction(path, name)
    except AttributeError:
        raise misuse("Custom", f"the library {path} has no function {name!r}") from None


__all__ = ["LibraryFunction", "library_function"]
