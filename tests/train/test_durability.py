"""Saving loses nothing: failures of threads are raised, older files go last, values keep."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc.dataset as ds
from cellc import Parameter, Tensor, cli, nn, train
from cellc.dataset import vision
from cellc.train import CheckpointConfig, Model, ModelCheckpoint
from cellc.train.serialization import _Background
from cellc_runtime import files
from cellc_runtime.dtypes import inexact, out_of_range


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    _Background.wait_for()
    _Background.failed.clear()


def entries(value: float = 1.0) -> dict[str, Tensor]:
    return {"w": Tensor(np.full(4, value, np.float32))}


def refuse(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk be full after some files."""
    done: list[int] = []

    def fsync(handle: int) -> None:
        done.append(handle)
        if len(done) > after:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files, "sync_directory", lambda folder: None)


# --- in the background --------------------------------------------------------------------------


def test_a_failed_background_save_raises_at_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        refuse(full, 0)
        ms.save_checkpoint(entries(), "a", async_save=True)
        _Background.wait_for()
    with pytest.raises(OSError, match=r"checkpoint .*\.ckpt was not saved.*No space left"):
        ms.save_checkpoint(entries(), "c")
    assert not os.listdir(".")
    ms.save_checkpoint(entries(), "c")  # it was raised once
    assert os.listdir(".") == ["c.ckpt"]


@pytest.mark.parametrize("first, code, status", [
    ("", "", 1), ("", "atexit.register(lambda: print('others run'))", 1),
    ("atexit.register(lambda: print('others run'))", "", 1),
    ("", "file = open('open', 'w'); file.write('others run')", 1),
    ("", "os.fork() or os._exit(0); os.wait()", 1), ("", "files.os.fsync = whole", 0)])
