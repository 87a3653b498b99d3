"""The functions of every image besides its kernels: the native entry of programs (`entry.ll`), call
sites (`site.ll`), sizes of shape-polymorphic programs (`broadcast_sizes.ll`), the thread pool, and
the memory of large results.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from cellc_runtime.abi import ENTRY, LARGE, MAIN, SITE, WORDS
from cellc_runtime.shape_polymorphic import COLUMN, ONE, ROW, WHOLE
from cellc_runtime.target import Target

from ...llvm.notation import TABLE_DECLARATION, declarations, read_code
from .blocks import blocks_text
from .pool import fill, pool_text

MEMORY_FUNCTIONS = "".join(f"""
define hidden ptr @{name}(ptr %to, {kind} %from, i64 %n) nounwind {{
  ret tail ptr {{{name.upper()}}}(%to, %from, %n)
}}
""" for name, kind in (("memcpy", "ptr"), ("memmove", "ptr"), ("memset", "i32")))
"""Functions that LLVM may call on its own account for an intrinsic."""

_WIN64 = """
; {NAME} under the calling convention of Windows, where its caller is not generated code.
define hidden win64cc i32 @{NAME}_win64({PARAMS}) nounwind {
  %rc = call i32 @{NAME}({PARAMS})
  ret i32 %rc
}
"""


@functools.cache
def support_text(target: Target) -> str:
    """The module of every image besides its kernels: pool, entry, memory functions.

    It depends on the target alone, so it is compiled once and then found in the cache.
    """
    entry = read_code(__file__, "entry", ENTRY=ENTRY, LARGE=LARGE)
    sizes = read_code(__file__, "broadcast_sizes", WHOLE=WHOLE, ONE=ONE, ROW=ROW, COLUMN=COLUMN)
    sites = read_code(__file__, "site", SITE=SITE, WORDS=WORDS)
    code = fill(declarations() + entry + sizes + sites + MEMORY_FUNCTIONS, target)
    params = (("ptr", "slots"), ("ptr", "arena"), ("ptr", "consts"))
    windows = f"declare hidden i32 @{MAIN}(ptr, ptr, ptr)\n" + win64_text(MAIN, target, params)
    return TABLE_DECLARATION + pool_text(target) + blocks_text(target) + code + windows


def win64_text(name: str, target: Target, params: Sequence[tuple[str, str]]) -> str:
    """The function that Windows calls in the place of `name`; nothing for other machines."""
    text = ", ".join(f"{ty} %{param}" for ty, param in params)
    text = _WIN64.replace("{NAME}", name).replace("{PARAMS}", text)
    return text if target.triple.startswith("x86_64") else ""
