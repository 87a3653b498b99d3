"""`to_float`, levels of automatic mixed precision, lists; both modes, gradients, the dump."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, amp, nn, ops
from cellc.compiled.traced import trace
from cellc_compiler.ir.text import print_graph

from ..modes.law import ONCE

pytestmark = pytest.mark.usefixtures("mode")


X = Tensor(np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float32))


def kinds(values):
    return [str(v.dtype) for v in values]


class Probe(nn.Cell):
    """Everything a Cell can read."""

    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.ones(3, np.float32)), name="w")
        self.n = Parameter(Tensor(np.ones(3, np.int32)), name="n")
        self.t = Tensor(np.full(3, 2, np.float32))

    def scaled(self, x):
        return x * self.w

    def construct(self, x):
        made = x * ops.ones((3,), ms.float32)
        return [x * 2, self.w * 2, self.t * 2, x * self.w, x * self.t, made, self.n * 2,
                self.scaled(x), ops.zeros_like(self.w)]


@pytest.mark.parametrize(("dtype", "name"), [
    (ms.float16, "Float16"), (ms.bfloat16, "BFloat16"), (ms.float32, "Float32")])
def test_what_is_converted(dtype, name):
    """As MindSpore's graph mode does; a constant made inside keeps its type."""
    found = Probe().to_float(dtype)(X)
    assert kinds(found) == [name] * 5 + ["Float32", "Int32", name, name]
    assert kinds(Probe().to_float(dtype)(Tensor(np.ones((2, 3)), ms.float64)))[:1] == [name]
    assert kinds(Probe().to_float(dtype)(Tensor(np.ones((2, 3)), ms.int32)))[:1] == ["Int32"]
    assert kinds(Probe()(X)) == ["Float32"] * 6 + ["Int32", "Float32", "Float32"]


def test_values_are_those_of_casts_by_hand():
    net = nn.Dense(3, 4)
    low = net.to_float(ms.float16)(X)
    w, b = net.weight.astype(ms.float16), net.bias.astype(ms.float16)
    by_hand = ops.matmul(X.astype(ms.float16), w.T) + b
    assert low.dtype == ms.float16
    assert np.array_equal(low.asnumpy(), by_hand.asnumpy())


class Nested(nn.Cell):
    def __init__(self, outer=None, inner=None, late=None):
        super().__init__()
        self.i, self.j = nn.Dense(3, 3), nn.Dense(3, 3)
        if outer:
            self.to_float(outer)
        if inner:
            self.i.to_float(inner)
        if late:
            self.late = nn.Dense(3, 3)

    def construct(self, x):
        y = self.i(x)
        return x + 0, y, self.j(y)


@pytest.mark.parametrize(("outer", "inner", "expected"), [
    (ms.float16, None, ["Float16"] * 3),
    (ms.float16, ms.float32, ["Float16", "Float32", "Float16"]),
    (ms.bfloat16, ms.float16, ["BFloat16", "Float16", "BFloat16"]),
    (ms.float32, ms.float16, ["Float32", "Float16", "Float32"]),
])
def test_inner_cells_overrule(outer, inner, expected):
    assert kinds(Nested(outer, inner)(X)) == expected


def test_nested_inputs_and_keywords():
    class Many(nn.Cell):
        def construct(self, pair, table, *, k):
            return pair[0] + 0, pair[1][0] + 0, table["a"] + 0, k + 0

    found = Many().to_float(ms.float16)((X, [X]), {"a": X}, k=X)
    assert kinds(found) == ["Float16"] * 4


def test_gradients_have_the_parameters_type():
    net = nn.Dense(3, 2).to_float(ms.float16)
    dx, grads = ms.grad(lambda x: net(x).sum(), 0, net.trainable_params())(X)
    assert dx.dtype == ms.float32
    assert kinds(grads) == ["Float32", "Float32"]
    ones = np.ones((2, 2), np.float16)
    assert np.array_equal(grads[0].asnumpy(), (ones.T @ X.asnumpy().astype(np.float16)))


