"""The public places, what each offers, and what MindSpore has there.

    CELLC_ORACLE_PYTHON=... python -m tests.public.places     # asks MindSpore and writes the names
"""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path
from types import ModuleType

from ..others import mindspore

PLACES = (
    "", "nn", "nn.dynamic_lr", "nn.learning_rate_schedule", "nn.utils", "ops", "common",
    "common.dtype", "common.initializer", "train", "train.callback", "train.metrics", "amp",
    "numpy", "mint", "mint.nn", "mint.nn.functional", "mint.linalg", "mint.special",
    "mint.distributed", "mint.optim", "experimental.optim", "experimental.optim.lr_scheduler",
    "context", "communication", "parallel", "runtime", "hal", "profiler", "dataset", "mindrecord",
    "dataset.transforms", "dataset.vision", "boost", "rewrite", "utils", "scipy", "scipy.fft",
    "scipy.linalg", "scipy.optimize", "nn.probability", "nn.probability.distribution",
    "nn.probability.bijector",
)
RECORDED = Path(__file__).with_name("mindspore_names.txt")
LISTING = """
import importlib, json, sys
found = {}
for place in json.load(sys.stdin):
    module = importlib.import_module("mindspore" + ("." + place if place else ""))
    names = {*dir(module), *getattr(module, "__all__", ())}
    found[place] = sorted(n for n in names if n.isidentifier() and n[0] != "_")
print(json.dumps(found))
"""


def module_of(place: str) -> ModuleType:
    """The module of a place below `cellc`."""
    return importlib.import_module("cellc" + ("." + place if place else ""))


def listed(module: ModuleType) -> list[str]:
    """The names that a module offers to everybody."""
    return sorted(n for n in module.__all__ if not n.startswith("_"))


def theirs() -> dict[str, set[str]]:
    """What MindSpore 2.10 has at each place, as recorded."""
    found: dict[str, set[str]] = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            names = found.setdefault(line[2:].removeprefix("mindspore").lstrip("."), set())
        else:
            names.update(line.split())
    return found


def record() -> None:
    """Ask MindSpore and write what it has."""
    lines = []
    for place, names in mindspore(LISTING, given=PLACES).items():
        lines += ["# mindspore" + ("." + place if place else ""),
                  *textwrap.wrap(" ".join(names), 100)]
    RECORDED.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
