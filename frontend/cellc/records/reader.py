"""`FileReader`, and the rows of several MindRecord files as one table.

Source: `mindspore.mindrecord`.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from ..core.native import names_itself
from .exceptions import ParamValueError
from .format import Shard, damaged
from .schema import Schema


def paths_of(file_name: Any) -> list[str]:
    """The files that a user names: those listed, or all that were written with one of them.

    Raises:
        ParamValueError: no name.
    """
    if isinstance(file_name, list):
        for each in file_name:
            _check(each)
        if not file_name:
            raise ParamValueError("File path is not allowed None or empty!")
        return list(file_name)
    _check(file_name)
    folder = os.path.dirname(file_name)
    names = Shard(file_name).header.get("shard_addresses") or [os.path.basename(file_name)]
    own = os.path.basename(file_name)
    return [os.path.join(folder, os.path.basename(n)) for n in names] \
        if own in map(os.path.basename, names) else [file_name]


def _check_commits(shards: list[Shard]) -> None:
    """Refuse files that were written together, of which some were overwritten alone."""
    together: dict[tuple[Any, ...], Shard] = {}
    for shard in shards:
        names = shard.header.get("shard_addresses") or ()
        first = together.setdefault(
            (os.path.dirname(os.path.abspath(shard.path)), *map(str, names)), shard)
        if names and shard.commit != first.commit:
            raise damaged(shard.path, f"it is of another commit than {first.path}")


def _check(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ParamValueError(f"File path: {name} is not string.")


class Records:
    """The rows of several files, one file after the other.

    Args:
        file_name: one of the files that were written together, or a list of files.

    Raises:
        ParamValueError, RuntimeError: no such files, or they are of different schemas.
    """

    def __init__(self, file_name: Any) -> None:
        self.shards = [Shard(path) for path in paths_of(file_name)]
        for shard in self.shards[1:]:
            if shard.schema.content != self.shards[0].schema.content:
                raise RuntimeError(f"The files have different schemas: {self.shards[0].path} has "
                                   f"{self.schema.content}, {shard.path} has "
                                   f"{shard.schema.content}.")
        _check_commits(self.shards)
        self.ends = list(accumulate(len(shard.places) for shard in self.shards))

    @property
    def schema(self) -> Schema:
        """The fields of a row."""
        return self.shards[0].schema

    def __len__(self) -> int:
        return self.ends[-1]

    def row(self, place: int, names: list[str] | None = None) -> dict[str, Any]:
        """A row, or some of its fields."""
        shard = bisect_right(self.ends, place)
        start = self.ends[shard - 1] if shard else 0
        return self.shards[shard].row(place - start, names)

    def check_names(self, names: list[str]) -> None:
        """Refuse fields that there are not."""
        for name in names:
            if name not in self.schema.fields:
                raise RuntimeError(f"Invalid data, column name: {name} can not found in schema: "
                                   f"there are {list(self.schema.fields)}.")

    def close(self) -> None:
        """Close the files."""
        for shard in self.shards:
            shard.close()


@names_itself
class FileReader:
    """The rows of MindRecord files, one by one.

    Args:
        file_name: one of the files that were written together, or a list of files.
        num_consumer: accepted for compatibility.
        columns: which fields; None for all.
        operator: accepted for compatibility.

    Raises:
        ParamValueError: an argument is wrong.
        RuntimeError: there are no such files, or they are damaged.
    """

    def __init__(
        self, file_name: str | list[str], num_consumer: int = 4, columns: list[str] | None = None,
        operator: Any = None,
    ) -> None:
        check_consumers(num_consumer)
        if columns is not None and not isinstance(columns, list):
            raise ParamValueError(f"Parameter columns: {columns} should be a list of str.")
        self._records, self._columns = Records(file_name), columns
        if columns is not None:
            self._records.check_names(columns)

    def get_next(self) -> Iterator[dict[str, Any]]:
        """The rows, as dicts: numbers, strings, bytes and arrays by name."""
        for place in range(len(self._records)):
            yield self._records.row(place, self._columns)

    def schema(self) -> dict[str, Any]:
        """The fields, by name: their type, and the shape of arrays."""
        described: dict[str, Any] = self._records.schema.described()["schema"]
        return described

    def len(self) -> int:
        """How many rows there are."""
        return len(self._records)

    def close(self) -> None:
        """Close the files."""
        self._records.close()


def check_consumers(count: Any) -> None:
    """Refuse a number of readers that is none; it changes nothing here.

    Raises:
        ParamValueError: no positive int.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ParamValueError(f"Parameter num_consumer: {count} should be an int of 1 or more.")
