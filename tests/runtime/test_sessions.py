"""Calls of artifacts: what they take, by name and by position; sessions, their state and threads;
memory that loads share; results in the caller's arrays."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc_runtime
from cellc.cli import main
from cellc_runtime import Artifact, knobs
from cellc_runtime.abi import LARGE
from cellc_runtime.arguments import Inputs
from cellc_runtime.artifact import Entry, _File, save
from cellc_runtime.container import pack, unpack
from cellc_runtime.errors import ArtifactError
from cellc_runtime.variants import OpenSizes

SOURCE = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Decoder(nn.Cell):
    """A cache that each call appends to; a weight that none updates."""

    def __init__(self):
        super().__init__()
        table = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
        self.table = ms.Parameter(table, name="table", requires_grad=False)
        self.cache = ms.Parameter(np.zeros((8, 1024), np.float32), name="cache",
                                  requires_grad=False)
        self.at = ms.Parameter(np.zeros((), np.int32), name="at", requires_grad=False)

    def construct(self, token):
        row = ops.gather(self.table, token, 0)
        here = (ops.arange(8) == self.at).astype(ms.float32).reshape(8, 1)
        ops.assign(self.cache, self.cache * (1 - here) + row * here)
        ops.assign(self.at, self.at + 1)
        return self.cache.sum(0)


class Subtract(nn.Cell):
    def construct(self, a, b):
        return a - b, a * 2


class Rows(nn.Cell):
    def construct(self, x, y):
        return x * 3 + y


class Big(nn.Cell):
    def construct(self, x):
        return x * 2 + 1
'''


def compiled(folder: Path, network: str, *inputs: str) -> Path:
    source = folder / "session_nets.py"
    source.write_text(SOURCE)
    out = folder / f"{network}.cellc"
    options = [part for spec in inputs for part in ("-i", spec)]
    assert main(["compile", f"{source}:{network}", *options, "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("sessions"), "Decoder", "token=int32[]")


@pytest.fixture(scope="module")
def subtract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("named"), "Subtract", "a=float32[3]", "b=float32[3]")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("rows"), "Rows", "x=float32[N,3]", "y=float32[N,3]")


def load(path: Any) -> Artifact:
    return cellc_runtime.load(path, trust_native_code=True)


A, B = np.float32([1, 2, 3]), np.float32([10, 20, 30])


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda net: net(A, B), lambda net: net(A, b=B), lambda net: net(b=B, a=A),
    lambda net: net({"b": B, "a": A}), lambda net: net({"b": B}, a=A),
    lambda net: net([1, 2, 3], [10.0, 20, 30]), lambda net: net((1, 2, 3), B.tolist()),
    lambda net: net(A.astype(np.float64), B.astype(np.int64)),
    lambda net: net(A.astype(ml_dtypes.bfloat16), B.astype(">f4")),
    lambda net: net.call("infer", b=B, a=A), lambda net: net.call("infer", memoryview(A), B),
])
def test_arguments_by_position_and_by_name(
    call: Callable[[Artifact], Any], subtract: Path
) -> None:
    net = load(subtract)
    for _ in range(2):  # the second call goes the short way
        difference, double = call(net)
        np.testing.assert_array_equal(difference, A - B)
        np.testing.assert_array_equal(double, A * 2)
        assert difference.dtype == np.float32


TAKES = "For 'infer', the inputs must be a: float32[3] and b: float32[3], but "


@pytest.mark.parametrize(("call", "kind", "said"), [
    (lambda net: net(A), TypeError, TAKES + "'b' is missing."),
    (lambda net: net(), TypeError, TAKES + "'a' and 'b' are missing."),
    (lambda net: net(A, B, A), TypeError, TAKES + "got 3 arguments."),
    (lambda net: net(A, B, c=A), TypeError, TAKES + "got 'c'."),
    (lambda net: net(A, B, a=A), TypeError, TAKES + "'a' is given twice."),
    (lambda net: net({"a": A}, a=A, b=B), TypeError, TAKES + "'a' is given twice."),
    (lambda net: net({"a": A, "c": B}), TypeError, TAKES + "got 'c'."),
    (lambda net: net(A, A[:2]), ValueError,
     "For 'infer', 'b' must be float32[3], but got float32[2]."),
    (lambda net: net(A, 3), ValueError, "For 'infer', 'b' must be float32[3], but got float32[]."),
    (lambda net: net(A, None), TypeError, "For 'infer', 'b' must be float32[3], but got NoneType."),
    (lambda net: net(A, "abc"), TypeError, "For 'infer', 'b' must be float32[3], but got str."),
    (lambda net: net(A, [1, "a", 3]), TypeError,
     "For 'infer', 'b' must be float32[3], but got list of other objects."),
    (lambda net: net(A, [[1], [2, 3], 4]), TypeError,
     "For 'infer', 'b' must be float32[3], but got list, which does not convert to an array"),
    (lambda net: net(A, np.array([1, 0.1, 2])), TypeError,
     "For 'infer', 'b' must be float32[3], but got float64[3] with 0.1, which float32 does not"),
    (lambda net: net(A, [1, 2**24 + 1, 3]), TypeError,
     "For 'infer', 'b' must be float32[3], but got int64[3] with 16777217, which float32 does"),
    (lambda net: net(A, [1, 1e39, 3]), TypeError, "with 1e+39, which float32 does not hold."),
    (lambda net: net(A, [1, 10**30, 3]), TypeError,
     "For 'infer', 'b' must be float32[3], but got list with 1000000000000000000000000000000, which"
     " no element type holds."),
    (lambda net: net(A, [1j, 2, 3]), TypeError, "must be float32[3], but got complex128[3]."),
    (lambda net: net(A, np.ma.array(B, mask=[0, 1, 0])), TypeError,
     "For 'infer', 'b' must be float32[3], but got MaskedArray with masked elements."),
])
def test_wrong_arguments(
    call: Callable[[Artifact], Any], kind: type[Exception], said: str, subtract: Path
) -> None:
    net = load(subtract)
    for _ in range(2):
        with pytest.raises(kind, match=re.escape(said)):
            call(net)
        net(A, B)


@pytest.mark.parametrize(("dtype", "value", "held"), [
    ("int8", np.array([1, 127]), True), ("int8", np.array([1, 128]), False),
    ("uint64", np.array([0, -1]), False), ("int64", np.array([1, 2**63], np.uint64), False),
    ("int64", np.array([1, 2**62], np.uint64), True), ("int32", np.array([1.0, 2.0]), False),
    ("int32", np.array([True, False]), True), ("bool", np.array([0, 1]), False),
    ("float64", np.array([1, 2**53 + 1]), False), ("float64", np.array([1, 2**53]), True),
    ("float16", np.array([1, 2049]), False), ("float16", np.array([np.nan, np.inf]), True),
    ("bfloat16", np.array([1, 0.1], np.float32), False), ("bfloat16", [1, 0.1], True),
    ("complex64", np.array([1, 0.5j]), True), ("complex64", np.array([1, 0.1j]), False),
    ("complex64", [1, 0.1j], True), ("complex128", np.array([1, 2]), True),
    ("int32", np.array(["1", "2"]), False), ("int32", np.array([1, 2], "M8[s]"), False),
])
def test_only_what_a_type_holds_is_converted(dtype: str, value: Any, held: bool) -> None:
    inputs = Inputs("f", (("x", dtype, (2,)),), OpenSizes())
    if not held:
        with pytest.raises(TypeError, match=rf"For 'f', 'x' must be {dtype}\[2\], but got "):
            inputs.bind([value], {})
        return
    found, = inputs.bind([value], {})
    want = np.asarray(value).astype(found.dtype)
    np.testing.assert_array_equal(found, want)


def test_open_sizes_take_names_too(rows: Path) -> None:
    net = load(rows)
    x, y = np.ones((5, 3), np.float32), np.full((5, 3), 2, np.float32)
    np.testing.assert_array_equal(net(y=y, x=x), np.full((5, 3), 5))
    np.testing.assert_array_equal(net([[1, 1, 1]], y=y[:1].tolist()), np.full((1, 3), 5))
    with pytest.raises(ValueError, match=r"'x' must be float32\[N, 3\], but got float32\[5, 2\]"):
        net(x[:, :2], y)
    with pytest.raises(ValueError, match="the inputs must have one size N"):
        net(x, y[:4])


LEARNER = """
import cellc as ms
from cellc import nn, ops

