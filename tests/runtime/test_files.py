"""Programs, artifacts and checkpoints as files: round trips, damage, hostile headers."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellc_runtime.abi import ABI_VERSION
from cellc_runtime.records import replace

sys.path.insert(0, str(Path(__file__).parent))
from helpers import add_program, error_program, update_program

import cellc_runtime
from cellc_compiler.backends.cpu.image import build_image
from cellc_runtime import artifact, checkpoint, container, dtypes, files
from cellc_runtime.artifact import Entry
from cellc_runtime.errors import ArtifactError
from cellc_runtime.image import Segment
from cellc_runtime.platform import machine
from cellc_runtime.program import Message, Program, Slot
from cellc_runtime.target import AVX2, NEON, host_target

FOREIGN = NEON if host_target() is not NEON else AVX2
"""A target of another machine."""
X = np.arange(8, dtype=np.float32)
WEIGHTS = {"b": np.full(8, 2, np.float32), "w": np.zeros(4, np.float32)}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("artifact") / "net.cellc"
    foreign = build_image("define hidden i32 @cellc_main(ptr %s, ptr %a, ptr %c) { ret i32 0 }",
                          [], FOREIGN)  # fmt: skip
    infer = add_program(kind="param")
    entries = {
        "infer": Entry([Program("add", FOREIGN.name, infer.slots, foreign), infer],
                       ["graph of add"]),
        "train": Entry([update_program()], ["graph of step"]),
    }
    artifact.save(file, entries, WEIGHTS, {"by": "a test"})
    return file


# --- artifacts --------------------------------------------------------------------------------


def test_an_artifact_runs(path: Path) -> None:
    model = cellc_runtime.load(path, trust_native_code=True)
    np.testing.assert_array_equal(model(X), X + 2)
    assert model.call("train", np.ones(4, np.float32)) == ()
    model.call("train", np.ones(4, np.float32))
    np.testing.assert_array_equal(model.weights["w"], [2, 2, 2, 2])
    with pytest.raises(KeyError, match="not 'test'"):
        model.call("test", X)
    np.testing.assert_array_equal(cellc_runtime.load(path).weights["w"], [0, 0, 0, 0])


def test_an_untrusted_artifact_is_read_but_not_run(path: Path) -> None:
    model = cellc_runtime.load(path)
    assert model.entries == ("infer", "train") and model.metadata == {"by": "a test"}
    assert model.graph_text() == "graph of add" and model.graph_text("train") == "graph of step"
    assert model.signature().inputs == (("a", "float32", (8,)),)
    assert model.signature().outputs == (("sum", "float32", (8,)),)
    assert len(model.targets()) == 2
    assert set(model.weights) == {"b", "w"} and not model.weights["b"].flags.writeable
    assert model.weights["b"].ctypes.data % 64 == 0
    with pytest.raises(PermissionError, match="trust_native_code=True"):
        model(X)


def test_no_code_for_this_machine(tmp_path: Path) -> None:
    foreign = build_image("define hidden i32 @cellc_main(ptr %s, ptr %a, ptr %c) { ret i32 0 }",
                          [], FOREIGN)  # fmt: skip
    file = tmp_path / "foreign.cellc"
    artifact.save(file, {"infer": Entry([Program("p", FOREIGN.name, (), foreign)])}, {})
    with pytest.raises(ArtifactError, match=f"has code for {FOREIGN.name}; this machine runs"):
        cellc_runtime.load(file, trust_native_code=True)()


def test_what_an_artifact_needs(tmp_path: Path) -> None:
    file = tmp_path / "x.cellc"
    program = add_program(kind="param")
    with pytest.raises(ValueError, match="needs weight 'b'"):
        artifact.save(file, {"infer": Entry([program])}, {})
    with pytest.raises(ValueError, match="differ in their slots"):
        artifact.save(file, {"infer": Entry([program, add_program()])}, WEIGHTS)
    with pytest.raises(ValueError, match="two programs for one target"):
        artifact.save(file, {"infer": Entry([program, program])}, WEIGHTS)
    with pytest.raises(ValueError, match="no program"):
        artifact.save(file, {"infer": Entry([])}, WEIGHTS)
    assert not file.exists()


def use(file: Path) -> None:
    """Everything that reading can reach, without running code."""
    model = cellc_runtime.load(file)
    for name in model.entries:
        model.graph_text(name)
        for target in model.targets(name):
            Program.from_bytes(model._box.section(f"program:{name}:{target}"))


def test_every_damaged_byte_is_noticed(path: Path, tmp_path: Path) -> None:
    whole, file = path.read_bytes(), tmp_path / "bad.cellc"
    rng = random.Random(7)
    places = [*range(600), *rng.sample(range(len(whole)), 600)]
    for at in places:
        bad = bytearray(whole)
        bad[at] ^= 1 << rng.randrange(8)
        file.write_bytes(bad)
        with pytest.raises(ArtifactError, match="artifact"):
            use(file)


def test_every_truncation_and_extension_is_noticed(path: Path, tmp_path: Path) -> None:
    whole, file = path.read_bytes(), tmp_path / "bad.cellc"
    rng = random.Random(8)
    for length in (*range(130), *rng.sample(range(len(whole)), 150)):
        file.write_bytes(whole[:length])
        with pytest.raises(ArtifactError, match=r"bytes but has|only [0-9]+ bytes|corrupt"):
            use(file)
    for extra in (b"\0", bytes(64), b"x" * 1000):
        file.write_bytes(whole + extra)
        with pytest.raises(ArtifactError, match="bytes but has"):
            use(file)


def test_a_failed_save_leaves_the_old_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "net.cellc"
    file.write_bytes(path.read_bytes())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        artifact.save(file, {"infer": Entry([add_program()])}, {})
    assert file.read_bytes() == path.read_bytes() and os.listdir(tmp_path) == ["net.cellc"]


# --- programs: headers that hash right and lie ------------------------------------------------


def forge(change: Callable[[dict[str, Any]], None], program: Program | None = None) -> bytes:
    """A program whose header was changed and hashed again."""
    box = container.unpack((program or add_program()).to_bytes(), b"CELLCPRG", 1, "program")
    meta = json.loads(json.dumps(box.meta))
    change(meta)
    sections = [(name, bytes(data)) for name, data in box.sections.items()]
    return b"".join(container.pack(b"CELLCPRG", 1, meta, sections))


def put(*keys: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one place of the header: keys, then the value."""
    *way, last, value = keys

    def change(meta: Any) -> None:
        for key in way:
            meta = meta[key]
        meta[last] = value

    return change