def test_a_failed_background_save_fails_the_process(first: str, code: str, status: int) -> None:
    """After the exit functions of others, registered before and later; open files are flushed."""
    program = f"""
import atexit
{first}
import os, numpy as np, cellc as ms
from cellc_runtime import files
whole = os.fsync
def full(handle):
    raise OSError(28, "No space left on device")
files.os.fsync = full
{code}
ms.save_checkpoint({{"w": ms.Tensor(np.ones(4))}}, "a", async_save=True)
print("the program ends")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == status and "the program ends" in done.stdout
    assert ("a.ckpt was not saved" in done.stderr) == bool(status)
    said = done.stdout + (Path("open").read_text() if os.path.exists("open") else "")
    assert ("others run" in said) == ("others run" in first + code)


class Steps:
    """A training of some steps that saves after each."""

    def __init__(self, **config: object) -> None:
        net = nn.Dense(2, 1)
        self.model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
        rows = (np.ones((5, 2), np.float32), np.ones((5, 1), np.float32))
        self.data = ds.NumpySlicesDataset(rows, ["x", "y"], shuffle=False).batch(1)
        self.callback = ModelCheckpoint("m", ".", CheckpointConfig(
            save_checkpoint_steps=1, **config))  # type: ignore[arg-type]

    def train(self) -> list[str]:
        self.model.train(1, self.data, [self.callback], dataset_sink_mode=False)
        return sorted(os.listdir("."))


@pytest.mark.parametrize("how", [False, True, "process"])
@pytest.mark.parametrize("keep", [1, 2])
def test_the_newest_are_kept(how: bool | str, keep: int) -> None:
    found = Steps(keep_checkpoint_max=keep, async_save=how).train()
    assert found == [f"m-1_{n}.ckpt" for n in range(6 - keep, 6)]


@pytest.mark.parametrize("how", [False, True])
@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_full_disk_leaves_the_older_ones(
    how: bool, keep: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        refuse(full, after)
        with pytest.raises(OSError, match="No space left"):
            Steps(keep_checkpoint_max=keep, async_save=how).train()
    names = sorted(os.listdir("."))
    assert names[-1] == f"m-1_{after}.ckpt" and len(names) >= min(keep, after)
    assert train.latest_checkpoint(".") == names[-1]


def test_no_moment_without_a_whole_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.unlink

    def unlink(path: object, **options: int) -> None:
        if str(path).endswith(".ckpt"):
            left = [f for f in os.listdir(".") if f.endswith(".ckpt") and f != str(path)]
            assert left and all(ms.load_checkpoint(f) for f in left)
        real(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", unlink)
    Steps(keep_checkpoint_max=1, async_save=True).train()
    assert os.listdir(".") == ["m-1_5.ckpt"]


# --- into a network -----------------------------------------------------------------------------


def net_of(dtype: str, name: str = "w") -> nn.Cell:
    net = nn.Cell()
    net.w = Parameter(Tensor(np.ones(2), getattr(ms, dtype)), name=name)
    return net


@pytest.mark.parametrize("given, target, value", [
    ("int64", "int32", 2**40), ("int32", "int8", 300), ("int64", "int16", -40000),
    ("float64", "float32", 1e300), ("float32", "float16", -1e30), ("float32", "bfloat16", 3.4e38)])
def test_values_out_of_range_are_not_loaded(given: str, target: str, value: float) -> None:
    net = net_of(target)
    new = {"w": Parameter(Tensor(np.array([1, value]), getattr(ms, given)), name="w")}
    said = r"w in the argument 'net' is \w+, which cannot hold .*, the value at \[1\] of w"
    with pytest.raises(RuntimeError, match=said):
        ms.load_param_into_net(net, new)
    assert (net.w.asnumpy() == 1).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 65504.0, 0.1])
def test_values_in_range_are_rounded(value: float) -> None:
    net = net_of("float16")
    new = {"w": Parameter(Tensor(np.array([value, 1]), ms.float32), name="w")}
    ms.load_param_into_net(net, new)
    assert np.array_equal(net.w.asnumpy()[0], np.float16(value), equal_nan=True)


@pytest.mark.parametrize("names, taken", [
    (["raw"], None), (["backbone_w"], None), (["a.w"], "a.w"), (["m.a.w", "a.w"], "a.w"),
    (["a.w", "xa.w"], "two"), (["a.w", "b.w"], "two"), (["ab.w", "b.w"], "two")])
def test_a_suffix_begins_after_a_dot(names: list[str], taken: str | None) -> None:
    net = net_of("float32")
    given = {n: Parameter(Tensor(np.full(2, 5 + i), ms.float32), name=n)
             for i, n in enumerate(names)}
    if taken == "two":
        with pytest.raises(RuntimeError, match=r"could take \['.*', '.*'\]"):
            ms.load_param_into_net(net, given)
        return
    missing, _ = ms.load_param_into_net(net, given)
    assert missing == ([] if taken else ["w"])
    assert net.w.asnumpy()[0] == (5 + names.index(taken) if taken else 1)


@pytest.mark.parametrize("value, to, out, lossy", [
    (np.int64(2**40), "int32", True, True), (np.uint64(2**63 + 5), "int64", True, True),
    (np.float64(2.0**63), "int64", True, True), (np.float64(2.0**63 - 1024), "int64", False, False),
    (np.float32(2.7), "int32", False, True), (np.float64(np.nan), "int32", True, True),
    (np.float64(np.nan), "float32", False, False), (np.int64(2**53 + 1), "float64", False, True),
    (np.uint64(2**64 - 1), "float64", False, True), (np.bool_(True), "int32", False, False),
    (np.float16(-0.0), "int64", False, False), (np.float64(0.1), "float32", False, True)])
def test_what_a_type_holds(value: np.generic, to: str, out: bool, lossy: bool) -> None:
    array = np.array([value])
    assert out_of_range(array, np.dtype(to)).tolist() == [out]
    assert inexact(array, np.dtype(to)).tolist() == [lossy]


# --- files --------------------------------------------------------------------------------------


def test_a_private_file_is_private_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    real = os.fsync

    def fsync(handle: int) -> None:
        seen.add(stat.S_IMODE(os.fstat(handle).st_mode))
        real(handle)

    ms.save_checkpoint(entries(), "a")
    os.chmod("a.ckpt", 0o600)
    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files, "sync_directory", lambda folder: None)
    for way in ("ckpt", "safetensors"):
        ms.save_checkpoint(entries(), "a", format=way)
        os.chmod(f"a.{way}", 0o600)
    ms.save_checkpoint(entries(), "a", format="safetensors")
    assert seen == {0o600, 0o644}  # the new safetensors file alone had the umask's mode


def test_a_link_stays_a_link_and_a_device_a_device() -> None:
    Path("real").mkdir()
    os.symlink("real/x", "link")
    files.write_text("link", "text")
    assert os.path.islink("link") and Path("real/x").read_text() == "text"
    files.write_text(os.devnull, "text")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def run(*words: str) -> None:
    """The command line, of which a failure is an OSError here."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = cli.main(list(words))
    if status:
        raise OSError(said.getvalue())


