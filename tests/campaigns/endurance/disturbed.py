"""Kills, forks and full disks at random moments of whatever writes files: is anything lost?

A run is a process that writes versions 1, 2, ... of something, and is disturbed. What it has
written is then read in another process: it must be whole, and no older than the last version that
was acknowledged (the call that wrote it had returned).
"""

from __future__ import annotations

import faulthandler
import hashlib
import logging
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import cellc as ms
from cellc import Tensor, mindrecord, nn
from cellc.train import CheckpointConfig, ModelCheckpoint, latest_checkpoint, parts
from cellc.train.callback import RunContext, _InternalCallbackParam
from cellc.train.serialization import finish_saves
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.onnx_export import to_model
from cellc_runtime import dtypes, knobs
from cellc_runtime.cache import Cache, make_key
from cellc_runtime.files import write_atomically

_HUNG = 30.0
"""Seconds after which a process counts as hung."""
_LONGEST = 0.06
"""Seconds within which a process is disturbed."""
_VERSIONS, _ROWS, _WORDS = 40, 24, 5000


class Lost(Exception):
    """Something that was written is not there, or is not whole."""


def _same(values: Any) -> int:
    """The version of which all elements are."""
    found = np.unique(np.asarray(values))
    if len(found) != 1:
        raise Lost(f"parts of several versions: {found[:5]}")
    return int(found[0])


@dataclass(frozen=True)
class Kind:
    """Something that is written.

    Attributes:
        write: writes a version into a folder.
        read: the version that is there, whole; 0: none.
        delayed: whether a version is there only when the next one's call has returned.
    """

    write: Callable[[Path, int], Any]
    read: Callable[[Path], int]
    delayed: bool = False


# --- what is written ----------------------------------------------------------------------------


def _tensors(version: int) -> dict[str, Tensor]:
    return {name: Tensor(np.full(size, version, np.float32))
            for name, size in (("a", 7), ("b", _WORDS))}


def _save(format: str, background: bool) -> Kind:
    def write(folder: Path, version: int) -> None:
        for name in ("x", "y") if background else ("x",):
            ms.save_checkpoint(_tensors(version), str(folder / name), format=format,
                               async_save=background, crc_check=True)
        finish_saves()

    def read(folder: Path) -> int:
        return min(_loaded(folder / f"{name}.{format}") for name in
                   (("x", "y") if background else ("x",)))

    return Kind(write, read)


def _loaded(file: Path) -> int:
    if not file.exists():
        return 0
    found = ms.load_checkpoint(str(file), format=file.suffix[1:], crc_check=True)
    if set(found) != {"a", "b"}:
        raise Lost(f"{file.name} has {set(found)}")
    return _same(np.concatenate([p.asnumpy() for p in found.values()]))


class _Rotation:
    """Checkpoints of `ModelCheckpoint`, of which the newest are kept."""

    def __init__(self, keep: int, background: bool) -> None:
        self.keep, self.background = keep, background
        self.callback: ModelCheckpoint | None = None

    def write(self, folder: Path, version: int) -> None:
        net = nn.Cell()
        net.a = ms.Parameter(Tensor(np.full(7, version, np.float32)), name="a")
        net.b = ms.Parameter(Tensor(np.full(_WORDS, version, np.float32)), name="b")
        params = _InternalCallbackParam()
        params.update(mode="train", cur_step_num=version, cur_epoch_num=1, train_network=net)
        if self.callback is None:
            self.callback = ModelCheckpoint("m", str(folder), CheckpointConfig(
                save_checkpoint_steps=1, keep_checkpoint_max=self.keep,
                async_save=self.background, crc_check=True))
            self.callback.begin(RunContext(params | {"cur_step_num": version - 1}))
        self.callback.step_end(RunContext(params))

    def read(self, folder: Path) -> int:
        files = list(folder.glob("m*.ckpt"))
        latest = latest_checkpoint(str(folder))
        if files and latest is None:
            raise Lost(f"none of {len(files)} checkpoints is whole")
        newest = max((_loaded(f) for f in files), default=0)
        if latest is not None and _loaded(Path(latest)) < newest - 1:  # two within a tick of time
            raise Lost(f"{latest} is not the latest, {newest} is")
        return newest


