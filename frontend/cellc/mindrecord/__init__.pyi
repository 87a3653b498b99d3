"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from ..records.encryption import set_dec_mode, set_enc_key, set_enc_mode
from ..records.exceptions import MRMAddSchemaError, MRMBuildSchemaError, MRMDefineCategoryError, MRMDefineIndexError, MRMInvalidSchemaError, MRMValidateDataError, MindRecordException, ParamTypeError, ParamValueError
from ..records.pages import MindPage
from ..records.reader import FileReader
from ..records.writer import FileWriter
from .converters import Cifar100ToMR, Cifar10ToMR, CsvToMR, ImageNetToMR, MnistToMR, TFRecordToMR
SUCCESS: str
FAILED: str
__all__ = ['Cifar100ToMR', 'Cifar10ToMR', 'CsvToMR', 'FAILED', 'FileReader', 'FileWriter', 'ImageNetToMR', 'MRMAddSchemaError', 'MRMBuildSchemaError', 'MRMDefineCategoryError', 'MRMDefineIndexError', 'MRMInvalidSchemaError', 'MRMValidateDataError', 'MindPage', 'MindRecordException', 'MnistToMR', 'ParamTypeError', 'ParamValueError', 'SUCCESS', 'TFRecordToMR', 'set_dec_mode', 'set_enc_key', 'set_enc_mode']
