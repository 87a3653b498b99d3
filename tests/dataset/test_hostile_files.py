"""Files of datasets are data: no code in them runs, no length in them is believed."""

from __future__ import annotations

import pickle
import pickletools
import struct
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

import cellc.dataset as ds
from cellc import mindrecord as mr
from cellc.dataset import vision
from cellc.dataset.decoding import decoded
from cellc.dataset.speech import waveform

PIXELS = np.arange(3 * 3072, dtype=np.uint32).astype(np.uint8).reshape(3, 3072)


def batches(folder: Path, data: bytes) -> mr.Cifar10ToMR:
    """A converter of a folder in which every batch has these bytes."""
    for name in (*(f"data_batch_{i}" for i in range(1, 3)), "test_batch"):
        (folder / name).write_bytes(data)
    return mr.Cifar10ToMR(str(folder), str(folder / "out"))


# --- pickles of CIFAR ---------------------------------------------------------------------------


def part(value: object) -> bytes:
    """The instructions that make a value, without those of a whole pickle."""
    return pickle.dumps(value, 3)[2:-1]


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def dtype(code: str, state: bytes = b"") -> bytes:
    return named("numpy", "dtype") + part((code, False, True)) + b"R" + (state and state + b"b")


def array(kind: bytes, shape: object = (3, 3072), data: object = PIXELS.tobytes()) -> bytes:
    """An array with a type that its maker chooses."""
    return (named("numpy.core.multiarray", "_reconstruct") + b"(" + named("numpy", "ndarray")
            + part((0,)) + part(b"b") + b"tR(" + part(1) + part(shape) + kind + b"\x89"
            + part(data) + b"tb")


def batch(data: bytes, labels: bytes = part([1, 2, 3])) -> bytes:
    return b"\x80\x03}(" + part(b"data") + data + part(b"labels") + labels + b"u."


PLAIN = b"(" + part(3) + part("|") + b"NNN" + part(-1) + part(-1) + part(0) + b"t"
FIELDS = (b"(" + part(3) + part("|") + b"N" + part(("a",)) + b"}(" + part("a") + b"(" + dtype("O8")
          + part(1 << 20) + b"tu" + part(8) + part(1) + part(27) + b"t")


def test_each_form_of_a_batch_is_read(tmp_path):
    forms = [pickle.dumps({"data": PIXELS, "labels": np.array([3, 1, 2]), "x": None}, protocol)
             for protocol in (4, 5)] + [
        pickle.dumps({b"data": PIXELS, b"labels": [3, 1, 2], b"names": [b"a", "b"]}, protocol)
        for protocol in (3, 4, 5)] + [
        # As Python 2 wrote them: texts are bytes.
        b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x03K\x01K\x02eU\x04dataq\x04" + array(
            dtype("u1", PLAIN)) + b"u."]
    for i, data in enumerate(forms):
        folder = tmp_path / str(i)
        folder.mkdir()
        converter = batches(folder, data)
        rows = list(converter._rows([folder / "test_batch"]))
        assert [r["label"] for r in rows] == [3, 1, 2], pickletools.dis(data)


HOSTILE = {
    "a call": (named("os", "system") + part(("true",)) + b"R.", "asks for os.system"),
    "a call by a stack": (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "asks for os.system"),
    "an object": (pickle.dumps(np.array([{}], object)), "integers as elements"),
    "numpy's other names": (named("numpy.testing", "dtype") + b".", "asks for numpy.testing.dtype"),
    "fields out of range": (batch(array(dtype("V8", FIELDS))), "integers as elements"),
    "fields of integers": (batch(array(dtype("u1", FIELDS.replace(dtype("O8"), dtype("u1"))))),
                           "a plain one"),
    "floats": (batch(array(dtype("f8"))), "integers as elements"),
    "texts": (batch(array(dtype("S1"))), "integers as elements"),
    "more than there is": (batch(array(dtype("u1"), (3 << 40, 3072))), "has 9216 bytes"),
    "a negative length": (batch(array(dtype("u1"), (-3, 3072))), "one axis or two"),
    "a list of elements": (batch(array(dtype("u1"), data=[1] * 9216)), "elements of integers"),
    "a state for a dict": (b"\x80\x03}(K\x01tb.", "state of something that is no array"),
    "a persistent name": (b"Pname\n.", "the instruction PERSID"),
    "an instance": (b"(ios\nsystem\n.", "the instruction INST"),
    "labels of text": (batch(array(dtype("u1")), part(["a"] * 3)), "must be a list of int"),
    "too few labels": (batch(array(dtype("u1")), part([1])), "3 pictures but 1|must be a list"),
    "no end": (b"\x80\x03" + part([1]), "exhausted|cut short"),
    "a length of 2**62": (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"abc", "expected"),
    "nothing below": (b"\x80\x030.", "the instruction POP"),
    "no mark": (b"\x80\x03t.", "damaged"),
    "a key that is a list": (b"\x80\x03}]]s.", "keys are no texts"),
    "another memo": (b"\x80\x03h\x07.", "damaged"),
    "many instructions": (b"\x80\x03" + b"]" * (1 << 21), "instructions"),
}


