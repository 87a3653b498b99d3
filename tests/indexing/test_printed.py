"""Tensors and element types print what MindSpore 2.10 prints, to the character."""

from __future__ import annotations

from pathlib import Path

import cellc as ms

from ..others import mindspore
from . import printed

RECORDED = {
    "bool_": "2a3b7859de7643f2", "int8": "e5b9200d4970d9b6", "int16": "46b47e11cc2f9c98",
    "int32": "1d996392a1bb9909", "int64": "616dacfb9f9e520b", "uint8": "15cc05522008ebde",
    "uint16": "27da0d2e0b3a21a2", "uint32": "d36a4eb78835ba84", "uint64": "19ab8dbe7659e32b",
    "float16": "7b016869d726c79e", "bfloat16": "be58ce67c488c93f", "float32": "eb727f0017cab297",
    "float64": "c87df9b5211bb164", "complex64": "4d40ca9fbdbb54cd",
    "complex128": "1589cb44f2c883fd",
}


def test_as_recorded() -> None:
    assert printed.digests(ms) == RECORDED


def test_the_records_are_mindspores() -> None:
    assert mindspore(Path(printed.__file__), ["mindspore"]) == RECORDED
