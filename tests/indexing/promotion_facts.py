"""The element type of `a OP b`, as MindSpore 2.10 gives it in PyNative mode on a CPU.

Recorded from runs of all operators on all pairs; `-` is where MindSpore raises, or has no kernel.
"""

from __future__ import annotations

CODES = {
    "b": "bool_", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8",
    "u2": "uint16", "u4": "uint32", "u8": "uint64", "f2": "float16", "bf": "bfloat16",
    "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
}
"""Codes of the tables, in the order of their rows and columns."""

TENSORS: dict[str, str] = {
    "add sub": """
        b   i1  i2  i4  i8  u1  u2  u4  u8  f2  bf  f4  f8  c8  c16
        i1  i1  i2  i4  i8  i2  -   -   -   f2  bf  f4  f8  c8  c16
        i2  i2  i2  i4  i8  i2  -   -   -   f2  bf  f4  f8  c8  c16
        i4  i4  i4  i4  i8  i4  -   -   -   f2  bf  f4  f8  c8  c16
        i8  i8  i8  i8  i8  i8  -   -   -   f2  bf  f4  f8  c8  c16
        u1  i2  i2  i4  i8  u1  -   -   -   f2  bf  f4  f8  c8  c16
        u2  -   -   -   -   -   u2  -   -   -   -   -   -   -   -
        u4  -   -   -   -   -   -   u4  -   -   -   -   -   -   -
        u8  -   -   -   -   -   -   -   u8  -   -   -   -   -   -
        f2  f2  f2  f2  f2  f2  -   -   -   f2  f4  f4  f8  c8  c16
        bf  bf  bf  bf  bf  bf  -   -   -   f4  bf  f4  f8  c8  c16
        f4  f4  f4  f4  f4  f4  -   -   -   f4  f4  f4  f8  c8  c16
        f8  f8  f8  f8  f8  f8  -   -   -   f8  f8  f8  f8  c16 c16
        c8  c8  c8  c8  c8  c8  -   -   -   c8  c8  c8  c16 c8  c16
        c16 c16 c16 c16 c16 c16 -   -   -   c16 c16 c16 c16 c16 c16
    """,
    "mul": """
        b   i1  i2  i4  i8  u1  -   -   -   f2  bf  f4  f8  -   -
        i1  i1  i2  i4  i8  i2  -   -   -   f2  bf  f4  f8  -   -
        i2  i2  i2  i4  i8  i2  -   -   -   f2  bf  f4  f8  -   -
        i4  i4  i4  i4  i8  i4  -   -   -   f2  bf  f4  f8  -   -
        i8  i8  i8  i8  i8  i8  -   -   -   f2  bf  f4  f8  -   -
        u1  i2  i2  i4  i8  u1  -   -   -   f2  bf  f4  f8  -   -
        -   -   -   -   -   -   u2  -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   u4  -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   u8  -   -   -   -   -   -
        f2  f2  f2  f2  f2  f2  -   -   -   f2  f4  f4  f8  -   -
        bf  bf  bf  bf  bf  bf  -   -   -   f4  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f4  f4  f4  f8  -   -
        f8  f8  f8  f8  f8  f8  -   -   -   f8  f8  f8  f8  -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   c8  -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   c16
    """,
    "truediv": """
        f4  f4  f4  f4  f4  f4  -   -   -   f2  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f2  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f2  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f2  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f2  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f2  bf  f4  f8  -   -
        -   -   -   -   -   -   f4  -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   f4  -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   f4  -   -   -   -   -   -
        f2  f2  f2  f2  f2  f2  -   -   -   f2  f4  f4  f8  -   -
        bf  bf  bf  bf  bf  bf  -   -   -   f4  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f4  f4  f4  f8  -   -
        f8  f8  f8  f8  f8  f8  -   -   -   f8  f8  f8  f8  -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   c8  -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   c16
    """,
    "floordiv": """
        b   i1  i2  i4  i8  u1  u2  u4  u8  f2  bf  f4  f8  -   -
        i1  i1  i2  i4  i8  i2  -   -   -   f2  bf  f4  f8  -   -
        i2  i2  i2  i4  i8  i2  -   -   -   f2  bf  f4  f8  -   -
        i4  i4  i4  i4  i8  i4  -   -   -   f2  bf  f4  f8  -   -
        i8  i8  i8  i8  i8  i8  -   -   -   f2  bf  f4  f8  -   -
        u1  i2  i2  i4  i8  u1  -   -   -   f2  bf  f4  f8  -   -
        u2  -   -   -   -   -   u2  -   -   -   -   -   -   -   -
        u4  -   -   -   -   -   -   u4  -   -   -   -   -   -   -
        u8  -   -   -   -   -   -   -   u8  -   -   -   -   -   -
        f2  f2  f2  f2  f2  f2  -   -   -   f2  f4  f4  f8  -   -
        bf  bf  bf  bf  bf  bf  -   -   -   f4  bf  f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f4  f4  f4  f8  -   -
        f8  f8  f8  f8  f8  f8  -   -   -   f8  f8  f8  f8  -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
    """,
    "mod": """
        -   i1  i2  i4  i8  u1  -   -   -   f2  -   f4  f8  -   -
        i1  i1  i2  i4  i8  i2  -   -   -   f2  -   f4  f8  -   -
        i2  i2  i2  i4  i8  i2  -   -   -   f2  -   f4  f8  -   -
        i4  i4  i4  i4  i8  i4  -   -   -   f2  -   f4  f8  -   -
        i8  i8  i8  i8  i8  i8  -   -   -   f2  -   f4  f8  -   -
        u1  i2  i2  i4  i8  u1  -   -   -   f2  -   f4  f8  -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        f2  f2  f2  f2  f2  f2  -   -   -   f2  f4  f4  f8  -   -
        -   -   -   -   -   -   -   -   -   f4  -   f4  f8  -   -
        f4  f4  f4  f4  f4  f4  -   -   -   f4  f4  f4  f8  -   -
        f8  f8  f8  f8  f8  f8  -   -   -   f8  f8  f8  f8  -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
    """,
    "pow": """
        -   i1  i2  i4  i8  u1  u2  u4  u8  f2  -   f4  f8  c8  c16
        i1  i1  i2  i4  i8  i2  -   -   -   f2  -   f4  f8  c8  c16
        i2  i2  i2  i4  i8  i2  -   -   -   f2  -   f4  f8  c8  c16
        i4  i4  i4  i4  i8  i4  -   -   -   f2  -   f4  f8  c8  c16
        i8  i8  i8  i8  i8  i8  -   -   -   f2  -   f4  f8  c8  c16
        u1  i2  i2  i4  i8  u1  -   -   -   f2  -   f4  f8  c8  c16
        u2  -   -   -   -   -   u2  -   -   -   -   -   -   -   -
        u4  -   -   -   -   -   -   u4  -   -   -   -   -   -   -
        u8  -   -   -   -   -   -   -   u8  -   -   -   -   -   -
        f2  f2  f2  f2  f2  f2  -   -   -   f2  f4  f4  f8  c8  c16
        -   -   -   -   -   -   -   -   -   f4  -   f4  f8  c8  c16
        f4  f4  f4  f4  f4  f4  -   -   -   f4  f4  f4  f8  c8  c16
        f8  f8  f8  f8  f8  f8  -   -   -   f8  f8  f8  f8  c16 c16
        c8  c8  c8  c8  c8  c8  -   -   -   c8  c8  c8  c16 c8  c16
        c16 c16 c16 c16 c16 c16 -   -   -   c16 c16 c16 c16 c16 c16
    """,
    "matmul": """
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   i1  -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   i2  -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   i4  -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   i8  -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   u1  -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   f2  -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   f4  -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   f8  -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   c8  -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   c16
    """,
    "and or xor": """
        b   i1  i2  i4  i8  u1  u2  u4  u8  -   -   -   -   -   -
        i1  i1  i2  i4  i8  i2  -   -   -   -   -   -   -   -   -
        i2  i2  i2  i4  i8  i2  -   -   -   -   -   -   -   -   -
        i4  i4  i4  i4  i8  i4  -   -   -   -   -   -   -   -   -
        i8  i8  i8  i8  i8  i8  -   -   -   -   -   -   -   -   -
        u1  i2  i2  i4  i8  u1  -   -   -   -   -   -   -   -   -
        u2  -   -   -   -   -   u2  -   -   -   -   -   -   -   -
        u4  -   -   -   -   -   -   u4  -   -   -   -   -   -   -
        u8  -   -   -   -   -   -   -   u8  -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
    """,
    "lshift rshift": """
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
    """,
    "eq": """
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        -   -   -   -   -   -   b   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   b   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   b   -   -   -   -   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
    """,
    "ne": """
        b   b   b   b   b   b   b   b   b   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   -   b   b   b   b
        b   -   -   -   -   -   b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   b   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   b   -   -   -   -   -   -
        b   b   b   b   b   b   -   -   -   b   b   b   b   b   b
        -   -   -   -   -   -   -   -   -   b   -   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   b   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   b   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   b   b   b   b   b
        b   b   b   b   b   b   -   -   -   b   b   b   b   b   b
    """,
    "lt": """
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        -   -   -   -   -   -   b   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   b   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   b   -   -   -   -   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
    """,
    "le gt ge": """
        b   b   b   b   b   b   b   b   b   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   -   b   b   -   -
        b   -   -   -   -   -   b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   b   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   b   -   -   -   -   -   -
        b   b   b   b   b   b   -   -   -   b   b   b   b   -   -
        -   -   -   -   -   -   -   -   -   b   -   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   b   b   b   -   -
        b   b   b   b   b   b   -   -   -   b   b   b   b   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
    """,
}
"""Operators -> element type of two tensors (rows: the left one)."""

