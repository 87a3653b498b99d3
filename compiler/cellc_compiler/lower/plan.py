"""What a tuned kernel family hands to the driver for one node."""

from __future__ import annotations

from cellc_runtime.packing import Packing
from cellc_runtime.records import dataclass, field

from .kernel import Kernel


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel and the buffers it is called with, by role.

    Roles: `"in0"`, `"in1"`, ... the node's operands, `"out0"`, ... its results, any other name a
    scratch buffer of the plan, `"epilogue0"`, ... operands of a fused epilogue.
    """

    kernel: Kernel
    roles: tuple[str, ...]

    @property
    def packs(self) -> bool:
        """Whether it only brings an operand into another order."""
        return self.roles[-1].startswith("packed_")


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """Kernels in order, and the bytes of each scratch buffer they share.

    Attributes:
        packing: the layouts of the packed buffers whose step changes no element.
    """

    steps: tuple[Step, ...]
    scratch: dict[str, int] = field(default_factory=dict)
    packing: dict[str, Packing] = field(default_factory=dict)
