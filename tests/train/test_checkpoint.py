"""Checkpoints: both formats, damage of every kind, exchange with MindSpore, resuming a training."""

from __future__ import annotations

import io
import logging
import mmap
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc_runtime import checkpoint, ckpt, dtypes
from cellc_runtime.errors import ArtifactError, CutOff
from cellc_runtime.files import LEFT_SECONDS

from ..others import mindspore

FORMATS = ("ckpt", "safetensors")


class Net(nn.Cell):
    """A few parameters, trained and not, and a buffer."""

    def __init__(self, width=2):
        super().__init__()
        self.d = nn.Dense(3, width)
        self.norm = nn.BatchNorm1d(width)
        self.count = Parameter(Tensor(np.arange(3), ms.int64), name="count", requires_grad=False)
        self.register_buffer("table", Tensor(np.array([1.0, 2.0], np.float32)))

    def construct(self, x):
        return self.norm(self.d(x))


def state(net):
    return {k: v.asnumpy().copy() for k, v in net.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


# --- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("crc", [False, True])
def test_a_network_comes_back(folder, format, crc):
    net, other = Net(), Net()
    ms.save_checkpoint(net, "net", format=format, crc_check=crc)
    loaded = ms.load_checkpoint(f"net.{format}", format=format, crc_check=crc)
    assert ms.load_param_into_net(other, loaded) == ([], [])
    assert same(state(net), state(other))
    assert all(isinstance(p, Parameter) and p.name == n for n, p in loaded.items())


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3), (1, 1, 5)], ids=str)
def test_every_type_and_shape(folder, format, dtype, shape):
    raw = np.random.default_rng(0).integers(0, 2, shape)
    data = Tensor(raw.astype(dtype.numpy))
    ms.save_checkpoint([{"name": "first", "data": Tensor(np.int8(1))},
                        {"name": "x", "data": data}], "x", format=format)
    back = ms.load_checkpoint(f"x.{format}", format=format)["x"]
    assert (back.dtype, back.shape) == (dtype, shape)
    assert np.array_equal(back.asnumpy(), data.asnumpy())


@pytest.mark.parametrize("format", FORMATS)
def test_appended_values_keep_their_kind(folder, format):
    extra = {"epoch": 3, "loss": 2.5, "note": "köln 日本", "ok": True, "t": Tensor([1, 2])}
    ms.save_checkpoint(Net(), "x", append_dict=extra, format=format)
    back = ms.load_checkpoint(f"x.{format}", format=format)
    assert back["note"] == "köln 日本"
    kinds = {k: (back[k].dtype, back[k].asnumpy().tolist()) for k in ("epoch", "loss", "ok", "t")}
    assert kinds == {"epoch": (ms.int64, 3), "loss": (ms.float32, 2.5), "ok": (ms.bool_, True),
                     "t": (ms.int64, [1, 2])}


def test_what_a_list_and_a_dict_save(folder):
    net = Net()
    ms.save_checkpoint(net.trainable_params(), "a")
    assert list(ms.load_checkpoint("a.ckpt")) == ["d.weight", "d.bias", "norm.gamma", "norm.beta"]
    ms.save_checkpoint({"q": Tensor(1.0), "p": Parameter(Tensor(2.0), name="ignored")}, "b")
    assert list(ms.load_checkpoint("b.ckpt")) == ["q", "p"]
    ms.save_checkpoint(net, "c", choice_func=lambda name: name.endswith("bias"))
    assert list(ms.load_checkpoint("c.ckpt")) == ["d.bias"]


def test_parts_of_a_large_tensor(folder, monkeypatch):
    monkeypatch.setattr(ckpt, "PART_BYTES", 64)
    x = np.arange(100, dtype=np.float32).reshape(4, 25)
    ms.save_checkpoint([{"name": "x", "data": Tensor(x)}, {"name": "y", "data": Tensor(1)}], "x")
    raw = Path("x.ckpt").read_bytes()
    assert raw.count(b"Float32") == 7
    assert np.array_equal(ms.load_checkpoint("x.ckpt")["x"].asnumpy(), x)


