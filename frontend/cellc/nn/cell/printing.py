"""The printed tree of a Cell."""

from __future__ import annotations

from .inputs import Inputs


class Printing(Inputs):
    """Printed form."""

    def extend_repr(self) -> str:
        """What a subclass wants printed between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extend_repr()
        children = [(name, cell) for name, cell in self._cells.items() if cell is not None]
        head = type(self).__name__
        if not children:
            return f"{head}({extra})" if extra else f"{head}()"
        lines = [f"({name}): " + repr(cell).replace("\n", "\n  ") for name, cell in children]
        inner = [extra, *lines] if extra else lines
        return f"{head}(\n  " + "\n  ".join(inner) + "\n)"
