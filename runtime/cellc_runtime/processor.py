"""The features of this process's processor.

It is asked itself, by `CPUID`: `/proc/cpuinfo` tells what the machine has, which is another
processor than the one that an emulator gives a process, and some containers have no such file. The
system leaves features that it has turned off out of that file, so on x86-64 both must agree.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from functools import cache

from . import platform

_CPUID = bytes.fromhex("53"          # push rbx
                       "4989d0"      # mov r8, rdx
                       "89f8"        # mov eax, edi
                       "89f1"        # mov ecx, esi
                       "0fa2"        # cpuid
                       "418900"      # mov [r8], eax
                       "41895804"    # mov [r8 + 4], ebx
                       "41894808"    # mov [r8 + 8], ecx
                       "4189500c"    # mov [r8 + 12], edx
                       "5b" "c3")    # pop rbx; ret
_XGETBV = bytes.fromhex("4989d0"     # mov r8, rdx
                        "31c9"       # xor ecx, ecx
                        "0f01d0"     # xgetbv
                        "418900"     # mov [r8], eax
                        "41895004"   # mov [r8 + 4], edx
                        "c3")        # ret
_XGETBV_PLACE = 64
_ASK = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)

_EBX, _ECX, _EDX = 1, 2, 3
_OSXSAVE = 27
_VECTORS, _WIDE, _TILES = 0x6, 0xE6, 0x60000
"""State that the system must save for AVX, for AVX-512 and for AMX: bits of XCR0."""
FEATURES: Mapping[str, tuple[int, int, int, int]] = {
    "fma": (1, _ECX, 12, _VECTORS), "f16c": (1, _ECX, 29, _VECTORS),
    "bmi1": (7, _EBX, 3, 0), "avx2": (7, _EBX, 5, _VECTORS), "bmi2": (7, _EBX, 8, 0),
    "avx512f": (7, _EBX, 16, _WIDE), "avx512dq": (7, _EBX, 17, _WIDE),
    "avx512cd": (7, _EBX, 28, _WIDE), "avx512bw": (7, _EBX, 30, _WIDE),
    "avx512vl": (7, _EBX, 31, _WIDE),
    "amx_bf16": (7, _EDX, 22, _TILES), "amx_tile": (7, _EDX, 24, _TILES),
}  # fmt: skip
"""By Linux's names: the leaf of CPUID, its register and bit, and the state that goes with it."""


@cache
def features() -> frozenset[str]:
    """Features by their Linux names, as far as `target` asks for them."""
    if platform.machine() == "aarch64":
        return frozenset({"asimd"})  # a part of the architecture
    listed = platform.listed_features()
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return listed or frozenset()
    return agreed(listed, told())


def agreed(listed: frozenset[str] | None, found: frozenset[str] | None) -> frozenset[str]:
    """Return features that the system and the processor list; if one has no list, the other's."""
    if listed is None or found is None:
        return listed or found or frozenset()
    return listed & found


def told() -> frozenset[str] | None:
    """Return the features that an x86-64 processor reports; None where running code is
    forbidden."""
    try:
        memory = platform.CodeMemory(_XGETBV_PLACE + len(_XGETBV))
    except MemoryError:
        return None
    try:
        memory.write(0, _CPUID)
        memory.write(_XGETBV_PLACE, _XGETBV)
        memory.protect(0, memory.size, "text")
        return _asked(memory.address)
    except OSError:
        return None
    finally:
        memory.close()


def _asked(code: int) -> frozenset[str]:
    cpuid, xgetbv = _ASK(code), _ASK(code + _XGETBV_PLACE)
    registers = (ctypes.c_uint32 * 4)()

    def leaf(number: int) -> tuple[int, ...]:
        cpuid(number, 0, ctypes.addressof(registers))
        return tuple(registers)

    leaves = {1: leaf(1), 7: leaf(7) if leaf(0)[0] >= 7 else (0, 0, 0, 0)}
    saved = 0
    if leaves[1][_ECX] >> _OSXSAVE & 1:
        xgetbv(0, 0, ctypes.addressof(registers))
        saved = registers[0]
    return frozenset(
        name for name, (number, register, bit, state) in FEATURES.items()
        if leaves[number][register] >> bit & 1 and saved & state == state)
