"""Messages about sizes that contradict each other: both sizes, and where they come from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import cellc as ms
from cellc import Tensor, nn, ops

from .networks import floats, open_tensor

pytestmark = pytest.mark.usefixtures("graph_mode")


class Rows(nn.Cell):
    """Adds rows cut two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(floats(5, 4), name="w")

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        h = x.reshape(-1, 4)
        if y.shape[1] == 4:
            rest = y[1:]
            return h + rest
        return ops.matmul(h, self.w)


@ms.jit(input_signature=(open_tensor(None, 3), open_tensor(None, 3)))
def added(x: Tensor, y: Tensor) -> Tensor:
    return x + y


@ms.jit(input_signature=(open_tensor(None, None), open_tensor(None, None)))
def joined(x: Tensor, y: Tensor) -> Tensor:
    twice = ops.concat([x, x], 0)
    return ops.concat([twice, y], 1)


@ms.jit(input_signature=(open_tensor(None, None),))
def regrouped(x: Tensor) -> Tensor:
    return x.reshape(4, -1)


def rows(*y: int) -> Tensor:
    net = Rows()
    net.set_inputs(open_tensor(None, 8), open_tensor(None, None))
    return net(floats(2, 8), floats(*y))


CASES: dict[str, Callable[[], Tensor]] = {
    "sum_of_cut_rows": lambda: rows(3, 4),
    "product_with_a_parameter": lambda: rows(3, 5),
    "sum_of_arguments": lambda: added(floats(2, 3), floats(4, 3)),
    "join_of_doubled_rows": lambda: joined(floats(2, 3), floats(5, 3)),
    "reshape_that_does_not_divide": lambda: regrouped(floats(3, 5)),
    "call_that_contradicts_set_inputs": lambda: added(floats(2, 3), floats(2, 5)),
}
GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    with pytest.raises(ValueError, match=r"axis|shape|dimensions") as caught:
        CASES[name]()
    text = str(caught.value).replace(str(Path(__file__).parent) + "/", "") + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("CELLC_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
