"""Watchers of the values that networks compute: `cellc.watch_nans`, `cellc.watch_ranges`.

The watching itself (`cellc.tools.taps`) stands on what it watches, so it is known here by its
protocol. While `active` is empty nothing else of it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from cellc_compiler.ir.graph import Graph, Node
    from cellc_runtime.executable import Executable

    from ..tensors.tensor import Tensor, Tensors


class Watcher(Protocol):
    """Sees the results of every op, in both modes."""

    def tapped(
        self, graph: Graph, bound: Sequence[Tensor], first: int, root: Any
    ) -> tuple[Graph, list[Callable[..., Any]]]:
        """A graph that shows its results, and the functions of its taps.

        Args:
            bound: what its last inputs stand for.
            first: the number of the first function.
            root: the Cell that its paths begin in, or None.
        """

    def executable(self, graph: Graph) -> Executable:
        """A graph without Python functions, compiled with taps."""

    def placed(self, node: Node, result: Tensor) -> None:
        """Give the node that stands for a recorded op the op's place."""

    def at(self, node: Node) -> AbstractContextManager[None]:
        """Within the block, an op that runs is this node of a gradient."""

    def gave(self, name: str, operands: Tensors, results: Tensors) -> None:
        """A Python function of the user gave results, eagerly."""


active: list[Watcher] = []  # The watcher, while something is watched
