"""MindSpore's MindIR files, read as networks and written.

`wire` reads a file, `checks` judges it as a whole, `network` walks its nodes, `control` its graphs
that call each other, and `table` says what each primitive is here. `writing` writes a traced graph
by the rules of `spelling`.
"""

from __future__ import annotations

import os

from ..nn.graph_cell import LoadedGraph
from ..onnx_import import as_loaded
from ..onnx_import.arrays import map_file
from .network import Network
from .wire import MindirError, Reader
from .writing import mindir_bytes as mindir_bytes

__all__ = ["MindirError", "load_mindir", "mindir_bytes"]


def load_mindir(path: str | os.PathLike[str]) -> LoadedGraph:
    """A file that MindSpore wrote as `nn.GraphCell` takes it.

    Raises:
        ArtifactError: it cannot be read, is no MindIR, or has no counterpart here.
    """
    path = os.fspath(path)
    network = Network(path, Reader().model(map_file(path, "the file")))
    return as_loaded(network.model.graph.name, network, network, network.arguments)
