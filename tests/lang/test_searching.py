"""Searches of lists, tuples and dicts, with values of the run, as MindSpore's graph mode has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellc import Tensor, jit, mutable

X, Y = Tensor([1, 2, 3]), Tensor([1, 2, 4])


def among_tensors(x: Any, y: Any) -> Any:
    return x in (y, y + 1), x in [y, x * 1], x not in (y, x + 0), (x in (x, "a"))


def among_others(x: Any, y: Any) -> Any:
    return (x in (1, "m", (1, 2), None, y), x in ((1, 1), np.array([1, 2, 3])),
            x in [Tensor([[1, 2, 3]]), x[:2]], 2 in (y, 2))


def counts(x: Any, y: Any) -> Any:
    return [x, y, x * 1, "a"].count(x), (y, y).count(x), (y, "a").count("a")


def places(x: Any, y: Any) -> Any:
    return [y, x * 1, x].index(x), (y, x).index(y * 1), ("a", x, 5).index(5)


def places_between(x: Any, y: Any) -> Any:
    return [x, y, x * 1, "a"].index(x, 1), (x, x + 0, y).index(x, -2, 2), [x, y].index(y, 0, 9)


@pytest.mark.parametrize(("search", "want"), [
    (among_tensors, (False, True, False, True)), (among_others, (False, True, False, True)),
    (counts, (2, 0, 1)), (places, (1, 0, 2)), (places_between, (2, 1, 1)),
])
def test_a_tensor_is_found_by_all_its_elements(
    search: Callable[..., Any], want: tuple[Any, ...]
) -> None:
    assert jit(search)(X, Y) == want


@pytest.mark.parametrize("n", [1, 3, 2])
def test_where_a_number_of_the_run_is(n: int) -> None:
    @jit
    def find(n: Any, box: Any) -> Any:
        return [3, 1, n, 2].index(n), box.index(n), (7, n).index(n)

    box = (2, 3, 1)
    assert find(mutable(n), mutable(box)) == ([3, 1, n, 2].index(n), box.index(n), 1)


def test_a_number_of_the_run_that_is_nowhere() -> None:
    find = jit(lambda n: (1, 2).index(n))
    assert find(mutable(2)) == 1
    with pytest.raises(ValueError, match=r"tuple.index\(x\): x not in tuple"):
        find(mutable(5))
    with pytest.raises(ValueError, match="not in"):
        jit(lambda x: [x + 1, "a"].index("b"))(X)


@pytest.mark.parametrize("box", [(10, 20, 30), [10.5, 20.5]])
def test_a_bool_of_the_run_is_an_index(box: Any) -> None:
    @jit
    def choose(n: Any, x: Any) -> Any:
        large = x.sum() > 100
        return box[n == 1], box[n == 2], (x, x + 1)[large], box[not large]

    got = choose(mutable(1), X)
    assert (got[0], got[1], got[3]) == (box[1], box[0], box[1]) and (got[2] == X).all()


HELD = {"a": 1}


def test_dicts_have_what_graph_mode_has_of_them() -> None:
    """`has_key`, and views that are indexed; an entry that is put in later is seen."""
    @jit
    def look(x: Any) -> Any:
        d = {"a": x, "b": 2}
        return (d.has_key("a"), d.has_key("c"), HELD.has_key("b"),  # type: ignore[attr-defined]
                d.keys()[0], d.values()[-1], d.items()[1], d.values()[:1][0] + 1)

    for known in (False, True):
        got = look(X)
        assert got[:6] == (True, False, known, "a", 2, ("b", 2)) and (got[6] == X + 1).all()
        HELD["b"] = 2
    del HELD["b"]
    with pytest.raises(IndexError, match="out of range"):
        jit(lambda x: {"a": x}.values()[1])(X)  # type: ignore[index]
    with pytest.raises(AttributeError, match="has_kez"):
        jit(lambda x: {"a": x}.has_kez("a"))(X)  # type: ignore[attr-defined]
