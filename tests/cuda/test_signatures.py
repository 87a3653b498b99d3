"""The driver's functions as cellc declares them, against NVIDIA's header.

The header comes with `pip install 'cellc[cuda]'` (nvidia-cuda-runtime) and with a CUDA toolkit.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import pytest

from cellc_runtime.cuda import driver as cuda

_WORDS = {"size_t": "u64", "unsigned long long": "u64", "CUdeviceptr": "u64", "unsigned int": "u32",
          "cuuint32_t": "u32",
          "unsigned char": "u8", "int": "i32", "CUdevice": "i32"}  # fmt: skip
_KINDS: dict[Any, str] = {
    ctypes.c_void_p: "pointer", ctypes.c_char_p: "pointer", ctypes.c_int: "i32",
    ctypes.c_uint: "u32", ctypes.c_size_t: "u64", ctypes.c_uint64: "u64", ctypes.c_ubyte: "u8",
    ctypes.c_ulonglong: "u64",
}
_ENUMS = {
    "CUDA_ERROR_OUT_OF_MEMORY": cuda.OUT_OF_MEMORY, "CUDA_ERROR_NOT_READY": cuda.NOT_READY,
    "CUDA_ERROR_NO_DEVICE": cuda.NO_DEVICE, "CUDA_ERROR_NO_BINARY_FOR_GPU": cuda.NO_BINARY,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": cuda.UNSUPPORTED_PTX,
    "CUDA_ERROR_INVALID_PTX": cuda.INVALID_PTX,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": cuda.MAJOR,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": cuda.MINOR,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": cuda.MULTIPROCESSORS,
    "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": cuda.L2_BYTES,
    "CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID": cuda.PCI_PLACE[0],
    "CU_DEVICE_ATTRIBUTE_PCI_BUS_ID": cuda.PCI_PLACE[1],
    "CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID": cuda.PCI_PLACE[2],
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": cuda.SHARED_BYTES,
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": cuda.FUNCTION_SHARED_BYTES,
    "CU_JIT_ERROR_LOG_BUFFER": cuda.JIT_LOG,
    "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": cuda.JIT_LOG_BYTES,
    "CU_STREAM_NON_BLOCKING": cuda.NON_BLOCKING, "CU_EVENT_DISABLE_TIMING": cuda.NO_TIMING,
    "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL": cuda.CAPTURE_THREAD_LOCAL,
}


def _header() -> Path | None:
    places = [Path(os.environ[k], "include") for k in ("CUDA_HOME", "CUDA_PATH") if k in os.environ]
    spec = importlib.util.find_spec("nvidia")
    found = spec.submodule_search_locations if spec is not None else None
    places += [Path(p, "cu13", "include") for p in found or ()]
    places += [Path("/usr/local/cuda/include"), Path("/usr/local/cuda-13.0/include")]
    return next((p / "cuda.h" for p in places if (p / "cuda.h").exists()), None)


HEADER = _header()
pytestmark = pytest.mark.skipif(HEADER is None, reason="such a machine has no cuda.h")


@pytest.fixture(scope="module")
def header() -> str:
    """The header's text, from which on its old names do not matter."""
    assert HEADER is not None
    return HEADER.read_text(errors="replace").partition("CUDA API versioning support")[0]


def kind(declared: str, handles: set[str]) -> str:
    """What a declared argument is to the machine."""
    words = re.sub(r"\bconst\b|\b__restrict__\b", "", declared).strip()
    if "*" in words:
        return "pointer"
    name = " ".join(words.split()[:-1] if len(words.split()) > 1 else words.split())
    return _WORDS.get(name) or ("pointer" if name in handles else "i32")  # the rest are enums


@pytest.mark.parametrize("name", cuda.SIGNATURES)
def test_arguments(header: str, name: str) -> None:
    plain = name.removesuffix("_v2").removesuffix("WithFlags")
    meant = re.search(rf"#define {plain}\s+(?:__CUDA_API_PT[DS]Z?\()?(\w+)", header)
    # The functions that the header means by another name today, with the same arguments.
    assert meant is None or meant[1] in (name, "cuEventElapsedTime_v2"), meant
    if meant is None:
        assert name == plain
    declared = re.search(rf"CUresult CUDAAPI {plain}\(([^)]*)\);", header)
    assert declared is not None
    handles = set(re.findall(r"typedef struct \w+ \*(\w+);", header))
    expected = [kind(a, handles) for a in declared[1].split(",")]
    assert [_KINDS[t] for t in cuda.SIGNATURES[name]] == expected


@pytest.mark.parametrize("name", _ENUMS)
def test_numbers(header: str, name: str) -> None:
    found = re.search(rf"^\s*{name}\s*=\s*(\w+)", header, re.MULTILINE)
    assert found is not None and int(found[1], 0) == _ENUMS[name]
