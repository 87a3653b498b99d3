"""Places in MindRecord files: header, pages, and the table of rows beside them.

A file is a header (its length, then JSON, filled up to `header_size`) and pages of `page_size`:
*raw* pages hold what a row has in numbers and strings, as MessagePack; *blob* pages hold its arrays
and bytes. Before each row is its length. A database of SQLite beside the file (its name and `.db`)
says of each row which bytes of which pages it has, and the values of the fields that are indexes.
Both have the id of the commit that wrote them, and a reader refuses a file with the database of
another commit. MindSpore ignores the ids, and drops that of the header when it appends rows.
"""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import struct
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.forks import in_child, no_fork
from cellc_runtime.lazy import lazy_imports

from . import packing
from .commits import finish_for
from .schema import Field, Schema

with lazy_imports(__name__):  # only files of this kind need it
    import msgpack

VERSION = "3.0"
HEADER_SIZE, PAGE_SIZE = 1 << 24, 1 << 25
PLACES = ("PAGE_ID_RAW", "PAGE_OFFSET_RAW", "PAGE_OFFSET_RAW_END", "PAGE_ID_BLOB",
          "PAGE_OFFSET_BLOB", "PAGE_OFFSET_BLOB_END")
_FAR = 1 << 62  # More than any file's size
_COLUMNS = ("ROW_ID", "PAGE_ID_RAW", "PAGE_OFFSET_RAW", "PAGE_OFFSET_RAW_END", "ROW_GROUP_ID",
            "PAGE_ID_BLOB", "PAGE_OFFSET_BLOB", "PAGE_OFFSET_BLOB_END")


def damaged(path: str, why: str) -> RuntimeError:
    """The error for a file that is not as it was written."""
    return RuntimeError(f"Invalid file, {path} is no whole MindRecord file: {why}. It may be "
                        "damaged, of another format, or not committed.")


def shard_names(file_name: str, count: int) -> list[str]:
    """Return the names of a dataset's `count` files."""
    if count == 1:
        return [file_name]
    digits = len(str(count - 1))
    return [f"{file_name}{i:0{digits}d}" for i in range(count)]
COMMIT_KEY = "cellc_commit"  # Where the header has the id of its commit
_OPERATIONS, _PER_BYTE, _TICK = 10_000_000, 10, 100_000
"""How many operations of SQLite's virtual machine a query may take, in all and for each byte of the
database (reading a table takes some twenty for each row of 30 bytes or more), and how many there
are between two checks."""
_READS = 3
"""How often a file is read whose database is of another commit, as a process may be replacing both.
"""


def dataset_name(paths: list[str]) -> str:
    """Return the prefix of the names of a dataset's files: the inverse of `shard_names`."""
    return paths[0] if len(paths) == 1 else paths[0][: -len(str(len(paths) - 1))]


