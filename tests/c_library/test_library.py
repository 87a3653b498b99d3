"""A library gives the bits of its network; sessions, state, files, threads and errors."""

from __future__ import annotations

import ctypes
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc_compiler.c_library.abi import ABI, Code
from cellc_runtime import checkpoint

from ..samples.networks import load
from .conftest import Model, entries
from .library import CLibrary, DLTensor, Error, Failed, Tensor, tensor

lenet = load("lenet")
RNG = np.random.default_rng(1)
X = RNG.standard_normal((64, 16)).astype(np.float32)


def fresh() -> Model:
    """A network whose cache is empty."""
    return Model().set_train(False)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64])
def test_one_program_serves_all_sizes(library: CLibrary, model: Model, n: int) -> None:
    with library.session() as session:
        (got,) = session.run("infer", X[:n])
        assert got.shape == (n, 300)
        if n:
            np.testing.assert_array_equal(got, model(ms.Tensor(X[:n])).asnumpy())


@pytest.mark.parametrize(("q", "k"), [(1, 1), (1, 5), (5, 1), (2, 3), (3, 2), (9, 33), (40, 6)])
def test_two_open_sizes(library: CLibrary, model: Model, q: int, k: int) -> None:
    with library.session() as session:
        for _ in range(2):
            got = session.run("attend", X[:q], X[k:][:k] if k > 1 else X[:1])
            want = model.attend(ms.Tensor(X[:q]), ms.Tensor(X[k:][:k] if k > 1 else X[:1]))
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b.asnumpy())


def test_sessions_have_caches_of_their_own(library: CLibrary) -> None:
    net, first = fresh(), library.session()
    other = first.clone()
    for s, x in ((first, X[:8]), (other, X[8:16])):
        s.run("prefill", x)
    want = net.prefill(ms.Tensor(X[:8]))
    for step in range(3):
        (got,) = first.run("decode", X[step : step + 1], np.array(step, np.int32))
        want = net.decode(ms.Tensor(X[step : step + 1]), ms.Tensor(step, ms.int32))
        np.testing.assert_array_equal(got, want.asnumpy())
    np.testing.assert_array_equal(first.weight("cache"), net.cache.asnumpy())
    assert not np.array_equal(other.weight("cache"), first.weight("cache"))
    copy = first.clone()
    np.testing.assert_array_equal(copy.weight("cache"), first.weight("cache"))
    first.reset()
    assert not first.weight("cache").any() and copy.weight("cache").any()
    for s in (first, other, copy):
        s.close()


def test_training_follows_the_cell_and_saves(tmp_path: Path) -> None:
    ms.set_seed(3)
    net = lenet.LeNet5()
    step = lenet.train_step(net)
    x = RNG.standard_normal((16, 1, 32, 32)).astype(np.float32)
    label = np.arange(16, dtype=np.int32) % 10
    ms.compile_artifact(tmp_path / "libnet.so", {
        "infer": (net.set_train(False), "float32[N,1,32,32]"), "train": (step, x, label)})
    library = CLibrary(tmp_path / "libnet.so")
    net.set_train()
    with library.session() as session:
        before = session.run("infer", x)[0]
        losses = [float(session.run("train", x, label)[0]) for _ in range(20)]
        want = [float(step(ms.Tensor(x), ms.Tensor(label)).asnumpy()) for _ in range(20)]
        assert losses == want and losses[-1] < losses[0]
        after = session.run("infer", x)[0]
        assert not np.array_equal(before, after)
        np.testing.assert_array_equal(after, net.set_train(False)(ms.Tensor(x)).asnumpy())
        session.save(tmp_path / "trained.safetensors")
    saved = checkpoint.load(tmp_path / "trained.safetensors")
    for p in net.get_parameters():
        np.testing.assert_array_equal(saved[p.name], p.asnumpy())
    with library.session(tmp_path / "trained.safetensors") as session:
        np.testing.assert_array_equal(session.run("infer", x)[0], after)
        session.run("train", x, label)
        session.reset()
        np.testing.assert_array_equal(session.run("infer", x)[0], after)
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".new")] == []


