"""Mutated files of datasets, MindRecord and checkpoints: no crash, hang, code or silent damage.

    python -m tests.campaigns.fuzz.datasets SECONDS [SEED]

Each mutant is read in a process of its own, forked from one that has loaded all readers, with an
alarm of ten seconds and a bound on memory of 64 times the file above what the process has.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings
import wave
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
import cellc.dataset as ds
from cellc import mindrecord as mr
from cellc import nn
from cellc.dataset import vision
from cellc.dataset.speech import waveform
from cellc.records import tfrecord

SECONDS = 10
BASE_MEMORY = 1 << 30
"""Bytes beside the 64 for each of the file: pictures may have 2^26 pixels, unpacked data 64 MiB."""
RUNS_CODE = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class",
             "ctypes.dlopen", "socket.connect")
FINE = (RuntimeError, ValueError, TypeError, OSError, mr.MindRecordException, KeyError)
"""What a reader may say of a file (KeyError: a column that is not there)."""

Maker = Callable[[Path], list[str]]
Reader = Callable[[Path], Any]


def rows_of(data: Any) -> list[Any]:
    return [[np.asarray(v).tobytes() for v in row]
            for row in data.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def _idx(folder: Path, pack: Callable[[bytes], bytes] = bytes, end: str = "") -> list[str]:
    pixels = np.arange(4 * 784, dtype=np.uint32).astype(np.uint8).tobytes()
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte{end}").write_bytes(
            pack(struct.pack(">4I", 0x803, 4, 28, 28) + pixels))
        (folder / f"{part}-labels-idx1-ubyte{end}").write_bytes(
            pack(struct.pack(">2I", 0x801, 4) + bytes(range(4))))
    return [f"train-{what}-ubyte{end}" for what in ("images-idx3", "labels-idx1")]


def _cifar(folder: Path) -> list[str]:
    data = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]}
    for i, name in enumerate(("data_batch_1", "test_batch")):
        (folder / name).write_bytes(pickle.dumps(data, 2 + 2 * i))
    return ["data_batch_1", "test_batch"]


def _binary_cifar(folder: Path) -> list[str]:
    (folder / "data_batch_1.bin").write_bytes(bytes(3073 * 2))
    return ["data_batch_1.bin"]


def _mat(folder: Path) -> list[str]:
    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(name: bytes, shape: tuple[int, ...], data: bytes) -> bytes:
        whole = element(14, element(6, struct.pack("<II", 9, 0)) + element(
            5, struct.pack(f"<{len(shape)}i", *shape)) + element(1, name) + element(2, data))
        packed = zlib.compress(whole)
        return struct.pack("<II", 15, len(packed)) + packed

    (folder / "train_32x32.mat").write_bytes(
        bytes(124) + b"\0\1IM" + matrix(b"X", (32, 32, 3, 2), bytes(6144))
        + matrix(b"y", (2, 1), bytes([1, 2])))
    return ["train_32x32.mat"]


def _wav(folder: Path) -> list[str]:
    with wave.open(str(folder / "s.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(200))
    return ["s.wav"]


def _picture(kind: str) -> Maker:
    def make(folder: Path) -> list[str]:
        import cv2 as cv2  # loaded here, so that its memory is not that of a mutant
        from PIL import Image  # an optional library

        out = io.BytesIO()
        Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(out, kind)
        (folder / "p").write_bytes(out.getvalue())
        return ["p"]

    return make


def _tfrecord(folder: Path, pack: Callable[[bytes], bytes] = bytes) -> list[str]:
    example = bytes.fromhex("0a0f0a0d0a01691208 1a060a04010203 04".replace(" ", ""))
    (folder / "t").write_bytes(pack(b"".join(tfrecord.framed(example) for _ in range(3))))
    return ["t"]


def _text(name: str, text: str) -> Maker:
    def make(folder: Path) -> list[str]:
        (folder / name).write_text(text.replace("FOLDER", str(folder)))
        return [name]

    return make


def _records(folder: Path) -> list[str]:
    writer = mr.FileWriter(str(folder / "r"), 1)
    kinds = {"i": "int64", "s": "string", "b": "bytes"}
    writer.add_schema({name: {"type": kind} for name, kind in kinds.items()}, "d")
    writer.add_index(["i"])
    writer.write_raw_data([{"i": i, "s": str(i), "b": bytes(i)} for i in range(9)])
    writer.commit()
    return ["r", "r.db"]


def _checkpoint(folder: Path, form: str = "ckpt", **options: Any) -> list[str]:
    ms.save_checkpoint(nn.Dense(3, 2), str(folder / f"c.{form}"), format=form, **options)
    return [f"c.{form}"]


MANIFEST = "".join(json.dumps({"source": f"FOLDER/{i}", "usage": "train", "annotation": [
    {"name": f"k{i}"}]}) + "\n" for i in range(3))
COCO = json.dumps({"images": [{"id": 1, "file_name": "a"}], "categories": [{"id": 1, "name": "k"}],
                   "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0,
                                    "bbox": [0, 0, 1, 1]}]})


def _read_image(folder: Path) -> Any:
    return vision.read_image(str(folder / "p")).tobytes()


FORMS: dict[str, tuple[Maker, Reader, bool]] = {
    "idx": (_idx, lambda f: rows_of(ds.MnistDataset(str(f), "train", shuffle=False)), False),
    "idx.gz": (lambda f: _idx(f, gzip.compress, ".gz"),
               lambda f: mr.MnistToMR(str(f), str(f / "out")).transform(), False),
    "cifar": (_cifar, lambda f: mr.Cifar10ToMR(str(f), str(f / "out")).transform(), False),
    "cifar.bin": (_binary_cifar,
                  lambda f: rows_of(ds.Cifar10Dataset(str(f), "train", shuffle=False)), False),
    "mat": (_mat, lambda f: rows_of(ds.SVHNDataset(str(f), "train", shuffle=False)), False),
    "wav": (_wav, lambda f: waveform(f / "s.wav"), False),
    **{kind: (_picture(kind), _read_image, False)
       for kind in ("PNG", "TIFF", "GIF", "BMP", "JPEG", "PPM", "WEBP")},
    "tfrecord": (_tfrecord, lambda f: rows_of(
        ds.TFRecordDataset(str(f / "t"), shuffle=False)), True),
    "tfrecord.gz": (lambda f: _tfrecord(f, gzip.compress), lambda f: rows_of(
        ds.TFRecordDataset(str(f / "t"), shuffle=False, compression_type="GZIP")), True),
    "csv": (_text("c.csv", "a,b\n1,2.5\n3,x\n"),
            lambda f: mr.CsvToMR(str(f / "c.csv"), str(f / "out")).transform(), False),
    "manifest": (_text("m", MANIFEST), lambda f: ds.ManifestDataset(
        str(f / "m"), shuffle=False).get_dataset_size(), False),
    "coco": (_text("c.json", COCO), lambda f: ds.CocoDataset(
        str(f), str(f / "c.json"), shuffle=False).get_dataset_size(), False),
    "mindrecord": (_records, lambda f: rows_of(ds.MindDataset(str(f / "r"), shuffle=False)), False),
    "ckpt with a CRC": (
        lambda f: _checkpoint(f, crc_check=True), lambda f: [
            p.asnumpy().tobytes() for p in ms.load_checkpoint(
                str(f / "c.ckpt"), crc_check=True).values()], True),
    "safetensors": (lambda f: _checkpoint(f, "safetensors"), lambda f: [
        p.asnumpy().tobytes() for p in ms.load_checkpoint(
            str(f / "c.safetensors"), format="safetensors").values()], False),
}
"""How each form is made and read, and whether a checksum covers what it holds."""

_INTERESTING = [0, 1, 0x7F, 0x80, 0xFF]


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Another content: bytes changed, numbers made large, parts cut, doubled or moved."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        size = len(out)
        at = int(rng.integers(size)) if size else 0
        length = int(rng.integers(1, 17))
        kind = int(rng.integers(6))
        if kind == 0 and size:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1 and size:
            out[at] = int(rng.choice(_INTERESTING))
        elif kind == 2:
            number = int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**40, 2**63]))
            order = "little" if rng.integers(2) else "big"
            out[at:at + 8] = number.to_bytes(8, order)[:min(8, size - at)]
        elif kind == 3:
            del out[at:at + length * int(rng.integers(1, 64))]
        elif kind == 4:
            out[at:at] = out[at:at + length]
        else:
            out[at:at] = rng.bytes(length)
    return bytes(out)


def outcome(work: Callable[[], Any], memory: int) -> str:
    """What a child says that does some work: "fine", or what went wrong."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(here)
        try:
            os.write(there, _inside(work, memory).encode()[:4000])
        finally:
            os._exit(0)
    os.close(there)
    with open(here, "rb") as stream:
        said = stream.read().decode()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "a hang" if number == signal.SIGALRM else f"signal {number}"
    return said or "no answer"


