"""Artifacts for open sizes: which sizes they serve, by which programs, and the bits."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import nn
from cellc.cli import main
from cellc.cli.errors import UserError
from cellc.cli.loading import load_network
from cellc.cli.open_sizes import (
    _given_up,
    _overlap,
    _solved,
    _without,
    listed_sizes,
    sizes_to_try,
)
from cellc_compiler.ir.dims import Undecided
from cellc_runtime import artifact
from cellc_runtime.errors import ArtifactError
from cellc_runtime.variants import ANY, OpenSizes, Variant, runs

NETWORKS = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Base(nn.Cell):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(0)
        self.c = ms.Parameter(rng.standard_normal((1, 1, 8)).astype(np.float32), name="c")
        self.w = ms.Parameter(rng.standard_normal((8, 24)).astype(np.float32), name="w")
        self.p = ms.Parameter(rng.standard_normal((64, 8)).astype(np.float32), name="p")

    def mix(self, h):
        q, k, v = ops.split(ops.matmul(h, self.w), 8, -1)
        return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(1, 2)) / 3.0, -1), v)


class Tile(Base):
    def construct(self, x):
        return self.mix(ops.cat((ops.tile(self.c, (x.shape[0], 1, 1)), x), 1))


class Broadcast(Base):
    def construct(self, x):
        return self.mix(ops.cat((ops.broadcast_to(self.c, (x.shape[0], -1, -1)), x), 1))


class Asks(Base):
    def construct(self, x):
        y = self.mix(x)
        if x.shape[0] == 1:
            return y * 3.0
        if x.shape[0] > 10 and x.shape[0] != 17:
            return y + x
        return y


class Sequence(Base):
    def construct(self, x):
        h = x + self.p[: x.shape[1]]
        if x.shape[1] % 2 == 0:
            h = h * 0.5
        return self.mix(h).mean(1), h


class Raises(Base):
    def construct(self, x):
        if x.shape[0] > 6:
            raise ValueError(f"at most 6 rows, got {x.shape[0]}")
        return self.mix(x)


class Mixes(Base):
    def construct(self, x):
        return self.mix(x - x.mean(0))


class Number(Base):
    def construct(self, x):
        return self.mix(x) * ops.full((3,), len(np.arange(x.shape[0]))).sum()


class Multiple(Base):
    def construct(self, x):
        return self.mix(x) if x.shape[0] % 4 == 0 else x


class Table(Base):
    def construct(self, x):
        return x[:, 0] + self.p[: x.shape[0]]


class Halves(nn.Cell):
    def __init__(self):
        super().__init__()
        ms.set_seed(3)
        self.first, self.pool = nn.Conv2d(3, 16, 3, stride=2), nn.MaxPool2d(3, 2, pad_mode="same")
        self.last = nn.Conv2d(16, 16, 3, pad_mode="same", dilation=2)

    def construct(self, x):
        return self.last(self.pool(ops.relu(self.first(x))))


class Longer(nn.Cell):
    def construct(self, x):
        if x.shape[1] > x.shape[0]:
            return x.sum(1)
        return ops.chunk(x, 3, 1)[0].mean(1)


class Fours(nn.Cell):
    def construct(self, x):
        if x.shape[0] % 4 != 0:
            raise ValueError(f"rows must be a multiple of 4, got {x.shape[0]}")
        return x.reshape(4, -1, 8).sum(0)


class Broken(Base):
    def construct(self, x):
        return self.mix(x)[:, :, :, 0]


class Pyramid(Base):
    """Steps of 2 of the default padding, and an image resized to another one's size."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(0)
        self.a, self.b = (
            nn.Conv2d(c, 8, 3, stride=2, weight_init=ms.Tensor(
                rng.standard_normal((8, c, 3, 3)).astype(np.float32))) for c in (3, 8))

    def construct(self, x):
        a = ops.relu(self.a(x))
        deep = ops.relu(self.b(a))
        a = a + ops.interpolate(deep, size=a.shape[2:], mode="bilinear", align_corners=False)
        return a, ops.adaptive_avg_pool2d(a, 1)


