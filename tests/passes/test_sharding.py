"""Sharding: each op that splits, and whole programs on random meshes, against one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import Tensor, ops
from cellc.compiled.traced import trace
from cellc.testing.ranks import run_ranks
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, Sample, user_ops
from cellc_compiler.ir.sharding import (
    Layout,
    Mesh,
    Sliding,
    factors_of,
    layout_of,
    reshaped_factors,
    whole,
)
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.sharding import plan
from cellc_compiler.passes.sharding.halo import widening
from cellc_compiler.passes.sharding.plan import Planner, splitting
from cellc_compiler.passes.sharding.redistribution import LATENCY, route, take
from cellc_compiler.passes.sharding.rewrite import Sharded, axes_of, common_mesh, core_graph, shard
from cellc_compiler.passes.sharding.search import searched
from cellc_runtime import dtypes

from ..ops.gradients import graph_of, operands_of

Array = np.ndarray[Any, Any]


def part(array: Array, mesh: Mesh, rank: int, layout: Layout) -> Array:
    """A rank's part of an array."""
    for axis, cut in enumerate(layout):
        array = np.split(array, mesh.parts(cut), axis)[mesh.part(rank, cut)]
    return array


def on_ranks(
    graph: Graph, mesh: Mesh, arrays: Sequence[Array], inputs: dict[int, Layout]
) -> tuple[list[list[Array]], list[Sharded]]:
    """What each rank gives, every output whole, and the graphs."""
    def play(rank: int) -> tuple[list[Array], Sharded]:
        own = shard(graph, mesh, rank, inputs, lambda i, v, layout: whole(v.type.rank))
        verify(own.graph)
        parts = [part(a, mesh, rank, layout) for a, layout in zip(arrays, own.inputs, strict=True)]
        out = list(run(own.graph, parts))
        return out[: len(graph.outputs)], own

    played = run_ranks(math.prod(mesh.sizes), play)
    return [p[0] for p in played], [p[1] for p in played]


def check(
    graph: Graph, mesh: Mesh, arrays: Sequence[Array], inputs: dict[int, Layout]
) -> list[Sharded]:
    """Every rank gives what one process does."""
    want = run(graph, arrays)[: len(graph.outputs)]
    found, made = on_ranks(graph, mesh, arrays, inputs)
    for outputs in found:
        for a, b in zip(outputs, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, 2e-4, 2e-5)
    return made


# --- ops -----------------------------------------------------------------------------------------


def _node_graph(op: Op, sample: Sample) -> tuple[Graph, list[Array]]:
    arrays = operands_of(sample, dtypes.float32 if dtypes.float32 in op.dtypes else op.dtypes[0])
    return graph_of(op, arrays, sample.attrs), arrays


def _splits() -> list[Any]:
    """Each op with a sample and a factor of it that can be cut into 2, 3 or 5 parts."""
    found = {}
    for op in user_ops():
        if op.expand is not None or op.effect or op.name == "lay_out":
            continue
        for sample in op.samples():
            graph, arrays = _node_graph(op, sample)
            factors = factors_of(graph.nodes[0])
            for f, size in enumerate(factors.sizes):
                count = next((p for p in (2, 3, 5) if size and size % p == 0), 0)
                used = any(next((g for g in axes if factors.sizes[g] > 1), -1) == f
                           for v in factors.operands for axes in v)
                line = Mesh((count,), tuple(range(count)))
                if count and used and factors.may_cut(line, f, (0,)):
                    found.setdefault((op.name, len(graph.outputs), f in factors.summed, f),
                                     (graph, arrays, f, count))
    return [pytest.param(*case, id=f"{name}-{results}-{f}{'-summed' if summed else ''}")
            for (name, results, summed, f), case in found.items()]


SPLITS = _splits()


