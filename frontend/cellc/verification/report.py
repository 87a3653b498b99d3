"""The result of a verification, as an object, text, JSON and JUnit's XML."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

from cellc_compiler.ir.graph import Node, Span
from cellc_runtime.errors import counted
from cellc_runtime.records import dataclass, field

KINDS = (
    "output", "gradient", "parameter", "state", "print", "random", "error", "node", "region",
    "reference", "rule", "trace", "nonfinite",
)
"""Of findings: what differs end to end; then a node, a region beside its node, a node and the
float64 reference, a gradient and the difference quotient, the graph and what PyNative does; and
values that are not finite."""
END_TO_END = frozenset(KINDS[:7])
NODE_KINDS = frozenset(("node", "region", "reference"))
NODES = "nodes", "nodes against the reference", "regions"
RULES = "op rules", "gradients in float64"
"""The counts of nodes and of gradients, in `Report.compared`."""
MOST = 100  # Findings that are kept; more are counted


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that differs, or is not finite.

    Attributes:
        kind: one of `KINDS`.
        where: the stage (forward, gradient, train) and what of it: `gradient: of fc.weight`.
        message: what differs, and by how much.
        op, scope, span: of the node it was found at: op, path of the Cell, file:line:column.
        ulps: the error in units in the last place, where it was measured; `limit` that allowed.
    """

    kind: str
    where: str
    message: str
    op: str | None = None
    scope: str | None = None
    span: str | None = None
    ulps: float | None = None
    limit: float | None = None

    def __str__(self) -> str:
        at = ""
        if self.op is not None:
            at = f"{place_of(self.op, self.scope, self.span)}: "
        return f"{self.where}: {at}{self.message}"

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Worst:
    """The node with the largest error relative to its limit.

    Attributes:
        op, scope, span: of the node.
        ulps: its error against the reference; `share` of the limit, 1 at the limit.
    """

    op: str
    scope: str
    span: str
    ulps: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Report:
    """The compared values, the others, and the differences.

    Attributes:
        network: what was verified.
        findings: what differs or is not finite, in the order of the run; at most `MOST`.
        compared: how many things of each kind were compared, as `forward: outputs`.
        not_compared: how many were not, by the reason.
        worst: the node nearest to its tolerance, or beyond it; None if none was judged.
        dropped: findings beyond `MOST`.
        notes: what else one should know.
        origins: ops and places whose values that are not finite have been reported.
    """

    network: str = ""
    findings: list[Finding] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    not_compared: Counter[str] = field(default_factory=Counter)
    worst: Worst | None = None
    dropped: int = 0
    notes: list[str] = field(default_factory=list)
    origins: set[tuple[str, Span]] = field(default_factory=set)

    @property
    def status(self) -> int:
        """0: all agrees; 1: something differs or is not finite; 2: not all could be compared."""
        if self.findings:
            return 1
        return 2 if self.not_compared or not self.compared else 0

    # --- filled in by the comparisons -------------------------------------------------------------

    def find(
        self, kind: str, where: str, message: str, node: Node | None = None, *,
        scope: str = "", ulps: float | None = None, limit: float | None = None,
    ) -> None:
        """Add a finding, at a node if one is given (`scope`: of the node around its region)."""
        if len(self.findings) == MOST:
            self.dropped += 1
            return
        op = span = inner = None
        if node is not None:
            op, inner, span = node.op, node.scope or scope, str(node.span)
        self.findings.append(Finding(kind, where, message, op, inner, span, ulps, limit))

    def judged(self, node: Node, scope: str, ulps: float, share: float) -> None:
        """A node was held against its reference."""
        if self.worst is None or share > self.worst.share:
            self.worst = Worst(node.op, node.scope or scope, str(node.span), ulps, share)

    def add(self, other: Report, label: str = "") -> None:
        """Take over what another report of the same network found (for another seed, say)."""
        before = f"{label}: " if label else ""
        for f in other.findings:
            if len(self.findings) == MOST:
                self.dropped += 1
                continue
            self.findings.append(Finding(f.kind, before + f.where, f.message, f.op, f.scope,
                                         f.span, f.ulps, f.limit))
        self.dropped += other.dropped
        self.compared.update(other.compared)
        self.not_compared.update(other.not_compared)
        self.notes += [n for n in other.notes if n not in self.notes]
        if other.worst and (self.worst is None or other.worst.share > self.worst.share):
            self.worst = other.worst

    # --- shown ------------------------------------------------------------------------------------

    def __str__(self) -> str:
        stages = list(dict.fromkeys(key.partition(": ")[0] for key in self.compared))
        lines = [line for stage in stages for line in self._told(stage)]
        if self.worst is not None:
            w = self.worst
            lines.append(f"nearest to its tolerance: {place_of(w.op, w.scope, w.span)}, "
                         f"{w.ulps:.2f} ulps, {100 * w.share:.0f} % of what is allowed")
        lines += [f"not compared: {n} x {why}" for why, n in self.not_compared.items()]
        lines += [f"note: {n}" for n in self.notes]
        lines += [str(f) for f in self.findings]
        if self.dropped:
            lines.append(f"and {self.dropped} more")
        return "\n".join([*lines, self.verdict()])

    def _told(self, stage: str) -> list[str]:
        """Return the comparisons of a stage: end to end, node by node, by difference quotients."""
        counts = {key.partition(": ")[2]: n for key, n in self.compared.items()
                  if key.startswith(f"{stage}: ")}
        kinds = {f.kind for f in self.findings if f"{stage}:" in f"{f.where}:"}
        lines = []
        whole = [_count(n, what) for what, n in counts.items() if what not in (*NODES, *RULES)]
        if whole:
            alike = "agree to the bit" if kinds.isdisjoint(END_TO_END) else "compared"
            lines.append(f"{stage}: PyNative and compiled {alike}: {', '.join(whole)}")
        nodes = [counts.get(what, 0) for what in NODES]
        if nodes[0]:
            alike = "agree" + "s" * (nodes[0] == 1) if kinds.isdisjoint(NODE_KINDS) else "compared"
            regions = f", {_count(nodes[2], 'regions')} gone into" if nodes[2] else ""
            lines.append(f"{stage}: {_count(nodes[0], 'nodes')} {alike}: graph and eager to the "
                         f"bit, {nodes[1]} with the float64 reference{regions}")
        rules = [_count(counts[what], what) for what in RULES if what in counts]
        if rules:
            one = len(rules) == 1 and rules[0].startswith("1 ")
            alike = "compared with" if "rule" in kinds else f"agree{'s' * one} with"
            lines.append(f"{stage}: {' and '.join(rules)} {alike} difference quotients")
        return lines

    def verdict(self) -> str:
        """The status in words."""
        if self.status == 1:
            n = len(self.findings) + self.dropped
            return counted(n, 'finding')
        return "not all could be compared" if self.status else "all agrees"

    def to_json(self) -> str:
        """Everything as a JSON object."""
        worst = self.worst.to_dict() if self.worst is not None else None
        return json.dumps({
            "network": self.network, "status": self.status, "verdict": self.verdict(),
            "compared": dict(self.compared), "not_compared": dict(self.not_compared),
            "worst": worst, "findings": [f.to_dict() for f in self.findings],
            "dropped": self.dropped, "notes": self.notes,
        }, indent=2)

    def to_junit(self) -> str:
        """Everything as JUnit's XML: a test case for each kind of thing that was compared, a
        failed one for each finding, a skipped one for each reason not to compare."""
        n = len(self.compared) + len(self.findings) + len(self.not_compared)
        suite = ElementTree.Element("testsuite", {
            "name": f"cellc verify {self.network}".rstrip(), "tests": str(n),
            "failures": str(len(self.findings)), "skipped": str(len(self.not_compared)),
            "errors": "0"})

        def case(name: str) -> ElementTree.Element:
            return ElementTree.SubElement(
                suite, "testcase", {"classname": self.network or "network", "name": name})

        for what, count in self.compared.items():
            case(f"{what}: {count} compared")
        for f in self.findings:
            failure = ElementTree.SubElement(
                case(f"{f.kind}: {f.where}"), "failure", {"message": _plain(f.message)})
            failure.text = _plain(str(f))
        for why, count in self.not_compared.items():
            ElementTree.SubElement(case(f"not compared: {_plain(why)}"), "skipped",
                                   {"message": f"{count} x {_plain(why)}"})
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def place_of(op: str, scope: str | None, span: str | None) -> str:
    """A node in words: those that cellc adds have no place in the user's source."""
    if span is None or span.startswith("<cellc>"):
        return f"{op} (added by cellc)"
    return f"{op} ({scope or 'top'}) at {span}"


def _count(n: int, what: str) -> str:
    return f"{n} {re.sub(r's(?= |$)', '', what, count=1) if n == 1 else what}"


def _plain(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return "".join(c if c in "\t\n" or ord(c) >= 32 else "?" for c in text)
