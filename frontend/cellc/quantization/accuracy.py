"""The errors, bytes and times of a network's layers with small weights."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Annotated, Any

import numpy as np

from cellc_runtime.records import dataclass

from .. import context
from ..core.declared import Flag, checks_arguments, instance, one_of
from ..nn.cell import Cell
from ..nn.cell.attributes import replace_cells
from ..tensors.tensor import Tensor
from ..tracing.pytree import take_apart
from .network import Group, small_layers
from .weights import KINDS, Array, Kind

_RUNS = 5  # Calls of a layer, of which the fastest counts


@dataclass(frozen=True, slots=True)
class LayerError:
    """The difference that small weights make in one layer.

    Attributes:
        name: of the layer.
        own: the error of its own result for the input that the network gives it: the root mean
            square, over that of the result with its own weights. NaN where it was not called.
        whole: the same of the network's result, where this layer alone has small weights.
        before, after: bytes of its Parameters.
        seconds: of a call with its own and with small weights, in PyNative.
    """

    name: str
    own: float
    whole: float
    before: int
    after: int
    seconds: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The findings of `compare`; printed as a table.

    Attributes:
        layers: those that got small weights, in the order of the network.
        whole: the error of the network's result where all of them have some.
    """

    layers: Sequence[LayerError]
    whole: float

    def __str__(self) -> str:
        head = ("layer", "error", "of the network", "KiB", "small", "us", "small")
        rows = [head, *((x.name, _shown(x.own), _shown(x.whole), f"{x.before / 1024:.1f}",
                         f"{x.after / 1024:.1f}", *(f"{s * 1e6:.1f}" if s else "-"
                                                    for s in x.seconds)) for x in self.layers)]
        sizes = [sum(x.before for x in self.layers), sum(x.after for x in self.layers)]
        times = [sum(x.seconds[i] for x in self.layers) for i in range(2)]
        rows.append(("all of them", "", _shown(self.whole), *(f"{n / 1024:.1f}" for n in sizes),
                     *(f"{t * 1e6:.1f}" for t in times)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *(
            cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]) for row in rows)


@checks_arguments
def compare(
    network: Annotated[Any, instance(Cell)], *inputs: Any,
    weights: Annotated[Kind, one_of(*KINDS)] = "int8", group_size: Group = None,
    symmetric: Flag = True, skip: Sequence[str] | str = (),
) -> Comparison:
    """The difference that small weights make in each layer of a network, which stays as it is.

    Args:
        network: a Cell; it is called in PyNative mode, once for each layer and twice more.
        inputs: what it is called with.
        weights, group_size, symmetric, skip: as for `cellc.quantize`.

    Returns:
        The errors, bytes and times of each layer, which print as a table.

    Raises:
        ValueError, TypeError: as for `cellc.quantize`.

    Example:
        >>> net = nn.SequentialCell(nn.Dense(64, 32), nn.ReLU(), nn.Dense(32, 10))
        >>> found = compare(net, ops.ones((2, 64)), weights="int4")
    """
    made = small_layers(network, "compare", weights, group_size, symmetric, skip)
    given: dict[int, Any] = {}

    def keep(cell: Cell, args: Any, names: Any) -> None:
        given.setdefault(id(cell), (args, names))

    with _in_pynative():
        with ExitStack() as stack:
            for _, cell, _ in made:
                stack.callback(cell.register_forward_pre_hook(keep, with_kwargs=True).remove)
            want = _numbers(network(*inputs))

        def error(layers: Sequence[tuple[str, Cell, Cell]]) -> float:
            called = next((new for _, cell, new in layers if cell is network), network)
            with _replaced(network, layers):
                return _error(_numbers(called(*inputs)), want)

        found = []
        for layer in made:
            name, cell, small = layer
            inner = {id(p) for c in cell.cells() for p in c.get_parameters()}  # layers of their own
            sizes = [sum(p.nbytes for p in c.get_parameters() if id(p) not in inner)
                     for c in (cell, small)]
            own, times = math.nan, (0.0, 0.0)
            if id(cell) in given:
                args, names = given[id(cell)]
                calls = [partial(c, *args, **names) for c in (cell, small)]
                own = _error(_numbers(calls[1]()), _numbers(calls[0]()))
                times = _seconds(calls[0]), _seconds(calls[1])
            found.append(LayerError(name, own, error([layer]), sizes[0], sizes[1], times))
        return Comparison(found, error(made))


@contextmanager
def _in_pynative() -> Iterator[None]:
    before = context.get_context("mode")
    context.set_context(mode=context.PYNATIVE_MODE)
    try:
        yield
    finally:
        context.set_context(mode=before)


@contextmanager
def _replaced(network: Cell, layers: Sequence[tuple[str, Cell, Cell]]) -> Iterator[None]:
    """In the block, layers of a network are those with small weights."""
    owners = [*(owner for _, owner in network.cells_and_names()), *(new for *_, new in layers)]

    def put(pairs: dict[int, Cell]) -> None:
        for owner in owners:
            replace_cells(owner, pairs)

    put({id(cell): small for _, cell, small in layers})
    try:
        yield
    finally:
        put({id(small): cell for _, cell, small in layers})


def _numbers(result: Any) -> Array:
    """The floats of a result, one after the other."""
    _, tensors = take_apart(result)
    flat = [t.asnumpy().astype(np.float64).reshape(-1) for t in tensors
            if isinstance(t, Tensor) and t.dtype.is_float]
    return np.concatenate(flat) if flat else np.zeros(0)


def _error(got: Array, want: Array) -> float:
    """The root mean square of differences over that of what is wanted."""
    size = math.sqrt(float(np.mean(want**2))) if want.size else 0.0
    away = math.sqrt(float(np.mean((got - want) ** 2))) if want.size else 0.0
    return away / size if size else away


def _seconds(call: Callable[[], Any]) -> float:
    least = math.inf
    for _ in range(_RUNS):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def _shown(error: float) -> str:
    return "not called" if math.isnan(error) else f"{error:.2e}"