@pytest.mark.parametrize(("graph", "arrays", "factor", "count"), SPLITS)
def test_ops_on_parts(graph: Graph, arrays: list[Array], factor: int, count: int) -> None:
    """An op along each factor: what it says of its operands and results is so, with no need of
    more of them than their parts."""
    mesh = Mesh((count,), tuple(range(count)))
    factors = factors_of(graph.nodes[0])
    cut = [layout_of(mesh, factors, axes, {factor: (0,)}) for axes in factors.operands]
    given = {i: layout for i, layout in enumerate(cut) if layout is not None}
    assert any(any(layout) for layout in given.values())
    with pytest.MonkeyPatch.context() as patch:  # even where another way would cost less
        patch.setattr(Planner, "_candidates", lambda *args: [{factor: (0,)}])
        (first, *_) = check(graph, mesh, arrays, given)
    reductions = [m.op for m in first.moved if m.op in ("all-reduce", "reduce-scatter")]
    assert len(reductions) == (factor in factors.summed)
    within = ("all-reduce", "reduce-scatter", "halo-exchange")
    others = [m for m in first.moved if m.op not in within]
    assert len(others) <= len(graph.outputs)  # outputs are made whole


def test_many_ops_split() -> None:
    names = {p.id.split("-")[0] for p in SPLITS}
    assert len(names) > 100
    assert {p.id.split("-")[0] for p in SPLITS if p.id.endswith("summed")} >= {
        "matmul", "reduce_sum", "reduce_max", "gather", "conv2d", "conv2d_backward_data",
        "conv2d_backward_weight"}
    assert names >= {"diagonal", "diag_embed", "dynamic_slice", "dynamic_update_slice"}
    for name in ("cumsum", "cummax", "sort_lines", "linear_recurrence"):  # never the axis itself
        node = next(p.values[0].nodes[0] for p in SPLITS if p.id.startswith(f"{name}-"))
        axis = node.attrs.get("axis", -1)
        assert all(not v[axis] for v in (*factors_of(node).operands, *factors_of(node).results))


def test_cuts_that_are_exact_alone_may_not_be_so_together() -> None:
    """The order of a sum that is not split stays: here of the gradient of weights over images, by
    the number of weights."""
    b = Builder(Graph("g"))
    x, dy = (b.graph.add_input(TensorType((4, c, 16, 16), dtypes.float32), "v") for c in (24, 64))
    node = b.node("conv2d_backward_weight", [x, dy],
                  {"kernel": (3, 3), "groups": 2, "pads": (1, 1, 1, 1)})
    factors = splitting(node)
    assert factors.sizes == (4, 2, 32, 12, 16, 16) and factors.summed == {0, 4, 5}
    assert factors.allowed({0: 4}) and factors.allowed({2: 2})
    assert not factors.allowed({2: 4})  # eight channels are summed otherwise
    assert factors.allowed({1: 2}) and factors.allowed({3: 4})
    assert not factors.allowed({1: 2, 2: 2, 3: 4})


# --- windows -------------------------------------------------------------------------------------

