"""Artifacts of networks in which sizes follow from elements: nothing is compiled per size found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc.cli import main
from cellc.cli.loading import load_network
from cellc.compiled import found_sizes as stages
from cellc.compiled import program_entry
from cellc_compiler.ir.dims import SymbolInfo, deciding, evaluate
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.loops.order import LONGEST_OPEN_ROW, open_scan_run, scan_run
from cellc_runtime import artifact, found_sizes
from cellc_runtime.errors import ArtifactError
from cellc_runtime.records import replace

from .test_open_programs import Served

NETWORKS = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Base(nn.Cell):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(0)
        self.w = ms.Parameter(rng.standard_normal((4, 3)).astype(np.float32), name="w")
        self.n = ms.Parameter(np.zeros((), np.int32), name="n")


class Nonzero(Base):
    def construct(self, x):
        return ops.nonzero(x > 0.5)


class Rows(Base):
    def construct(self, x):
        kept = x[x.sum(1) > 0]
        return ops.matmul(kept, self.w), ops.softmax(kept.sum(0), -1)


class Selected(Base):
    def construct(self, x):
        chosen = ops.masked_select(x, x > 0)
        return chosen * chosen.shape[0], chosen.mean()


class Unique(Base):
    def construct(self, x):
        return ops.unique(ops.relu(ops.round(x * 2)).astype(ms.int32))


class Twice(Base):
    """A mask of what a mask has left, and a number that calls keep."""

    def construct(self, x):
        kept = x[x[:, 0] > 0]
        kept = kept[ops.matmul(kept, self.w)[:, 0] > 0]
        self.n = self.n + kept.shape[0]
        return ops.matmul(kept, kept.T), self.n * 1


class Branch(Base):
    def construct(self, x):
        kept = x[x > 0]
        if kept.shape[0] > 6:
            return kept * 2
        if kept.shape[0] == 3:
            return kept - 1
        return kept + 1


class Chosen(Base):
    """What is found decides, and is no size of what follows."""

    def construct(self, x):
        return x * 2 if x[x > 0].shape[0] > 6 else x + 1


class Meet(Base):
    def construct(self, x):
        return x[x > 0] + x[x < 1]


class Number(Base):
    def construct(self, x):
        kept = x[x > 0]
        return kept * len(np.arange(kept.shape[0]))
'''


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("found") / "networks_that_find_sizes.py"
    file.write_text(NETWORKS)
    return file


def compiled(source: Path, name: str, spec: str, *options: str) -> artifact.Artifact:
    path = source.parent / f"{name}.cellc"
    assert main(["compile", f"{source}:{name}", "-i", f"x={spec}", "-o", str(path), *options]) == 0
    return artifact.load(path, trust_native_code=True)


SHIFTS = (0.0, 1.0, -1.0, -9.0, 9.0, -1.5, 0.5)
"""What is added to elements, so that none, one, some and all are found."""


def elements(shape: tuple[int, ...], shift: float) -> Any:
    return (np.random.default_rng(1).standard_normal(shape) + shift).astype(np.float32)


def same(source: Path, name: str, loaded: artifact.Artifact, shapes: Sequence[tuple[int, ...]]
         ) -> set[Any]:
    """The artifact gives what PyNative gives, to the bit; the first sizes of what it gave."""
    _, net = load_network(f"{source}:{name}")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    found = set()
    for shape in shapes:
        for shift in SHIFTS:
            x = elements(shape, shift)
            got, want = loaded(x), net(ms.Tensor(x))
            pairs = zip(got if isinstance(got, tuple) else [got],
                        want if isinstance(want, tuple) else [want], strict=True)
            for a, b in pairs:
                assert (a.shape, a.tobytes()) == (b.shape, b.asnumpy().tobytes()), (shape, shift)
            found.add((got[0] if isinstance(got, tuple) else got).shape[:1])
    return found


@pytest.mark.parametrize("name", ["Nonzero", "Rows", "Selected", "Unique", "Twice", "Branch"])
def test_fixed_inputs(name: str, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = compiled(source, name, "float32[7,4]")
    assert "finds sizes as it runs" in capsys.readouterr().out
    assert len(same(source, name, loaded, [(7, 4)])) > 2


@pytest.mark.parametrize("name", ["Nonzero", "Twice", "Branch"])
def test_any_number_of_rows(name: str, source: Path) -> None:
    """Of 400 rows the mask's running sum is cut into runs."""
    loaded = compiled(source, name, "float32[N,4]")
    assert len(same(source, name, loaded, [(n, 4) for n in (7, 1, 2, 400, 0)])) > 3


