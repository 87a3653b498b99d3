"""Errors of MindRecord files, under MindSpore's names.

Source: `mindspore.mindrecord.common.exceptions`.
"""

from __future__ import annotations


class MindRecordException(Exception):
    """Base of the errors of MindRecord files.

    Args:
        detail: what was expected, what came, what to do.
    """

    _text = ""

    def __init__(self, detail: str = "") -> None:
        what = f"{self._text} Detail: {detail}" if self._text and detail else self._text or detail
        super().__init__(f"[{type(self).__name__}]: {what}")


class ParamTypeError(MindRecordException):
    """An argument is of the wrong type."""

    def __init__(self, param_name: str, expected_type: str) -> None:
        super().__init__(f"Invalid parameter type. '{param_name}' expect {expected_type} type.")


class ParamValueError(MindRecordException):
    """An argument has a value that is not allowed."""

    def __init__(self, error_detail: str) -> None:
        super().__init__(f"Invalid parameter value. {error_detail}")


class MRMInvalidSchemaError(MindRecordException):
    """A schema that describes no rows."""

    _text = "Schema format is error."


class MRMBuildSchemaError(MindRecordException):
    """A schema with shapes that arrays cannot have."""

    _text = "Failed to build schema."


class MRMAddSchemaError(MindRecordException):
    """A second schema."""

    _text = "Failed to add schema."


class MRMDefineIndexError(MindRecordException):
    """A field that cannot be an index."""

    _text = "Failed to define index field."


class MRMDefineCategoryError(MindRecordException):
    """A field that rows cannot be grouped by."""

    _text = "Failed to define category field."


class MRMValidateDataError(MindRecordException):
    """A name that programs import: rows that do not fit the schema are left out and reported in the
    log, here as in MindSpore, and neither raises this."""

    _text = "Failed to validate data."


__all__ = [
    "MRMAddSchemaError", "MRMBuildSchemaError", "MRMDefineCategoryError", "MRMDefineIndexError",
    "MRMInvalidSchemaError", "MRMValidateDataError", "MindRecordException", "ParamTypeError",
    "ParamValueError",
]
