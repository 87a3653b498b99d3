"""The rules against torch's own samples of its operators.

An operator's samples are traced, its rules are applied, and the reference interpreter runs the
graph. Where torch would run a part itself, nothing is compared: such operators are counted.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch's samples need it
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from cellc.core.dispatch import tracing
from cellc.torch_backend import decompositions
from cellc.torch_backend.network import missing, output_of, run
from cellc.torch_backend.program import array_over
from cellc.torch_backend.table import dtype_of
from cellc.tracing.tracer import Tracer
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.types import TensorType

_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
SAMPLES = 2
PARTS = 16
LEAST = 0.5
"""Share of torch's operators that are computed here, wholly, for at least one sample."""
RANDOM = ("bernoulli", "dropout", "rand", "normal", "multinomial", "exponential", "geometric",
          "cauchy", "uniform", "empty", "rrelu", "log_normal", "new_empty", "topk")
"""Names of operators whose results are draws, or not defined (ties of topk)."""


def computed(graph: Any, given: list[Any]) -> list[Any] | None:
    """The results of a traced graph by the rules; None if torch would run a part."""
    if missing(graph):
        return None
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    constants = [n for n in graph.nodes if n.op == "get_attr"]
    held = [*given, *(getattr(graph.owning_module, n.target) for n in constants)]
    tracer = Tracer("sample")
    with tracing(tracer):
        values = {n: tracer.input(TensorType(tuple(t.shape), dtype_of(t.dtype)), f"x{i}")
                  for i, (n, t) in enumerate(zip([*inputs, *constants], held, strict=True))}
        run(graph, values)
        found = output_of(graph).args[0]
        nodes = [n for n in pytree.tree_leaves(found) if hasattr(n, "meta")]
        if any(values[n] is None for n in nodes):
            return None
        ir = tracer.finish([values[n] for n in nodes])
    return list(interpret(ir, [array_over(t) for t in held]))


def compare(op: Any, dtype: Any) -> tuple[int, int, list[str]]:
    """How many samples agree, how many torch runs a part of, and what is wrong with the others."""
    agreed, left, wrong = 0, 0, []
    for k, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if k == SAMPLES:
            break
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]

        def call(*tensors: Any, leaves: Any = leaves, spec: Any = spec, places: Any = places
                 ) -> Any:
            new = list(leaves)
            for i, t in zip(places, tensors, strict=True):
                new[i] = t
            first, args, kwargs = pytree.tree_unflatten(new, spec)
            found = op(first, *args, **kwargs)
            return [t for t in pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]

        given, table = [leaves[i].detach().clone() for i in places], decompositions()
        try:
            wanted = call(*[t.clone() for t in given])
            traced = make_fx(call, decomposition_table=table, tracing_mode="fake")(
                *[t.clone() for t in given])
        except Exception:  # torch cannot trace it
            left += 1
            continue
        traced.graph.eliminate_dead_code()
        found = computed(traced.graph, given)
        if found is None:
            left += 1
            continue
        for a, b in zip(found, wanted, strict=True):
            array = array_over(b)
            exact = array.dtype.kind in "biu"
            if a.shape != array.shape or a.dtype != array.dtype or not np.allclose(
                    a, array, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-4,
                    equal_nan=True):
                wrong.append(f"{op.name} {dtype} sample {k}: {a!r:.60} instead of {array!r:.60}")
                break
        else:
            agreed += 1
    return agreed, left, wrong


def names() -> list[Any]:
    """The operators of torch that have samples."""
    return [op for op in op_db if not any(r in op.name for r in RANDOM)]


@pytest.mark.parametrize("part", range(PARTS))
def test_samples(part: int) -> None:
    """No rule gives another result than torch."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in names()[part::PARTS]:
            good = 0
            for dtype in _DTYPES:
                if dtype in op.dtypes:
                    agreed, _, bad = compare(op, dtype)
                    good, wrong = good + agreed, wrong + bad
            counts["computed" if good else "torch's"] += 1
    assert wrong == []
    assert counts["computed"] >= LEAST * counts.total(), counts
