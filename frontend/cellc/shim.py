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
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from cellc_runtime.lazy import Package, imported

_PREFIX = "mindspore"
VERSION = "2.10.0"  # The version of MindSpore whose names and behaviour these modules have


_FURTHER: dict[str, str] = {
    "common.tensor": "compat",
    "mint.nn.layer.conv": "nn", "nn.cell": "nn.graph_cell common.api",
    "nn.layer.activation": "nn.layer.ext", "nn.layer.basic": "nn.layer.ext nn.layer.math mint.nn",
    "nn.layer.image": "nn.layer.basic", "nn.layer.pooling": "nn.layer.ext",
    "nn.loss.loss": "nn.loss.ctc", "nn.optim.optimizer": "nn.loss_scale",
    "parallel.shard": "parallel", "train.amp": "amp.precision",
    "train.serialization": "train.other_names train.convert",
}
"""Modules of cellc with names of MindSpore's module of that path that others define."""


class _Shown(Package):
    """A module of cellc that scripts import as one of MindSpore. Its namespace, which functions see
    as their globals, keeps the name of cellc: errors and guards find the library's code by it."""

    @property
    def __name__(self) -> str:  # type: ignore[override]  # a plain module's can be set
        """MindSpore's name of the module."""
        name: str = self.__dict__["__name__"]
        return _PREFIX + name.removeprefix("cellc")

    @property
    def __version__(self) -> str:
        """Of `mindspore` and `mindspore.version`: the version whose API this is."""
        if self.__dict__["__name__"] in ("cellc", "cellc.version"):
            return VERSION
        raise AttributeError(f"module {self.__name__!r} has no attribute '__version__'")

    def __getattr__(self, name: str) -> Any:
        """A module below this one that loads now: `import mindspore` loads all of MindSpore's."""
        path = f"{self.__name__}.{name}"
        if not name.startswith("__"):
            try:
                return imported(path)
            except ModuleNotFoundError as e:
                if e.name != path:
                    raise
        own: str = self.__dict__["__name__"]
        further = _FURTHER.get(own.removeprefix("cellc."), "")
        for home in further.split() if not name.startswith("__") else ():
            module = imported(f"cellc.{home}")
            if hasattr(module, name):
                return getattr(module, name)
        find = self.__dict__.get("__getattr__")
        if find is not None:
            return find(name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for `mindspore` and what is below it; let modules of cellc load as `_Shown`."""
        if fullname.startswith("cellc."):
            found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
            if found is not None and found.loader is not None:
                vars(found.loader)["exec_module"] = _execute(found.loader.exec_module)
            return found
        if fullname != _PREFIX and not fullname.startswith(_PREFIX + "."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of cellc that stands for it."""
        path = spec.name[len(_PREFIX) + 1 :]
        name = f"cellc.{path}" if path else "cellc"
        try:
            module = imported(name)
        except ModuleNotFoundError as e:
            raise ModuleNotFoundError(
                f"cellc provides no {spec.name!r} (it stands for mindspore here)", name=spec.name
            ) from e
        _show(module)  # (one of `old_paths`)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give back the module's own description, which the import replaced: the module runs, or
        has run, under its own name."""
        if module.__spec__ is not None and module.__spec__.loader is self:
            module.__spec__ = module.__spec__.loader_state


def _execute(own: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def execute(module: ModuleType) -> None:
        own(module)  # it asks for the module's own name
        _show(module)

    return execute


def _show(module: ModuleType) -> None:
    if type(module) in (ModuleType, Package):
        module.__class__ = _Shown


def install() -> None:
    """Provide `mindspore` from now on, in this process."""
    if any(isinstance(f, _Finder) for f in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "cellc":
            _show(module)
