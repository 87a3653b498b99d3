"""Compiling and linking: names, data, relocations of both machines, errors."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from helpers import mark_kernel

from cellc_compiler.backends.cpu.host.entry import support_text
from cellc_compiler.backends.cpu.image import build_image
from cellc_compiler.build import (
    compile_pool,
    objects,
    relocate,
    workers,
)
from cellc_compiler.build import (
    worker as compile_worker,
)
from cellc_compiler.build.link import LinkError, LinkInput, link
from cellc_compiler.build.objects import CompilerBug, compile_texts
from cellc_runtime import dtypes, knobs
from cellc_runtime.executable import Executable
from cellc_runtime.image import Image
from cellc_runtime.program import Program, Slot
from cellc_runtime.target import AVX2, NEON, TARGETS, Target, host_target

MAIN = "define hidden i32 @cellc_main(ptr %s, ptr %a, ptr %c) {\n  ret i32 0\n}\n"

DATA = """
@table = private constant [4 x i64] [i64 11, i64 22, i64 33, i64 44]
@count = internal global i64 100
@zeroed = internal global i64 0
declare hidden i64 @far(i64)
define hidden i32 @cellc_main(ptr %slots, ptr %arena, ptr %consts) {
  %out = load ptr, ptr %slots
  %const = load i64, ptr %consts
  %p = getelementptr i64, ptr @table, i64 %const
  %x = load i64, ptr %p
  %n = load i64, ptr @count
  %n1 = add i64 %n, 1
  store i64 %n1, ptr @count
  %z = load i64, ptr @zeroed
  %z1 = add i64 %z, 1000
  store i64 %z1, ptr @zeroed
  %f = call i64 @far(i64 %x)
  %s = add i64 %f, %n1
  %t = add i64 %s, %z1
  store i64 %t, ptr %out
  ret i32 0
}
"""
FAR = """
@table = private constant [2 x i64] [i64 7, i64 9]
define internal i64 @helper(i64 %x) noinline {
  %p = getelementptr i64, ptr @table, i64 1
  %y = load i64, ptr %p
  %r = mul i64 %x, %y
  ret i64 %r
}
define hidden i64 @KERNEL(i64 %x) {
  %r = call i64 @helper(i64 %x)
  ret i64 %r
}
"""


def test_data_constants_and_calls_between_objects() -> None:
    target = host_target()
    image = build_image(DATA, [("far", FAR)], target)
    assert [s.kind for s in image.segments] == ["text", "rodata", "data"]
    slots = (Slot("o", dtypes.int64, (), "output"),)
    program = Program("data", target.name, slots, image, constants=struct.pack("<q", 2))
    exe = Executable(Program.from_bytes(program.to_bytes()))
    assert [int(exe.entry()) for _ in range(3)] == [33 * 9 + 1101, 33 * 9 + 2102, 33 * 9 + 3103]
    assert int(Executable(program).entry()) == 33 * 9 + 1101  # a mapping has data of its own


def test_global_tables_through_a_relaxed_got() -> None:
    target = host_target()
    text = """
