"""MindSpore's import path for the primitive classes; the names are those of `cellc.ops`, and a few
more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

if TYPE_CHECKING:
    from . import *  # noqa: F403
else:
    from cellc_runtime.lazy import lazy_module

    from .. import ops

    rare = lazy_module("cellc.ops.primitives.rare")
    _BELOW = frozenset((
        "_grad_ops", "_inner_ops", "_quant_ops", "_rl_inner_ops", "array_ops", "comm_ops",
        "custom_ops", "debug_ops", "image_ops",
        "math_ops", "nn_ops", "other_ops", "random_ops", "sparse_ops"))

    def __getattr__(name: str) -> Any:
        if name in _BELOW:
            return imported("." + name, __name__)
        below = rare.BELOW.get(name) if name[:1].isupper() else None
        return getattr(ops, name) if below is None else below
