"""How a Cell is run: training or not, phase, flags."""

from __future__ import annotations

from typing import Any, Self

from .state import State


class Modes(State):
    """Modes and flags."""

    def set_train(self, mode: bool = True) -> Self:
        """Training or evaluation mode, of this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            if cell.training != mode:
                cell.training = mode
        return self

    @property
    def phase(self) -> str:
        """A name for what the cell does: `"train"` or `"predict"` unless it was set."""
        return str(self.__dict__.get("_phase") or ("train" if self.training else "predict"))

    @phase.setter
    def phase(self, value: str) -> None:
        object.__setattr__(self, "_phase", value)

    def set_grad(self, requires_grad: bool = True) -> Self:
        """Accepted for compatibility: gradients need no second forward run here; itself."""
        object.__setattr__(self, "requires_grad", requires_grad)
        return self

    def add_flags(self, **flags: Any) -> Self:
        """Set flags as attributes too; itself."""
        self._flags.update(flags)
        for name, value in flags.items():
            object.__setattr__(self, name, value)
        return self

    def add_flags_recursive(self, **flags: Any) -> Self:
        """`add_flags` on this cell and all below it; itself."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """The flags that were set."""
        return dict(self._flags)

    def set_jit_config(self, jit_config: Any) -> None:
        """Accepted for compatibility."""
        object.__setattr__(self, "_jit_config", jit_config)

    def apply(self, fn: Any) -> Self:
        """Call `fn` on every cell below this one, then on this one; itself."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self
