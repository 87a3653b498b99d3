"""The account of what torch runs itself where a model is compiled by this backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from cellc_runtime.lazy import logging
from cellc_runtime.records import dataclass, field

from .network import Missing


@dataclass(slots=True)
class GraphReport:
    """One graph that torch has given.

    Attributes:
        nodes: operators in it.
        parts: programs that it became.
        missing: the operators that torch runs, with the reason and how often they are there.
        notes: parts that could not be compiled as a whole.
    """

    nodes: int
    parts: int
    missing: Counter[Missing]
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([
            f"{self.nodes} operators in {self.parts} programs; torch runs "
            f"{self.missing.total()}", *(f"  {line}" for line in (*_lines(self), *self.notes))])


def _lines(report: GraphReport) -> Iterator[str]:
    for m, count in report.missing.most_common():
        yield f"{m.op} ({count}): {m.why}"


_graphs: list[GraphReport] = []
_told: set[frozenset[str]] = set()


def add(nodes: int, parts: int, missing: Iterable[Missing]) -> GraphReport:
    """Note a graph, and warn of its missing operators once."""
    report = GraphReport(nodes, parts, Counter(missing))
    _graphs.append(report)
    ops = frozenset(m.op for m in report.missing)
    if ops and ops not in _told:
        _told.add(ops)
        logging.getLogger("cellc").warning(
            "torch.compile with backend='cellc': torch runs %d of %d operators itself, between %d "
            "programs: %s. cellc.torch_backend.report() tells all.", report.missing.total(), nodes,
            parts, "; ".join(_lines(report)))
    return report


def note(report: GraphReport, text: str) -> None:
    """Note a part that is not compiled as it should be, and warn of it."""
    report.notes.append(text)
    logging.getLogger("cellc").warning("torch.compile with backend='cellc': %s", text)


def report(clear: bool = False) -> list[GraphReport]:
    """The graphs that this process has compiled, in order.

    Args:
        clear: whether to forget them.
    """
    found = list(_graphs)
    if clear:
        _graphs.clear()
        _told.clear()
    return found
