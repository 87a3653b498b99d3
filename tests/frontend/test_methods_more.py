"""Tensor methods with two sets of arguments, compositions and bookkeeping, in both modes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor

A = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], np.float32)
ROWS = Tensor([0, 1, 1])
COLUMNS = Tensor([1, 0, 0])


def _put(a: np.ndarray[Any, Any], add: bool) -> np.ndarray[Any, Any]:
    out = a.copy()
    at = ([0, 1, 1], [1, 0, 0])
    if add:
        np.add.at(out, at, [5.0, 6.0, 7.0])
    else:
        out[at] = [5.0, 7.0, 7.0]
    return out


def _diagonal(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = a.copy()
    np.fill_diagonal(out, 9.0)
    return out


Case = tuple[Callable[[Tensor], Any], Callable[[np.ndarray[Any, Any]], Any]]
CASES: dict[str, Case] = {
    "add": (lambda x: x.add(x, alpha=3), lambda a: a + 3 * a),
    "sub": (lambda x: x.sub(x, alpha=3), lambda a: a - 3 * a),
    "remainder": (lambda x: x.remainder(divisor=2.0), lambda a: a % 2),
    "flatten": (lambda x: x.flatten(0, -1), lambda a: a.ravel()),
    "flatten_f": (lambda x: x.flatten("F"), lambda a: a.ravel("F")),
    "flatten_dims": (lambda x: x.flatten(start_dim=1), lambda a: a),
    "transpose": (lambda x: x.transpose(0, 1), lambda a: a.T),
    "transpose_dims": (lambda x: x.transpose(dim0=1, dim1=0), lambda a: a.T),
    "transpose_axes": (lambda x: x.transpose((0, 1)), lambda a: a),
    "chunk": (lambda x: x.chunk(3, dim=1)[2], lambda a: a[:, 2:]),
    "cumsum": (lambda x: x.cumsum(dim=1), lambda a: np.cumsum(a, 1)),
    "count_nonzero": (lambda x: x.count_nonzero(dim=1), lambda a: np.count_nonzero(a, 1)),
    "median": (lambda x: x.median(dim=1, keepdim=True)[0], lambda a: np.median(a, 1)[:, None]),
    "sort": (lambda x: x.sort(dim=1)[0], lambda a: np.sort(a, 1)),
    "repeat": (lambda x: x.repeat(repeats=(2, 1)), lambda a: np.tile(a, (2, 1))),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1, output_size=6),
                          lambda a: np.repeat(a, 2, 1)),
    "scatter": (lambda x: x.scatter(dim=1, index=Tensor([[2], [0]]), src=Tensor([[8.0], [9.0]])),
                lambda a: np.array([[3, 1, 8], [9, 5, 4]])),
    "argmax_with_value": (lambda x: x.argmax_with_value(1)[0], lambda a: a.max(1)),
    "argmin_with_value": (lambda x: x.argmin_with_value(1)[1], lambda a: a.argmin(1)),
    "ptp": (lambda x: x.ptp(axis=0), lambda a: np.ptp(a, 0)),
    "fill_diagonal": (lambda x: x.fill_diagonal(9.0), _diagonal),
    "index_put": (lambda x: x.index_put((ROWS, COLUMNS), Tensor([5.0, 7.0, 7.0])),
                  lambda a: _put(a, False)),
    "index_put_add": (lambda x: x.index_put((ROWS, COLUMNS), Tensor([5.0, 6.0, 7.0]), True),
                      lambda a: _put(a, True)),
    "masked_scatter": (lambda x: x.masked_scatter(x > 2, Tensor([7.0, 8.0, 9.0])),
                       lambda a: np.array([[7, 1, 2], [0, 8, 9]])),
    "resize_more": (lambda x: x.resize(2, 4), lambda a: np.append(a, [0, 0]).reshape(2, 4)),
    "resize_less": (lambda x: x.resize(2, 2), lambda a: a.ravel()[:4].reshape(2, 2)),
    "sum_to_size": (lambda x: x.sum_to_size(1, 3), lambda a: a.sum(0, keepdims=True)),
    "choose": (lambda x: x.astype(ms.int32).choose([[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
               lambda a: np.array([[7, 5, 9], [1, 8, 9]])),
    "gather_batch": (lambda x: x.gather(Tensor([2, 0]), 1, 1), lambda a: np.array([2.0, 0.0])),
    "itemset": (lambda x: x.itemset(4, 7), lambda a: np.array([[3, 1, 2], [0, 7, 4]])),
}


@pytest.mark.parametrize("name", CASES)
def test_method(name: str) -> None:
    method, reference = CASES[name]
    x = Tensor(A)
    eager, graph = method(x), ms.jit(method)(x)
    assert np.array_equal(eager.asnumpy(), reference(A)), eager
    assert eager.dtype is graph.dtype and np.array_equal(eager.asnumpy(), graph.asnumpy())
    assert np.array_equal(x.asnumpy(), A)


def test_fill_diagonal_takes_a_number() -> None:
    with pytest.raises(TypeError, match="'fill_diagonal', 'fill_value' must be a number, but got"):
        Tensor(A).fill_diagonal(Tensor(A))


def test_in_place() -> None:
    x = Tensor(A)
    buffer = x.asnumpy()
    assert x.index_put_((ROWS, COLUMNS), Tensor([5.0, 6.0, 7.0]), True) is x
    assert x.asnumpy() is buffer and np.array_equal(buffer, _put(A, True))
    assert np.array_equal(x.fill_diagonal_(0.5).asnumpy()[[0, 1], [0, 1]], [0.5, 0.5])
    assert x.put_(Tensor([0, 5]), Tensor([1.0, 2.0])).asnumpy()[[0, 1], [0, 2]].tolist() == [1, 2]
    assert x.index_copy_(1, Tensor([2]), Tensor([[4.0], [4.0]]))[:, 2].tolist() == [4, 4]


def test_random_values_are_in_range() -> None:
    ms.set_seed(1)
    x = ms.ops.zeros((2000,), ms.float32)
    u = x.uniform(2.0, 3.0).asnumpy()
    assert u.min() >= 2 and u.max() < 3 and abs(u.mean() - 2.5) < 0.05
    assert abs(x.exponential_(2.0).asnumpy().mean() - 0.5) < 0.06 and x.asnumpy().min() >= 0
    assert abs(x.normal_(3.0, 0.5).asnumpy().mean() - 3) < 0.1
    assert abs(np.median(x.cauchy(1.0, 2.0).asnumpy()) - 1) < 0.3
    assert abs(np.median(np.log(x.log_normal(1.0, 2.0).asnumpy())) - 1) < 0.3
    drawn = Tensor(np.zeros(200, np.int8)).random_(3, 6)
    assert drawn.dtype is ms.int8 and set(drawn.tolist()) == {3, 4, 5}


def test_bookkeeping() -> None:
    x = Tensor([1, 2, 3], ms.int16)
    again = Tensor.convert_bytes_to_tensor(x.get_bytes(), x.shape, x.dtype)
    assert again.tolist() == [1, 2, 3] and again.dtype is ms.int16
    assert np.shares_memory(x.value().asnumpy(), x.asnumpy())
    assert np.shares_memory(x.data.asnumpy(), x.asnumpy())
    assert x.data_ptr() == x.asnumpy().ctypes.data and x.storage_offset() == 0
    x.set_dtype(ms.float32)
    assert x.dtype is ms.float32 and x.tolist() == [1, 2, 3]
    assert x.assign_value(Tensor([[1]])) is x and x.shape == (1, 1)
    assert Tensor([1.0]).allclose(Tensor([1.0])) is True
    assert (ms.bool, ms.int, ms.float) == (ms.bool_, ms.int32, ms.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [(lambda x: x.cumsum(axis=0, dim=1), TypeError,
      "cumsum() got one argument under two names: ['axis', 'dim']"),
     (lambda x: x.min(None, False, None), TypeError,
      "min() takes at most 2 positional arguments, 'dim' and 'keepdim', but got 3"),
     (lambda x: x.sum_to_size(2, 2), ValueError,
      "operands of shapes (2, 3) and (2, 2) cannot be broadcast"),
     (lambda x: x.masked_scatter(x, x), TypeError,
      "mask must be of bool and 'tensor' of the input's type, but got Float32 and Float32"),
     (lambda x: x.move_to("GPU"), ValueError, "For 'move_to', 'to' must be 'CPU', but got 'GPU'"),
     (lambda x: x.choose([[1, 2, 3]], "no"), ValueError,
      "For 'choose', 'mode' must be 'clip' or 'wrap', but got 'no'"),
     (lambda x: x.repeat_interleave(2, 1, output_size=5), ValueError,
      "For 'repeat_interleave', 'output_size' is 5, but the result has 6 elements along the axis")],
)
def test_wrong_arguments(call: Callable[[Tensor], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call(Tensor(A))