class Learner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(48, 64)
        self.step = nn.TrainOneStepCell(nn.WithLossCell(self.dense, nn.MSELoss()),
                                        nn.SGD(self.dense.trainable_params(), 0.1))

    def construct(self, x):
        return self.dense(x)

    def learn(self, x, y):
        return self.step(x, y)
"""


def test_further_sizes_share_code_and_packed_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And they see what calls of other sizes have written."""
    import cellc as ms
    from cellc_runtime import prepacking
    from cellc_runtime.opened import Opened

    space: dict[str, Any] = {"__source__": LEARNER, "__name__": "learner"}
    exec(LEARNER, space)
    ms.set_seed(1)
    net, path = space["Learner"](), tmp_path / "learner.cellc"
    ms.compile_artifact(path, {"infer": (net, "float32[B,48]"),
                               "learn": (net.learn, "float32[B,48]", "float32[B,64]")})
    packed, made = [], prepacking.Blocks._made

    def count(*args: Any) -> Any:
        packed.append(args[1])
        return made(*args)

    monkeypatch.setattr(prepacking.Blocks, "_made", count)
    loaded = load(path)
    rng = np.random.default_rng(0)

    def sizes(values: tuple[int, ...]) -> None:
        for b in values:
            x = rng.standard_normal((b, 48)).astype(np.float32)
            want = net(ms.Tensor(x)).asnumpy()
            assert loaded(x).tobytes() == want.tobytes(), b

    sizes((5, 6, 7, 8))
    assert packed == [0]
    sizes((9, 10, 11, 7))
    codes = {bound.executable._core._code for opened in loaded._open.values()
             if isinstance(opened, Opened) for bound in opened._ready.values()}
    assert packed == [0] and len(codes) == 1
    for b in (5, 6, 12):
        x, y = (rng.standard_normal((b, n)).astype(np.float32) for n in (48, 64))
        got, want = loaded.call("learn", x, y), net.learn(ms.Tensor(x), ms.Tensor(y)).asnumpy()
        assert np.asarray(got).tobytes() == want.tobytes()
        sizes((5, 9, 13 + b))
    loaded.reset()
    fresh = load(path)
    for b in (5, 14, 30):
        x = rng.standard_normal((b, 48)).astype(np.float32)
        assert loaded(x).tobytes() == fresh(x).tobytes()


