"""Expressions evaluated by cellc and by the oracle, brought to one comparable form.

This file is also run by the oracle's Python (with MindSpore), so it imports neither at the top.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

SETUP = """
x = Tensor(np.arange(6).reshape(2, 3).astype(np.float32))
z = Tensor(np.linspace(-2, 2, 6).reshape(2, 3).astype(np.float32))
i = Tensor([[3, 1, 2], [4, 4, 0]])
v = Tensor(np.array([3.0, -1.0, 2.0], np.float32))
c = Tensor(np.arange(24).reshape(2, 3, 4).astype(np.float32))
im = Tensor((np.arange(150) * 7 % 150).reshape(2, 3, 5, 5).astype(np.float32) / 50)
w = Tensor(np.arange(108).reshape(4, 3, 3, 3).astype(np.float32) / 100)
lab = Tensor([1, 0], ms.int32)
def written(t, key, value):
    t = t.copy()
    t[key] = value
    return t
"""


def plain(value: Any, tensor: type) -> Any:
    """JSON for a result: tensors as [dtype, shape, elements]."""
    if isinstance(value, tensor):
        a = value.asnumpy()
        kind = str(value.dtype)
        if a.dtype.kind == "V" or kind == "BFloat16":
            a = a.astype(np.float32)
        if a.dtype.kind == "c":
            a = np.stack([a.real, a.imag])
        return ["tensor", kind, list(value.shape), [_number(e) for e in a.ravel().tolist()]]
    if isinstance(value, np.ndarray):
        return ["array", str(value.dtype), list(value.shape), value.ravel().tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__ if type(value) in (list, tuple) else "tuple",
                *[plain(e, tensor) for e in value]]
    return _number(value) if isinstance(value, (int, float)) else str(value)


def _number(x: Any) -> Any:
    return repr(x) if isinstance(x, float) and not np.isfinite(x) else x


def evaluate(expressions: list[str], namespace: dict[str, Any]) -> list[Any]:
    """The result of each expression, or ["error", kind]."""
    out = []
    for e in expressions:
        exec(SETUP, namespace)
        try:
            out.append(plain(eval(e, namespace), namespace["Tensor"]))
        except Exception as error:
            out.append(["error", type(error).__name__, str(error)[:200]])
    return out


def main() -> None:
    """Evaluate the expressions on standard input with MindSpore."""
    import mindspore as ms
    from mindspore import Parameter, Tensor, ops

    expressions = json.load(sys.stdin)
    found = evaluate(expressions, {"ms": ms, "Tensor": Tensor, "Parameter": Parameter,
                                   "ops": ops, "np": np})
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
