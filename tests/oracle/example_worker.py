"""Collects and runs documentation examples, in a process of MindSpore's or of cellc's Python.

    python example_worker.py extract EXAMPLES.json
    python example_worker.py run mindspore|cellc MODE EXAMPLES.json RESULTS.jsonl

MODE is "pynative", "graph", or "jit": PyNative with the documented call in a jitted function
(`jit_examples.py`), where an example without such a call is not run.

Standard library only at the top, since it runs in both installations.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import json
import linecache
import os
import random
import re
import signal
import sys
import types
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from jit_examples import under_jit

SECONDS = 20
SCOPES = (
    "mindspore.ops", "mindspore.nn", "mindspore.Tensor", "mindspore", "mindspore.numpy",
    "mindspore.mint", "mindspore.mint.nn.functional", "mindspore.mint.nn", "mindspore.mint.optim",
    "mindspore.mint.linalg", "mindspore.mint.special", "mindspore.train", "mindspore.amp",
    "mindspore.common.initializer", "mindspore.common", "mindspore.experimental.optim",
    "mindspore.experimental.optim.lr_scheduler", "mindspore.parallel", "mindspore.communication",
    "mindspore.communication.comm_func", "mindspore.communication.management",
    "mindspore.context", "mindspore.runtime", "mindspore.hal", "mindspore.profiler",
    "mindspore.ops.operations", "mindspore.ops.functional", "mindspore.nn.utils",
    "mindspore.utils", "mindspore.ops.auto_generate", "mindspore.mint.distributed",
    "mindspore.ops.function", "mindspore.scipy", "mindspore.scipy.linalg", "mindspore.scipy.fft",
    "mindspore.scipy.optimize", "mindspore.numpy.fft", "mindspore.nn.probability.distribution",
    "mindspore.nn.probability.bijector", "mindspore.rewrite", "mindspore.mindrecord",
    "mindspore.boost", "mindspore.nn.optim", "mindspore.nn.metrics", "mindspore.graph",
    "mindspore.parallel.nn", "mindspore.dataset", "mindspore.dataset.config",
    "mindspore.dataset.transforms", "mindspore.dataset.vision", "mindspore.dataset.vision.utils",
    "mindspore.dataset.audio", "mindspore.dataset.text", "mindspore.dataset.text.utils",
    "mindspore.dataset.utils", "mindspore.dataset.debug", "mindspore.dataset.dataloader",
    "mindspore.log", "mindspore.utils.dryrun", "mindspore.parallel.auto_parallel",
    "mindspore.parallel.distributed", "mindspore.parallel.strategy",
    "mindspore.nn.probability.bnn_layers", "mindspore.device_context.cpu",
    "mindspore.device_context.cpu.op_tuning", "mindspore.device_context.gpu.op_precision",
    "mindspore.device_context.gpu.op_tuning", "mindspore.device_context.ascend",
    "mindspore.device_context.ascend.op_debug", "mindspore.device_context.ascend.op_precision",
    "mindspore.device_context.ascend.op_tuning",
)
"""Where the documented names are."""
LASTING = re.compile(r"(?:device_target|set_device)(?!\W+CPU)|parallel_context|\binit\("
                     r"|init_process_group|set_debug_mode")
"""Settings that no later example can take back: after such a one the process ends."""
GIVEN = ("LeNet5", "Net", "create_dataset")
"""What examples use without defining it."""


def owner(scope: str) -> Any:
    """The module or class that a dotted name means."""
    parts = scope.split(".")
    value = importlib.import_module(parts[0])
    for n, part in enumerate(parts[1:], 2):
        with contextlib.suppress(ImportError):  # a module, perhaps one that loads when asked for
            value = importlib.import_module(".".join(parts[:n]))
            continue
        value = getattr(value, part)
    return value


def has(name: str) -> bool:
    """Whether there is something of this dotted name, be it a field that objects have."""
    try:
        home, _, last = name.rpartition(".")
        if last not in getattr(owner(home or name), "__annotations__", ()):
            owner(name)
    except (AttributeError, ImportError):
        return False
    return True


def source_of(doc: str | None) -> str:
    """The `>>>` lines of a docstring, as one program ("" if there are none)."""
    try:
        return "".join(e.source for e in doctest.DocTestParser().get_examples(doc or ""))
    except ValueError:  # a malformed docstring
        return ""


def _members(name: str, value: Any) -> Iterator[tuple[str, str | None]]:
    """The public methods and properties that a class defines itself, with their texts."""
    if isinstance(value, type) and value.__module__.startswith("mindspore"):
        for key, member in vars(value).items():
            if not key.startswith("_"):
                yield f"{name}.{key}", getattr(member, "__doc__", None)


def _names(home: Any) -> list[str]:
    """The public names of a module: those that it lists first, then what it merely imports."""
    listed = set(getattr(home, "__all__", ()))
    public = sorted(n for n in dir(home) if not n.startswith("_"))
    return sorted(public, key=lambda n: n not in listed)


def extract() -> dict[str, str]:
    """Examples by dotted name: each program under every name that has it."""
    found: dict[str, str] = {}
    for scope in SCOPES:
        if not has(scope):
            continue
        home = owner(scope)
        for name in _names(home):
            value = getattr(home, name, None)
            for inner, doc in ((name, getattr(value, "__doc__", None)), *_members(name, value)):
                if text := source_of(doc):
                    found[f"{scope}.{inner}"] = text
    return found


def _late(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no end after {SECONDS} s")


def _statements(text: str, name: str) -> None:
    """Run a program statement by statement, printing values as the interactive prompt does.

    The program gets a file: construct compilers read the source of what they compile.
    """
    path = name + ".py"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    linecache.checkcache(path)
    ms: Any = importlib.import_module("mindspore")
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # where construct compilers look names up
    space: dict[str, Any] = vars(module)
    space |= {
        "__file__": path, "mindspore": ms, "ms": ms, "Tensor": ms.Tensor,
        "Parameter": ms.Parameter, "nn": ms.nn, "ops": ms.ops, "mint": ms.mint,
        "np": importlib.import_module("numpy"), "mstype": ms.common.dtype,
        "P": ms.ops.operations,
    }  # most examples import what they use, and some forget it
    network = importlib.import_module("example_network")
    space |= {n: getattr(network, n) for n in GIVEN if re.search(rf"\b{n}\(", text)}
    for node in ast.parse(text, path).body:
        exec(compile(ast.Interactive([node]), os.path.abspath(path), "single"), space)


def run_one(name: str, text: str, mode: str) -> dict[str, str]:
    """What an example prints, and the error that ended it ("" for none)."""
    import numpy as np  # both installations have it; `extract` does without

    ms: Any = importlib.import_module("mindspore")
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_seed(1)
    np.random.seed(0)
    random.seed(0)
    if np.__version__[0] != "1":  # MindSpore's has numpy 1, which prints 1.5 for np.float32(1.5)
        np.set_printoptions(legacy="1.25")
    out, error = io.StringIO(), ""
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = under_jit(name, text) if mode == "jit" else text
            if not program:
                raise LookupError("the example has no call to put under jit")
            _statements(program, name)
    except (Exception, SystemExit) as e:
        error = f"{type(e).__name__}: {e}"
    finally:
        signal.alarm(0)
    # Two providers never agree on their own name and on addresses.
    shown = re.sub(r" at 0x[0-9a-f]+", "", out.getvalue()).replace("cellc.", "mindspore.")
    return {"name": name, "out": shown, "error": error}


def main() -> None:
    """Do what the command line says."""
    if sys.argv[1] == "extract":
        found = extract()
        with open(sys.argv[2], "w", encoding="utf-8") as f:
            json.dump(found, f)
        return
    if sys.argv[2] == "cellc":
        importlib.import_module("cellc.shim").install()
    signal.signal(signal.SIGALRM, _late)
    with open(sys.argv[4], encoding="utf-8") as f:
        examples = json.load(f)
    with open(sys.argv[5], "a", encoding="utf-8") as results:
        for name, text in examples.items():
            results.write(json.dumps({"name": name}) + "\n")  # if it dies, this one did it
            results.flush()
            results.write(json.dumps(run_one(name, text, sys.argv[3])) + "\n")
            results.flush()
            if LASTING.search(text):
                return


if __name__ == "__main__":
    main()