class Shard:
    """One file for reading."""

    def __init__(self, path: str) -> None:
        self.path, self._file = path, -1
        for _ in range(_READS):
            self._read()
            if self._is_of_one_commit():
                return
        raise damaged(path, "its .db is of another commit")

    def _read(self) -> None:
        """Read the header and the places of rows."""
        path = self.path
        try:
            finish_for(path)
        except OSError as error:
            raise RuntimeError(f"{path} was being overwritten when the process died, and the "
                               f"rest cannot be done: {error}. Make its folder writable, and "
                               "open it again.") from error
        for each in (path, path + ".db"):
            if not os.path.isfile(each):
                raise RuntimeError(f"The input: {each} is not exists. A MindRecord file and its "
                                   ".db, which lies beside it, are kept together.")
        with open(path, "rb") as stream:
            self._text = _header_text(path, stream.fileno())
        self.header = _header(path, self._text)
        try:
            described = self.header["schema"][0]
            self.schema = Schema(described["schema"], described["desc"])
            self.header_size = int(self.header["header_size"])
            self.page_size = int(self.header["page_size"])
            self.indexes = [str(i["index_field"]) for i in self.header["index_fields"] or ()]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise damaged(path, f"its header lacks {error}") from error
        self.commit = self.header.get(COMMIT_KEY)
        self.places = self._places()

    def _table(self, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
        """Columns of a table, by rows."""
        address = Path(os.path.abspath(self.path + ".db")).as_uri() + "?mode=ro"
        limit = _Limit(_OPERATIONS + _PER_BYTE * os.path.getsize(self.path + ".db"))
        try:
            with no_fork(), closing(Database(address, uri=True)) as base:
                base.execute("PRAGMA trusted_schema=OFF")
                base.set_progress_handler(limit, _TICK)
                kinds = base.execute("SELECT type FROM sqlite_master WHERE rootpage > 0 AND "
                                     "name = ? COLLATE NOCASE", (table,)).fetchall()
                if kinds != [("table",)]:
                    raise damaged(self.path, f"its .db has no table {table}")
                plain = {name for _, name, *_, hidden in
                         base.execute(f"PRAGMA table_xinfo({table})") if not hidden}
                if lacking := [c for c in columns if c not in plain]:
                    raise damaged(self.path, f"the table {table} of its .db lacks {lacking[0]}")
                listed = ", ".join('"' + c.replace('"', '""') + '"' for c in columns)
                order = " ORDER BY ROW_ID" if table == "INDEXES" else ""
                return base.execute(f"SELECT {listed} FROM {table}{order}").fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if limit.left >= 0 and \
                    getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                # A signal's handler raised in `_Limit`; SQLite drops the exception.
                raise KeyboardInterrupt from None
            raise damaged(self.path, f"its .db cannot be read: {error}") from error

    def _places(self) -> np.ndarray[Any, Any]:
        rows = self._table("INDEXES", list(PLACES))
        try:
            return np.array(rows, np.int64).reshape(len(rows), len(PLACES))
        except (TypeError, ValueError, OverflowError) as error:
            raise damaged(self.path, f"its .db has no places: {error}") from error

    def _is_of_one_commit(self) -> bool:
        """Whether header and database are. MindSpore drops the id of the header when it appends:
        the header's pages then tell how many rows the database has."""
        try:
            found = self._table(*_COMMIT_TABLE)
        except RuntimeError:
            found = []  # MindSpore's own have none
        if not found or self.commit is not None:
            return bool(found == ([] if self.commit is None else [(self.commit,)]))
        try:
            return max(int(p["end_row_id"]) for p in self.header["page"]) == len(self.places)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(self.path, f"its header lacks {error}") from error

    def values(self, field: str) -> list[Any]:
        """The values of an index, of all rows."""
        return [v for (v,) in self._table("INDEXES", [f"{field}_0"])]

    def _bytes(self, page: int, start: int, end: int) -> bytes:
        """A row's bytes, without their length."""
        at = self.header_size + page * self.page_size + start
        if not (0 <= start <= start + 8 <= end <= self.page_size and page >= 0 and 0 <= at < _FAR):
            raise damaged(self.path, f"a row lies from {start} to {end} of page {page}, where a "
                                     f"page has {self.page_size} bytes")
        if self._file < 0:
            file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            if _header_text(self.path, file) != self._text:
                os.close(file)
                raise damaged(self.path, "it was overwritten after it was opened: open it again")
            self._file = file
        data = os.pread(self._file, end - start, at)
        if len(data) != end - start or struct.unpack("<Q", data[:8])[0] != len(data) - 8:
            raise damaged(self.path, f"page {page} has no row at {start}")
        return data[8:]

    def row(self, place: int, names: list[str] | None = None) -> dict[str, Any]:
        """A row: its numbers and strings, then its arrays and bytes.

        Args:
            place: which.
            names: of which fields; None for all.
        """
        raw_page, raw_start, raw_end, page, start, end = self.places[place].tolist()
        raws, blobs = self.schema.raws, self.schema.blobs
        if names is not None:
            raws, blobs = ([f for f in fields if f.name in names] for fields in (raws, blobs))
        row: dict[str, Any] = {}
        try:
            if raws:
                found = _unpack(self._bytes(raw_page, raw_start, raw_end))
                for field in raws:
                    value = found[field.name]
                    if why := field.fault(value) or field.out_of_range(value):
                        raise ValueError(why)
                    row[field.name] = found[field.name]
            if blobs:
                parts = packing.split(self._bytes(page, start, end), len(self.schema.blobs))
                row.update((f.name, f.unpack(parts[self.schema.blobs.index(f)])) for f in blobs)
        except (KeyError, ValueError) as error:
            raise damaged(self.path, f"row {place}: {error}") from error
        return row

    def close(self) -> None:
        """Close the file; it is opened again when a row is requested."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": -1}

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)


def _unpack(data: bytes) -> dict[str, Any]:
    try:
        found = msgpack.unpackb(data)
    except Exception as error:
        raise ValueError(f"no MessagePack: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("no MessagePack of a map")
    return found


def _header_text(path: str, file: int) -> bytes:
    start = os.pread(file, 8, 0)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if not 2 <= length <= 1 << 27:
        raise damaged(path, "it does not begin with a header")
    return os.pread(file, length, 8)


def _header(path: str, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (UnicodeDecodeError, ValueError) as error:
        raise damaged(path, f"its header is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise damaged(path, "its header is no JSON of a map")
    return found


class Database(sqlite3.Connection):
    """A database within which no other thread forks: SQLite's locks would stay held in the child.
    """

    def __init__(self, path: str, uri: bool = False) -> None:
        with no_fork():
            super().__init__(path, uri=uri)
            _databases.add(self)

    def execute(self, *given: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.execute`."""
        with no_fork():
            return super().execute(*given)

    def commit(self) -> None:
        """As `sqlite3.Connection.commit`."""
        with no_fork():
            super().commit()

    def close(self) -> None:
        """As `sqlite3.Connection.close`."""
        with no_fork():
            super().close()


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _leave_open() -> None:
    """In a child made by fork: closing a database of the parent would undo its transaction."""
    for base in _databases:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(base))


