"""What a trial found, and the corpus: small cases of what was found before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be.

    Attributes:
        kind: of the trial.
        seed: of the trial.
        what: in words.
        case: the smallest that shows it, as text that the kind can play; "" if there is none.
        suffix: of the case's file.
    """

    kind: str
    seed: int
    what: str
    case: str = ""
    suffix: str = ".txt"

    def save(self, folder: Path = CORPUS) -> Path:
        """Write the case; its name follows from its text, so that a finding is there once."""
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256((self.case or f"{self.seed} {self.what}").encode()).hexdigest()[:10]
        path = folder / f"{self.kind}_{name}{self.suffix}"
        path.write_text(self.case or f"# seed {self.seed}: {self.what}\n")
        return path


@dataclass(frozen=True)
class Trial:
    """One trial that is over.

    Attributes:
        counts: what it tried, by name (`op add`, `way gradient`).
        finding: what it found.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    finding: Finding | None = None


def plainest(
    thing: T, told: str, plainer: Callable[[T], Iterable[T]], shows: Callable[[T], str]
) -> T:
    """One that shows the same kind of fault, with no part it does not need.

    Args:
        told: what is wrong with it; the kind stands in front of a colon.
        plainer: others with less in them.
        shows: what is wrong with one; "" if nothing.
    """
    kind, tried = told.split(":")[0], 0
    while tried < 60:
        for other in plainer(thing):
            tried += 1
            if shows(other).split(":")[0] == kind:
                thing = other
                break
        else:
            break
    return thing
