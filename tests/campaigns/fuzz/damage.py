"""Ways to damage a file: its bytes, what is inside its hashes, or its structure."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime import container

Rng = np.random.Generator


def place(data: bytearray, rng: Rng) -> int:
    """Anywhere, but not often in what fills pages up."""
    for _ in range(8):
        at = int(rng.integers(len(data) + 1))
        if any(data[at:at + 4]):
            break
    return at


def damaged(data: bytes, rng: Rng) -> bytes:
    """The bytes with one to three changes."""
    bad = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, length = place(bad, rng), int(2 ** rng.uniform(0, 7))
        match int(rng.integers(6)):
            case 0 | 1:
                if at < len(bad):
                    bad[at] ^= 1 << int(rng.integers(8))
            case 2:
                del bad[at:at + length]
            case 3:
                bad[at:at] = bad[at:at + length]
            case 4:
                fill = (b"\0", b"\xff", b"9", b"]", b"-")[int(rng.integers(5))]
                bad[at:at + length] = fill * len(bad[at:at + length])
            case _:
                bad = bad[:at]
    return bytes(bad)


def resealed(data: bytes, rng: Rng) -> bytes:
    """A container of which one section was damaged, hashed again; plain damage if it is none."""
    magic, version = data[:8], int.from_bytes(data[8:12], "little")
    try:
        box = container.unpack(data, magic, version, "file")
    except Exception:
        return damaged(data, rng)
    sections = [(name, bytes(part)) for name, part in box.sections.items()]
    meta = box.meta
    at = int(rng.integers(len(sections) + 1))
    if at == len(sections):
        meta = changed(meta, rng)
    else:
        sections[at] = (sections[at][0], within(sections[at][1], rng))
    return b"".join(container.pack(magic, version, meta, sections))


def within(section: bytes, rng: Rng) -> bytes:
    """A section damaged; what is compressed is damaged before it was."""
    try:
        text = zlib.decompress(section)
    except zlib.error:
        return damaged(section, rng)
    return zlib.compress(damaged(text, rng), 6)


def changed(meta: Any, rng: Rng) -> Any:
    """A header of which one value is another."""
    if isinstance(meta, dict) and meta:
        name = sorted(meta)[int(rng.integers(len(meta)))]
        return {**meta, name: changed(meta[name], rng)}
    if isinstance(meta, list) and meta:
        at = int(rng.integers(len(meta)))
        return [*meta[:at], changed(meta[at], rng), *meta[at + 1:]]
    return WRONG[int(rng.integers(len(WRONG)))]


WRONG: tuple[Any, ...] = (None, -1, 0, 1, 2**31, 2**63, 2**70, 1e308, "", "x" * 300, [], {}, [[]],
                          True, "float32", [0, -1, 2**40])
"""What a header holds instead of what belongs there."""


# --- structure ------------------------------------------------------------------------------------

_TOKEN = re.compile(rb"[A-Za-z_]\w*|-?\d+(?:\.\d+)?|\s+|.", re.DOTALL)
_HOSTILE = (
    b"0", b"-1", b"2", b"True", b"None", b"1.5", b"nan", b"1099511627776", b"9**9**9", b"()",
    b"(1,)", b'"x"', b"9" * 300, b"(a+b)*(a+b)", b"n//0", b"float64", b"while", b"cond",
    b"__import__", b"9223372036854775807",
)


def retold(data: bytes, rng: Rng) -> bytes:
    """A text of which one to three words or numbers are others."""
    tokens = _TOKEN.findall(data)
    for _ in range(int(rng.integers(1, 4))):
        places = [i for i, t in enumerate(tokens) if t[:1].isalnum() or t[:1] in b"-_"]
        if not places:
            break
        at, other = (places[int(rng.integers(len(places)))] for _ in range(2))
        match int(rng.integers(6)):
            case 0 | 1:
                tokens[at] = _HOSTILE[int(rng.integers(len(_HOSTILE)))]
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = tokens[other]
            case 4:
                tokens[at:at] = tokens[at:at + int(rng.integers(1, 30))]
            case _:
                del tokens[at]
    return b"".join(tokens)


def reformed(data: bytes, rng: Rng) -> bytes:
    """A JSON text of which one value is another."""
    return json.dumps(changed(json.loads(data), rng)).encode()


def requeried(data: bytes, rng: Rng) -> bytes:
    """A SQLite file with another cell, row, column or table."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as made:
        path = Path(made, "index.db")
        path.write_bytes(data)
        with sqlite3.connect(path) as base:
            tables = [name for name, in base.execute(
                "select name from sqlite_master where type = 'table'")]
            table = tables[int(rng.integers(len(tables)))]
            columns = [row[1] for row in base.execute(f'pragma table_info("{table}")')]
            column = columns[int(rng.integers(len(columns)))]
            rows = [row for row, in base.execute(f'select rowid from "{table}"')]
            row = rows[int(rng.integers(len(rows)))] if rows else 0
            value = _CELLS[int(rng.integers(len(_CELLS)))]
            statements: tuple[tuple[str, tuple[Any, ...]], ...] = (
                (f'update "{table}" set "{column}" = ? where rowid = ?', (value, row)),
                (f'update "{table}" set "{column}" = "{column}" + ? where rowid = ?',
                 (int(rng.integers(-3, 4)), row)),
                (f'delete from "{table}" where rowid = ?', (row,)),
                (f'insert or ignore into "{table}" select * from "{table}"', ()),
                (f'alter table "{table}" rename column "{column}" to "x y"', ()),
                (f'alter table "{table}" rename to "other"', ()),
                (f'drop table "{table}"', ()),
            )
            weights = (8, 8, 2, 2, 1, 1, 1)
            try:
                base.execute(*statements[int(rng.choice(7, p=np.array(weights) / sum(weights)))])
            except sqlite3.Error:
                return damaged(data, rng)
        base.close()
        return path.read_bytes()


_CELLS: tuple[Any, ...] = (None, -1, 0, 1, 2**31, 2**40, 2**63 - 1, 1.5, "", "x", "../x", b"\0" * 9,
                           "9" * 500, "[" * 500)
"""What a cell holds instead of what belongs there."""