LIES = [
    (put("abi", 99),
     f"compiled for runtime interface 99; this runtime has {ABI_VERSION}: compile it again"),
    (put("abi", None),
     f"compiled for runtime interface None; this runtime has {ABI_VERSION}: compile it again"),
    (put("name", 3), "the program's header is malformed: a text was expected"),
    (put("target", "pdp11"), f"code for {machine()} cannot run on 'pdp11'"),
    (put("target", FOREIGN.name), f"code for {machine()} cannot run on {FOREIGN.name!r}"),
    (put("slots", 7), "the program's header is malformed"),
    (put("slots", [[1]]), "the program's header is malformed"),
    (put("slots", {"a": 1}), "the program's header is malformed"),
    (put("slots", 0, 1, "float33"),
     "the program's header is malformed: unknown dtype 'float33'; expected one of bool_, int8"),
    (put("slots", 0, 2, [-1]), "the program's header is malformed: a count was expected"),
    (put("slots", 0, 2, [1 << 60, 1 << 60]), "'a' is larger than any array"),
    (put("slots", 0, 2, [True]), "the program's header is malformed: a count was expected"),
    (put("slots", 0, 2, "8"), "the program's header is malformed: a shape is a list"),
    (put("slots", 0, 2, [1] * 40), "'a' is larger than any array"),
    (put("slots", 0, 3, "bogus"), "slot 'a' has unknown kind 'bogus'"),
    (put("slots", 0, 4, 1), "slot 'a' is not an update but has an alias"),
    (put("slots", 0, 3, "update"), "update 'a' needs a slot of its own to write over"),
    (put("arena", 0, -1), "the program's header is malformed: a count was expected"),
    (put("arena", 0, 1 << 60), "an arena of 1152921504606846976 bytes is not possible"),
    (put("arena", 1, "big"), "the program's header is malformed: a count was expected"),
    (put("arena", 1, 1.5), "the program's header is malformed: a count was expected"),
    (put("arena", 64), "the program's header is malformed"),
    (put("messages", [["SystemExit", ["x"], "f", 1, "", "", []]]),
     "unknown kind of error 'SystemExit'"),
    (put("messages", [[1, ["x"], "f", 1, "", "", []]]),
     "the program's header is malformed: a text was expected"),
    (put("messages", [[1, 2, 3, 4]]), "the program's header is malformed"),
    (put("callbacks", [["host", [["float32", [1]]], []]]),
     "the external table has no room for the callbacks"),
    (put("cost", "x"), "the program's header is malformed"),
    (put("cost", None), "the program's header is malformed"),
    (put("image", None), "the program's header is malformed"),
    (put("image", "machine", "z80"), f"code for z80 cannot run on {host_target().name!r}"),
    (put("image", "segments", []), "function 'cellc_main' lies outside of the code"),
    (put("image", "segments", 0, 0, "rwx"), "unknown segment kind 'rwx'"),
    (put("image", "segments", 0, 1, 17), "the text segment is misplaced"),
    (put("image", "segments", 0, 1, 1 << 61), "the code is larger than any real program's"),
    (put("image", "segments", 0, 2, 1), "the text segment is misplaced"),
    (put("image", "segments", 0, 2, 1 << 40), "the code is larger than any real program's"),
    (put("image", "segments", 0, ["text", 0]), "the program's header is malformed"),
    (put("image", "symbols", {}), "the code has no entry point"),
    (put("image", "symbols", "cellc_main", 1 << 20),
     "function 'cellc_main' lies outside of the code"),
    (put("image", "symbols", "cellc_main", -4),
     "the program's header is malformed: a count was expected"),
    (put("image", "symbols", []), "the program's header is malformed"),
    (put("image", "table", [0, 32]), "the external table lies outside of the data"),
    (put("image", "table", [4096 * 99, 32]), "the external table lies outside of the data"),
    (put("image", "table", [1, 2, 3]), "the program's header is malformed"),
    (put("image", "table", 0, 4097), "the external table lies outside of the data"),
]  # fmt: skip


