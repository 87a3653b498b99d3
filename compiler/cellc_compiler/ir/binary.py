"""The binary form of graphs: a container with the compressed text, whole and hashed.

`graph_to_bytes` and `graph_from_bytes` are inverses up to the text form, and the bytes of a graph
are the same on every machine.
"""

from __future__ import annotations

import zlib

from cellc_runtime.container import pack, unpack
from cellc_runtime.errors import ArtifactError

from .graph import Graph
from .text import parse_graph, print_graph

MAGIC = b"CELLCGR\0"
VERSION = 1
MAX_TEXT = 1 << 30
"""The longest text that is unpacked."""


def graph_to_bytes(graph: Graph) -> bytes:
    """A graph as bytes."""
    text = zlib.compress(print_graph(graph).encode(), 6)
    return b"".join(pack(MAGIC, VERSION, {"name": graph.name}, [("graph", text)]))


def graph_from_bytes(data: bytes) -> Graph:
    """The graph of `graph_to_bytes`.

    Raises:
        ArtifactError: the bytes are damaged, or of another kind or version.
    """
    found = unpack(data, MAGIC, VERSION, "graph")
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(bytes(found.section("graph")), MAX_TEXT)
    except zlib.error as e:
        raise ArtifactError(f"the text of the graph cannot be unpacked: {e}") from None
    if not stream.eof:
        raise ArtifactError(f"the text of the graph is longer than {MAX_TEXT} bytes, or cut")
    try:
        return parse_graph(text.decode())
    except UnicodeDecodeError:
        raise ArtifactError("the graph is not text") from None
