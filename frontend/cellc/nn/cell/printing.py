"""The printed tree of a Cell."""

from __future__ import annotations

from .parallel import Parallel


class Printing(Parallel):
    """Printed form."""

    def _get_name(self) -> str:
        return type(self).__name__

    def extend_repr(self) -> str:
        """What a subclass wants printed between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extend_repr()
        lines = extra.split("\n") if extra else []
        children = [(name, cell) for name, cell in self._cells.items() if cell is not None]
        head = self._get_name()
        if not children and len(lines) < 2:
            return f"{head}({extra})"
        lines += [f"({name}): " + repr(cell).replace("\n", "\n  ") for name, cell in children]
        return f"{head}(\n  " + "\n  ".join(lines) + "\n)"

    def __bool__(self) -> bool:
        return True
