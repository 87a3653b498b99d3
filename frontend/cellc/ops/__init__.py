"""The functional API: `cellc.ops`, under MindSpore's names.

Functions that map one to one onto an op are generated from its definition; the others are
written by family in `functional_*`, which takes precedence.
"""

from __future__ import annotations

from .. import common as _common  # noqa: F401  isort: skip (first of all)

from importlib import import_module
from types import ModuleType
from typing import Any

from cellc_runtime.lazy import lazy_names

from ..core.gradient import GradOperation, get_grad, grad, value_and_grad
from . import (
    functional_array,
    functional_attention,
    functional_band,
    functional_classes,
    functional_control,
    functional_create,
    functional_grid,
    functional_host,
    functional_index,
    functional_linalg,
    functional_loss,
    functional_math,
    functional_more,
    functional_nn,
    functional_random,
    functional_reduce,
    functional_scatter,
    functional_solve,
    functional_volume,
    functional_window,
)
from ._generated import generated_functions
from .methods import install

_FAMILIES: tuple[ModuleType, ...] = (
    functional_create, functional_array, functional_grid, functional_index, functional_linalg,
    functional_loss,
    functional_math, functional_nn, functional_random, functional_reduce, functional_window,
    functional_control, functional_host, functional_scatter, functional_more, functional_volume,
    functional_attention,
    functional_band, functional_solve, functional_classes,
)

_WITHIN = frozenset((
    "as_numbers", "binary", "bitwise_not", "broadcast_tensors", "compare", "complex",
    "conv2d_adjoint", "conv3d_adjoint", "image_patches", "interpolate_ext", "kthvalue", "largest",
    "make_primitive", "matrix_transpose", "max_pool1d", "normalize", "part", "picked", "pool2d",
    "pool3d", "same", "scatter_add_ext", "scatter_sub", "SeededPrimitive", "SiLU",
    "take_along_dim", "tensordot", "unary", "view",
))
"""What families offer to one another, to layers and to `mint`, but not here: MindSpore's `ops` has
no such names."""


def _public(module: ModuleType) -> dict[str, Any]:
    """What a family defines itself (not what it imports) for everybody."""
    return {
        name: value for name, value in vars(module).items()
        if not name.startswith("_") and name not in _WITHIN
        and getattr(value, "__module__", "") == module.__name__
    }


def _collect() -> dict[str, Any]:
    names = {n: f for n, f in generated_functions().items() if n not in _WITHIN}
    for family in _FAMILIES:
        names.update(_public(family))
    names.update(functional_math.ALIASES)
    names.update(functional_more.ALIASES)
    names.update({a: names[n] for a, n in functional_math.GENERATED_ALIASES.items()})
    names.update(GradOperation=GradOperation, get_grad=get_grad, grad=grad,
                 value_and_grad=value_and_grad)
    return names


_NAMES = _collect()
globals().update(_NAMES)
install()


def _primitives() -> dict[str, Any]:
    """The primitive classes: many, and seldom needed, so they are made when first asked for."""
    module = import_module(".primitives", __name__)
    more = import_module(".primitives_more", __name__)
    space = import_module(".primitives_space", __name__)
    steps = import_module(".primitives_optim", __name__)
    host = import_module(".host_primitives", __name__)
    summary = import_module(".summary", __name__)
    mapping = import_module(".mapping", __name__)
    base = import_module(".primitive", __name__)
    found = {**_public(base), **_public(module), **module.PRIMITIVES, **more.PRIMITIVES,
             **space.PRIMITIVES, **steps.PRIMITIVES, **_public(host), **_public(summary),
             **_public(mapping)}
    return {name: value for name, value in found.items() if name not in _WITHIN}


_LATER = {
    "..core.jacobian": "jacfwd jacrev jvp vjp", "..core.taylor": "derivative jet",
    "..core.vmap": "vmap", "._norms": "matrix_norm", "..mint.applied": "gcd lcm",
    ".functional_fourier": "fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn "
                           "ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq "
                           "rfftn",
    ".functional_orthogonal": "pinv qr svd",
}
_LATER_NAMES = " ".join(_LATER.values()).split()
_load = lazy_names(__name__, _LATER)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_NAMES, *_LATER_NAMES, *_primitives()})
    if name in _LATER_NAMES:
        return _load(name)
    found = _primitives().get(name) if not name.startswith("_") else None
    if found is None:
        raise AttributeError(f"module 'cellc.ops' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*_NAMES, *_LATER_NAMES, *_primitives()})
