"""Small names of MindSpore's top level: constructors, markers, and a self-check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy as np

from cellc_compiler import __version__
from cellc_runtime.lazy import lazy_imports

from . import ops as _ops  # noqa: F401  (whoever has a Tensor has its methods, and an engine)
from .calls.saved_tensors import register_saved_tensors_hooks as register_saved_tensors_hooks
from .calls.saved_tensors import saved_tensors_hooks as saved_tensors_hooks
from .core.native import names_itself
from .tensors.dtype import pytype_to_dtype
from .tensors.seed import default_generator
from .tensors.sharing import from_dlpack as from_dlpack
from .tensors.sharing import frombuffer as frombuffer
from .tensors.sharing import swap_tensors as swap_tensors
from .tensors.sharing import to_dlpack as to_dlpack
from .tensors.tensor import Tensor
from .tracing.mutables import mutable as mutable

with lazy_imports(__name__):
    from .nn import cell as cells

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def tensor(
    input_data: Any = None, dtype: Any = None, shape: Any = None, init: Any = None,
    const_arg: bool = False, device: str | None = None,
) -> Tensor:
    """A Tensor from data; see `Tensor`."""
    return Tensor(input_data, dtype, shape, init, const_arg, device)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A Tensor that shares memory with an array where its layout allows."""
    return Tensor.from_numpy(array)


def get_py_obj_dtype(obj: Any) -> Any:
    """The dtype a Python value, or one of a Python type, has as a Tensor; that of a Tensor is its
    own."""
    if isinstance(obj, Tensor):
        return obj.dtype
    return pytype_to_dtype(obj if isinstance(obj, type) else type(obj))


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def jit_class(cls: C) -> C:
    """The class itself: any class may be used in a graph.

    Raises:
        TypeError: it is no class, or one of Cells.
    """
    if not isinstance(cls, type):
        raise TypeError(f"Decorator jit_class can only be used for class type, but got {cls!r}.")
    if issubclass(cls, cells.Cell):
        raise TypeError(f"For 'jit_class', the class must be no Cell, but got {cls.__name__}: a "
                        "Cell is compiled when it is called.")
    return cls


@overload
def lazy_inline(fn: F, attrs: Any = ..., policy: Any = ...) -> F: ...


@overload
def lazy_inline(fn: None = None, attrs: Any = ..., policy: Any = ...) -> Callable[[F], F]: ...


def lazy_inline(fn: F | None = None, attrs: Any = None, policy: Any = None) -> Any:
    """The function itself; equal blocks share their kernels without it."""
    return fn if fn is not None else lambda inner: inner


@overload
def no_inline(fn: F) -> F: ...


@overload
def no_inline(fn: None = None) -> Callable[[F], F]: ...


def no_inline(fn: Any = None) -> Any:
    """The function itself (without one, a decorator that gives it)."""
    return no_inline if fn is None else fn


@names_itself
class JitConfig:
    """Options of compilation. `jit_syntax_level="STRICT"` makes it an error that Python does a part
    of a network ("COMPATIBLE" is "LAX"); all others are kept and have no effect."""

    def __init__(
        self, jit_level: str = "", exc_mode: str = "auto", jit_syntax_level: str = "",
        debug_level: str = "RELEASE", infer_boost: str = "off", **kwargs: Any,
    ) -> None:
        for name, value, known in (
            ("jit_level", jit_level, ("", "O0", "O1", "O2")),
            ("exc_mode", exc_mode, ("auto", "sink", "no_sink")),
            ("jit_syntax_level", jit_syntax_level, ("", "STRICT", "COMPATIBLE", "LAX")),
            ("debug_level", debug_level, ("RELEASE", "DEBUG")),
            ("infer_boost", infer_boost, ("on", "off")),
        ):
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"For 'JitConfig', '{name}' must be one of "
                                 f"{[k for k in known if k]}, but got {value!r}.")
        self.jit_config_dict = {
            **kwargs, "jit_level": jit_level, "exc_mode": exc_mode,
            "jit_syntax_level": jit_syntax_level, "debug_level": debug_level,
            "infer_boost": infer_boost,
        }


def get_rng_state() -> Tensor:
    """The state of the global generator: uint8[16]."""
    return default_generator.get_state()


def set_rng_state(state: Tensor) -> None:
    """Set the state of the global generator."""
    default_generator.set_state(state)


def initial_seed() -> int:
    """The seed of the global generator."""
    return default_generator.initial_seed()


def run_check() -> None:
    """Add two tensors and say whether the installation works."""
    a = Tensor(np.ones((2, 3), np.float32))
    good = bool(np.array_equal((a + a).asnumpy(), np.full((2, 3), 2, np.float32)))
    print(f"cellc version: {__version__}")
    print("The result of a sum is "
          + ("correct, cellc has been installed successfully!" if good else "wrong!"))
