"""Names that nothing else has: `relu`, `relu_1`, `relu_2`..."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Gives each asked name once, and the same name with a number from then on."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def unique(self, name: str) -> str:
        """The name, or with the first number that makes it new."""
        found, number = name, 0
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found
