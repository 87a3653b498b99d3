"""Construction, properties, conversion and identity of Tensor and Parameter."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from cellc.common.parameter import Parameter, ParameterTuple
from cellc.common.tensor import Tensor
from cellc.tensors.seed import get_seed, next_key, set_seed
from cellc_runtime import dtypes as dt


@pytest.mark.parametrize(("data", "dtype", "shape"), [
    (1, dt.int64, ()), (1.5, dt.float32, ()), (True, dt.bool_, ()), ([1, 2.5], dt.float32, (2,)),
    ([[1, 2], [3, 4]], dt.int64, (2, 2)), (np.float64(1.5), dt.float64, ()), ([], dt.float32, (0,)),
    (np.arange(3, dtype=np.int16), dt.int16, (3,)), (np.zeros((0, 3)), dt.float64, (0, 3)),
    ([np.array([1.0]), np.array([2.0])], dt.float32, (2, 1)), (1j, dt.complex128, ()),
])
def test_element_type_of_data(data: Any, dtype: dt.DType, shape: tuple[int, ...]) -> None:
    x = Tensor(data)
    assert (x.dtype, x.shape) == (dtype, shape)


@pytest.mark.parametrize("data", ["abc", ["a"], None, {"a": 1}, [[1, 2], [3]], range(3), [None]])
def test_data_that_is_no_tensor(data: Any) -> None:
    with pytest.raises(TypeError, match="Tensor"):
        Tensor(data)


def test_dtype_and_shape_errors() -> None:
    with pytest.raises(TypeError, match="dtype"):
        Tensor([1], dtype="float32")
    with pytest.raises(ValueError, match="shape"):
        Tensor(1, shape=(1,))


def test_arrays_are_copied_to_native_contiguous() -> None:
    source = np.arange(12, dtype=">f4").reshape(3, 4)[::2, ::-1]
    source.flags.writeable = False
    x = Tensor(source)
    a = x.asnumpy()
    assert a.flags.c_contiguous and a.flags.writeable and a.dtype == np.dtype("=f4")
    assert np.array_equal(a, source)
    a[0, 0] = 9
    assert x[0, 0].item() == 9


def test_python_values() -> None:
    assert int(Tensor([3])) == 3 and float(Tensor(2)) == 2.0 and bool(Tensor([0.0])) is False
    assert len(Tensor([1, 2])) == 2 and [int(t) for t in Tensor([1, 2])] == [1, 2]
    assert 1 in Tensor([1, 2]) and [10, 20][Tensor(1)] == 20
    assert (Tensor(1) == None) is False and (Tensor(1) != "a") is True  # noqa: E711
    with pytest.raises(ValueError, match="only one element"):
        bool(Tensor([1, 2]))
    with pytest.raises(TypeError, match="0-D"):
        len(Tensor(1))


def test_numpy_arrays_and_scalars_on_the_left() -> None:
    assert isinstance(np.array([1, 2]) + Tensor([1, 2]), np.ndarray)
    assert isinstance(np.float32(2) * Tensor([1.0]), Tensor)
    with pytest.raises(TypeError, match="does not combine with a numpy array"):
        Tensor([1, 2]) + np.array([1, 2])


def test_identity_and_copies() -> None:
    x = Tensor([1.0, 2.0])
    assert hash(x) == hash(x) and len({x: 1, Tensor([1.0, 2.0]): 2}) == 2
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy()):
        assert y is not x and y.tolist() == x.tolist() and not np.shares_memory(y._data, x._data)
    y = x
    y += 1
    assert x.tolist() == [1.0, 2.0]


def test_parameter_keeps_its_buffer() -> None:
    p = Parameter(Tensor([1.0, 2.0]), name="w")
    buffer = p.asnumpy()
    p.set_data(Tensor([3, 4]))
    p[0] = 9
    assert np.shares_memory(p.asnumpy(), buffer) and p.dtype is dt.float32
    assert buffer.tolist() == [9.0, 4.0]
    assert buffer.ctypes.data % 64 == 0
    p.set_data(Tensor([1.0, 2.0, 3.0]))
    assert p.shape == (3,)


def test_places_of_parameters() -> None:
    """MindSpore's "Remote" is no device; an unknown one is an error."""
    assert [str(Parameter(1.0, device=d).device) for d in ("CPU", "Remote", None)] == ["CPU"] * 3
    with pytest.raises(ValueError, match=r"a device is 'CPU'.* but got 'nowhere'"):
        Parameter(1.0, device="nowhere")


def test_parameter_errors() -> None:
    with pytest.raises(ValueError, match="bool"):
        Parameter(True)
    with pytest.raises(ValueError, match="string"):
        Parameter(1.0, name=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="requires_grad"):
        Parameter(1.0, requires_grad=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="default_input"):
        Parameter((1, 2))


def test_parameter_tuple() -> None:
    p, q = Parameter(Tensor([1.0]), "a"), Parameter(Tensor([2.0]), "b")
    clones = ParameterTuple([p, q]).clone("pre", "zeros")
    assert [c.name for c in clones] == ["pre.a", "pre.b"] and clones[1].tolist() == [0.0]
    with pytest.raises(ValueError, match="already exists"):
        ParameterTuple([p, Parameter(Tensor([1.0]), "a")])
    restored = pickle.loads(pickle.dumps(p))
    assert restored.name == "a" and isinstance(copy.deepcopy(p), Parameter)


def test_seed() -> None:
    set_seed(5)
    assert get_seed() == 5
    assert [next_key().tolist() for _ in range(2)] == [[5, 0], [5, 1]]
    with pytest.raises(TypeError, match="int"):
        set_seed(1.5)  # type: ignore[arg-type]
