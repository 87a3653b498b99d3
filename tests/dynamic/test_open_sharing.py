"""Tensors of open sizes that share elements, changed in place: each sees the change, or the sizes
are compiled separately. The bits are PyNative's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.tensors import indexing

from .test_open_programs import floats
from .test_open_sizes import assert_same, eagerly, traces

pytestmark = pytest.mark.usefixtures("graph_mode")

SHAPES = [(2, 6, 8), (3, 7, 8), (2, 12, 8), (5, 31, 8), (2, 13, 8)]
TABLE = Tensor(floats(64, 8))


def table() -> Tensor:
    return TABLE * 2


def half_before_a_write(x: Tensor) -> Any:
    x = x * 1
    half = x[:, : x.shape[1] // 2]
    x[0, 0] = 3.0
    return half, x


def rows_before_a_write(x: Tensor) -> Any:
    t = table()
    rows = t[: x.shape[1]]
    t[0] = 5.0
    return t, rows


def rows_before_a_write_of_another_view(x: Tensor) -> Any:
    t = table()
    rows, others = t[: x.shape[1]], t[1:]
    others[0] = 5.0
    return t, rows


def rows_of_a_view_before_its_write(x: Tensor) -> Any:
    t = table()
    part = t[4:]
    rows = part[: x.shape[1]]
    part[1] = 3.0
    return t, rows


def rows_of_a_view_before_a_write_of_all(x: Tensor) -> Any:
    t = table()
    part = t[4:]
    rows = part[: x.shape[1]]
    t[5] = 3.0
    return part, rows


def rows_of_rows(x: Tensor) -> Any:
    t = table()
    rows = t[: x.shape[1]]
    first = rows[: x.shape[1] // 2]
    rows[1] = 3.0
    first[0] = 2.0
    return t, rows, first


def parts_that_are_updated(x: Tensor) -> Any:
    x = x * 1
    x[:, : x.shape[1] // 2] = 1.0
    x[:, x.shape[1] // 2 :] += 2.0
    x[:, -1] = x[:, 0]
    return x


def rows_that_are_updated(x: Tensor) -> Any:
    t = table()
    t[: x.shape[1]] += x[0]
    return t


ONE: list[Callable[[Tensor], Any]] = [
    half_before_a_write, rows_before_a_write, rows_before_a_write_of_another_view,
    rows_of_a_view_before_its_write, rows_of_a_view_before_a_write_of_all, rows_of_rows,
    parts_that_are_updated, rows_that_are_updated]


def same_bits(fn: Callable[[Tensor], Any]) -> list[Any]:
    """Call it at all shapes in both modes; the programs for all sizes."""
    compiled = ms.jit(lambda x: fn(x))
    for shape in SHAPES:
        x = Tensor(floats(*shape))
        assert_same(compiled(x), eagerly(fn, x))
    return [p for o in traces(compiled.table) for p in o.open]


@pytest.mark.parametrize("fn", ONE, ids=lambda fn: fn.__name__)
def test_one_program(fn: Callable[[Tensor], Any]) -> None:
    assert len(same_bits(fn)) == 1


def rows_of_a_view_that_is_gone(x: Tensor) -> Any:
    t = table()
    rows = t[4:][: x.shape[1]]
    t[5] = 3.0
    return t, rows


def repeated(x: Tensor) -> Any:
    t = table()
    rows = t[:1].broadcast_to((x.shape[1], 8))
    t[0] = 3.0
    return t, rows


def columns(x: Tensor) -> Any:
    x = x * 1
    turned = x.swapaxes(1, 2)
    x[:, 0] = 3.0
    return x, turned


@pytest.mark.parametrize("fn", [rows_of_a_view_that_is_gone, repeated, columns],
                         ids=lambda fn: fn.__name__)
def test_sizes_are_compiled_separately(fn: Callable[[Tensor], Any]) -> None:
    """What a change does to the other tensor is not known for all sizes."""
    assert not same_bits(fn)


@pytest.mark.parametrize("fn", [
    lambda x: TABLE[:1].broadcast_to((x.shape[0], x.shape[1], 8)) * x,
    lambda x: ops.split(TABLE[:32], [x.shape[1] - 1, 33 - x.shape[1]])[0] * 2,
], ids=["repeated", "split"])
def test_open_views_of_views_of_constants(fn: Callable[[Tensor], Any]) -> None:
    """Sizes of a view of a known tensor follow from open ones: the second call opens them."""
    assert len(same_bits(fn)) == 1
    ms.set_context(mode=ms.PYNATIVE_MODE)
    before = float(TABLE[0, 0])
    TABLE[0, 0] = before + 1.0
    assert float(TABLE[:1][0, 0]) == before + 1.0
    TABLE[0, 0] = before


# --- planted faults -------------------------------------------------------------------------------


def test_a_part_that_does_not_follow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "followers", lambda x, also: [])
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        same_bits(rows_before_a_write)
