"""Which LLVM compiles: asked before each look into the cache, so it stands apart from what
compiles."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path


def llvm_version() -> str:
    """Return LLVM's version for the object cache: llvmlite's, without importing it."""
    return package_version("llvmlite")


@cache
def package_version(name: str) -> str:
    """The name and version of an installed package, without importing it; "none" if there is none.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin:
        return "none"
    package = Path(spec.origin).parent
    for info in sorted(package.parent.glob(f"{name}-*.dist-info")):
        return info.name.removesuffix(".dist-info")
    # No metadata beside it (a source tree): its own version file tells it apart.
    version = package / "_version.py"
    return hashlib.sha256(version.read_bytes()).hexdigest() if version.exists() else "unknown"