def test_over_two_gibibytes_without_taking_the_memory(tmp_path):
    """A file of 2.2 GiB, nearly all hole, of which the test maps the bytes."""
    path, n = tmp_path / "big.ckpt", 200 << 20
    with open(path, "wb") as file:
        for i in range(3):
            head, _ = ckpt._value(f"x{i}", (n,), "Float32", memoryview(bytearray(4 * n)))
            file.write(head)
            file.seek(4 * n, os.SEEK_CUR)
        file.truncate(file.tell())
    assert path.stat().st_size > 2 << 30
    with open(path, "rb") as file:
        back, _ = ckpt.decode(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    assert {k: v.shape for k, v in back.items()} == {f"x{i}": (n,) for i in range(3)}
    assert back["x2"][-1] == 0.0


def test_bytes_in_memory(folder):
    net = Net()
    ms.save_checkpoint(net, "n", format="safetensors")
    data = io.BytesIO(Path("n.safetensors").read_bytes())
    assert "d.weight" in ms.load_checkpoint(data, format="safetensors")
    with pytest.raises(TypeError, match="safetensors only"):
        ms.load_checkpoint(data)


def test_async_saves_the_values_of_the_call(folder):
    net = Net()
    before = state(net)
    for i in range(3):
        ms.save_checkpoint(net, "n", async_save=True if i else "process")
        net.d.weight.set_data(net.d.weight + 1)
    ms.save_checkpoint(net, "last", async_save="thread")
    future = ms.load_checkpoint_async("n.ckpt")  # the file is whole at any time, or not there
    del future
    from cellc.train.serialization import _Background

    _Background.wait_for()
    assert ms.async_ckpt_thread_status() is False
    back = ms.load_checkpoint_async("n.ckpt").result()
    assert np.array_equal(back["d.weight"].asnumpy(), before["d.weight"] + 1 + 1)
    assert np.array_equal(ms.load_checkpoint("last.ckpt")["d.weight"].asnumpy(),
                          before["d.weight"] + 1 + 1 + 1)
    with pytest.raises(ValueError, match="does not exist"):
        ms.load_checkpoint_async("none.ckpt").result()


# --- what is loaded where -----------------------------------------------------------------------


def test_choosing_names(folder):
    names = ["d.weight", "dx.weight", "e.d.weight"]
    ms.save_checkpoint([{"name": n, "data": Tensor([1.0])} for n in names], "a")

    def load(**k):
        return list(ms.load_checkpoint("a.ckpt", **k))

    assert load(filter_prefix="d.") == ["dx.weight", "e.d.weight"]
    assert load(filter_prefix=["d"]) == ["e.d.weight"]
    assert load(specify_prefix=("e", "dx")) == ["dx.weight", "e.d.weight"]
    assert load(choice_func=lambda n: n.startswith("e")) == ["e.d.weight"]
    assert load(specify_prefix="d", choice_func=lambda n: False) == ["d.weight", "dx.weight"]
    with pytest.raises(ValueError, match="empty after filter"):
        load(specify_prefix="zz")
    with pytest.raises(ValueError, match="can't include ''"):
        load(filter_prefix="")
    with pytest.raises(TypeError, match="must be string, list"):
        load(filter_prefix=5)


def parameters(**values):
    return {k.replace("_", "."): Parameter(Tensor([v], ms.float32), name=k)
            for k, v in values.items()}


class Two(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0]), name="w")
        self.v = Parameter(Tensor([1.0]), name="v")


@pytest.mark.parametrize(("given", "strict", "result", "values"), [
    ({"w": 5.0, "v": 6.0}, False, ([], []), (5, 6)),
    ({"model_w": 5.0, "model_v": 6.0}, False, ([], ["model.w", "model.v"]), (5, 6)),
    ({"model_w": 5.0, "v": 6.0}, False, ([], ["model.w"]), (5, 6)),
    ({"model_w": 5.0, "model_v": 6.0}, True, (["w", "v"], ["model.w", "model.v"]), (1, 1)),
    ({"model_w": 5.0}, False, (["v"], ["model.w"]), (5, 1)),
    ({"xw": 5.0, "xv": 6.0}, False, (["w", "v"], ["xw", "xv"]), (1, 1)),
    ({"a_w": 5.0, "m_a_w": 9.0}, False, (["v"], ["a.w", "m.a.w"]), (5, 1)),
    ({"a_w": 9.0, "m_w": 5.0, "m_v": 6.0}, False, ([], ["a.w", "m.w", "m.v"]), (5, 6)),
    ({}, False, (["w", "v"], []), (1, 1)),
])  # fmt: skip
def test_names_that_do_not_match(given, strict, result, values):
    net = Two()
    assert ms.load_param_into_net(net, parameters(**given), strict_load=strict) == result
    assert (net.w.asnumpy()[0], net.v.asnumpy()[0]) == values


