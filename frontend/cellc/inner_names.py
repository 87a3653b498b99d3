"""Names of MindSpore's inner modules that scripts use beside its public ones."""

from __future__ import annotations

from typing import Any

from .ranks.management import GroupOptions as GroupOptions
from .runtime import synchronize


class PyNativeExecutor:
    """What runs operations one by one, as scripts speak to it."""

    def sync(self) -> None:
        """Wait until everything is computed."""
        synchronize()

    def set_grad_flag(self, flag: bool) -> None:
        """Accepted for compatibility: gradients are recorded where they are asked for."""

    def set_graph_phase(self, phase: str) -> None:
        """Accepted for compatibility: a graph is found by what it is called with."""

    def set_lazy_build(self, enable: bool) -> None:
        """Accepted for compatibility."""

    def clear_res(self) -> None:
        """Accepted for compatibility: nothing outlives its use."""

    def set_py_exe_path(self, path: str) -> None:
        """Accepted for compatibility."""


class Security:
    """What MindSpore's build says of its safe mode."""

    @staticmethod
    def enable_security() -> bool:
        """Whether the build leaves out what writes data of a run: no."""
        return False


security = Security()
pynative_executor = PyNativeExecutor()
cells_compile_cache: dict[int, Any] = {}
"""MindSpore's table of compiled Cells: empty, since a Cell keeps its own."""


def init_exec_dataset(*args: Any, **kwargs: Any) -> None:
    """Not here: data are not sunk to a device.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("init_exec_dataset sinks data to an Ascend device or a GPU; here a network "
                       "takes the batches of the dataset: use Model.train or an iterator.")

