"""Artifacts of several entries, of networks in memory, of factories with arguments, and of portable
files; what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import nn, ops
from cellc.cli import main
from cellc.cli.loading import load_network
from cellc_runtime import Artifact, artifact
from cellc_runtime.container import pack, unpack
from cellc_runtime.errors import ArtifactError

NETWORK = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Model(nn.Cell):
    """A cache that two entries share, and a function without it."""

    def __init__(self, scale=1.0, name="model", sizes=(4, 4)):
        super().__init__()
        table = np.arange(16, dtype=np.float32).reshape(sizes)
        self.w = ms.Parameter(table * np.float32(scale), name="w")
        self.cache = ms.Parameter(np.zeros((8, 4), np.float32), name="cache", requires_grad=False)
        self.note = name

    def prefill(self, x):
        ops.assign(self.cache, ops.matmul(x, self.w))
        return self.cache.sum(0)

    def decode(self, x, p):
        here = (ops.arange(8) == p).astype(ms.float32).reshape(8, 1)
        ops.assign(self.cache, self.cache * (1 - here) + ops.matmul(x, self.w) * here)
        return self.cache.sum(0)

    def construct(self, x):
        return ops.matmul(x, self.w)


def make(scale, **options):
    return Model(scale, **options).set_train(False)


def number(n):
    return n


def fails(n):
    raise OverflowError("no such size")


def double(x):
    return x * 2


model = Model(3.0)
NUMBER = 3


class Plain:
    """No Cell."""


class Pair(nn.Cell):
    """Nested inputs, and random numbers."""

    def construct(self, pair, x):
        return ops.dropout(x, 0.5) + pair[0] - pair[1], pair[0]
'''


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("entries") / "entry_nets.py"
    file.write_text(NETWORK)
    return file


def load(path: Any) -> Artifact:
    return cellc_runtime.load(path, trust_native_code=True)


def compiled(out: Path, network: str, *options: str) -> Artifact:
    assert main(["compile", network, "-o", str(out), *options]) == 0
    return load(out)


X = np.linspace(-1, 1, 32).reshape(8, 4).astype(np.float32)


# --- entries -------------------------------------------------------------------------------------


def talks(net: Artifact, model: Any) -> None:
    """The entries do what the methods do, and share their state."""
    for got, want in (
        (net.call("prefill", X), model.prefill(ms.Tensor(X))),
        (net.call("decode", x=X[:1], p=2), model.decode(ms.Tensor(X[:1]), ms.Tensor(2, ms.int32))),
        (net.call("decode", X[3:4], 7), model.decode(ms.Tensor(X[3:4]), ms.Tensor(7, ms.int32))),
    ):
        np.testing.assert_array_equal(got, want.asnumpy())
    np.testing.assert_array_equal(net.weights["cache"], model.cache.asnumpy())


def test_methods_as_entries(nets: Path, tmp_path: Path) -> None:
    net = compiled(tmp_path / "m.cellc", f"{nets}:Model(scale=2.0)", "--entry", "prefill=prefill",
                   "--entry", "decode=decode", "-i", "prefill.x=float32[8,4]", "-i",
                   "x=float32[1,4]", "-i", "p=int32[]")
    assert net.entries == ("prefill", "decode") and set(net.weights) == {"w", "cache"}
    _, model = load_network(f"{nets}:make(2.0)")
    talks(net, model)


def test_construct_and_functions_as_entries(nets: Path, tmp_path: Path) -> None:
    net = compiled(tmp_path / "m.cellc", f"{nets}:model", "--entry", "infer=construct", "--entry",
                   "twice=double", "-i", "x=float32[N,4]", "-i", "twice.x=float32[3]")
    np.testing.assert_allclose(net(X[:5]), X[:5] @ (np.arange(16).reshape(4, 4) * 3), rtol=1e-5)
    np.testing.assert_array_equal(net.call("twice", [1, 2, 3]), [2, 4, 6])


@pytest.mark.parametrize(("options", "said"), [
    (["--entry", "a"], "--entry 'a': expected NAME=FUNC"),
    (["--entry", "a=b.c"], "--entry 'a=b.c': expected NAME=FUNC"),
    (["--entry", "1=decode"], "expected NAME=FUNC"),
    (["--entry", "a=_auto_prefix"], "expected NAME=FUNC"),
    (["--entry", "a=nothing"], "neither Model nor its file has a function 'nothing'"),
    (["--entry", "a=note"], "neither Model nor its file has a function 'note'"),
    (["--entry", "a=decode", "--entry", "a=prefill"], "a is given twice"),
    (["--entry", "a=decode", "-i", "x=float32[1,4]"], "takes p: give a type"),
    (["--entry", "a=prefill", "-i", "x=float32[8,4]", "-i", "p=int32[]"],
     "--input p: no entry has this input; there are a(x)"),
    (["--entry", "a=prefill", "-i", "b.x=float32[8,4]"], "--input b.x: no entry has this input"),
    (["--entry", "a=prefill", "-i", "x=float32[8,4]", "-i", "x=float32[8,4]"], "x: it is given tw"),
    (["--entry", "a=prefill", "-i", "a.x=float32[8,4]", "-i", "a.x=float32[8,4]"], "given twice"),
])
def test_wrong_entries(
    options: list[str], said: str, nets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", f"{nets}:model", "-o", str(tmp_path / "x.cellc"), *options]) == 2
    assert said in capsys.readouterr().err and not [*tmp_path.iterdir()]


# --- networks with arguments ---------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    "Model(2.0)", "Model(scale=2, name='a:b(c)')", "make(2)", "make(2., sizes=[4, 4])",
    "Model(-2.0)", "Model(scale=2.0, sizes=(2 + 2, 4))",
])
def test_factories_with_arguments(
    call: str, nets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "+" in call:  # an expression is no literal
        assert main(["compile", f"{nets}:{call}", "-i", "x=float32[8,4]", "-o", "x.cellc"]) == 2
        assert "must be literals" in capsys.readouterr().err
        return
    net = compiled(tmp_path / "m.cellc", f"{nets}:{call}", "-i", "x=float32[8,4]")
    scale = -2 if "-" in call else 2
    np.testing.assert_allclose(net(X), X @ (np.arange(16.0).reshape(4, 4) * scale), rtol=1e-5)


@pytest.mark.parametrize(("call", "said"), [
    ("Model(open('x'))", "the arguments must be literals, as in Net(4, name='small'"),
    ("Model(__import__('os').getcwd())", "must be literals"),
    ("Model(scale)", "sizes=[1, 2]), but got scale"), ("Model(*[1])", "), but got *[1]"),
    ("np", "np: it is a module; expected a Cell or function"),
    ("NUMBER", "NUMBER: it is a int; expected a Cell or function"),
    ("Plain", "Plain: it is a Plain; expected a Cell or function"),
    ("Model(**{})", "must be literals"), ("Model(1)(2)", "must be literals"),
    ("Model(1) or Model(2)", "must be literals"), ("Model(", "expected FILE.py:NAME"),
    ("Model(1,,2)", "must be literals"), ("Model(" + "(" * 500 + ")" * 500 + ")", "literals"),
    ("Model(size=3)", "unexpected keyword argument 'size'"),
    ("model(2)", "it is a Model, which takes no arguments here"),
    ("number(2)", "it returned a int; expected a Cell or function"),
    ("fails(2)", "OverflowError: no such size"), ("nothing(2)", "has no 'nothing'"),
])
def test_wrong_factories(
    call: str, said: str, nets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x.cellc")
    assert main(["compile", f"{nets}:{call}", "-i", "x=float32[8,4]", "-o", out]) == 2
    assert said in capsys.readouterr().err and not [*tmp_path.iterdir()]


# --- portable files ------------------------------------------------------------------------------


def test_a_portable_file_is_compiled(
    nets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.cir"
    assert main(["export", f"{nets}:model", "-i", "x=float32[8,4]", "-o", str(file)]) == 0
    net = compiled(tmp_path / "net.cellc", str(file))
    direct = compiled(tmp_path / "direct.cellc", f"{nets}:model", "-i", "x=float32[8,4]")
    np.testing.assert_array_equal(net(X), direct(X))
    assert main(["verify", str(file)]) == 0 and "all agrees" in capsys.readouterr().out
    assert main(["compile", str(file), "-i", "y=float32[8,4]", "-o", str(tmp_path / "x")]) == 2
    assert "net.cir takes x=float32[8,4]" in capsys.readouterr().err
    (tmp_path / "bad.cir").write_bytes(file.read_bytes()[:-3])
    for wrong in ("bad.cir", "none.cir"):
        assert main(["compile", str(tmp_path / wrong), "-o", str(tmp_path / "x")]) == 2
        assert wrong in capsys.readouterr().err


def test_a_portable_file_with_nested_inputs_and_draws(nets: Path, tmp_path: Path) -> None:
    _, pair = load_network(f"{nets}:Pair")
    ms.set_seed(1)
    inputs = (ms.Tensor(X), ms.Tensor(X * 2)), ms.Tensor(X)
    file = tmp_path / "pair.cir"
    ms.export(pair, *inputs, file_name=str(file), file_format="CIR")
    net = compiled(tmp_path / "pair.cellc", str(file))
    assert len(net.signature().inputs) == 3
    want = pair(*inputs)
    ms.set_seed(1)
    got = compiled(tmp_path / "again.cellc", str(file))(X, X * 2, X)
    kept = np.isclose(got[0], X * 2 + X - X * 2)
    assert kept.any() and not kept.all()
    np.testing.assert_array_equal(got[1], want[1].asnumpy())


@pytest.mark.parametrize("name", ["net.onnx", "net.cir"])
def test_compile_writes_no_other_format(
    name: str, nets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    assert main(["compile", f"{nets}:model", "-i", "x=float32[8,4]", "-o", str(out)]) == 2
    assert f"{out}: an artifact is written, whose name ends in .cellc; cellc export writes" \
        in capsys.readouterr().err
    assert not out.exists()


# --- networks in memory --------------------------------------------------------------------------


class Small(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 3)
        self.seen = ms.Parameter(np.zeros((), np.int32), name="seen", requires_grad=False)

    def step(self, x: Any) -> Any:
        ops.assign(self.seen, self.seen + 1)
        return self.dense(x)

    def construct(self, x: Any) -> Any:
        return self.dense(x)


def test_networks_in_memory(nets: Path, tmp_path: Path) -> None:
    _, model = load_network(f"{nets}:model")
    path = tmp_path / "model.cellc"
    report = ms.compile_artifact(path, {
        "prefill": (model.prefill, ms.Tensor(X)),
        "decode": (model.decode, "float32[1,4]", "int32[]"),
        "infer": (model, "float32[N,4]"), "twice": (lambda x: x * 2, X[0])})
    assert report.splitlines()[-1].startswith(f"wrote {path}: ")
    net = load(path)
    assert net.entries == ("prefill", "decode", "infer", "twice")
    talks(net, model)
    np.testing.assert_array_equal(net(X[:3]), model(ms.Tensor(X[:3])).asnumpy())
    np.testing.assert_array_equal(net.call("twice", X[1]), X[1] * 2)


def test_sizes_targets_and_graphs(tmp_path: Path) -> None:
    net = Small()
    path = str(tmp_path / "small.cellc")
    ms.compile_artifact(path, (net, ms.Tensor(shape=[None, 4], dtype=ms.float32)),
                        targets=["x86_64-avx2", "aarch64-neon"], graphs=False)
    loaded = cellc_runtime.load(path)
    assert loaded.targets() == ("x86_64-avx2", "aarch64-neon") and not loaded.has_graph()
    assert str(loaded.sizes()) == "x_0 any"
    ms.compile_artifact(path, {"infer": (net, "float32[N,S,4]"), "step": (net.step, X[:2])},
                        sizes={"S": [3, 2, 3]})
    loaded = load(path)
    assert str(loaded.sizes()) == "N any and S 2, 3"
    x = np.ones((5, 3, 4), np.float32)
    np.testing.assert_array_equal(loaded(x), net(ms.Tensor(x)).asnumpy())
    loaded.call("step", x[0, :2])
    assert int(loaded.weights["seen"]) == 1 and int(net.seen.asnumpy()) == 0


@pytest.mark.parametrize(("entries", "more", "kind", "said"), [
    ({"a b": (Small(), "float32[2,4]")}, {}, ValueError, "the name of an entry must be an ident"),
    ({"a": Small()}, {}, TypeError, "the entry 'a' must be a tuple of a Cell or function and its"),
    ({"a": ()}, {}, TypeError, "the entry 'a' must be a tuple"),
    ({"a": ("float32[2]",)}, {}, TypeError, "the entry 'a' must be a tuple"),
    ({"a": (Small(), "float31[2,4]")}, {}, ValueError, "float31"),
    ({"a": (Small(), "float32[2,4")}, {}, ValueError,
     "For 'compile_artifact', 'x=float32[2,4': expected a type such as float32"),
    ({"a": (Small(), "float32[2,5]")}, {}, Exception, "shape"),
    ({"a": (Small(), "float32[2,4]")}, {"targets": "z80"}, ValueError, "z80"),
    ({"a": (Small(), "float32[2,4]")}, {"sizes": {"N": [1]}}, ValueError,
     "'sizes' must be of open sizes (there are none), but got 'N'."),
    ({"a": (lambda x, k: x * k, "float32[N,4]", 3)}, {}, TypeError, "must be tensors or their ty"),
    ({"a": (Small(), ms.Tensor(shape=None, dtype=ms.float32))}, {}, ValueError,
     "the number of axes of 'x' must be known"),
])
def test_wrong_networks_in_memory(
    entries: Any, more: dict[str, Any], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=re.escape(said)):
        ms.compile_artifact(tmp_path / "x.cellc", entries, **more)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("change", "kind", "said"), [
    ({"path": None}, TypeError, "'path' must be a str or a pathlib.Path, but got None."),
    ({"path": b"x.cellc"}, TypeError, "'path' must be a str or a pathlib.Path, but got b'x.cel"),
    ({"targets": 3}, TypeError, "'targets' must be the name of a target, a list of names or None"),
    ({"targets": [3]}, ValueError, "unknown target 3"),
    ({"donate": ["x"]}, TypeError, "'donate' must be names of inputs by entry, as {'infer': ['c"),
    ({"donate": {"infer": 3}}, TypeError, "or None, but got {'infer': 3}."),
    ({"sizes": [3]}, TypeError, "'sizes' must be lists of ints by name or None, but got [3]."),
    ({"sizes": {"N": 3}}, TypeError, "'sizes' must be lists of ints by name or None, but got {"),
    ({"entries": {}}, ValueError, "'entries' must have at least one entry, but got none."),
])
def test_wrong_arguments_in_memory(
    change: dict[str, Any], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    given = {"path": tmp_path / "x.cellc", "entries": (Small(), "float32[N,4]"), **change}
    with pytest.raises(kind, match=re.escape(f"For 'compile_artifact', {said}"
                                             if said.startswith("'") else said)):
        ms.compile_artifact(**given)
    assert not [*tmp_path.iterdir()]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="its folder does not exist"):
        ms.compile_artifact(tmp_path / "no" / "x.cellc", (Small(), "float32[2,4]"))
    with pytest.raises(ValueError, match="cellc export writes ONNX"):
        ms.compile_artifact(tmp_path / "x.onnx", (Small(), "float32[2,4]"))


# --- artifacts that are compiled again -----------------------------------------------------------


@pytest.mark.parametrize("size", ["8", "N"])
def test_all_entries_are_compiled_again(
    size: str, nets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the cache that they share, and with what they write over."""
    first, second = tmp_path / "first.cellc", tmp_path / "second.cellc"
    spec = f"x=float32[{size},4]"
    assert main(["compile", f"{nets}:model", "--entry", "infer=construct", "--entry",
                 "fill=prefill", "--entry", "more=construct", "-i", spec, "--donate", "more.x",
                 "-o", str(first)]) == 0
    assert main(["compile", str(first), "-o", str(second)]) == 0
    old, new = (artifact.load(p, trust_native_code=True) for p in (first, second))
    assert new.entries == old.entries == ("infer", "fill", "more")
    assert {*new.weights} == {*old.weights} == {"w", "cache"}
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    for name in new.entries:
        assert new.signature(name) == old.signature(name)
        np.testing.assert_array_equal(new.call(name, x.copy()), old.call(name, x.copy()))
    np.testing.assert_array_equal(new.weights["cache"], old.weights["cache"])
    assert new.weights["cache"].any() and new.call("more", x) is x
    capsys.readouterr()
    third = tmp_path / "third.cellc"
    assert main(["compile", str(first), "-i", "x=float32[8,4]", "-o", str(third)]) == 0
    assert f"{first}: only 'infer' is compiled for these inputs, not fill, more" \
        in capsys.readouterr().out
    assert artifact.load(third).entries == ("infer",)
    assert main(["compile", f"{first}:fill", "-o", str(third)]) == 0
    assert "only" not in capsys.readouterr().out
    assert artifact.load(third, trust_native_code=True)(x).shape == (4,)