@st.composite
def _axis(draw: Any, parts: int) -> dict[str, int]:
    """How a window slides along an axis, so that both the axis and what it gives has such parts."""
    stride, kernel, dilation, before = (
        draw(st.integers(low, high)) for low, high in ((1, 3), (1, 3), (1, 2), (0, 2)))
    fits = [{"rows": rows, "stride": stride, "kernel": kernel, "dilation": dilation,
             "before": before, "after": after}
            for rows in (4, 6, 8, 12, 24) for after in range(3) if rows % parts == 0
            and (room := rows + before + after - dilation * (kernel - 1) - 1) >= 0
            and (room // stride + 1) % parts == 0]
    return draw(st.sampled_from(fits)) if fits else reject()


def _sliding(kind: str, axes: Sequence[dict[str, int]], ceil_mode: bool, counted: bool) -> Graph:
    """A convolution or pool of such windows and its gradients, or pads and a slice."""
    b = Builder(Graph(kind))

    def image(*dims: int) -> Any:
        return b.graph.add_input(TensorType(dims, dtypes.float32), f"x{len(b.graph.inputs)}")

    size, kernel, stride, dilation = (
        tuple(a[name] for a in axes) for name in ("rows", "kernel", "stride", "dilation"))
    pads = tuple(a[side] for a in axes for side in ("before", "after"))
    x = image(2, 4, *size)
    if kind == "pad":
        b.graph.outputs = [b.pad(x, low=(0, 0, *pads[::2]), high=(0, 0, *pads[1::2]), value=2.0),
                           b.pad(x, low=(0, 0, -1, 2), high=(0, 0, 1, -2)),
                           b.slice(x, start=(0, 0, 1, 0), stop=(2, 4, size[0] - 1, size[1]),
                                   step=(1, 1, *stride))]
        return b.graph
    window: dict[str, Any] = {"stride": stride, "pads": pads}
    if kind == "conv":
        window |= {"dilation": dilation, "groups": 2}
        w = image(6, 2, *kernel)
        y = b.conv2d(x, w, **window)
        dy = image(*y.type.dims)
        b.graph.outputs = [y, b.conv2d_backward_data(dy, w, size=size, **window),
                           b.conv2d_backward_weight(x, dy, kernel=kernel, **window)]
        return b.graph
    window |= {"kernel": kernel, "ceil_mode": ceil_mode}
    window |= {"dilation": dilation} if kind == "max" else {"count_include_pad": counted}
    name = f"{kind}_pool2d"
    y = b.emit(name, x, **window)
    dy = image(*y.type.dims)
    b.graph.outputs = [y, b.emit(f"{name}_backward", x, dy, **window) if kind == "max" else
                       b.emit(f"{name}_backward", dy, size=size, **window)]
    return b.graph


@pytest.mark.parametrize("kind", ["conv", "max", "avg", "pad"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_windows_over_parts_of_rows_and_columns(kind: str, data: Any) -> None:
    """Whatever the windows and the parts: what a rank lacks comes from others, near or far, and
    the border alone is padded."""
    mesh, cuts = data.draw(st.sampled_from([
        (Mesh((2,), (0, 1)), ((0,), ())), (Mesh((3,), (0, 1, 2)), ((), (0,))),
        (Mesh((2, 2), (0, 1, 2, 3)), ((1,), (0,))), (Mesh((2, 2), (0, 1, 2, 3)), ((0, 1), ()))]))
    try:
        graph = _sliding(kind, [data.draw(_axis(mesh.parts(cut))) for cut in cuts],
                         data.draw(st.booleans()), data.draw(st.booleans()))
    except ValueError:  # a window of padding alone
        reject()
    inputs = {i: whole(4) if v.name == "x1" and kind == "conv" else ((), (), *cuts)
              for i, v in enumerate(graph.inputs)}
    if not all(mesh.fits(graph.inputs[i].type, layout) for i, layout in inputs.items()):
        reject()  # (of a window more, by `ceil_mode`)
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-9, 9, v.type.dims).astype(np.float32) for v in graph.inputs]
    with pytest.MonkeyPatch.context() as patch:  # even where it would cost less to gather all
        patch.setattr(plan, "widening", lambda *args: 0.0)
        check(graph, mesh, arrays, inputs)


def test_windows_of_a_part_that_would_be_another_pool() -> None:
    """The window that `ceil_mode` adds is none alone; one window is averaged in another order."""
    one = {"rows": 4, "kernel": 2, "stride": 2, "dilation": 1, "before": 0, "after": 0}
    last = one | {"rows": 6, "kernel": 3, "stride": 3, "before": 1}
    pair, thirds = Mesh((2, 2), (0, 1, 2, 3)), Mesh((3,), (0, 1, 2))
    for kind in ("max", "avg"):
        node = _sliding(kind, (last, one), True, True).nodes[0]
        assert node.result.type.dims[2] == 3 and not factors_of(node).may_cut(thirds, 2, (0,))
        found = factors_of(_sliding(kind, (one, one), False, True).nodes[0])
        assert found.may_cut(pair, 2, (0,)) and found.may_cut(pair, 3, (1,))
        assert found.may_cut_all(pair, {2: (0,), 3: (1,)}) == (kind == "max")


def _convolution(rows: int, kernel: int) -> Graph:
    b = Builder(Graph("g"))
    x, w = (b.graph.add_input(TensorType(s, dtypes.float32), "v")
            for s in ((1, 16, rows, 64), (16, 16, kernel, 3)))
    b.graph.outputs = [b.conv2d(x, w, pads=(kernel // 2, kernel // 2, 1, 1))]
    return b.graph


def test_halos_cost_what_they_bring() -> None:
    """Rows at the border of a part, not the parts of all; where windows are so long that these are
    nearly all rows, or parts do not divide those of the result, they come together."""
    mesh = Mesh((4,), (0, 1, 2, 3))
    given: dict[int, Layout] = {0: ((), (), (0,), ()), 1: whole(4)}

    def cut(graph: Graph) -> Sharded:
        return shard(graph, mesh, 1, given, lambda i, v, layout: layout)

    row = 16 * 64 * 4  # bytes
    near = cut(_convolution(64, 3))
    assert [m.op for m in near.moved] == ["halo-exchange"] and near.outputs[0][2] == (0,)
    assert [n.attrs["send_sizes"] for n in near.graph.nodes if n.op == "all_to_all_v"] == \
        [(1, 0, 1, 0)]
    x = near.graph.inputs[0].type
    ty, window = x.with_shape((1, 16, 64, 64)), {2: Sliding(64, 64, 1, 1, 3).covered_window()}
    brought = widening(mesh, ty, given[0], window)
    assert 2 * row < brought < 2 * row + LATENCY + 0.1 * x.nbytes
    assert brought < route(mesh, ty, given[0], whole(4))[0] / 8
    far = cut(_convolution(64, 41))  # longer than a part: of the next two on each side
    (sent,) = [n.attrs["send_sizes"] for n in far.graph.nodes if n.op == "all_to_all_v"]
    assert sent == (16, 0, 16, 4)
    uneven = cut(_convolution(64, 2))  # 65 rows
    assert [m.op for m in uneven.moved] == ["all-gather"] and not any(uneven.outputs[0])


# --- layouts -------------------------------------------------------------------------------------

MESHES = [(2,), (3,), (4,), (2, 2), (2, 3), (2, 2, 2)]


@st.composite
def _laid(draw: Any, mesh: Mesh, shape: tuple[int, ...]) -> Layout:
    """A layout of a tensor on a mesh: each axis of it cuts some axis that it divides, or none."""
    cuts: list[tuple[int, ...]] = [() for _ in shape]
    for m in draw(st.permutations(range(len(mesh.sizes)))):
        axis = draw(st.integers(-1, len(shape) - 1))
        if axis >= 0 and shape[axis] % mesh.parts((*cuts[axis], m)) == 0:
            cuts[axis] = (*cuts[axis], m)
    return tuple(cuts)


@st.composite
def _pairs(draw: Any) -> tuple[Mesh, tuple[int, ...], Layout, Layout]:
    sizes = draw(st.sampled_from(MESHES))
    mesh = Mesh(sizes, tuple(range(math.prod(sizes))))
    shape = tuple(draw(st.lists(st.sampled_from([2, 4, 6, 12]), min_size=1, max_size=3)))
    return mesh, shape, draw(_laid(mesh, shape)), draw(_laid(mesh, shape))


@settings(max_examples=60, deadline=None)
@given(_pairs())
def test_from_layout_to_layout(pair: Any) -> None:
    mesh, shape, source, target = pair
    whole_array = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    ty = TensorType(shape, dtypes.float32)
    cost, steps = route(mesh, ty, source, target)
    assert (cost == 0) == (source == target)

    def play(rank: int) -> bool:
        b = Builder(Graph("redistribution"))
        v = b.graph.add_input(mesh.local(ty, source), "x")
        for step in steps:
            v = take(b, v, mesh, rank, step)
        (found,) = run(_with_output(b.graph, v), [part(whole_array, mesh, rank, source)])
        return np.array_equal(found, part(whole_array, mesh, rank, target))

    assert all(run_ranks(math.prod(mesh.sizes), play))


def _with_output(graph: Graph, v: Any) -> Graph:
    graph.outputs = [v]
    return graph


def test_least_redistribution() -> None:
    """A slice moves nothing; a change of the axis is one exchange, less than to gather all."""
    mesh, ty = Mesh((2, 2), (0, 1, 2, 3)), TensorType((64, 64), dtypes.float32)

    def kinds(source: Layout, target: Layout) -> list[str]:
        return [step.kind.value for step in route(mesh, ty, source, target)[1]]

    assert kinds(((), ()), ((0,), (1,))) == ["own-slice", "own-slice"]
    assert kinds(((0,), ()), ((), (0,))) == ["all-to-all"]
    assert kinds(((0, 1), ()), ((), ())) == ["all-gather"]
    assert kinds(((0,), ()), ((), (1,))) == ["own-slice", "all-gather"]


def test_reshapes_by_factors() -> None:
    def factors(before: tuple[int, ...], after: tuple[int, ...]) -> Any:
        b = Builder(Graph("g"))
        x = b.graph.add_input(TensorType(before, dtypes.float32), "x")
        found = reshaped_factors(b.node("reshape", [x], {"shape": after}))
        return found.sizes, found.operands[0], found.results[0]

    assert factors((8, 6), (48,)) == ((8, 6), ((0,), (1,)), ((0, 1),))
    assert factors((4, 12), (4, 3, 4)) == ((4, 3, 4), ((0,), (1, 2)), ((0,), (1,), (2,)))
    assert factors((2, 1, 6), (2, 6, 1)) == ((2, 6), ((0,), (), (1,)), ((0,), (1,), ()))
    sizes, before, after = factors((4, 3, 5), (6, 2, 5))
    assert sizes == (2, 5) and before == ((0,), (), (1,)) and after == ((0,), (), (1,))


def test_meshes_in_common() -> None:
    assert common_mesh([(4,), (2, 2)], (0, 1, 2, 3)).sizes == (2, 2)
    assert common_mesh([(2, 4), (4, 2)], tuple(range(8))).sizes == (2, 2, 2)
    with pytest.raises(ValueError, match="no common one"):
        common_mesh([(2, 3), (3, 2)], tuple(range(6)))


# --- programs ------------------------------------------------------------------------------------


def _attention(x: Any, wq: Any, wo: Any) -> Any:
    b, t, d = x.shape
    q = ops.matmul(x, wq).reshape(b, t, 3, 4, 2).transpose(2, 0, 3, 1, 4)
    scores = ops.matmul(q[0], q[1].swapaxes(-1, -2)) * 0.5
    seen = ops.softmax(scores + ops.triu(ops.full((t, t), -1e4), 1), -1)
    out = ops.matmul(seen, q[2]).transpose(0, 2, 1, 3).reshape(b, t, 8)
    return (ops.layer_norm(x + ops.matmul(out, wo), (d,), ops.ones(d), ops.zeros(d)) ** 2).mean()


def _vocabulary(ids: Any, table: Any, labels: Any) -> Any:
    h = ops.gelu(ops.gather(table, ids, 0))
    return ops.cross_entropy(ops.matmul(h, table.T), labels)


def _images(x: Any, w: Any, own: Any, v: Any) -> Any:
    y = ops.relu(ops.conv2d(x, w, pad_mode="pad", padding=1))
    y = y + ops.conv2d(y, own, pad_mode="pad", padding=1, groups=own.shape[0] // 2)
    y = ops.max_pool2d(y - y.mean((0, 2, 3), keep_dims=True), 2, 2)
    return ops.matmul(y.reshape(x.shape[0], -1), v).sum()


def _experts(x: Any, gate: Any, up: Any) -> Any:
    """Tokens to experts by the largest gate, each expert a product of its own."""
    p = ops.softmax(ops.matmul(x, gate), -1)
    sent = ops.one_hot(p.argmax(-1), 4, Tensor(1.0), Tensor(0.0))
    inner = ops.bmm((sent * p).T.expand_dims(-1) * x.expand_dims(0), up)
    return (inner.sum(0) ** 2).sum()


def _shapes(x: Any, y: Any, w: Any) -> Any:
    z = ops.concat((x[:, 1:5], y[:, :4]), 0)
    z = ops.cumsum(z, 0) + ops.sort(z, 1)[0] * ops.gather_elements(z, 1, ops.full_like(z, 1).int())
    u = ops.select(z > 0, z, ops.flip(z, (0,))).reshape(2, -1)
    return (u.sum(0) * ops.pad(w, (2, 2)).reshape(-1)[: u.shape[1]]).max() + ops.std(u)


def _parts_of_a_batch(x: Any, w: Any, bias: Any) -> Any:
    """Losses of parts of a batch, added: weights have a gradient of each part."""
    first, second, third = [(ops.tanh(ops.matmul(rows, w) + bias) @ w.T).sum() for rows in x]
    return first + second + third


def _scaled_parts(x: Any, w: Any, bias: Any) -> Any:
    """The same of another type, scaled: so are losses and gradients before they are added."""
    first, second, third = [
        -(ops.tanh(ops.matmul(rows, (w / 3).astype(ms.float32)) + bias * 0.7) * 2).mean()
        for rows in x]
    return first + second + third


def _program(fn: Callable[..., Any], *shapes: Any, slopes: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(5)
    arrays = [s if isinstance(s, np.ndarray) else rng.normal(size=s).astype(np.float32)
              for s in shapes]
    traced = trace(ms.value_and_grad(fn, slopes), list(map(Tensor, arrays)), {})
    return pytest.param(traced.graph, arrays, id=fn.__name__.strip("_"))


IDS = np.random.default_rng(0).integers(0, 12, (4, 6)).astype(np.int32)
PROGRAMS = [
    _program(_attention, (4, 6, 12), (12, 24), (8, 12), slopes=(0, 1, 2)),
    _program(_vocabulary, IDS.reshape(-1), (12, 4), IDS[::-1].reshape(-1).copy(), slopes=(1,)),
    _program(_images, (4, 2, 6, 6), (8, 2, 3, 3), (8, 2, 3, 3), (72, 4), slopes=(0, 1, 2, 3)),
    _program(_experts, (12, 4), (4, 4), (4, 4, 6), slopes=(0, 1, 2)),
    _program(_shapes, (4, 6), (4, 6), (4, 8), slopes=(0, 1, 2)),
    _program(_parts_of_a_batch, (3, 4, 6), (6, 8), (8,), slopes=(1, 2)),
    _program(_scaled_parts, (3, 4, 6), np.linspace(-1, 1, 48).reshape(6, 8), (8,), slopes=(1, 2)),
]


@pytest.mark.parametrize(("graph", "arrays"), PROGRAMS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_programs_on_random_meshes(graph: Graph, arrays: list[Array], data: Any) -> None:
    """Whatever lies how: the value and the gradients of one process."""
    sizes = data.draw(st.sampled_from([(2,), (3,), (2, 2), (4,)]))
    mesh = Mesh(sizes, tuple(range(math.prod(sizes))))
    inputs = {i: data.draw(_laid(mesh, a.shape)) for i, a in enumerate(arrays)
              if data.draw(st.booleans())}
    check(core_graph(graph), mesh, arrays, inputs)


@pytest.mark.parametrize(("graph", "arrays"), PROGRAMS[-2:])
def test_sums_of_split_sums_are_split_once(graph: Graph, arrays: list[Array]) -> None:
    """The loss and two gradients, sums over parts of a batch of what ranks have parts of: each has
    one collective. What is read besides is summed on its own, and so is what is added to it."""
    mesh, data = Mesh((2,), (0, 1)), {0: ((), (0,), ()), 1: whole(2), 2: whole(1)}
    (first, *_) = check(core_graph(graph), mesh, arrays, data)
    assert [m.op for m in first.moved] == ["all-reduce"] * 3
    assert {m.what.split(":")[0] for m in first.moved} == {"add"}
    core = core_graph(graph)
    core.outputs.append(next(n.result for n in core.nodes if n.op == "reduce_sum"))
    (first, *_) = check(core, mesh, arrays, data)
    assert [m.op for m in first.moved].count("all-reduce") == 5


def test_split_sums_behind_a_reshape_that_moves_rows_are_summed_before_it() -> None:
    """Rows of a product are cut too, and no rank has a row of what it is reshaped to: nothing
    could be added there before it is summed."""
    graph = Graph("g")
    b = Builder(graph)
    shapes = [(4, 8), (8, 6)] * 2
    values = [graph.add_input(TensorType(s, dtypes.float32), f"x{i}")
              for i, s in enumerate(shapes)]
    one, other = (b.reshape(b.matmul(v, w), shape=(3, 8))
                  for v, w in (values[:2], values[2:]))
    graph.outputs = [b.add(one, other)]
    rng = np.random.default_rng(6)
    mesh, rows, columns = Mesh((2, 2), (0, 1, 2, 3)), ((0,), (1,)), ((1,), ())
    (first, *_) = check(graph, mesh, [rng.normal(size=s).astype(np.float32) for s in shapes],
                        {0: rows, 1: columns, 2: rows, 3: columns})
    assert [m.op for m in first.moved].count("all-reduce") == 2


def test_a_sum_of_split_sums_goes_where_it_is_read() -> None:
    """A state of which each rank has a part takes a gradient: this part of it is summed."""
    graph, arrays = PROGRAMS[-2].values
    core, mesh = core_graph(graph), Mesh((2,), (0, 1))
    slope = core.outputs.pop()
    state = core.add_input(slope.type, "state", "state")
    core.updates.append((state, Builder(core).add(state, slope)))
    given = {0: ((), (0,), ()), 1: whole(2), 2: whole(1), 3: ((0,),)}
    arrays = [*arrays, np.ones(slope.type.dims, np.float32)]
    want = run(core, arrays)[-1]

    def play(rank: int) -> tuple[Sharded, Array]:
        own = shard(core, mesh, rank, given, lambda i, v, layout: whole(v.type.rank))
        parts = [part(a, mesh, rank, layout) for a, layout in zip(arrays, own.inputs, strict=True)]
        return own, run(own.graph, parts)[-1]

    for rank, (own, got) in enumerate(run_ranks(2, play)):
        assert [m.op for m in own.moved].count("reduce-scatter") == 1
        np.testing.assert_allclose(got, part(want, mesh, rank, ((0,),)), 1e-5)


def test_no_sum_between_ranks_is_made_in_fewer_bits() -> None:
    """Sums that are cast to a smaller type before they are added stay sums of their own type."""
    def losses(x: Any, w: Any) -> Any:
        first, second = [ops.matmul(rows, w).sum().astype(ms.float16) for rows in x]
        return first + second

    graph, arrays = _program(losses, (2, 4, 6), (6, 8), slopes=(1,)).values
    mesh, data = Mesh((2,), (0, 1)), {0: ((), (0,), ()), 1: whole(2)}
    (_, (first, _)) = on_ranks(core_graph(graph), mesh, arrays, data)
    assert [m.what.split(" ")[1] for m in first.moved if m.what.startswith("reduce_sum")] == \
        ["float32[]"] * 2


@pytest.mark.parametrize(("graph", "arrays"), PROGRAMS[:2])
def test_search(graph: Graph, arrays: list[Array]) -> None:
    """What is found costs no more than what is not searched, and computes the same."""
    mesh, core = Mesh((2,), (0, 1)), core_graph(graph)
    for v in core.inputs[1:]:
        v.kind = "param"
    data = {0: ((0,), *whole(arrays[0].ndim - 1))}
    found = searched(core, mesh, data)
    (first, *_) = check(core, mesh, arrays, found)
    (plain, *_) = check(core, mesh, arrays, data)
    assert first.cost <= plain.cost


def test_axes_of_coarser_arrays() -> None:
    """By the places of ranks: those of an axis of 24 ranks of 2 x 3 x 4, in every coarser array."""
    mesh = Mesh((2, 3, 4), tuple(range(24)))
    for matrix, want in (((24,), [(0, 1, 2)]), ((2, 12), [(0,), (1, 2)]), ((6, 4), [(0, 1), (2,)]),
                         ((2, 3, 4), [(0,), (1,), (2,)]), ((2, 1, 12), [(0,), (), (1, 2)])):
        assert [axes_of(mesh, matrix, a) for a in range(len(matrix))] == want


@pytest.mark.parametrize("rows", [4, 1])
def test_split_sums_are_added_before_they_are_summed_if_alike(rows: int) -> None:
    """A sum that is broadcast where it is added is a sum of its own: of fewer bytes."""
    graph = Graph("g")
    b = Builder(graph)
    shapes = ((4, 8), (8, 6), (rows, 8))
    x, w, y = (graph.add_input(TensorType(s, dtypes.float32), f"x{i}")
               for i, s in enumerate(shapes))
    graph.outputs = [b.add(b.matmul(x, w), b.matmul(y, w)), b.add(b.matmul(y, w), b.matmul(x, w))]
    rng = np.random.default_rng(6)
    columns: Layout = ((), (0,))
    (first, *_) = check(
        graph, Mesh((2,), (0, 1)), [rng.normal(size=s).astype(np.float32) for s in shapes],
        {0: columns, 1: ((0,), ()), 2: columns})
    assert len([m for m in first.moved if m.what.startswith("add")]) == (2 if rows == 4 else 0)
