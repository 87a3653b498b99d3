"""MindRecord files: overwriting is one commit, values keep, a database runs no program."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc.dataset as ds
from cellc import mindrecord as mr
from cellc.records import commits, format, writer

from ..others import ORACLE, needs_oracle, run

SCHEMA = {"label": {"type": "int64"}, "text": {"type": "string"}}


def write(path: Path, tag: str, count: int = 1, start: int = 0) -> list[dict[str, Any]]:
    rows = [{"label": start + i, "text": f"{tag}{i}"} for i in range(4)]
    made = mr.FileWriter(str(path), count, overwrite=True)
    made.add_schema(SCHEMA)
    made.set_header_size(1 << 14)
    made.write_raw_data(rows)
    made.commit()
    return rows


def read(path: Path, count: int = 1) -> list[dict[str, Any]]:
    reader = mr.FileReader(str(path) if count == 1 else [f"{path}{i}" for i in range(count)])
    return list(reader.get_next())


class Killed(BaseException):
    """Stands for a kill: nothing cleans up after it."""


@pytest.mark.parametrize("count", [1, 3])
def test_an_interrupted_overwrite_is_old_or_new(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    names = {p for n in format.shard_names("a", count) for p in (n, n + ".db")}
    seen = set()
    for kill in range(2 * count + 6):
        old = write(path, "old", count)
        calls = 0

        def step(call: Callable[..., Any], stop: int = kill) -> Callable[..., Any]:
            def wrapped(*args: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls > stop:
                    raise Killed
                return call(*args, **options)
            return wrapped

        with monkeypatch.context() as m:
            for name in ("rename", "replace", "rmdir"):
                m.setattr(commits.os, name, step(getattr(os, name)))
            m.setattr(commits, "_remove", lambda folder: None)
            with suppress(Killed):
                write(path, "new", count, 100)
        rows = read(path, count)
        assert rows in (old, [{"label": 100 + i, "text": f"new{i}"} for i in range(4)])
        seen.add(rows == old)
        write(path, "next", count)  # what a killed writer left is removed
        assert set(os.listdir(tmp_path)) == names
    assert seen == {True, False}


def test_a_kill_in_the_middle_of_the_renames(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, "old", 3)
    program = f"""
import os, signal
from cellc import mindrecord as mr
real, done = os.replace, []
def replace(*paths):
    done.append(paths)
    if len(done) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*paths)
os.replace = replace
w = mr.FileWriter({str(path)!r}, 3, overwrite=True)
w.add_schema({SCHEMA})
w.write_raw_data([{{"label": i, "text": f"new{{i}}"}} for i in range(4)])
w.commit()
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    assert [r["text"] for r in read(path, 3)] == [f"new{i}" for i in range(4)]


def test_files_of_different_commits_are_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write(one, "a", start=5)
    write(two, "b")
    os.replace(tmp_path / "one.db", tmp_path / "two.db")
    with pytest.raises(RuntimeError, match=r"two is no whole MindRecord.*of another commit"):
        read(two)
    for name in ("three", "copy"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "s", name, 3)
    for suffix in ("", ".db"):
        os.replace(tmp_path / "copy" / f"s1{suffix}", tmp_path / "three" / f"s1{suffix}")
    with pytest.raises(RuntimeError, match=r"s1 is no whole.*of another commit than .*s0"):
        mr.FileReader(str(tmp_path / "three" / "s0"))


def test_rows_are_of_the_file_that_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, "old")
    reader = mr.FileReader(str(path))
    write(path, "new")
    with pytest.raises(RuntimeError, match="overwritten after it was opened: open it again"):
        list(reader.get_next())


def test_an_overwrite_is_on_the_disk_and_keeps_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write(path, "old")
    os.chmod(path, 0o600)
    os.chmod(f"{path}.db", 0o640)
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda f: (synced.append(os.fstat(f).st_ino), real(f)))
    write(path, "new")
    modes = [os.stat(p).st_mode & 0o777 for p in (path, f"{path}.db")]
    assert modes == [0o600, 0o640]
    assert {os.stat(p).st_ino for p in (path, f"{path}.db", tmp_path)} <= set(synced)


def test_a_failed_write_commits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    old = write(path, "old")
    for broken in ("add", "finish"):
        made = mr.FileWriter(str(path), overwrite=True)
        made.add_schema(SCHEMA)
        with monkeypatch.context() as m:
            def full(*_: Any) -> None:
                raise OSError(28, "No space left on device")

            m.setattr(writer._ShardWriter, broken, full)
            with pytest.raises(RuntimeError, match=r"cannot be written.*No space"):
                made.write_raw_data([{"label": 1, "text": "new"}])
                made.commit()
        with pytest.raises(RuntimeError, match="after a failure"):
            made.commit()
        assert read(path) == old and set(os.listdir(tmp_path)) == {"a", "a.db"}


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41b", "a b", "\u00e9", "a?mode=rw", "x'\"y"])
def test_any_file_name(tmp_path: Path, name: str) -> None:
    rows = write(tmp_path / name, "a")
    assert read(tmp_path / name) == rows
    grown = mr.FileWriter.open_for_append(str(tmp_path / name))
    grown.write_raw_data(rows)
    grown.commit()
    assert read(tmp_path / name) == rows * 2
    assert set(os.listdir(tmp_path)) == {name, name + ".db"}


# --- databases that are programs ----------------------------------------------------------------

_ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) "
_PLACES = ", ".join(f"0 {p}" for p in ("PAGE_ID_RAW", "PAGE_OFFSET_RAW", "PAGE_OFFSET_RAW_END",
                                       "PAGE_ID_BLOB", "PAGE_OFFSET_BLOB", "PAGE_OFFSET_BLOB_END"))