def test_entries_without_the_default_one_are_compiled_again(nets: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.cellc", tmp_path / "libsecond.so"
    assert main(["compile", f"{nets}:model", "--entry", "step=prefill", "-i", "x=float32[8,4]",
                 "-o", str(first)]) == 0
    assert main(["compile", str(first), "--shared", str(second)]) == 0
    assert "SECOND_STEP" in (tmp_path / "second.h").read_text()


# --- donated inputs ------------------------------------------------------------------------------


class Cached(nn.Cell):
    """A cache that is passed in and out."""

    def construct(self, token: Any, cache: Any, at: Any) -> Any:
        here = (ops.arange(4) == at).astype(ms.float32).reshape(4, 1)
        new = cache * (1 - here) + token * here
        return new.sum(0), new

    def swap(self, a: Any, b: Any) -> Any:
        return b + 1, a + b

    def checked(self, x: Any, y: Any) -> Any:
        if y.sum() > 100:
            raise ValueError("too much")
        return x + y


CACHED = (Cached(), "float32[8]", "float32[4,8]", "int32[]")


def test_a_donated_cache_grows_in_place(tmp_path: Path) -> None:
    path = tmp_path / "cached.cellc"
    ms.compile_artifact(path, CACHED, donate={"infer": ["cache"]})
    net, plain = load(path), tmp_path / "plain.cellc"
    ms.compile_artifact(plain, CACHED)
    other = load(plain)
    assert [t[1:] for t in net.signature().outputs] == [t[1:] for t in other.signature().outputs]
    program, = net.programs()
    assert len(program.of_kind("output")) == 1
    cache, want = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32)
    for at in range(4):
        token = np.full(8, at + 1.0, np.float32)
        total, given = net(token, cache, at)
        total_plain, want = other(token, want, at)
        assert given is cache
        np.testing.assert_array_equal(cache, want)
        np.testing.assert_array_equal(total, total_plain)
    total = np.empty(8, np.float32)
    assert net(token, cache=cache, at=0, out=[total, None])[0] is total
    _, fresh = net(token, cache.tolist(), 1)  # a list becomes an array of its own
    np.testing.assert_array_equal(fresh[1], token)
    with pytest.raises(ValueError, match=r"'out' must be an array .* got one for output 1, which"):
        net(token, cache, 0, out=[None, want])
    cache.flags.writeable = False
    with pytest.raises(ValueError, match="updated in place but the array is read-only"):
        net(token, cache, 0)
    with pytest.raises(ValueError, match="contiguous"):
        net(token, np.zeros((8, 4), np.float32).T, 0)