class Parts(Base):
    """Parts of half the length: two of an even one."""

    def construct(self, x):
        return ops.split(x, x.shape[1] // 2, 1)[0].mean(1)


class Deep(nn.Cell):
    """Gradients that add up the rows of the batch."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(0)
        self.a, self.b, self.c = (
            ms.Parameter(rng.standard_normal((16, n)).astype(np.float32), name=f"w{i}")
            for i, n in enumerate((64, 16, 4)))
        self.bias = [ms.Parameter(np.zeros(n, np.float32), name=f"b{n}") for n in (64, 4)]

    def construct(self, x):
        x = x + ops.matmul(ops.gelu(ops.matmul(x, self.a) + self.bias[0])[:, :16], self.b)
        out = ops.matmul(x, self.c) + self.bias[1]
        return ops.cross_entropy(out, ops.arange(x.shape[0]).astype(ms.int32) % 4)


def sgd(net):
    return nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.001, 0.9))


class Step(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.opt = nn.Adam(net.trainable_params(), 0.1)
        self.grad = ms.value_and_grad(self.loss, None, net.trainable_params())

    def loss(self, x):
        return ops.square(self.net(x)).mean()

    def construct(self, x):
        loss, grads = self.grad(x)
        self.opt(grads)
        return loss


def step(net):
    return Step(net)
'''


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("open") / "networks_of_open_sizes.py"
    file.write_text(NETWORKS)
    return file


def compiled(source: Path, name: str, spec: str, *options: str) -> artifact.Artifact:
    """An artifact of a network, made by the command line."""
    path = source.parent / f"{name}.cellc"
    assert main(["compile", f"{source}:{name}", "-i", f"x={spec}", "-o", str(path), *options]) == 0
    return artifact.load(path, trust_native_code=True)


def same(source: Path, name: str, loaded: artifact.Artifact, shapes: Sequence[tuple[int, ...]]
         ) -> None:
    """The artifact gives what the network gives in both modes, to the bit."""
    _, net = load_network(f"{source}:{name}")
    for shape in shapes:
        x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
        got = loaded(x)
        for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
            ms.set_context(mode=mode)
            want = net(ms.Tensor(x))
            for a, b in zip(got if isinstance(got, tuple) else [got],
                            want if isinstance(want, tuple) else [want], strict=True):
                np.testing.assert_array_equal(a, b.asnumpy())


@pytest.mark.parametrize("name", ["Tile", "Broadcast"])
def test_class_tokens(name: str, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = compiled(source, name, "float32[N,5,8]")
    assert "serves N any\n" in capsys.readouterr().out
    same(source, name, loaded, [(n, 5, 8) for n in (1, 2, 3, 9, 40)])
    assert loaded(np.zeros((0, 5, 8), np.float32)).shape == (0, 6, 8)


def test_questions_about_the_batch_make_variants(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = compiled(source, "Asks", "float32[N,5,8]")
    assert "serves N any" in capsys.readouterr().out
    ranges = [v.ranges for v in loaded.sizes().variants]
    assert sorted(r for rs in ranges for r in rs) == [
        (1, 1), (2, 10), (11, 16), (17, 17), (18, ANY)]
    same(source, "Asks", loaded, [(n, 5, 8) for n in (1, 2, 5, 10, 11, 16, 17, 18, 33, 70)])


def test_a_sequence_of_listed_lengths(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = compiled(source, "Sequence", "float32[N,S,8]", "--sizes", "S=4,7..9,64")
    out = capsys.readouterr().out
    assert "serves N any and S 4, 7..9, 64\n  20 programs" in out
    assert re.search(r"[1-9][0-9]* KiB of code", out)
    same(source, "Sequence", loaded, [(n, s, 8) for n in (1, 3, 33) for s in (4, 7, 8, 9, 64)])
    x = np.zeros((3, 5, 8), np.float32)
    with pytest.raises(ValueError, match=r"For 'infer', no program serves N = 3, S = 5; served: "
                                         r"N any and S 4, 7\.\.9, 64"):
        loaded(x)
    with pytest.raises(ValueError, match=re.escape("'x' must be float32[N, S, 8], but got ")):
        loaded(x[..., :7])
    with pytest.raises(TypeError, match="but 'x' is missing"):
        loaded()
    assert loaded.signature().inputs == (("x", "float32", (-1, -1, 8)),)
    assert loaded.signature().outputs[0][2] == (-1, 8)


def test_an_output_has_the_name_of_a_listed_size(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = compiled(source, "Sequence", "float32[2,S,8]", "--sizes", "S=4,7")
    assert "out0: float32[2, 8], out1: float32[2, S, 8]" in repr(loaded)
    capsys.readouterr()


def test_the_runtime_alone_serves_open_sizes(source: Path, tmp_path: Path) -> None:
    compiled(source, "Sequence", "float32[N,S,8]", "--sizes", "S=4,5")
    program = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cellc", "cellc_compiler", "llvmlite", "networkx", "ml_dtypes"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import numpy as np
import cellc_runtime
net = cellc_runtime.load({str(source.parent / "Sequence.cellc")!r}, trust_native_code=True)
print([net(np.ones((n, s, 8), np.float32))[0].shape for n, s in ((1, 4), (9, 5))])
net.save({str(tmp_path / "again.cellc")!r})
print(net.sizes(), len(net.graph_text()) > 100)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(1, 8), (9, 8)]\nN any and S 4, 5 True\n"


def test_a_batch_of_listed_sizes(source: Path) -> None:
    loaded = compiled(source, "Mixes", "float32[N,5,8]", "--sizes", "N=1,3..4", "--train", "step")
    same(source, "Mixes", loaded, [(n, 5, 8) for n in (1, 3, 4)])
    with pytest.raises(ValueError, match=r"no program serves N = 2; served: N 1, 3, 4"):
        loaded(np.zeros((2, 5, 8), np.float32))
    losses = [float(loaded.call("train", np.ones((n, 5, 8), np.float32))) for n in (3, 1, 3, 4)]
    assert len(set(losses)) == 1  # rows that are all equal less their mean: no gradient


def test_what_fails_is_left_out_and_said(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = compiled(source, "Raises", "float32[N,5,8]")
    out = capsys.readouterr().out
    assert "N <= 6" in out and "not served: N 7 or more: at most 6 rows, got N" in out
    same(source, "Raises", loaded, [(n, 5, 8) for n in (1, 4, 6)])
    with pytest.raises(ValueError, match=r"N = 7 must be from 2 to 6\.$"):
        loaded(np.zeros((7, 5, 8), np.float32))


REFUSED = [
    ("Number", "float32[N,5,8]", (), r"needs it as a number \(.*\); list the sizes"),
    ("Broken", "float32[N,5,8]", (), "too many|index"),
    ("Tile", "float32[N,5,8]", ("--sizes", "M=3"), "no input has a size M; open sizes: N"),
    ("Tile", "float32[2,5,8]", ("--sizes", "N=3"), "open sizes: none"),
    ("Tile", "float32[N,5,8]", ("--sizes", "N=0..3"), "ascending values of at least 1"),
    ("Tile", "float32[N,5,8]", ("--sizes", "N=1..99999"), "at most 4096"),
    ("Tile", "float32[N,S,8]", ("--sizes", "N=1..99", "--sizes", "S=1..99"), "9801 choices"),
    ("Tile", "float32[N,5,8]", ("--sizes", "N"), "expected NAME=16,32"),
    ("Tile", "float32[N,5,8]", ("--sizes", "N=1", "--sizes", "N=2"), "given twice"),
    ("Sequence", "float32[N,S,8]", ("--sizes", "S=4,65"), "S is 65 in this call"),
]


@pytest.mark.parametrize(("name", "spec", "shapes"), [
    ("Mixes", "float32[N,5,8]", [(n, 5, 8) for n in (0, 1, 2, 9, 300)]),
    ("Table", "float32[N,5,8]", [(n, 5, 8) for n in (1, 2, 5)]),
    ("Tile", "float32[N,S,8]", [(1, 1, 8), (1, 9, 8), (7, 1, 8), (3, 70, 8)]),
    ("Tile", "float32[5,S,8]", [(5, n, 8) for n in (1, 2, 64)]),
])
def test_any_sizes(name: str, spec: str, shapes: list[tuple[int, ...]], source: Path) -> None:
    """Networks that mix rows, and axes behind the first one."""
    same(source, name, compiled(source, name, spec), shapes)


def test_images_of_any_size(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Odd ones, and those that are smaller than a tile of a convolution."""
    loaded = compiled(source, "Halves", "float32[N,3,H,W]")
    assert "not served" not in capsys.readouterr().out
    same(source, "Halves", loaded, [
        (n, 3, h, w) for n, h, w in ((2, 64, 80), (1, 33, 47), (3, 2, 2), (2, 3, 90), (5, 21, 4),
                                     (1, 1, 9), (2, 1, 1))])


def test_padding_that_follows_from_the_size(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = compiled(source, "Pyramid", "float32[N,3,H,W]")
    assert "not served" not in capsys.readouterr().out
    same(source, "Pyramid", loaded, [
        (n, 3, h, w) for n, h, w in ((8, 64, 80), (8, 13, 8), (8, 8, 13), (1, 6, 20), (2, 33, 47),
                                     (3, 2, 2), (8, 33, 1), (1, 1, 9))])


def test_another_kind_of_result_names_the_sizes(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = compiled(source, "Parts", "float32[N,S,8]")
    assert "not served: :" not in capsys.readouterr().out
    same(source, "Parts", loaded, [
        (n, s, 8) for n, s in ((2, 6), (5, 7), (3, 64), (1, 20), (4, 9))])


def test_a_step_that_adds_up_rows(source: Path) -> None:
    loaded = compiled(source, "Deep", "float32[N,16]", "--train", "sgd")
    batches = [np.random.default_rng(n).standard_normal((n, 16)).astype(np.float32)
               for n in (2, 37, 300, 1, 4097)]
    got = [loaded.call("train", x) for x in batches]
    ms.set_context(mode=ms.PYNATIVE_MODE)
    _, net = load_network(f"{source}:Deep")
    step = nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.001, 0.9))
    assert [np.asarray(a).tobytes() for a in got] == [
        step(ms.Tensor(x)).asnumpy().tobytes() for x in batches]


def test_few_programs_for_very_large_sizes() -> None:
    """Sums over so many rows may have one order for few numbers of rows each: those below are
    served."""
    assert not _given_up(4, [(300, ANY)], {}) and not _given_up(3, [(1 << 20, ANY)], {})
    assert "so large a size" in _given_up(4, [(1 << 20, ANY)], {})
    assert "asks too much" in _given_up(17, [(300, ANY)], {"N": 1})
    with pytest.raises(Undecided, match="asks too much"):
        _given_up(17, [(300, ANY)], {})


def test_questions_about_several_sizes_make_programs(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = compiled(source, "Longer", "float32[N,S,8]")
    assert "where N >= 2, S >= 2" in capsys.readouterr().out  # (not what one program asks)
    same(source, "Longer", loaded, [(n, s, 8) for n, s in (
        (2, 9), (9, 4), (7, 7), (5, 4), (1, 3), (3, 1), (30, 29), (29, 30))])


def test_a_relation_is_told(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = compiled(source, "Fours", "float32[N,8]")
    assert "rows must be a multiple of 4" in capsys.readouterr().out
    same(source, "Fours", loaded, [(n, 8) for n in (8, 12, 40)])
    with pytest.raises(ValueError, match=r"N % 4 == 0 is needed, but N = 9"):
        loaded(np.zeros((9, 8), np.float32))


def test_no_elements_along_one_of_several_sizes(source: Path) -> None:
    loaded = compiled(source, "Tile", "float32[N,S,8]")
    with pytest.raises(ValueError, match=r"S = 0 must be at least 1\.$"):
        loaded(np.zeros((3, 0, 8), np.float32))


def test_a_reason_is_told_once(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What fails for W = 1 fails for N = 1 and W = 1, too."""
    (source.parent / "pooled.py").write_text(
        "from cellc import nn\nclass Pooled(nn.Cell):\n    def __init__(self):\n"
        "        super().__init__()\n        self.pool = nn.MaxPool2d(2, 2)\n"
        "    def construct(self, x):\n        return self.pool(x)\n")
    assert main(["compile", f"{source.parent / 'pooled.py'}:Pooled", "-i", "x=float32[N,3,8,W]",
                 "-o", str(source.parent / "pooled.cellc")]) == 0
    assert capsys.readouterr().out.count("not served") == 1


def test_a_training_step_of_any_batch(source: Path) -> None:
    loaded = compiled(source, "Mixes", "float32[N,5,8]", "--train", "step")
    losses = [float(loaded.call("train", np.ones((n, 5, 8), np.float32))) for n in (3, 1, 40, 2)]
    assert len(set(losses)) == 1  # rows that are all equal less their mean: no gradient


@pytest.mark.parametrize(("name", "spec", "options", "words"), REFUSED)
def test_refusals_name_no_number_that_nobody_wrote(
    name: str, spec: str, options: tuple[str, ...], words: str, source: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "a.cellc"
    assert main(["compile", f"{source}:{name}", "-i", f"x={spec}", "-o", str(out), *options]) == 2
    said = capsys.readouterr().err
    assert re.search(words, said, re.S), said
    assert not out.exists()
    assert "100" not in _without_folders(said, source.parent, tmp_path)


@pytest.mark.parametrize("name", ["Asks", "Number", "Multiple", "Broken", "Raises", "Table"])
def test_an_export_names_no_number_that_nobody_wrote(
    name: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", f"{source}:{name}", "-i", "x=float32[N,5,8]", "-o",
                 str(tmp_path / "a.onnx")]) in (0, 2)
    said = capsys.readouterr()
    assert "100" not in _without_folders(said.err + said.out, source.parent, tmp_path)


def _without_folders(said: str, *folders: Path) -> str:
    """A text without names of folders, which pytest numbers."""
    for folder in folders:
        said = said.replace(str(folder), "")
    return said


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["==", "!=", ">="]), st.integers(-4, 4).filter(bool), st.integers(-40, 40))
def test_comparisons_are_solved(relation: str, factor: int, shift: int) -> None:
    def served(n: int) -> bool:
        return any(a <= n and (z == ANY or n <= z) for a, z in _solved(relation, factor, shift))

    for n in range(1, 60):
        value = factor * n + shift
        assert served(n) == {"==": value == 0, "!=": value != 0, ">=": value >= 0}[relation]


RANGES = st.tuples(st.integers(1, 12), st.integers(0, 12), st.booleans()).map(
    lambda t: (t[0], ANY if t[2] else t[0] + t[1]))


@settings(max_examples=300, deadline=None)
@given(RANGES, st.lists(RANGES, max_size=3))
def test_ranges_are_taken_apart(whole: tuple[int, int], parts: list[tuple[int, int]]) -> None:
    def has(r: tuple[int, int], n: int) -> bool:
        return r[0] <= n and (r[1] == ANY or n <= r[1])

    left = _without(whole, parts)
    for n in range(1, 40):
        assert any(has(r, n) for r in left) == (has(whole, n) and not any(has(p, n) for p in parts))
        for p in parts:
            both = _overlap(whole, p)
            assert (both is not None and has(both, n)) == (has(whole, n) and has(p, n))


def test_sizes_to_try() -> None:
    """Small ones and large ones, even and odd, those near the usual ones first; not too many."""
    for names in (("N",), ("N", "S"), ("N", "H", "W"), ("N", "C", "H", "W")):
        found = sizes_to_try(names, dict.fromkeys(names, 64))
        assert all(set(at) == set(names) and min(at.values()) >= 2 for at in found)
        assert len(found) <= 1500 and dict.fromkeys(names, 2) in found
        assert {n % 2 for at in found for n in at.values()} == {0, 1}
        assert min(found[0].values()) >= 33 and min(found[-1].values()) < 33


def test_listed_sizes() -> None:
    assert listed_sizes(["S=16,32,64..66", "N=8..32:8"]) == {
        "S": [16, 32, 64, 65, 66], "N": [8, 16, 24, 32]}
    assert runs([1, 2, 5, 6, 7, 9]) == "1, 2, 5..7, 9"
    with pytest.raises(UserError, match="--sizes 'S=a': expected NAME=16,32"):
        listed_sizes(["S=a"])


INPUTS = [("x", "float32", (-1, -1, 8))]


@pytest.mark.parametrize("data", [
    None, [], [1, 2, 3], [["N"], [], []],
    [["N", "N"], [[0, 0, 0], [0, 1, 1]], [[[1, 1], [], [], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], []],
    [["N", "S"], [[0, 0, 0]], [[[1, 1], [], [], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 2, 1]], [[[1, 1], [], [], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 7]], [[[1, 1], [], [], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[1], [], [], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, -1], [[1, -1]], [1], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 4], [[1, -1]], [], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 4], [], [1], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 4], [[1, -1]], [2, 1], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 4], [[1, -1]], [2], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 4], [[3, 2]], [1], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[4, -1], [[1, -1]], [1], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 4], [[1, -1]], [1], 0], [[3, 4], [], [], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 1 << 60], [[1, -1]], [1], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, True], [[1, -1]], [1], 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[-1, 4], [[1, -1]], list(range(1, 99)), 0]]],
    [["N", "S"], [[0, 0, 0], [0, 1, 1]], [[[1, 1], [], [], 0]] * 5000],
    [["N " * 99, "S"], [[0, 0, 0], [0, 1, 1]], [[[1, 1], [], [], 0]]],
])
def test_damaged_sizes_are_refused(data: object) -> None:
    with pytest.raises(ArtifactError, match="malformed"):
        OpenSizes.from_json(data, INPUTS)


def test_sizes_as_data() -> None:
    sizes = OpenSizes(("N", "S"), ((0, 0, 0), (0, 1, 1)), (
        Variant((ANY, 4), ((1, 6), (8, ANY)), (1, 2, 8)), Variant((ANY, 5), ((1, ANY),), (1, 2))))
    assert OpenSizes.from_json(sizes.to_json(), INPUTS) == sizes
    assert str(sizes) == "N 1..6, 8 or more and S 4; or N any and S 5"
    assert [sizes.find(s) for s in ((6, 4), (900, 4), (0, 4), (7, 5))] == [0, 0, 0, 1]
    with pytest.raises(ValueError, match=r"no program serves N = 7, S = 4; served: N 1\.\.6"):
        sizes.find((7, 4))
    two = OpenSizes(("N",), ((0, 0, 0), (1, 0, 0)), (Variant((ANY,), ((1, ANY),), (1, 2)),))
    with pytest.raises(ValueError, match="one size N: axis 0 of 'x' is 3, axis 0 of 'y' is 4"):
        two.bind([("x", "float32", (-1,)), ("y", "float32", (-1,))], [(3,), (4,)])
