"""Networks written by `export` and read by `load`: equal bits, gradients, damage."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops


class Net(nn.Cell):
    """Branches, loops, nested results, a frozen weight, a large constant."""

    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.LayerNorm((8,)))
        self.scale = Parameter(Tensor(2.0), name="scale", requires_grad=False)
        self.table = Tensor(np.linspace(0, 1, 8 * 20).reshape(20, 8).astype(np.float32))

    def construct(self, x, pair, flag=True):
        y = self.body(x) * self.scale
        if y.sum() > 0:
            y = y + pair[0]
        else:
            y = y - pair[1]
        n = y.sum()
        while n > 1:
            n = n / 2
        return {"y": y, "more": (ops.matmul(y, self.table.T), flag, [n])}


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    x, a, b = (Tensor(rng.normal(size=s).astype(np.float32)) for s in ((3, 6), (3, 8), (8,)))
    return x, (a, b)


def flat(out):
    return [out["y"].asnumpy(), out["more"][0].asnumpy(), out["more"][1],
            out["more"][2][0].asnumpy()]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_same_bits(folder, mode, seed):
    net = Net()
    x, pair = inputs(seed)
    ms.export(net, x, pair, file_name="net", file_format="CIR")
    loaded = nn.GraphCell(ms.load("net.cir"))
    ours, theirs = flat(net(x, pair)), flat(loaded(x, pair))
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert [(p.name, p.requires_grad) for p in loaded.get_parameters() if "." in p.name] == [
        (p.name, p.requires_grad) for p in net.get_parameters() if "." in p.name
    ]
    assert not loaded.parameters_dict()["scale"].requires_grad


def test_as_part_of_another_network(folder, mode):
    net = Net()
    x, pair = inputs()
    ms.export(net, x, pair, file_name="net.cir", file_format="CIR")

    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = nn.GraphCell(ms.load("net.cir"))

        def construct(self, x, pair):
            return ops.tanh(self.inner(x, pair)["y"]) + 1

    expected = np.asarray((ops.tanh(net(x, pair)["y"]) + 1).asnumpy())
    assert np.array_equal(Outer()(x, pair).asnumpy(), expected)


def test_gradients_pass_and_it_trains(folder, mode):
    net = Net()
    x, pair = inputs()
    ms.export(net, x, pair, file_name="net", file_format="CIR")
    loaded = nn.GraphCell(ms.load("net.cir"))

    def grads(cell):
        return ms.grad(lambda x: cell(x, pair)["y"].sum(), 0, tuple(cell.trainable_params()))(x)

    (dx, dw), (dx2, dw2) = grads(net), grads(loaded)
    assert np.array_equal(dx.asnumpy(), dx2.asnumpy())
    named = dict(zip([p.name for p in loaded.trainable_params()], dw2, strict=True))
    for p, g in zip(net.trainable_params(), dw, strict=True):
        assert np.array_equal(g.asnumpy(), named[p.name].asnumpy()), p.name


def test_moving_averages_are_updated(folder, mode):
    norm = nn.BatchNorm1d(4)
    norm.set_train()
    x = Tensor(np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32))
    ms.export(norm, x, file_name="norm", file_format="CIR")
    loaded = nn.GraphCell(ms.load("norm.cir"))
    assert np.array_equal(norm(x).asnumpy(), loaded(x).asnumpy())
    for name, p in norm.parameters_dict().items():
        assert np.array_equal(p.asnumpy(), loaded.parameters_dict()[name].asnumpy()), name


def test_draws_come_from_the_loader_s_generator(folder, mode):
    drop = nn.Dropout(p=0.5)
    drop.set_train()
    x = Tensor(np.ones((4, 4), np.float32))
    ms.export(drop, x, file_name="drop", file_format="CIR")
    loaded = nn.GraphCell(ms.load("drop.cir"))
    outs = []
    for cell in (drop, loaded):
        ms.set_seed(7)
        outs.append([cell(x).asnumpy() for _ in range(2)])
    assert np.array_equal(outs[0], outs[1])
    assert not np.array_equal(outs[0][0], outs[0][1])


def test_functions_and_initial_values(folder):
    w = Parameter(Tensor([1.0, 2.0]), name="w")

    @ms.jit
    def scaled(x):
        return x * w

    ms.export(scaled, Tensor([1.0, 1.0]), file_name="f", file_format="CIR")
    graph = ms.load("f.cir")
    cell = nn.GraphCell(graph, params_init={"w": Tensor([5.0, 6.0])})
    assert cell(Tensor([1.0, 1.0])).asnumpy().tolist() == [5, 6]
    assert nn.GraphCell(graph)(Tensor([1.0, 1.0])).asnumpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="no parameter 'v'"):
        nn.GraphCell(graph, {"v": Tensor(1.0)})
    with pytest.raises(ValueError, match=r"is Float32\[2\]"):
        nn.GraphCell(graph, {"w": Tensor(1.0)})
    with pytest.raises(TypeError, match="what load"):
        nn.GraphCell("f.cir")


def test_wrong_calls(folder, mode):
    ms.export(Net(), *inputs(), file_name="net", file_format="CIR")
    loaded = nn.GraphCell(ms.load("net.cir"))
    x, pair = inputs()
    with pytest.raises(TypeError, match=r"x: float32\[3,6\]"):
        loaded(x)
    with pytest.raises(ValueError, match=r"takes float32\[3,6\] as 'x', got float32\[2,6\]"):
        loaded(x[:2], pair)


@pytest.mark.parametrize(("changed", "kind", "text"), [
    ({"file_name": 5}, TypeError, "must be a string"),
    ({"file_format": "AIR"}, ValueError, "Ascend"),
    ({"file_format": "TF"}, ValueError, "'MINDIR', 'CIR' or 'ONNX'"),
    ({"enc_key": b"1"}, ValueError, "not supported"),
    ({"foo": 1}, TypeError, "unexpected keyword"),
    ({"file_name": "none/x"}, FileNotFoundError, "none"),
])  # fmt: skip
def test_export_errors(folder, changed, kind, text):
    options = {"file_name": "net", "file_format": "CIR", **changed}
    with pytest.raises(kind, match=text):
        ms.export(Net(), *inputs(), **options)
    assert os.listdir(".") == []


class Talking(nn.Cell):
    def construct(self, x, i):
        print("x is", x)
        assert x.sum() > 0, "the sum must be positive"
        return x[i]


def test_prints_and_checks_stay(folder, mode, capsys):
    x, i = Tensor([1.0, 2.0]), Tensor(1)
    ms.export(Talking(), x, i, file_name="talk", file_format="CIR")
    loaded = nn.GraphCell(ms.load("talk.cir"))
    assert loaded(x, i).asnumpy() == 2.0
    assert capsys.readouterr().out == "x is [1. 2.]\n"
    with pytest.raises(AssertionError, match="must be positive"):
        loaded(-x, i)
    with pytest.raises(IndexError, match="5 is out of bounds"):
        loaded(x, Tensor(5))


def test_python_functions_cannot_be_saved(folder):
    class Calling(nn.Cell):
        def construct(self, x):
            return ops.PyFunc(lambda a: a * 2, [ms.float32], [(2,)], [ms.float32], [(2,)])([x])[0]

    with pytest.raises(ValueError, match=r"calls the Python function .*test_export\.py, line"):
        ms.export(Calling(), Tensor([1.0, 2.0]), file_name="f", file_format="CIR")
    assert os.listdir(".") == []


def test_results_that_cannot_be_saved(folder):
    class Odd(nn.Cell):
        def construct(self, x):
            return x, ms.float32

    with pytest.raises(TypeError, match="cannot be saved"):
        ms.export(Odd(), Tensor(1.0), file_name="odd", file_format="CIR")


def test_damaged_files(folder):
    ms.export(nn.Dense(2, 2), Tensor([[1.0, 2.0]]), file_name="d", file_format="CIR")
    raw = Path("d.cir").read_bytes()
    for at in range(0, len(raw), 7):
        Path("bad.cir").write_bytes(raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :])
        with pytest.raises(RuntimeError, match="cannot be read"):
            ms.load("bad.cir")
    Path("bad.cir").write_bytes(raw[:-1])
    with pytest.raises(RuntimeError, match="cannot be read"):
        ms.load("bad.cir")
    with pytest.raises(ValueError, match="no file"):
        ms.load("none.cir")
    with pytest.raises(ValueError, match=r"\.cir"):
        Path("x.txt").write_text("")
        ms.load("x.txt")


@pytest.mark.parametrize("meta", [
    {}, {"arguments": 0, "results": 0}, {"arguments": 5, "results": 0, "frozen": []},
    {"arguments": 0, "results": {"box": "set", "keys": [], "parts": []}, "frozen": []},
    {"arguments": 0, "results": {"box": "dict", "keys": [1], "parts": []}, "frozen": []},
    {"arguments": 0, "results": {"known": [1]}, "frozen": []},
    {"arguments": 0, "results": 0, "frozen": 3},
])  # fmt: skip
def test_hostile_headers(folder, meta):
    from cellc_runtime import portable

    graph = "graph g(%x: float32[2] input) {\n  return %x\n}\n"
    portable.save("h.cir", portable.Network(graph, {}, meta))
    with pytest.raises(RuntimeError, match="cannot be read"):
        ms.load("h.cir")


def test_hostile_graphs(folder):
    from cellc_runtime import portable

    meta = {"arguments": 0, "results": 0, "frozen": []}
    head = "graph g(%x: float32[2] input) {\n"
    for text in ("", "graph", "graph g(%w: float32[2] param) {\n  return %w\n}\n",
                 head + "  return %y\n}\n",
                 head + "  %0: float32[3] = relu(%x) {}\n  return %0\n}\n"):
        portable.save("h.cir", portable.Network(text, {}, meta))
        with pytest.raises(RuntimeError, match="cannot be read"):
            ms.load("h.cir")
