"""Counts of the generated code of a fixed set of networks: a guard against regressions.

    python tests/codegen/counts.py             shows what differs from counts.json
    python tests/codegen/counts.py --update    writes counts.json anew

Nothing is timed or run, and the targets are named, so every machine counts the same. A change of
code generation changes the file, and the change is read with the rest of the commit.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.build.emit import assembly
from cellc_compiler.build.llvm_version import llvm_version
from cellc_compiler.lower import costs, memory
from cellc_compiler.lower.instructions import Call, Copy, walk
from cellc_runtime.dtypes import uint8
from cellc_runtime.program import Slot
from cellc_runtime.target import AVX2, AVX512, Target

FILE = Path(__file__).with_name("counts.json")
SAMPLES = Path(__file__).parents[2] / "samples"
TARGETS = (AVX512, AVX2)
TOLERANCE = 0.02
"""How far instructions of one kind of kernel may move: what another patch release of LLVM does."""

Counts = dict[str, Any]


# --- the networks --------------------------------------------------------------------------------


def _sample(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"counted_{name}", SAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _training(name: str, network: str, **size: Any) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    def make() -> tuple[Any, tuple[Any, ...]]:
        module = _sample(name)
        return module.train_step(getattr(module, network)(**size)), module.make_batch()

    return make


def _inference(name: str, network: str, **size: Any) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    def make() -> tuple[Any, tuple[Any, ...]]:
        module = _sample(name)
        return getattr(module, network)(**size).set_train(False), module.make_input()

    return make


def _narrow(name: str, network: str, **size: Any) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """Inference with weights of bfloat16."""
    def make() -> tuple[Any, tuple[Any, ...]]:
        net, inputs = _inference(name, network, **size)()
        for parameter in net.get_parameters():
            parameter.set_dtype(ms.bfloat16)
        return net, inputs

    return make


class Chain(nn.Cell):
    """Elementwise functions and a softmax over large rows."""

    def construct(self, x):
        return ops.softmax(ops.tanh(x) * ops.sigmoid(x) + ops.erf(x))


NETWORKS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "lenet training": _training("lenet", "LeNet5"),
    "mlp training": _training("mlp", "MLP", dropout=0.0),
    "resnet18 inference": _inference("resnet", "ResNet18"),
    "mobilenet inference": _inference("mobilenet", "MobileNetV2", plan=((1, 16, 1, 1),
                                                                        (6, 24, 2, 2)), last=64),
    "gpt training": _training("gpt", "GPT", depth=2, dropout=0.0),
    "gpt bfloat16 inference": _narrow("gpt", "GPT", depth=1, dropout=0.0),
    "lstm inference": _inference("lstm", "LSTMClassifier", dropout=0.0),
    "chain": lambda: (Chain(), (ms.Tensor(shape=(4096, 4096), dtype=ms.float32,
                                          init=ms.common.initializer.Zero()),)),
}


# --- counting ------------------------------------------------------------------------------------


def count(name: str) -> Counts:
    """The counts of a network, by target."""
    net, inputs = NETWORKS[name]()
    graph = trace(net, inputs, {}).graph
    return {target.name: count_on(driver.optimize(graph, target=target), target)
            for target in TARGETS}


def count_on(graph: Any, target: Target) -> Counts:
    """The counts of a graph of core ops on one target.

    `bytes` are those of the buffers of each call, passed over once. `instructions` are those of
    the distinct kernels by the ops they do; `spills` see `inner_spills`.
    """
    lowered = driver.lower(graph, target)
    arena = memory.plan(b for b in lowered.buffers if b.first >= 0)
    slots = driver.graph_slots(graph)
    slots += [Slot(f"kept{i}", uint8, (b.nbytes,), "kept")
              for i, b in enumerate(lowered.precomputed)]
    timed = [i for i in walk(lowered.instructions) if isinstance(i, (Call, Copy))]
    precompute = [i for i in walk(lowered.precompute) if isinstance(i, Call)]
    kernels = {c.kernel.code: costs.label(c) for c in reversed([*timed, *precompute])
               if isinstance(c, Call)}
    instructions: dict[str, int] = {}
    spills: dict[str, int] = {}
    for body, label in kernels.items():
        text = assembly(body, target)
        instructions[label] = instructions.get(label, 0) + sum(1 for _ in instruction_lines(text))
        if found := inner_spills(text):
            spills[label] = spills.get(label, 0) + found
    return {
        "kernels": len(kernels), "calls": len(timed), "arena": arena,
        "kept": lowered.precomputed_bytes,
        "bytes": sum(costs.nbytes(c, slots) for c in timed),
        "instructions": dict(sorted(instructions.items())), "spills": dict(sorted(spills.items())),
    }


_LABEL = re.compile(r"^(\.?\w+):")
_JUMP = re.compile(r"^\tj\w+\t(\.?\w+)")
_SAVED = re.compile(r"%[xyz]mm\d+(?: {[^}]*})?, (-?\d*\(%rsp\))(?:\s*{[^}]*})?$")


def instruction_lines(text: str) -> Iterator[str]:
    """The lines of assembly that are instructions."""
    for line in text.splitlines():
        if line.startswith("\t") and line[1] not in ".#":
            yield line


def inner_spills(text: str) -> int:
    """Vectors that innermost loops with fused multiply-adds save on the stack, and read again.

    A value from before the loop that is only read there costs what a constant in memory does.
    """
    lines = text.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    loops = sorted({
        (labels[m[1]], i) for i, line in enumerate(lines)
        if (m := _JUMP.match(line)) and labels.get(m[1], i) < i
    })
    inner = [(a, b) for a, b in loops
             if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in loops)]
    spilled = 0
    for body in (lines[a:b] for a, b in inner):
        if any("vfm" in line or "vfnm" in line for line in body):
            places = {m[1] for line in body if (m := _SAVED.search(line))}
            spilled += sum(re.search(rf"[\t ]{re.escape(p)}", line) is not None
                           for p in places for line in body)
    return spilled


# --- the file ------------------------------------------------------------------------------------


def stored() -> Counts:
    """What the file says."""
    found: Counts = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def differences(old: Counts, new: Counts) -> list[str]:
    """What changed in a network, as lines to read; more or less alike."""
    out = []
    for target in new:
        before, after = old.get(target, {}), new[target]
        for what in ("kernels", "calls", "arena", "kept", "bytes"):
            if before.get(what) != after[what]:
                out.append(f"{target}: {what} {before.get(what)} -> {after[what]}")
        for what, slack in (("instructions", TOLERANCE), ("spills", 0.0)):
            a, b = before.get(what, {}), after[what]
            for label in sorted({*a, *b}):
                x, y = a.get(label, 0), b.get(label, 0)
                if abs(y - x) > slack * x:
                    out.append(f"{target}: {what} of {label}: {x} -> {y}")
    return out


def main(update: bool) -> int:
    """Show or store; 1 if something differs and was not stored."""
    networks = {name: count(name) for name in NETWORKS}
    old = stored() if FILE.exists() else {"networks": {}}
    changed = False
    for name, counts in networks.items():
        for line in differences(old["networks"].get(name, {}), counts):
            changed = True
            print(f"{name}, {line}")
    if update:
        text = json.dumps({"llvm": llvm_version(), "networks": networks}, indent=1)
        FILE.write_text(text + "\n", encoding="utf-8")
    return int(changed and not update)


if __name__ == "__main__":
    sys.exit(main("--update" in sys.argv[1:]))