def _write_part(folder: Path, version: int) -> None:
    values = {name: value.asnumpy() for name, value in _tensors(version).items()}
    parts.save(str(folder / "x.safetensors"), values, {}, "safetensors")


def _read_part(folder: Path) -> int:
    manifest = folder / f"x.safetensors{parts.SUFFIX}"
    if not manifest.exists():
        return 0
    if latest_checkpoint(str(folder)) != str(manifest):
        raise Lost("the checkpoint of ranks is not whole")
    return _same(np.concatenate([np.asarray(v) for v in
                                 parts.Manifest(str(manifest)).entries(0).values()]))


def _write_records(folder: Path, version: int) -> None:
    writer = mindrecord.FileWriter(str(folder / "r"), 2, overwrite=True)
    writer.add_schema({"n": {"type": "int32"}, "text": {"type": "bytes"}})
    writer.add_index(["n"])
    writer.write_raw_data([{"n": version, "text": struct.pack("<i", version) * 400}] * _ROWS)
    writer.commit()


def _read_records(folder: Path) -> int:
    if not list(folder.glob("r*")) and not list(folder.glob(".r.cellc-committed")):
        return 0
    reader = mindrecord.FileReader(str(folder / "r0"))
    rows = list(reader.get_next())
    reader.close()
    if len(rows) != _ROWS:
        raise Lost(f"{len(rows)} of {_ROWS} rows")
    return _same([int(row["n"]) for row in rows]
                 + [x for row in rows for x in np.frombuffer(bytes(row["text"]), "<i4")])


def _append_records(folder: Path, version: int) -> None:
    if (folder / "p").exists():
        writer = mindrecord.FileWriter.open_for_append(str(folder / "p"))
    else:
        writer = mindrecord.FileWriter(str(folder / "p"))
        writer.add_schema({"n": {"type": "int32"}})
    writer.write_raw_data([{"n": version}])
    writer.commit()


def _read_appended(folder: Path) -> int:
    if not (folder / "p").exists() and not (folder / ".p.cellc-committed").exists():
        return 0
    reader = mindrecord.FileReader(str(folder / "p"))
    rows = [int(row["n"]) for row in reader.get_next()]
    reader.close()
    if rows != sorted(set(rows)) or not rows:
        raise Lost(f"rows are {rows}")
    return rows[-1]


def _onnx_model(version: int) -> Any:
    graph = Graph("g")
    x = graph.add_input(TensorType((_WORDS,), dtypes.float32), "x")
    w = graph.add_input(TensorType((_WORDS,), dtypes.float32), "w", "param")
    graph.outputs = [Builder(graph).add(x, w)]
    return to_model(graph, {"w": np.full(_WORDS, version, np.float32)}, ["y"], 20)


def _read_onnx(folder: Path) -> int:
    if not (folder / "m.onnx").exists():
        return 0
    model = onnx.load_model(str(folder / "m.onnx"))
    return _same(onnx.numpy_helper.to_array(model.graph.initializer[0]))


def _read_plain(folder: Path) -> int:
    data = (folder / "t").read_bytes() if (folder / "t").exists() else b"\0" * 4 * _WORDS
    if len(data) != 4 * _WORDS:
        raise Lost(f"{len(data)} bytes")
    return _same(np.frombuffer(data, "<i4"))


def _entry(number: int) -> tuple[str, bytes]:
    key = make_key(str(number))
    return key, hashlib.sha256(key.encode()).digest() * (20 + number * 37 % 400)


def _write_cache(folder: Path, version: int) -> None:
    cache = Cache(folder / "cache", 100_000)
    for number in (version % 50, version * 7 % 50):
        key, payload = _entry(number)
        cache.put(key, payload)
        if cache.get(key) not in (payload, None):
            raise Lost("the cache gave another entry")


