"""`Schema`: the types and shapes of the columns of files that do not say them all.

Source: `mindspore.dataset`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np

from ..core.declared import NON_NEGATIVE, Rule, checks_arguments, instance, is_int
from ..core.native import names_itself
from ..tensors import dtype as dtypes
from .rules import FILE

_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "string")

Shape = Annotated[Any, Rule(
    "a list of ints of -1 or more", lambda value: isinstance(value, list) and all(
        map(is_int, value)), lambda value: all(n >= -1 for n in value))]


@names_itself
class Schema:
    """Columns: names, types and shapes.

    Args:
        schema_file: a JSON file that says them; None for none.

    Attributes:
        columns: a dict of each, with `name`, `type`, `rank`, and `shape` if that was given.
        dataset_type: what the file says; "" without it.
        num_rows: how many rows the file says there are; 0 if it does not.

    Raises:
        RuntimeError: it is no JSON of a schema.
    """

    def __init__(self, schema_file: Annotated[str, FILE] | None = None) -> None:
        self.columns: list[dict[str, Any]] = []
        self.dataset_type, self.num_rows = "", 0
        if schema_file is None:
            return
        try:
            with open(schema_file, encoding="utf-8") as stream:
                self.from_json(json.load(stream))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise RuntimeError(f"Schema file {schema_file} failed to load: {error}") from error

    @checks_arguments
    def add_column(self, name: str, de_type: Any, shape: Shape | None = None) -> None:
        """One more column.

        Args:
            name: of the column.
            de_type: a dtype, or its name.
            shape: lengths, where one may be -1; None for one axis of any length.
        """
        kind = de_type if isinstance(de_type, str) else _name_of(de_type)
        if kind not in _TYPES:
            raise TypeError(f"Unknown column type {de_type!r} of {name!r}: expected one of "
                            f"{list(_TYPES)}.")
        column: dict[str, Any] = {"name": name, "type": kind, "rank": 1}
        if shape is not None:
            if shape.count(-1) > 1:
                raise ValueError(f"shape {shape} of column {name!r}: one length may be -1.")
            column |= {"shape": list(shape), "rank": len(shape)}
        self.columns = [c for c in self.columns if c["name"] != name] + [column]

    @checks_arguments
    def parse_columns(self, columns: list[Any] | dict[str, Any]) -> None:
        """Take columns from a list of dicts with `name`, `type` and `shape`, or a dict by name.

        Raises:
            TypeError, RuntimeError: they are something else.
        """
        self.columns = []
        many = [{"name": n, **c} for n, c in columns.items()] if isinstance(columns, dict) \
            else columns
        for each in many:
            instance(dict)(each, "Schema.parse_columns", "columns")
            for key in ("name", "type"):
                if key not in each:
                    raise RuntimeError(f"Column's {key} is missing: {each}.")
            self.add_column(each["name"], each["type"], each.get("shape"))

    @checks_arguments
    def from_json(self, json_obj: dict[str, Any]) -> None:
        """Take what a JSON file says: `columns`, and if they are there `datasetType`, `numRows`.

        Raises:
            TypeError, RuntimeError: it says something else.
        """
        unknown = set(json_obj) - {"columns", "datasetType", "numRows"}
        if unknown or "columns" not in json_obj:
            raise RuntimeError("A schema has 'columns', 'datasetType' and 'numRows', but got "
                               f"{sorted(json_obj)}.")
        self.parse_columns(json_obj["columns"])
        self.dataset_type = instance(str)(json_obj.get("datasetType", ""), "Schema", "datasetType")
        self.num_rows = NON_NEGATIVE(json_obj.get("numRows", 0), "Schema", "numRows")

    def to_json(self) -> str:
        """The schema as JSON."""
        said: dict[str, Any] = {"columns": [dict(sorted(c.items())) for c in self.columns]}
        if self.dataset_type:
            said["datasetType"] = self.dataset_type
        if self.num_rows:
            said["numRows"] = self.num_rows
        return json.dumps(said, indent=2)

    def __str__(self) -> str:
        return self.to_json()


def _name_of(given: Any) -> str:
    """The name of a dtype; empty if it is none."""
    try:
        return "string" if given is dtypes.string else \
            str(np.dtype(dtypes.dtype_to_nptype(given)).name)
    except (TypeError, KeyError, AttributeError, ValueError):
        return ""