def test_assignments_keep_the_parameters_type():
    class Counting(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor(np.ones(3, np.float32)), name="w")

        def construct(self, x):
            self.w += 1
            ops.assign(self.w, self.w * 2)
            return self.w + x

    net = Counting().to_float(ms.float16)
    assert net(X).dtype == ms.float16
    assert net.w.dtype == ms.float32
    assert net.w.asnumpy().tolist() == [4, 4, 4]


LAYERS = {
    "Dense": (lambda: nn.Dense(3, 2), (2, 3)),
    "Conv2d": (lambda: nn.Conv2d(2, 3, 3), (1, 2, 5, 5)),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 3), (1, 2, 5)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2), (2, 2, 3, 3)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (4, 3)),
    "LayerNorm": (lambda: nn.LayerNorm((3,)), (2, 3)),
    "GroupNorm": (lambda: nn.GroupNorm(1, 2), (1, 2, 3, 3)),
    "PReLU": (lambda: nn.PReLU(2), (1, 2, 3)),
    "GELU": (lambda: nn.GELU(), (2, 3)),
    "Softmax": (lambda: nn.Softmax(), (2, 3)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, 2), (1, 1, 4, 4)),
    "Dropout": (lambda: nn.Dropout(p=0.5), (4, 4)),
    "LSTM": (lambda: nn.LSTM(3, 4), (5, 2, 3)),
    "GRU": (lambda: nn.GRU(3, 4), (5, 2, 3)),
    "Transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0), (5, 2, 8)),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
@pytest.mark.parametrize("layer", LAYERS)
@ONCE
def test_layers_in_low_precision(layer, dtype, training):
    """Results and gradients in low precision, near those in float32; equal bits in both modes."""
    make, shape = LAYERS[layer]
    x = Tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    found = []
    for each in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=each)
        ms.set_seed(3)
        net = make()
        net.set_train(training)
        full = _first(net(x)) if layer not in ("Dropout", "BatchNorm2d", "BatchNorm1d") else None
        net.to_float(dtype)
        ms.set_seed(4)
        low = _first(net(x))
        ms.set_seed(4)
        weights = tuple(net.trainable_params()) or None
        grads = ms.grad(lambda x, net=net: _first(net(x)).astype(ms.float32).sum(), 0, weights)(x)
        grads = grads if weights else (grads, ())
        assert low.dtype == dtype
        if full is not None:
            error = np.abs(low.astype(ms.float32).asnumpy() - full.asnumpy()).max()
            assert error < (0.03 if dtype == ms.float16 else 0.1)
        moved = [p.asnumpy().copy() for p in net.untrainable_params()]
        found.append([low.astype(ms.float32).asnumpy(), grads[0].asnumpy(),
                      *(g.asnumpy() for g in grads[1]), *moved])
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a, b, equal_nan=True)


def _first(out):
    while isinstance(out, tuple):
        out = out[0]
    return out


def test_flags_set_later_are_noticed():
    net = nn.Dense(3, 2)
    assert net(X).dtype == ms.float32
    net.to_float(ms.float16)
    assert net(X).dtype == ms.float16
    net.to_float(ms.bfloat16)
    assert net(X).dtype == ms.bfloat16
    net.to_float(ms.float32)
    assert net(X).dtype == ms.float32


def test_casts_are_in_the_dump():
    text = print_graph(trace(Nested(ms.float16, ms.float32), (X,), {}).graph)
    casts = [line.split("=", 1)[1].strip() for line in text.splitlines() if " = cast(" in line]
    assert any("cast(%i.weight)" in c for c in casts) is False  # float32 is its own type
    assert any("cast(%j.weight) {dtype=dtype.float16} @j" in c for c in casts)
    assert len(casts) == 5


# --- levels -------------------------------------------------------------------------------------


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.r = nn.ReLU()
        self.fl = nn.Flatten()
        self.d = nn.Dense(64, 2)
        self.mm = ops.MatMul()
        self.w = Parameter(Tensor(np.ones((2, 2), np.float32)), name="w")

    def construct(self, x):
        a = self.c(x)
        b = self.bn(a)
        c = self.r(b)
        d = self.fl(c)
        e = self.d(d)
        f = self.mm(e, self.w)
        return a, b, c, d, e, f, ops.softmax(f)


