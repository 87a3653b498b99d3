"""`MindPage`: rows of MindRecord files by the value of a field, some at a time.

Source: `mindspore.mindrecord`.
"""

from __future__ import annotations

import json
from typing import Any

from ..core.native import names_itself
from .exceptions import MRMDefineCategoryError, ParamValueError
from .reader import Records, check_consumers


@names_itself
class MindPage:
    """Rows grouped by an index, a page of them at a time.

    Args:
        file_name: one of the files that were written together, or a list of files.
        num_consumer: accepted for compatibility.

    Raises:
        ParamValueError: an argument is wrong.
        RuntimeError: there are no such files, or they are damaged.
    """

    def __init__(self, file_name: str | list[str], num_consumer: int = 4) -> None:
        check_consumers(num_consumer)
        self._records = Records(file_name)
        self._field: str | None = None
        self._found: dict[str, list[int]] = {}

    @property
    def candidate_fields(self) -> list[str]:
        """The fields that rows can be grouped by."""
        return list(self._records.shards[0].indexes)

    def get_category_fields(self) -> list[str]:
        """As `candidate_fields`."""
        return self.candidate_fields

    @property
    def category_field(self) -> str | None:
        """The field that rows are grouped by.

        Raises:
            MRMDefineCategoryError: (when set) no index.
        """
        return self._field

    @category_field.setter
    def category_field(self, category_field: str) -> None:
        self.set_category_field(category_field)

    def set_category_field(self, category_field: str) -> bool:
        """Group rows by an index.

        Raises:
            MRMDefineCategoryError: it is none.
        """
        if category_field not in self.candidate_fields:
            raise MRMDefineCategoryError(
                f"Field '{category_field}' is not a candidate category field: these are "
                f"{self.candidate_fields}.")
        self._field, self._found = category_field, {}
        return True

    def _groups(self) -> dict[str, list[int]]:
        """Positions of rows, by the text of the field's value, sorted by it."""
        if self._field is None:
            raise RuntimeError("Invalid data, field: is invalid. Set category_field to one of "
                               f"{self.candidate_fields}.")
        if not self._found:
            groups: dict[str, list[int]] = {}
            values = [v for shard in self._records.shards for v in shard.values(self._field)]
            for place, value in enumerate(values):
                groups.setdefault(str(value), []).append(place)
            self._found = dict(sorted(groups.items()))
        return self._found

    def read_category_info(self) -> str:
        """JSON: the `key`, and of each of its `categories` the `count`, `id` and `name`.

        Raises:
            RuntimeError: there is no category field.
        """
        found = [{"count": len(rows), "id": i, "name": name}
                 for i, (name, rows) in enumerate(self._groups().items())]
        return json.dumps({"categories": found, "key": f"{self._field}_0"}, separators=(",", ":"))

    def read_at_page_by_id(self, category_id: int, page: int, num_row: int) -> list[dict[str, Any]]:
        """The rows of a page of a category.

        Args:
            category_id: as `read_category_info` has it.
            page: which page, counted from 0.
            num_row: rows of a page.

        Raises:
            ParamValueError: an argument is wrong.
            RuntimeError: there is no such category or page.
        """
        _check("Category id", category_id, 0)
        groups = list(self._groups().values())
        if category_id >= len(groups):
            raise RuntimeError(f"Invalid data, category_id: {category_id} must be in the range "
                               f"[0, {len(groups) - 1}].")
        return self._page(groups[category_id], page, num_row)

    def read_at_page_by_name(
        self, category_name: str, page: int, num_row: int
    ) -> list[dict[str, Any]]:
        """As `read_at_page_by_id`, with a category's name.

        Raises:
            ParamValueError: an argument is wrong.
            RuntimeError: there is no such category or page.
        """
        if not isinstance(category_name, str):
            raise ParamValueError("Category name should be str.")
        groups = self._groups()
        if category_name not in groups:
            raise RuntimeError(f"Invalid data, category_name: {category_name} is not one of "
                               f"{list(groups)[:10]}.")
        return self._page(groups[category_name], page, num_row)

    def _page(self, places: list[int], page: int, num_row: int) -> list[dict[str, Any]]:
        _check("Page", page, 0)
        _check("num_row", num_row, 1)
        if page * num_row >= len(places):
            raise RuntimeError(f"Invalid data, page no: {page} or page size: {num_row} is out of "
                               f"the {len(places)} rows.")
        return [self._records.row(p) for p in places[page * num_row :][:num_row]]


def _check(what: str, value: Any, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ParamValueError(f"{what} should be int and greater than or equal to {low}.")
