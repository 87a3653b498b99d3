"""cellc: a static-graph compiler for networks written as Cell classes.

`import cellc as ms` offers the names of `import mindspore as ms`.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from . import common, context, nn, ops
from .common import dtype
from .common.dtype import *  # noqa: F403
from .common.parameter import Parameter, ParameterTuple
from .common.seed import Generator, default_generator, get_seed, manual_seed, seed, set_seed
from .common.symbol import Symbol
from .common.tensor import Tensor
from .compat import (
    JitConfig,
    from_numpy,
    get_rng_state,
    initial_seed,
    is_tensor,
    jit_class,
    lazy_inline,
    mutable,
    no_inline,
    run_check,
    set_rng_state,
    tensor,
)
from .context import (
    GRAPH_MODE,
    PYNATIVE_MODE,
    get_context,
    get_current_device,
    set_context,
    set_deterministic,
    set_device,
    set_recursion_limit,
)
from .core.dispatch import install as _install
from .core.gradient import get_grad, grad, value_and_grad
from .jit import enable_dynamic, jit
from .nn.recompute import recompute
from .pynative.engine import EagerEngine as _EagerEngine

if TYPE_CHECKING:
    from . import amp, device_context, experimental, hal, mint, numpy, runtime, train
    from .amp import DynamicLossScaleManager, FixedLossScaleManager
    from .common.sharing import from_dlpack, frombuffer, swap_tensors, to_dlpack
    from .core.explaining import explain
    from .core.function import _Function as _Function
    from .core.jacobian import jacfwd, jacrev, jvp, vjp
    from .core.saved import register_saved_tensors_hooks, saved_tensors_hooks
    from .core.vmap import vmap
    from .profiles import profile
    from .train import (
        Model,
        async_ckpt_thread_status,
        ckpt_to_safetensors,
        load_checkpoint,
        load_checkpoint_async,
        load_param_into_net,
        safetensors_to_ckpt,
        save_checkpoint,
    )
    from .train.export import export, load

_LATER = {
    ".amp": ("DynamicLossScaleManager", "FixedLossScaleManager"),
    ".common.sharing": ("from_dlpack", "frombuffer", "swap_tensors", "to_dlpack"),
    ".core.explaining": ("explain",),
    ".core.function": ("_Function",),
    ".core.jacobian": ("jacfwd", "jacrev", "jvp", "vjp"),
    ".core.saved": ("register_saved_tensors_hooks", "saved_tensors_hooks"),
    ".core.vmap": ("vmap",),
    ".device_context": (), ".experimental": (), ".hal": (), ".mint": (), ".numpy": (),
    ".runtime": (),
    ".profiles": ("profile",),
    ".train": (
        "Model", "async_ckpt_thread_status", "ckpt_to_safetensors", "export", "load",
        "load_checkpoint", "load_checkpoint_async", "load_param_into_net", "safetensors_to_ckpt",
        "save_checkpoint",
    ),
}  # fmt: skip
"""Modules that load when they, or names of theirs, are first asked for: importing cellc stays
fast."""
_HOMES = {name: home for home, names in _LATER.items() for name in (home[1:], *names)}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cellc' has no attribute {name!r}")
    module = _import_module(home, __name__)
    value = module if home == "." + name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_install(_EagerEngine())

__version__ = "0.1.0"

__all__ = [
    *dtype.__all__,
    "GRAPH_MODE", "PYNATIVE_MODE", "DynamicLossScaleManager", "FixedLossScaleManager",
    "Generator", "JitConfig", "Model", "Parameter", "ParameterTuple", "Symbol", "Tensor", "amp",
    "async_ckpt_thread_status", "ckpt_to_safetensors", "common", "context", "default_generator",
    "device_context", "dtype", "enable_dynamic", "experimental", "explain", "export",
    "from_dlpack", "from_numpy", "frombuffer", "get_context", "get_current_device", "get_grad",
    "get_rng_state", "get_seed", "grad", "hal", "initial_seed",
    "is_tensor", "jacfwd", "jacrev", "jit", "jit_class", "jvp",
    "lazy_inline", "load", "load_checkpoint", "load_checkpoint_async", "load_param_into_net",
    "manual_seed", "mint", "mutable", "nn", "no_inline", "numpy", "ops", "profile", "recompute",
    "register_saved_tensors_hooks", "run_check", "runtime", "safetensors_to_ckpt",
    "save_checkpoint", "saved_tensors_hooks", "seed", "set_context",
    "set_deterministic", "set_device", "set_recursion_limit", "set_rng_state", "set_seed",
    "swap_tensors", "tensor", "to_dlpack", "train", "value_and_grad", "vjp", "vmap",
]
