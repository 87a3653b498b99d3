"""MindSpore's inner names of what `mint` shows: `amax_ext`, `chunk_view`, `transpose_ext_view`...

Its documentation calls some functions of `mint` by these names of `ops.function.*` and
`ops.auto_generate`; see `old_paths`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import no_attribute

from . import mint
from .mint.nn import functional

_ENDS = ("_ext_view", "_ext", "_view")
_OTHERS = {"clamp_scalar": "clamp", "clamp_tensor": "clamp"}

if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        stem = _OTHERS.get(name) or next(
            (name.removesuffix(end) for end in _ENDS if name.endswith(end)), "")
        for home in (functional, mint) if stem else ():
            if stem in home.__all__:
                return getattr(home, stem)
        raise no_attribute(__name__, name)
