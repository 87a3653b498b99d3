"""Files of datasets are data: no code in them runs, no length in them is believed."""

from __future__ import annotations

import pickle
import pickletools
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from cellc import mindrecord as mr

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
    "a key that is a list": (b"\x80\x03}]]s.", "must be a text"),
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