@shared = external global [2 x i64]
define hidden i32 @cellc_main(ptr %slots, ptr %a, ptr %c) {
  %out = load ptr, ptr %slots
  %p = getelementptr i64, ptr @shared, i64 1
  %x = load i64, ptr %p
  store i64 %x, ptr %out
  ret i32 0
}
"""
    other = "@shared = global [2 x i64] [i64 5, i64 6]\n"
    texts = (text, other, support_text(target))
    inputs = [LinkInput(made) for made in compile_texts(texts, target)]
    slots = (Slot("o", dtypes.int64, (), "output"),)
    assert int(Executable(Program("got", target.name, slots, link(inputs))).entry()) == 6


def test_missing_functions_are_all_named() -> None:
    text = MAIN.replace("ret", "call void @zeta()\n  call void @alpha()\n  ret", 1)
    text += "declare void @zeta()\ndeclare void @alpha()\n"
    with pytest.raises(LinkError, match="nothing defines: alpha, zeta"):
        build_image(text, [], host_target())


def test_an_absolute_address_is_refused() -> None:
    text = "@x = internal global i64 1\n@p = internal global ptr @x\n" + MAIN.replace(
        "ret i32 0", "%q = load volatile ptr, ptr @p\n  ret i32 0"
    )
    with pytest.raises(LinkError, match="depends on the load address"):
        build_image(text, [], host_target())


def test_two_definitions_and_two_machines_are_refused() -> None:
    one = LinkInput(*compile_texts([MAIN], AVX2))
    with pytest.raises(LinkError, match="'cellc_main' is defined twice"):
        link([one, one])
    with pytest.raises(LinkError, match="one machine"):
        link([one, LinkInput(*compile_texts([MAIN], NEON))])
    with pytest.raises(LinkError, match="should define 'nope'"):
        link([LinkInput(one.object, {"x": "nope"})])
    with pytest.raises(LinkError, match="not a little-endian ELF64"):
        link([LinkInput(b"MZ" + bytes(100))])


def test_equal_kernels_become_one_object() -> None:
    target = host_target()
    body = mark_kernel(target)
    other = body + "; another\n"
    image = build_image(MAIN, [("one", body), ("two", body), ("three", other)], target)
    assert image.symbols["one"] == image.symbols["two"] != image.symbols["three"]


def test_llvm_errors_save_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time in a new file of the user's own, for others may write to the folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    places = set()
    for _ in range(2):
        with pytest.raises(CompilerBug, match=r"the code is in .*cellc-bug.*\.ll") as caught:
            compile_texts(["define void @f() { this is not LLVM }"], host_target())
        path = Path(str(caught.value).split("the code is in ")[1].splitlines()[0])
        assert "this is not LLVM" in path.read_text() and path.stat().st_mode & 0o777 == 0o600
        places.add(path)
    assert len(places) == 2


# --- aarch64: the image is decoded by hand -----------------------------------------------------


def segment(image: Image, kind: str) -> tuple[int, bytes]:
    found = next(s for s in image.segments if s.kind == kind)
    return found.offset, found.data


def adrp_targets(image: Image) -> set[int]:
    """Addresses that `adrp` and the add/load/store after it form."""
    base, code = segment(image, "text")
    words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    pages: dict[int, int] = {}
    found = set()
    for i, word in enumerate(words):
        if word & 0x9F000000 == 0x90000000:
            imm = ((word >> 5 & 0x7FFFF) << 2) | (word >> 29 & 3)
            imm -= (imm & 1 << 20) << 1
            pages[word & 31] = ((base + 4 * i) >> 12 << 12) + (imm << 12)
        elif (word >> 5 & 31) in pages:
            page, imm12 = pages[word >> 5 & 31], word >> 10 & 0xFFF
            if word & 0xFF800000 == 0x91000000:
                found.add(page + imm12)
            elif word & 0xFF000000 == 0xF9000000:
                found.add(page + 8 * imm12)
    return found


def test_aarch64_addresses_and_calls() -> None:
    image = build_image(DATA, [("far", FAR)], NEON)
    assert image.machine == "aarch64" and all(s.offset % 65536 == 0 for s in image.segments)
    found = adrp_targets(image)
    start, constants = segment(image, "rodata")
    table = start + constants.index(struct.pack("<4q", 11, 22, 33, 44))
    assert table in found
    data, values = segment(image, "data")
    assert data + values.index(struct.pack("<q", 100)) in found
    assert image.table_offset + 8 * 10 in found  # memcpy's place in the external table
    code = segment(image, "text")[1]
    main = image.symbols["cellc_main"]
    calls = set()
    for at in range(main, main + 200, 4):
        word, = struct.unpack_from("<I", code, at)
        if word >> 26 == 0x25:
            calls.add(at + 4 * ((word & 0x3FFFFFF) - ((word & 1 << 25) << 1)))
    assert image.symbols["far"] in calls


def test_aarch64_never_uses_x18() -> None:
    assert "+reserve-x18" in NEON.features  # Apple's and Windows' own register


@pytest.mark.parametrize(
    ("type_", "word", "target", "place", "want"),
    [(283, 0x94000000, 0x1000, 0x2000, 0x94000000 | (-0x400 & 0x3FFFFFF)),
     (282, 0x14000000, 0x2000, 0x1000, 0x14000400),
     (280, 0x54000000, 0x1000, 0x2000, 0x54000000 | (-0x400 & 0x7FFFF) << 5),
     (279, 0x36000000, 0x1000, 0x2000, 0x36000000 | (-0x400 & 0x3FFF) << 5),
     (274, 0x10000008, 0x1007, 0x1000, 0x70000028), (261, 0, 0x1000, 0x2000, 0xFFFFF000),
     (275, 0x90000008, 0x12345678, 0x1000, None),
     (277, 0x91000108, 0x1FFF, 0, 0x913FFD08),
     (278, 0x39400108, 0x1FFF, 0, 0x397FFD08),
     (284, 0x79400108, 0x1FFE, 0, 0x79400108 | 0x7FF << 10),
     (285, 0xB9400108, 0x1FFC, 0, 0xB9400108 | 0x3FF << 10),
     (286, 0xF9400108, 0x1FF8, 0, 0xF9400108 | 0x1FF << 10),
     (299, 0x3DC00100, 0x1FF0, 0, 0x3DC00100 | 0xFF << 10),
     (312, 0xF9400109, 0x1018, 0, 0x91006109)],
)  # fmt: skip
def test_aarch64_encodings(
    type_: int, word: int, target: int, place: int, want: int | None
) -> None:
    body = bytearray(struct.pack("<I", word))
    relocate.apply("aarch64", body, 0, type_, target, 0, place)
    got, = struct.unpack("<I", body)
    if want is None:  # adrp: decode it back
        imm = ((got >> 5 & 0x7FFFF) << 2) | (got >> 29 & 3)
        assert imm == (target >> 12) - (place >> 12) and got & 31 == word & 31
    else:
        assert got == want, hex(got)


@pytest.mark.parametrize(("type_", "before", "after"), [
    (2, "11223344 55667788", "fc0f0000 55667788"), (4, "11223344 55667788", "fc0f0000 55667788"),
    (24, "11223344 55667788", "fc0f0000 00000000"), (9, "11223344 55667788", "fc0f0000 55667788")])
def test_x86_64_encodings(type_: int, before: str, after: str) -> None:
    """A distance takes its 4 or 8 bytes, and what lies around them stays."""
    around = bytes.fromhex("8b05"), bytes.fromhex("99aa")  # (a GOT's entry is what `mov` reads)
    body = bytearray(bytes.fromhex(before).join(around))
    relocate.apply("x86_64", body, 2, type_, 0x2000, -4, 0x1000)
    opcode = b"\x8d\x05" if type_ == 9 else around[0]
    assert body == opcode + bytes.fromhex(after) + around[1]


@pytest.mark.parametrize(
    ("machine", "type_", "target", "text"),
    [("aarch64", 283, 1 << 30, "does not fit 26"), ("aarch64", 275, 1 << 40, "does not fit 21"),
     ("aarch64", 286, 0x1001, "multiple of 8"), ("aarch64", 257, 0, "load address"),
     ("aarch64", 999, 0, "not supported"), ("x86_64", 2, 1 << 33, "does not fit 32"),
     ("x86_64", 1, 0, "load address"), ("x86_64", 99, 0, "not supported")],
)  # fmt: skip
def test_what_cannot_be_relocated(machine: str, type_: int, target: int, text: str) -> None:
    with pytest.raises(relocate.RelocationError, match=text):
        relocate.apply(machine, bytearray(16), 8, type_, target, 0, 0)


# --- the object cache and the workers ---------------------------------------------------------


def kernels(count: int) -> list[tuple[str, str]]:
    """Kernels that differ."""
    head = "define hidden void @KERNEL(ptr %bufs, i64 %lo, i64 %hi) {\n"
    return [(f"k{i}", f"{head}  store i64 {i}, ptr %bufs\n  ret void\n}}\n") for i in range(count)]


def test_a_second_compile_needs_no_llvm(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = host_target()
    with knobs.override(cache_dir=cache_dir):
        first = build_image(MAIN, kernels(3), target)

        def never(*_: object) -> bytes:
            raise AssertionError("compiled again")

        monkeypatch.setattr(compile_pool.CompilePool, "add", never)
        assert build_image(MAIN, kernels(3), target) == first


def test_a_warm_start_imports_no_llvmlite(cache_dir: Path) -> None:
    code = (
        "import sys; from cellc_compiler.backends.cpu.image import build_image;"
        "from cellc_runtime.target import host_target;"
        f"build_image({MAIN!r}, [], host_target()); print('llvmlite' in sys.modules)"
    )
    env = {**os.environ, "CELLC_CACHE_DIR": str(cache_dir), "CELLC_COMPILE_JOBS": "1"}
    for want in ("True", "False"):
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert done.stdout.strip() == want, done.stderr


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_workers_make_the_same_objects(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [body for _, body in kernels(14)]
    with knobs.override(cache_size=0):
        alone = objects.compile_texts(bodies, target, jobs=1)

        def never(*_: object) -> bytes:
            raise AssertionError("compiled where it should only wait")

        monkeypatch.setattr(objects, "emit_object", never)
        pool = objects.compile_texts(bodies, target, jobs=3)
    assert pool == alone and len(set(alone)) == 14


def test_texts_are_compiled_while_more_are_written() -> None:
    bodies = [body for _, body in kernels(8)]
    made: list[str] = []
    with knobs.override(cache_size=0), objects.Builder(AVX2, 2) as builder:
        builder._pool._made = lambda text, obj: made.append(text)
        builder.add(bodies[0])
        builder.add(bodies[0])
        deadline = time.monotonic() + 300
        while not made and time.monotonic() < deadline:
            time.sleep(0.01)
        assert made == bodies[:1]
        for body in bodies[1:]:
            builder.add(body)
        builder._pool.finish()
    assert sorted(made) == sorted(bodies)


def test_every_third_text_repays_one_more_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "idle", lambda: None)
    monkeypatch.setattr(workers, "living", lambda: 0)  # whatever other tests have left
    monkeypatch.setattr(compile_pool, "_new", object)
    pool = compile_pool.CompilePool(AVX2, 3, str.encode, lambda text, made: None)
    monkeypatch.setattr(pool, "_employ", pool._workers.append)
    counts = []
    for text in "abcdefghijk":
        pool.add(text)
        counts.append(len(pool._workers))
    assert counts == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]


def patient(seconds: float) -> str:
    """A program that compiles until nobody has asked for so long."""
    return f"from cellc_compiler.build import worker as w; w.PATIENCE = {seconds}; w.main()"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that are started from now on, which wait for long; none is idle before and
    afterwards."""
    monkeypatch.setenv("CELLC_COMPILE_JOBS", "2")  # 1 where each processor tests
    found: list[subprocess.Popen[bytes]] = []
    start = workers.start_worker

    def remember() -> subprocess.Popen[bytes]:
        found.append(start("-c", patient(600)))
        return found[-1]

    monkeypatch.setattr(workers, "can_fork", lambda: False)

    workers.end_idle()
    monkeypatch.setattr(workers, "start_worker", remember)
    monkeypatch.setattr(workers, "_able", True)
    monkeypatch.setattr(workers, "_programs", 0)
    yield found
    workers.end_idle()


