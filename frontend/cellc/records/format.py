"""Places in MindRecord files: header, pages, and the table of rows beside them.

A file is a header (its length, then JSON, filled up to `header_size`) and pages of `page_size`:
*raw* pages hold what a row has in numbers and strings, as MessagePack; *blob* pages hold its arrays
and bytes. Before each row is its length. A database of SQLite beside the file (its name and `.db`)
says of each row which bytes of which pages it has, and the values of the fields that are indexes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import struct
import weakref
from contextlib import closing
from typing import Any

import numpy as np

from cellc_runtime.forks import in_child, no_fork

from . import packing
from .schema import Field, Schema

VERSION = "3.0"
HEADER_SIZE, PAGE_SIZE = 1 << 24, 1 << 25
PLACES = ("PAGE_ID_RAW", "PAGE_OFFSET_RAW", "PAGE_OFFSET_RAW_END", "PAGE_ID_BLOB",
          "PAGE_OFFSET_BLOB", "PAGE_OFFSET_BLOB_END")
_COLUMNS = ("ROW_ID", "PAGE_ID_RAW", "PAGE_OFFSET_RAW", "PAGE_OFFSET_RAW_END", "ROW_GROUP_ID",
            "PAGE_ID_BLOB", "PAGE_OFFSET_BLOB", "PAGE_OFFSET_BLOB_END")


def damaged(path: str, why: str) -> RuntimeError:
    """The error for a file that is not as it was written."""
    return RuntimeError(f"Invalid file, {path} is no whole MindRecord file: {why}. It may be "
                        "damaged, of another format, or not committed.")


def shard_names(file_name: str, count: int) -> list[str]:
    """The names of the files of a dataset with so many."""
    if count == 1:
        return [file_name]
    digits = len(str(count - 1))
    return [f"{file_name}{i:0{digits}d}" for i in range(count)]


class Shard:
    """One file for reading.

    Args:
        path: of the file.

    Raises:
        RuntimeError: there is no such file, or it is damaged.
    """

    def __init__(self, path: str) -> None:
        for each in (path, path + ".db"):
            if not os.path.isfile(each):
                raise RuntimeError(f"The input: {each} is not exists. A MindRecord file and its "
                                   ".db, which lies beside it, are kept together.")
        self.path, self._file = path, -1
        self.header = _header(path)
        try:
            described = self.header["schema"][0]
            self.schema = Schema(described["schema"], described["desc"])
            self.header_size = int(self.header["header_size"])
            self.page_size = int(self.header["page_size"])
            self.indexes = [str(i["index_field"]) for i in self.header["index_fields"] or ()]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise damaged(path, f"its header lacks {error}") from error
        self.places = self._places()

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        address = f"file:{os.path.abspath(self.path + '.db')}?mode=ro"
        try:
            with no_fork(), closing(Database(address, uri=True)) as base:
                return base.execute(text).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise damaged(self.path, f"its .db cannot be read: {error}") from error

    def _places(self) -> np.ndarray[Any, Any]:
        rows = self._query(f"SELECT {', '.join(PLACES)} FROM INDEXES ORDER BY ROW_ID")
        try:
            return np.array(rows, np.int64).reshape(len(rows), len(PLACES))
        except (TypeError, ValueError, OverflowError) as error:
            raise damaged(self.path, f"its .db has no places: {error}") from error

    def values(self, field: str) -> list[Any]:
        """The values of an index, of all rows."""
        return [v for (v,) in self._query(f'SELECT "{field}_0" FROM INDEXES ORDER BY ROW_ID')]

    def _bytes(self, page: int, start: int, end: int) -> bytes:
        """A row's bytes, without their length."""
        if not 0 <= start <= start + 8 <= end <= self.page_size:
            raise damaged(self.path, f"a row lies from {start} to {end} of a page of "
                                     f"{self.page_size} bytes")
        if self._file < 0:
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        data = os.pread(self._file, end - start, self.header_size + page * self.page_size + start)
        if len(data) != end - start or struct.unpack("<Q", data[:8])[0] != len(data) - 8:
            raise damaged(self.path, f"page {page} has no row at {start}")
        return data[8:]

    def row(self, place: int, names: list[str] | None = None) -> dict[str, Any]:
        """A row: its numbers and strings, then its arrays and bytes.

        Args:
            place: which.
            names: of which fields; None for all.

        Raises:
            RuntimeError: the file is damaged.
        """
        raw_page, raw_start, raw_end, page, start, end = self.places[place].tolist()
        raws, blobs = self.schema.raws, self.schema.blobs
        if names is not None:
            raws, blobs = ([f for f in fields if f.name in names] for fields in (raws, blobs))
        row: dict[str, Any] = {}
        try:
            if raws:
                found = _unpacked(self._bytes(raw_page, raw_start, raw_end))
                for field in raws:
                    if why := field.fault(found[field.name]):
                        raise ValueError(why)
                    row[field.name] = found[field.name]
            if blobs:
                parts = packing.split(self._bytes(page, start, end), len(self.schema.blobs))
                row.update((f.name, f.unpack(parts[self.schema.blobs.index(f)])) for f in blobs)
        except (KeyError, ValueError) as error:
            raise damaged(self.path, f"row {place}: {error}") from error
        return row

    def close(self) -> None:
        """Close the file; it is opened again when a row is asked for."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": -1}

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)


def _unpacked(data: bytes) -> dict[str, Any]:
    import msgpack  # Only files of this kind need it.

    try:
        found = msgpack.unpackb(data)
    except Exception as error:
        raise ValueError(f"no MessagePack: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("no MessagePack of a map")
    return found


def _header(path: str) -> dict[str, Any]:
    with open(path, "rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= 1 << 27:
            raise damaged(path, "it does not begin with a header")
        text = stream.read(length)
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


def create_index(path: str, shard_name: str, indexes: list[Field]) -> Database:
    """A new database for a file.

    Args:
        path: of the database.
        shard_name: the file it is beside, without folders.
        indexes: the fields whose values it has.
    """
    base = Database(path)
    columns = [f"{c} INT NOT NULL" for c in _COLUMNS]
    for i, field in enumerate(indexes):
        columns += [f"INC_{i} INT", f'"{field.name}_0" {field.sql}']
    key = ["ROW_ID", *(f"INC_{i}" for i in range(len(indexes)))]
    base.execute(f"CREATE TABLE INDEXES({', '.join(columns)}, PRIMARY KEY({','.join(key)}))")
    base.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
    base.execute("INSERT INTO SHARD_NAME VALUES(?)", (shard_name,))
    return base
