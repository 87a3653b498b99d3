"""The interface of a back end.

A back end is a folder: its targets, the passes that choose for one, rules that lower ops to
kernels, patterns of clusters that it runs as one, the code of loop nests, and how an image is put
together. Everything above (`ir`, `ops`, `autodiff`, `passes`, `loops`, `fusion`, `lower`) knows
none of it; the driver reaches it through `Backend`.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from cellc_runtime.image import Image
from cellc_runtime.lazy import imported
from cellc_runtime.program import DeviceKernel
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ..ir.graph import Graph

if TYPE_CHECKING:
    from ..build.link import LinkInput
    from ..lower.instructions import Call, Callback, Copy
    from ..lower.kernel import Kernel
    from ..lower.lowered import Lowered, PrecomputedBlock
    from ..lower.machine import Machine
    from ..passes.base import Pass

R = TypeVar("R", bound=Callable[..., Any])
F = TypeVar("F", bound=Callable[..., Any])


class Rules(Generic[R]):
    """A table of rules by op, filled by decorators in the modules of a package.

    Args:
        backend: whose rules they are.
        package: its modules are imported at the first question; None: whoever asks has imported
            those that fill it.
    """

    def __init__(self, backend: str, package: str | None = None) -> None:
        self.backend = backend
        self._package = package
        self._rules: dict[str, R] = {}

    def lowers(self, op: str) -> Callable[[F], F]:
        """Decorator: the rule of an op.

        Raises:
            ValueError: it has one.
        """
        def register(rule: F) -> F:
            if op in self._rules:
                raise ValueError(f"the back end {self.backend!r} has two rules for {op!r}")
            self._rules[op] = cast(R, rule)
            return rule

        return register

    def find(self, op: str) -> R | None:
        """The rule of an op, or None."""
        if self._package is not None:
            package, self._package = imported(self._package), None
            for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
                imported(info.name)
        return self._rules.get(op)

    def ops(self) -> list[str]:
        """The ops that have a rule, by name."""
        self.find("")
        return sorted(self._rules)


RECORD_BYTES = 40
"""Bytes of a record: call, task (-1: the whole call), start and end in ticks of a clock, and a
number that tells threads apart, each an int64. Before the first record is their number, in as many
bytes."""


@dataclass(frozen=True, slots=True)
class ProfileLayout:
    """A function that records when kernels run, and what is needed to read it."""

    calls: list[Call | Copy | Callback]  # what was called, by the number in a record
    start: int  # offset in the arena of the records, of which there may be `capacity`
    capacity: int
    arena: int  # bytes of temporaries and records


@dataclass(frozen=True, slots=True)
class Built:
    """A lowered graph as code."""

    image: Image  # the code
    kernels: int  # how many distinct ones it calls
    profile: ProfileLayout | None = None  # how to read the records, if it records
    device_kernels: tuple[DeviceKernel, ...] = ()  # what it launches on a device of its own
    # those of its functions, that of `cellc_main` first, without what every image has; for a
    # library
    objects: tuple[LinkInput, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapePolymorphic:
    """The code of an elementwise op for any sizes."""

    image: Image  # the code; it reads rows and columns where constants are otherwise
    sizes: bytes  # the placeholders, so laid out
    cost: float  # estimated cycles of an element


class Build(Protocol):
    """A program being compiled: kernels are handed in while lowering still finds the next."""

    def add(self, kernel: Kernel) -> None:
        """A call of this kernel will be built."""

    def watch(self, say: Callable[[int, int], None]) -> None:
        """Call `say` with how many kernels are made, of how many, whenever it changes."""

    def finish(self, lowered: Lowered, profile_behind: int | None = None) -> Built:
        """The code of a lowered graph whose buffers have their places.

        Args:
            profile_behind: make it record, after this number of bytes of temporaries.
        """

    def block_key(self, block: PrecomputedBlock, slot: int) -> tuple[bytes, bool]:
        """Bytes that say what fills a precomputed block (in `slot`), whatever else the program
        does, and whether the constants are read for it."""


class Backend(ABC):
    """A back end."""

    name: str  # as errors and registrations know it
    targets: Mapping[str, Target]  # what it compiles for, by name

    @abstractmethod
    def default_target(self) -> Target:
        """Return the target to compile for on this machine.

        Raises:
            RuntimeError, ValueError: it has none for this machine.
        """

    def target_of(self, graph: Graph, numerics: str) -> Target:
        """The same, for a graph under these numerics."""
        return self.under(self.default_target(), numerics)

    def under(self, target: Target, numerics: str) -> Target:
        """A target of this back end as these numerics want its kernels."""
        return target

    @abstractmethod
    def version(self) -> str:
        """Return the compiler's version: programs of another one are not found in the cache."""

    def first_passes(self) -> tuple[Pass, ...]:
        """Return the rewrites of what later passes take apart, before all other passes."""
        return ()

    def passes(self, target: Target) -> tuple[Pass, ...]:
        """Return the passes that choose for a target, after all other passes. Bits stay."""
        return ()

    def fast_passes(self) -> tuple[Pass, ...]:
        """Return the rewrites of `numerics="fast"` for this back end, before the clean-up."""
        return ()

    @abstractmethod
    def machine(self, target: Target) -> Machine:
        """A target as lowering sees it."""

    def prepare(self, nodes: int) -> None:  # noqa: B027
        """Start slow preparations: a graph of this number of nodes will be compiled."""

    def ahead(self) -> AbstractContextManager[object]:
        """In the block a graph is traced and compiled, and the cache has nothing of this compiler:
        compile meanwhile what every program holds."""
        return nullcontext()

    @abstractmethod
    def build(self, target: Target) -> AbstractContextManager[Build]:
        """Begin to compile a program; leaving the context ends what still runs."""

    def shape_polymorphic(self, graph: Graph, target: Target) -> ShapePolymorphic | None:
        """The code for any sizes of an optimized graph of placeholder sizes
        (`lower/placeholder_sizes.py`); None if there is none."""
        return None

    def release(self) -> None:  # noqa: B027
        """Compilation is done for now: memory that it holds may go."""