ran: list[str] = []
"""What Python's audit saw that only code from a file does."""
sys.addaudithook(lambda event, _: ran.append(event) if event in (
    "os.system", "pickle.find_class", "subprocess.Popen") else None)


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("form", [mr.Cifar10ToMR, mr.Cifar100ToMR])
def test_no_batch_runs_code(tmp_path, what, form):
    data, message = HOSTILE[what]
    for name in ("data_batch_1", "test_batch", "train", "test"):
        (tmp_path / name).write_bytes(data)
    ran.clear()
    with pytest.raises(RuntimeError, match=f"is no batch of the Python version: .*({message})"):
        form(str(tmp_path), str(tmp_path / "out")).transform()
    assert not ran


# --- files that unpack to much more, or say so ----------------------------------------------------


def zeros(mib: int, form: int = 15) -> bytes:
    """Some MiB of zeros, packed."""
    stream = zlib.compressobj(9, wbits=form)
    return b"".join(stream.compress(bytes(1 << 20)) for _ in range(mib)) + stream.flush()


def mat(folder: Path, *parts: bytes) -> None:
    head = bytearray(128)
    head[124:] = b"\0\1IM"
    (folder / "train_32x32.mat").write_bytes(
        bytes(head) + b"".join(struct.pack("<II", 15, len(p)) + p for p in parts))


def png(width: int, height: int) -> bytes:
    """A picture of zeros."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + \
            struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b""))


def gif(width: int, height: int) -> bytes:
    return (b"GIF89a" + struct.pack("<2H3B", width, height, 0x80, 0, 0) + bytes(6) + b"," +
            struct.pack("<4HB", 0, 0, width, height, 0) + b"\2\2\x44\1\0;")


def bmp(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<3I", 58, 0, 54) + struct.pack(
        "<3I2H6I", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(4)


def svhn(folder: Path, *parts: bytes) -> None:
    mat(folder, *parts)
    ds.SVHNDataset(str(folder), "train").get_dataset_size()


def mnist(folder: Path, data: bytes) -> None:
    (folder / "train-images-idx3-ubyte.gz").write_bytes(data)
    mr.MnistToMR(str(folder), str(folder / "out")).transform()


def tfrecords(folder: Path, data: bytes, form: str) -> None:
    (folder / "t").write_bytes(data)
    ds.TFRecordDataset(str(folder / "t"), compression_type=form).get_dataset_size()


def sound(folder: Path, size: int) -> None:
    length, kind = struct.pack("<I", size), struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    (folder / "s.wav").write_bytes(
        b"RIFF" + length + b"WAVEfmt " + kind + b"data" + length + bytes(8))
    waveform(folder / "s.wav")


def read_picture(folder: Path, data: bytes) -> None:
    (folder / "p").write_bytes(data)
    with pytest.raises(RuntimeError, match=r"read_image: .* is broken or no picture"):
        vision.read_image(str(folder / "p"))
    decoded(data, "Decode")


MUCH = "unpacks to more than|have more than|too few for|bomb|fewer than|is cut off"
BOMBS = {
    "a mat": lambda f: svhn(f, zeros(200)),
    "many arrays of a mat": lambda f: svhn(f, *[zeros(60)] * 4),
    "a gz of idx": lambda f: mnist(f, zeros(200, 31)),
    "members of a gz": lambda f: mnist(f, zeros(60, 31) * 4),
    "records in gzip": lambda f: tfrecords(f, zeros(200, 31), "GZIP"),
    "records in zlib": lambda f: tfrecords(f, zeros(200), "ZLIB"),
    "a wav": lambda f: sound(f, (1 << 32) - 64),
    "a png": lambda f: read_picture(f, png(9000, 9000)),
    "a chunk of a png": lambda f: read_picture(f, png(3, 2)[:33] + b"\x40\0\0\0IDAT" + bytes(9)),
    "a large png": lambda f: read_picture(f, png(1 << 20, 1 << 20)),
    "a gif": lambda f: read_picture(f, gif(60000, 60000)),
    "a bmp": lambda f: read_picture(f, bmp(9000, 9000)),
}


@pytest.mark.parametrize("what", BOMBS)
def test_what_a_file_unpacks_to_is_bounded(tmp_path, what):
    pytest.importorskip("PIL")
    tracemalloc.start()
    try:
        with pytest.raises(RuntimeError, match=MUCH):
            BOMBS[what](tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_a_picture_starts_no_program():
    """Pillow hands EPS files to Ghostscript."""
    pytest.importorskip("PIL")
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n0 0 moveto showpage\n"
    ran.clear()
    with pytest.raises(RuntimeError, match="broken or of an unknown kind"):
        decoded(eps, "Decode")
    assert not ran


def test_a_manifest_without_entries(tmp_path):
    (tmp_path / "m").write_text("")
    with pytest.raises(RuntimeError, match=f"ManifestDataset can't find data in {tmp_path}/m"):
        ds.ManifestDataset(str(tmp_path / "m")).get_dataset_size()