def test_a_donated_input_may_be_another_input_too(tmp_path: Path) -> None:
    """It is read before it is written."""
    net = Cached()
    path = tmp_path / "swap.cellc"
    ms.compile_artifact(path, {"swap": (net.swap, "float32[3]", "float32[3]")},
                        donate={"swap": ["b", "a"]})
    loaded = load(path)
    a, b = np.float32([1, 2, 3]), np.float32([10, 20, 30])
    first, second = loaded.call("swap", a, b)
    assert (first is b and second is a)
    np.testing.assert_array_equal(first, [11, 21, 31])
    np.testing.assert_array_equal(second, [11, 22, 33])
    with pytest.raises(ValueError, match="is updated and shares memory with another array"):
        loaded.call("swap", a, a)
    assert main(["verify", f"{path}:swap"]) == 0  # its graph is that of the function


class Holding(nn.Cell):
    """A cache inside, a cache that is passed, and another name for `self`."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ms.Parameter(np.zeros((2, 2), np.float32), name="cache", requires_grad=False)

    def fill(this, x: Any) -> Any:
        ops.assign(this.cache, x)
        return this.cache * 1

    def turn(this, given: Any, x: Any) -> Any:
        return given.T + x


def test_a_weight_is_not_donated(tmp_path: Path) -> None:
    net, path = Holding(), tmp_path / "holding.cellc"
    ms.compile_artifact(path, {"fill": (net.fill, "float32[2,2]"),
                               "turn": (net.turn, "float32[2,2]", "float32[2,2]")},
                        donate={"turn": "given"})
    loaded = load(path)
    assert [name for name, _, _ in loaded.signature("turn").inputs] == ["given", "x"]
    x = np.float32([[1, 2], [3, 4]])
    loaded.call("fill", x)
    cache = loaded.weights["cache"]
    for given in (cache, cache[:], cache.view(np.ndarray)):
        with pytest.raises(ValueError, match="For 'turn', 'given' is written over, so it must be in"
                                             " memory of its own, but got that of the weight 'cac"):
            loaded.call("turn", given, x)
    np.testing.assert_array_equal(loaded.weights["cache"], x)
    np.testing.assert_array_equal(loaded.call("turn", cache.copy(), x), x.T + x)


def test_a_call_that_fails_leaves_what_was_donated(tmp_path: Path) -> None:
    path = tmp_path / "checked.cellc"
    ms.compile_artifact(path, {"f": (Cached().checked, "float32[3]", "float32[3]")},
                        donate={"f": "x"})
    loaded = load(path)
    x = np.float32([1, 2, 3])
    with pytest.raises(ValueError, match="too much"):
        loaded.call("f", x, np.full(3, 50, np.float32))
    np.testing.assert_array_equal(x, [1, 2, 3])
    assert loaded.call("f", x, x.copy()) is x
    np.testing.assert_array_equal(x, [2, 4, 6])


def test_the_command_donates(nets: Path, tmp_path: Path) -> None:
    net = compiled(tmp_path / "m.cellc", f"{nets}:model", "-i", "x=float32[8,4]", "--donate", "x")
    x = X.copy()
    assert net(x) is x
    np.testing.assert_array_equal(x, compiled(tmp_path / "p.cellc", f"{nets}:model", "-i",
                                              "x=float32[8,4]")(X))


def test_donated_inputs_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "x.cellc"
    ms.compile_artifact(path, (lambda x: x * 2, "float32[N,4]"), donate={"infer": "x"})
    net = artifact.load(path, trust_native_code=True)
    for n in (1, 2, 9):
        x = np.ones((n, 4), np.float32)
        assert net(x) is x
        np.testing.assert_array_equal(x, np.full((n, 4), 2))


@pytest.mark.parametrize(("donate", "said"), [
    ({"infer": ["nothing"]}, "the entry 'infer' has no input 'nothing' to donate; it has token, c"),
    ({"decode": ["cache"]}, "inputs of the entry 'decode' cannot be donated: there is infer"),
    ({"infer": ["at"]}, "no result of the type int32[] that could be written over 'at'"),
])
def test_wrong_donations(donate: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        ms.compile_artifact(tmp_path / "x.cellc", CACHED, donate=donate)


@pytest.mark.parametrize("donated", [
    [[1, 0]], [[0, 1]], [[1, 1], [1, 1]], [[2, 1]], [[1, 3]], [[-1, 1]], [[1, True]], [], 3, [[1]],
    None,
])
def test_headers_that_lie_about_donations(donated: Any, tmp_path: Path) -> None:
    path = tmp_path / "cached.cellc"
    ms.compile_artifact(path, CACHED, donate={"infer": ["cache"]})
    box = unpack(path.read_bytes(), b"CELLCART", 2, "artifact")
    box.meta["entries"]["infer"]["donated"] = donated
    with pytest.raises(ArtifactError, match=r"malformed|is not what the header says|than the head"):
        load(b"".join(pack(b"CELLCART", 2, box.meta, [*box.sections.items()])))(
            np.zeros(8), np.zeros((4, 8)), 0)


def test_any_size_with_constants_and_a_size_that_fails(tmp_path: Path) -> None:
    """Each trace has tensors of its own for constants; a size for which the network fails is left
    out."""
    def last(x: Any) -> Any:
        return x[-1:] * ops.arange(4).astype(ms.float32), x * ms.Tensor([1.0, 2.0, 3.0, 4.0])

    report = ms.compile_artifact(tmp_path / "last.cellc", (last, "float32[N,4]"))
    assert "not served: N = 0: slice at" in report
    loaded = cellc_runtime.load(tmp_path / "last.cellc", trust_native_code=True)
    for n in (1, 2, 7):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        for a, b in zip(loaded(x), last(ms.Tensor(x)), strict=True):
            np.testing.assert_array_equal(a, b.asnumpy())
    with pytest.raises(ValueError, match=r"no program serves|must be at least"):
        loaded(np.zeros((0, 4), np.float32))
