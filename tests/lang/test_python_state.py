"""Python state in compiled networks: outputs and state after each call are PyNative's, or an
error says what to do. None differs silently."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn

from . import object_programs as object_programs  # its programs, too
from .state_programs import PROGRAMS, Made, Program
from .tensor_programs import WRITES, written

SUMS = (3.0, 1.0, 6.0, 2.0, 5.0, 3.0)


def _plain(value: Any) -> Any:
    """A value that can be compared: tensors and arrays as their types and elements."""
    if isinstance(value, Tensor):
        return "Tensor", str(value.dtype), _plain(value.asnumpy())
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value), [(k, _plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value), [_plain(v) for v in value]
    if isinstance(value, set):
        return sorted(map(repr, value))
    return type(value), repr(value)


def _runs(make: Callable[[], Made], mode: int) -> list[Any]:
    ms.set_context(mode=mode)
    call, state = make()
    found = []
    for total in SUMS:
        x = Tensor(np.array([total / 2, total / 2], np.float32))
        try:
            out = call(x)
        except (ValueError, AssertionError) as e:
            if getattr(e, "code", None) is not None:
                raise
            out = next(c.__name__ for c in (ValueError, AssertionError) if isinstance(e, c))
        found.append((_plain(out), _plain(state())))
    return found


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)


def plain_function(make: Callable[[], Made], patch: pytest.MonkeyPatch) -> list[Any]:
    """The runs in PyNative mode; what `jit` decorates is run by Python."""
    with patch.context() as m:
        m.setattr(ms, "jit", lambda fn: fn)
        return _runs(make, ms.PYNATIVE_MODE)


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
def test_modes_agree(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    if program.code:
        ms.set_context(mode=ms.GRAPH_MODE)
        call, state = program.make()
        before = _plain(state())
        text = rf"\[{program.code}\](.|\n)*line \d+(.|\n)*hint: "
        with pytest.raises(Exception, match=text) as e:
            call(Tensor([1.0, 2.0]))
        assert e.value.code == program.code
        assert _plain(state()) == before
        return
    want = plain_function(program.make, monkeypatch)
    got = _runs(program.make, ms.GRAPH_MODE)
    for number, (a, b) in enumerate(zip(want, got, strict=True)):
        assert a == b, f"call {number}"


@pytest.mark.parametrize("size", [2, 100])
@pytest.mark.parametrize("name", WRITES)
def test_tensors_from_outside_are_written_in_place(name: str, size: int) -> None:
    want = _runs(lambda: written(name, size), ms.PYNATIVE_MODE)
    assert _runs(lambda: written(name, size), ms.GRAPH_MODE) == want


def test_a_buffer_has_its_name_and_leaves_artifacts_as_an_update(tmp_path: Path) -> None:
    net, _ = written("item", 2)
    net.compile(Tensor([1.0, 2.0]))
    file = str(tmp_path / "net")
    ms.export(net, Tensor([1.0, 2.0]), file_name=file, file_format="CIR")
    loaded = nn.GraphCell(ms.load(f"{file}.cir"))
    assert [loaded(Tensor([n, 1.0])).asnumpy().tolist() for n in (4.0, 5.0)] == [[4, 0], [5, 0]]
    assert [p.name for p in loaded.get_parameters()] == ["t"]


class _Box:
    last: Any = None


def test_the_gradient_of_what_an_inner_graph_left_in_an_attribute_is_an_error() -> None:
    """It is read back from Python, where nothing says what it follows from."""
    box = _Box()

    def inside(x: Tensor) -> Tensor:
        box.last = x * 2
        return (box.last * x).sum()

    class Outside(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return ms.grad(inside)(x) + box.last

    ms.set_context(mode=ms.GRAPH_MODE)
    net, x = Outside(), Tensor([1.0, 2.0])
    np.testing.assert_array_equal(net(x).asnumpy(), [6.0, 12.0])
    with pytest.raises(TypeError, match=r"'last' of _Box is not known .* at .*py:\d+"):
        ms.grad(net)(x)


def test_the_table_of_the_documentation_is_that_of_the_programs() -> None:
    page = (Path(__file__).parents[2] / "docs/architecture/testing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (exact|\[CE\d+\][^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    shown = {(name.strip(), "" if how == "exact" else how[1:6])
             for how, names in rows for name in names.split(",")}
    assert shown == {(p.name.replace("_", " "), p.code) for p in PROGRAMS}