@pytest.mark.parametrize("lie", range(len(LIES)))
def test_a_lying_header_is_refused(lie: int) -> None:
    change, text = LIES[lie]
    with pytest.raises(ArtifactError, match=re.escape(text)):
        Program.from_bytes(forge(change))


def test_forging_itself_is_sound() -> None:
    forged = forge(lambda meta: None)
    assert Program.from_bytes(forged).to_bytes() == forged == add_program().to_bytes()


def leaves(table: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each number and text of a header, and the value."""
    rows = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in rows:
        if isinstance(value, dict | list):
            yield from leaves(value, (*way, key))
        else:
            yield *way, key, value


def refused(data: bytes) -> str:
    """Why a program is not read."""
    try:
        Program.from_bytes(data)
    except ArtifactError as error:
        return str(error)
    return ""


def test_a_table_that_the_code_was_not_compiled_for_is_refused() -> None:
    program = replace(add_program(), constants=b"abc", arena_bytes=640)
    data = program.to_bytes()
    meta = container.unpack(data, b"CELLCPRG", 1, "program").meta
    for *way, value in leaves(meta):
        for other in ((value + 64, value - 8, value // 2 - 1) if isinstance(value, int | float) else
                      (f"{value}x", "param", "int32")):
            assert refused(forge(put(*way, other), program)), (way, other)
    for change in (lambda m: m["slots"].reverse(), lambda m: m["slots"].pop(0),
                   lambda m: m["slots"].append(m["slots"][0]), lambda m: m.update(more=1)):
        with pytest.raises(ArtifactError, match="not those that its code was compiled for"):
            Program.from_bytes(forge(change, program))
    read = Program.from_bytes(data)
    for changed in (replace(read, constants=b"abd"), replace(read, arena_bytes=64)):
        with pytest.raises(ArtifactError, match="not those that its code was compiled for"):
            Program.from_bytes(changed.to_bytes())


def raw(header: bytes, magic: bytes = b"CELLCPRG", body: bytes = b"") -> bytes:
    header += b" " * (-len(header) % 64)
    total = 64 + len(header) + len(body)
    digest = hashlib.sha256(header).digest()
    return struct.pack("<8sIIQ32s8x", magic, 1, len(header), total, digest) + header + body


@pytest.mark.parametrize(
    "header",
    [b"", b"null", b"[]", b"{}", b'{"meta": 1, "sections": []}', b'{"meta": {}, "sections": 1}',
     b'{"meta": {}, "sections": [1]}', b'{"meta": {}, "sections": [["a", 128, -1, "x"]]}',
     b'{"meta": {}, "sections": [["a", 128, 1e300, "x"]]}', b'{"meta": {}, "sections": []}',
     b'{"meta": {}, "sections": [["a", 0, 64, "x"]]}', b"[" * 100_000, b"\xff\xfe", b"1" * 5000,
     b'{"meta": {}, "sections": [["a", 128, 9223372036854775807, "x"]]}',
     b'{"meta": {"x": NaN}, "sections": []}'],
)  # fmt: skip
def test_hostile_containers(header: bytes) -> None:
    with pytest.raises(ArtifactError, match="program"):
        Program.from_bytes(raw(header))


def test_programs_round_trip() -> None:
    for program in (add_program(), error_program(), update_program()):
        read = Program.from_bytes(program.to_bytes())
        assert replace(read, image=program.image) == program
        assert read.to_bytes() == program.to_bytes()
    slot = Slot("s", dtypes.bfloat16, (0, 3), "state")
    big = replace(add_program(), slots=(slot,), constants=b"abc", arena_bytes=1 << 40)
    assert Program.from_bytes(big.to_bytes()).to_bytes() == big.to_bytes()


def test_programs_check_what_they_are_given() -> None:
    program = add_program()
    update = Slot("u", dtypes.float32, (8,), "update", 0)
    for bad in (Slot("u", dtypes.float32, (8,), "update"),
                Slot("u", dtypes.int32, (8,), "update", 0),
                replace(update, alias=2), replace(update, alias=77)):  # fmt: skip
        with pytest.raises(ArtifactError, match="update 'u' "):
            replace(program, slots=(*program.slots, bad))
    with pytest.raises(ArtifactError, match="to write over"):
        replace(program, slots=(*program.slots, update, update))
    with pytest.raises(ArtifactError, match="unknown kind of error 'KeyboardInterrupt'"):
        replace(program, messages=(Message("KeyboardInterrupt", ""),))
    for parts in (("of ", None), (0,), (None, None)):
        with pytest.raises(ArtifactError, match="a message shows more values than it has"):
            replace(program, messages=(Message("IndexError", parts),))
    with pytest.raises(ArtifactError, match="the text segment is misplaced"):
        replace(program, image=replace(program.image, segments=(Segment("text", 1, 1, b"x"),)))


# --- checkpoints ------------------------------------------------------------------------------


def test_checkpoints_round_trip(tmp_path: Path) -> None:
    arrays = {
        d.name: np.arange(6).reshape(2, 3).astype(d.numpy) for d in dtypes.ALL
    } | {"scalar": np.array(2.5), "none": np.empty((0, 4), np.int8)}  # fmt: skip
    arrays["big-endian"] = np.arange(3, dtype=">i4")
    arrays["strided"] = np.arange(10.0)[::3]
    file = tmp_path / "w.safetensors"
    checkpoint.save(file, arrays, {"k": "v"})
    got = checkpoint.load(file)
    assert got.keys() == arrays.keys()
    for name, array in arrays.items():
        assert got[name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got[name], array)
    assert checkpoint.decode(file.read_bytes())[1] == {"k": "v"}


def st(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def row(dtype: object, shape: object, offsets: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", "the checkpoint is cut off: 0 bytes"),
     (b"1234567", "the checkpoint is cut off: 7 bytes"),
     (struct.pack("<Q", 1 << 62), "the checkpoint claims a header of 4611686018427387904 bytes"),
     (struct.pack("<Q", 9) + b"{}", "the checkpoint claims a header of 9 bytes"),
     (st(b"{"), "the checkpoint's header is not valid"),
     (st([]), "the checkpoint's header is malformed"),
     (st({"a": 1}), "the checkpoint's entry 'a' is malformed"),
     (st({"a": row("F33", [1], [0, 4])}, bytes(4)), "the checkpoint's entry 'a' is malformed"),
     (st({"a": row("F32", [1], [0, 8])}, bytes(8)),
      "array 'a' of the checkpoint does not fit its place"),
     (st({"a": row("F32", [-1], [0, 4])}, bytes(4)), "the checkpoint's entry 'a' is malformed"),
     (st({"a": row("F32", [1], [4, 8])}, bytes(8)),
      "arrays of the checkpoint overlap or leave a gap"),
     (st({"a": row("F32", [1], [0, 4])}, bytes(8)),
      "the checkpoint has 4 bytes that belong to nothing"),
     (st({"a": row("F32", [2], [0, 8]), "b": row("F32", [1], [4, 8])}, bytes(8)),
      "arrays of the checkpoint overlap or leave a gap"),
     (st({"a": row("F32", [1 << 40, 1 << 40], [0, 4])}, bytes(4)),
      "array 'a' of the checkpoint does not fit its place"),
     (st({"a": row("F32", [1], [0])}, bytes(4)), "the checkpoint's entry 'a' is malformed"),
     (st({"a": row([], [1], [0, 4])}, bytes(4)), "the checkpoint's entry 'a' is malformed"),
     (st({"a": row("F32", [1], [0, 4])}, bytes(3)),
      "array 'a' of the checkpoint does not fit its place"),
     (st({"__metadata__": {"a": 1}}), "the checkpoint's metadata is malformed"),
     *((st({"a": row(kind, [4], [0, 4])}, bytes(4)), f"'a' of the checkpoint has the type {kind}")
       for kind in ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F4")),
     (st({"a": row("BOOL", [1], [0, 1])}, b"\x02"),
      "a boolean array holds something else than 0 and 1"),
     (st(b"[" * 50_000), "the checkpoint's header is not valid")],
)  # fmt: skip
def test_hostile_checkpoints(data: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_bytes(data)
    with pytest.raises(ArtifactError, match=re.escape(text)):
        checkpoint.load(file)


def test_metadata_may_be_null() -> None:
    arrays, metadata = checkpoint.decode(
        st({"__metadata__": None, "a": row("F32", [1], [0, 4])}, struct.pack("<f", 7)))
    assert (arrays["a"].tolist(), metadata) == ([7.0], {})


def test_unaligned_checkpoints_of_others_are_read() -> None:
    arrays, _ = checkpoint.decode(st({"a": row("F32", [2], [0, 8])} | {}, struct.pack("<2f", 1, 2)))
    np.testing.assert_array_equal(arrays["a"], [1, 2])


# --- the package ------------------------------------------------------------------------------


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, cellc_runtime;"
        "print([m for m in ('numpy', 'ctypes', 'json') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_an_artifact_needs_the_runtime_alone(path: Path) -> None:
    code = (
        "import sys, cellc_runtime, numpy\n"
        f"m = cellc_runtime.load({str(path)!r}, trust_native_code=True)\n"
        "print(float(m(numpy.ones(8, numpy.float32))[0]),"
        " [n for n in ('llvmlite', 'cellc', 'cellc_compiler') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "3.0 []", done.stderr


def test_the_version_is_the_distributions() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{cellc_runtime.__version__}"' in text
