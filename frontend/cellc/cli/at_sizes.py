"""Open sizes (`float32[N,3]`) in the commands that look at a network: at which sizes they look."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cellc_compiler.ir.dims import SymbolInfo, Undecided
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.ir.types import TensorType
from cellc_runtime.records import dataclass

from ..compiled.traced import Traced, trace
from ..tensors.tensor import OpenTensor
from .errors import UserError
from .loading import InputType, input_types
from .open_sizes import listed_sizes, typical_sizes

Sizes = Mapping[str, int]
_SMALLER = 4


@dataclass(frozen=True, slots=True)
class Opened:
    """A network with open sizes as a graph."""

    traced: Traced  # with a symbol for each open size
    shapes: Shapes  # the symbols, and what the network asks about them
    sizes: Sizes  # what to look at

    def refuse_numbers(self) -> None:
        """Raise Undecided if the network needs a size as a number, so that no program serves
        all."""
        for guard in self.shapes.guards:
            if self.shapes.pins(guard):
                place = f" ({guard.where})" if guard.where else ""
                raise Undecided(f"the network needs a size as a number{place}")


def open_names(specs: Sequence[str]) -> list[str]:
    """The names of open sizes in `--input` options, in order."""
    return list(dict.fromkeys(d for t in input_types(specs) or () for d in t.shape
                              if isinstance(d, str)))


def chosen(
    specs: Sequence[str], options: Sequence[str], typical: Sizes | None = None
) -> Sizes:
    """The sizes to look at; empty where no size is open.

    Args:
        specs: the `--input` options.
        options: the `--sizes` options, of which the first values count.
        typical: sizes where no option names any.
    """
    usual = typical_sizes(input_types(specs) or ())
    return _choices(specs, options, {**usual, **(typical or {})})[0]


def compared(
    specs: Sequence[str], options: Sequence[str], typical: Sizes | None = None
) -> list[Sizes]:
    """The sizes to compare, all those listed; without any two choices. Arguments as of `chosen`."""
    # (The reference in float64 is slow, so these sizes are smaller than those to look at.)
    usual = typical_sizes(input_types(specs) or (), _SMALLER)
    found = _choices(specs, options, {**usual, **(typical or {})})
    if usual and not options and typical is None:
        found.append({n: size * 3 // 2 for n, size in usual.items()})
    return found


def _choices(specs: Sequence[str], options: Sequence[str], usual: Sizes) -> list[Sizes]:
    listed, names = listed_sizes(options), open_names(specs)
    refuse_unknown(listed, names)
    values = [listed.get(n, (usual[n],)) for n in names]
    return [dict(zip(names, each, strict=True)) for each in itertools.product(*values)]


def refuse_unknown(listed: Iterable[str], names: Sequence[str]) -> None:
    """Refuse `--sizes` of a name that no input has."""
    for name in listed:
        if name not in names:
            there = ", ".join(sorted(names)) or "none (a type with one is float32[N,3])"
            raise UserError(f"--sizes {name}=...: no input has a size {name}; open sizes: {there}")


def at_sizes(specs: Sequence[str], sizes: Sizes) -> list[str]:
    """`--input` options with numbers in the place of open sizes."""
    out = []
    for spec in specs:
        head, bracket, rest = spec.partition("[")
        if bracket and not spec.partition("=")[2].startswith("@"):
            dims, close, end = rest.partition("]")
            words = [d.strip() for d in dims.split(",")]
            spec = f"{head}[{','.join(str(sizes.get(d, d)) for d in words)}{close}{end}"
        out.append(spec)
    return out


def at_chosen(specs: Sequence[str], options: Sequence[str]) -> list[str]:
    """`--input` options with the chosen numbers for open sizes, which are printed."""
    sizes = chosen(specs, options)
    if sizes:
        print(f"for {said(sizes)}")
    return at_sizes(specs, sizes)


def said(sizes: Sizes) -> str:
    """`N = 8, S = 64`."""
    return ", ".join(f"{n} = {d}" for n, d in sizes.items())


def opened(fn: Any, specs: Sequence[str], sizes: Sizes) -> Opened:
    """Trace a network with its open sizes.

    Raises:
        CompileError: an error in the network.
    """
    types, shapes = symbolic_types(input_types(specs) or (), sizes)
    traced = trace(fn, [OpenTensor.of(ty) for ty in types], {}, types, shapes)
    return Opened(traced, shapes, sizes)


def symbolic_types(
    given: Sequence[InputType], sizes: Sizes, stand_in: bool = False
) -> tuple[list[TensorType], Shapes]:
    """Types with a symbol for each open size.

    Args:
        sizes: those that the network is traced for.
        stand_in: whether these only stand for any size, so that no error may name them.
    """
    shapes = Shapes()
    symbols: dict[str, Any] = {}
    for t in given:
        for axis, d in enumerate(t.shape):
            if isinstance(d, str) and d not in symbols:
                info = SymbolInfo(origin=f"axis {axis} of {t.name}", stand_in=stand_in)
                symbols[d] = shapes.new(d, sizes[d], info)
    return [TensorType(tuple(symbols[d] if isinstance(d, str) else d for d in t.shape), t.dtype)
            for t in given], shapes
