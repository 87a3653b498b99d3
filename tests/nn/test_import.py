"""What `import cellc` loads. Counted, not timed: a count does not depend on the machine."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cellc
from cellc import nn, ops
from cellc_runtime.lazy import facade, lazy_imports, lazy_names

_LATER = (
    "llvmlite", "networkx", "onnx", "rich", "numba", "multiprocessing", "tempfile", "logging",
    "cellc.lang", "cellc.train", "cellc.numpy", "cellc.mint", "cellc.amp", "cellc.experimental",
    "cellc.transforms.vmap", "cellc.transforms.jacobian", "cellc.ops.primitives",
    "cellc.ops.functional.recurrence",
    "cellc.nn.layer", "cellc.nn.optim", "cellc.nn.loss", "cellc.nn.wrap",
    "cellc_compiler.autodiff", "cellc_compiler.build.objects", "cellc_compiler.backends.llvm",
    "cellc_compiler.lower.lowering", "cellc_compiler.passes.pipeline",
    "cellc_compiler.interpret", "cellc_compiler.ir.text", "cellc_compiler.ops.winograd",
    "pathlib", "hashlib", "json",
)  # fmt: skip
"""Modules that stay out until something needs them."""
_MOST = 190
"""Modules of cellc's own that a name of it may load."""


def loaded(program: str, **env: str) -> set[str]:
    """The modules loaded in a fresh process, beyond those of numpy and ml_dtypes."""
    text = (
        "import sys, numpy, ml_dtypes\nbefore = set(sys.modules)\n" + program +
        "\nprint('\\n'.join(set(sys.modules) - before))"
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          env={**os.environ, **env})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_loads_nothing() -> None:
    """Neither numpy nor any part of cellc, until a name is asked for."""
    text = "import sys; before = set(sys.modules); import cellc; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert {m for m in found if m.startswith("cellc")} == {
        "cellc", "cellc_runtime", "cellc_runtime.lazy"}
    assert "numpy" not in found and len(found) < 15


def test_names_load_few_modules() -> None:
    found = loaded("from cellc import Tensor, nn, ops")
    early = {m for m in found for name in _LATER if m == name or m.startswith(name + ".")}
    assert not early
    assert len([m for m in found if m.startswith("cellc")]) <= _MOST


_ENTRIES = (
    "common.seed", "compiled.entries", "compiled.jit", "context", "eager.sites", "lang.trust",
    "mint", "nn", "ops.functional.arith", "tensors.seed",
)
"""Modules on different sides of the packages that know one another."""


