"""`mindspore` provided by cellc: existing scripts run unchanged.

A finder at the front of `sys.meta_path` answers imports of `mindspore` and its submodules with
the modules of cellc of the same path (older paths: `old_paths`). A submodule that cellc has not is
an ImportError that says so.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import FunctionType, ModuleType

_PREFIX = "mindspore"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for `mindspore` and what is below it."""
        if fullname != _PREFIX and not fullname.startswith(_PREFIX + "."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of cellc that stands for it."""
        path = spec.name[len(_PREFIX) + 1 :]
        name = f"cellc.{path}" if path else "cellc"
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            raise ModuleNotFoundError(
                f"cellc provides no {spec.name!r} (it stands for mindspore here)", name=spec.name
            ) from e

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module has run under its own name. (A function that has the name of a module
        beside it, as `parallel.shard`, stays in front of that when it is imported later.)"""
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value.__module__ == f"{module.__name__}.{name}":
                path = module.__name__.replace("cellc", _PREFIX, 1)
                importlib.import_module(f"{path}.{name}")
                setattr(module, name, value)


def install() -> None:
    """Provide `mindspore` from now on, in this process."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
