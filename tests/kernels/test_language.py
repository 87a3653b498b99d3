"""Kernels compiled by numba against the same lines run by Python over numpy arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.ops.kernels import source_of
from cellc_compiler.backends.llvm import numba_code
from cellc_compiler.driver import compile_graph
from cellc_compiler.hybrid.language import KernelError, Source, read
from cellc_compiler.hybrid.native import native
from cellc_compiler.hybrid.python import _function
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.target import TARGETS, host_target

from ..modes.law import bits
from . import functions as f

pytest.importorskip("numba")

Array = np.ndarray[Any, Any]
FLOATS = [np.float32, np.float64]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def drawn(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    """Numbers of both signs."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-50, 50, shape).astype(dtype)
    return (3 * rng.normal(size=shape)).astype(dtype)


def results(made: Any) -> list[Array]:
    many = made if isinstance(made, tuple) else (made,)
    return [t.asnumpy() if isinstance(t, Tensor) else np.asarray(t) for t in many]


def compiled(function: Any, *arrays: Array) -> list[Array]:
    """What native code gives."""
    return results(ops.Custom(function, func_type="hybrid")(*map(Tensor, arrays)))


def python(function: Any, *arrays: Array) -> list[Array]:
    """What Python gives."""
    with np.errstate(all="ignore"):
        return results(function(*[a.copy() for a in arrays]))