def test_threads_with_a_session_each(library: CLibrary, model: Model) -> None:
    first = library.session()
    sessions = [first, *(first.clone() for _ in range(3))]
    want = model(ms.Tensor(X)).asnumpy()
    wrong: list[int] = []

    def work(number: int) -> None:
        for n in range(1, 40):
            if not np.array_equal(sessions[number].run("infer", X[:n])[0], want[:n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    for s in sessions:
        s.close()


def test_threads_on_one_session_are_refused(library: CLibrary) -> None:
    session = library.session()
    seen: list[Any] = []

    def work() -> None:
        for _ in range(200):
            try:
                seen.append(session.run("infer", X, out=[np.empty((64, 300), np.float32)])[0])
            except Failed as error:
                assert error.code is Code.BUSY, error

    want = session.run("infer", X)[0]
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen and all(np.array_equal(a, want) for a in seen)
    session.close()


def test_an_executor_of_the_caller(library: CLibrary, model: Model) -> None:
    x = RNG.standard_normal((2000, 16)).astype(np.float32)
    ranges: list[tuple[int, int]] = []
    task_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                      ctypes.c_int64)
    def executor(context: int, task: int, arguments: int, count: int, grain: int) -> None:
        assert context == 77 and grain >= 1
        for first in reversed(range(0, count, 2)):
            task_type(task)(arguments, first, min(first + 2, count))
        ranges.append((0, count))

    library.function("set_executor")(library.address, ctypes.cast(executor, ctypes.c_void_p), 77)
    try:
        with library.session() as session:
            got = session.run("infer", x)[0]
    finally:
        library.function("set_executor")(library.address, None, None)
    assert ranges
    np.testing.assert_array_equal(got, model(ms.Tensor(x)).asnumpy())
    library.check("set_threads", library.address, 2)
    with library.session() as session:
        np.testing.assert_array_equal(session.run("infer", x)[0], got)


def test_results_at_any_address(library: CLibrary, model: Model) -> None:
    """Large results that do not begin at a multiple of 64 go through memory of the session."""
    want = model(ms.Tensor(X)).asnumpy()
    raw = np.empty(want.nbytes + 128, np.uint8)
    with library.session() as session:
        for shift in (4, 32, 60):
            at = -raw.ctypes.data % 64 + shift
            raw[:] = 7
            out = raw[at : at + want.nbytes].view(np.float32).reshape(want.shape)
            session.run("infer", X, out=[out])
            np.testing.assert_array_equal(out, want)
            assert (raw[:at] == 7).all() and (raw[at + want.nbytes :] == 7).all()


def dl(array: Any, strides: tuple[int, ...] | None = None, **changes: Any) -> Any:
    """An array as DLPack's tensor."""
    made = DLTensor(array.ctypes.data, 1, 0, array.ndim, 2, 32, 1)
    made.keep = [(ctypes.c_int64 * max(array.ndim, 1))(*array.shape)]
    made.shape = ctypes.addressof(made.keep[0])
    if strides is not None:
        made.keep.append((ctypes.c_int64 * max(array.ndim, 1))(*strides))
        made.strides = ctypes.addressof(made.keep[1])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def run_dlpack(session: Any, entry: str, inputs: list[Any], outputs: list[Any]) -> None:
    """A call with DLPack's tensors."""
    given, wanted = ((ctypes.c_void_p * len(ts))(*(t and ctypes.addressof(t) for t in ts))
                     for ts in (inputs, outputs))
    session.library.check("run_dlpack", session.handle, session.number(entry),
                          ctypes.addressof(given), len(inputs), ctypes.addressof(wanted),
                          len(outputs))


def test_dlpack(library: CLibrary, model: Model) -> None:
    out = np.empty((5, 300), np.float32)
    with library.session() as session:
        run_dlpack(session, "infer", [dl(X[:5])], [dl(out, (300, 1))])
        np.testing.assert_array_equal(out, model(ms.Tensor(X[:5])).asnumpy())
        again = np.empty_like(out)
        view = dl(X[:5], (16, 1), offset=64)
        run_dlpack(session, "infer", [view], [dl(again)])
        np.testing.assert_array_equal(again, model(ms.Tensor(X[1:6])).asnumpy())
        for change, code in (
                ({"device": 2}, Code.BUFFER), ({"bits": 64}, Code.DTYPE),
                ({"lanes": 4}, Code.DTYPE), ({"code": 0}, Code.DTYPE), ({"ndim": 9}, Code.SHAPE),
                ({"ndim": -1}, Code.SHAPE), ({"shape": None}, Code.ARGUMENT)):
            with pytest.raises(Failed, match="For 'infer', 'x' must be ") as e:
                run_dlpack(session, "infer", [dl(X[:5], **change)], [dl(out)])
            assert e.value.code is code
        with pytest.raises(Failed, match="and contiguous, with the stride 1 on axis 1, but got "):
            run_dlpack(session, "infer", [dl(X[:5], (1, 5))], [dl(out)])
        with pytest.raises(Failed, match=r"here float32\[4, 300\], but got float32\[5, 300\]"):
            run_dlpack(session, "infer", [dl(X[:4])], [dl(out)])
        with pytest.raises(Failed, match="but got NULL"):
            run_dlpack(session, "infer", [None], [dl(out)])


BAD = [
    ("infer", [X[0]], None, Code.SHAPE,
     "For 'infer', 'x' must be float32[N, 16], but got float32[16]."),
    ("infer", [X.astype(np.float64)], None, Code.DTYPE,
     "For 'infer', 'x' must be float32[N, 16], but got float64[64, 16]."),
    ("infer", [X[:, :15].copy()], None, Code.SHAPE,
     "For 'infer', 'x' must be float32[N, 16], but got float32[64, 15]."),
    ("infer", [X[:2]], [(1, 300)], Code.BUFFER,
     "For 'infer', 'out0' must be float32[N, 300] in a buffer of 2400 bytes, but got 1200."),
    ("infer", [X[:2]], ["int32", (2, 300)], Code.DTYPE,
     "For 'infer', 'out0' must be float32[N, 300], but got int32[2, 300]."),
    ("infer", [X, X], [(64, 300)], Code.ARGUMENT,
     "For 'infer', the numbers of inputs and outputs must be 1 and 1, but got 2 and 1."),
    ("pick", [X[:4, :3].copy(), np.array([1, 4], np.int32)], [(2, 3)], Code.RUN, "IndexError"),
]


@pytest.mark.parametrize(("entry", "inputs", "out", "code", "text"), BAD)
def test_errors(
    library: CLibrary, entry: str, inputs: list[Any], out: Any, code: Code, text: str
) -> None:
    dtype = out.pop(0) if out and isinstance(out[0], str) else "float32"
    results = [np.full(shape, 7, dtype) for shape in out or [(64, 300)]]
    with library.session() as session:
        with pytest.raises(Failed, match=re.escape(text)) as e:
            session.run(entry, *inputs, out=results)
        assert e.value.code is code
        assert code is Code.RUN or all((r == 7).all() for r in results)


def test_an_error_of_the_network_says_value_and_place(library: CLibrary, model: Model) -> None:
    x, i = X[:4, :3].copy(), np.array([1, 9], np.int32)
    with library.session() as session, pytest.raises(Failed, match="For 'pick', IndexError: ") as e:
        session.run("pick", x, i, out=[np.empty((2, 3), np.float32)])
    with pytest.raises(IndexError, match="9") as want:
        model.pick(ms.Tensor(x), ms.Tensor(i)).asnumpy()
    assert str(want.value).splitlines()[0] in str(e.value)
    assert f"(at {Path(__file__).with_name('conftest.py')}:" in str(e.value)


def test_disagreeing_sizes_and_those_that_are_not_served(tmp_path: Path) -> None:
    net = nn.Dense(4, 4)

    def both(a: Any, b: Any) -> Any:
        return net(a) + b

    ms.compile_artifact(tmp_path / "libx.so", {"both": (both, "float32[N,4]", "float32[N,4]")},
                        sizes={"N": [2, 3]})
    with CLibrary(tmp_path / "libx.so").session() as session:
        a = np.ones((3, 4), np.float32)
        np.testing.assert_array_equal(session.run("both", a, a)[0],
                                      (net(ms.Tensor(a)) + ms.Tensor(a)).asnumpy())
        with pytest.raises(Failed, match=r"'b' must be float32\[N, 4\] with 3 on axis 0, as "):
            session.types("both", a, a[:2])
        with pytest.raises(Failed, match=r"the sizes must be N 2, 3, but got N = 1\.") as e:
            session.types("both", a[:1], a[:1])
        assert e.value.code is Code.SIZES


def test_null_pointers_and_wrong_numbers(library: CLibrary) -> None:
    session, error = library.session(), Error()
    here, x = ctypes.addressof(error), (Tensor * 1)(tensor(X))
    out = np.full((64, 300), 7, np.float32)
    y = (Tensor * 1)(tensor(out))
    run = library.function("run")

    def call(s: Any, entry: int, xs: Any, nx: int, ys: Any, ny: int, at: Any = here) -> int:
        return int(run(s, entry, xs and ctypes.addressof(xs), nx, ys and ctypes.addressof(ys), ny,
                       at))

    for args in ((None, 0, x, 1, y, 1), (session.handle, 99, x, 1, y, 1),
                 (session.handle, -1, x, 1, y, 1), (session.handle, 0, None, 1, y, 1),
                 (session.handle, 0, x, 1, None, 1), (session.handle, 0, x, -1, y, 1)):
        assert call(*args) == Code.ARGUMENT and error.text
        assert call(*args, at=None) == Code.ARGUMENT
    for field, value, code in (("ndim", 99, Code.SHAPE), ("ndim", -1, Code.SHAPE),
                               ("dtype", 99, Code.DTYPE), ("dtype", -5, Code.DTYPE),
                               ("data", None, Code.BUFFER), ("nbytes", -1, Code.BUFFER),
                               ("data", X.ctypes.data + 1, Code.BUFFER)):
        bad = (Tensor * 1)(tensor(X))
        setattr(bad[0], field, value)
        assert call(session.handle, 0, bad, 1, y, 1) == code, (field, value)
    bad = (Tensor * 1)(tensor(X))
    bad[0].shape[0] = 1 << 62
    assert call(session.handle, 0, bad, 1, y, 1) == Code.SIZES
    bad[0].shape[0] = -1
    assert call(session.handle, 0, bad, 1, y, 1) == Code.SHAPE
    shared = (Tensor * 1)(tensor(X))
    shared[0].nbytes = out.nbytes
    assert call(session.handle, 0, x, 1, shared, 1) == Code.BUFFER
    assert b"shares with another argument" in error.text
    assert (out == 7).all() and call(session.handle, 0, x, 1, y, 1) == 0
    view = (Tensor * 1)()
    library.check("weight", session.handle, b"cache", ctypes.addressof(view))
    small = (Tensor * 1)(tensor(np.empty(16, np.float32)))
    assert call(session.handle, session.number("prefill"), view, 1, small, 1) == Code.BUFFER
    assert error.text == (b"For 'prefill', 'x' must be float32[8, 16] in memory of its own, but "
                          b"got that of a weight.")
    assert call(session.handle, 0, view, 1, y, 1) == 0  # no weight changes
    library.function("destroy")(None)
    assert library.function("create")(library.address, None, None, here) == Code.ARGUMENT
    with pytest.raises(Failed, match="between 1 and 1024, but got 0"):
        library.check("set_threads", library.address, 0)
    with pytest.raises(Failed, match="between 1 and 1024, but got -3"):
        library.session(threads=-3)
    with pytest.raises(Failed, match="There is no weight 'no'"):
        session.weight("no")
    session.close()


NULLS = {
    "create": ("library options place", {"place"}), "clone": ("session place", None),
    "reset": ("session", None), "save": ("session path", None),
    "weight": ("session name tensor", None),
    "measure": ("session entry inputs nin outputs nout", {"session", "inputs", "outputs"}),
    "run": ("session entry inputs nin outputs nout", {"session", "inputs", "outputs"}),
    "run_dlpack": ("session entry inputs nin outputs nout", {"session", "inputs", "outputs"}),
}
"""By function the names of its arguments, and which of them must not be NULL; None: all."""


@pytest.mark.parametrize("function", NULLS)
def test_each_pointer_that_must_not_be_null(library: CLibrary, function: str) -> None:
    """A code and a text, also where there is no place for the text; nothing is written."""
    session, error, place = library.session(), Error(), ctypes.c_void_p(7)
    out = np.full((64, 300), 7, np.float32)
    x, y = (Tensor * 1)(tensor(X)), (Tensor * 1)(tensor(out))
    kept = [dl(X), dl(out)]
    pointers: dict[str, Any] = {"inputs": x, "outputs": y}
    if function == "run_dlpack":
        pointers = {n: (ctypes.c_void_p * 1)(ctypes.addressof(k)) for n, k in
                    zip(("inputs", "outputs"), kept, strict=True)}
    given = {
        "library": library.address, "options": None, "place": ctypes.addressof(place),
        "session": session.handle, "path": b"/", "name": b"w", "tensor": ctypes.addressof(Tensor()),
        "entry": 0, "nin": 1, "nout": 1,
        **{n: ctypes.addressof(p) for n, p in pointers.items()}}
    names = NULLS[function][0].split()
    for name in NULLS[function][1] or names:
        args = [None if n == name else given[n] for n in names]
        call = library.function(function)
        assert call(*args, ctypes.addressof(error)) == error.code == Code.ARGUMENT, name
        assert error.text and call(*args, None) == Code.ARGUMENT
    assert (out == 7).all() and place.value in (7, None)
    library.check("run", session.handle, 0, ctypes.addressof(x), 1, ctypes.addressof(y), 1)
    assert library.function("find")(library.address, None) == -1
    assert library.function("find")(None, b"infer") == -1
    session.close()


def test_the_version_is_checked(library: CLibrary) -> None:
    error = Error()
    assert library.dll.cellc_get_library(ABI + 1, ctypes.addressof(error)) is None
    assert error.code == Code.ABI
    assert error.text == (b"The library has version 1 of the interface, but the program asks for "
                          b"2.")
    own = library.dll.model_library
    own.restype, own.argtypes = ctypes.c_void_p, (ctypes.c_int32, ctypes.c_void_p)
    assert own(ABI, None) == library.address


def test_weights_in_a_file(model: Model, tmp_path: Path, path: Path) -> None:
    file = tmp_path / "w.safetensors"
    ms.compile_artifact(tmp_path / "libm.so", entries(model, ["infer"]), weights=file)
    library = CLibrary(tmp_path / "libm.so")
    assert not library.table.embedded
    with library.session(file) as session:
        np.testing.assert_array_equal(session.run("infer", X[:3])[0],
                                      model(ms.Tensor(X[:3])).asnumpy())
    with pytest.raises(Failed, match="holds no weights: give its file"):
        library.session()
    bad = tmp_path / "bad.safetensors"
    data = file.read_bytes()
    for content, text in ((data[:-4], "must have .* bytes, but has"), (data + b"x", "must have"),
                          (b"", "must hold the weights"), (data[:50], "must hold the weights")):
        bad.write_bytes(content)
        with pytest.raises(Failed, match=text) as e:
            library.session(bad)
        assert e.value.code is Code.WEIGHTS
    other = Model()
    other.w.set_data(ms.Tensor(np.zeros((16, 16), np.float32)))
    ms.compile_artifact(tmp_path / "libo.so", entries(other, ["infer"]),
                        weights=tmp_path / "other.safetensors")
    with pytest.raises(Failed, match=r"must hold the weights \w+ of m, but holds others") as e:
        library.session(tmp_path / "other.safetensors")
    assert e.value.code is Code.WEIGHTS
    for missing in (tmp_path / "no" / "w", tmp_path):
        with pytest.raises(Failed, match="cannot be read: ") as e:
            library.session(missing)
        assert e.value.code is Code.FILE
    with CLibrary(path).session() as session:
        with pytest.raises(Failed, match=r"cannot be written: No such file or directory\.") as e:
            session.save(tmp_path / "no" / "w")
        assert e.value.code is Code.FILE
        with pytest.raises(Failed, match="fewer than 4000 bytes"):
            session.save("x" * 5000)