IMAGE = Tensor(np.random.default_rng(0).random((2, 3, 4, 4)).astype(np.float32))
NONE, ALL = ["Float32"] * 7, ["Float32"] * 7


@pytest.mark.parametrize(("level", "expected"), [
    ("O0", NONE), ("O1", NONE), ("O2", NONE), ("O3", NONE),
    ("auto", ["Float16", "Float32", "Float32", "Float32", "Float32", "Float16", "Float32"]),
])
def test_levels(level, expected):
    """Types outside are MindSpore's, but that `auto` converts products of functions, too."""
    full = Net()
    low = amp.auto_mixed_precision(Net(), level)
    for p, q in zip(full.get_parameters(), low.get_parameters(), strict=True):
        assert p.name == q.name
        p.set_data(q)
    found, exact = low(IMAGE), full(IMAGE)
    assert kinds(found) == expected
    differs = [not np.array_equal(a.astype(ms.float32).asnumpy(), b.asnumpy())
               for a, b in zip(found, exact, strict=True)]
    assert any(differs) == (level != "O0")
    for a, b in zip(found, exact, strict=True):
        assert np.allclose(a.astype(ms.float32).asnumpy(), b.asnumpy(), atol=0.05)


def test_printed_networks():
    o1 = repr(amp.auto_mixed_precision(Net(), "O1"))
    assert o1.startswith("Net(\n  (c): _OutputTo32(\n    (_backbone): Conv2d(")
    o2 = repr(amp.auto_mixed_precision(Net(), "O2"))
    assert o2.startswith("_OutputTo32(\n  (_backbone): Net(\n    (c): Conv2d(")
    assert "(bn): _OutputTo16(\n      (_backbone): BatchNorm2d(" in o2
    assert "_OutputToBF16" in repr(amp.auto_mixed_precision(Net(), "O2", ms.bfloat16))
    o3 = repr(amp.auto_mixed_precision(Net(), "O3"))
    assert o3.startswith("_OutputTo32(") and "_OutputTo16" not in o3
    assert repr(amp.auto_mixed_precision(Net(), "auto")).startswith("Net(\n  (c): Conv2d(")


def test_lists_of_one_s_own():
    assert nn.Dense in amp.get_white_list() and nn.LayerNorm in amp.get_black_list()
    amp.get_white_list().clear()
    assert amp.get_white_list()
    white = amp.custom_mixed_precision(Net(), white_list=[nn.Flatten])
    assert type(white.fl).__name__ == "_OutputTo32" and type(white.d).__name__ == "Dense"
    black = amp.custom_mixed_precision(Net(), black_list=[nn.Dense])
    assert type(black._backbone.d).__name__ == "_OutputTo16"
    assert kinds(black(IMAGE)) == ALL
    primitive = amp.custom_mixed_precision(Net(), white_list=[ops.MatMul])
    assert repr(primitive.mm) == repr(ops.MatMul())
    assert kinds(primitive(IMAGE)) == ALL
    box = amp.custom_mixed_precision(nn.SequentialCell(nn.Dense(3, 3), nn.ReLU()),
                                     white_list=[nn.Dense])
    assert type(box[0]).__name__ == "_OutputTo32"
    assert box(X).dtype == ms.float32


def test_automatic_functions():
    w = Parameter(Tensor(np.ones((3, 3), np.float32)), name="w")

    def run(x):
        y = ops.matmul(x, w)
        if y.sum() > 100:
            y = y * 2
        return y, ops.exp(y)

    low = amp.auto_mixed_precision(run, "auto")
    assert kinds(low(X)) == ["Float16", "Float32"]
    assert kinds(ms.jit(lambda x: low(x))(X)) == ["Float16", "Float32"]
    assert kinds(run(X)) == ["Float32", "Float32"]


