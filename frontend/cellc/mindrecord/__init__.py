"""MindRecord files, written and read both ways with MindSpore.

`cellc.mindrecord`, under the names of `mindspore.mindrecord`; the files are those of `..records`.
"""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..records.encryption import set_dec_mode, set_enc_key, set_enc_mode
from ..records.exceptions import (
    MindRecordException,
    MRMAddSchemaError,
    MRMBuildSchemaError,
    MRMDefineCategoryError,
    MRMDefineIndexError,
    MRMInvalidSchemaError,
    MRMValidateDataError,
    ParamTypeError,
    ParamValueError,
)
from ..records.pages import MindPage
from ..records.reader import FileReader
from ..records.writer import FileWriter
from .converters import (
    Cifar10ToMR,
    Cifar100ToMR,
    CsvToMR,
    ImageNetToMR,
    MnistToMR,
    TFRecordToMR,
)

SUCCESS, FAILED = "MRM_STATUS_SUCCESS", "MRM_STATUS_FAILED"

__all__ = [
    "Cifar100ToMR", "Cifar10ToMR", "CsvToMR", "FAILED", "FileReader", "FileWriter",
    "ImageNetToMR", "MRMAddSchemaError", "MRMBuildSchemaError",
    "MRMDefineCategoryError", "MRMDefineIndexError", "MRMInvalidSchemaError",
    "MRMValidateDataError", "MindPage", "MindRecordException", "MnistToMR", "ParamTypeError",
    "ParamValueError", "SUCCESS", "TFRecordToMR", "set_dec_mode", "set_enc_key", "set_enc_mode",
]
__dir__ = public_names(__name__)