NUMBERS = ('True', '2', '-3', '2.5', '1+2j',
           'np.float32(2.5)', 'np.float64(2.5)', '[1, 2, 3]', '[1.5, 2.0, 3.0]')
"""What stands beside a tensor, as Python text."""

RIGHT: dict[str, str] = {
    "add": """
        b   i8  i8  f4  -   f4  f4  -   -
        i1  i1  i1  f4  -   f4  f4  i1  i1
        i2  i2  i2  f4  -   f4  f4  i2  i2
        i4  i4  i4  f4  -   f4  f4  i4  i4
        i8  i8  i8  f4  -   f4  f4  i8  i8
        u1  u1  u1  f4  -   f4  f4  u1  u1
        u2  -   -   -   -   -   -   u2  u2
        u4  -   -   -   -   -   -   u4  u4
        u8  -   -   -   -   -   -   u8  u8
        f2  f2  f2  f2  -   f2  f2  f2  f2
        bf  bf  bf  bf  -   bf  bf  bf  bf
        f4  f4  f4  f4  -   f4  f4  f4  f4
        f8  f8  f8  f8  -   f8  f8  f8  f8
        c8  c8  c8  c8  -   c8  c8  c8  c8
        c16 c16 c16 c16 -   c16 c16 c16 c16
    """,
    "sub": """
        b   i8  i8  f4  -   f4  f4  -   -
        i1  i1  i1  f4  -   f4  f4  i1  i1
        i2  i2  i2  f4  -   f4  f4  i2  i2
        i4  i4  i4  f4  -   f4  f4  i4  i4
        i8  i8  i8  f4  -   f4  f4  i8  i8
        u1  u1  u1  f4  -   f4  f4  u1  u1
        u2  -   -   -   -   -   -   u2  u2
        u4  -   -   -   -   -   -   -   -
        u8  -   -   -   -   -   -   -   -
        f2  f2  f2  f2  -   f2  f2  f2  f2
        bf  bf  bf  bf  -   bf  bf  -   -
        f4  f4  f4  f4  -   f4  f4  f4  f4
        f8  f8  f8  f8  -   f8  f8  f8  f8
        c8  c8  c8  c8  -   c8  c8  c8  c8
        c16 c16 c16 c16 -   c16 c16 c16 c16
    """,
    "mul": """
        b   i8  i8  f4  -   f4  f4  -   -
        i1  i1  i1  f4  -   f4  f4  -   -
        i2  i2  i2  f4  -   f4  f4  -   -
        i4  i4  i4  f4  -   f4  f4  -   -
        i8  i8  i8  f4  -   f4  f4  -   -
        u1  u1  u1  f4  -   f4  f4  -   -
        u2  u2  u2  -   -   -   -   -   -
        u4  u4  u4  -   -   -   -   -   -
        u8  u8  u8  -   -   -   -   -   -
        f2  f2  f2  f2  -   f2  f2  -   -
        bf  bf  bf  bf  -   bf  bf  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f8  f8  f8  f8  -   f8  f8  -   -
        c8  c8  c8  c8  -   c8  c8  -   -
        c16 c16 c16 c16 -   c16 c16 -   -
    """,
    "truediv": """
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f2  f2  f2  f2  -   f2  f2  -   -
        bf  bf  bf  bf  -   bf  bf  -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f8  f8  f8  f8  -   f8  f8  -   -
        c8  c8  c8  c8  -   c8  c8  -   -
        c16 c16 c16 c16 -   c16 c16 -   -
    """,
    "floordiv": """
        b   i8  i8  f4  -   f4  f4  b   b
        i1  i1  i1  f4  -   f4  f4  i1  i1
        i2  i2  i2  f4  -   f4  f4  i2  i2
        i4  i4  i4  f4  -   f4  f4  i4  i4
        i8  i8  i8  f4  -   f4  f4  i8  i8
        u1  u1  u1  f4  -   f4  f4  u1  u1
        u2  -   -   -   -   -   -   u2  u2
        u4  -   -   -   -   -   -   u4  u4
        u8  -   -   -   -   -   -   u8  u8
        f2  f2  f2  f2  -   f2  f2  f2  f2
        bf  bf  bf  bf  -   bf  bf  bf  bf
        f4  f4  f4  f4  -   f4  f4  f4  f4
        f8  f8  f8  f8  -   f8  f8  f8  f8
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
    "mod": """
        -   i8  i8  f4  -   f4  f4  -   -
        i1  i1  i1  f4  -   f4  f4  -   -
        i2  i2  i2  f4  -   f4  f4  -   -
        i4  i4  i4  f4  -   f4  f4  -   -
        i8  i8  i8  f4  -   f4  f4  -   -
        u1  u1  u1  f4  -   f4  f4  -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        f2  f2  f2  f2  -   f2  f2  -   -
        -   -   -   -   -   -   -   -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f8  f8  f8  f8  -   f8  f8  -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
    "pow": """
        -   i8  i8  f4  -   f4  f4  -   -
        i1  i1  i1  f4  -   f4  f4  -   -
        i2  i2  i2  f4  -   f4  f4  -   -
        i4  i4  i4  f4  -   f4  f4  -   -
        i8  i8  i8  f4  -   f4  f4  -   -
        u1  u1  u1  f4  -   f4  f4  -   -
        u2  -   -   -   -   -   -   -   -
        u4  -   -   -   -   -   -   -   -
        u8  -   -   -   -   -   -   -   -
        f2  f2  f2  f2  -   f2  f2  -   -
        -   -   -   -   -   -   -   -   -
        f4  f4  f4  f4  -   f4  f4  -   -
        f8  f8  f8  f8  -   f8  f8  -   -
        c8  c8  c8  c8  -   c8  c8  -   -
        c16 c16 c16 c16 -   c16 c16 -   -
    """,
    "and or xor": """
        b   i8  i8  -   -   -   -   -   -
        i1  i1  i1  -   -   -   -   -   -
        i2  i2  i2  -   -   -   -   -   -
        i4  i4  i4  -   -   -   -   -   -
        i8  i8  i8  -   -   -   -   -   -
        u1  u1  u1  -   -   -   -   -   -
        u2  -   -   -   -   -   -   -   -
        u4  -   -   -   -   -   -   -   -
        u8  -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
    "eq": """
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   -   -   -   -   -   -
        b   b   b   -   -   -   -   -   -
        b   b   b   -   -   -   -   -   -
        b   b   b   b   -   -   b   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
    """,
    "ne": """
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   b   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
        b   b   b   b   -   -   b   -   -
    """,
    "lt": """
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   b   b   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
    "le gt ge": """
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   b   b   b   -   b   b   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   b   b   -   -
        b   b   b   b   -   b   b   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
}
"""Operators -> element type of a tensor (rows) and a number (columns) on its right."""

LEFT: dict[str, str] = {
    "add": """
        b   i8  i8  f4  -   -   -   -   -
        i1  i1  i1  f4  -   -   -   i1  i1
        i2  i2  i2  f4  -   -   -   i2  i2
        i4  i4  i4  f4  -   -   -   i4  i4
        i8  i8  i8  f4  -   -   -   i8  i8
        u1  u1  u1  f4  -   -   -   u1  u1
        u2  -   -   -   -   -   -   u2  u2
        u4  -   -   -   -   -   -   u4  u4
        u8  -   -   -   -   -   -   u8  u8
        f2  f2  f2  f2  -   -   -   f2  f2
        bf  bf  bf  bf  -   -   -   bf  bf
        f4  f4  f4  f4  -   -   -   f4  f4
        f8  f8  f8  f8  -   -   -   f8  f8
        c8  c8  c8  c8  -   -   -   c8  c8
        c16 c16 c16 c16 -   -   -   c16 c16
    """,
    "sub": """
        -   i8  i8  f4  -   -   -   -   -
        i1  i1  i1  f4  -   -   -   i1  i1
        i2  i2  i2  f4  -   -   -   i2  i2
        i4  i4  i4  f4  -   -   -   i4  i4
        i8  i8  i8  f4  -   -   -   i8  i8
        u1  u1  u1  f4  -   -   -   u1  u1
        u2  -   -   -   -   -   -   u2  u2
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        f2  f2  f2  f2  -   -   -   f2  f2
        -   -   -   -   -   -   -   -   -
        f4  f4  f4  f4  -   -   -   f4  f4
        f8  f8  f8  f8  -   -   -   f8  f8
        c8  c8  c8  c8  -   -   -   c8  c8
        c16 c16 c16 c16 -   -   -   c16 c16
    """,
    "mul": """
        b   i8  i8  f4  -   -   -   -   -
        i1  i1  i1  f4  -   -   -   -   -
        i2  i2  i2  f4  -   -   -   -   -
        i4  i4  i4  f4  -   -   -   -   -
        i8  i8  i8  f4  -   -   -   -   -
        u1  u1  u1  f4  -   -   -   -   -
        u2  u2  u2  -   -   -   -   -   -
        u4  u4  u4  -   -   -   -   -   -
        u8  u8  u8  -   -   -   -   -   -
        f2  f2  f2  f2  -   -   -   -   -
        bf  bf  bf  bf  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f8  f8  f8  f8  -   -   -   -   -
        c8  c8  c8  c8  -   -   -   -   -
        c16 c16 c16 c16 -   -   -   -   -
    """,
    "truediv": """
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f2  f2  f2  f2  -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f8  f8  f8  f8  -   -   -   -   -
        c8  c8  c8  c8  -   -   -   -   -
        c16 c16 c16 c16 -   -   -   -   -
    """,
    "floordiv": """
        b   i8  i8  f4  -   -   -   b   b
        i1  i1  i1  f4  -   -   -   i1  i1
        i2  i2  i2  f4  -   -   -   i2  i2
        i4  i4  i4  f4  -   -   -   i4  i4
        i8  i8  i8  f4  -   -   -   i8  i8
        u1  u1  u1  f4  -   -   -   u1  u1
        u2  -   -   -   -   -   -   u2  u2
        u4  -   -   -   -   -   -   u4  u4
        u8  -   -   -   -   -   -   u8  u8
        f2  f2  f2  f2  -   -   -   f2  f2
        bf  bf  bf  bf  -   -   -   bf  bf
        f4  f4  f4  f4  -   -   -   f4  f4
        f8  f8  f8  f8  -   -   -   f8  f8
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
    "mod": """
        -   i8  i8  f4  -   -   -   -   -
        i1  i1  i1  f4  -   -   -   -   -
        i2  i2  i2  f4  -   -   -   -   -
        i4  i4  i4  f4  -   -   -   -   -
        i8  i8  i8  f4  -   -   -   -   -
        u1  u1  u1  f4  -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        f2  f2  f2  f2  -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        f4  f4  f4  f4  -   -   -   -   -
        f8  f8  f8  f8  -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
    "pow": """
        -   i8  i8  f4  -   -   -   -   -
        i1  i1  i1  f4  -   -   -   i1  i1
        i2  i2  i2  f4  -   -   -   i2  i2
        i4  i4  i4  f4  -   -   -   i4  i4
        i8  i8  i8  f4  -   -   -   i8  i8
        u1  u1  u1  f4  -   -   -   u1  u1
        u2  -   -   -   -   -   -   u2  u2
        u4  -   -   -   -   -   -   u4  u4
        u8  -   -   -   -   -   -   u8  u8
        f2  f2  f2  f2  -   -   -   f2  f2
        -   -   -   -   -   -   -   -   -
        f4  f4  f4  f4  -   -   -   f4  f4
        f8  f8  f8  f8  -   -   -   f8  f8
        c8  c8  c8  c8  -   -   -   c8  c8
        c16 c16 c16 c16 -   -   -   c16 c16
    """,
    "eq": """
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   -   -   -   -   -   -
        b   b   b   -   -   -   -   -   -
        b   b   b   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
    """,
    "ne": """
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
    """,
    "lt le ge": """
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
    "gt": """
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        b   b   b   b   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
        -   -   -   -   -   -   -   -   -
    """,
}
"""Operators -> element type of a number (columns) on the left of a tensor (rows)."""