@pytest.mark.parametrize(("source", "target", "fits"), [
    ("float32", "float16", True), ("float16", "float32", True), ("float64", "float32", True),
    ("float32", "bfloat16", True), ("int32", "int64", True), ("int64", "int32", True),
    ("float32", "int32", False), ("int32", "float32", False), ("bool_", "int32", False),
    ("uint8", "int8", False), ("int8", "uint8", False),
])  # fmt: skip
def test_types_that_differ(source, target, fits, caplog):
    def cell(dtype, value):
        net = nn.Cell()
        net.w = Parameter(Tensor(np.full(2, value), getattr(ms, dtype)), name="w")
        return net

    given = cell(source, 1).parameters_dict()
    net = cell(target, 0)
    with pytest.raises(RuntimeError, match="same type"):
        ms.load_param_into_net(net, given, strict_load=True)
    assert not net.w.asnumpy().any()
    if fits:
        with caplog.at_level(logging.WARNING, "cellc"):
            assert ms.load_param_into_net(net, given) == ([], [])
        assert "type convert" in caplog.text
        assert net.w.asnumpy().all()
        assert net.w.dtype == getattr(ms, target)
    else:
        with pytest.raises(RuntimeError, match="same type"):
            ms.load_param_into_net(net, given)


def test_nothing_is_loaded_if_one_does_not_fit(folder):
    narrow, wide = Net(2), Net(5)
    wide.count.set_data(Tensor(np.array([7, 7, 7])))
    before = state(wide)
    ms.save_checkpoint(narrow, "n")
    with pytest.raises(RuntimeError, match=r"d\.weight .* shape \(5, 3\) .* shape \(2, 3\)"):
        ms.load_checkpoint("n.ckpt", net=wide)
    assert same(before, state(wide))


def test_one_element_fits_a_scalar():
    net = nn.Cell()
    net.w = Parameter(Tensor(0.0), name="w")
    assert ms.load_param_into_net(net, parameters(w=5.0)) == ([], [])
    assert net.w.asnumpy() == 5.0