def test_the_runtime_alone_finds_sizes(source: Path) -> None:
    compiled(source, "Rows", "float32[N,4]")
    program = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cellc", "cellc_compiler", "llvmlite", "networkx", "ml_dtypes"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import numpy as np
import cellc_runtime
net = cellc_runtime.load({str(source.parent / "Rows.cellc")!r}, trust_native_code=True)
x = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
want = [(int((x[:n].sum(1) > 0).sum()), 3) for n in range(1, 300)]
print([net(x[:n])[0].shape == want[n - 1] for n in range(1, 300)].count(True))
print(net.sizes(), net)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] in ("298", "299")  # (a sum near 0 may be rounded otherwise)
    assert "out0: float32[found_a_bool_index, 3]" in done.stdout


@pytest.mark.parametrize("command", [
    ["verify"], ["verify", "--sizes", "N=1,2,9"], ["inspect", "-o", "page.html"], ["dump"],
    ["profile", "--runs", "1"], ["run", "-i", "x=float32[9,4]"], ["check"],
])
def test_commands(
    command: list[str], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = source.parent / "commands.cellc"  # (other tests compile it for other sizes)
    if not path.exists():
        assert main(["compile", f"{source}:Rows", "-i", "x=float32[N,4]", "-o", str(path)]) == 0
    monkeypatch.chdir(tmp_path)
    assert main([command[0], str(path), *command[1:]]) == 0, capsys.readouterr()
    if command[0] == "verify":
        said = capsys.readouterr().out
        assert "are those of the graph, to the bit" in said and "not compared" not in said


def test_every_node_is_compared(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", f"{source}:Twice", "-i", "x=float32[7,4]"]) == 0
    assert "not compared" not in capsys.readouterr().out


def test_what_fails_is_said(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = compiled(source, "Meet", "float32[7,4]")
    assert "not served unless found_a_bool_index == found_a_bool_index_2: " in \
        capsys.readouterr().out
    inside = np.full((7, 4), 0.25, np.float32)
    np.testing.assert_array_equal(loaded(inside), (inside + inside).ravel())
    inside[0, 0] = 2
    with pytest.raises(ValueError, match=r"found_a_bool_index == found_a_bool_index_2 \(.*\) is "
                                         r"needed, but found_a_bool_index = 28, the number that "
                                         r"'a bool index' found at .*:\d+; .*_2 = 27, "):
        loaded(inside)


REFUSED: list[tuple[str, list[str], str]] = [
    ("Number", [], r"kept = x\[x > 0\]\n +\^{8}\nthe network needs the number that is found here"),
    ("Rows", ["--donate", "x"], "finds sizes as it runs, in several programs"),
    ("Rows", ["--target", "cuda-sm_90a"], "sm_90a has programs of known sizes only"),
]


@pytest.mark.parametrize(("name", "options", "words"), REFUSED)
def test_refusals(
    name: str, options: list[str], words: str, source: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "a.cellc"
    assert main(["compile", f"{source}:{name}", "-i", "x=float32[7,4]", "-o", str(out),
                 *options]) == 2
    assert re.search(words, capsys.readouterr().err), words
    assert not out.exists()


def test_a_c_library_finds_none(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", f"{source}:Rows", "-i", "x=float32[7,4]", "--shared",
                 str(tmp_path / "a.so")]) == 2
    assert re.search(r"\^+\na size follows from elements; a C library cannot find it out",
                     capsys.readouterr().err)


def test_results_are_new_arrays(source: Path) -> None:
    loaded = compiled(source, "Nonzero", "float32[7,4]")
    with pytest.raises(TypeError, match="'out' cannot be given: the call finds the sizes"):
        loaded(elements((7, 4), 0.0), out=np.zeros((3, 2), np.int64))


# --- planted faults -------------------------------------------------------------------------------


def changed(loaded: artifact.Artifact, **changes: Any) -> None:
    """Plant a fault in all ways of the entry."""
    entry = loaded._entries["infer"]
    ways = tuple(tuple(replace(w, **changes) for w in of) for of in entry.ways)
    loaded._entries = {"infer": replace(entry, ways=ways)}


def test_a_condition_that_is_missing_is_found(source: Path) -> None:
    loaded = compiled(source, "Chosen", "float32[7,4]")
    same(source, "Chosen", loaded, [(7, 4)])
    loaded = loaded.session()
    changed(loaded, guards=())
    with pytest.raises(AssertionError, match=r"\(7, 4\)"):
        same(source, "Chosen", loaded, [(7, 4)])


def test_a_size_that_is_read_from_another_result_is_found(source: Path) -> None:
    loaded = compiled(source, "Twice", "float32[7,4]")
    way = loaded._entries["infer"].ways[0][0]
    first, second, last = way.stages
    size, = second.found
    wrong = replace(second, feeds=(0, *second.feeds[1:]), found=(replace(size, result=0),))
    changed(loaded, stages=(first, wrong, last))
    with pytest.raises((AssertionError, TypeError, ValueError), match=r"\w"):
        same(source, "Twice", loaded, [(7, 4)])


DAMAGES: list[Callable[[Any], object]] = [
    lambda w: w[0].clear(), lambda w: w[0][0].pop(), lambda w: w[0][0][0].append(9),
    lambda w: w[0][0][2].append("nobody"), lambda w: w[0][0][3][0].__setitem__(1, 99),
    lambda w: w[0][0][3][0].__setitem__(0, "no name"), lambda w: w[0][1][4].clear(),
    lambda w: w[0][1][4][0].append(1), lambda w: w[1].append([">>", 0, ""]),
    lambda w: w[1].append([">=", ["sum", [1, "nobody"]], ""]), lambda w: w.__setitem__(2, -1),
    lambda w: w[0][1][3].append(["n", 0, ""]),
]


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_damaged_stages(number: int, source: Path) -> None:
    path = source.parent / "Nonzero.cellc"
    loaded = artifact.load(path) if path.exists() else compiled(source, "Nonzero", "float32[7,4]")
    data = json.loads(json.dumps([[found_sizes.to_json(w) for w in loaded.ways("infer", v)]
                                  for v in range(len(loaded.sizes().variants))]))
    symbols = loaded.sizes().symbols
    assert found_sizes.from_json(data, len(data), 1, symbols) == loaded._entries["infer"].ways
    DAMAGES[number](data[0][0])
    with pytest.raises(ArtifactError, match="malformed"):
        found_sizes.from_json(data, len(data), 1, symbols)


# --- graph mode -----------------------------------------------------------------------------------


def test_nothing_is_compiled_for_a_size_that_is_found(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sizes and all of at least 2; then those with 0 and 1."""
    _, net = load_network(f"{source}:Rows")
    ms.set_context(mode=ms.GRAPH_MODE)
    made: list[str] = []
    for module, name in ((program_entry, "compile_program"), (stages, "compile_stage")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=original, **k: made.append("") or f(*a, **k))
    for n in range(3, 40):
        net(ms.Tensor(elements((n, 4), 0.5)))
        if n == 12:
            before = len(made)
    assert before > 2 and len(made) == before


def test_runs_of_a_running_sum_by_a_formula() -> None:
    shapes = Shapes(general=True)
    with deciding(shapes):
        run = open_scan_run(shapes.new("n", 70, SymbolInfo(2)))  # type: ignore[arg-type]
    edges = [2**bits + d for bits in range(1, LONGEST_OPEN_ROW.bit_length() - 1)
             for d in (-1, 0, 1)]
    for n in (*range(2, 300), *(e for e in edges if e >= 2)):
        assert evaluate(run, {"n": n}) == scan_run(n), n


@pytest.mark.parametrize("shape", [(2, 3), (1023, 2), (3, 1024), (1025, 3), (20_000, 2)])
def test_running_sums_have_the_bits_of_known_sizes(shape: tuple[int, ...]) -> None:
    made = Served(lambda x: (ops.cumsum(x, 0), ops.cumsum(x, 1)), [elements((9, 7), 0.0)],
                  {0: (None, None)})
    assert made.same([elements(shape, 0.0)])
