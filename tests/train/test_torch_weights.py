"""Weights of PyTorch files into networks: names, reports, and files that are damaged or hostile.

The files are written here, opcode by opcode, as torch.save writes them; `tests/torch_backend`
reads files of torch itself.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import random
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.train.torch_file import read_torch
from cellc_runtime import checkpoint
from cellc_runtime.errors import ArtifactError, CutOff, UnsupportedType

Array = np.ndarray[Any, Any]
_KINDS = {"float32": "Float", "float16": "Half", "int64": "Long", "bool": "Bool",
          "bfloat16": "BFloat16", "complex64": "ComplexFloat", "float64": "Double"}


def text(s: str) -> bytes:
    """BINUNICODE."""
    return b"X" + struct.pack("<I", len(s.encode())) + s.encode()


def ints(*numbers: int) -> bytes:
    """A tuple of ints."""
    return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", n) for n in numbers) + b"t"


def tensor(key: str, kind: str, count: int, offset: int, size: Any, stride: Any,
           function: str = "_rebuild_tensor_v2", more: bytes = b"") -> bytes:
    """A call that rebuilds a tensor."""
    number = b"\x8a\x08" + struct.pack("<q", count)
    storage = (b"(" + text("storage") + b"ctorch\n" + f"{kind}Storage\n".encode() + text(key)
               + text("cpu") + number + b"tQ")
    return (b"ctorch._utils\n" + function.encode() + b"\n(" + storage + b"\x8a\x08"
            + struct.pack("<q", offset) + ints(*size) + ints(*stride)
            + b"\x89ccollections\nOrderedDict\n)R" + more + b"tR")


def archive(body: bytes, storages: Mapping[str, bytes], byteorder: bytes = b"little") -> bytes:
    """The file around a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", b"\x80\x02" + body + b".")
        z.writestr("archive/byteorder", byteorder)
        for key, data in storages.items():
            z.writestr(f"archive/data/{key}", data)
        z.writestr("archive/version", b"3\n")
    return out.getvalue()


