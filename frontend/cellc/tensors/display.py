"""Tensors in notebooks: a table of numbers, or the picture that a uint8 tensor holds."""

from __future__ import annotations

import struct
import zlib
from html import escape
from typing import Any

import numpy as np

from cellc_runtime.lazy import base64

Array = np.ndarray[Any, Any]
_MOST = 8  # Rows and columns of a table; of larger ones the first and the last are shown
_PICTURE = 16  # Pixels along the shorter side from which on uint8 is taken for a picture
_COLORS = {1: 0, 3: 2, 4: 6}  # PNG's kinds of colours by the number of channels


def tensor_html(array: Array, dtype: str, title: str) -> str:
    """A tensor's type, and its elements as a table or as a picture.

    Args:
        dtype: the name of their type.
        title: what stands before the type.
    """
    head = f"<div><b>{escape(title)}</b> {escape(dtype)}{list(array.shape)}"
    if _is_picture(array):
        return f"{head}</div>{_picture(array)}"
    if array.size == 0:
        return f"{head}, no elements</div>"
    plane = array.reshape(1, -1) if array.ndim < 2 else array
    while plane.ndim > 2:
        plane = plane[0]
    if array.ndim > 2:
        head += f", the first of {int(np.prod(array.shape[:-2]))} planes"
    return f"{head}</div>{_table(plane)}"


def _table(plane: Array) -> str:
    rows, columns = (_shown(n) for n in plane.shape)
    body = "".join(f"<tr>{''.join(_cell(plane, r, c) for c in columns)}</tr>" for r in rows)
    return f"<table>{body}</table>"


def _shown(n: int) -> list[int | None]:
    """The numbers of the rows that are shown; None for those that are not."""
    if n <= _MOST:
        return list(range(n))
    half = _MOST // 2
    return [*range(half), None, *range(n - half, n)]


def _cell(plane: Array, row: int | None, column: int | None) -> str:
    if row is None or column is None:
        return "<td>…</td>"
    value = plane[row, column]
    text = f"{float(value):.6g}" if plane.dtype.kind in "fV" else str(value)
    return f'<td style="text-align:right;font-family:monospace">{escape(text)}</td>'


def _is_picture(array: Array) -> bool:
    return array.dtype == np.uint8 and (array.ndim == 2 or (
        array.ndim == 3 and array.shape[2] in _COLORS)) and min(array.shape[:2]) >= _PICTURE


def _picture(array: Array) -> str:
    """The picture as an element with its PNG file inside."""
    height, width = array.shape[:2]
    channels = array.shape[2] if array.ndim == 3 else 1
    rows = np.ascontiguousarray(array).reshape(height, width * channels)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, _COLORS[channels], 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts)
    text = base64.b64encode(png).decode("ascii")
    return f'<img width="{width}" height="{height}" src="data:image/png;base64,{text}">'