def test_the_command_line_binds_by_name(
    subtract: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "b.npy", B)
    a, b = f"a=@{tmp_path / 'a.npy'}", f"b=@{tmp_path / 'b.npy'}"
    for given in (["-i", a, "-i", b], ["-i", b, "-i", a]):
        assert main(["run", str(subtract), *given]) == 0
        assert "[ -9. -18. -27.]" in capsys.readouterr().out
    for given, said in ((["-i", a], "'b' is missing"), (["-i", a, "-i", b, "-i", "c" + a], "'ca'"),
                        (["-i", a, "-i", b, "-i", a], "--input a: it is given twice")):
        assert main(["run", str(subtract), *given]) == 2
        assert said in capsys.readouterr().err


def test_trust_is_no_text(subtract: Path) -> None:
    for said in ("no", "False", None, [], 2):
        with pytest.raises(TypeError, match="'trust_native_code' must be True or False, but got "):
            cellc_runtime.load(subtract, trust_native_code=said)  # type: ignore[arg-type]


def test_an_unknown_target_is_an_error(subtract: Path) -> None:
    with knobs.override(target="foo"), \
            pytest.raises(ValueError, match="CELLC_TARGET='foo': this machine runs "):
        load(subtract)(A, B)
    with knobs.override(target="cuda-sm_80"), \
            pytest.raises(ArtifactError, match=r"this machine runs .*, and CELLC_TARGET is cuda"):
        load(subtract)(A, B)


# --- results in the caller's arrays --------------------------------------------------------------


def test_results_in_the_callers_arrays(subtract: Path, rows: Path) -> None:
    net = load(subtract)
    out = np.empty(3, np.float32), np.empty(3, np.float32)
    for given in (out, list(out), {net.signature().outputs[0][0]: out[0],
                                   net.signature().outputs[1][0]: out[1]}):
        for array in out:
            array[:] = -1
        found = net(A, B, out=given)
        assert found[0] is out[0] and found[1] is out[1]
        np.testing.assert_array_equal(out, [A - B, A * 2])
    first, second = net(A, B, out=[None, out[1]])
    assert second is out[1] and not np.shares_memory(first, out[0])
    a = A.copy()
    assert net(a, B, out=[a, None])[0] is a  # it may be an input: that is read before
    np.testing.assert_array_equal(a, A - B)

    net = load(rows)
    for n in (1, 5, 40):
        x = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
        want = x * 3 + 1
        assert net(x, np.ones_like(x), out=x) is x
        np.testing.assert_array_equal(x, want)