@pytest.mark.parametrize("statements, said", [
    ([f"CREATE VIEW INDEXES AS {_ENDLESS}SELECT x ROW_ID, {_PLACES} FROM c"], "no table INDEXES"),
    ([f"CREATE VIEW indexes AS {_ENDLESS}SELECT x ROW_ID, {_PLACES} FROM c"], "no table INDEXES"),
    (["CREATE VIRTUAL TABLE INDEXES USING fts5(ROW_ID)"], "no table INDEXES"),
    (["CREATE TABLE INDEXES(ROW_ID INT, PAGE_ID_RAW INT AS (ROW_ID))"], "lacks PAGE_ID_RAW"),
    ([], "no table INDEXES")])
def test_an_index_is_a_table(tmp_path: Path, statements: list[str], said: str) -> None:
    path = tmp_path / "a"
    write(path, "a")
    with closing(sqlite3.connect(f"{path}.db")) as base:
        base.execute("DROP TABLE INDEXES")
        for each in statements:
            base.execute(each)
        base.commit()
    with pytest.raises(RuntimeError, match=f"its .db .*{said}|of its .db {said}"):
        read(path)


def test_an_index_column_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, "a")
    shard = format.Shard(str(path))
    assert shard.values("label") == [0, 1, 2, 3]
    for field in ("none", 'x" FROM INDEXES UNION SELECT "text'):
        with pytest.raises(RuntimeError, match="lacks"):
            shard.values(field)


@pytest.mark.parametrize("interrupt", [False, True])
def test_a_query_ends(interrupt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = format._Limit(10**6 if not interrupt else 10**12)
    if interrupt:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
    old = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        with closing(sqlite3.connect(":memory:")) as base:
            base.set_progress_handler(limit, format._TICK)
            with pytest.raises(sqlite3.OperationalError, match="interrupted"):
                base.execute(f"{_ENDLESS}SELECT count(*) FROM c").fetchall()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert (limit.left >= 0) == interrupt


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, value", [
    ("int32", 2**40), ("int32", -2**31 - 1), ("int64", 2**63), ("float32", 1e300),
    ("float32", np.float64(-1e39)), ("float32", 2**24 + 1), ("float64", 2**53 + 1),
    ("float64", 10**400)])
def test_numbers_out_of_range_are_not_written(tmp_path: Path, kind: str, value: Any) -> None:
    made = mr.FileWriter(str(tmp_path / "a"))
    made.add_schema({"v": {"type": kind}})
    with pytest.raises(RuntimeError, match=rf"row 1: 'v' is {kind}, which cannot hold -?\d"):
        made.write_raw_data([{"v": 1}, {"v": value}])
    made.write_raw_data([{"v": 2}])
    made.commit()
    assert read(tmp_path / "a") == [{"v": 2}]  # nothing of the refused call


@pytest.mark.parametrize("values, lost", [
    ([np.int32(1), np.int64(2**40)], 1), ([np.uint64(2**63 + 5)], 0),
    ([np.float32(1), np.float64(1e300)], 1), ([np.int32(1), np.float32(2.7)], 1),
    ([np.float32(1.5), np.int64(2**53 + 1)], 1), ([np.int32(1)] * 300 + [np.int64(2**31)], 300),
    (["a", np.int32(5)], 1), ([b"a", "b"], 1), ([np.int32(5), "a"], 1),
    ([np.zeros((2, 3)), np.zeros((2, 4))], 1), ([np.zeros(2)] + [np.zeros((2, 1))], 1),
    ([np.zeros(3, np.int32), np.array([1.5, 2, 3])], 1)])
def test_a_pipeline_is_saved_as_it_is(tmp_path: Path, values: list[Any], lost: int) -> None:
    data = ds.GeneratorDataset(lambda: ((v,) for v in values), ["v"])
    with pytest.raises(RuntimeError, match=rf"For 'Dataset.save', column 'v' .* row {lost} ?"):
        data.save(str(tmp_path / "a"))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("values", [
    [np.int32(1), np.int64(7), np.bool_(True), np.float32(3)], [np.float64(0.1), np.int64(2**53)],
    [np.float32(0.5), np.float64("nan"), np.float64("inf")], [np.zeros(2), np.ones(5)]])
def test_exact_casts_are_made(tmp_path: Path, values: list[Any]) -> None:
    ds.GeneratorDataset(lambda: ((v,) for v in values), ["v"]).save(str(tmp_path / "a"))
    for got, given in zip(read(tmp_path / "a"), values, strict=True):
        assert np.array_equal(got["v"], given, equal_nan=True)


@needs_oracle
def test_mindspore_reads_and_appends(tmp_path: Path) -> None:
    for count in (1, 3):
        write(tmp_path / f"n{count}_", "old", count)
        write(tmp_path / f"n{count}_", "new", count)
    program = """
from mindspore.mindrecord import FileReader, FileWriter
for name in ("n1_", "n3_0"):
    print([r["text"] for r in FileReader(name).get_next()])
    w = FileWriter.open_for_append(name)
    w.write_raw_data([{"label": 9, "text": "more"}])
    w.commit()
"""
    said = [line for line in run(ORACLE, program, folder=tmp_path).splitlines() if "new0" in line]
    assert len(said) == 2
    for name in ("n1_", "n3_0"):
        texts = [r["text"] for r in mr.FileReader(str(tmp_path / name)).get_next()]
        assert sorted(texts) == ["more", "new0", "new1", "new2", "new3"]
