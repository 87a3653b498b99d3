"""Numba, where it is installed: it is loaded when a kernel is compiled, not before."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from ...build.llvm_version import package_version


class NumbaMissing(ImportError):
    """A kernel is to be compiled, and there is no numba."""


@cache
def numba_code() -> Any:
    """The module `numba_code`.

    Raises:
        NumbaMissing: numba is not installed, or not one that it works with.
    """
    try:
        return importlib.import_module("cellc_compiler.backends.llvm.numba_code")
    except ImportError as error:
        found = package_version("numba")
        had = "numba is not installed" if found == "none" else f"{found} cannot be used ({error})"
        raise NumbaMissing(
            f"a kernel of ops.Custom with func_type 'hybrid' is compiled by numba, but {had}: "
            f"pip install 'cellc[numba]'"
        ) from None
