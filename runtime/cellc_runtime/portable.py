"""A network as portable IR and weights in one file, without native code: what `export` writes.

A container (see `container`) with the sections `graph` (IR text) and `weights` (safetensors
layout); its `meta` says how arguments and results are nested. Loading verifies all of it and
runs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from . import checkpoint
from .container import pack, unpack
from .errors import ArtifactError
from .files import read_file, write_atomically
from .records import dataclass

Array = npt.NDArray[Any]

MAGIC = b"CELLCNET"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Network:
    """The contents of such a file."""

    graph: str  # IR text
    weights: Mapping[str, Array]  # arrays by name of the graph's inputs
    # JSON values: how arguments and results are nested, and what the writer added
    meta: Mapping[str, Any]


def save(path: str | os.PathLike[str], network: Network) -> None:
    """Write a network, whole or not at all. Raises OSError if the file cannot be written; an older
    one is as it was."""
    weights = b"".join(checkpoint.encode(network.weights))
    sections = [("graph", network.graph.encode()), ("weights", weights)]
    write_atomically(path, pack(MAGIC, VERSION, network.meta, sections))


def load(path: str | os.PathLike[str]) -> Network:
    """Read and verify a network; weights are read-only views of a copy of the file.

    Raises:
        ArtifactError: the file is corrupt, truncated, hostile, or something else.
        OSError: it cannot be read.
    """
    box = unpack(read_file(path), MAGIC, VERSION, "network")
    try:
        graph = bytes(box.section("graph")).decode()
    except UnicodeDecodeError:
        raise ArtifactError("the network's graph is not text") from None
    weights, _ = checkpoint.decode(box.section("weights"), "network's weights")
    return Network(graph, weights, box.meta)
