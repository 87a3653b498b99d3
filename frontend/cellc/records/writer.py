"""`FileWriter`: rows become MindRecord files.

Rows are written into files beside those they become, which `commit` puts into their places, all or
none (see `commits`). Header and database have an id of the commit, which readers compare.

Source: `mindspore.mindrecord`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_runtime.lazy import lazy_imports

from .. import log
from ..core.native import names_itself
from .commits import Pending
from .exceptions import (
    MRMAddSchemaError,
    MRMDefineIndexError,
    ParamTypeError,
    ParamValueError,
)
from .format import (
    COMMIT_KEY,
    HEADER_SIZE,
    PAGE_SIZE,
    VERSION,
    Shard,
    create_index,
    dataset_name,
    open_index,
    shard_names,
    write_commit,
)
from .packing import join
from .reader import paths_of
from .schema import Field, Schema, checked

with lazy_imports(__name__):  # only files of this kind need it
    import msgpack

_FIRST = [{"id": 0, "offset": 0}]


class _Page:
    """A page that is being filled; `number` is its place in the file, `order` among its kind."""

    def __init__(self, number: int, order: int, start_row: int = 0) -> None:
        self.number, self.order, self.start_row, self.size = number, order, start_row, 0
        self.groups: list[dict[str, int]] = []

    def described(self, kind: str, shard: int, end_row: int = 0) -> dict[str, Any]:
        return {"end_row_id": end_row, "page_id": self.number, "page_size": self.size,
                "page_type": kind, "page_type_id": self.order,
                "row_group_ids": self.groups or _FIRST, "shard_id": shard,
                "start_row_id": self.start_row}


class _ShardWriter:
    """One file: pages, and the database of its rows, both beside their places until committed."""

    def __init__(self, path: str, shard: int, header: dict[str, Any], indexes: list[Field],
                 before: Shard | None, pending: Pending) -> None:
        self.path, self.shard, self.header, self.indexes = path, shard, header, indexes
        self._data, self._index = pending.file(path), pending.file(path + ".db")
        self.pages: list[dict[str, Any]] = []
        self.count, self._groups, self._raws, self._next = 0, 0, 0, 0
        self.saved = 0
        if before is not None:
            self._continue(before)
        else:
            self._base = create_index(self._index, os.path.basename(path), indexes)
        self._stream = open(self._data, "r+b" if before is not None else "wb")  # noqa: SIM115
        self._blob: _Page | None = None
        self._raw: _Page | None = None

    def _continue(self, before: Shard) -> None:
        """Continue after the rows of a file."""
        shutil.copyfile(before.path, self._data)
        shutil.copyfile(before.path + ".db", self._index)
        self._base = open_index(self._index)
        self.pages, self.count = list(before.header["page"]), len(before.places)
        self._groups = sum(p["page_type"] == "BLOB_DATA" for p in self.pages)
        self._raws, self._next = len(self.pages) - self._groups, len(self.pages)
        self.saved = int(before.header.get("compression_size", 0))

    def add(self, raw: bytes, blob: bytes, values: Sequence[Any]) -> None:
        """Write a row."""
        if self._blob is None or self._raw is None or self._full(self._raw, raw) or \
                self._full(self._blob, blob):
            self._new_group(raw)
        if self._blob is None or self._raw is None:
            return
        places = []
        for page, data in ((self._raw, raw), (self._blob, blob)):
            self._stream.seek(self.header["header_size"]
                              + page.number * self.header["page_size"] + page.size)
            self._stream.write(struct.pack("<Q", len(data)) + data)
            places.append((page.number, page.size, page.size + 8 + len(data)))
            page.size += 8 + len(data)
        indexed = [x for value in values for x in (0, value)]
        row = (self.count, *places[0], self._groups - 1, *places[1], *indexed)
        self._base.execute(f"INSERT INTO INDEXES VALUES({','.join('?' * len(row))})", row)
        self.count += 1

    def _full(self, page: _Page, data: bytes) -> bool:
        return page.size + 8 + len(data) > int(self.header["page_size"])

    def _new_group(self, raw: bytes) -> None:
        """A new blob page, and where the raw page has no place left, a new one of these."""
        self._end_blob()
        self._blob = _Page(self._number(), self._groups, self.count)
        if self._raw is None or self._full(self._raw, raw):
            self._end_raw()
            self._raw = _Page(self._number(), self._raws)
            self._raws += 1
        self._raw.groups.append({"id": self._groups, "offset": self._raw.size})
        self._groups += 1

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _end_blob(self) -> None:
        if self._blob is not None:
            self.pages.append(self._blob.described("BLOB_DATA", self.shard, self.count))
        self._blob = None

    def _end_raw(self) -> None:
        if self._raw is not None:
            self.pages.append(self._raw.described("RAW_DATA", self.shard))
        self._raw = None

    def finish(self) -> None:
        """Write the header."""
        self._end_blob()
        self._end_raw()
        self.pages.sort(key=lambda p: int(p["page_id"]))
        text = json.dumps({**self.header, "page": self.pages, "compression_size": self.saved,
                           "shard_id": self.shard}, separators=(",", ":")).encode()
        size = int(self.header["header_size"])
        if len(text) + 8 > size:
            raise RuntimeError(f"The header of {self.path} has {len(text) + 8} bytes, but there "
                               f"are {size}: give set_header_size more, before the first row.")
        self._stream.seek(0)
        self._stream.write(struct.pack("<Q", len(text)) + text)
        self._stream.truncate(max(size, self._stream.seek(0, os.SEEK_END)))
        self._stream.close()
        write_commit(self._base, str(self.header[COMMIT_KEY]))
        self._base.commit()
        self._base.close()

    def close(self) -> None:
        """Close the files, whatever is in them."""
        with contextlib.suppress(sqlite3.Error):
            self._base.close()
        with contextlib.suppress(OSError):
            self._stream.close()


def _discard(process: int, pending: Pending, shards: list[_ShardWriter]) -> None:
    """Remove all files but those already in place."""
    if os.getpid() != process:
        return  # a child made by fork ends; the writer is its parent's
    for shard in shards:
        shard.close()
    pending.close()


@names_itself
class FileWriter:
    """Rows of numbers, strings, bytes and arrays, written into MindRecord files.

    Nothing is at `file_name` before `commit`.

    Args:
        file_name: of the file; with several, a number follows it.
        shard_num: how many files.
        overwrite: whether files of that name are replaced.

    Raises:
        ParamValueError: an argument is wrong.
    """

    def __init__(self, file_name: str, shard_num: int = 1, overwrite: bool = False) -> None:
        _check_name(file_name)
        if isinstance(shard_num, bool) or not isinstance(shard_num, int):
            raise ParamValueError("Parameter shard_num's type is not int.")
        if not 1 <= shard_num <= 1000:
            raise ParamValueError(f"Parameter shard_num's value: {shard_num} should between 1 and "
                                  "1000.")
        if not isinstance(overwrite, bool):
            raise ParamValueError("Parameter overwrite's type is not bool.")
        self._name, self._overwrite = file_name, overwrite
        self._paths = shard_names(file_name, shard_num)
        self._schema: Schema | None = None
        self._indexes: list[str] | None = None
        self._header_size, self._page_size = HEADER_SIZE, PAGE_SIZE
        self._before: list[Shard] = []
        self._shards: list[_ShardWriter] = []
        self._discard: Callable[[], Any] | None = None
        self._turn = 0
        self._done, self._failure = False, ""
        self._pending: Pending

    @classmethod
    def open_for_append(cls, file_name: str) -> FileWriter:
        """Return a writer that continues after the rows of a dataset.

        Args:
            file_name: one of its files.

        Raises:
            ParamValueError, RuntimeError: there is no such file, or it is damaged.
        """
        _check_name(file_name)
        before = [Shard(path) for path in paths_of(file_name)]
        writer = cls(dataset_name([s.path for s in before]))
        writer._paths, writer._before = [s.path for s in before], before
        writer._overwrite, writer._schema = True, before[0].schema
        writer._indexes = before[0].indexes
        writer._header_size, writer._page_size = before[0].header_size, before[0].page_size
        return writer

    def add_schema(self, content: dict[str, Any], desc: str | None = None) -> None:
        """Say what a row has.

        Args:
            content: by name a dict with `type` ("int32", "int64", "float32", "float64", "string",
                "bytes") and, for an array, `shape`, where one length may be -1.
            desc: what it is.

        Raises:
            MRMInvalidSchemaError, MRMBuildSchemaError: it describes no rows.
            MRMAddSchemaError: there is a schema.
        """
        schema = checked(content, desc)
        if self._schema is not None:
            raise MRMAddSchemaError("there is a schema: a file has one.")
        self._schema = schema

    def add_index(self, index_fields: list[str]) -> None:
        """Say which fields rows are looked up by; without it all numbers and strings.

        Raises:
            ParamTypeError: no list of names.
            MRMDefineIndexError: no number or string.
            RuntimeError: no such field, one given twice, or no schema.
        """
        if not isinstance(index_fields, list) or not index_fields:
            raise ParamTypeError("index_fields", "list")
        schema = self._known()
        for field in index_fields:
            if not isinstance(field, str):
                raise ParamTypeError("index field", "str")
            if field not in schema.fields:
                raise RuntimeError(f"Invalid input, 'index_fields': {field} can not found in "
                                   f"schema: {list(schema.fields)}.")
            if schema.fields[field].blob:
                raise MRMDefineIndexError(
                    f"Failed to set field {field} since it's not primitive type.")
        twice = [f for f in index_fields if index_fields.count(f) > 1]
        if twice or self._indexes is not None:
            raise RuntimeError(f"The 'index_fields': {(twice or index_fields)[0]} is added "
                               "repeatedly.")
        self._indexes = sorted(index_fields)

    def set_header_size(self, header_size: int) -> None:
        """How many bytes the header may have: 16 KiB to 128 MiB, a multiple of 4.

        Raises:
            RuntimeError: no such number, or rows are written already.
        """
        self._header_size = self._size("header", header_size, 1 << 14, 1 << 27)

    def set_page_size(self, page_size: int) -> None:
        """How many bytes a page has, so a row at most: 32 KiB to 256 MiB, a multiple of 4.

        Raises:
            RuntimeError: no such number, or rows are written already.
        """
        self._page_size = self._size("page", page_size, 1 << 15, 1 << 28)

    def _size(self, what: str, size: int, low: int, high: int) -> int:
        if not isinstance(size, int) or not low <= size <= high or size % 4:
            raise RuntimeError(f"Invalid data, {what} size: {size} should be in range "
                               f"[{low}, {high}], and divided by four.")
        if self._shards or self._before:
            raise RuntimeError(f"Set the {what} size before the first row is written.")
        return size

    def write_raw_data(self, raw_data: list[dict[str, Any]], parallel_writer: bool = False) -> None:
        """Write rows; of several files each gets its part.

        A row that lacks a field, or has one of another type or shape, is left out, with a warning
        in the log, as MindSpore does. A number that its type cannot hold is an error.

        Args:
            raw_data: the rows.
            parallel_writer: accepted for compatibility.

        Raises:
            ParamTypeError, TypeError: no list of dicts, or no bool.
            RuntimeError: no row fits, a number is out of the range of its type, a row is longer
                than a page, the files exist, there is no schema, or the disk refuses.
        """
        if not isinstance(parallel_writer, bool):
            raise TypeError(f"parallel_writer should be bool, but got {type(parallel_writer)}.")
        if not isinstance(raw_data, list):
            raise ParamTypeError("raw_data", "list")
        for each in raw_data:
            if not isinstance(each, dict):
                raise ParamTypeError("raw_data item", "dict")
        if self._done:
            raise RuntimeError("The files are committed: use FileWriter.open_for_append.")
        schema = self._known()
        packed = [self._packed(row) for row in _fitting(schema, raw_data)]
        shards = self._open(schema)
        try:
            for i, (raw, blob, values, saved) in self._dealt(packed):
                shards[i].add(raw, blob, values)
                shards[i].saved += saved
        except (OSError, sqlite3.Error) as error:
            raise self._give_up(error) from error

    def _known(self) -> Schema:
        if self._schema is None:
            raise RuntimeError(
                "Invalid data, schema is not found in header: call add_schema first.")
        return self._schema

    def _packed(self, row: Mapping[str, Any]) -> tuple[bytes, bytes, list[Any], int]:
        schema = self._known()
        plain = {f.name: f.plain(row[f.name]) for f in schema.raws}
        parts = [f.pack(row[f.name]) for f in schema.blobs]
        raw, blob = msgpack.packb(plain or {"id": 0}), join(parts)
        longest = max(len(raw), len(blob)) + 8
        if longest > self._page_size:
            raise RuntimeError(
                f"Invalid data, Page size: {self._page_size} is too small to save a row of "
                f"{longest} bytes. Please try to use the mindrecord api 'set_page_size(1<<28)', "
                "before the first row.")
        saved = sum(row[f.name].nbytes - len(p) for f, p in zip(schema.blobs, parts, strict=True)
                    if f.type.startswith("int")) if len(parts) > 1 else 0
        return raw, blob, [plain[n] for n in self._index_names()], saved

    def _index_names(self) -> list[str]:
        if self._indexes is None:
            self._indexes = [f.name for f in self._known().raws]
        return self._indexes

    def _dealt(self, rows: list[Any]) -> list[tuple[int, Any]]:
        """Which file each row is for: equal runs, what is left over to one file after the other."""
        count = len(self._paths)
        each, left = divmod(len(rows), count)
        sizes = [each] * count
        for _ in range(left):
            sizes[self._turn] += 1
            self._turn = (self._turn + 1) % count
        order = [i for i, size in enumerate(sizes) for _ in range(size)]
        return list(zip(order, rows, strict=True))

    def _open(self, schema: Schema) -> list[_ShardWriter]:
        if self._failure:
            raise RuntimeError(f"Nothing can be written after a failure: {self._failure}")
        if self._shards:
            return self._shards
        there = [p for p in self._paths if os.path.exists(p) or os.path.exists(p + ".db")]
        if there and not self._overwrite:
            raise RuntimeError(
                "Invalid file, mindrecord files already exist. Please check file path: "
                f"{there[0]}. If you do not want to keep the files, set the 'overwrite' parameter "
                "to True and try again.")
        names = self._index_names()
        header = {
            "header_size": self._header_size,
            "index_fields": [{"index_field": n, "schema_id": 0} for n in names] or None,
            "page": [], "page_size": self._page_size, "compression_size": 0,
            "schema": [schema.described()],
            "shard_addresses": [os.path.basename(p) for p in self._paths], "shard_id": 0,
            "statistics": None, "version": VERSION, COMMIT_KEY: os.urandom(8).hex()}
        indexes = [schema.fields[n] for n in names]
        try:
            self._pending = Pending(self._name)
            self._discard = weakref.finalize(
                self, _discard, os.getpid(), self._pending, self._shards)
            for i, path in enumerate(self._paths):
                before = self._before[i] if self._before else None
                self._shards.append(_ShardWriter(path, i, header, indexes, before, self._pending))
        except (OSError, sqlite3.Error) as error:
            raise self._give_up(error) from error
        return self._shards

    def _give_up(self, error: Exception) -> RuntimeError:
        """Remove the incomplete files; the error to raise."""
        if self._discard is not None:
            self._discard()
        self._failure = f"{self._paths[0]} cannot be written: {error}"
        return RuntimeError(self._failure)

    def commit(self) -> None:
        """Write what is left, and put the files into their places.

        Raises:
            RuntimeError: there is no schema, or the disk refuses.
        """
        if self._done:
            return
        schema = self._known()
        shards = self._open(schema)
        try:
            for shard in shards:
                shard.finish()
            self._pending.commit()
        except (OSError, sqlite3.Error) as error:
            raise self._give_up(error) from error
        self._done = True


def _check_name(file_name: Any) -> None:
    if file_name is None or file_name == "":
        raise ParamValueError("File path is not allowed None or empty!")
    if not isinstance(file_name, str):
        raise ParamValueError(f"File path: {file_name} is not string.")


def _fitting(schema: Schema, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that fit; the others are reported."""
    found, faults = [], []
    for number, row in enumerate(rows):
        fault = schema.fault(row)
        misfit = "" if fault else schema.out_of_range(row)
        if misfit:
            raise RuntimeError(f"For 'FileWriter', row {number}: {misfit}. Write another value, or "
                               "give the field a type that holds it.")
        if fault:
            faults.append(f"row {number}: {fault}")
        else:
            found.append(row)
    for each in faults:
        log.warning("FileWriter: not written, %s.", each)
    if not found:
        why = f": {faults[0]}" if faults else ": there is no row"
        raise RuntimeError("There is no valid data which can be written by 'write_raw_data' to "
                           f"mindrecord file{why}.")
    return found
