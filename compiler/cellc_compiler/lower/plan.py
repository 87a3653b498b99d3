"""The result of a tuned kernel family for one node, for the driver."""

from __future__ import annotations

from enum import Enum

from cellc_runtime.packing import Packing
from cellc_runtime.records import dataclass, field

from .kernel import Kernel


class RoleKind(Enum):
    """The role of a kernel's buffer for the node; the value begins the names of such buffers."""

    OPERAND = "in"
    RESULT = "out"
    EPILOGUE = "epilogue"
    NEST = "nest"
    PACKED = "packed_"
    SCRATCH = ""


@dataclass(frozen=True, slots=True)
class Role:
    """The role of one buffer of a kernel for the node that the kernel works for."""

    # an operand or a result of the node; an operand of the epilogue or the loop nest that is
    # computed with it; an operand brought into another order; other scratch
    kind: RoleKind
    name: int | str  # the number of an operand or result, the name of what is packed or of scratch

    def __str__(self) -> str:
        return f"{self.kind.value}{self.name}"


def operand(number: int) -> Role:
    """The role of an operand of the node."""
    return Role(RoleKind.OPERAND, number)


def result(number: int) -> Role:
    """The role of a result of the node."""
    return Role(RoleKind.RESULT, number)


def epilogue_operand(number: int) -> Role:
    """The role of an operand of the fused epilogue."""
    return Role(RoleKind.EPILOGUE, number)


def nest_operand(number: int) -> Role:
    """The role of an operand of the loop nest that runs with the node."""
    return Role(RoleKind.NEST, number)


def packed(name: str) -> Role:
    """The role of an operand in another order."""
    return Role(RoleKind.PACKED, name)


def scratch(name: str) -> Role:
    """The role of a scratch buffer."""
    return Role(RoleKind.SCRATCH, name)


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel and the buffers it is called with, by role; what it writes is last."""

    kernel: Kernel
    roles: tuple[Role, ...]

    @property
    def packs(self) -> bool:
        """Whether it only brings an operand into another order."""
        return self.roles[-1].kind is RoleKind.PACKED


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """Kernels in order, and the bytes of each scratch buffer they share."""

    steps: tuple[Step, ...]
    # of roles of the kinds `PACKED` and `SCRATCH`
    scratch: dict[Role, int] = field(default_factory=dict)
    # the layouts of the packed buffers whose step changes no element
    packing: dict[Role, Packing] = field(default_factory=dict)