def test_any_module_may_be_the_first() -> None:
    """Each in a process of its own that has loaded nothing but numpy."""
    check = (
        "import cellc as ms\n"
        "assert isinstance(ms.Tensor([1.0]), ms.Tensor) and ms.Tensor.reshape and ms.ops.relu\n"
        "assert ms.core.dispatch._engine and callable(ms.jit) and ms.nn.Cell and ms.float32\n"
    )
    program = (
        "import os, numpy, ml_dtypes\n"
        f"for name in {_ENTRIES}:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        try:\n"
        f"            exec('import cellc.' + name + {chr(10) + check!r})\n"
        "            os._exit(0)\n"
        "        except BaseException as error:\n"
        "            print(name, repr(error), flush=True)\n"
        "            os._exit(1)\n"
        "    os.waitpid(child, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_tensor_from_a_file_has_its_methods() -> None:
    """Unpickled in a process that has imported nothing of cellc."""
    tensors = [cellc.Tensor([1.0, 2.0]), cellc.Parameter(cellc.Tensor([3.0]), name="p")]
    program = (
        "import pickle, sys\n"
        "t, p = pickle.load(sys.stdin.buffer)\n"
        "assert ((t.reshape(2, 1) + p).asnumpy() == [[4.0], [5.0]]).all(), (t, p)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(tensors),
                          capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_the_table_of_the_package_has_every_dtype() -> None:
    dtypes = vars(cellc)["_HOMES"][".common.dtype"]
    assert set(dtypes.split()) == set(cellc.common.dtype.__all__)


def test_star_and_dir_have_every_name() -> None:
    space: dict[str, Any] = {}
    exec("from cellc import *", space)
    assert set(cellc.__all__) <= set(space) & set(dir(cellc))
    assert space["Tensor"] is cellc.Tensor and space["jit"] is cellc.jit


def test_a_name_loads_what_it_needs() -> None:
    found = loaded("from cellc import nn\nnn.Dense")
    assert "cellc.nn.layer.basic" in found
    assert not {"cellc.nn.layer.rnn", "cellc.nn.optim.adam", "cellc.nn.wrap"} & found


def test_a_warm_start_compiles_nothing(tmp_path: Path) -> None:
    """Neither the passes nor LLVM are loaded for networks that are in the cache."""
    program = (
        "import numpy as np, cellc as ms\n"
        "x = ms.Tensor(np.ones((2, 3), np.float32))\n"
        "ms.set_context(mode=ms.{0})\n"
        "net = ms.nn.Dense(3, 4)\n"
        "assert ms.ops.softmax(net(x) + 1).shape == (2, 4)\n"
    )
    for mode in ("GRAPH_MODE", "PYNATIVE_MODE"):
        text = program.replace("{0}", mode)
        cold = loaded(text, CELLC_CACHE_DIR=str(tmp_path))
        assert "cellc_compiler.lower.lowering" in cold  # the check below can fail
        warm = loaded(text, CELLC_CACHE_DIR=str(tmp_path))
        assert not {
            "llvmlite", "cellc_compiler.lower.lowering", "cellc_compiler.passes.pipeline",
            "cellc_compiler.build.objects",
        } & warm  # fmt: skip


def test_every_name_of_nn_is_found() -> None:
    for name in nn.__all__:
        assert getattr(nn, name) is not None
    assert {*nn.__all__, "Accuracy"} <= set(dir(nn))
    assert len(set(nn.__all__)) == len(nn.__all__)
    with pytest.raises(AttributeError, match=r"'cellc\.nn' has no attribute 'Dens'"):
        nn.Dens  # noqa: B018


def _starred(module: ModuleType) -> set[str]:
    """Paths below `nn` of what a package imports all names of; those of `layer` are its own."""
    found: set[str] = set()
    for n in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(n, ast.ImportFrom) and n.names[0].name == "*" and n.level == 1:
            home = f"{module.__name__}.{n.module}".removeprefix("cellc.nn")
            found |= {home} if home in nn._HOMES else _starred(import_module("cellc.nn" + home))
    return found


def test_the_table_of_nn_is_what_type_checkers_see() -> None:
    # A module without names is offered as itself.
    assert _starred(nn) == {home for home, names in nn._HOMES.items() if names}
    for home, names in nn._HOMES.items():
        for name in names.split():
            assert getattr(nn, name) is getattr(sys.modules["cellc.nn" + home], name)


def test_names_of_the_package_are_found() -> None:
    for module in (cellc, ops):
        for name in module.__all__:
            assert hasattr(module, name), name
    from cellc.ops import jacfwd, vmap

    assert cellc.vmap is vmap and cellc.jacfwd is jacfwd
    x = cellc.Tensor(np.ones(3, np.float32))
    assert ops.ReLU()(x).shape == (3,)


def test_lazy_names() -> None:
    load = lazy_names("cellc.train", {".model": "Model", ".data": ""})
    assert load("Model").__name__ == "Model"
    assert load("data").__name__ == "cellc.train.data"
    with pytest.raises(AttributeError, match="has no attribute 'Other'"):
        load("Other")


def test_a_block_of_lazy_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules load at their first use, however they are named."""
    package = tmp_path / "lazily"
    package.mkdir()
    for name, text in (("__init__", ""), ("parts", "value = 3"), ("reader", """
from cellc_runtime.lazy import lazy_imports
with lazy_imports(__name__):
    import lazily
    from lazily import parts as again
    from . import parts
""")):
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    real = builtins.__import__
    reader = import_module("lazily.reader")
    try:
        assert builtins.__import__ is real
        assert reader.lazily.__name__ == "lazily" and "lazily.parts" not in sys.modules
        assert reader.parts.value == reader.again.value == 3 and "lazily.parts" in sys.modules
    finally:
        for name in ("lazily", "lazily.parts", "lazily.reader"):
            sys.modules.pop(name, None)


def test_other_threads_and_functions_import_as_usual_while_a_block_is_open() -> None:
    found: dict[str, Any] = {}
    real = builtins.__import__
    with pytest.raises(KeyError, match="inside"), lazy_imports(__name__):
        thread = Thread(target=exec, args=("import colorsys", found))
        thread.start()
        thread.join()
        import stringprep
        raise KeyError("inside")
    assert "rgb_to_hls" in vars(found["colorsys"]) and "in_table_a1" in vars(stringprep)
    assert builtins.__import__ is real


def test_a_facade_offers_what_its_table_has() -> None:
    module = sys.modules["facade_of_json"] = ModuleType("facade_of_json")
    try:
        facade("facade_of_json", {"json.decoder": "Decoder=JSONDecoder | scanstring"})
        assert module.__all__ == ["Decoder"] and {"Decoder", "scanstring"} <= set(dir(module))
        assert module.Decoder.__name__ == "JSONDecoder" and callable(module.scanstring)
        with pytest.raises(AttributeError, match="has no attribute 'JSONDecoder'"):
            module.JSONDecoder  # noqa: B018
    finally:
        del sys.modules["facade_of_json"]
