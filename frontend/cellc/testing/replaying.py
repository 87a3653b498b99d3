"""`replay`: a recorded call once more, here: compiled, op by op and by the reference."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cellc_runtime.records import dataclass

from ..verification.values import difference
from .cases import Case, load_case, versions
from .judging import Judge, Symptom
from .probe import ChildJudge
from .rules import wrong_rule


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded call, and what it does here; print it.

    Attributes:
        case: what was recorded.
        versions: what differs from there: name, there, here.
        symptom: what is wrong with the call here, if anything is.
        outputs: how the outputs differ from the recorded ones, in words.
    """

    case: Case
    versions: tuple[tuple[str, str, str], ...]
    symptom: Symptom | None
    outputs: tuple[str, ...]

    @property
    def status(self) -> int:
        """0: nothing is wrong here and the outputs are the recorded ones; 1: something is wrong
        or differs; 2: the call failed before there was a graph."""
        if self.case.graph is None:
            return 2
        return 1 if self.symptom is not None or self.outputs else 0

    def __str__(self) -> str:
        lines = []
        if self.case.message:
            lines.append(f"there it failed: {self.case.message}")
        lines += [f"{name}: {there} there, {here} here" for name, there, here in self.versions]
        if self.case.graph is None:
            return "\n".join([*lines, "the call failed before there was a graph; nothing to run"])
        if self.symptom is not None:
            node = self.case.graph.nodes[self.symptom.node] if self.symptom.node >= 0 else None
            at = f" at {node.op} ({node.scope or 'top'}), {node.span}" if node else ""
            lines.append(f"here: {self.symptom.kind}{at}: {self.symptom.text}")
        else:
            lines.append("here: compiled and op by op agree to the bit, each node with the "
                         "reference")
        than = "construct in PyNative gave something else" \
            if self.case.options.get("check") == "pynative" else "other than there"
        lines += [f"{than}: {text}" for text in self.outputs]
        if not self.outputs and self.case.outputs and self.symptom is None:
            n = len(self.case.outputs)
            lines.append(f"here it gives what was recorded, bit for bit: {n} "
                         f"tensor{'s' * (n != 1)}")
        return "\n".join(lines)


def replay(path: str | os.PathLike[str], *, isolate: bool = True) -> Replay:
    """Run a recorded call here: compiled, op by op and by the reference, and compare.

    Args:
        path: what `record` or `cellc bisect -o` wrote.
        isolate: run it in a process of its own first, which alone ends in a crash.

    Returns:
        Return the fault here and the differences from the recorded run.

    Raises:
        ArtifactError: the file is damaged or no case.
        OSError: it cannot be read.

    Only in cellc.
    """
    case = load_case(path)
    here = versions()
    differ = tuple((name, there, here[name]) for name, there in case.versions.items()
                   if here.get(name, there) != there)
    if case.graph is None:
        return Replay(case, differ, None, ())
    symptom = _judged(case, isolate)
    outputs: Sequence[str] = ()
    if symptom is None or symptom.kind not in ("crash", "hang", "error"):
        outputs = _against_recorded(case)
    return Replay(case, differ, symptom, tuple(outputs))


def _judged(case: Case, isolate: bool) -> Symptom | None:
    assert case.graph is not None
    judge = Judge(case.numerics)
    if isolate:
        with ChildJudge(case.numerics) as child:
            symptom = child.symptom(case.graph, case.arrays)
        if symptom is not None and symptom.kind in ("crash", "hang"):
            return symptom
    symptom = judge.symptom(case.graph, case.arrays)
    if symptom is None and case.options.get("check") == "rules":
        symptom = wrong_rule(case.graph, judge.alone(case.graph, case.arrays))
    return symptom


def _against_recorded(case: Case) -> list[str]:
    assert case.graph is not None
    if not case.outputs:
        return []
    made = Judge(case.numerics).compiled(case.graph, case.arrays)
    told = []
    for i, (there, here) in enumerate(zip(case.outputs, made, strict=True)):
        text = difference(there, here, ("the record", "here"))
        if text:
            told.append(f"output {i}: {text}")
    return told
