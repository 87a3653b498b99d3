"""Which tests are those of which part of the product: they are asked first."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from cellc_compiler.ir.op import all_ops

ROOT = Path(__file__).parents[3]
_GRAPHS = ("tests/codegen/test_counts.py", "tests/modes/test_random_graphs.py",
           "tests/samples/test_modes.py")
"""Of what makes one program of a graph: whole ones first, of which any other code is seen, then
its parts."""
ROOMS: dict[str, tuple[str, ...]] = {
    "runtime/cellc_runtime": ("tests/runtime", "tests/storage"),
    "runtime/cellc_runtime/collectives.py": ("tests/ranks",),
    "runtime/cellc_runtime/cuda": ("tests/cuda", "tests/runtime/test_devices.py"),
    "compiler/cellc_compiler/ir": ("tests/ir", "tests/passes"),
    "compiler/cellc_compiler/ops": ("tests/ops/test_near_samples.py", "tests/ops/test_matrix.py",
                                    "tests/modes/test_op_law.py"),
    "compiler/cellc_compiler/autodiff": ("tests/autodiff",),
    "compiler/cellc_compiler/passes": ("tests/passes", "tests/modes/test_random_graphs.py"),
    "compiler/cellc_compiler/passes/sharding": ("tests/passes/test_sharding.py", "tests/ranks"),
    "compiler/cellc_compiler/loops": (*_GRAPHS, "tests/codegen"),
    "compiler/cellc_compiler/fusion": (*_GRAPHS, "tests/codegen"),
    "compiler/cellc_compiler/lower": (*_GRAPHS, "tests/lang/test_control_ops.py", "tests/codegen"),
    "compiler/cellc_compiler/backends/cpu": ("tests/codegen", "tests/ops/test_matrix.py"),
    "compiler/cellc_compiler/backends/llvm": ("tests/codegen", "tests/ops/test_matrix.py"),
    "compiler/cellc_compiler/backends/cuda": ("tests/cuda",),
    "compiler/cellc_compiler/backends/plain": ("tests/backends",),
    "compiler/cellc_compiler/build": ("tests/runtime", "tests/codegen/test_nest_cache.py"),
    "frontend/cellc/tensors": ("tests/frontend", "tests/indexing"),
    "frontend/cellc/storage": ("tests/storage", "tests/indexing"),
    "frontend/cellc/eager": ("tests/modes", "tests/autodiff"),
    "frontend/cellc/tracing": (
        "tests/lang/test_asking.py", "tests/lang/test_arguments.py", "tests/frontend",
        "tests/lang"),
    "frontend/cellc/lang": ("tests/lang",),
    "frontend/cellc/compiled": (
        "tests/lang/test_caching.py", "tests/lang/test_causes.py", "tests/dynamic", "tests/lang"),
    "frontend/cellc/transforms": ("tests/autodiff",),
    "frontend/cellc/calls": ("tests/autodiff", "tests/nn", "tests/modes"),
    "frontend/cellc/nn": ("tests/bad_input/test_made.py", "tests/nn"),
    "frontend/cellc/train": ("tests/bad_input/test_made.py", "tests/train"),
    "frontend/cellc/ranks": ("tests/bad_input/test_made.py", "tests/ranks"),
    "frontend/cellc/parallel": (
        "tests/bad_input/test_made.py", "tests/ranks", "tests/public", "tests/frontend"),
    "frontend/cellc/communication": ("tests/bad_input/test_made.py", "tests/ranks"),
}
"""A folder or a module; what has a room of its own is not in the one around it."""
OTHERS = ("tests/ir", "tests/runtime", "tests/passes", "tests/autodiff", "tests/storage",
          "tests/modes", "tests/samples", "tests/codegen", "tests/frontend", "tests/lang",
          "tests/indexing", "tests/ops", "tests/nn", "tests/train", "tests/dynamic",
          "tests/kernels", "tests/backends", "tests/ranks", "tests/cuda",
          "tests/verification", "tests/testing", "tests/campaigns/fuzz", "tests/cli",
          "tests/public", "tests/structure")
"""All that a survivor of its own room's tests is shown, the quick ones first."""


def files(room: str) -> list[str]:
    """The modules of a room, from the root of the project."""
    if (ROOT / room).is_file():
        return [room]
    inner = [ROOT / other for other in ROOMS if other.startswith(f"{room}/")]
    return sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / room).rglob("*.py")
                  if not any(p.is_relative_to(other) for other in inner))


def own_tests(room: str, file: str) -> list[str]:
    """pytest's arguments for the tests of a file: those that are named after it or import its
    module, wherever they are, then the room's."""
    names = _ops_of(file)
    if names:
        return [*ROOMS[room], "-k", " or ".join(f"[{n}]" for n in names)]
    rooms = list(dict.fromkeys(p for place in ROOMS[room] for p in test_files(place)))
    every = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").glob("*/test_*.py"))
    near = [p for p in every if _is_about(p, file)]
    return [*near, *(p for p in rooms if p not in near)]


def _is_about(test: str, file: str) -> bool:
    """Whether a file of tests is named after a module, or imports it."""
    package, _, module = file.removesuffix(".py").split("/", 1)[1].replace("/", ".").rpartition(".")
    if module == "__init__":
        return False
    text = (ROOT / test).read_text()
    imported = re.search(rf"^\s*from {re.escape(package)} import .*\b{module}\b", text, re.M)
    return (Path(test).stem == f"test_{module}" or imported is not None
            or re.search(rf"\b{re.escape(package)}\.{module}\b", text) is not None)


def other_tests(room: str) -> list[str]:
    """What the rest of the tests is, as far as it is of use."""
    return [p for p in OTHERS if p not in ROOMS[room]]


def test_files(place: str) -> list[str]:
    path = ROOT / place
    return [place] if path.is_file() else sorted(
        p.relative_to(ROOT).as_posix() for p in path.glob("test_*.py"))


@cache
def _ops_by_file() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for op in all_ops():
        if op.samples():  # (the package may be installed elsewhere)
            file = "compiler/" + type(op).__module__.replace(".", "/") + ".py"
            found.setdefault(file, []).append(op.name)
    return found


def _ops_of(file: str) -> list[str]:
    return _ops_by_file().get(file, [])