def test_compiled_code_sees_loaded_values(folder):
    net = Net()
    net.set_train(False)
    x = Tensor(np.ones((4, 3), np.float32))
    run = ms.jit(net)
    first = run(x).asnumpy()
    ms.save_checkpoint(Net(), "other")
    ms.load_checkpoint("other.ckpt", net=net)
    second = run(x).asnumpy()
    assert not np.array_equal(first, second)
    assert np.array_equal(second, net(x).asnumpy())


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda n: ms.save_checkpoint(5, "q"), TypeError, "must be a Cell, a list or a dict"),
    (lambda n: ms.save_checkpoint(n, 5), TypeError, "must be a str"),
    (lambda n: ms.save_checkpoint(n, ""), IsADirectoryError, "must be a file"),
    (lambda n: ms.save_checkpoint(n, "q", async_save="foo"), ValueError, "'process' or 'thread'"),
    (lambda n: ms.save_checkpoint(n, "q", async_save=3), TypeError, "a bool or a str"),
    (lambda n: ms.save_checkpoint(n, "q", integrated_save=3), TypeError, "must be a bool"),
    (lambda n: ms.save_checkpoint(n, "none/q"), FileNotFoundError, "none"),
    (lambda n: ms.save_checkpoint(n, "q", format="foo"), ValueError, "'safetensors' or 'ckpt'"),
    (lambda n: ms.save_checkpoint(n, "q", append_dict={"a": [1]}), TypeError, "class 'list'"),
    (lambda n: ms.save_checkpoint(n, "q", append_dict={3: 1}), TypeError, "key: <class 'int'>"),
    (lambda n: ms.save_checkpoint([3], "q"), TypeError, "Parameters or dicts"),
    (lambda n: ms.save_checkpoint([{"name": 3, "data": Tensor(1)}], "q"), TypeError,
     "must be a str"),
    (lambda n: ms.save_checkpoint([{"name": "a"}], "q"), TypeError, "'name' and 'data'"),
    (lambda n: ms.save_checkpoint({"a": 3}, "q"), TypeError, "must be a Tensor"),
    (lambda n: ms.save_checkpoint(n, "q", choice_func=3), TypeError, "must be a function"),
    (lambda n: ms.save_checkpoint(n, "q", enc_key=b"1" * 16), ValueError, "not supported"),
    (lambda n: ms.load_checkpoint("q"), ValueError, "must end in the value of 'format'"),
    (lambda n: ms.load_checkpoint("q.ckpt"), ValueError, "does not exist"),
    (lambda n: ms.load_checkpoint(5), TypeError, "must be a str"),
    (lambda n: ms.load_checkpoint("q.ckpt", format="x"), ValueError, "'safetensors' or 'ckpt'"),
    (lambda n: ms.load_param_into_net(3, {}), TypeError, "must be a Cell"),
    (lambda n: ms.load_param_into_net(n, [1]), TypeError, "must be a dict"),
    (lambda n: ms.load_param_into_net(n, {"w": Tensor(1)}), TypeError, "'str' and 'Parameter'"),
    (lambda n: ms.ckpt_to_safetensors("nope"), ValueError, "valid path or file"),
    (lambda n: ms.ckpt_to_safetensors(".", processes_num=0), ValueError, "at least 1"),
])  # fmt: skip
def test_errors(folder, call, kind, text):
    with pytest.raises(kind, match=text):
        call(Net())
    assert os.listdir(".") == []


