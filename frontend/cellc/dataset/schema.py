"""What columns a dataset has: names, element types and shapes.

Source: `mindspore.dataset.Schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..tensors.dtype import Type, convert
from . import checks


class Schema:
    """Columns of a dataset.

    Args:
        schema_file: a JSON file of `to_json`'s form; None: no columns yet.

    Raises:
        RuntimeError: the file is not there, or holds no columns.

    Examples:
        >>> schema = dataset.Schema()
        >>> schema.add_column("label", de_type="int32", shape=[1])
    """

    def __init__(self, schema_file: str | None = None) -> None:
        self.columns: list[dict[str, Any]] = []
        self.num_rows = 0
        self.dataset_type = "UNKNOWN"
        if schema_file is not None:
            try:
                found = json.loads(Path(schema_file).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise RuntimeError(f"Schema cannot read {schema_file!r}: {error}") from error
            self.from_json(found)

    def add_column(self, name: str, de_type: Any, shape: list[int] | None = None) -> None:
        """Add a column.

        Args:
            name: of the column; another than those there are.
            de_type: an element type, or its name.
            shape: of one row; -1 for a length that differs. None: any.

        Raises:
            TypeError, ValueError: an argument is wrong.
        """
        checks.of_type("name", name, str)
        kind = de_type if de_type == "string" else _type_name(de_type)
        if any(c["name"] == name for c in self.columns):
            raise ValueError(f"Schema has a column {name!r} already.")
        column: dict[str, Any] = {"name": name, "type": kind, "rank": 1 if shape is None
                                  else len(checks.of_type("shape", shape, (list, tuple)))}
        if shape is not None:
            column["shape"] = [checks.integer(f"shape[{i}]", n, -1) for i, n in enumerate(shape)]
        self.columns.append(column)

    def parse_columns(self, columns: Any) -> None:
        """Add columns: a list of dicts with `name`, `type` and `shape`, or a dict of names to such.

        Raises:
            TypeError: something else.
            RuntimeError: a column has no type or no name.
        """
        if not isinstance(columns, (list, dict)):
            raise TypeError("columns must be a dict or a list, whose items have name, type and, "
                            f"perhaps, shape; but got {type(columns).__name__}.")
        pairs = [(c.get("name"), c) for c in columns] if isinstance(columns, list) else \
            list(columns.items())
        for name, column in pairs:
            if name is None or "type" not in column:
                raise RuntimeError(f"A column needs a name and a type, but got {column}.")
            self.add_column(name, column["type"], column.get("shape"))

    def to_json(self) -> str:
        """The columns as a text of JSON."""
        return json.dumps({"datasetType": self.dataset_type, "numRows": self.num_rows,
                           "columns": {c["name"]: {k: v for k, v in c.items() if k != "name"}
                                       for c in self.columns}}, indent=2)

    def from_json(self, json_obj: dict[str, Any]) -> None:
        """Take the columns of what `to_json` has written.

        Raises:
            TypeError: no dict.
            RuntimeError: it has no columns, or something else.
        """
        checks.of_type("json_obj", json_obj, dict)
        unknown = set(json_obj) - {"datasetType", "numRows", "columns"}
        if unknown or not json_obj.get("columns"):
            raise RuntimeError("A schema has 'columns', and may have 'datasetType' and 'numRows', "
                               f"but got {sorted(json_obj)}.")
        self.dataset_type = json_obj.get("datasetType", self.dataset_type)
        self.num_rows = checks.integer("numRows", json_obj.get("numRows", 0), 0)
        self.columns = []
        self.parse_columns(json_obj["columns"])

    def __str__(self) -> str:
        return self.to_json()


def _type_name(given: Any) -> str:
    if not isinstance(given, (str, Type)):
        raise TypeError(f"Argument de_type must be a type of mindspore or str, but got {given!r}.")
    return convert(given, "add_column").name


__all__ = ["Schema"]