def _read_cache(folder: Path) -> int:
    """An entry may be gone at any time, but never be another one."""
    cache = Cache(folder / "cache", 100_000)
    for number in range(50):
        key, payload = _entry(number)
        if cache.get(key) not in (payload, None):
            raise Lost(f"the cache gave another entry for {number}")
    return 1 << 40


def _compile(folder: Path, version: int) -> None:
    """A function that is compiled with the cache in the folder."""
    factor = version % 5 + 2

    def double(x: Tensor) -> Tensor:
        return x * factor + 1

    with knobs.override(cache_dir=folder / "code", cache_size=60_000):
        out = ms.jit(double)(Tensor(np.arange(8, dtype=np.float32))).asnumpy()
    if not np.array_equal(out, np.arange(8, dtype=np.float32) * factor + 1):
        raise Lost("wrong code from the cache")


def _compile_all(folder: Path) -> int:
    for version in range(3):
        _compile(folder, version)
    return 1 << 40


def kinds() -> dict[str, Kind]:
    """What is written, new for each process."""
    rotations = {f"keep {n}{', async' * b}": _Rotation(n, b) for n in (1, 3) for b in (False, True)}
    return {
        "ckpt": _save("ckpt", False), "safetensors": _save("safetensors", False),
        "ckpt, async": _save("ckpt", True), "safetensors, async": _save("safetensors", True),
        **{name: Kind(r.write, r.read, r.background) for name, r in rotations.items()},
        "ranks": Kind(_write_part, _read_part),
        "records": Kind(_write_records, _read_records),
        "appended": Kind(_append_records, _read_appended),
        "onnx": Kind(lambda f, v: _onnx_model(v).save(f / "m.onnx", 0), _read_onnx),
        "file": Kind(lambda f, v: write_atomically(f / "t", [struct.pack("<i", v)] * _WORDS),
                     _read_plain),
        "cache": Kind(_write_cache, _read_cache),
        "code": Kind(_compile, _compile_all),
    }


# --- how it is disturbed ------------------------------------------------------------------------


