"""Users' own kernels."""

from __future__ import annotations

from ...llvm.user_kernels import user_kernel
from .table import lowers

lowers("custom_kernel")(user_kernel)
