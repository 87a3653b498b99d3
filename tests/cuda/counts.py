"""Counts of the GPU code of a few networks, by ptxas: a guard against regressions.

    python tests/cuda/counts.py             shows what differs from counts.json
    python tests/cuda/counts.py --update    writes counts.json anew

Nothing is timed or run: registers, bytes of spills and instructions are the assembler's. A change
of code generation changes the file, and the change is read with the rest of the commit.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.backends.cuda.build import variants
from cellc_compiler.backends.cuda.code import KernelCode
from cellc_compiler.build import objects, ptxas
from cellc_compiler.build.workers import compile_jobs
from cellc_compiler.lower import costs
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import CUDA, Target

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.codegen.counts import NETWORKS as ALL

FILE = Path(__file__).with_name("counts.json")
NETWORKS = ("lenet training", "gpt training", "chain")
TOLERANCE = 0.02
"""How far instructions may move: what another patch release of LLVM or ptxas does."""

Counts = dict[str, Any]


def kernels(name: str, target: Target) -> dict[KernelCode, str]:
    """The distinct kernels of a network, with what they do."""
    net, inputs = ALL[name]()
    graph = driver.optimize(trace(net, inputs, {}).graph, target=target)
    lowered = driver.lower(graph, target)
    found: dict[KernelCode, str] = {}
    for i in walk([*lowered.instructions, *lowered.precompute]):
        if isinstance(i, Call):
            for code in variants(i.kernel.code):
                found.setdefault(code, costs.label(i))
    return found


def assembled(name: str, target: Target) -> list[tuple[str, KernelCode, ptxas.Cubin]]:
    """The kernels of a network, assembled."""
    found = kernels(name, target)
    texts = objects.compile_texts([code.text for code in found], target)
    with ThreadPoolExecutor(compile_jobs()) as pool:
        cubins = pool.map(lambda ptx: ptxas.assemble(ptx.decode(), target.cpu), texts)
        return [(label, code, cubin) for (code, label), cubin in
                zip(found.items(), cubins, strict=True)]


def count(name: str, target: Target) -> Counts:
    """Instructions and registers by what kernels do, and spills."""
    out: Counts = {"kernels": 0, "spilled": 0, "instructions": {}, "registers": {}}
    for label, _, cubin in assembled(name, target):
        out["kernels"] += 1
        out["spilled"] += cubin.spill_bytes
        out["instructions"][label] = out["instructions"].get(label, 0) + cubin.instructions
        out["registers"][label] = max(out["registers"].get(label, 0), cubin.registers)
    return {**out, "instructions": dict(sorted(out["instructions"].items())),
            "registers": dict(sorted(out["registers"].items()))}


def stored() -> Counts:
    """What the file says."""
    found: Counts = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def differences(old: Counts, new: Counts) -> list[str]:
    """What changed, as lines to read."""
    out = [f"{what}: {old.get(what)} -> {new[what]}" for what in ("kernels", "spilled")
           if old.get(what) != new[what]]
    for what in ("instructions", "registers"):
        a, b = old.get(what, {}), new[what]
        out += [f"{what} of {label}: {a.get(label, 0)} -> {b.get(label, 0)}"
                for label in sorted({*a, *b})
                if abs(b.get(label, 0) - a.get(label, 0)) > TOLERANCE * a.get(label, 0)]
    return out


def main() -> None:
    """See the module."""
    new = {name: {t.name: count(name, t) for t in CUDA.values()} for name in NETWORKS}
    if "--update" in sys.argv:
        FILE.write_text(json.dumps({"ptxas": ptxas.version(), "networks": new}, indent=1) + "\n",
                        encoding="utf-8")
        return
    old = stored()["networks"]
    for name, by_target in new.items():
        for target, counts in by_target.items():
            for line in differences(old.get(name, {}).get(target, {}), counts):
                print(f"{name}, {target}: {line}")


if __name__ == "__main__":
    main()