def test_a_worker_is_used_again(started: list[subprocess.Popen[bytes]]) -> None:
    bodies = [body for _, body in kernels(workers._SEVERAL - 1)]
    with knobs.override(cache_size=0, compile_jobs=2):
        alone = objects.compile_texts(bodies, AVX2, jobs=1)
        assert not started
        for body, obj in zip(bodies, alone, strict=True):
            workers.prepare(1)
            assert objects.compile_texts([body], AVX2, jobs=2) == [obj]
            assert len(workers._idle) == 1
        assert len(started) == 1
        for _ in range(3):  # where program follows program there are two, and no more
            workers.prepare(1)
        assert len(started) == workers.living() == 2


def test_a_worker_that_has_ended_itself_is_replaced(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says goodbye between the question whether it lives and the request."""
    bodies = [body for _, body in kernels(2)]
    remember = workers.start_worker
    hasty = subprocess.Popen([sys.executable, "-c", patient(0)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)  # fmt: skip
    started.append(hasty)
    monkeypatch.setattr(workers, "start_worker", lambda: hasty)
    workers.prepare(1)
    (worker,) = workers._idle
    assert worker.begins() and worker.process.wait(60) == 0
    monkeypatch.setattr(worker.process, "poll", lambda: None)
    monkeypatch.setattr(workers, "start_worker", remember)
    with knobs.override(cache_size=0):
        alone = objects.compile_texts(bodies, AVX2, jobs=1)
        assert objects.compile_texts(bodies, AVX2, jobs=2) == alone
    assert len(started) == 2 and worker not in workers._living


def test_workers_that_wait_end_with_the_process(tmp_path: Path) -> None:
    code = ("from cellc_compiler.build import workers\nworkers.prepare(1)\n"
            "print(*(w.process.pid for w in workers._living), flush=True)")
    for begun in ("", "\nassert all(w.begins() for w in workers._living)"):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", code + begun], text=True, capture_output=True,
            check=False, env=os.environ | {"CELLC_COMPILE_JOBS": "2"})
        assert (done.returncode, done.stderr) == (0, "")
        (pid,) = done.stdout.split()
        with pytest.raises(OSError, match="No such process"):
            os.kill(int(pid), 0)


def test_modules_of_the_present_folder_are_not_taken_for_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    worker = workers.Worker()
    assert worker.begins()
    worker.end()


def test_a_child_made_by_fork_has_workers_of_its_own(
    started: list[subprocess.Popen[bytes]]
) -> None:
    workers.prepare(1)
    child = os.fork()
    if not child:
        os._exit(0 if workers.idle() is None and not workers._living else 1)
    assert os.waitpid(child, 0)[1] == 0
    (worker,) = workers._idle
    assert worker.begins()


@pytest.mark.skipif(not workers.can_fork(), reason="the system knows no handles of processes")
def test_two_workers_are_one_process_and_its_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """They compile the same, and each ends on its own, however it is ended."""
    (one, two), (three, four) = workers.pair(), workers.pair()
    assert isinstance(two.process, workers.Forked)
    texts = [body for _, body in kernels(2)]
    with knobs.override(cache_size=0):
        alone = objects.compile_texts(texts, AVX2, jobs=1)
    assert two.process.poll() is None  # it may come yet
    assert all(w.begins() and w.begins() for w in (one, two, three, four))
    for worker in (two, one, two):
        for text, obj in zip(texts, alone, strict=True):
            worker.ask(AVX2, text)
            assert worker.answer() == bytes([compile_worker.OK]) + obj
    one.end()
    assert two.process.poll() is None
    two.ask(AVX2, texts[0])
    assert two.answer() == bytes([compile_worker.OK]) + alone[0]
    two.end()
    assert two.process.poll() == 0
    four.kill()
    assert four.answer() is None
    four.end()
    three.ask(AVX2, texts[1])
    assert three.answer() == bytes([compile_worker.OK]) + alone[1]
    three.end()
    early = workers.pair()
    for worker in early:  # before they have begun
        worker.end()
    assert not {one, two, three, four, *early} & workers._living


@pytest.mark.skipif(not workers.can_fork(), reason="the system knows no handles of processes")
def test_a_descriptor_is_0_where_there_is_no_standard_input() -> None:
    pipes = [os.pipe(), os.pipe()]
    forked = workers.Forked(pipes[0][1], pipes[1][0])
    for handle, ended in ((-1, None), (0, 0)):
        forked._handle = handle
        forked._ended = lambda *_: True  # type: ignore[method-assign]
        assert forked.poll() is ended
    for end in (forked.stdin, forked.stdout, *(os.fdopen(p[i]) for i, p in enumerate(pipes))):
        end.close()


@pytest.mark.parametrize("lacking", ["pidfd_open", "fork"])
def test_systems_without_forks_that_are_told_apart(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, lacking, raising=False)
    assert workers.can_fork.__wrapped__() is False


def test_a_fork_that_nobody_asks_says_goodbye() -> None:
    requests, answers = os.pipe(), os.pipe()
    theirs = (requests[0], answers[1])
    process = workers.start_worker("-c", patient(0).replace(
        "main()", f"main({theirs[0]}, {theirs[1]})"), descriptors=theirs)
    for descriptor in theirs:
        os.close(descriptor)
    both = workers.Worker(process), workers.Worker(workers.Forked(requests[1], answers[0]))
    for worker in both:
        assert worker.begins() and worker.answer() == compile_worker.GOODBYE
        assert worker.answer() is None
        worker.end()


def test_an_error_in_a_worker_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bodies = [body for _, body in kernels(14)]
    bodies[4:8] = ["nonsense 1", "nonsense 2", "nonsense 3", "nonsense 4"]
    with knobs.override(cache_size=0), pytest.raises(CompilerBug, match="LLVM refuses"):
        objects.compile_texts(bodies, AVX2, jobs=3)


def test_workers_that_cannot_start_are_done_without(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [body for _, body in kernels(14)]

    def broken() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip

    def refused() -> subprocess.Popen[bytes]:
        raise OSError("no more processes")

    for start in (broken, refused):
        monkeypatch.setattr(workers, "start_worker", start)
        monkeypatch.setattr(workers, "_able", True)
        with knobs.override(cache_size=0):
            assert len(set(objects.compile_texts(bodies, AVX2, jobs=3))) == 14


def test_workers_end_with_an_interrupt(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt("of a worker")

    monkeypatch.setattr(compile_pool.CompilePool, "_take_here", interrupted)
    bodies = [body for _, body in kernels(14)]
    with knobs.override(cache_size=0), pytest.raises(KeyboardInterrupt, match="of a worker"):
        objects.compile_texts(bodies, AVX2, jobs=3)
    assert started and all(p.poll() is not None for p in started)


def test_a_worker_nobody_listens_to_ends_quietly() -> None:
    """As one is left by an interrupt that lands while it starts, or while it compiles."""
    command = [sys.executable, "-m", "cellc_compiler.build.worker"]
    for waits in (False, True):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as worker:  # fmt: skip
            assert worker.stdin and worker.stdout and worker.stderr
            if waits:
                assert compile_worker.receive(worker.stdout) == compile_worker.HELLO
                compile_worker.send(worker.stdin, compile_worker.request(AVX2, MAIN))
            worker.stdout.close()
            worker.stdin.close()
            assert (worker.wait(60), worker.stderr.read()) == (0, b"")


def test_a_worker_leaves_while_its_input_is_read() -> None:
    """Nobody takes its answers, and the thread that reads requests still waits for one."""
    command = [sys.executable, "-m", "cellc_compiler.build.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as worker:  # fmt: skip
        assert worker.stdin and worker.stdout and worker.stderr
        assert compile_worker.receive(worker.stdout) == compile_worker.HELLO
        worker.stdout.close()
        compile_worker.send(worker.stdin, compile_worker.request(AVX2, MAIN))
        assert (worker.wait(60), worker.stderr.read()) == (0, b"")


def test_vectors_of_constants_are_aligned() -> None:
    target = host_target()
    width = target.lanes(4)
    values = ", ".join(f"float {float(i)}" for i in range(width))
    text = f"""
define hidden i32 @cellc_main(ptr %slots, ptr %a, ptr %c) {{
  %out = load ptr, ptr %slots
  %x = load <{width} x float>, ptr %out, align 4
  %y = fadd <{width} x float> %x, <{values}>
  store <{width} x float> %y, ptr %out, align 4
  ret i32 0
}}
"""
    w = np.ones(width, np.float32)
    slots = (Slot("w", dtypes.float32, (width,), "param"),
             Slot("w1", dtypes.float32, (width,), "update", 0))  # fmt: skip
    exe = Executable(Program("v", target.name, slots, build_image(text, [], target)))
    exe.bind([w])
    exe.entry()
    np.testing.assert_array_equal(w, np.arange(width) + 1)


def test_a_crew_that_ends_before_its_workers_begin_leaves_no_thread(
    started: list[subprocess.Popen[bytes]]
) -> None:
    (text,) = (body for _, body in kernels(1))
    before = threading.active_count()
    for _ in range(4):
        with compile_pool.CompilePool(host_target(), 2, lambda t: b"", lambda t, o: None) as pool:
            pool.add(text)
            pool.add(text + "\n")
            threads = list(pool._threads)
        assert threads and not any(t.is_alive() for t in threads)
    assert threading.active_count() == before


def test_an_interrupt_while_a_worker_is_set_to_work_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python's own lock, interrupted, raises a RuntimeError in its place."""
    def start(self: threading.Thread) -> None:
        try:
            raise KeyboardInterrupt("by the user")
        except KeyboardInterrupt:
            raise RuntimeError("release unlocked lock")  # noqa: B904 (as the lock does)

    monkeypatch.setattr(threading.Thread, "start", start)
    pool = compile_pool.CompilePool(host_target(), 2, lambda t: b"", lambda t, o: None)
    with pytest.raises(KeyboardInterrupt, match="by the user"):
        pool._employ(object.__new__(compile_pool.Worker))