def test_large_results_are_written_in_place_where_they_may(tmp_path: Path) -> None:
    n = LARGE // 4 + 64
    net = load(compiled(tmp_path, "Big", f"x=float32[{n}]"))
    x = np.arange(n, dtype=np.float32)
    raw = np.zeros(n * 4 + 128, np.uint8)
    start = -raw.ctypes.data % 64
    for shift in (0, 4):  # a multiple of 64 bytes, and none
        out = raw[start + shift : start + shift + n * 4].view(np.float32)
        assert net(x, out=out) is out
        np.testing.assert_array_equal(out, x * 2 + 1)


LONG = np.zeros(5, np.float32)


@pytest.mark.parametrize(("out", "kind", "said"), [
    (np.zeros(3, np.float32), TypeError,
     "but got one array, float32[3]: give a list of 2, each an array or None."),
    ([None], TypeError, "but got a list of 1: give a list of 2, each an array or None."),
    (np.zeros(3, object), TypeError, "but got one array, object[3]: give a list of 2"),
    ([np.zeros(3), None], ValueError, "but got float64[3] for "),
    ([np.zeros(2, np.float32), None], ValueError, "but got float32[2] for "),
    ([[0, 0, 0], None], TypeError, "but got list for "),
    ([np.zeros(3, ">f4"), None], ValueError,
     "but got float32[3] in the byte order of other machines for "),
    ([np.zeros(6, np.float32)[::2], None], ValueError,
     "is not contiguous (its strides are (8,)): give numpy.empty((3,), 'float32') and copy from"),
    ([np.broadcast_to(np.float32(0), 3), None], ValueError, "is read-only: give numpy.empty"),
    ([np.zeros(13, np.uint8)[1:].view(np.float32), None], ValueError,
     "is not aligned (it does not begin at a multiple of 4): give "),
    ([LONG[:3], LONG[2:]], ValueError, " shares memory with that for 'out0'."),
    ({"nothing": A}, TypeError, "but got 'nothing'."),
    (3, TypeError, "but got one int: give a list of 2"),
    ((a for a in (A, B)), TypeError, "but got one generator: give a list of 2"),
])
def test_wrong_places_for_results(
    out: Any, kind: type[Exception], said: str, subtract: Path
) -> None:
    with pytest.raises(kind, match=r"For 'infer', 'out' must be arrays for the outputs .*"
                                   + re.escape(said)):
        load(subtract)(A, B, out=out)
    assert not LONG.any()


def test_wrong_places_for_one_result(rows: Path, decoder: Path) -> None:
    x = np.ones((2, 3), np.float32)
    for out, said in (([x, x], "a list of 2"), ((), "a tuple of 0"), ([[0] * 3] * 2, "a list of")):
        with pytest.raises(TypeError, match=r"'out' must be an array for the output .*float32\[2, 3"
                                            rf"\], but got {said}.*: give one array\."):
            load(rows)(x, x, out=out)
    net = load(decoder)
    net(1)
    cache = net.weights["cache"]
    before = cache.copy()
    with pytest.raises(ValueError, match="for 'out0' shares memory with the weight 'cache'"):
        net(1, out=cache[3])
    np.testing.assert_array_equal(cache, before)
    assert int(net.weights["at"]) == 1


# --- sessions ------------------------------------------------------------------------------------


def generate(net: Artifact, tokens: list[int]) -> np.ndarray:
    return np.stack([net(t) for t in tokens])


def alone(path: Path, tokens: list[int]) -> np.ndarray:
    """The generation of a fresh process of its own state."""
    return generate(load(path.read_bytes()).session(), tokens)


def test_sessions_have_their_own_state_and_share_weights(decoder: Path) -> None:
    net = load(decoder)
    one, other = net.session(), net.session()
    first, second = [3, 1, 4], [2, 7, 1]
    mixed = [(one(a), other(b)) for a, b in zip(first, second, strict=True)]
    np.testing.assert_array_equal([a for a, _ in mixed], alone(decoder, first))
    np.testing.assert_array_equal([b for _, b in mixed], alone(decoder, second))
    assert int(one.weights["at"]) == 3 and int(net.weights["at"]) == 0
    assert one.weights["table"] is other.weights["table"] is net.weights["table"]
    assert not np.shares_memory(one.weights["cache"], other.weights["cache"])
    assert one.entries == net.entries and one.signature() == net.signature()


