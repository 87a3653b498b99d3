"""The tool that plants faults: what it changes, and that it sees which are found."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from .naming import naming
from .planting import Fault, faults
from .reaching import Reach, in_order, statement
from .rooms import ROOMS, ROOT, files, other_tests, own_tests
from .trying import LEDGER, ask, chosen, product, search, summary

SOURCE = '''\
"""A text."""
from typing import Any

LIMIT: "int | None" = 3


def f(a: int, b: int, known: list[int]) -> str:
    """Another: 1 < 2."""
    if a < b and not known:
        raise ValueError(f"{a - b} is wrong")
    known.append(min(a, b))
    a += 1
    return f"  %c = icmp slt i64 %a, {b // 2}"
'''


def changes(root: Path) -> dict[str, str]:
    """By what a fault makes of its place, its kind."""
    (root / "m.py").write_text(SOURCE)
    return {f"{f.before} -> {f.after}": f.kind for f in faults(root, "m.py")}


def test_kinds(tmp_path: Path) -> None:
    """Each place that does something, and none that only says something."""
    found = changes(tmp_path)
    assert found == {
        "3 -> (4)": "off by one",
        "a < b and not known -> (a < b or not known)": "and, or",
        "a < b and not known -> (not (a < b and (not known)))": "turned condition",
        "a < b -> (a <= b)": "comparison",
        "not known -> (known)": "dropped not",
        "known.append(min(a, b)) -> pass": "dropped call",
        "min(a, b) -> (max(a, b))": "other function",
        "a += 1 -> pass": "lost update",
        "1 -> (2)": "off by one",
        'f"  %c = icmp slt i64 %a, {b // 2}" -> (f\'  %c = icmp sle i64 %a, {b // 2}\')':
            "generated code",
    }


def test_what_only_checks_is_left(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("for a, b in zip(x, y, strict=True):\n    pass\n")
    assert [f.kind for f in faults(tmp_path, "m.py")] == ["swapped arguments"]


def test_a_statement_is_found_by_its_line() -> None:
    """What a fault's line belongs to: the head of a block alone; nothing where modules begin."""
    file = "tests/campaigns/mutants/planting.py"
    lines = (ROOT / file).read_text().splitlines()
    head = next(i for i, text in enumerate(lines, 1) if "for field, value in ast.iter_f" in text)
    assert statement(file, head) == range(head, head + 1)
    assert statement(file, 1) is None
    reach = Reach({"a[1]": 3.0, "a[2]": 1.0, "b": 2.0}, {file: {head: ["a[1]", "b", "a[2]"]}})
    assert reach.tests(file, head) == ["a[2]", "b", "a[1]"]
    assert reach.tests(file, 1) is None and Reach().tests(file, head) is None
    more = {f"a[{i}]": float(i) for i in range(5)} | {"b": 9.0}
    assert in_order(more, more) == ["a[0]", "a[1]", "a[2]", "b", "a[3]", "a[4]"]


def test_tests_that_name_a_function() -> None:
    """Those with the name of what a line is in, or of what uses the private function it is in."""
    file = "frontend/cellc/train/callback/control.py"
    lines = (ROOT / file).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "self.baseline is None or" in text)
    assert "tests/train/test_model.py::test_early_stopping" in naming(file, line)
    mine = "tests/campaigns/mutants/planting.py"
    line = next(i for i, text in enumerate((ROOT / mine).read_text().splitlines(), 1)
                if "in _WORD.finditer" in text)
    here = "tests/campaigns/mutants/test_mutants.py::"
    assert naming(mine, line)[0].startswith(here)  # _texts, in _expressions, in faults


def test_planting_changes_one_place(tmp_path: Path) -> None:
    changes(tmp_path)
    for fault in faults(tmp_path, "m.py"):
        (tmp_path / "m.py").write_text(SOURCE)
        fault.plant(tmp_path)
        text = (tmp_path / "m.py").read_text()
        ast.parse(text)
        assert text == SOURCE[: fault.start] + fault.after + SOURCE[fault.end :] != SOURCE


def test_a_seed_is_a_fault() -> None:
    """The same for ever, in a file of its room; and different seeds are different faults."""
    made = [chosen(seed) for seed in (1, 2, 3)]
    assert made[0] == chosen(1) and len({str(fault) for _, fault in made}) == 3
    for room, fault in made:
        assert fault.file in files(room)


def test_rooms() -> None:
    """Each has modules and tests that exist; a module's own come first."""
    for room in ROOMS:
        assert files(room), room
        for test in (*ROOMS[room], *other_tests(room)):
            assert (ROOT / test).exists(), test
    lower = "compiler/cellc_compiler/lower"
    first = own_tests(lower, f"{lower}/inplace_concat.py")[0]
    assert first == "tests/passes/test_inplace_concat.py"
    ops = "compiler/cellc_compiler/ops"
    assert "[max_pool2d]" in own_tests(ops, f"{ops}/pool.py")[-1]


def test_a_fault_is_found() -> None:
    """In a copy, whose own tests pass without it; the product itself stays as it is."""
    file = "compiler/cellc_compiler/ir/dims.py"
    text = (ROOT / file).read_text()
    before = "difference == 0"
    start = text.encode().index(before.encode())
    fault = Fault(file, 1, "comparison", before, "(difference != 0)", start, start + len(before))
    tests = ["tests/dynamic/test_dims.py", "-k", "surely_equal"]
    with product(None) as (root, env):
        assert ask(root, env, tests, 120) == ""
        fault.plant(root)
        found = ask(root, env, tests, 120)
        assert found.startswith("tests/dynamic/test_dims.py::test_what_is_surely_equal"), found
        assert ask(root, env, ["tests/dynamic/test_dims.py", "-k", "nosuchtest"], 120) == ""
        assert ask(root, env, tests, 0.01) == "out of time"
        broken: list[str] = []
        assert search(root, env, tests, 120, lambda test: bool(broken.append(test))) == ""
        assert broken[0] == found and len(broken) == len(set(broken)) > 1
    assert (ROOT / file).read_text() == text


def test_the_ledger_adds_up(tmp_path: Path) -> None:
    """What somebody has judged counts as that; a survivor is none of the found ones."""
    lines = [{"room": "r", "found": "own"}, {"room": "r", "found": "others"},
             {"room": "r", "found": ""}, {"room": "r", "found": "", "judged": "equivalent: why"},
             {"room": "r", "found": "", "judged": "test added: which"}]
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(summary(ledger))[-1] == (
        "all: 5 planted, 1 found by its own tests, 1 by others, 1 by tests added since, "
        "1 change nothing, 1 survive (75 % found, 50 % fresh)")
    assert list(summary(LEDGER))[-1].startswith("all: ")
