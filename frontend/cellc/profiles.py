"""`cellc.profile`: where the time of a network's calls goes.

Only in cellc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_imports

from .compiled.traced import trace
from .tensors.tensor import host_arrays_of
from .tracing.pytree import take_apart

if TYPE_CHECKING:
    from .tools.profiling import Profile
    from .tools.profiling_gpu import GpuProfile
with lazy_imports(__name__):  # it loads the code generator
    from .tools import profiling_gpu


def profile(
    fn: Any, *args: Any, runs: int = 20, numerics: str = "strict", **kwargs: Any
) -> Profile | GpuProfile:
    """Profile calls of a Cell or function with these arguments, compiled as in graph mode.

    The result prints as a table; `show(by="op")`, `rows(by)` and `save_trace(path)` give more. On a
    GPU the table is by kernel, with times by events, and there is no more than that.
    Parameters are copied first, so a training step may be profiled without training.

    Args:
        fn: a Cell or function.
        args: its arguments; `kwargs` those by name.
        runs: calls to measure, after two that are not.
        numerics: as in `set_context`.

    Raises:
        CompileError: an error in the network (of the builtin kind it is of).
        RuntimeError: the device in use is an emulated GPU, which has no times.
    """
    if runs < 1:
        raise ValueError(f"runs must be positive, got {runs}")
    traced = trace(fn, args, kwargs)
    _, leaves = take_apart((args, kwargs))
    return profiling_gpu.profile_here(traced, traced.fed(host_arrays_of(leaves)), runs, numerics)


__all__ = ["profile"]
