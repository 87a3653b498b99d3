"""Checkpoints of several ranks as those of others: against plain slices, and against MindSpore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellc.ranks import strategies
from cellc.ranks.layouts import PartLayout, assembled, sources
from cellc.ranks.strategies import Strategy
from cellc.train import transforming
from cellc.train.weights_file import read, write

from ..others import ORACLE, answer, needs_oracle, run

Array = np.ndarray[Any, Any]


def filled(shape: tuple[int, ...], start: int = 0) -> Array:
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


@st.composite
def layouts(draw: Any, axes: int) -> PartLayout:
    """A layout of a tensor whose axes are multiples of 8 and 27."""
    devices = tuple(draw(st.lists(st.sampled_from([1, 2, 2, 3]), min_size=1, max_size=3)))
    free = list(range(len(devices)))
    cuts = []
    for _ in range(axes):
        axis = draw(st.sampled_from([-1, *free]))
        cuts.append(() if axis == -1 else (axis,))
        free = [a for a in free if a != axis]
    rest = [devices[-1 - a] for a in free]
    size = int(np.prod(rest)) if rest and draw(st.booleans()) else 0
    return PartLayout(devices, tuple(cuts), size if size > 1 else 0)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), axes=st.integers(1, 2))
def test_any_layout_becomes_any_other(data: Any, axes: int) -> None:
    have, want = data.draw(layouts(axes)), data.draw(layouts(axes))
    whole = filled((216, 216)[:axes])
    parts = {r: whole[have.box(r, whole.shape)] for r in range(have.count)}
    assert have.whole(parts[0].shape) == whole.shape
    for rank in range(want.count):
        needed = sources(rank, have, want, whole.shape)
        got = assembled(rank, have, want, {r: parts[r] for r in needed}, "w")
        assert np.array_equal(got, whole[want.box(rank, whole.shape)])
    boxes = {str(have.box(r, whole.shape)) for r in range(have.count)}
    assert len(boxes) == np.prod(have.parts())  # parts do not overlap: together they are all


def test_a_part_that_is_missing_is_named() -> None:
    have, whole = PartLayout((4,), ((0,),)), filled((8,))
    parts = {r: whole[2 * r : 2 * r + 2] for r in (0, 1, 3)}
    with pytest.raises(ValueError, match=r"w: the part of rank 2 is missing; there are .*0, 1, 3"):
        assembled(0, have, PartLayout((1,), ((),)), parts, "w")
    with pytest.raises(ValueError, match=r"w: the part of rank 2 should have the shape \(2,\)"):
        assembled(0, have, PartLayout((1,), ((),)), parts | {2: whole[:3]}, "w")
    with pytest.raises(ValueError, match="its axis 0 of 7 cannot be cut into 4 parts"):
        have.box(0, (7,), "w")


CASES: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    # devices, tensor map and size of the optimizer's shards: before, after
    ({"w": ([4], [0, -1], 0)}, None),
    ({"w": ([4], [-1, -1], 4)}, None),
    ({"w": ([2, 2], [1, 0], 0)}, {"w": ([4], [-1, 0], 0)}),
    ({"w": ([2, 2], [0, -1], 0)}, {"w": ([2], [0, -1], 0)}),
    ({"w": ([2, 2], [0, -1], 2)}, {"w": ([2, 4], [-1, 0], 2)}),
    ({"w": ([2, 2, 2], [0, 2], 2)}, {"w": ([2], [-1, -1], 2)}),
    ({"w": ([4, 2], [-1, 0], 4)}, {"w": ([2, 2], [1, 0], 0)}),
    ({"w": ([2], [0, -1], 0)}, {"w": ([4], [0, -1], 0)}),
    (None, {"w": ([2, 2], [1, 0], 0)}),  # type: ignore[list-item]
]


def strategy(layout: dict[str, Any]) -> Strategy:
    out = Strategy(ops={"MatMul-op0": (0, [[1, 1], [1, 1]])})
    for name, (devices, cuts, size) in layout.items():
        own = PartLayout(tuple(devices), tuple((c,) if c != -1 else () for c in cuts), size)
        out.layouts |= strategies.made_of({name: own}).layouts
    return out


def written(folder: Path, before: Any, after: Any, format: str = "ckpt") -> tuple[Any, Any, int]:
    """Checkpoints by `before`, and the strategy files; the number of ranks after."""
    whole = {"w": filled((48, 16)), "rate": np.float32([0.5])}
    count = 1
    if before is not None:
        strategies.write(str(folder / "src.ckpt"), strategy(before))
        layout = strategy(before).layouts["w"].part_layout()
        count = layout.count
    for rank in range(count):
        own = dict(whole)
        if before is not None:
            own["w"] = whole["w"][layout.box(rank, (48, 16))]
        (folder / "in" / f"rank_{rank}").mkdir(parents=True)
        write(str(folder / "in" / f"rank_{rank}" / f"net-1_2.{format}"), own, format)
    if after is not None:
        strategies.write(str(folder / "dst.ckpt"), strategy(after))
    return ("src.ckpt" if before else None), ("dst.ckpt" if after else None), \
        int(np.prod(after["w"][0])) if after else 1


ASK = """
import json, os, sys
import mindspore as ms
out = []
for folder, src, dst, count in json.load(sys.stdin):
    os.chdir(folder)
    ms.transform_checkpoints("in", "theirs", "new", src, dst)
    out.append([[int(i) for i in ms.rank_list_for_transform(r, src, dst)] for r in range(count)])
print(json.dumps(out))
"""


def ours(folder: Path, src: Any, dst: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    transforming.transform_checkpoints("in", "ours", "new", src, dst)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_files_of_each_strategy(
    case: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = CASES[case]
    src, dst, count = written(tmp_path, before, after)
    ours(tmp_path, src, dst, monkeypatch)
    for rank in range(count):
        found = read(str(tmp_path / "ours" / f"rank_{rank}" / f"new{rank}.ckpt"), "ckpt")
        want = filled((48, 16))
        if after is not None:
            want = want[strategy(after).layouts["w"].part_layout().box(rank, want.shape)]
        assert list(found) == ["w", "rate"] and np.array_equal(found["w"], want)


@needs_oracle
def test_mindspore_reads_and_makes_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    for i, (before, after) in enumerate(CASES):
        folder = tmp_path / str(i)
        folder.mkdir()
        asked.append((str(folder), *written(folder, before, after)))
    lists = answer(run(ORACLE, ASK, given=asked))
    for (folder, src, dst, count), theirs in zip(asked, lists, strict=True):
        ours(Path(folder), src, dst, monkeypatch)
        for rank, needed in enumerate(theirs):  # MindSpore's way takes more at times
            own = transforming.rank_list_for_transform(rank, src, dst)
            assert set(own) <= set(needed) and own == sorted(own, reverse=True)
        for rank in range(count):
            a, b = (read(str(Path(folder) / who / f"rank_{rank}" / f"new{rank}.ckpt"), "ckpt")
                    for who in ("ours", "theirs"))
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[name], b[name]) for name in a)