def test_reset_gives_the_state_of_the_file(decoder: Path, tmp_path: Path) -> None:
    net = load(decoder)
    want = generate(net, [5, 6])
    kept = net.weights["cache"]
    before = kept.copy()
    net.reset()
    assert int(net.weights["at"]) == 0 and not net.weights["cache"].any()
    np.testing.assert_array_equal(kept, before)  # an array that was handed out stays as it is
    np.testing.assert_array_equal(generate(net, [5, 6]), want)
    net.save(tmp_path / "later.cellc")
    later = load(tmp_path / "later.cellc")
    later(1)
    later.reset()  # to its own file
    assert int(later.weights["at"]) == 2


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run work in threads that begin together; what one raises is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(k: int) -> None:
        try:
            start.wait()
            work(k)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_of_a_session_take_turns(decoder: Path) -> None:
    """Each call is whole, and so is a block of calls."""
    net = load(decoder)
    in_threads(4, lambda k: [net(0) for _ in range(200)] and None)
    assert int(net.weights["at"]) == 800
    prompts = [[k, k + 1, k + 2, k + 3] for k in range(6)]
    want = [alone(decoder, p) for p in prompts]
    found: dict[tuple[int, int], np.ndarray] = {}

    def talk(k: int) -> None:
        for again in range(20):
            with net:
                net.reset()
                found[k, again] = generate(net, prompts[k])

    in_threads(6, talk)
    assert len(found) == 120
    for (k, _), got in found.items():
        np.testing.assert_array_equal(got, want[k])


