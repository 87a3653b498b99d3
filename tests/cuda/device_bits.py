"""Whether a GPU gives the processor's bits: ops, functions of a number, networks in both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from tests.cuda.block_programs import LONG, arrays_of
from tests.modes.law import bits, type_of
from tests.ops.test_matrix import cases
from tests.samples.networks import NETWORKS, Sample

import cellc as ms
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, all_ops, lookup
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.machine import NoRule
from cellc_runtime import device, dtypes
from cellc_runtime.target import Target, host_target

Array = np.ndarray[Any, Any]
Row = dict[str, Any]
KINDS = (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64, dtypes.int32,
         dtypes.int64, dtypes.uint8, dtypes.bool_)  # fmt: skip
SIXTEEN = (dtypes.float16, dtypes.bfloat16)
PRODUCTS = ("matmul", "dense", "conv")
"""Beginnings of ops that are products: of 16 bits a GPU computes them by tensor cores, whose sums
have other bits."""
SLACK = 2.0**-6
"""Of the largest element, that such a product may be away."""
STEPS = 2
PATTERNS, ORDINARY = 1 << 17, 1 << 16


def names() -> list[str]:
    """All cases."""
    ops = [op.name for op in all_ops() if op.samples()]
    return [*(f"net {n}" for n in NETWORKS), "check lenet", *(f"function {n}" for n in functions()),
            *(f"line {n}" for n in LONG), *(f"op {n}" for n in ops)]


def functions() -> list[str]:
    """Ops that are a function of one floating-point number."""
    found = []
    for op in all_ops():
        samples = op.samples()
        if op.value and samples and dtypes.float32 in op.dtypes and len(
                samples[0].operands) == 1 and not samples[0].attrs and _takes_rows(op):
            found.append(op.name)
    return found


def _takes_rows(op: Op) -> bool:
    """Whether it gives a number for each of an array of one axis (what makes matrices or picks from
    them does not)."""
    x = np.zeros(4, np.float32)
    try:
        return _unary(op, x).outputs[0].shape == x.shape
    except ValueError:
        return False


def _unary(op: Op, x: Array) -> Graph:
    graph = Graph(op.name)
    value = graph.add_input(type_of(x), "x")
    graph.outputs = list(Builder(graph).node(op.name, [value], {}).results)
    return graph


def run(name: str, small: bool) -> Row:
    """A case: how many comparisons there were, and what differs.

    Args:
        small: the first samples alone.
    """
    kind, _, what = name.partition(" ")
    if kind == "net":
        return _network(NETWORKS[what], small)
    if kind == "check":
        return _judged(_checked(NETWORKS[what]))
    if kind == "function":
        return _judged(_function(lookup(what), small))
    if kind == "line":
        return _judged(iter([(what, *_pair(parse_graph(LONG[what]), arrays_of(LONG[what])))]))
    try:
        return _judged(_op(lookup(what), small), _product_slack)
    except NoRule:  # one of those that the processor's layouts are made of
        return {"status": "absent", "said": "the back end has no rule for it"}


def gpu_target() -> Target:
    """What programs of the GPU are compiled for."""
    return next(iter(device.gpu().targets.values()))


Comparison = tuple[str, Sequence[Array], Sequence[Array]]


def _judged(comparisons: Iterator[Comparison], slack: Callable[[str], float] = lambda _: 0.0
            ) -> Row:
    """The row of comparisons.

    Args:
        slack: how far a comparison may be away, by its name.
    """
    same, near, differ = 0, 0, []
    for what, got, want in comparisons:
        found = [_difference(g, w) for g, w in zip(got, want, strict=True)]
        worst = [text for far, text in found if far > slack(what)]
        near += not worst and any(far for far, _ in found)
        same += not worst
        differ += [f"{what}: {text}" for text in worst[:1]]
    return {"status": "differs" if differ else "same", "compared": same + len(differ),
            "near": near, "differ": differ[:4], "differing": len(differ)}


def _difference(got: Array, want: Array) -> tuple[float, str]:
    """How far two arrays are apart, by the largest element, and what to say; (0, "") if the bits
    are the same."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return np.inf, f"{got.dtype}{got.shape} is not {want.dtype}{want.shape}"
    if bits(got) == bits(want):
        return 0.0, ""
    if got.dtype.kind not in "fcV" and got.dtype.name != "bfloat16":
        return np.inf, f"{int(np.sum(got != want))} of {got.size} elements"
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = got.astype(wide), want.astype(wide)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return np.inf, "NaN or infinity in other places"
        apart = np.abs(a - b)[np.isfinite(a)]
        # Bits that differ though values do not (zeros of other signs) are a difference too.
        far = max(float(apart.max(initial=0.0)), 1e-300)
        far /= float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) or 1.0
        return far, f"by {far:.1e} of the largest, {int(np.sum(apart > 0))} of {got.size} elements"


