"""The only module that knows the operating system."""

from __future__ import annotations

import platform as _platform
from functools import cache


def machine() -> str:
    """`x86_64` or `aarch64` (Apple's and Windows' names for them are mapped to these)."""
    name = _platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@cache
def cpu_features() -> frozenset[str]:
    """CPU features by their Linux names."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                return frozenset(value.split())
    return frozenset()
