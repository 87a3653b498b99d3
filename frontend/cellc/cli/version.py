"""`cellc --version`."""

from __future__ import annotations

import argparse

from cellc_compiler import __version__
from cellc_runtime.target import host_target


def version(args: argparse.Namespace) -> int:
    """Print the version, and the target that is compiled for."""
    print(f"cellc {__version__} for {host_target().name}")
    return 0