in_child(_leave_open)


class _Limit:
    """Stops a query after a number of operations. Signals are handled in it, so that a user can
    interrupt a query."""

    def __init__(self, operations: int) -> None:
        self.left = operations // _TICK + 1

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


_COMMIT_TABLE = ("CELLC_COMMIT", ["ID"])


def open_index(path: str) -> Database:
    """A database for writing; `commits` flushes it to the disk."""
    base = Database(path)
    base.execute("PRAGMA trusted_schema=OFF")
    base.execute("PRAGMA synchronous=OFF")
    return base


def write_commit(base: Database, commit: str) -> None:
    """Write the id of a commit."""
    table, columns = _COMMIT_TABLE
    base.execute(f"CREATE TABLE IF NOT EXISTS {table}({', '.join(columns)})")
    base.execute(f"DELETE FROM {table}")
    base.execute(f"INSERT INTO {table} VALUES(?)", (commit,))


def create_index(path: str, shard_name: str, indexes: list[Field]) -> Database:
    """A new database for a file.

    Args:
        path: of the database.
        shard_name: the file it is beside, without folders.
        indexes: the fields whose values it has.
    """
    base = open_index(path)
    columns = [f"{c} INT NOT NULL" for c in _COLUMNS]
    for i, field in enumerate(indexes):
        columns += [f"INC_{i} INT", f'"{field.name}_0" {field.sql}']
    key = ["ROW_ID", *(f"INC_{i}" for i in range(len(indexes)))]
    base.execute(f"CREATE TABLE INDEXES({', '.join(columns)}, PRIMARY KEY({','.join(key)}))")
    base.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
    base.execute("INSERT INTO SHARD_NAME VALUES(?)", (shard_name,))
    return base
