"""Printed forms, to the character."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc.common.parameter import Parameter
from cellc.common.tensor import Tensor
from cellc_runtime import dtypes as dt

from ..others import mindspore

FORMS = [
    (Tensor(1), "1", "Tensor(shape=[], dtype=Int64, value= 1)"),
    (Tensor([1.5, -2]), "[ 1.5 -2. ]",
     "Tensor(shape=[2], dtype=Float32, value= [ 1.50000000e+00, -2.00000000e+00])"),
    (Tensor([[1, 20], [-300, 4]]), "[[   1   20]\n [-300    4]]",
     "Tensor(shape=[2, 2], dtype=Int64, value=\n[[   1,   20],\n [-300,    4]])"),
    (Tensor([True, False]), "[ True False]",
     "Tensor(shape=[2], dtype=Bool, value= [ True, False])"),
    (Tensor(np.zeros((2, 0), np.float32)), "[]", "Tensor(shape=[2, 0], dtype=Float32, value=\n)"),
    (Tensor([]), "[]", "Tensor(shape=[0], dtype=Float32, value= )"),
    (Tensor(123456.789, dt.float64), "123456.789",
     "Tensor(shape=[], dtype=Float64, value= 123457)"),
    (Tensor([float("nan"), float("inf")], dt.float16), "[nan inf]",
     "Tensor(shape=[2], dtype=Float16, value= [        nan,         inf])"),
    (Tensor([1.5, -2], dt.bfloat16), "[1.500000 -2.000000]",
     "Tensor(shape=[2], dtype=BFloat16, value= [1.5,  -2])"),
    (Tensor(np.array([1 + 2j, -1.5 - 0.5j])), "[ 1. +2.j  -1.5-0.5j]",
     "Tensor(shape=[2], dtype=Complex128, value= [1+2j, -1.5-0.5j])"),
    (Tensor(np.arange(14).reshape(2, 7)), "[[ 0  1  2  3  4  5  6]\n [ 7  8  9 10 11 12 13]]",
     "Tensor(shape=[2, 7], dtype=Int64, value=\n[[ 0,  1,  2 ...  4,  5,  6],\n"
     " [ 7,  8,  9 ... 11, 12, 13]])"),
]


@pytest.mark.parametrize(("x", "text", "shown"), FORMS, ids=[f[1] for f in FORMS])
def test_forms(x: Tensor, text: str, shown: str) -> None:
    assert str(x) == text
    assert repr(x) == shown


def test_parameter() -> None:
    p = Parameter(Tensor([1.0, 2.0]), name="w", requires_grad=False)
    want = "Parameter (name=w, shape=(2,), dtype=Float32, requires_grad=False)"
    assert str(p) == repr(p) == want


def test_many_forms_agree_with_the_oracle() -> None:
    program = """
import json, numpy as np
{imports}
r = np.random.RandomState(0)
cases = []
for d in ("int8", "int64", "float16", "float32", "float64", "bool", "complex64"):
    for s in ((), (3,), (12,), (13,), (24,), (1001,), (2, 6), (2, 7), (7, 7), (2, 3, 4), (8, 2, 9)):
        cases.append(np.asarray(r.randn(*s) * 50).astype(d))
print(json.dumps([[str(Tensor(a)), repr(Tensor(a))] for a in cases]))
"""
    want = mindspore(program.replace("{imports}", "from mindspore import Tensor"))
    found: list[Any] = []
    names = {"print": found.append}
    exec(program.replace("{imports}", "from cellc.common.tensor import Tensor"), names)
    import json

    assert json.loads(found[0]) == want


def test_element_types_are_printed_by_name() -> None:
    import cellc as ms

    assert (repr(ms.float32), str(ms.float32)) == ("mindspore.float32", "Float32")
    assert (repr(ms.bool_), str(ms.bool_)) == ("mindspore.bool", "Bool")
    assert f"{ms.bfloat16} {[ms.int8]}" == "BFloat16 [mindspore.int8]"
    assert repr([ms.number, ms.int_, ms.string, ms.tensor_type]) == \
        "[mindspore.number, mindspore.int, mindspore.string_, mindspore.tensor]"
