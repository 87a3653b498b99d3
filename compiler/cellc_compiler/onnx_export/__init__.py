"""Graphs as ONNX models. Needs the library `onnx` (`pip install cellc[onnx]`)."""

from .model import OPSETS, Model, to_model
from .table import REFUSED, RULES
from .writer import ExportError

__all__ = ["OPSETS", "REFUSED", "RULES", "ExportError", "Model", "to_model"]
