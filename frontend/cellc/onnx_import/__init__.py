"""ONNX models as networks: what `load("model.onnx")` gives.

`wire` reads the file, `checks` judges it as a whole, `network` walks its nodes, and the rules of
the other modules say what each operator is in ops of cellc (`table.RULES`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

from cellc_compiler.ir.dims import Dim, is_symbolic
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime.dtypes import from_numpy
from cellc_runtime.errors import counted

from ..nn.graph_cell import LoadedGraph
from ..tensors.tensor import Tensor
from ..tracing.pytree import Box, Leaf, Structure
from . import attention as attention
from . import classic as classic
from . import contributed as contributed
from . import control as control
from . import elementwise as elementwise
from . import images as images
from . import neural as neural
from . import quantised as quantised
from . import recurrent as recurrent
from . import reductions as reductions
from . import shaping as shaping
from . import signals as signals
from . import trees as trees
from .arrays import Array, Files, map_file
from .network import Network, declared
from .table import OPSETS as OPSETS
from .table import RULES as RULES
from .wire import Input, OnnxError, Reader

__all__ = ["OPSETS", "RULES", "OnnxError", "load_onnx", "read_model"]
_MOST_OPEN = 512  # Inputs of a model


def read_model(path: str | os.PathLike[str]) -> Network:
    """Read and check an ONNX file; its elements stay in the mapped file.

    Raises:
        OnnxError: it cannot be read, is no ONNX model, or has no counterpart here.
    """
    path = os.fspath(path)
    model = Reader().model(map_file(path, "the file"))
    return Network(path, model, Files(os.path.dirname(os.path.abspath(path))))


def load_onnx(path: str | os.PathLike[str]) -> LoadedGraph:
    """An ONNX file as `nn.GraphCell` takes it; initializers of floats become Parameters.

    Raises:
        ArtifactError: it cannot be read, is no ONNX model, or has no counterpart here.
    """
    network = read_model(path)

    def run(inputs: Sequence[Tensor], weights: Mapping[str, Tensor]) -> Any:
        out = network(inputs, weights)
        return out[0] if len(out) == 1 else tuple(out)

    return as_loaded(network.model.graph.name, network, run)


class Walked(Protocol):
    """A network of a file whose nodes are walked in each trace."""

    inputs: list[Input]  # the tensors of a call, in order
    weights: dict[str, Array]  # the Parameters by name; `frozen` those that are not trained
    frozen: frozenset[str]


def as_loaded(
    name: str, network: Walked, call: Callable[[Sequence[Tensor], Mapping[str, Tensor]], Any],
    arguments: Structure | None = None,
) -> LoadedGraph:
    """A network of a file as `nn.GraphCell` takes it.

    Args:
        call: gives the results for the tensors of a call and the Parameters by name.
        arguments: how the inputs are nested in the positional arguments (default: not at all).
    """
    names = _names([i.name for i in network.inputs])
    weights = _names(network.weights)
    if len(names) > _MOST_OPEN:
        raise OnnxError(f"it has {counted(len(names), 'input')}")
    graph = Graph(re.sub(r"\W", "_", name)[:64] or "network")
    symbols: dict[Any, Dim] = {}
    for i, plain in zip(network.inputs, names, strict=True):
        graph.add_input(_type(i, symbols), plain)
    for own, plain in zip(network.weights, weights, strict=True):
        array = network.weights[own]
        graph.add_input(TensorType(array.shape, from_numpy(array.dtype)), plain, "param")
    positional = arguments or Box(tuple, (), tuple(Leaf(i) for i in range(len(names))))
    own_names = tuple(network.weights)

    def run(inputs: Sequence[Tensor], parameters: Sequence[Tensor]) -> Any:
        for given, wanted in zip(inputs, graph.inputs, strict=False):
            if not _fits(given._type, wanted.type):
                raise ValueError(f"the loaded network takes {wanted.type} as {wanted.name!r}, got "
                                 f"{given._type}")
        return call(inputs, dict(zip(own_names, parameters, strict=True)))

    return LoadedGraph(
        graph, dict(zip(weights, network.weights.values(), strict=True)),
        frozenset(w for w, own in zip(weights, own_names, strict=True) if own in network.frozen),
        Box(tuple, (), (positional, Box(dict, (), ()))), Leaf(0), run)


def _fits(given: TensorType, wanted: TensorType) -> bool:
    """Whether a tensor has the declared type; open sizes take any."""
    return given.dtype is wanted.dtype and given.rank == wanted.rank and all(
        is_symbolic(w) or g == w for g, w in zip(given.dims, wanted.dims, strict=True))


def _type(value: Input, symbols: dict[Any, Dim]) -> TensorType:
    """The declared type of an input, with a symbol for each open size.

    Args:
        symbols: those of all inputs, by the name in the file, or by input and axis.
    """
    dtype, dims = declared(value)
    shape: list[int | Dim] = []
    for axis, d in enumerate(dims):
        if isinstance(d, int):
            shape.append(d)
            continue
        key = d if d is not None else (value.name, axis)
        if key not in symbols:
            symbols[key] = Dim.symbol(_size_name(d or f"{value.name}_{axis}", symbols))
        shape.append(symbols[key])
    return TensorType(tuple(shape), dtype)


def _size_name(name: str, symbols: Mapping[Any, Dim]) -> str:
    """A name of an open size that is an identifier, and that no other size has."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"n{plain}"
    return _distinct(plain, {str(s) for s in symbols.values()})


def _distinct(name: str, taken: Container[str]) -> str:
    """The name, with a number at its end if it is taken."""
    unique, k = name, 1
    while unique in taken:
        k += 1
        unique = f"{name}_{k}"
    return unique


def _names(given: Iterable[str]) -> list[str]:
    """Names that a graph and a checkpoint can print, each once."""
    out: dict[str, None] = {}
    for name in given:
        out[_distinct(re.sub(r"[^A-Za-z0-9_.]", "_", name).strip(".") or "x", out)] = None
    return list(out)