WRITERS: dict[str, Callable[[str], Any]] = {
    "x.ckpt": lambda f: ms.save_checkpoint(entries(), f),
    "x.safetensors": lambda f: ms.save_checkpoint(entries(), f, format="safetensors"),
    "x.raw": lambda f: Tensor(np.ones(4)).offload(f),
    "x.bin": lambda f: vision.write_file(f, np.ones(4, np.uint8)),
    "x.png": lambda f: vision.write_png(f, np.ones((4, 4, 3), np.uint8)),
    "x.jpeg": lambda f: vision.write_jpeg(f, np.ones((4, 4, 3), np.uint8)),
    "x.mindir": lambda f: ms.export(nn.ReLU(), Tensor(np.ones(4)), file_name=f,
                                     file_format="MINDIR"),
    "x.onnx": lambda f: ms.export(nn.ReLU(), Tensor(np.ones(4)), file_name=f, file_format="ONNX"),
    "x.cellc": lambda f: run("compile", NET, "--input", X, "-o", f),
    "x.html": lambda f: run("inspect", NET, "--input", X, "-o", f),
    "x.json": lambda f: run("verify", NET, "--input", X, "--json", f),
    "x.xml": lambda f: run("verify", NET, "--input", X, "--junit", f),
    "x.trace": lambda f: run("profile", NET, "--input", X, "--trace", f),
}
NET, X = "net.py:Net", "input=float32[4]"


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_older_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a new file is whole, has the older one's permissions and its place behind a link."""
    if name.endswith(".onnx"):
        pytest.importorskip("onnx")
    Path("net.py").write_text("from cellc import nn\nNet = nn.ReLU\n")
    Path("there").mkdir()
    real = Path("there") / name
    real.write_text("older")
    real.chmod(0o640)
    os.symlink(real, name)
    with monkeypatch.context() as full:
        refuse(full, 0)
        with pytest.raises((OSError, RuntimeError), match=r"No space left|cannot be written"):
            WRITERS[name](name)
    assert real.read_text() == "older" and os.listdir("there") == [name]
    WRITERS[name](name)
    assert Path(name).is_symlink() and os.listdir("there") == [name]
    assert real.stat().st_mode & 0o777 == 0o640 and real.read_bytes() != b"older"


def test_streams_are_written_directly() -> None:
    """A file that the shell has opened for standard output is not replaced."""
    program = "from cellc_runtime.files import write_text\n" \
        "print('before', flush=True)\nwrite_text('/dev/stdout', 'text\\n')\nprint('after')"
    with open("out", "a") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert Path("out").read_text().endswith("after\n") and os.listdir() == ["out"]
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "before\ntext\nafter\n"


@pytest.mark.parametrize("way", ["ckpt", "safetensors"])
def test_errors_have_the_users_name(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = rf"its folder does not exist, create it first: '.*/nodir/x\.{way}'$"
    with pytest.raises(FileNotFoundError, match=said):
        ms.save_checkpoint(entries(), "nodir/x", format=way)
    refuse(monkeypatch, 0)
    with pytest.raises(OSError, match=rf"No space left on device: '.*/x\.{way}'$"):
        ms.save_checkpoint(entries(), "x", format=way)
    assert not os.listdir(".")


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:-9] + b"\0" * 9, lambda d: b""])
def test_the_latest_checkpoint_can_be_loaded(damage: object) -> None:
    for i in range(3):
        ms.save_checkpoint(entries(i), f"n-{i}", crc_check=True)
        os.utime(f"n-{i}.ckpt", (i, i))
    newest = Path("n-2.ckpt")
    newest.write_bytes(damage(newest.read_bytes()))  # type: ignore[operator]
    assert train.latest_checkpoint(".") == "n-1.ckpt"
    Path("n-1.ckpt").unlink()
    assert train.latest_checkpoint(".") == "n-0.ckpt"