class _Versions:
    """What a process tells of the versions that it writes, in memory that outlives it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 24)

    def __getitem__(self, at: int) -> int:
        return int(struct.unpack_from("<q", self._memory, 8 * at)[0])

    def __setitem__(self, at: int, value: int) -> None:
        struct.pack_into("<q", self._memory, 8 * at, value)


_STARTED, _WRITTEN, _READY = range(3)


def _write_versions(kind: Kind, folder: Path, versions: _Versions, full: bool = False) -> None:
    before = 0
    for _ in range(_VERSIONS):
        version = versions[_STARTED] + 1
        versions[_STARTED] = version
        try:
            kind.write(folder, version)
        except (OSError, RuntimeError) as error:
            if not full or not re.search("written|saved|too large", str(error)):
                raise
            before = 0  # it says that it is not written
            continue
        versions[_WRITTEN] = max(versions[_WRITTEN], before if kind.delayed else version)
        before = version


def _limited(rng: random.Random) -> None:
    """Let no file of this process grow beyond a random length, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = rng.randrange(1 + rng.choice([100, 5_000, 60_000]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _fork_while_writing(
    name: str, folder: Path, versions: _Versions, rng: random.Random
) -> None:
    """Fork at a random moment of what a thread writes; the child writes something of its own."""
    thread = threading.Thread(target=_write_versions, args=(kinds()[name], folder, versions))
    thread.start()
    versions[_READY] = 1
    for i in range(2):
        time.sleep(rng.uniform(0, _LONGEST / 2))
        own = folder.with_name(f"{folder.name}-child-{i}")
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()

        def work(own: Path = own) -> None:
            kind = kinds()[name]
            for version in (1, 2):
                kind.write(own, version)
            finish_saves()
            if kind.read(own) < 2 - kind.delayed:
                raise Lost("a forked child lost what it wrote")

        ended = _ended(_forked(work), _HUNG)
        if ended:
            raise Lost(f"a forked child: {ended}")


def _forked(work: Callable[[], None]) -> tuple[int, int]:
    """A child process that does something: its id, and where it says how it failed."""
    out, into = os.pipe()
    pid = os.fork()
    if pid:
        os.close(into)
        return pid, out
    os.close(out)
    status = 1
    try:
        faulthandler.register(signal.SIGUSR1, file=into)
        work()
        status = 0
    except BaseException:
        os.write(into, traceback.format_exc().encode()[-4000:])
    finally:
        os._exit(status)


def _ended(child: tuple[int, int], seconds: float, kill: bool = False) -> str:
    """Wait for a child, and end it after some seconds; how it failed, "" where it did not."""
    pid, out = child
    end = time.monotonic() + seconds
    try:
        while not (found := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                if not kill:  # so it hangs: where?
                    os.kill(pid, signal.SIGUSR1)
                    time.sleep(0.5)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return "" if kill else f"hung for {seconds:.0f} s: {os.read(out, 1 << 16).decode()}"
            time.sleep(0.001)
        status = os.waitstatus_to_exitcode(found[1])
        with open(out, "rb", closefd=False) as stream:
            said = stream.read().decode(errors="replace")
        return said if status and said else f"ended with {status}" if status else ""
    finally:
        os.close(out)


def _run(name: str, how: str, folder: Path, versions: _Versions, rng: random.Random) -> str:
    """A run; what was lost, "" where nothing was."""
    kind = kinds()[name]
    versions[_READY] = 0

    def work() -> None:
        os.setpgid(0, 0)
        if how == "fork":
            _fork_while_writing(name, folder, versions, rng)
            os._exit(0)
        if how == "full":
            _limited(rng)
        versions[_READY] = 1
        _write_versions(kind, folder, versions, how == "full")

    child = _forked(work)
    while not versions[_READY] and not os.waitid(
            os.P_PID, child[0], os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.0005)
    fault = _ended(child, _HUNG * 4) if how == "fork" else \
        _ended(child, rng.uniform(0, _LONGEST), kill=True)
    _end_group(child[0])
    if fault:
        return fault
    written, started = versions[_WRITTEN], versions[_STARTED]

    def check() -> None:
        found = kinds()[name].read(folder)
        if not written <= found and found <= started:
            raise Lost(f"version {found} is there, of {written} written and {started} started")

    return _ended(_forked(check), _HUNG)


def _end_group(group: int) -> None:
    """End what a killed process has left running (workers of the compiler, children)."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@dataclass
class Found:
    """What many runs have shown: how many of each kind, and what was lost."""

    runs: Counter[tuple[str, str]]
    lost: list[str]


def disturbed(folder: Path, count: int, seed: int, say: Callable[[str], None] = print) -> Found:
    """Disturb so many processes; a folder is used for thirty in a row.

    Raises:
        Nothing for what is lost: it is in the result.
    """
    logging.getLogger("cellc").setLevel(logging.CRITICAL)  # of saves that fail, as they should
    rng = random.Random(seed)
    found = Found(Counter(), [])
    names = list(kinds())
    while found.runs.total() < count:
        name, versions = rng.choice(names), _Versions()
        place = folder / "run"
        for _ in range(min(30, count - found.runs.total())):
            place.mkdir(exist_ok=True)
            how = rng.choices(["kill", "full", "fork"], [6, 3, 1])[0]
            fault = _run(name, how, place, versions, rng)
            found.runs[name, how] += 1
            if fault:
                found.lost.append(f"{name}, {how}, run {found.runs.total()}: {fault}")
                say(found.lost[-1])
                break
        for used in folder.iterdir():
            shutil.rmtree(used, ignore_errors=True)
        if found.runs.total() // 500 != (found.runs.total() - 30) // 500:
            say(f"{found.runs.total()} runs, {len(found.lost)} faults")
    return found
