"""MindRecord files, written and read both ways with MindSpore.

`cellc.mindrecord`, under the names of `mindspore.mindrecord`; the files are those of `..records`.
"""

from __future__ import annotations

from cellc_runtime.lazy import facade

SUCCESS, FAILED = "MRM_STATUS_SUCCESS", "MRM_STATUS_FAILED"

__all__ = ["FAILED", "SUCCESS"]
_HOMES = {
    "..records.encryption": "set_dec_mode set_enc_key set_enc_mode",
    "..records.exceptions":
        "MRMAddSchemaError MRMBuildSchemaError MRMDefineCategoryError MRMDefineIndexError "
        "MRMInvalidSchemaError MRMValidateDataError MindRecordException ParamTypeError "
        "ParamValueError",
    "..records.pages": "MindPage",
    "..records.reader": "FileReader",
    "..records.writer": "FileWriter",
    ".converters": "Cifar100ToMR Cifar10ToMR CsvToMR ImageNetToMR MnistToMR TFRecordToMR",
}
facade(__name__, _HOMES)