def test_threads_with_sessions_of_their_own(decoder: Path) -> None:
    net = load(decoder)
    prompts = [[k, 9, k] for k in range(6)]
    want = [alone(decoder, p) for p in prompts]

    def talk(k: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(generate(net.session(), prompts[k]), want[k])

    in_threads(6, talk)


FORKS = """
import os, signal, sys, threading
import cellc_runtime
net = cellc_runtime.load(sys.argv[1], trust_native_code=True)
net(1)
done = []
def busy():
    while not done:
        net(1)
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(8):
    child = os.fork()
    if not child:
        signal.alarm(20)  # a lock that nobody releases
        net(2)
        os._exit(0)
    done += [1] * os.waitpid(child, 0)[1]
failed = len(done)
done.append(1)
for thread in threads:
    thread.join()
sys.exit(failed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_does_not_wait_for_threads_of_its_parent(decoder: Path) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS, str(decoder)], check=True,
                   timeout=200)


def test_calls_without_state_need_no_turn(subtract: Path) -> None:
    """Another thread may hold the session: nothing is updated, so nothing is waited for."""
    net = load(subtract)
    net(A, B)
    with net:
        in_threads(1, lambda _: np.testing.assert_array_equal(net(A, b=B)[0], A - B))
        in_threads(1, lambda _: np.testing.assert_array_equal(net(A, B)[0], A - B))


def test_code_that_updates_more_than_the_header_says_is_refused(decoder: Path) -> None:
    box = unpack(decoder.read_bytes(), b"CELLCART", 2, "artifact")
    meta = box.meta
    assert meta["entries"]["infer"]["updates"] == ["at", "cache"]
    sections = list(box.sections.items())
    for updates, fits in ((["at"], False), ([], False), (["at", "cache", "table"], True)):
        meta["entries"]["infer"]["updates"] = updates
        net = load(b"".join(pack(b"CELLCART", 2, meta, sections)))
        if fits:
            net(1)
            continue
        with pytest.raises(ArtifactError, match="is not what the header says"):
            net(1)
    for updates in (3, [[1]]):
        meta["entries"]["infer"]["updates"] = updates
        if updates == 3:
            with pytest.raises(ArtifactError, match="malformed"):
                load(b"".join(pack(b"CELLCART", 2, meta, sections)))
    del meta["entries"]["infer"]["updates"]  # as files were before
    old = load(b"".join(pack(b"CELLCART", 2, meta, sections)))
    np.testing.assert_array_equal(generate(old.session(), [1, 2]), alone(decoder, [1, 2]))


# --- one copy in memory --------------------------------------------------------------------------


def test_a_file_is_in_memory_once(decoder: Path, tmp_path: Path) -> None:
    first = load(decoder)
    copy = tmp_path / "copy.cellc"
    copy.write_bytes(decoder.read_bytes())
    with open(decoder, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for given in (decoder, str(decoder), copy, decoder.read_bytes(), mapped,
                  bytearray(decoder.read_bytes())):
        again = load(given)
        assert again.weights["table"] is first.weights["table"]
        assert again.name in ("Decoder.cellc", "copy.cellc", "artifact")
        np.testing.assert_array_equal(again(1), first.session()(1))
    assert not cellc_runtime.load(decoder)._trusted  # trust is each caller's own


def test_contents_are_used_where_they_are(decoder: Path, tmp_path: Path) -> None:
    """Another file than those above, so that none of it is in memory."""
    net = load(decoder)
    net(1)
    path = tmp_path / "other.cellc"
    net.save(path)
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    whole = np.frombuffer(mapped, np.uint8)
    other = load(mapped)
    assert np.shares_memory(other.weights["table"], whole)
    assert int(other.weights["at"]) == 1 and other(2).shape == (1024,)
    del other
    writable = bytearray(path.read_bytes())
    copied = load(writable)
    assert not np.shares_memory(copied.weights["table"], np.frombuffer(writable, np.uint8))
    for at in (100, len(writable) // 2):
        damaged = bytearray(writable)
        damaged[at] ^= 1
        with pytest.raises(ArtifactError, match="artifact: "):
            load(bytes(damaged))
    for wrong in (3, None, [1, 2], np.zeros((4, 4))[::2]):
        with pytest.raises(TypeError, match="'path' must be a path or the contents of a file"):
            load(wrong)
    with pytest.raises(ArtifactError, match="only 0 bytes"):
        load(b"")
    for path in (b"net.cellc", bytearray("täglich.cellc", "utf-8")):
        with pytest.raises(ArtifactError, match=r"but got the bytes of .*cellc'"):
            load(path)
    with open(decoder, "rb") as file, \
            pytest.raises(TypeError, match=r"give its name, or what read"):
        load(file)


def test_paths_that_no_system_takes(subtract: Path, tmp_path: Path) -> None:
    net = load(subtract)
    for call in (load, net.save):
        with pytest.raises(ValueError, match=r"must have no NUL character, but got '.*a\\x00b'"):
            call(f"{tmp_path}/a\0b")
    for wrong in (None, 3, b"x.cellc"):
        with pytest.raises(TypeError, match=r"A path must be a str or a pathlib\.Path, but got"):
            net.save(wrong)
    assert not [*tmp_path.iterdir()]
    path = tmp_path / "two\nlines.cellc"
    net.save(path)
    np.testing.assert_array_equal(load(path)(A, B)[0], A - B)


@pytest.mark.parametrize("callbacks", [[1], {"f": 3}, "f"])
def test_callbacks_are_functions(callbacks: Any, subtract: Path) -> None:
    with pytest.raises(TypeError, match="'callbacks' must be functions by name, but got"):
        cellc_runtime.load(subtract, True, callbacks)


@pytest.mark.parametrize("entry", ["train", 3, None, ["infer"]])
def test_names_that_no_entry_has(entry: Any, subtract: Path) -> None:
    net = load(subtract)
    for call in (lambda: net.call(entry, A, B), lambda: net.signature(entry)):
        with pytest.raises(KeyError, match=r"Subtract\.cellc has entries infer; not "):
            call()


MEMORY = """
import sys
import cellc_runtime

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

kept, sizes = [], []
for _ in range(3):
    kept.append(cellc_runtime.load(sys.argv[1]))
    sizes.append(resident())
print(sizes[2] - sizes[0])
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux says what is resident")
def test_three_loads_take_the_memory_of_one(tmp_path: Path) -> None:
    path = tmp_path / "large.cellc"
    sys.path.insert(0, str(Path(__file__).parent))
    from helpers import add_program

    weights = {"b": np.zeros(8, np.float32), "more": np.ones(64 << 18, np.float32)}
    save(path, {"infer": Entry([add_program(kind="param")])}, weights)
    done = subprocess.run([sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True,
                          check=True)
    assert int(done.stdout) < 16  # of 64 MiB each


def test_a_file_that_nobody_has_leaves_memory(decoder: Path, tmp_path: Path) -> None:
    from cellc_runtime.artifact import _files

    net = load(decoder)
    for k in range(3):
        net(k)
    path = tmp_path / "short.cellc"
    net.save(path)
    other = load(path)
    digest = other._box.digest
    assert isinstance(_files[digest], _File)
    del other
    import gc

    gc.collect()
    assert digest not in _files
