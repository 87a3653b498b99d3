"""Where the rows of a batch lie in a value: what rules of ops (`Op.batch_axis`) say it with.

A graph is analysed at a batch of `PROBE` rows, a prime that nothing else in it divides by
(`passes/batch_axis.py`). Each value gets a mark: the axis along which the rows of the batch lie, or
None if it does not depend on them. A rule gives the mark of an op's results from those of its
operands, as a batching rule does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cellc_runtime.records import dataclass

if TYPE_CHECKING:
    from .graph import Node

PROBE = 10007


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """Where the rows of the batch lie: along `axis`, the whole batch `outer` times in a row.

    (An axis of T * N elements, row n of step t at t * N + n, has `outer` T.)
    """

    axis: int
    outer: int = 1

    def at(self, axis: int) -> BatchAxis:
        """The same along another axis."""
        return BatchAxis(axis, self.outer)


Mark = BatchAxis | None
BatchAxisRule = Callable[[Sequence[Mark], "Node"], Mark]


class NotBatchIndependent(ValueError):
    """A graph that does not treat rows each on their own: the op that prevents it, and where."""


def batch_mixed(node: Node) -> NotBatchIndependent:
    """The error of a node that does not treat rows one by one."""
    return NotBatchIndependent(
        f"the op {node.op}{place_of(node)} does not treat the rows of the batch one by one")


def place_of(node: Node) -> str:
    """Where the source says a node, for a message."""
    return f" at {node.span.file}:{node.span.line}" if node.span.line else ""
