"""GraphCell: a network read from a file, as a Cell. Source: the same names in `mindspore.nn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Graph, Value
from cellc_runtime.errors import counted
from cellc_runtime.records import dataclass

from ..calls.replay import run_graph
from ..core.declared import misuse
from ..tensors.parameter import Parameter
from ..tensors.seed import state_named
from ..tensors.tensor import Tensor, ir_type, tensor_of
from ..tracing.pytree import Structure, put_together, take_apart
from .cell import Cell

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A network as `load` reads it, to be given to `nn.GraphCell`."""

    graph: Graph  # the IR; its first inputs are the arguments' tensors
    weights: Mapping[str, Array]  # the values of its parameters, by name
    frozen: frozenset[str]  # names of parameters that are not trained
    arguments: Structure  # how the tensors of a call are nested, `(args, kwargs)`
    results: Structure  # how the tensors of the result are nested
    # gives the results for tensors and parameters where `graph` has the inputs alone: of a model
    # whose nodes are walked in each trace, for the sizes at hand
    run: Callable[[list[Tensor], list[Parameter]], Any] | None = None

    def __repr__(self) -> str:
        what = "a model of its own sizes" if self.run is not None \
            else counted(len(self.graph.nodes), "node")
        return f"<graph {self.graph.name}: {what}>"

    @property
    def inputs(self) -> list[Value]:
        """The graph's inputs that are tensors of a call."""
        return [v for v in self.graph.inputs if v.kind == "input"]


class GraphCell(Cell):
    """Runs a network that `cellc.load` read; trains like any Cell.

    Args:
        graph: what `load` returned.
        params_init: values for some of its parameters, by name.
        obf_random_seed: of an obfuscated graph, which is none of cellc's: must be None.

    Inputs:
        Those of the exported network: the same nesting, shapes and dtypes.
    """

    def __init__(
        self, graph: LoadedGraph, params_init: Mapping[str, Tensor] | None = None,
        obf_random_seed: int | None = None,
    ) -> None:
        super().__init__(auto_prefix=True)
        if obf_random_seed is not None:
            raise misuse("GraphCell", "'obf_random_seed' must be None: no graph here is "
                         "obfuscated, so there is nothing that a seed undoes")
        if not isinstance(graph, LoadedGraph):
            raise misuse("GraphCell", "'graph' must be what load() returns", type(graph), TypeError)
        values = _values(graph, params_init)
        self._loaded = graph
        self.argument_names = [v.name for v in graph.inputs]
        self.argument_types = [v.type for v in graph.inputs]
        self._bound: list[Parameter] = []
        for value in graph.graph.inputs:
            if value.kind == "input":
                continue
            if value.kind == "state" and value.name not in values:
                self._bound.append(state_named(value.name))
                continue
            parameter = Parameter(values[value.name], name=value.name,
                                  requires_grad=value.name not in graph.frozen)
            self.insert_param_to_cell(value.name, parameter, check_name_contain_dot=False)
            self._bound.append(parameter)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """The exported computation."""
        return run_loaded(self._loaded, self._bound, args, kwargs)


def _values(graph: LoadedGraph, given: Any) -> dict[str, Tensor]:
    values = {name: tensor_of(array) for name, array in graph.weights.items()}
    if given is None:
        return values
    if not isinstance(given, Mapping):
        raise misuse("GraphCell", "'params_init' must be a dict", type(given), TypeError)
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise misuse("GraphCell", "'params_init' must map names to Tensors, but maps "
                         f"{type(name)} to {type(value)}", kind=TypeError)
        old = values.get(name)
        if old is None:
            raise misuse("GraphCell",
                         f"the graph has no parameter {name!r}; it has {sorted(values)}")
        if (old.shape, old.dtype) != (value.shape, value.dtype):
            raise misuse("GraphCell", f"the parameter {name!r} is {old.dtype}{list(old.shape)}, "
                         f"but 'params_init' gives {value.dtype}{list(value.shape)}")
        values[name] = value
    return values


def run_loaded(
    loaded: LoadedGraph, parameters: list[Parameter], args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """A call of a loaded graph."""
    structure, leaves = take_apart((args, dict(kwargs)))
    if structure != loaded.arguments:
        raise TypeError("the loaded network is called otherwise than when it was exported; it "
                        f"takes {_describe(loaded)}")
    if loaded.run is not None:
        return loaded.run(leaves, parameters)
    for given, wanted in zip(leaves, loaded.graph.inputs, strict=False):
        if ir_type(given) != wanted.type:
            raise ValueError(f"the loaded network takes {wanted.type} as {wanted.name!r}, got "
                             f"{ir_type(given)}")
    results = run_graph(loaded.graph, [*leaves, *parameters])
    return put_together(loaded.results, results)


def _describe(loaded: LoadedGraph) -> str:
    return ", ".join(f"{v.name}: {v.type}" for v in loaded.inputs) or "no tensors"