def saved(arrays: Mapping[str, Array], around: str | None = None) -> bytes:
    """A state_dict as torch.save writes it; `around`: in a dict under this name."""
    items = b""
    for i, (name, a) in enumerate(arrays.items()):
        strides = [s // a.itemsize for s in np.ascontiguousarray(a).strides] if a.ndim else []
        items += text(name) + tensor(str(i), _KINDS[str(a.dtype)], a.size, 0, a.shape, strides)
    body = b"ccollections\nOrderedDict\n)R(" + items + b"u}" + text("_metadata") + b"}sb"
    if around is not None:
        body = b"}(" + text("epoch") + b"K\x07" + text(around) + body + b"u"
    return archive(body, {str(i): a.tobytes() for i, a in enumerate(arrays.values())})


@pytest.fixture
def put(tmp_path: Path) -> Any:
    """Write a file, and return its path."""
    def write(data: bytes, name: str = "x.pt") -> str:
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


class Net(nn.Cell):
    """Layers whose weights have other names here."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, has_bias=True)
        self.bn = nn.BatchNorm3d(4)
        self.body = nn.SequentialCell(nn.Dense(4, 2), nn.ReLU(), nn.LayerNorm((2,)))
        self.table = nn.Embedding(5, 2)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """The part that needs no images."""
        return self.body(x) + self.table(ms.Tensor([0]))


_SHAPES = {
    "conv.weight": (4, 3, 3), "conv.bias": (4,), "bn.weight": (4,), "bn.bias": (4,),
    "bn.running_mean": (4,), "bn.running_var": (4,), "bn.num_batches_tracked": (),
    "body.0.weight": (2, 4), "body.0.bias": (2,), "body.2.weight": (2,), "body.2.bias": (2,),
    "table.weight": (5, 2),
}


def theirs(dtype: Any = np.float32) -> dict[str, Array]:
    """Weights by torch's names."""
    rng = np.random.default_rng(0)
    return {n: np.array(3) if n.endswith("tracked") else rng.normal(size=s).astype(dtype)
            for n, s in _SHAPES.items()}


def check(net: nn.Cell, given: Mapping[str, Array]) -> None:
    """All weights are those of the file."""
    own = net.state_dict()
    assert own["conv.weight"].shape == (4, 3, 1, 3)
    pairs = {"conv.weight": "conv.weight", "bn.bn2d.gamma": "bn.weight",
             "bn.bn2d.moving_variance": "bn.running_var", "body.2.beta": "body.2.bias",
             "body.0.weight": "body.0.weight", "table.embedding_table": "table.weight"}
    for name, torch_name in pairs.items():
        wanted = given[torch_name].astype(np.float32).reshape(own[name].shape)
        np.testing.assert_array_equal(own[name].asnumpy(), wanted)


@pytest.mark.parametrize("around", [None, "state_dict", "model"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.dtype(ml_dtypes.bfloat16)])
def test_files_of_torch(put: Any, around: str | None, dtype: Any) -> None:
    """Names are mapped, 16-bit weights widened, and the report lists all."""
    given, net = theirs(dtype), Net()
    report = ms.load_torch_weights(net, put(saved(given, around)))
    check(net, given)
    assert report.is_complete and len(report.matched) == 11
    assert "bn.bn2d.gamma            bn.weight        (4,)" in str(report)
    assert str(report).endswith("11 matched, 0 differ in shape, 0 missing, 0 unused")


def test_safetensors_and_dicts(put: Any) -> None:
    """The same from safetensors, from a dict of arrays, and from one of Tensors."""
    given = theirs()
    file = put(b"".join(bytes(p) for p in checkpoint.encode(given)), "x.safetensors")
    for source in (file, given, {n: ms.Tensor(a) for n, a in given.items()}, Path(file)):
        net = Net()
        assert ms.load_torch_weights(net, source).is_complete
        check(net, given)


def test_names_around_are_taken_off() -> None:
    """`module.` of DataParallel goes; other beginnings are given, or proposed."""
    given = theirs()
    net = Net()
    ms.load_torch_weights(net, {f"module.{n}": a for n, a in given.items()})
    check(net, given)
    other = {f"backbone.{n}": a for n, a in given.items()}
    with pytest.raises(RuntimeError, match=r"With rename=\{'backbone\.': ''\} some"):
        ms.load_torch_weights(Net(), other)
    for rename in ({"backbone.": ""}, lambda n: n.removeprefix("backbone.")):
        net = Net()
        ms.load_torch_weights(net, other, rename)
        check(net, given)
    with pytest.raises(ValueError, match="'rename' must give each weight another name"):
        ms.load_torch_weights(Net(), given, lambda n: "one")
    with pytest.raises(TypeError, match="'rename' must be"):
        ms.load_torch_weights(Net(), given, 3)


def test_nothing_is_loaded_unless_all_fits() -> None:
    """Missing, unused and differing weights are listed; the network stays as it was."""
    given = theirs()
    given["body.0.weight"] = np.ones((2, 5), np.float32)
    given["head.weight"] = given.pop("conv.bias")
    net = Net()
    before = {n: t.asnumpy().copy() for n, t in net.state_dict().items()}
    with pytest.raises(RuntimeError, match="none was loaded") as e:
        ms.load_torch_weights(net, given)
    assert str(e.value) == (
        "For 'load_torch_weights', the weights do not fit the network, and none was loaded: 9 "
        "matched, 1 differ in shape, 1 missing, 1 unused.\n  shapes differ:\n    body.0.weight is "
        "(2, 4), but body.0.weight is (2, 5)\n  missing:\n    conv.bias for conv.bias (4,)\n"
        "  unused:\n    head.weight")
    for name, t in net.state_dict().items():
        np.testing.assert_array_equal(t.asnumpy(), before[name])
    report = ms.load_torch_weights(net, given, strict=False)
    assert [m.name for m in report.missing] == ["conv.bias"]
    assert [m.torch_shape for m in report.differing] == [(2, 5)]
    assert report.unused == ("head.weight",) and not report.is_complete
    np.testing.assert_array_equal(net.state_dict()["conv.bias"].asnumpy(), before["conv.bias"])
    np.testing.assert_array_equal(net.state_dict()["table.embedding_table"].asnumpy(),
                                  given["table.weight"])


def test_weights_of_another_model() -> None:
    """Long lists are cut short."""
    with pytest.raises(RuntimeError, match=r"(?s)0 matched, .*and 32 more"):
        ms.load_torch_weights(Net(), {f"layer{i}.w": np.zeros(1) for i in range(40)})


def test_types_and_values_that_do_not_fit() -> None:
    """Complex numbers, and values beyond the range of the network's type, change nothing."""
    net = nn.Dense(4, 2)
    before = net.weight.asnumpy().copy()
    good = {"weight": np.ones((2, 4), np.float32), "bias": np.zeros(2, np.float32)}
    with pytest.raises(RuntimeError, match="same type"):
        ms.load_torch_weights(net, {**good, "bias": np.zeros(2, np.complex64)})
    with pytest.raises(RuntimeError, match="cannot hold"):
        ms.load_torch_weights(net, {**good, "bias": np.array([1e300, 0])})
    np.testing.assert_array_equal(net.weight.asnumpy(), before)


def test_weights_that_several_layers_share() -> None:
    """One name in the file serves all places; two that differ are refused."""
    class Tied(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Dense(2, 2, has_bias=False)
            self.b = nn.Dense(2, 2, has_bias=False)
            self.b.weight = self.a.weight

        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return self.b(self.a(x))

    one, net = np.ones((2, 2), np.float32), Tied()
    assert ms.load_torch_weights(net, {"a.weight": one}).is_complete
    assert ms.load_torch_weights(net, {"a.weight": one, "b.weight": one}).is_complete
    with pytest.raises(RuntimeError, match=r"a\.weight and b\.weight differ, but a\.weight is"):
        ms.load_torch_weights(net, {"a.weight": one, "b.weight": 2 * one})


def test_views_of_storages(put: Any) -> None:
    """Transposed, shifted, expanded and empty tensors, and two of one storage."""
    base = np.arange(12, dtype=np.float32)
    views = {"t": (0, (4, 3), (1, 4)), "s": (2, (2, 2), (4, 1)), "e": (5, (3, 2), (0, 0)),
             "none": (12, (0, 3), (3, 1)), "one": (11, (), ())}
    body = b"}(" + b"".join(text(n) + tensor("0", "Float", 12, o, size, stride)
                            for n, (o, size, stride) in views.items()) + b"u"
    found = read_torch(put(archive(body, {"0": base.tobytes()})))
    np.testing.assert_array_equal(found["t"], base.reshape(3, 4).T)
    np.testing.assert_array_equal(found["s"], base[2:].reshape(-1)[[0, 1, 4, 5]].reshape(2, 2))
    np.testing.assert_array_equal(found["e"], np.full((3, 2), 5, np.float32))
    assert found["none"].shape == (0, 3) and found["one"] == 11
    with pytest.raises(ValueError, match="read-only"):
        found["t"][0, 0] = 1


def _evil(module: str, name: str) -> bytes:
    return archive(f"c{module}\n{name}\n".encode() + b"(" + text("echo") + b"tR", {})


_ONE = {"0": np.zeros(4, np.float32).tobytes()}
_BAD = {
    "os.system": (_evil("posix", "system"), ArtifactError, "asks for 'posix.system'"),
    "eval": (_evil("builtins", "eval"), ArtifactError, "asks for 'builtins.eval'"),
    "unknown": (_evil("mine", "Net"), ArtifactError, "asks for 'mine.Net'.*state_dict alone"),
    "names on the stack": (archive(text("os") + text("system") + b"\x93)R", {}), ArtifactError,
                           "asks for 'os.system'"),
    "sparse": (_evil("torch._utils", "_rebuild_sparse_tensor"), UnsupportedType, "sparse tensor"),
    "quantised": (_evil("torch._utils", "_rebuild_qtensor"), UnsupportedType, "quantised"),
    "subclass": (_evil("torch._tensor", "_rebuild_from_type_v2"), UnsupportedType, "subclass"),
    "a type": (archive(tensor("0", "QInt8", 16, 0, (4,), (1,)), _ONE), UnsupportedType,
               "type torch.QInt8Storage"),
    "a call of no function": (archive(b"ctorch\nFloatStorage\n)R", {}), ArtifactError,
                              "calls 'torch.FloatStorage'"),
    "an instance": (archive(b"(" + text("a") + b"ios\nsystem\n", {}), ArtifactError, "opcode b'i'"),
    "attributes": (archive(b"}}b", {}), ArtifactError, "no plain container"),
    "beyond the storage": (archive(tensor("0", "Float", 4, 1, (4,), (1,)), _ONE), ArtifactError,
                           r"reaches element 4 of a storage of 4"),
    "strides beyond": (archive(tensor("0", "Float", 4, 0, (2, 2), (3, 1)), _ONE), ArtifactError,
                       "reaches element 4"),
    "a negative stride": (archive(tensor("0", "Float", 4, 3, (4,), (-1,)), _ONE), ArtifactError,
                          "malformed tensor"),
    "a negative size": (archive(tensor("0", "Float", 4, 0, (-1,), (1,)), _ONE), ArtifactError,
                        "malformed tensor"),
    "a huge size": (archive(tensor("0", "Float", 4, 0, (2**40, 2**40), (0, 0)), _ONE),
                    ArtifactError, "impossible shape"),
    "no such size": (archive(tensor("0", "Float", 4, 0, (2,), (1, 1)), _ONE), ArtifactError,
                     "malformed tensor"),
    "a storage that is short": (archive(tensor("0", "Float", 5, 0, (4,), (1,)), _ONE), CutOff,
                                "16 bytes, which are not 5 elements"),
    "no storage": (archive(tensor("7", "Float", 4, 0, (4,), (1,)), _ONE), ArtifactError,
                   "no record 'data/7'"),
    "bools": (archive(tensor("0", "Bool", 4, 0, (4,), (1,)), {"0": b"\0\1\2\0"}), ArtifactError,
              "else than 0 and 1"),
    "conjugated": (archive(tensor("0", "Float", 4, 0, (4,), (1,),
                                  more=b"}(" + text("conj") + b"\x88u"), _ONE), ArtifactError,
                   "conjugated"),
    "keys": (archive(b"}()K\1s", {}), ArtifactError, "keys are no texts"),
    "a value that is missing": (archive(b"R", {}), ArtifactError, "a value is missing"),
    "a mark that is missing": (archive(b"t", {}), ArtifactError, "a mark is missing"),
    "a memo": (archive(b"h\x05", {}), ArtifactError, "has not stored"),
    "a text that is too long": (archive(b"X\xff\xff\xff\x7f", {}), CutOff, "pickle is cut off"),
    "an int that is too long": (archive(b"\x8a\xff" + b"\1" * 255, {}), ArtifactError,
                                "more than 16 bytes"),
    "big-endian": (archive(b"N", {}, b"big"), ArtifactError, "big-endian"),
    "a pickle": (pickle.dumps({"a": 1}), ArtifactError, "no zip archive"),
    "legacy": (pickle.dumps(0x1950A86A20F9469CFC6C, 2) + b"\x80\x02", ArtifactError,
               "before version 1.6"),
    "tar": (b"\0" * 257 + b"ustar" + b"\0" * 300, ArtifactError, "tar archive"),
    "nothing": (b"", ArtifactError, "no zip archive"),
    "a zip": (b"PK\5\6" + bytes(18), ArtifactError, "no record 'data.pkl'"),
    "no dict": (archive(b"]", {}), ArtifactError, "holds a list"),
    "a name with control characters": (
        archive(b"}" + text("w\x1b[2J") + tensor("0", "Float", 4, 0, (4,), (1,)) + b"s", _ONE),
        ArtifactError, r"a name with control characters: 'w\\x1b"),
    "a long name": (
        archive(b"}" + text("w" * 5000) + tensor("0", "Float", 4, 0, (4,), (1,)) + b"s", _ONE),
        ArtifactError, "a name of 5000 characters; 4096 are the most"),
    "no tensors": (archive(b"}" + text("lr") + b"K\1s", {}), ArtifactError, "no tensors by name"),
}


@pytest.mark.parametrize("what", _BAD)
def test_files_that_are_refused(put: Any, what: str) -> None:
    """One clear error, with the file's name."""
    data, kind, message = _BAD[what]
    with pytest.raises(kind, match=rf"(?s)x\.pt: .*({message})"):
        ms.load_torch_weights(nn.Dense(4, 2), put(data))


def test_archives_that_are_refused(put: Any) -> None:
    """Programs, compressed records, and records that share their bytes."""
    def made(*names: str, kind: int = zipfile.ZIP_STORED) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", kind) as z:
            for name in names:
                z.writestr(name, b"\x80\x02}." + bytes(100))
        return out.getvalue()

    for data, message in (
            (made("m/constants.pkl", "m/data.pkl"), "TorchScript"),
            (made("m/code/__torch__.py", "m/data.pkl"), "TorchScript"),
            (made("m/data.pkl", "n/data.pkl"), "two records named 'data.pkl'"),
            (made("m/data.pkl", kind=zipfile.ZIP_DEFLATED), "compressed or encrypted")):
        with pytest.raises(ArtifactError, match=message):
            ms.load_torch_weights(nn.Dense(4, 2), put(data))
    whole = bytearray(saved(theirs()))
    whole[whole.index(theirs()["conv.weight"].tobytes())] ^= 1
    with pytest.raises(CutOff, match="CRC-32"):
        ms.load_torch_weights(Net(), put(bytes(whole)))


def test_mutated_files(put: Any) -> None:
    """Whatever is changed or cut off: an error of ours, or the weights of the file."""
    whole, rng = saved(theirs()), random.Random(0)
    first = whole.index(b"\x80\x02")
    for i in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = first + rng.randrange(1200) if i % 2 else rng.randrange(len(data))
            data[at] = rng.randrange(256)
        if i % 5 == 0:
            del data[rng.randrange(len(data)):]
        # The pickle of a changed file is read although its CRC-32 is another, so that it is tried.
        path = put(bytes(_with_crc(data)))
        with contextlib.suppress(ArtifactError):
            read_torch(path)


def _with_crc(data: bytearray) -> bytearray:
    """A file whose pickle has the CRC-32 that its headers say."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            info = z.infolist()[0]
    except Exception:
        return data
    start = info.header_offset + 30 + len(info.filename)
    crc = struct.pack("<I", zipfile.crc32(bytes(data[start : start + info.file_size])))
    data[info.header_offset + 14 : info.header_offset + 18] = crc
    central = data.find(b"PK\1\2")
    data[central + 16 : central + 20] = crc
    return data


def test_safetensors_that_contradict_themselves(put: Any) -> None:
    """A shape that its bytes do not have."""
    data = b"".join(bytes(p) for p in checkpoint.encode({"weight": np.zeros((2, 4), np.float32)}))
    path = put(data.replace(b"[2,4]", b"[2,5]"), "x.safetensors")
    with pytest.raises(ArtifactError, match="does not fit its place"):
        ms.load_torch_weights(nn.Dense(4, 2), path)


_ENTRY = '"weight":{"dtype":%s,"shape":%s,"data_offsets":%s}'
_SOUND = _ENTRY % ('"F32"', "[2,4]", "[0,32]")
_SAFETENSORS = {
    "overlap": (_SOUND + ',"bias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}', "overlap"),
    "gap": (_ENTRY % ('"F32"', "[2]", "[8,16]"), "overlap or leave a gap"),
    "beyond": (_ENTRY % ('"F32"', "[2,4]", "[16,48]"), "does not fit its place"),
    "backwards": (_ENTRY % ('"F32"', "[2,4]", "[32,0]"), "does not fit its place"),
    "negative": (_ENTRY % ('"F32"', "[2,4]", "[-32,0]"), "malformed"),
    "fractions": (_ENTRY % ('"F32"', "[2,4]", "[0.0,32.0]"), "malformed"),
    "bools": (_ENTRY % ('"F32"', "[true,8]", "[0,32]"), "malformed"),
    "negative sizes": (_ENTRY % ('"F32"', "[-2,-4]", "[0,32]"), "malformed"),
    "a type": (_ENTRY % ('["F32"]', "[2,4]", "[0,32]"), "malformed"),
    "NaN": (_ENTRY % ('"F32"', "[2,4]", "[NaN,32]"), "NaN is not a number"),
    "a long int": (_ENTRY % ('"F32"', f"[{'9' * 5000}]", "[0,32]"), "not valid"),
    "depth": ('"a":{' * 5000 + "}" * 5000, "recursion depth"),
    "control": (_SOUND.replace("weight", "weight\\u0007"), "control characters: 'weight.x07'"),
    "half a character": (_SOUND.replace("weight", "w\\ud800"), r"control characters: 'w.ud800'"),
    "a long name": (_SOUND.replace("weight", "w" * 5000), "a name of 5000 characters"),
    "metadata": ('"__metadata__":{"a":1},' + _SOUND, "metadata"),
    "more bytes": (_ENTRY % ('"F32"', "[2]", "[0,8]"), "24 bytes that belong to nothing"),
}


@pytest.mark.parametrize("what", _SAFETENSORS)
def test_safetensors_that_are_refused(put: Any, what: str) -> None:
    entries, message = _SAFETENSORS[what]
    header = f"{{{entries}}}".encode()
    path = put(struct.pack("<Q", len(header)) + header + bytes(32), "x.safetensors")
    with pytest.raises(ArtifactError, match=rf"x\.safetensors cannot be loaded: (?!it is a).*"
                                            rf"({message})"):
        ms.load_torch_weights(nn.Dense(4, 2), path)


@pytest.mark.parametrize("length", [1, 20, 1 << 40, (1 << 64) - 1])
def test_headers_of_safetensors_of_another_length(put: Any, length: int) -> None:
    path = put(struct.pack("<Q", length) + f"{{{_SOUND}}}".encode() + bytes(32), "x.safetensors")
    with pytest.raises(ArtifactError, match=r"claims a header of|header is not valid"):
        ms.load_torch_weights(nn.Dense(4, 2), path)


def test_sources_that_are_none(tmp_path: Path) -> None:
    """Neither a file nor a dict."""
    with pytest.raises(TypeError, match="'source' must be a file or a dict"):
        ms.load_torch_weights(nn.Dense(4, 2), 3)
    with pytest.raises(ValueError, match="there is no file"):
        ms.load_torch_weights(nn.Dense(4, 2), str(tmp_path / "none.pt"))
    with pytest.raises(TypeError, match="names of weights must be texts"):
        ms.load_torch_weights(nn.Dense(4, 2), {1: np.zeros(1)})
