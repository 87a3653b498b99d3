"""Running one thing in both modes, and comparing to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import Tensor
from cellc.common.parameter import Parameter
from cellc.tracing.pytree import take_apart
from cellc_compiler.ir.op import Op, Sample, Spec
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

Array = np.ndarray[Any, Any]
MODES = (ms.PYNATIVE_MODE, ms.GRAPH_MODE)
ONCE = pytest.mark.parametrize("mode", ["both"])
"""For a test that sets the modes itself, in a module whose tests run in each."""


@contextmanager
def mode(value: int) -> Iterator[None]:
    """Within the block, calls run in this mode."""
    before = ms.get_context("mode")
    ms.set_context(mode=value)
    try:
        yield
    finally:
        ms.set_context(mode=before)


@contextmanager
def members_kept(*classes: type) -> Iterator[None]:
    """What the block sets in these classes, and takes out of them, is as before after it."""
    kept = {cls: dict(vars(cls)) for cls in classes}
    try:
        yield
    finally:
        for cls, members in kept.items():
            for name in vars(cls).keys() - members.keys():
                delattr(cls, name)
            for name, value in members.items():
                if vars(cls).get(name) is not value:
                    setattr(cls, name, value)


def bits(a: Array) -> bytes:
    """The bytes of an array; every NaN alike, since no operation can see its payload."""
    a = np.ascontiguousarray(a)
    if a.dtype.kind in "fc" or a.dtype == ml_dtypes.bfloat16:
        parts = a.reshape(-1).view(a.real.dtype) if a.dtype.kind == "c" else a
        return np.where(np.isnan(parts), np.asarray(np.nan, parts.dtype), parts).tobytes()
    return a.tobytes()


def assert_same(got: Sequence[Array], want: Sequence[Array], what: object = "") -> None:
    """Equal types, shapes and bits, array by array."""
    assert len(got) == len(want), what
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), (str(what), i)
        if bits(a) != bits(b):
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            with np.errstate(all="ignore"):
                worst = np.nanmax(np.abs(a.astype(wide) - b.astype(wide)))
            raise AssertionError(f"{what}: result {i} differs, by {worst:g} at most")


def arrays_of(result: Any) -> list[Array]:
    """The arrays of a result's tensors, copied."""
    return [np.array(t._data) for t in take_apart(result)[1]]


def in_both_modes(
    make: Callable[[], Callable[..., Any]], *args: Any, calls: int = 1, seed: int = 3
) -> list[list[Array]]:
    """What `make()(*args)` gives in PyNative and in graph mode, each from the same seed.

    `make` builds the network (or function) anew for each mode; results of all calls and the
    parameters afterwards are compared by the caller.
    """
    out = []
    for m in MODES:
        with mode(m):
            ms.set_seed(seed)
            fn = make()
            results: list[Array] = []
            for _ in range(calls):
                results += arrays_of(fn(*args))
            if hasattr(fn, "get_parameters"):
                results += [np.array(p._data) for p in fn.get_parameters()]
            results.append(np.array(ms.default_generator().state._data))
            out.append(results)
    return out


def law(make: Callable[[], Callable[..., Any]], *args: Any, calls: int = 1) -> list[Array]:
    """Assert that both modes give the same bits; the results."""
    eager, graph = in_both_modes(make, *args, calls=calls)
    assert_same(graph, eager, make)
    return graph


def tensor(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0,
           dtype: Any = np.float32) -> Tensor:
    """A tensor of uniform numbers, the same for the same arguments."""
    rng = np.random.default_rng([seed, *shape])
    return Tensor(np.asarray(rng.uniform(low, high, shape)).astype(dtype))


def parameter(*shape: int, name: str, seed: int = 0) -> Parameter:
    """A parameter of uniform numbers."""
    return Parameter(tensor(*shape, seed=seed, low=-1.0, high=1.0), name=name)


# --- samples of ops ------------------------------------------------------------------------------


def draw(spec: Spec | Array, dtype: DType, rng: np.random.Generator) -> Array:
    """An operand of a sample; exact arrays stay as they are."""
    if not isinstance(spec, Spec):
        return np.array(spec)
    kind = spec.dtype or dtype
    if kind.kind == "bool":
        return np.asarray(rng.integers(0, 2, spec.shape), np.bool_)
    if kind.is_integer:
        low = int(np.ceil(max(spec.low, 0) if kind.kind == "uint" else spec.low))
        high = max(int(np.ceil(spec.high)), low + 1)
        return np.asarray(rng.integers(low, high, spec.shape), kind.numpy)
    a = np.asarray(rng.uniform(spec.low, spec.high, spec.shape))
    if kind.is_complex:
        a = a + 1j * rng.uniform(spec.low, spec.high, spec.shape)
    return np.asarray(a, kind.numpy)


def operands(op: Op, sample: Sample, dtype: DType) -> list[Array]:
    """The arrays of a sample, the same every time."""
    rng = np.random.default_rng(sum(op.name.encode()))
    return [draw(s, dtype, rng) for s in sample.operands]


def dtype_of(a: Array) -> DType:
    """The element type of an array."""
    return dtypes.from_numpy(a.dtype)


def type_of(a: Array) -> TensorType:
    """The tensor type of an array."""
    return TensorType(a.shape, dtype_of(a))
