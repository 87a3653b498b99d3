"""Element types under MindSpore's import path, `common.dtype`."""

from __future__ import annotations

import enum

from cellc_runtime.lazy import public_names

from ..tensors.dtype import *  # noqa: F403
from ..tensors.dtype import __all__ as __all__
from ..tensors.dtype import all_types as all_types
from ..tensors.dtype import float_type as float_type
from ..tensors.dtype import int_type as int_type
from ..tensors.dtype import number_type as number_type
from ..tensors.dtype import uint_type as uint_type

_WIDTHS = {f"INT{n}": n - 1 for n in range(1, 17)} | {f"UINT{n}": n + 99 for n in range(1, 17)}
QuantDtype = enum.Enum("QuantDtype", _WIDTHS)  # type: ignore[misc]  # a table of names
QuantDtype.__doc__ = (
    "Widths of quantised numbers, for arguments (no tensor has them). Source: "
    "`mindspore.QuantDtype`.")

__dir__ = public_names(__name__)
