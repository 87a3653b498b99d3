"""How a Cell is run: training or not, phase, gradients, flags."""

from __future__ import annotations

from typing import Any, Self

from ...core.invalidation import changed
from .state import State


class Modes(State):
    """Modes and flags."""

    cell_type: str | None = None
    """What `update_cell_type` set."""

    def set_train(self, mode: bool = True) -> Self:
        """Training or evaluation mode, of this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            object.__setattr__(cell, "_phase", "train" if mode else "predict")
            if cell.training != mode:
                cell.training = mode
        return self

    @property
    def phase(self) -> str:
        """A name for what the cell does: `"train"` or `"predict"` unless it was set."""
        return str(self.__dict__.get("_phase", "train"))

    @phase.setter
    def phase(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"the phase of a Cell must be str, but got {type(value).__name__}")
        object.__setattr__(self, "_phase", value)

    def set_grad(self, requires_grad: bool = True) -> Self:
        """Whether a gradient of this cell is going to be asked for; itself.

        In PyNative mode a call of the cell is recorded then, and `ms.grad(cell)` or
        `ms.value_and_grad(cell)` for the same arguments goes on from there: `construct` runs once.
        A change of arguments, Parameters or attributes of Cells in between makes it run again;
        what else `construct` reads is taken as it was.
        """
        object.__setattr__(self, "requires_grad", requires_grad)
        return self

    @property
    def bprop_debug(self) -> bool:
        """Whether the cell's own `bprop` is checked; what it gives is always checked here."""
        return bool(self.__dict__.get("_bprop_debug", False))

    @bprop_debug.setter
    def bprop_debug(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(
                f"For 'Cell', 'bprop_debug' must be bool, but got {type(value).__name__}."
            )
        object.__setattr__(self, "_bprop_debug", value)

    def add_flags(self, **flags: Any) -> Self:
        """Set flags, which are attributes too; itself."""
        self._flags.update(flags)
        for name, value in flags.items():
            setattr(self, name, value)
        changed(self, "_flags")
        return self

    def add_flags_recursive(self, **flags: Any) -> Self:
        """`add_flags` on this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """The flags that were set."""
        flags: dict[str, Any] = self._flags
        return flags

    def set_boost(self, boost_type: str) -> Self:
        """Record an acceleration algorithm as a flag of this cell and all below it; itself.

        Args:
            boost_type: `"less_bn"`, the one there is.

        Raises:
            ValueError: another one.
        """
        if boost_type != "less_bn":
            raise ValueError(
                "For 'set_boost', the argument 'boost_type' must be 'less_bn', but got "
                f"{boost_type!r}."
            )
        return self.add_flags_recursive(less_bn=True)

    def update_cell_type(self, cell_type: str) -> None:
        """Record the type of the cell (`"quant"`, `"second-order"`)."""
        self.cell_type = cell_type
