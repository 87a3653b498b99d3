"""Primitive classes: `ops.ReLU()`, `ops.MatMul(transpose_b=True)`, ..."""

from __future__ import annotations


class Primitive:
    """Base."""