def _inside(work: Callable[[], Any], memory: int) -> str:
    warnings.simplefilter("ignore")  # Pillow's, of what it found odd
    ran: list[str] = []
    sys.addaudithook(lambda event, _: ran.append(event) if event in RUNS_CODE else None)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory,) * 2)
    try:
        said = work()
    except FINE:
        said = "fine"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return f"code ran: {ran}" if ran else said


def trial(folder: Path, form: str, rng: np.random.Generator) -> str:
    """Make, mutate and read one file of a form."""
    make, read, covered = FORMS[form]
    names = make(folder)
    path = folder / names[int(rng.integers(len(names)))]
    want = read(folder) if covered else None
    path.write_bytes(mutated(path.read_bytes(), rng))
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())

    def work() -> str:
        found = read(folder)
        if not covered or found == want[:len(found)]:
            return "fine"
        return "damage was accepted"

    return outcome(work, BASE_MEMORY + 64 * size)


def campaign(seconds: float, seed: int) -> Counter[tuple[str, str]]:
    """Outcomes by form, of as many mutants as time allows."""
    rng, found = np.random.default_rng(seed), Counter[tuple[str, str]]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for form in FORMS:
            folder = Path(tempfile.mkdtemp(prefix="cellc_fuzz_"))
            try:
                said = trial(folder, form, rng)
                found[form, said] += 1
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return found


if __name__ == "__main__":
    result = campaign(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(sum(result.values()), "mutants")
    for (form, said), count in sorted(result.items()):
        if said != "fine":
            print(f"{form}: {count} x {said}")
