"""`--weights` of the command line: the kinds of small weights, and what was made of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..nn.cell import Cell
from ..quantization.accuracy import Comparison, compare
from ..quantization.network import left_as_they_are, quantize
from ..quantization.weights import KINDS
from ..tensors.tensor import Tensor
from .errors import UserError

Options = dict[str, Any]  # Arguments of `quantize`


def weights_options(texts: Sequence[str]) -> tuple[Options | None, str | None]:
    """`--weights` options: how weights are stored, and the file that a C library has them in."""
    kinds = [t for t in texts if t.partition(",")[0] in KINDS]
    files = [t for t in texts if t not in kinds]
    for given in (kinds, files):
        if len(given) > 1:
            raise UserError(f"--weights {given[1]}: --weights {given[0]} is given too")
    return (_read(kinds[0]) if kinds else None), (files[0] if files else None)


def _read(text: str) -> Options:
    kind, *parts = text.split(",")
    options: Options = {"weights": kind, "skip": []}
    for part in parts:
        name, _, value = part.partition("=")
        if part == "asymmetric":
            options["symmetric"] = False
        elif name == "group" and value.isdecimal():
            options["group_size"] = int(value)
        elif name == "skip" and value:
            options["skip"].append(value)
        else:
            raise UserError(f"--weights {text}: expected group=N, asymmetric or skip=LAYER after "
                            f"the kind, but got {part!r}")
    return options


def compared(net: Any, inputs: Sequence[Tensor], text: str) -> Comparison:
    """The difference that small weights make in each layer of a network."""
    options, file = weights_options([text])
    if options is None:
        raise UserError(f"--weights {file}: expected one of {', '.join(KINDS)}")
    try:
        return compare(net, *inputs, **options)
    except (TypeError, ValueError) as e:
        raise UserError(f"--weights {options['weights']}: {e}") from e


def with_small_weights(net: Any, options: Options | None) -> tuple[Any, list[str]]:
    """A network with small weights, as options say, and lines about it."""
    if options is None:
        return net, []
    if not isinstance(net, Cell):
        raise UserError("--weights with a kind of weight needs a Cell")
    before = _bytes(net)
    try:
        net = quantize(net, **options)
    except (TypeError, ValueError) as e:
        raise UserError(f"--weights {options['weights']}: {e}") from e
    left = [f"{name or 'the network'} ({type(cell).__name__})"
            for name, cell in left_as_they_are(net)]
    more = [f"  as they were: {', '.join(left)}"] if left else []
    return net, [f"weights as {options['weights']}: {_bytes(net) / 1024:.0f} KiB instead of "
                 f"{before / 1024:.0f}", *more]


def _bytes(net: Cell) -> int:
    return sum(p.nbytes for p in net.get_parameters())
