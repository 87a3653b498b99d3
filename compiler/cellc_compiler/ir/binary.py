"""The binary form of graphs: a container with the compressed text, whole and hashed.

`graph_to_bytes` and `graph_from_bytes` are inverses up to the text form, and the bytes of a graph
are the same on every machine.
"""

from __future__ import annotations

from cellc_runtime.container import pack, unpack
from cellc_runtime.errors import ArtifactError
from cellc_runtime.unpacking import packed, unpacked

from .graph import Graph
from .text import parse_graph, print_graph

MAGIC = b"CELLCGR\0"
VERSION = 1


def graph_to_bytes(graph: Graph) -> bytes:
    """A graph as bytes."""
    text = packed(print_graph(graph).encode())
    return b"".join(pack(MAGIC, VERSION, {"name": graph.name}, [("graph", text)]))


def graph_from_bytes(data: bytes) -> Graph:
    """The graph of `graph_to_bytes`. Raises ArtifactError if the bytes are damaged, or of another
    kind or version."""
    found = unpack(data, MAGIC, VERSION, "graph")
    try:
        text = unpacked(bytes(found.section("graph"))).decode()
    except ValueError as e:
        raise ArtifactError(f"the text of the graph cannot be unpacked: {e}") from None
    return parse_graph(text)