def test_functions_compiled_by_themselves():
    """They are converted as their callers are."""
    w = Parameter(Tensor(np.ones((3, 3), np.float32)), name="w")
    own = ms.jit(lambda x: ops.matmul(x, w))

    class Around(nn.Cell):
        def construct(self, x):
            return own(x)

    assert own(X).dtype == ms.float32
    assert amp.auto_mixed_precision(lambda x: own(x), "auto")(X).dtype == ms.float16
    assert Around().to_float(ms.float16)(X).dtype == ms.float16
    assert own(X).dtype == ms.float32


@ONCE
def test_both_modes_give_the_same_bits():
    for level in ("O1", "O2", "O3", "auto"):
        found = []
        for each in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
            ms.set_context(mode=each)
            ms.set_seed(1)
            net = Net()
            net.set_train()
            low = amp.auto_mixed_precision(net, level)
            value, grads = ms.value_and_grad(
                lambda x, low=low: low(x)[-1].sum(), None, tuple(net.trainable_params()))(IMAGE)
            found.append([value.asnumpy(), *(g.asnumpy() for g in grads),
                          *(p.asnumpy().copy() for p in net.untrainable_params())])
        assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True)), level


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "auto"])
def test_training(level):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 8)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    net = nn.SequentialCell(nn.Dense(8, 16), nn.LayerNorm((16,)), nn.ReLU(), nn.Dense(16, 2))
    optimizer = nn.Adam(net.trainable_params(), 0.02)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = ms.Model(net, loss, optimizer, metrics={"acc"}, amp_level=level)
    model.train(30, [(x, y)])
    assert all(p.dtype == ms.float32 for p in net.trainable_params())
    assert model.eval([(x, y)])["acc"] > 0.95


def test_options_of_build_train_network():
    net = Net()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    kept = amp.build_train_network(net, optimizer, level="O3", keep_batchnorm_fp32=True,
                                   loss_scale_manager=None)
    assert "_OutputTo16" in repr(kept)
    cast = amp.build_train_network(Net(), optimizer, cast_model_type=ms.float16)
    assert "_OutputTo32" in repr(cast)
    assert isinstance(amp.build_train_network(Net(), optimizer, level="O2"),
                      nn.TrainOneStepWithLossScaleCell)
    with pytest.raises(ValueError, match="cast_model_type"):
        amp.build_train_network(Net(), optimizer, cast_model_type=ms.int32)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: amp.auto_mixed_precision(3, "O1"), TypeError,
     "The argument `network` must be a Cell (for 'auto' also a function), but got <class 'int'>"),
    (lambda: amp.auto_mixed_precision(lambda x: x, "O1"), TypeError,
     "The argument `network` must be a Cell (for 'auto' also a function)"),
    (lambda: amp.auto_mixed_precision(Net(), "O4"), ValueError,
     "The argument `amp_level` must be one of 'O0', 'O1', 'O2', 'O3', 'auto', but got 'O4'"),
    (lambda: amp.auto_mixed_precision(Net(), "O1", ms.int8), ValueError,
     "The argument `dtype` must be mstype.float16 or mstype.bfloat16, but got Int8"),
    (lambda: amp.custom_mixed_precision(3, white_list=[]), TypeError,
     "For 'custom_mixed_precision', 'network' must be a Cell, but got 3"),
    (lambda: amp.custom_mixed_precision(Net()), ValueError,
     "Exactly one of `white_list` and `black_list` must be given"),
    (lambda: amp.custom_mixed_precision(Net(), white_list=[], black_list=[]), ValueError,
     "Exactly one of `white_list` and `black_list` must be given"),
    (lambda: amp.custom_mixed_precision(Net(), white_list=[3]), TypeError,
     "The list must hold subclasses of Cell or Primitive, but is [3]"),
    (lambda: amp.custom_mixed_precision(Net(), black_list=[ops.MatMul]), TypeError,
     "The list must hold subclasses of Cell, but is [<class 'cellc.ops.primitives.MatMul'>]"),
    (lambda: nn.Dense(2, 2).to_float(ms.int32), ValueError,
     "'dst_type' must be mstype.float32, mstype.float16 or mstype.bfloat16"),
])
def test_wrong_arguments(call, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        call()
