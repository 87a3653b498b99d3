"""Elements of tensors that decide the form of a result: graphs ask the run for them, or find sizes
from them. Each function is called with several elements in both modes, and again with the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc.numpy as mnp
from cellc import Tensor, mint, ops
from cellc.lang import CompileError, check_call
from cellc.tracing.tracer import Tracer
from cellc_compiler.ir.types import TensorType

MATRIX = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4) + 1)


def _bits(value: Any) -> Any:
    if isinstance(value, Tensor):
        array = value.asnumpy()
        return str(value.dtype), array.shape, array.tobytes()
    return [_bits(v) for v in value] if isinstance(value, (tuple, list)) else value


def _diagonals(k: Any) -> Any:
    return ops.matrix_diag_part(MATRIX, k, align="LEFT_RIGHT"), ops.matrix_set_diag(
        MATRIX, ops.matrix_diag_part(MATRIX, k) * 2, k)


def _segments(ids: Any) -> Any:
    rows = MATRIX[:, :2]
    return [getattr(ops, f"Segment{kind}")()(rows, ids) for kind in ("Sum", "Max", "Mean", "Prod")]


PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "diagonals": (_diagonals, [[-1, 1], [0, 2], [0, 0]]),
    "padding": (lambda n: ops.mirror_pad(MATRIX, n, "REFLECT"),
                [[[0, 1], [2, 1]], [[2, 0], [0, 3]]]),
    "shapes": (lambda n: (ops.zeros(n), ops.ones((n[0], 2)), n.sum() * 2),
               [[2, 3], [1, 0], [0, 4]]),
    "windows": (lambda n: ops.blackman_window(n), [5, 1, 8]),
    "segments": (_segments, [[0, 0, 2], [0, 1, 1], [1, 3, 4]]),
    "counts": (lambda x: (ops.bincount(x), mint.bincount(x, MATRIX[0, :3]), mnp.bincount(x),
                          ops.bincount(x, MATRIX[0, :3], 6)), [[1, 2, 2], [0, 0, 0], [4, 1, 7]]),
    "masks": (ops.sequence_mask, [[1, 3, 2], [0, 0, 0], [-2, 5, 1]]),
    "one hot": (mint.nn.functional.one_hot, [[0, 2, 1], [5, 0, 0]]),
    "ranges": (lambda d: ops.RaggedRange(ms.int64)(Tensor([0, 2]), Tensor([6, 8]), d),
               [[2, 3], [1, 4]]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_modes_agree(name: str) -> None:
    program, inputs = PROGRAMS[name]
    compiled = ms.jit(program)
    for given in (*inputs, inputs[0]):
        x = Tensor(np.array(given, np.int64))
        assert _bits(compiled(x)) == _bits(program(x))


def test_a_count_is_a_size_of_one_program() -> None:
    """What follows from the largest element needs no program of its own for each."""
    compiled = ms.jit(lambda x: ops.bincount(x) * 2)
    for most in (3, 5, 9):
        assert compiled(Tensor([0, most])).shape == (most + 1,)
    assert len(compiled.table.entries) == 1


def test_floats_are_asked_by_their_bits() -> None:
    def scaled(scale: Any) -> Any:
        return ops.ScaleAndTranslate("triangle", False)(
            ops.reshape(MATRIX, (1, 3, 4, 1)), Tensor([4, 6], ms.int32), scale,
            Tensor([0.0, 0.5], ms.float32))

    compiled = ms.jit(scaled)
    for given in ([1.5, 2.0], [0.25, 1.0]):
        scale = Tensor(np.array(given, np.float32))
        assert _bits(compiled(scale)) == _bits(scaled(scale))


def test_in_a_branch_of_the_run() -> None:
    def program(x: Any, k: Any) -> Any:
        if x.sum() > 100:
            return ops.matrix_diag_part(x, k) * 2
        return x[0, :3] * 1.0

    compiled = ms.jit(program)
    for factor in (1, 10):
        for k in (0, 1):
            given = MATRIX * factor, Tensor([k])
            assert _bits(compiled(*given)) == _bits(program(*given))


def test_gradients() -> None:
    def loss(x: Any, k: Any) -> Any:
        return (ops.matrix_diag_part(x, k) ** 2).sum()

    slope = ms.jit(lambda x, k: ms.grad(loss)(x, k))
    for k in ([0, 1], [-1, 0]):
        assert _bits(slope(MATRIX, Tensor(k))) == _bits(ms.grad(loss)(MATRIX, Tensor(k)))


@pytest.mark.parametrize(("program", "elements", "text"), [
    (lambda x: ops.bincount(x), [1, -1], "must not hold negative numbers"),
    (lambda x: ops.SegmentSum()(MATRIX[:2], x), [1, 0], "must ascend"),
    (lambda x: ops.SegmentSum()(MATRIX[:2], x), [-1, 0], "must ascend"),
])
def test_wrong_elements_are_errors(
    program: Callable[..., Any], elements: list[int], text: str
) -> None:
    x = Tensor(elements)
    with pytest.raises(ValueError, match=text):
        program(x)
    compiled = ms.jit(program)
    compiled(Tensor([0, 1]))
    with pytest.raises(ValueError, match=text):
        compiled(x)


def test_too_many_elements_are_an_error() -> None:
    with pytest.raises(CompileError, match="depends on the elements"):
        ms.jit(lambda s: ops.RaggedRange(ms.int64)(s, s + 1, s * 0 + 1))(
            Tensor(np.zeros(400, np.int64)))


def test_a_check_without_a_call_finds_no_error() -> None:
    tracer = Tracer("check")
    given = [tracer.input(TensorType((3, 4), ms.float32), "x"),
             tracer.input(TensorType((2,), ms.int64), "k")]
    assert check_call(tracer, lambda x, k: ops.matrix_diag_part(x, k) * 2, given) == []
