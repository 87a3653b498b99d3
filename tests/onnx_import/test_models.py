"""Whole models: both modes, open sizes, training, files, the command line, bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import nn, ops
from cellc.cli import main
from cellc.compiled.traced import trace
from cellc.onnx_import import read_model

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

Array = np.ndarray[Any, Any]
MODES = (ms.PYNATIVE_MODE, ms.GRAPH_MODE)
N = helper.make_node
FLOAT, INT64 = 1, 7


def value(name: str, shape: Sequence[int | str | None], code: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, code, shape)


def model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[str],
          weights: dict[str, Array] | None = None, opset: int = 17, **more: Any) -> Any:
    """A model whose outputs have no declared type."""
    made = [numpy_helper.from_array(a, k) for k, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=n) for n in outputs],
                              made)
    return helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid("own", 1),
        helper.make_opsetid("com.microsoft", 1)], **more)


def save(proto: Any, path: Path) -> str:
    path.write_bytes(proto.SerializeToString())
    return str(path)


def outputs_of(net: nn.Cell, *arrays: Array) -> list[Array]:
    """The outputs in both modes, whose bits must be equal."""
    found: list[list[Array]] = []
    for mode in MODES:
        ms.set_context(mode=mode)
        out = net(*map(ms.Tensor, arrays))
        found.append([t.asnumpy() for t in (out if isinstance(out, tuple) else (out,))])
    assert [a.tobytes() for a in found[0]] == [a.tobytes() for a in found[1]]
    return found[0]


def loaded(proto: Any, path: Path) -> nn.GraphCell:
    return nn.GraphCell(ms.load(save(proto, path / "model.onnx")))


RNG = np.random.default_rng(3)
MLP = {"a.w": RNG.standard_normal((4, 8)).astype(np.float32), "a.b": np.zeros(8, np.float32),
       "b.w": RNG.standard_normal((8, 2)).astype(np.float32)}


def mlp() -> Any:
    nodes = [N("MatMul", ["x", "a.w"], ["h"], name="/a/MatMul"), N("Add", ["h", "a.b"], ["i"]),
             N("Relu", ["i"], ["j"]), N("MatMul", ["j", "b.w"], ["y"], name="/b/MatMul")]
    return model(nodes, [value("x", ["batch", 4])], ["y"], MLP)


def test_open_sizes_serve_any_batch(tmp_path: Path) -> None:
    net = loaded(mlp(), tmp_path)
    for n in (1, 3, 70):
        x = RNG.standard_normal((n, 4)).astype(np.float32)
        (found,) = outputs_of(net, x)
        np.testing.assert_allclose(found, np.maximum(x @ MLP["a.w"], 0) @ MLP["b.w"], 1e-5, 1e-5)


def test_initializers_of_floats_are_trained(tmp_path: Path) -> None:
    x, t = RNG.standard_normal((16, 4)).astype(np.float32), np.ones((16, 2), np.float32)
    ends = []
    for mode in MODES:
        ms.set_context(mode=mode)
        net = loaded(mlp(), tmp_path)
        assert [p.name for p in net.trainable_params()] == ["a.w", "a.b", "b.w"]
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                                   nn.SGD(net.trainable_params(), 0.05))
        losses = [float(step(ms.Tensor(x), ms.Tensor(t)).asnumpy()) for _ in range(20)]
        assert losses[-1] < 0.5 * losses[0]
        ends.append([p.asnumpy().tobytes() for p in net.get_parameters()])
    assert ends[0] == ends[1]


def test_statistics_and_ints_are_kept(tmp_path: Path) -> None:
    weights = {"g": np.ones(3, np.float32), "b": np.zeros(3, np.float32),
               "m": np.zeros(3, np.float32), "v": np.ones(3, np.float32),
               "table": np.arange(300, dtype=np.int64).reshape(100, 3)}
    nodes = [N("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"]),
             N("Gather", ["table", "i"], ["z"])]
    net = loaded(model(nodes, [value("x", [2, 3]), value("i", [2], INT64)], ["y", "z"], weights),
                 tmp_path)
    assert {p.name: p.requires_grad for p in net.get_parameters()} == {
        "g": True, "b": True, "m": False, "v": False, "table": False}
    _, z = outputs_of(net, np.ones((2, 3), np.float32), np.array([5, -1]))
    assert z.tolist() == [[15, 16, 17], [297, 298, 299]]


def test_shapes_are_worked_out_with_open_sizes(tmp_path: Path) -> None:
    weights = {"zero": np.array(0), "one": np.array([1]), "minus": np.array([-1]),
               "at": np.array([0]), "three": np.array([3])}
    nodes = [N("Shape", ["x"], ["s"]), N("Gather", ["s", "zero"], ["n"]),
             N("Unsqueeze", ["n", "at"], ["n1"]), N("Mul", ["n1", "three"], ["n3"]),
             N("Concat", ["n3", "minus"], ["to"], axis=0), N("Reshape", ["x", "to"], ["y"]),
             N("Slice", ["s", "one", "three"], ["rest"]), N("Expand", ["at", "rest"], ["z"]),
             N("Range", ["zero", "n", "k"], ["line"])]
    proto = model([N("Constant", [], ["k"], value_int=1), *nodes],
                  [value("x", ["n", 3, "w"])], ["y", "z", "line"], weights)
    net = loaded(proto, tmp_path)
    net.set_inputs(ms.Tensor(shape=[None, 3, None], dtype=ms.float32))
    for n, w in ((2, 4), (5, 2), (2, 6)):
        y, z, line = outputs_of(net, np.ones((n, 3, w), np.float32))
        assert (y.shape, z.shape, line.tolist()) == ((3 * n, w), (3, w), list(range(n)))


def test_branches_and_loops_of_the_run(tmp_path: Path) -> None:
    then = helper.make_graph([N("Mul", ["x", "w"], ["t"])], "t", [],
                             [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([N("Neg", ["x"], ["o"])], "o", [], [onnx.ValueInfoProto(name="o")])
    body = helper.make_graph(
        [N("Add", ["v", "w"], ["v2"]), N("ReduceSum", ["v2"], ["total"], keepdims=0),
         N("Less", ["total", "most"], ["go2"])],
        "b", [value("i", [], INT64), value("go", [], 9), value("v", [3])],
        [onnx.ValueInfoProto(name="go2"), onnx.ValueInfoProto(name="v2")])
    nodes = [N("ReduceSum", ["x"], ["s"], keepdims=0), N("Greater", ["s", "zero"], ["c"]),
             N("If", ["c"], ["y"], then_branch=then, else_branch=other),
             N("Loop", ["", "yes", "y"], ["z"], body=body)]
    weights = {"w": np.array([1, 2, 3], np.float32), "zero": np.array(0, np.float32),
               "most": np.array(40, np.float32), "yes": np.array(True)}
    net = loaded(model(nodes, [value("x", [3])], ["y", "z"], weights), tmp_path)
    for x in ([1.0, 1, 1], [-1.0, 0, 0]):
        y, z = outputs_of(net, np.array(x, np.float32))
        want = np.array(x) * [1, 2, 3] if sum(x) > 0 else -np.array(x)
        np.testing.assert_array_equal(y, want.astype(np.float32))
        while True:
            want = want + [1, 2, 3]
            if not want.sum() < 40:
                break
        np.testing.assert_array_equal(z, want.astype(np.float32))


@pytest.mark.parametrize("fitting", ["then_branch", "else_branch"])
def test_a_branch_that_does_not_fit_the_inputs(fitting: str, tmp_path: Path) -> None:
    """The one that does is served; an artifact refuses the other one when it is chosen."""
    branches = {
        name: helper.make_graph([N("Reshape", ["x", size], [f"out_{name}"])], name, [], [
            onnx.ValueInfoProto(name=f"out_{name}")])
        for name, size in zip(
            ("then_branch", "else_branch"),
            ("four", "five") if fitting == "then_branch" else ("five", "four"), strict=True)}
    nodes = [N("If", ["c"], ["y"], **branches), N("Relu", ["y"], ["z"])]
    weights = {"four": np.array([4]), "five": np.array([5])}
    net = loaded(model(nodes, [value("x", [2, 2]), value("c", [], 9)], ["z"], weights), tmp_path)
    x, chosen = np.array([[1, -2], [3, -4]], np.float32), np.array(fitting == "then_branch")
    np.testing.assert_array_equal(*outputs_of(net, x, chosen), [1, 0, 3, 0])
    file = tmp_path / "net.cellc"
    ms.compile_artifact(file, (net, ms.Tensor(x), ms.Tensor(chosen)))
    made = cellc_runtime.load(file, trust_native_code=True)
    np.testing.assert_array_equal(made(x, chosen), [1, 0, 3, 0])
    with pytest.raises(ValueError, match="is needed, but found_If ="):
        made(x, ~chosen)


def test_long_loops_are_one_node(tmp_path: Path) -> None:
    body = helper.make_graph(
        [N("Add", ["v", "w"], ["v2"]), N("Identity", ["go"], ["go2"]),
         N("Mul", ["v2", "w"], ["o"])],
        "b", [value("i", [], INT64), value("go", [], 9), value("v", [2])],
        [onnx.ValueInfoProto(name=n) for n in ("go2", "v2", "o")])
    weights = {"w": np.array([1, 2], np.float32), "trips": np.array(1000), "yes": np.array(True)}
    net = loaded(model([N("Loop", ["trips", "yes", "x"], ["y", "z"], body=body)],
                       [value("x", [2])], ["y", "z"], weights), tmp_path)
    y, z = outputs_of(net, np.zeros(2, np.float32))
    assert y.tolist() == [1000, 2000] and z.shape == (1000, 2) and z[-1].tolist() == [1000, 4000]


def test_functions_and_their_attributes(tmp_path: Path) -> None:
    leaky = N("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    function = helper.make_function(
        "own", "Twice", ["a"], ["c"], [leaky, N("Add", ["b", "b"], ["c"])],
        [helper.make_opsetid("", 17)], ["slope"])
    proto = model([N("Twice", ["x"], ["y"], domain="own", slope=0.5)], [value("x", [2])], ["y"],
                  functions=[function])
    (y,) = outputs_of(loaded(proto, tmp_path), np.array([-4, 3], np.float32))
    assert y.tolist() == [-4, 6]


def test_quantised_weights_of_four_bits(tmp_path: Path) -> None:
    """MatMulNBits in blocks of 16, against the weights it stands for."""
    n, k, block = 3, 40, 16
    q = RNG.integers(0, 16, (n, 48)).astype(np.uint8)
    scales = RNG.random((n, 3)).astype(np.float32)
    packed = (q[:, ::2] | q[:, 1::2] << 4).reshape(n, 3, 8)
    node = N("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=k, N=n, bits=4,
             block_size=block)
    x = RNG.standard_normal((2, k)).astype(np.float32)
    net = loaded(model([node], [value("x", [2, k])], ["y"],
                       {"b": packed, "s": scales.reshape(-1)}), tmp_path)
    (y,) = outputs_of(net, x)
    w = ((q.astype(np.float32) - 8) * np.repeat(scales, block, 1))[:, :k]
    np.testing.assert_allclose(y, x @ w.T, 1e-4, 1e-4)


@pytest.mark.parametrize("bits, zeros", [(4, "none"), (8, "none"), (4, "ints"), (8, "ints"),
                                         (4, "floats"), (8, "floats")])
@pytest.mark.parametrize("n, k, block", [(70, 128, 32), (70, 100, 64), (5, 48, 128)])
def test_quantised_weights_are_widened_in_registers(
    tmp_path: Path, bits: int, zeros: str, n: int, k: int, block: int
) -> None:
    """MatMulNBits is the op `dequantized_matmul`, near the product by the weights it stands for."""
    blocks = -(-k // block)
    q = RNG.integers(0, 1 << bits, (n, blocks * block)).astype(np.uint8)
    scales = RNG.uniform(0.01, 0.1, (n, blocks)).astype(np.float32)
    point = RNG.integers(1, 1 << bits, (n, blocks)).astype(np.uint8)
    weights = {"b": (q[:, ::2] | q[:, 1::2] << 4 if bits == 4 else q).reshape(n, blocks, -1),
               "s": scales.reshape(-1)}
    if zeros == "ints":
        even = np.pad(point, ((0, 0), (0, blocks % 2)))
        weights["z"] = (even[:, ::2] | even[:, 1::2] << 4 if bits == 4 else point).reshape(-1)
    elif zeros == "floats":
        weights["z"] = (point + np.float32(0.25)).reshape(-1)
    node = N("MatMulNBits", ["x", "b", "s", "z"][: 3 + ("z" in weights)], ["y"],
             domain="com.microsoft", K=k, N=n, bits=bits, block_size=block)
    net = loaded(model([node], [value("x", ["r", k])], ["y"], weights), tmp_path)
    x = RNG.standard_normal((3, k)).astype(np.float32)
    (y,) = outputs_of(net, x)
    zero = {"none": np.float32(1 << bits - 1), "ints": point.astype(np.float32),
            "floats": point + np.float32(0.25)}[zeros]
    full = (q.astype(np.float32).reshape(n, blocks, block) - np.reshape(
        np.broadcast_to(zero, (n, blocks)), (n, blocks, 1))) * scales[..., None]
    np.testing.assert_allclose(y, x @ full.reshape(n, -1)[:, :k].T, 1e-4, 1e-3)
    names = [node.op for node in trace(net, [ms.Tensor(x)], {}).graph.nodes]
    assert names.count("dequantized_matmul") == 1 and "matmul" not in names


def test_elements_are_mapped_and_external_data_read(tmp_path: Path) -> None:
    big = RNG.standard_normal((64, 64)).astype(np.float32)
    proto = model([N("MatMul", ["x", "w"], ["y"])], [value("x", [1, 64])], ["y"], {"w": big})
    onnx.save_model(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
                    size_threshold=0)
    network = read_model(tmp_path / "m.onnx")
    held = network.weights["w"]
    np.testing.assert_array_equal(held, big)
    while isinstance(held, np.ndarray):
        held = held.base
    assert isinstance(held, memoryview)  # of the mapped file
    net = nn.GraphCell(ms.load(str(tmp_path / "m.onnx")))
    np.testing.assert_allclose(outputs_of(net, np.ones((1, 64), np.float32))[0][0], big.sum(0),
                               1e-4, 1e-4)


def test_weights_are_copied_once_wherever_they_lie_in_the_file(tmp_path: Path) -> None:
    aligned = set()
    for pad in range(1, 5):  # the name shifts what follows it
        proto = mlp()
        proto.graph.name = "g" * pad
        loaded = ms.load(save(proto, tmp_path / f"{pad}.onnx"))
        held = loaded.weights["a.w"]
        aligned.add(bool(held.flags.aligned))
        np.testing.assert_array_equal(held, MLP["a.w"])
        while isinstance(held, np.ndarray):
            held = held.base
        assert isinstance(held, memoryview)  # of the mapped file
        net = nn.GraphCell(loaded)
        x = np.ones((3, 4), np.float32)
        hidden = np.maximum(x @ MLP["a.w"] + MLP["a.b"], 0)
        for result in outputs_of(net, x):
            np.testing.assert_allclose(result, hidden @ MLP["b.w"], 1e-5, 1e-5)
        parameter = next(p for p in net.get_parameters() if p.name == "a.w")
        assert parameter.asnumpy().ctypes.data % 64 == 0
    assert aligned == {True, False}


def test_results_are_the_callers(tmp_path: Path) -> None:
    """A constant or a Parameter that is given back may be changed; the network stays as it is."""
    net = loaded(model([N("Identity", ["c"], ["y"]), N("Identity", ["w"], ["z"]),
                        N("Add", ["x", "w"], ["s"])], [value("x", [3])], ["y", "z", "s"],
                       {"c": np.array([1, 2, 3]), "w": np.ones(3, np.float32)}), tmp_path)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    x = ops.ones(3, ms.float32)
    y, z, _ = net(x)
    y[0], z[0] = 9, 9
    y, z, s = (t.asnumpy().tolist() for t in net(x))
    assert (y, z, s) == ([1, 2, 3], [1, 1, 1], [2, 2, 2])
    next(iter(net.get_parameters())).set_data(ms.Tensor(np.full(3, 5, np.float32)))
    assert net(x)[2].asnumpy().tolist() == [6, 6, 6]


# --- the command line -----------------------------------------------------------------------------


def test_compiled_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(mlp(), tmp_path / "m.onnx")
    out = str(tmp_path / "m.cellc")
    assert main(["compile", path, "-o", out]) == 0
    assert "serves batch any" in capsys.readouterr().out
    artifact = cellc_runtime.load(out, trust_native_code=True)
    for n in (1, 2, 9):
        x = RNG.standard_normal((n, 4)).astype(np.float32)
        ms.set_context(mode=ms.GRAPH_MODE)
        want = nn.GraphCell(ms.load(path))(ms.Tensor(x)).asnumpy()
        np.testing.assert_array_equal(artifact.call("infer", x=x), want)
    assert main(["compile", path, "-o", out, "--input", "x=float32[8,4]"]) == 0
    assert main(["compile", path, "-o", out, "--input", "z=float32[8,4]"]) == 2
    assert "the model has no such input; it has x" in capsys.readouterr().err


def test_verified_dumped_profiled_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                           ) -> None:
    path, given = save(mlp(), tmp_path / "m.onnx"), ["--input", "x=float32[3,4]"]
    assert main(["verify", path, *given, "--grad"]) == 0
    assert "ONNX's reference: 1 output" in capsys.readouterr().out
    assert main(["dump", path, *given, "-o", str(tmp_path / "d")]) == 0
    assert "@/a/MatMul" in (tmp_path / "d" / "00_traced.txt").read_text()
    assert main(["profile", path, *given, "--runs", "1"]) == 0
    assert main(["inspect", path, *given, "-o", str(tmp_path / "r.html")]) == 0
    back = str(tmp_path / "back.onnx")
    assert main(["export", path, "--input", "x=float32[n,4]", "-o", back]) == 0
    x = RNG.standard_normal((5, 4)).astype(np.float32)
    a, b = (outputs_of(nn.GraphCell(ms.load(p)), x)[0] for p in (path, back))
    np.testing.assert_array_equal(a, b)


def test_the_matrix_of_operators_is_current() -> None:
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, root / "docs" / "make_onnx.py", "--check"], check=True)


# --- bad input ------------------------------------------------------------------------------------


def _unknown() -> Any:
    return model([N("Foo", ["x"], ["a"], name="first"), N("Foo", ["a"], ["b"]),
                  N("Bar", ["b"], ["c"], domain="own"), N("SequenceLength", ["c"], ["y"])],
                 [value("x", [2])], ["y"])


def _of(*nodes: Any, weights: dict[str, Array] | None = None) -> Callable[[], Any]:
    return lambda: model(nodes, [value("x", [2, 3])], ["y"], weights)


def _external(location: str, length: int | None = None) -> Callable[[], Any]:
    def make() -> Any:
        proto = model([N("Add", ["x", "w"], ["y"])], [value("x", [4])], ["y"])
        t = proto.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=1)
        t.external_data.add(key="location", value=location)
        if length is not None:
            t.external_data.add(key="length", value=str(length))
        return proto

    return make


def _short() -> Any:
    proto = model([N("Add", ["x", "w"], ["y"])], [value("x", [4])], ["y"])
    proto.graph.initializer.add(name="w", data_type=1, dims=[1 << 40], raw_data=b"abcd")
    return proto


def _contradictory(shape: Sequence[int | str], code: int = FLOAT) -> Callable[[], Any]:
    def make() -> Any:
        proto = model([N("Neg", ["x"], ["y"])], [value("x", [2, 3])], ["y"])
        proto.graph.output[0].CopyFrom(value("y", shape, code))
        return proto

    return make


def _other_kinds() -> Any:
    inside = helper.make_tensor_type_proto(FLOAT, [2])
    return model([N("Add", ["x", "s"], ["y"])], [
        helper.make_value_info("x", helper.make_optional_type_proto(inside)),
        helper.make_value_info("s", helper.make_sequence_type_proto(inside))], ["y"])


def _recursive() -> Any:
    function = helper.make_function("own", "F", ["a"], ["b"], [N("F", ["a"], ["b"], domain="own")],
                                    [helper.make_opsetid("own", 1)])
    return model([N("F", ["x"], ["y"], domain="own")], [value("x", [2])], ["y"],
                 functions=[function])


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown": (_unknown, r"no rules for these operators: Foo \(2, first node 'first' \(Foo\)\); "
                r"own::Bar \(1, .*SequenceLength \(1, .*which works on sequences"),
    "many unknown": (_of(*(N(f"No{i}", ["x"], [f"a{i}"]) for i in range(40)),
                         N("Neg", ["x"], ["y"])),
                     r"No0 \(1, .*; No39 \(1, first node number 40 \(No39\)\)\.$"),
    "circle": (_of(N("Add", ["x", "b"], ["a"]), N("Neg", ["a"], ["b"]), N("Neg", ["b"], ["y"])),
               "reads 'b', which comes later: the nodes are out of order or in a circle"),
    "missing": (_of(N("Neg", ["nothing"], ["y"])), "reads 'nothing', which nothing gives"),
    "twice": (_of(N("Neg", ["x"], ["y"]), N("Abs", ["x"], ["y"])), "a name that is taken"),
    "control": (_of(N("Neg", ["x"], ["a\n"]), N("Neg", ["a\n"], ["y"])), "control characters"),
    "output": (_of(N("Neg", ["x"], ["z"])), "the output 'y' of the graph is given by no node"),
    "outside": (_external("../w.bin"), "no path inside of the model's folder"),
    "absolute": (_external("/etc/passwd"), "no path inside of the model's folder"),
    "gone": (_external("w.bin"),
             "(?<=m.onnx cannot be read: )the external data 'w.bin' of 'w' is not there"),
    "cut": (_external("short.bin", 16), "ends beyond its file"),
    "link": (_external("link.bin"), "a link out of the model's folder"),
    "size": (_short, r"of shape \[1099511627776\] needs 4398046511104 bytes"),
    "recursive": (_recursive, "the function 'F' calls itself"),
    "version": (lambda: model([N("Neg", ["x"], ["y"])], [value("x", [2])], ["y"], opset=99),
                "op set 99"),
    "string": (lambda: model([N("Identity", ["x"], ["y"])], [value("x", [2], 8)], ["y"]),
               "elements of the type string"),
    "kinds": (_other_kinds, "the input 'x' is an optional; the input 's' is a sequence; only"),
    "sizes": (_contradictory(["n", 4]), r"the output 'y' as float32\[n,4\], .*float32\[2,3\]"),
    "axes": (_contradictory([6]), r"the output 'y' as float32\[6\], .*give float32\[2,3\]"),
    "elements": (_contradictory([2, 3], 7), r"the output 'y' as int64\[2,3\], .*give float32"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_models_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "short.bin").write_bytes(b"abcd")
    os.symlink("/etc/passwd", tmp_path / "link.bin")
    make, why = BAD[name]
    with pytest.raises(RuntimeError, match=f"cannot be read: .*{why}"):
        ms.load(save(make(), tmp_path / "m.onnx"))


MISFITS: dict[str, tuple[Callable[[], Any], str]] = {
    "shapes": (_of(N("MatMul", ["x", "w"], ["y"], name="product"),
                   weights={"w": np.ones((4, 4), np.float32)}), "last axis of input"),
    "types": (_of(N("Add", ["x", "w"], ["y"]), weights={"w": np.ones(3, np.int32)}), "int32"),
    "axis": (_of(N("Softmax", ["x"], ["y"], axis=7)), "its 'axis' must be in"),
    "kind": (_of(N("Softmax", ["x"], ["y"], axis="no")), "must be of the kind int, but is str"),
    "count": (_of(N("Add", ["x"], ["y"])), "it has 1 input, but its op takes 2"),
    "outputs": (_of(N("Neg", ["x"], ["y", "z"])), "it has 2 outputs, but its op gives 1"),
    "reshape": (_of(N("Reshape", ["x", "s"], ["y"]), weights={"s": np.array([5, -1])}),
                "is invalid for input of size 6"),
}


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("mode", MODES)
def test_faults_name_their_node(name: str, mode: int, tmp_path: Path) -> None:
    """When it is loaded if all sizes of inputs are fixed, else when it is called."""
    make, why = MISFITS[name]
    ms.set_context(mode=mode)
    proto = make()
    with pytest.raises(RuntimeError, match=rf"m\.onnx cannot be read: {_NODE}.*{why}"):
        ms.load(save(proto, tmp_path / "m.onnx"))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    net = nn.GraphCell(ms.load(save(proto, tmp_path / "m.onnx")))
    with pytest.raises((ValueError, TypeError), match=rf"^m\.onnx, {_NODE}.*{why}"):
        net(ops.ones((2, 3), ms.float32))


_NODE = r"node ('product'|number 1) \(\w+\): "


def test_a_fault_at_the_command_line_has_no_place_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = MISFITS["shapes"][0]()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    assert main(["compile", save(proto, tmp_path / "m.onnx"), "-o", str(tmp_path / "m.cellc"),
                 "--input", "x=float32[2,3]"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("cellc: m.onnx, node 'product' (MatMul): ") and "File" not in told


def test_sizes_that_follow_from_elements_load(tmp_path: Path) -> None:
    net = loaded(_of(N("NonZero", ["x"], ["at"]), N("Cast", ["at"], ["y"], to=FLOAT))(), tmp_path)
    assert outputs_of(net, np.eye(2, 3, dtype=np.float32))[0].tolist() == [[0, 1], [0, 1]]


def test_wrong_calls(tmp_path: Path) -> None:
    net = loaded(mlp(), tmp_path)
    with pytest.raises(ValueError, match=r"takes float32\[batch,4\] as 'x', got float32\[2,5\]"):
        net(ops.ones((2, 5), ms.float32))
    with pytest.raises(TypeError, match="called otherwise"):
        net(ops.ones((2, 4), ms.float32), ops.ones((2, 4), ms.float32))


def test_many_nodes_are_refused_early(tmp_path: Path) -> None:
    """A million nodes: one error, before any of them is translated."""
    node = N("Neg", ["x"], ["y"]).SerializeToString()
    entry = b"\x0a" + bytes([len(node)]) + node
    graph = entry * 1_000_000
    size, at = b"", len(graph)
    while at > 127:
        size, at = size + bytes([at & 127 | 128]), at >> 7
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x3a" + size + bytes([at]) + graph)
    with pytest.raises(RuntimeError, match="it has more than 100000 nodes"):
        ms.load(str(tmp_path / "m.onnx"))


@pytest.mark.parametrize("content", [b"", b"\x00", b"PK\x03\x04 a zip", b"\x08\x07" * 99,
                                     b"\x3a\xff\xff\xff\xff\x0f"])
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(RuntimeError, match=r"cannot be read: "):
        ms.load(str(tmp_path / "m.onnx"))


def test_each_truncation_is_an_error(tmp_path: Path) -> None:
    whole = mlp().SerializeToString()
    for end in range(0, len(whole), 7):
        (tmp_path / "m.onnx").write_bytes(whole[:end])
        with pytest.raises(RuntimeError, match=r"cannot be read: "):
            ms.load(str(tmp_path / "m.onnx"))
