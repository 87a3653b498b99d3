"""Every registered op: its samples as ONNX models, run by ONNX Runtime, against the reference.

And which ops have a rule, are expanded into others, or are refused: the last may only shrink.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, all_ops, lookup
from cellc_compiler.ir.types import TensorType
from cellc_compiler.onnx_export import REFUSED, RULES, ExportError, to_model
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..ops.test_matrix import Case, make
from .peer import Peer

# May only shrink: give the op a rule instead.
KNOWN_REFUSED = {
    # ONNX has no such function
    "digamma", "erfinv", "lgamma", "trigamma",
    # no view of bits, no complex arithmetic
    "angle", "bitcast", "conj", "imag", "make_complex", "real",
    # draws
    "random_bernoulli", "random_bits", "random_exponential", "random_int", "random_normal",
    "random_permutation", "random_truncated_normal", "random_uniform",
    # Python, and users' own code
    "custom_kernel", "host_call",
    # several processes
    "all_gather", "all_reduce", "all_to_all", "all_to_all_v", "any_order_all_reduce",
    "any_order_reduce_scatter", "broadcast_from", "gather_to", "lay_out",
    "receive_from", "reduce_scatter", "reduce_to", "scatter_from", "send_to",
    # gradients
    "adaptive_avg_pool2d_backward", "adaptive_max_pool2d_backward", "avg_pool2d_backward",
    "conv2d_backward_weight", "max_pool2d_backward",
    # made by passes alone
    "avg_pool2d_blocked", "conv2d_blocked", "from_blocked", "max_pool2d_blocked",
    "pixel_sum_blocked", "regroup_blocked", "small_conv2d_blocked", "to_blocked",
    "winograd_input", "winograd_output",
}
# Positions outside of the axis: cellc reads zero and skips, ONNX calls it an error.
OUTSIDE = {"gather": (4,), "gather_elements": (2,), "gather_nd": (2,), "scatter": (3, 4),
           "scatter_lines": (2, 3), "scatter_nd": (2,)}
# ONNX Runtime: Scan over no rows, a mean of none, a Reshape from a size of 0 that it refuses.
NOT_RUN = {"cumprod": (5,), "logcumsumexp": (3,), "linear_recurrence": (3,), "batch_norm": (3,),
           "reduce_mean": (6,), "repeat": (2,)}
TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1}


def test_every_op_has_a_rule_an_expansion_or_a_reason() -> None:
    for op in all_ops():
        known = (op.name in RULES) + (op.name in REFUSED)
        assert known == 1 or (known == 0 and (op.expand or op.composition)), op.name


def test_the_refused_ops_may_only_shrink() -> None:
    assert set(REFUSED) == KNOWN_REFUSED
    for name in (*RULES, *REFUSED):
        lookup(name)


def bridged(case: Case) -> Graph:
    """The op between float32 arguments and results where numpy has no such type."""
    graph = Graph(case.op.name)
    values = []
    b = Builder(graph)
    for i, a in enumerate(case.arrays):
        ty = dtypes.from_numpy(a.dtype)
        outer = dtypes.float32 if ty is dtypes.bfloat16 else ty
        v = graph.add_input(_type(a, outer), f"x{i}")
        values.append(v if outer is ty else b.cast(v, dtype=ty))
    for r in b.node(case.op.name, values, case.attrs).results:
        wide = r.dtype is dtypes.bfloat16
        graph.outputs.append(b.cast(r, dtype=dtypes.float32) if wide else r)
    return graph


def _type(a: np.ndarray[Any, Any], dtype: DType) -> TensorType:
    return TensorType(a.shape, dtype)


def cases(op: Op, dtype: DType) -> Iterator[tuple[Case, Graph]]:
    """Samples of an op that this dtype goes with."""
    left = (*OUTSIDE.get(op.name, ()), *NOT_RUN.get(op.name, ()))
    for k, sample in enumerate(op.samples()):
        if k in left:
            continue
        case = make(op, sample, dtype)
        try:
            graph = bridged(case)
        except (TypeError, ValueError):
            continue  # a sample with operands of other types
        if not any(v.dtype.is_complex for v in graph.outputs):
            yield case, graph


def check(peer: Peer, folder: Path, op: Op, dtype: DType, opset: int) -> None:
    """Export and compare each sample.

    (The reference of `floor_div` rounds quotients of half floats first; what is compiled does not.)
    """
    tolerance = TOLERANCE.get(dtype.name, 1e-4)
    for case, graph in cases(op, dtype):
        if op.name == "dropout" and case.attrs.get("p", 0.5) not in (0, 1):
            continue
        path = folder / "model.onnx"
        names = [f"y{i}" for i in range(len(graph.outputs))]
        to_model(graph, {}, names, opset).save(path)
        arrays = [a.astype(v.dtype.numpy) for a, v in zip(case.arrays, graph.inputs, strict=True)]
        with np.errstate(all="ignore"):
            want = compile_graph(graph)(arrays) if op.name == "floor_div" else run(graph, arrays)
        got = peer.run(path, arrays)
        for a, b in zip(want, got, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), case
            wide: Any = np.float64
            np.testing.assert_allclose(b.astype(wide), a.astype(wide), tolerance, tolerance,
                                       err_msg=str(case))


EXPORTED = [op for op in all_ops() if op.name not in REFUSED]


@pytest.mark.parametrize("op", EXPORTED, ids=lambda op: op.name)
def test_samples(op: Op, peer: Peer, tmp_path: Path) -> None:
    for dtype in (dtypes.float32, dtypes.int32, dtypes.bool_):
        if dtype in op.dtypes:
            check(peer, tmp_path, op, dtype, 20)


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("op", EXPORTED, ids=lambda op: op.name)
def test_other_op_sets(op: Op, opset: int, peer: Peer, tmp_path: Path) -> None:
    try:
        check(peer, tmp_path, op, op.dtypes[0] if dtypes.float32 not in op.dtypes
              else dtypes.float32, opset)
    except ExportError as e:
        assert opset == 17 and "op set" in str(e)


NARROW = [dtypes.int8, dtypes.uint32, dtypes.float16, dtypes.bfloat16]


@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.name)
@pytest.mark.parametrize("op", EXPORTED, ids=lambda op: op.name)
def test_other_types(op: Op, dtype: DType, peer: Peer, tmp_path: Path) -> None:
    if dtype in op.dtypes:
        check(peer, tmp_path, op, dtype, 20)


@pytest.mark.parametrize("op", [lookup(n) for n in sorted(REFUSED) if lookup(n).samples()],
                         ids=lambda op: op.name)
def test_refused(op: Op) -> None:
    graph = make(op, op.samples()[0], op.dtypes[-1]).graph()
    with pytest.raises(ExportError, match=f"the op {op.name} cannot be exported to ONNX: "):
        to_model(graph, {}, ["y"] * len(graph.outputs), 20)
