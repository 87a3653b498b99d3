"""MindIR files of MindSpore; MindSpore 2.10 wrote those of `data/` (`networks.py write`)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, cli, nn, ops
from cellc.mindir import MindirError, load_mindir
from cellc_runtime import artifact
from cellc_runtime.protobuf import field_of, number_of

from ..others import mindspore, needs_oracle
from . import networks

DATA = Path(__file__).parent / "data"
STORED = sorted(p.stem for p in DATA.glob("*.npz"))
MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]
LOOSE = {"Half": 1e-3}
"""Relative to the larger of 1 and the number; all others are within 1e-5."""


@pytest.fixture(params=MODES, ids=["graph", "pynative"])
def mode(request: pytest.FixtureRequest) -> Any:
    ms.set_context(mode=request.param)
    return request.param


def stored(name: str) -> tuple[list[Tensor], list[Any]]:
    """The inputs and results of a network."""
    held = np.load(DATA / f"{name}.npz")
    arrays = {k: held[k] for k in held.files}
    return ([Tensor(v) for k, v in arrays.items() if k.startswith("arr_")],
            [v for k, v in arrays.items() if k.startswith("out_")])


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", STORED)
def test_stored_files_give_what_mindspore_gave(name: str) -> None:
    found = networks.read(DATA, [name])
    assert isinstance(found[name], float) and found[name] < 1e-5, found


@pytest.mark.usefixtures("mode")
def test_parameters_have_their_names_and_can_be_replaced() -> None:
    graph = ms.load(str(DATA / "ConvBnPool.mindir"))
    net = nn.GraphCell(graph)
    named = net.parameters_dict()
    assert list(named) == ["conv.weight", "bn.gamma", "bn.beta", "bn.moving_mean",
                           "bn.moving_variance", "dense.weight", "dense.bias"]
    assert [n for n, p in named.items() if not p.requires_grad] == [
        "bn.moving_mean", "bn.moving_variance"]
    inputs, _ = stored("ConvBnPool")
    bias = np.arange(5, dtype=np.float32)
    moved = nn.GraphCell(graph, {"dense.bias": Tensor(bias)})
    wanted = net(*inputs).asnumpy() - named["dense.bias"].asnumpy() + bias
    assert np.allclose(moved(*inputs).asnumpy(), wanted, atol=1e-5)


@pytest.mark.usefixtures("mode")
def test_a_loaded_network_trains() -> None:
    net = nn.GraphCell(ms.load(str(DATA / "ConvBnPool.mindir")))
    (x,), _ = stored("ConvBnPool")
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Momentum(net.trainable_params(), 0.01, 0.9))
    losses = [float(step(x, ops.ones((2, 5), ms.float32))) for _ in range(4)]
    assert losses[-1] < losses[0] * 0.9


def test_both_modes_have_the_same_bits_through_loops() -> None:
    for name in ("NestedFlow", "WhileBreak", "TrainMomentum"):
        results = []
        for each in MODES:
            ms.set_context(mode=each)
            net = nn.GraphCell(ms.load(str(DATA / f"{name}.mindir")))
            inputs, _ = stored(name)
            results.append([t.asnumpy().tobytes() for t in networks.tensors(net(*inputs))])
        assert results[0] == results[1], name


def test_weights_in_a_folder_of_their_own(tmp_path: Path) -> None:
    shutil.copy(DATA / "split_graph.mindir", tmp_path)
    path = str(tmp_path / "split_graph.mindir")
    with pytest.raises(RuntimeError, match=r"split_variables/data_0' of .* is not there"):
        ms.load(path)
    shutil.copytree(DATA / "split_variables", tmp_path / "split_variables")
    net = nn.GraphCell(ms.load(path))
    weight = np.frombuffer((DATA / "split_variables/data_0").read_bytes(), "<f4", 12, 128)
    assert np.array_equal(net.parameters_dict()["weight"].asnumpy().reshape(-1), weight)
    data = tmp_path / "split_variables/data_0"
    data.write_bytes(data.read_bytes()[:140])
    with pytest.raises(RuntimeError, match="ends beyond its file"):
        ms.load(path)


def test_encrypted_files_are_refused_by_name() -> None:
    with pytest.raises(RuntimeError, match=r"encrypted .MindSpore's enc_key"):
        ms.load(str(DATA / "encrypted.mindir"))
    with pytest.raises(ValueError, match="dec_key"):
        ms.load(str(DATA / "encrypted.mindir"), dec_key=b"0123456789ABCDEF")


# --- files that are not as they should be ---------------------------------------------------------


def text(number: int, value: str) -> bytes:
    return field_of(number, value.encode())


def argument(name: str, code: int = 1, dims: tuple[int, ...] = (2,), number: int = 5) -> bytes:
    shape = b"".join(number_of(1, d) for d in dims) + number_of(2, code)
    return field_of(number, text(1, name) + field_of(2, shape))


def node(op: str, output: str, *inputs: str) -> bytes:
    return field_of(1, b"".join(text(1, i) for i in inputs) + text(2, output) + text(3, output)
                    + text(4, op))


def file(*parts: bytes, more: bytes = b"", primitives: tuple[str, ...] = ("ReLU",)) -> bytes:
    """A file with one graph of these nodes, and primitives of these names."""
    made = b"".join(field_of(12, text(1, p) + text(2, p) + number_of(5, 2)) for p in primitives)
    return field_of(7, b"".join(parts) + text(2, "g")) + made + more


X, Y = argument("x"), argument("y", number=6)
DEEP = b""
for _ in range(40):
    DEEP = field_of(17, DEEP + number_of(16, 20))
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it has no graph"),
    "foreign": (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "damaged or of another format"),
    "unknown": (file(X, node("Magic", "a", "x"), node("Wonder", "b", "a"), node("Magic", "y", "b"),
                     Y, primitives=("Magic", "Wonder")),
                r"these primitives: Magic \(2, first node 'a'\); Wonder \(1, first node 'b'\)"),
    "no reader": (file(X, node("ReLU", "y", "z"), Y), "reads 'z', which nothing gives"),
    "circle": (file(X, node("ReLU", "a", "y"), node("ReLU", "y", "a"), Y),
               "out of order or in a circle"),
    "twice": (file(X, node("ReLU", "y", "x"), node("ReLU", "y", "x"), Y), "a name that is taken"),
    "no output": (file(X, node("ReLU", "y", "x")), "has no output"),
    "output": (file(X, Y), "the output 'y' is given by no node"),
    "control": (file(X, node("ReLU", "y\n\x1b[2J", "x"), Y), "control characters"),
    "op": (file(X, node("NoSuch", "y", "x"), Y), "reads 'NoSuch', which nothing gives"),
    "two graphs": (file(X, node("ReLU", "y", "x"), Y, more=field_of(8, text(2, "g"))),
                   "two graphs have one name"),
    "type": (file(argument("x", 8), node("ReLU", "y", "x"), Y), "the type string"),
    "shape": (file(argument("x", 1, (2,) * 70), node("ReLU", "y", "x"), Y), "impossible shape"),
    "deep": (file(X, field_of(1, text(2, "c") + text(4, "Constant") + field_of(
        5, DEEP + number_of(16, 20))), Y),
             "nested more than 24 deep"),
    "weight": (file(X, field_of(3, text(7, "w") + number_of(1, 1 << 40) + number_of(2, 1)
                                + field_of(9, b"1234")), node("ReLU", "y", "x"), Y),
               "needs 4398046511104 bytes of float32, but has 4"),
    "outside": (file(X, field_of(3, text(7, "w") + number_of(1, 1) + number_of(2, 1) + field_of(
        12, text(1, "../secret"))), node("ReLU", "y", "x"), Y), "no path inside"),
    "big-endian": (file(X, node("ReLU", "y", "x"), Y, more=number_of(10, 0)), "big-endian"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, tmp_path: Path) -> None:
    data, wanted = BAD[name]
    path = tmp_path / "bad.mindir"
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match=wanted) as error:
        ms.load(str(path))
    assert str(error.value).isprintable()


def test_a_million_nodes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.mindir"
    path.write_bytes(field_of(7, b"\x0a\x00" * 1_000_000))
    with pytest.raises(RuntimeError, match="more than 200000 nodes"):
        ms.load(str(path))


def test_graphs_that_call_each_other_too_deep(tmp_path: Path) -> None:
    more = b"".join(
        field_of(8, text(2, f"g{i}") + argument(f"x{i}") + node(f"g{i + 1}", f"y{i}", f"x{i}")
                 + argument(f"y{i}", number=6)) for i in range(500))
    more += field_of(8, text(2, "g500") + argument("x500") + argument("x500", number=6))
    path = tmp_path / "deep.mindir"
    path.write_bytes(file(X, node("g0", "y", "x"), Y, more=more))
    net = nn.GraphCell(ms.load(str(path)))
    with pytest.raises(ValueError, match="call each other more than"):
        net(Tensor(np.ones(2, np.float32)))


def test_recursion_that_is_no_loop(tmp_path: Path) -> None:
    body = field_of(8, text(2, "f") + argument("a") + node("f", "b", "a") + node("ReLU", "c", "b")
                    + argument("c", number=6))
    path = tmp_path / "recursive.mindir"
    path.write_bytes(file(X, node("f", "y", "x"), Y, more=body))
    net = nn.GraphCell(ms.load(str(path)))
    with pytest.raises(ValueError, match="the call comes last"):
        net(Tensor(np.ones(2, np.float32)))


@pytest.mark.parametrize("name", STORED)
def test_damaged_files_have_one_clear_error(name: str, tmp_path: Path) -> None:
    raw = (DATA / f"{name}.mindir").read_bytes()
    path = tmp_path / "damaged.mindir"
    rng = np.random.RandomState(4)
    for _ in range(150):
        data = bytearray(raw)
        for at in rng.randint(0, len(raw), rng.randint(1, 4)):
            data[at] = rng.randint(256)
        path.write_bytes(bytes(data[: len(raw) if rng.rand() < 0.7 else rng.randint(len(raw))]))
        try:
            load_mindir(path)
        except (MindirError, ValueError, RuntimeError) as e:
            assert str(e).isprintable(), str(e)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", ["NestedFlow", "WhileBreak"])
def test_calls_of_damaged_loops_name_the_file(name: str, tmp_path: Path) -> None:
    raw, (inputs, _) = (DATA / f"{name}.mindir").read_bytes(), stored(name)
    path = tmp_path / "damaged.mindir"
    rng, refused = np.random.RandomState(11), 0
    for _ in range(60):
        data = bytearray(raw)
        for at in rng.randint(0, len(raw), rng.randint(1, 4)):
            data[at] = rng.randint(256)
        path.write_bytes(bytes(data))
        try:
            nn.GraphCell(ms.load(str(path)))(*inputs)
        except (ValueError, TypeError, IndexError, RuntimeError) as e:
            assert path.name in str(e) or "GraphCell" in str(e), str(e)
            refused += 1
    assert refused > 10


# --- commands -------------------------------------------------------------------------------------


def test_commands_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(DATA / "ConvBnPool.mindir"), str(tmp_path / "net.cellc")
    assert cli.main(["compile", path, "-o", out]) == 0
    assert cli.main(["verify", path, "--no-reference"]) == 0
    assert cli.main(["dump", path, "-o", str(tmp_path / "dump")]) == 0
    assert cli.main(["inspect", path, "-o", str(tmp_path / "page.html")]) == 0
    assert "wrote" in capsys.readouterr().out
    (x,), (wanted,) = stored("ConvBnPool")
    found = artifact.load(out, trust_native_code=True).call(artifact.DEFAULT_ENTRY, x.asnumpy())
    assert np.allclose(found, wanted, atol=1e-5)


@needs_oracle
def test_forty_networks_of_mindspore(tmp_path: Path) -> None:
    written = mindspore(Path(networks.__file__), ["write", str(tmp_path)])
    assert not any(written.values()), {k: v for k, v in written.items() if v}
    assert len(written) >= 40
    for each in MODES:
        ms.set_context(mode=each)
        found = networks.read(tmp_path, list(networks.NETWORKS))
        apart = {k: v for k, v in found.items()
                 if not isinstance(v, float) or v > LOOSE.get(k, 1e-5)}
        assert not apart, json.dumps(apart, indent=1)
    assert os.listdir(tmp_path)


def test_a_function_changes_the_header_that_is_exported(folder: Path) -> None:
    def mark(model: Any) -> None:
        model.producer_name = "made by a test"
        model.user_info["version"] = "11.0"

    x = Tensor([[1.0, -2.0]])
    ms.export(nn.ReLU(), x, file_name="marked", file_format="MINDIR", custom_func=mark)
    model = ms.load_mindir("marked.mindir")
    assert (model.producer_name, model.user_info) == ("made by a test", {"version": "11.0"})
    found = nn.GraphCell(ms.load("marked.mindir"))(x)
    assert found.asnumpy().tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="'custom_func' goes with file_format='MINDIR'"):
        ms.export(nn.ReLU(), x, file_name="x", file_format="CIR", custom_func=mark)
    with pytest.raises(TypeError, match="custom_func"):
        ms.export(nn.ReLU(), x, file_name="x", file_format="MINDIR", custom_func=3)
    assert not Path("x.mindir").exists()


def test_the_header_of_a_file_can_be_changed(folder: Path) -> None:
    model = ms.load_mindir(str(DATA / "ConvBnPool.mindir"))
    assert (model.producer_name, model.user_info) == ("MindSpore", {})
    model.user_info["version"] = "pangu v100"
    model.doc_string = "ä note"
    ms.save_mindir(model, "made/again")
    again = ms.load_mindir("made/again.mindir")
    assert (again.user_info, again.doc_string) == ({"version": "pangu v100"}, "ä note")
    assert again.model_version == model.model_version
    inputs, wanted = stored("ConvBnPool")
    found = nn.GraphCell(ms.load("made/again.mindir"))(*inputs)
    np.testing.assert_allclose(found.asnumpy(), wanted[0], 1e-5, 1e-5)
    with pytest.raises(TypeError, match="must be a ModelProto, but got"):
        ms.save_mindir({}, "x")
    model.user_info["version"] = 3
    with pytest.raises(TypeError, match="must hold texts, but got 3"):
        ms.save_mindir(model, "x")
    for name, why in (("none.mindir", "No such file"), ("text.mindir", "damaged or of another")):
        Path("text.mindir").write_text("a text")
        with pytest.raises(ValueError, match=f"{name} cannot be read: .*{why}"):
            ms.load_mindir(name)


@needs_oracle
def test_mindspore_reads_a_changed_header(folder: Path) -> None:
    model = ms.load_mindir(str(DATA / "LSTM.mindir"))
    model.user_info["who"] = "we"
    ms.save_mindir(model, "LSTM")
    shutil.copy(DATA / "LSTM.npz", "LSTM.npz")
    found = mindspore(Path(networks.__file__), ["read", str(folder)])
    assert found["LSTM"] < 1e-5