def exactly(function: Any, *arrays: Array) -> None:
    for got, want in zip(compiled(function, *arrays), python(function, *arrays), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert bits(got) == bits(want), (got, want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("function", "shapes"), [
    (f.outer_product, [(4, 5), (5, 5)]), (f.with_memory, [(4, 5), (5, 3)]), (f.scheduled, [(3, 6)]),
    (f.arithmetic, [(9,), (9,)]), (f.divided, [(9,), (9,)]), (f.control, [(7,)]),
    (f.converted, [(9,)]), (f.to_scalar, [(3, 3)]), (f.in_place, [(4,), (4,)]),
    (f.kept_memory, [(6,)]), (f.stacked, [(2, 3)]),
])
def test_floats(function: Any, shapes: list[tuple[int, ...]], dtype: Any) -> None:
    if function is f.outer_product:
        shapes = [(4, 4), (4, 4)]
    exactly(function, *[drawn(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)])


@pytest.mark.parametrize("dtype", INTS)
def test_ints(dtype: Any) -> None:
    a, b = drawn(9, dtype=dtype), drawn(9, dtype=dtype, seed=1)
    exactly(f.arithmetic, a, b)
    exactly(f.bits_of, a, b)
    exactly(f.stacked, drawn(2, 3, dtype=dtype))


def test_bools() -> None:
    exactly(f.stacked, drawn(2, 3) > 0)
    exactly(f.in_place, drawn(4) > 0, drawn(4, seed=1) > 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bits(dtype: Any) -> None:
    """Computed in float32, rounded where they are stored."""
    a, b = drawn(9, dtype=dtype), drawn(9, dtype=dtype, seed=1)
    for function, given in ((f.arithmetic, (a, b)), (f.divided, (a, b)), (f.functions, (a,))):
        (got,) = compiled(function, *given)
        (want,) = python(function, *[x.astype(np.float32) for x in given])
        assert got.dtype == dtype
        eps = float(ml_dtypes.finfo(dtype).eps)
        near = np.isclose(got.astype(np.float64), want, rtol=2 * eps, atol=2 * eps)
        assert near.all() or np.isinf(got[~near].astype(np.float64)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions(dtype: Any) -> None:
    """Near the exact values, as cellc's own functions are."""
    a = drawn(40, dtype=dtype)
    (got,), (want,) = compiled(f.functions, a), python(f.functions, a.astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=16 * np.finfo(dtype).eps)


def test_functions_have_the_bits_of_ops() -> None:
    a = Tensor(drawn(300))
    x = ops.abs(a) + 0.25
    (got,) = compiled(f.functions, a.asnumpy())
    for row, op in ((1, ops.exp), (2, ops.log), (3, ops.tanh), (4, ops.sin), (6, ops.erf)):
        assert bits(got[row]) == bits(op(x).asnumpy())


@pytest.mark.parametrize("function", [f.functions, f.divided, f.to_scalar])
def test_every_level_of_the_machine_gives_the_same_bits(function: Any) -> None:
    arrays = [drawn(67), drawn(67, seed=1)] if function is f.divided else \
        [drawn(9, 9)] if function is f.to_scalar else [drawn(67)]
    source, graph = source_of(function), Graph("k")
    values = [graph.add_input(TensorType(a.shape, dtypes.float32), f"x{i}")
              for i, a in enumerate(arrays)]
    graph.outputs = list(Builder(graph).node("custom_kernel", values, {
        "text": source.text, "constants": source.constants}).results)
    host = host_target()
    levels = [t for t in TARGETS.values() if t.triple == host.triple
              and set(t.features.split(",")) <= set(host.features.split(","))]
    made = [[bits(r) for r in compile_graph(graph, t)(arrays)] for t in levels]
    assert levels and all(m == made[0] for m in made)


def test_empty_tensors() -> None:
    exactly(f.stacked, drawn(0, 3))
    exactly(f.softplus, drawn(3, 0))


def test_special_numbers() -> None:
    a = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3e38], np.float32)
    exactly(f.arithmetic, a, a[::-1].copy())
    exactly(f.converted, np.array([np.nan, 1, 2.5], np.float32)[1:])


def test_inputs_keep_their_elements() -> None:
    a, b = Tensor(drawn(4)), Tensor(drawn(4, seed=1))
    before = a.asnumpy().copy()
    _, out = ops.Custom(f.in_place, func_type="hybrid")(a, b)
    assert bits(a.asnumpy()) == bits(before) and bits(out.asnumpy()) != bits(before)


def test_a_source_is_its_text_and_its_numbers() -> None:
    source = source_of(f.scheduled)
    assert source.text.startswith("def scheduled(a):") and source.constants == (("FACTOR", 3),)
    assert source.file == f.__file__
    assert Path(f.__file__).read_text().splitlines()[source.line - 1] == "def scheduled(a):"
    assert source_of(f.in_place).constants == (("SHAPE", (2, 3)),)


# --- what is refused ------------------------------------------------------------------------------

HEAD = "def g(a):\n    c = output_tensor(a.shape, a.dtype)\n"
REFUSED = [
    ("    c[0] = a[0]\n", "'a' has 2 axes, but 1 positions are given"),
    ("    for i in a:\n        c[0, 0] = i\n", "a loop of a kernel counts with one of range"),
    ("    c[0, 0] = a.sum()\n", r"a kernel cannot call a.sum\(\); it may call abs, acos"),
    ("    c[0, 0] = zz\n", "the name 'zz' is not known"),
    ("    c[a[0, 0], 0] = 1\n", "a position of an element must be an int, but this is float32"),
    ("    for i in range(a[0, 0]):\n        c[0, 0] = 1\n",
     "the bounds of a loop must be ints, but this is float32"),
    ("    c = a + a\n", "'c' cannot be given another value"),
    ("    d = allocate((int(a[0, 0]), 3), a.dtype)\n", "the shape and dtype of 'd' must follow"),
    ("    a[0, 0] = 1\n", "writes to its input 'a', which it does not return"),
    ("    d = output_tensor((2,), a.dtype)\n", "the output tensor 'd' is not returned"),
    ("    d = allocate(a.shape, 'float99')\n", "must be a dtype or the name of one"),
    ("    d = allocate((2, -1), a.dtype)\n", "must hold non-negative ints"),
    ("    d = allocate((2,), 'complex64')\n", "kernels take bool, ints and floats"),
    ("    c[0, 0] = a[0, 0] & 1\n", "a bit operation takes ints and bools, but this is float32"),
    ("    try:\n        c[0, 0] = 1\n    except ValueError:\n        pass\n", "cannot hold a try"),
    ("    c[0:1, 0] = 1\n", "single elements, no slices"),
    ("    if a[0, 0] > 1:\n        return c\n", "a kernel returns at its end, nowhere else"),
    ("    c[0, 0] = a\n", "'a' is a tensor: a kernel computes with its elements"),
    ("    for i in range(0, 4, a.shape[0] - 2):\n        c[0, 0] = 1\n", "the step of a loop"),
    ("    c[0, 0] = sqrt(a[0, 0], 2)\n", r"sqrt\(\) takes 1 number, by position"),
    ("    d[0] = 1.0\n    d = allocate((1,), a.dtype)\n", "'d' is used before it is made"),
    ("    a.shape\n", "this statement has no effect"),
]


@pytest.mark.parametrize(("body", "text"), REFUSED)
def test_refused(body: str, text: str, tmp_path: Path) -> None:
    """With the file, the line, and the words of that line."""
    path = tmp_path / "kernels.py"
    path.write_text(f"from cellc.ops import kernel\n\n\n@kernel\n{HEAD}{body}    return c\n")
    with pytest.raises(KernelError, match=text) as caught:
        ops.Custom(loaded(path).g, func_type="hybrid")(Tensor(drawn(2, 3)))
    where = str(caught.value).splitlines()[1]
    assert where.startswith(f"  at {path}:")
    number, shown = where.removeprefix(f"  at {path}:").split(": ", 1)
    assert path.read_text().splitlines()[int(number) - 1].strip() == shown


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("text", "message"), [
    ("def g(a, *b):\n    return a\n", "without defaults"),
    ("def g(a):\n    a[0] = 1\n", "must end with the return of its results"),
    ("def g(a):\n    return a, a\n", "returns a tensor twice"),
    ("def g(a):\n    c = allocate((1,), 'int8')\n    return c\n", "that output_tensor"),
    ("def g(a):\n    for i in range(2):\n        c = output_tensor((1,), 'int8')\n    return c\n",
     "must not stand in a loop"),
    ("@boom()\ndef g(a):\n    return a\n", "without decorators"),
    ("def g(a=boom()):\n    return a\n", "without defaults"),
    ("def g(a):\n    with attr(boom(), 1):\n        pass\n    return a\n", "constants and names"),
    ("def g(a):\n    with boom():\n        pass\n    return a\n", "a with of a kernel is one of"),
    ("x = 3\n", "must be one function"), ("def g(:\n", "is no Python"),
])
def test_other_texts(text: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        read(Source(text))


@pytest.mark.parametrize("line", ["c[0] = a[0] + (-1)", "c[0] = -1", "c[0] = max(a[0], 1 - 9)"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_a_number_that_is_none_of_the_type_it_meets(line: str, dtype: Any) -> None:
    """Compiled as by Python it is an error, and no other number."""
    text = f"def g(a):\n    c = output_tensor(a.shape, a.dtype)\n    {line}\n    return c\n"
    x = np.ones(1, dtype)
    kind = dtypes.from_numpy(x.dtype)
    kernel = native(Source(text), (TensorType((1,), kind),))
    with pytest.raises(KernelError, match=rf"-\d is no {kind.name}, the type of .* int64\(x\)"):
        numba_code.lowered(kernel)
    if "max" not in line:  # Python itself compares any two ints
        with pytest.raises(KernelError, match=r"the kernel g\(\) cannot be run: .*out of bounds"):
            lookup("custom_kernel").reference(x, text=text, constants=(), file="f", line=1)


def test_nothing_of_a_text_runs_but_the_language() -> None:
    """The reference runs a text as Python, and the text may come from a file."""
    x = np.ones(2, np.float32)
    op = lookup("custom_kernel")
    text = "def g(a: boom()) -> boom():\n    return a\n"
    assert op.reference(x, text=text, constants=(), file="f", line=1)[0].tolist() == [1.0, 1.0]
    for call in ("output_tensor(a.shape, boom())", "output_tensor(boom(), a.dtype)",
                 "output_tensor(a.shape, a.dtype, scope=boom())",
                 "output_tensor((boom(), 1)[1:], a.dtype)",
                 "output_tensor([boom for _ in a], 'int8')"):
        text = f"def g(a):\n    c = {call}\n    return c\n"
        with pytest.raises(KernelError, match=r"\n  at f:\d+: ."):
            op.reference(x, text=text, constants=(), file="f", line=1)


MADE = "def k(a, sh):\n    c = output_tensor((2, 2), 'float32')\n"


@pytest.mark.parametrize(("text", "constants"), [
    (MADE + "    for i, j, c[boom()] in grid(sh):\n        pass\n    return c\n", {"sh": (2, 2)}),
    (MADE + "    for i, j, c[boom()] in grid((2, 2)):\n        pass\n    return c\n", {}),
    (MADE + "    for c[boom()] in grid((2,)):\n        pass\n    return c\n", {}),
    (MADE + "    for i, (j, c[boom()]) in grid((2, 2)):\n        pass\n    return c\n", {}),
    (MADE + "    for i, *j in grid((2, 2)):\n        pass\n    return c\n", {}),
    (MADE + "    return c\n", {"sh": (2, 2)}),
    (MADE + "    return c\n", {"c": 1}),
    (MADE + "    return c\n", {"range": 1}),
    (MADE + "    return c\n", {"__builtins__": 1}),
    (MADE + "    return c\n", {"x": None}),
    (MADE + "    c[0, 0] = 'a' * 10 ** 10\n    return c\n", {}),
    ("def k(a):\n    c = output_tensor((2,), 'int8', 'g', boom())\n    return c\n", {}),
    ("def k(a):\n    c = output_tensor(boom(), 'int8', shape=(2,))\n    return c\n", {}),
    ("def k(a):\n    c = output_tensor((max(1, 2, key=boom()),), 'int8')\n    return c\n", {}),
    ("def k(a):\n    c = output_tensor((len((1, 2), boom()),), 'int8')\n    return c\n", {}),
    ("def k(a):\n    c = output_tensor((1 << 60,), 'int8')\n    return c\n", {}),
    ("def k(a):\n    b = allocate((1 << 30, 1 << 30), 'int8')\n    return a\n", {}),
    ("def k(a):\n    _k_axis1_0 = 9\n    return a\n", {}),
    ("def k(a):\n    x = (1, 1)\n" + "    x = (x, x)\n" * 3 + "    return a\n", {}),
    ("def k(a):\n" + "".join(f"    x{i + 1} = (x{i}, x{i})\n" for i in range(50))
     + "    c = output_tensor(x50, 'int8')\n    return c\n", {"x0": (1, 1)}),
])
def test_a_text_holds_nothing_but_the_language(text: str, constants: dict[str, Any]) -> None:
    """Wherever Python evaluates an expression, and whatever a constant is called."""
    given = {"text": text, "constants": tuple(constants.items()), "file": "f", "line": 1}
    arrays = [np.ones(2, np.float32), np.ones(3, np.int32)][:1 + ("sh" in text)]
    with pytest.raises(KernelError, match=r"\n  at f:\d+: ."):
        lookup("custom_kernel").reference(*arrays, **given)


def test_the_reference_runs_without_builtins() -> None:
    source = Source("def range(a):\n    for i in serial(2):\n        a[i] = len(a)\n    return a\n")
    function = _function(source)
    assert set(function.__globals__["__builtins__"]) == {"__import__"}
    with pytest.raises(ImportError, match="cannot import os"):
        function.__globals__["__builtins__"]["__import__"]("os")
    assert function(np.zeros(2)).tolist() == [2, 2]


@pytest.mark.parametrize("loop", [
    "while 1 < 2:\n        n += 1\n", "for i in range(1 << 40):\n        pass\n",
    "for i in serial(9999):\n        for j in range(9999):\n            n += 1\n",
])
def test_the_reference_ends(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellc_compiler.hybrid.python.MOST_TRIPS", 1000)
    source = Source(f"def turn(a):\n    n = 0\n    {loop}    return a\n")
    with pytest.raises(KernelError, match=r"at most 1000 trips of loops(.|\n)*: (while|for) "):
        _function(source)(np.zeros(2))


@pytest.mark.parametrize("line", [
    "n = 9 ** 9 ** 9", "n = 1 << (1 << 40)", "n = 9\n    while 1 < 2:\n        n *= n",
    "n = 9\n    for i in range(99):\n        n = n * n",
])
def test_ints_of_the_reference_are_bounded(line: str) -> None:
    source = Source(f"def turn(a):\n    {line}\n    return a\n")
    with pytest.raises(KernelError, match="an int of a kernel must have at most 4096 bits"):
        _function(source)(np.zeros(2))


def test_shapes_do_not_compute_for_long() -> None:
    """Graphs are read from files: what follows from a text must not take forever."""
    chain = "    n0 = 9\n" + "".join(f"    n{i + 1} = n{i} * n{i}\n" for i in range(60))
    deep = "ceil_div(1, " * 60 + "2" + ")" * 60
    for line, message in (
        ("    d = allocate((9 ** 9 ** 9,), 'int8')\n", "must follow from"),
        (chain + "    d = allocate((n60,), 'int8')\n", "cannot be computed: it is too large"),
        (f"    d = allocate(({deep} - 2,), 'int8')\n", "must hold non-negative ints"),
        (f"    k = a[0, 0] + {deep.replace('2', 'a[0, 0]')}\n    d = allocate((-1,), 'int8')\n",
         "must hold non-negative ints"),
    ):
        graph = Graph("k")
        x = graph.add_input(TensorType((2, 3), dtypes.float32), "x")
        with pytest.raises(KernelError, match=message):
            Builder(graph).node("custom_kernel", [x], {"text": f"{HEAD}{line}    return c\n"})


@pytest.mark.parametrize(("made", "kind", "text"), [
    (lambda: ops.Custom(lambda a: a, func_type="hybrid"), TypeError, "decorated by kernel"),
    (lambda: ops.Custom(f.stacked, func_type="hybrid")(3.0), TypeError, "takes Tensors, but input"),
    (lambda: ops.Custom(f.stacked, func_type="hybrid")(Tensor([1.0]), Tensor([1.0])), KernelError,
     r"takes 1 tensor \(a\), but got 2"),
    (lambda: ops.Custom(f.stacked, (7,), func_type="hybrid")(Tensor(drawn(2, 3))), ValueError,
     r"'out_shape' is \(7,\), but the function stacked\(\) gives \(4, 3\)"),
    (lambda: ops.Custom(f.stacked, out_dtype=ms.int8, func_type="hybrid")(Tensor(drawn(2, 3))),
     TypeError, "'out_dtype' is Int8, but the function stacked"),
    (lambda: ops.Custom(f.stacked, func_type="hybrid")(Tensor(np.ones((2, 2), np.complex64))),
     KernelError, "the input 'a' of the kernel stacked\\(\\) is of complex64"),
    (lambda: ops.Custom(f.stacked, func_type="akg"), ValueError, "'akg' needs devices or comp"),
    (lambda: f.stacked(Tensor([1.0])), TypeError, "takes numpy arrays: for Tensors make an op"),
    (lambda: ops.kernel(3), TypeError, "decorates a function written with def"),
    (lambda: ops.kernel(compile_attrs={1: 2}), TypeError, "must be a str"),
    (lambda: ops.kernel(compile_attrs=3), TypeError, "must be a dict"),
    (lambda: ops.kernel(reg_info=3), TypeError, "one of str, dict and tuple"),
])
def test_wrong_calls(made: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        made()
