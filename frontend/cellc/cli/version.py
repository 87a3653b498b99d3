"""`cellc --version`."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import cellc_runtime
from cellc_compiler import __version__
from cellc_runtime import knobs
from cellc_runtime.target import host_target

PACKAGES = ("numpy", "llvmlite", "ml_dtypes", "numba", "mpi4py", "onnx", "nvidia-cuda-nvcc")
"""Those whose versions matter."""


def version(args: argparse.Namespace) -> int:
    """Print the version and the target; with `--verbose` also what a report needs."""
    print(f"cellc {__version__} for {host_target().name}")
    if args.verbose:
        print(_commit(), f"Python {platform.python_version()}, {platform.platform()}",
              *(f"{name} {_installed(name)}" for name in PACKAGES),
              f"threads: {cellc_runtime.num_threads()}; cache: {knobs.read().cache_dir}",
              *(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("CELLC_")
                and k != "CELLC_STORE_TOKEN"), sep="\n")
    return 0


def _commit() -> str:
    """The commit, where cellc runs from a clone of its repository."""
    clone = Path(__file__).parents[3]
    if not (clone / ".git").exists() or shutil.which("git") is None:
        return "installed from a package"
    done = subprocess.run(["git", "-C", str(clone), "describe", "--always", "--dirty"],
                          capture_output=True, text=True, check=False)
    return f"commit {done.stdout.strip() or 'unknown'}"


def _installed(name: str) -> str:
    """The version of a package that is installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "is not installed"
