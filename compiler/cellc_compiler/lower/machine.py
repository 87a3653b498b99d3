"""The interface of a back end for lowering: a `Machine`, which stands for one of its targets.

Lowering puts clusters in order, gives values their places and follows branches and loops. The
machine decides how to compute a cluster: a plan of kernels for a node that does not fuse, a kernel
for a loop nest, and patterns, clusters that it runs as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ..ir.graph import Graph, Node, Value
from ..loops.expr import Expr
from ..loops.nest import Nest
from .kernel import Kernel
from .plan import KernelPlan

if TYPE_CHECKING:  # these lower, with a machine
    from ..fusion.clusters import Cluster
    from .batch_loops import BatchLoop
    from .graph_block import GraphBlock


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a program's buffers are in."""

    space: str  # its name, for people
    align: int  # bytes; every buffer begins at a multiple, a power of two
    capacity: int  # bytes that a program may take
    # bytes of an output from which on it is written past the caches: it would not stay there, and
    # reading each line before writing it is a third of the traffic. The runtime aligns such
    # outputs. None where there is no such store.
    streamed: int | None = None


@dataclass(frozen=True, slots=True)
class Flat:
    """A kernel of a nest of one loop for any length, over a table of entries (`Machine.many`)."""

    code: Any  # the same for every length
    buffers: tuple[Any, ...]  # the nest's values in the order of an entry's pointers
    length: int  # of this nest
    chunk: int  # elements of a task
    cost: float  # estimated cycles of an element

    @property
    def tasks(self) -> int:
        """Tasks of this nest."""
        return -(-self.length // self.chunk)


class Match(ABC):
    """Clusters that run as one, where one of them stands."""

    __slots__ = ()

    @property
    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """All nodes that run with it."""

    @property
    @abstractmethod
    def absorbed(self) -> Collection[Node]:
        """The first node of each cluster that does not run by itself any more."""

    @property
    def instead_of(self) -> Collection[int]:
        """Numbers of clusters whose earlier matches this one takes in."""
        return ()


M = TypeVar("M", bound=Match)


class Pattern(ABC, Generic[M]):
    """A way to run several clusters as one: how they are found, and how they are emitted."""

    @abstractmethod
    def find(self, block: GraphBlock) -> Mapping[int, M]:
        """Matches by the number of the cluster where each runs. `block.matches` holds those of the
        patterns before this one, `block.absorbed` the nodes that run with others already."""

    @abstractmethod
    def emit(self, block: GraphBlock, match: M, cluster: Cluster) -> None:
        """Give the results places and append the instructions."""


class Machine(ABC):
    """A target as lowering sees it."""

    # backend, target: names, for errors
    backend: str
    target: str
    memory: Memory  # of buffers
    patterns: Sequence[Pattern[Any]] = ()  # looked for in this order
    # whether a call continues after a failed check. Values that messages show are then kept until
    # the end, and writes of a graph's own state depend on the check.
    defers_checks: bool = False
    # whether the host's memory is the program's, so that collectives may go on while kernels run
    overlaps: bool = False
    # whether programs ask for collectives on the device's stream before the host does them
    asks: bool = False
    # bytes of what the phases of a nest keep of a row for later ones; None for as much as they want
    row_room: int | None = None

    @abstractmethod
    def plan(self, node: Node) -> KernelPlan:
        """The kernels of a node that does not fuse. Raises NoRule if the back end has no rule for
        the op."""

    @abstractmethod
    def nest(self, nest: Nest, streamed: Collection[Value]) -> tuple[Kernel, list[Any]]:
        """The kernel of a loop nest, and the nest's values in the order of its buffers; those in
        `streamed` are written past the caches."""

    @abstractmethod
    def cycles(self, e: Expr) -> float:
        """Estimated cycles of an operation over a vector: what a later phase of a nest would
        compute again is stored if it is expensive."""

    def llvm_text(self, code: Any) -> tuple[str, Target] | None:
        """A kernel's code as LLVM text, for people, and what that is compiled for; None if it is
        no such text."""
        return None

    def annotate(self, graph: Graph) -> None:  # noqa: B027
        """Note on the values of a graph what its rules want to know, before they are asked."""

    def flat(self, nest: Nest) -> Flat | None:
        """The kernel of a nest for any length; None if the machine has none (it runs the nest)."""
        return None

    def many(self, kernels: Sequence[Flat]) -> tuple[Kernel, tuple[tuple[int, int], ...]]:
        """One kernel for nests of one code, and the head of the entry of each in its table."""
        raise NotImplementedError(f"{self.target} has no kernels over tables")

    def guarded(self, kernel: Kernel) -> Kernel:
        """A kernel that does nothing where a check has failed, if checks are deferred."""
        return kernel

    def guarded_copy(self, nbytes: int) -> Kernel | None:
        """The kernel that copies its first buffer to its second unless a check has failed; None if
        a plain copy does."""
        return None

    def cut(self, node: Node) -> BatchLoop | None:
        """How a `scan` is cut into tasks of rows; None for trip by trip."""
        return None


class NoRule(TypeError):
    """A back end cannot compute an op; the message names both, and the line."""

    def __init__(self, node: Node, backend: str) -> None:
        super().__init__(f"the back end {backend!r} has no rule for the op {node.op!r}"
                         + where(node))


class TooLarge(ValueError):
    """A graph does not fit into the memory of its target."""


def where(node: Node) -> str:
    """Where a node comes from, as errors say it."""
    span = node.span
    place = f" at {span.file}:{span.line}" if span.line > 0 else ""
    return f"{place} (in {node.scope})" if node.scope else place