def _product_slack(what: str) -> float:
    """Of a comparison that `_op` names."""
    head = what.removeprefix("gradient of ")
    low = any(dtype.name in head for dtype in SIXTEEN)
    return SLACK if low and head.startswith(PRODUCTS) else 0.0


def _pair(graph: Graph, arrays: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """A graph's results on the GPU and on the processor."""
    out = []
    for target in (gpu_target(), host_target()):
        got = compile_graph(graph, target)([a.copy() for a in arrays])
        out.append([np.asarray(a if isinstance(a, np.ndarray) else a.numpy()) for a in got])
    return out[0], out[1]


def _op(op: Op, small: bool) -> Iterator[Comparison]:
    for case in cases(op, KINDS[:1] if small else KINDS, 1 if small else 3):
        graph = case.graph()
        yield str(case), *_pair(graph, case.arrays)
        if case.grad and case.dtype == dtypes.float32 and not small:
            wanted = [i for i, v in enumerate(graph.inputs) if v.dtype.is_inexact]
            seeded = [i for i, v in enumerate(graph.outputs) if v.dtype.is_inexact]
            if not wanted or not seeded:
                continue
            backward = gradient_graph(graph, wanted, seeded=seeded, sens=True)
            rng = np.random.default_rng(1)
            given = [np.asarray(rng.uniform(-1, 1, v.shape), v.dtype.numpy)
                     for v in backward.inputs[len(case.arrays):]]
            yield f"gradient of {case}", *_pair(backward, [*case.arrays, *given])


def _function(op: Op, small: bool) -> Iterator[Comparison]:
    """All numbers of 16 bits; of 32 bits, any patterns and ordinary numbers."""
    rng = np.random.default_rng(5)
    for dtype in (dtypes.float32, *SIXTEEN):
        if dtype not in op.dtypes:
            continue
        if dtype in SIXTEEN:
            x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
        else:
            x = np.concatenate([
                rng.integers(0, 1 << 32, PATTERNS, np.uint64).astype(np.uint32).view(np.float32),
                rng.standard_normal(ORDINARY, np.float32) * 4])
        x = x[::509] if small else x
        yield f"{op.name} of {type_of(x)}", *_pair(_unary(op, x), [x])


def _network(sample: Sample, small: bool) -> Row:
    """Forward and training, in graph mode and PyNative, against graph mode on the processor."""
    found: dict[str, list[Array]] = {}
    for target in ("CPU", "GPU"):
        ms.set_context(device_target=target)
        for mode, number in (("graph", ms.GRAPH_MODE), ("pynative", ms.PYNATIVE_MODE)):
            if small and target == "CPU" and mode == "pynative":
                continue
            ms.set_context(mode=number)
            found[f"{target} {mode}"] = _results(sample)
    want = found.pop("CPU graph")
    return _judged((what, got, want) for what, got in found.items())


def _checked(sample: Sample) -> Iterator[Comparison]:
    """A training step with a label out of range: what is said, and the parameters behind it and
    behind the next step."""
    for mode, number in (("graph", ms.GRAPH_MODE), ("pynative", ms.PYNATIVE_MODE)):
        found = []
        for target in ("CPU", "GPU"):
            ms.set_context(device_target=target, mode=number)
            found.append(_behind_a_failed_step(sample, target))
        yield mode, found[1], found[0]


def _behind_a_failed_step(sample: Sample, target: str) -> list[Array]:
    net = sample.make()
    step: Callable[..., Any] = sample.train_step(net)
    x, y = (t.move_to(target) for t in sample.batch())
    wrong = y.asnumpy().copy()
    wrong[-1] = 1000
    step(x, y)
    said = "nothing"
    try:
        step(x, ms.Tensor(wrong).move_to(target)).asnumpy()
    except IndexError as error:
        said = str(error)
    out = [np.frombuffer(said.encode(), np.uint8)]
    out += [p.asnumpy().copy() for p in net.get_parameters()]
    step(x, y)
    return [*out, *(p.asnumpy().copy() for p in net.get_parameters())]


def _results(sample: Sample) -> list[Array]:
    net = sample.make().set_train(False)
    out = [net(*sample.input()).asnumpy()]
    net = sample.make()
    step: Callable[..., Any] = sample.train_step(net)
    batch = sample.batch()
    out += [step(*batch).asnumpy() for _ in range(STEPS)]
    return [*out, *(p.asnumpy().copy() for p in net.get_parameters())]