def test_a_failed_write_leaves_the_old_file(folder, monkeypatch):
    net = Net()
    ms.save_checkpoint(net, "n")
    old = Path("n.ckpt").read_bytes()
    net.d.weight.set_data(net.d.weight + 1)

    def full(name, value):
        yield b"\x0a"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ckpt, "_values", full)
    with pytest.raises(OSError, match="No space"):
        ms.save_checkpoint(net, "n")
    assert Path("n.ckpt").read_bytes() == old
    assert os.listdir(".") == ["n.ckpt"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_truncation_is_an_error(folder, format):
    net = Net()
    before = state(net)
    ms.save_checkpoint(net, "n", format=format, append_dict={"s": "text"})
    raw = Path(f"n.{format}").read_bytes()
    whole = set(ms.load_checkpoint(f"n.{format}", format=format))
    for size in range(len(raw)):
        Path(f"t.{format}").write_bytes(raw[:size])
        try:
            found = ms.load_checkpoint(f"t.{format}", net=net, format=format)
        except ValueError:
            continue
        # A file may end after any tensor: protobuf has no mark for the end.
        assert format == "ckpt"
        assert set(found) < whole
    assert same(before, state(net))


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_bytes_never_crash(folder, format):
    """Every byte set to several values: an error, or the same names with other elements."""
    ms.save_checkpoint([{"name": "ab", "data": Tensor(np.ones((2, 2), np.int16))},
                        {"name": "t", "data": Tensor(True)}], "n", format=format,
                       append_dict={"s": "x"})  # fmt: skip
    raw = bytearray(Path(f"n.{format}").read_bytes())
    errors = 0
    for at in range(len(raw)):
        for value in (0x00, 0x7F, 0x80, 0xFF, raw[at] ^ 1):
            bad = bytes(raw[:at]) + bytes([value]) + bytes(raw[at + 1 :])
            try:
                _decode(bad, format)
            except ArtifactError:
                errors += 1
    assert errors > len(raw)


def _decode(data, format):
    from cellc_runtime import checkpoint

    return ckpt.decode(data) if format == "ckpt" else checkpoint.decode(data)


@pytest.mark.parametrize("hostile", [
    b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a value of 2**63 bytes
    b"\x0a" + b"\xff" * 20,  # a number without end
    b"\x0a\x02\x0a\x00",  # no tensor
    b"\x0b\x00", b"\x3a\x00", b"\x08\x01",  # a group, an unknown field, a number
    b"\x0a\x17\x0a\x01a\x12\x12\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x12\x04Int8\x1a\x01\x00",
    b"\x0a\x0c\x0a\x01a\x12\x07\x12\x03Foo\x1a\x00",  # an unknown type
    b"\x0a\x0d\x0a\x01a\x12\x08\x12\x03str\x1a\x01\xff",  # no UTF-32
    b"\x0a\x0e\x0a\x01a\x12\x09\x12\x04Bool\x1a\x01\x07",  # no bool
    b"\x0a\x05\x0a\x01a\x1a\x00",  # a map
    b"\x0a\x0c\x0a\x01\xff\x12\x07\x12\x04Int8\x1a\x00",  # a name that is not UTF-8
])  # fmt: skip
def test_hostile_files(hostile):
    with pytest.raises(ArtifactError, match="checkpoint"):
        ckpt.decode(hostile)


def test_a_name_twice_is_an_error():
    a, b = (b"".join(ckpt._values(name, np.zeros(2, np.float32))) for name in "ab")
    with pytest.raises(ArtifactError, match="twice"):
        ckpt.decode(a + b + a)


def test_crc_finds_damage(folder):
    ms.save_checkpoint(Net(), "n", crc_check=True)
    raw = bytearray(Path("n.ckpt").read_bytes())
    raw[-18] ^= 1  # in the last element
    Path("n.ckpt").write_bytes(raw)
    assert ms.load_checkpoint("n.ckpt")
    with pytest.raises(ValueError, match="CRC-32"):
        ms.load_checkpoint("n.ckpt", crc_check=True)


@pytest.mark.parametrize("format", ["ckpt", "safetensors"])
def test_a_crc_that_is_not_there_is_an_error(folder, format):
    ms.save_checkpoint(Net(), "n", format=format)
    with pytest.raises(ValueError, match="no CRC-32 to check"):
        ms.load_checkpoint(f"n.{format}", crc_check=True, format=format)


@pytest.mark.parametrize("crc", [False, True])
def test_a_file_that_is_cut_between_two_values_is_not_whole(folder, crc):
    arrays = {name: np.ones(3, np.float32) for name in "abc"}
    pieces = [bytes(p) for p in ckpt.encode(arrays, crc)]
    assert len(pieces) == 1 + 2 * 3 + crc
    for count in (1, 3, 5):
        with pytest.raises(CutOff, match=f"holds {count // 2} values where 3 were saved"):
            ckpt.decode(b"".join(pieces[:count]))
    more = b"".join([*pieces[:7], *ckpt._values("d", arrays["a"])])
    with pytest.raises(ArtifactError, match="holds 4 values where 3 were saved"):
        ckpt.decode(more)
    assert list(ckpt.decode(b"".join(pieces[1:7]))[0]) == ["a", "b", "c"]  # as MindSpore writes it


def _safetensors(header: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + data


def test_a_key_twice_is_an_error():
    one = '"dtype":"F32","shape":[1],"data_offsets":[0,4]'
    for header in (f'{{"a":{{{one}}},"a":{{{one}}}}}', f'{{"a":{{"dtype":"I32",{one}}}}}'):
        with pytest.raises(ArtifactError, match="is there twice"):
            checkpoint.decode(_safetensors(header, bytes(4)))


def test_sizes_that_no_array_has_beside_a_zero():
    many = [0, 1 << 47, 1 << 47]
    header = f'{{"a":{{"dtype":"F32","shape":{many},"data_offsets":[0,0]}}}}'
    value = b"".join(ckpt._value("a", many, "Float32", memoryview(b"")))
    for decode, raw in ((checkpoint.decode, _safetensors(header)), (ckpt.decode, value)):
        with pytest.raises(ArtifactError, match="which no array can have"):
            decode(raw)


@pytest.mark.parametrize("format", ["ckpt", "safetensors"])
def test_files_are_as_private_as_the_umask_says(folder, format):
    before = os.umask(0o077)
    try:
        ms.save_checkpoint(Net(), "n", format=format)
        file = Path(f"n.{format}")
        assert file.stat().st_mode & 0o777 == 0o600
        os.umask(0o022)
        ms.save_checkpoint(Net(), "m", format=format)
        assert Path(f"m.{format}").stat().st_mode & 0o777 == 0o644
        file.chmod(0o640)  # what somebody decided stays
        ms.save_checkpoint(Net(), "n", format=format)
        assert file.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_what_a_killed_writer_left_goes_with_the_next_save(folder):
    program = f"""
import os, signal
from cellc_runtime.files import write_atomically
def pieces():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)
write_atomically({str(folder / "n.ckpt")!r}, pieces())
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode < 0
    left, = folder.iterdir()
    ms.save_checkpoint(Net(), "m")
    assert left.exists()  # somebody may be writing it
    old = left.stat().st_mtime - LEFT_SECONDS - 1
    os.utime(left, (old, old))
    ms.save_checkpoint(Net(), "m")
    assert [p.name for p in folder.iterdir()] == ["m.ckpt"]


@pytest.mark.parametrize("format", ["ckpt", "safetensors"])
def test_what_happens_to_a_file_after_its_load_is_not_seen(folder, format):
    """In a process of its own: it would end by SIGBUS."""
    program = f"""
import os, numpy as np
from cellc_runtime import checkpoint, ckpt
module = ckpt if {format!r} == "ckpt" else checkpoint
for k, harm in enumerate((lambda f: f.truncate(0), lambda f: f.write(bytes(1 << 20)))):
    name = f"w{{k}}"
    module.save(name, {{"x": np.arange(1 << 18, dtype=np.float32)}})
    loaded = module.load(name)["x"]
    with open(name, "r+b") as file:
        harm(file)
    assert np.array_equal(loaded, np.arange(1 << 18)) and not loaded.flags.writeable
    if module is checkpoint:
        assert loaded.ctypes.data % 64 == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)


# --- conversion ---------------------------------------------------------------------------------


def test_conversion_of_folders(folder):
    os.makedirs("in/rank_0")
    ms.save_checkpoint(Net(), "in/rank_0/m", append_dict={"s": "text"})
    ms.save_checkpoint(Net(), "in/n")
    ms.ckpt_to_safetensors("in", "mid", name_map={"count": "seen"}, processes_num=2)
    ms.safetensors_to_ckpt("mid", "out", name_map={"seen": "count"})
    for name in ("rank_0/m", "n"):
        a, b = (ms.load_checkpoint(f"{where}/{name}.ckpt") for where in ("in", "out"))
        assert a.keys() == b.keys()
        assert all(v == b[k] if isinstance(v, str) else np.array_equal(v.asnumpy(), b[k].asnumpy())
                   for k, v in a.items())
    ms.ckpt_to_safetensors("in", "some", file_name_regex="n")
    assert [p.name for p in Path("some").rglob("*.*")] == ["n.safetensors"]
    with pytest.raises(ValueError, match="two tensors one name"):
        ms.ckpt_to_safetensors("in/n.ckpt", name_map={"d.weight": "d.bias"})


# --- resuming -----------------------------------------------------------------------------------


class Trained(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = nn.Dense(6, 8)
        self.drop = nn.Dropout(p=0.5)
        self.b = nn.Dense(8, 1)

    def construct(self, x):
        return self.b(self.drop(ops.relu(self.a(x))))


def training(net, optimizer, mode):
    def loss(x, y):
        return ops.mse_loss(net(x), y)

    step = ms.value_and_grad(loss, None, optimizer.parameters)

    def train(x, y):
        value, grads = step(x, y)
        optimizer(grads)
        return value

    return ms.jit(train) if mode == "graph" else train


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_a_training_resumes_to_the_bit(folder, format, mode):
    rng = np.random.default_rng(1)
    batches = [(Tensor(rng.normal(size=(4, 6)).astype(np.float32)),
                Tensor(rng.normal(size=(4, 1)).astype(np.float32))) for _ in range(8)]

    def fresh(seed):
        ms.set_seed(seed)
        net = Trained()
        net.set_train()
        optimizer = nn.Adam(net.trainable_params(), learning_rate=0.01)
        return net, optimizer, training(net, optimizer, mode)

    net, optimizer, train = fresh(3)
    for batch in batches[:4]:
        train(*batch)
    ms.save_checkpoint(optimizer, "run", format=format,
                       append_dict={"rng": ms.get_rng_state()})
    ms.save_checkpoint(net, "net", format=format)
    expected = [train(*batch).asnumpy() for batch in batches[4:]]

    net, optimizer, train = fresh(99)
    loaded = ms.load_checkpoint(f"run.{format}", format=format)
    assert ms.load_param_into_net(optimizer, loaded)[0] == []
    assert ms.load_checkpoint(f"net.{format}", net=net, format=format)
    ms.set_rng_state(loaded["rng"])
    again = [train(*batch).asnumpy() for batch in batches[4:]]
    assert np.array_equal(expected, again)


# --- MindSpore's files --------------------------------------------------------------------------

WRITE = """
import numpy as np, mindspore as ms
from mindspore import Tensor, Parameter
types = ["float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
         "uint16", "uint32", "uint64", "bool_"]
data = [{"name": t, "data": Tensor(np.array([[0, 1, 1], [1, 0, 1]]), getattr(ms, t))}
        for t in types] + [{"name": "scalar", "data": Tensor(3.5, ms.float32)}]
more = {"i": 3, "f": 2.5, "s": "text", "b": True}
ms.save_checkpoint(data, "theirs", append_dict=more)
ms.save_checkpoint(data, "checked", crc_check=True)
# It cannot make a checksum of bfloat16.
ms.save_checkpoint([d for d in data if d["name"] != "bfloat16"], "theirs", format="safetensors",
                   crc_check=True)
"""
READ = """
import json, numpy as np, mindspore as ms
out = {}
for file, format, crc in (("ours.ckpt", "ckpt", False), ("ours.ckpt", "ckpt", True),
                          ("ours.safetensors", "safetensors", False),
                          ("crc.safetensors", "safetensors", True)):
    found = ms.load_checkpoint(file, format=format, crc_check=crc)
    out[f"{file} {crc}"] = {n: p if isinstance(p, str) else
        [str(p.dtype), list(p.shape), p.float().asnumpy().tolist()] for n, p in found.items()}
print(json.dumps(out))
"""


def test_files_of_mindspore_load_here(folder):
    mindspore(WRITE + "print(0)\n", folder=folder)
    for file, format in (("theirs.ckpt", "ckpt"), ("checked.ckpt", "ckpt"),
                         ("theirs.safetensors", "safetensors")):
        found = ms.load_checkpoint(file, format=format, crc_check=file != "theirs.ckpt")
        assert found.pop("scalar").asnumpy() == 3.5
        if file == "theirs.ckpt":
            assert found.pop("s") == "text"
            assert [found.pop(k).asnumpy().item() for k in "ifb"] == [3, 2.5, True]
        assert len(found) == (12 if format == "safetensors" else 13)
        for name, p in found.items():
            assert p.dtype == getattr(ms, name)
            assert p.astype(ms.float32).asnumpy().tolist() == [[0, 1, 1], [1, 0, 1]]


def test_our_files_load_in_mindspore(folder):
    kinds = [d for d in dtypes.ALL if d.kind != "complex"]
    data = [{"name": d.name, "data": Tensor(np.array([[0, 1], [1, 1]]).astype(d.numpy))}
            for d in kinds] + [{"name": "scalar", "data": Tensor(3.5, ms.float32)}]
    ms.save_checkpoint(data, "ours", append_dict={"s": "text", "i": 3}, crc_check=True)
    ms.save_checkpoint(data, "ours", format="safetensors")
    plain = [d for d in data if d["name"] != "bfloat16"]  # the oracle cannot sum up bfloat16
    ms.save_checkpoint(plain, "crc", format="safetensors", crc_check=True)
    for where, found in mindspore(READ, folder=folder).items():
        assert found.pop("scalar") == ["Float32", [], 3.5]
        if where.startswith("ours.ckpt"):
            assert found.pop("s") == "text"
            assert found.pop("i") == ["Int64", [], 3]
        expected = {d.name: [d.printed, [2, 2], [[0, 1], [1, 1]]] for d in kinds}
        if where.startswith("crc"):
            del expected["bfloat16"]
        assert found == expected
