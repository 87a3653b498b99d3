"""A Cell in a notebook: its Cells as an outline that folds, with their Parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .parameters import Parameters

_OPEN = 1  # Levels that are unfolded at first
_SOFT = "color:#808890"


def outline(cell: Parameters) -> str:
    """The outline as HTML; every name of the network is escaped. Elements are not read."""
    parameters = {id(p): p for p in cell.get_parameters()}
    count = sum(math.prod(p.shape) for p in parameters.values())
    head = f"{len(parameters)} Parameters, {count:,} elements"
    style = "font-family:monospace;line-height:1.5"
    return f'<div style="{style}">{_node("", cell, 0)}<div style="{_SOFT}">{head}</div></div>'


def _node(name: str, cell: Parameters, depth: int) -> str:
    title = f"<b>{escape(type(cell).__name__)}</b>"
    if name:
        title = f"{escape(name)}: {title}"
    extra = " ".join(cell.extend_repr().split())
    if extra:
        title += f' <span style="{_SOFT}">({escape(extra)})</span>'
    inner = [*_parameters(cell), *(_node(n, c, depth + 1) for n, c in cell.name_cells().items())]
    if not inner:
        return f'<div style="margin-left:1.4em">{title}</div>'
    state = " open" if depth < _OPEN else ""
    return (f'<details{state} style="margin-left:1.4em"><summary>{title}</summary>'
            f'{"".join(inner)}</details>')


def _parameters(cell: Parameters) -> Iterator[str]:
    for name, p in cell.parameters_and_names(expand=False):
        dims = ", ".join(map(str, p.shape))
        frozen = "" if p.requires_grad else ", not trained"
        yield (f'<div style="margin-left:2.8em;{_SOFT}">{escape(name)}: '
               f"{escape(str(p.dtype))}[{dims}]{frozen}</div>")
