"""`cellc verify`: inputs, options, exit status and files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import cellc as ms
from cellc import cli, ops
from cellc.cli.loading import InputType, UserError, parse_input, sample_inputs
from cellc.compiled.traced import trace
from cellc.verification.inputs import index_ranges
from cellc_runtime import dtypes

NETWORK = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 2)

    def construct(self, x):
        return ops.tanh(self.fc(x))


class Words(nn.Cell):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 4)

    def construct(self, ids):
        return self.table(ids.reshape((-1,))).sum(0)


def train_step(net):
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), nn.SGD(net.trainable_params()))
    return step.set_train()


def no_number(x):
    return ops.log(x - x - 1)


def asks_python(x):
    return ops.py_func(lambda a: a, x, out_shape=(2, 3), out_dtype=ms.float32) + 1


def shows(x):
    print("shown", x.sum())
    return x
'''
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], loaded_files: None) -> Run:
    """Run `cellc verify` on a network of the file: exit status, and what it says."""
    (folder / "net.py").write_text(NETWORK)

    def call(name: str, *args: str) -> tuple[int, str]:
        code = cli.main(["verify", f"net.py:{name}", *args])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return call


def test_all_agrees(run: Run) -> None:
    code, text = run("Net", "-i", "x=float32[2,3]", "--grad", "--train", "train_step",
                     "--train-input", "x=float32[2,3]", "--train-input", "label=int32[2]")
    assert code == 0 and text.endswith("all agrees\n")
    for line in ("forward: PyNative and compiled agree to the bit: 3 calls, 1 output",
                 "nodes agree: graph and eager to the bit", "gradient: ", "train: ",
                 "agree with difference quotients", "nearest to its tolerance: "):
        assert line in text


@pytest.mark.parametrize(("name", "status", "text"), [
    ("no_number", 1, "log (top)"), ("asks_python", 2, "not all could be compared"),
    ("shows", 0, "1 printed text"),
])
def test_exit_status(name: str, status: int, text: str, run: Run) -> None:
    code, said = run(name, "-i", "x=float32[2,3]")
    assert (code, text in said) == (status, True), said
    assert "shown" not in said  # what it prints is compared, not shown


def test_json_and_junit(run: Run, folder: Path) -> None:
    code, text = run("no_number", "-i", "x=float32[2,3]", "--json", "--junit", "r.xml")
    data = json.loads(text)
    assert code == data["status"] == 1 and data["findings"][0]["kind"] == "nonfinite"
    assert ElementTree.parse(folder / "r.xml").getroot().get("failures") == \
        str(len(data["findings"]))
    code, text = run("Net", "-i", "x=float32[2,3]", "--json", "r.json", "--no-reference")
    assert code == 0 and "all agrees" in text
    assert json.loads((folder / "r.json").read_text())["worst"] is None
    assert run("Net", "-i", "x=float32[2,3]", "--json", "no/r.json")[0] == 2


@pytest.mark.parametrize(("option", "count"), [("3", 3), ("4,9", 2)])
def test_seeds(option: str, count: int, run: Run) -> None:
    code, text = run("Net", "-i", "x=float32[2,3]", "--seeds", option)
    assert code == 0 and f"{count} outputs" in text
    code, text = run("no_number", "-i", "x=float32[2,3]", "--seeds", option)
    assert code == 1 and text.count("forward: output: it holds") == count and "seed " in text


def test_a_run_can_be_repeated(run: Run) -> None:
    first, again, other = (run("Net", "-i", "x=float32[2,3]", "--seed", s) for s in "334")
    assert first == again and first[0] == other[0] == 0


@pytest.mark.parametrize(("args", "text"), [
    (("--seeds", "x"), "--seeds x: expected how many"),
    (("--seeds", "1", "--seed", "1"), "exclude each other"),
    (("--train", "nope"), "no function 'nope'"),
])
def test_wrong_usage(args: tuple[str, ...], text: str, run: Run) -> None:
    code, said = run("Net", "-i", "x=float32[2,3]", *args)
    assert code == 2 and text in said


# --- inputs ---------------------------------------------------------------------------------------


def test_integers_are_such_as_the_network_looks_up(run: Run, folder: Path) -> None:
    code, text = run("Words", "-i", "ids=int32[8,16]", "--grad")
    assert code == 0, text
    code, text = run("Words", "-i", "ids=int32[8,16]:0..999")
    assert code == 0, text
    code, text = run("Words", "-i", "ids=int32[8,16]:2000..2100")
    assert code == 2 and "elements must be in [-1000, 999], but it holds 2" in text
    assert "--input ids=int32[8,16]:0..999" in text


def test_ranges() -> None:
    ids, x, few, flags = sample_inputs(
        ["ids=int32[8,16]:0..999", "x=float32[20,3]:-1..0.5", "y=uint8[50]", "b=bool[9]"], 3)
    assert ids.asnumpy().min() >= 0 and 500 < ids.asnumpy().max() <= 999
    assert -1 <= x.asnumpy().min() < -0.5 < 0 < x.asnumpy().max() <= 0.5
    assert set(few.asnumpy().tolist()) == {0, 1} and flags.asnumpy().dtype == np.bool_
    (both,) = sample_inputs(["i=int64[200]:-1..1"])
    assert set(both.asnumpy().tolist()) == {-1, 0, 1}
    (top,) = sample_inputs(["i=uint64[9]:18446744073709551615..18446744073709551615"])
    assert set(top.asnumpy().tolist()) == {2**64 - 1}
    assert parse_input("x=float32[N,3]:0..1") == InputType(
        "x", ("N", 3), _dtype("float32"), 0, 1)


def _dtype(name: str) -> object:
    return dtypes.by_name(name)


@pytest.mark.parametrize(("spec", "text"), [
    ("x=int32[2]:5..1", "from a smaller number to a larger"),
    ("x=uint8[2]:0..256", "both of"), ("x=int32[2]:0..1.5", "must be two ints"),
    ("x=float32[2]:0..inf", "from a smaller"), ("x=bool[2]:0..1", "takes no range"),
    ("x=float32[2]:0-1", "one with a range, such as int32[8]:0..999"),
    ("x=@b.npz:z", "has no array 'z'; it has a, b"), ("x=@b.npz", "has no array 'x'"),
    ("x=@none.npz:a", "none.npz: no such file"), ("x=@bad.npz:a", "not a numpy"),
])
def test_wrong_inputs(spec: str, text: str, folder: Path) -> None:
    np.savez(folder / "b.npz", a=np.ones(2), b=np.zeros(3))
    (folder / "bad.npz").write_bytes(b"PK nothing")
    with pytest.raises(UserError, match=text.replace("[", r"\[")):
        parse_input(spec)


@pytest.mark.parametrize("inside", ["1" * 100_000 + "!", "1," * 50_000 + "!", " " * 100_000 + "1"])
def test_long_inputs_are_refused_at_once(inside: str) -> None:
    start = time.process_time()
    with pytest.raises(UserError, match="expected a type such as"):
        parse_input(f"x=float32[{inside}]:")
    assert time.process_time() - start < 2


def test_members_of_archives(folder: Path) -> None:
    np.savez(folder / "b.npz", a=np.ones(2), b=np.zeros(3))
    np.savez(folder / "one.npz", other=np.full(4, 2.0))
    np.save(folder / "x.npy", np.ones(5))
    sizes = [parse_input(s).shape for s in
             ("x=@b.npz:b", "a=@b.npz", "x=@one.npz", "x=@x.npy")]
    assert sizes == [(3,), (2,), (4,), (5,)]


def test_index_ranges() -> None:
    def net(table: ms.Tensor, ids: ms.Tensor, n: ms.Tensor) -> ms.Tensor:
        return ops.gather(table, ids.astype(ms.int64).reshape((-1,)), 0) + n

    given = [ms.Tensor(np.ones((7, 2), np.float32)), ms.Tensor(np.zeros((3,), np.int32)),
             ms.Tensor(np.zeros((), np.int32))]
    assert index_ranges(trace(net, given, {}).graph, 3) == {1: (-7, 6)}
