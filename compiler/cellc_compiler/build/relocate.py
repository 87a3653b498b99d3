"""Relocations of x86-64 and aarch64 that do not depend on the load address.

Names follow the ABI documents: S is the symbol's place, A the addend, P the place relocated.
"""

from __future__ import annotations

import struct


class RelocationError(Exception):
    """A relocation that cannot be applied; the text says why."""


def apply(
    machine: str, body: bytearray, at: int, type_: int, target: int, addend: int, place: int
) -> None:
    """Apply one relocation.

    Args:
        machine: `"x86_64"` or `"aarch64"`.
        body: the segment's bytes, changed in place.
        at: where in `body`.
        type_: the ABI's number.
        target: S, from the start of the image.
        addend: A.
        place: P, from the start of the image.

    Raises:
        RelocationError: the type is unknown, absolute, or the distance does not fit.
    """
    if machine == "x86_64":
        _x86_64(body, at, type_, target, addend, place)
    else:
        _aarch64(body, at, type_, target, addend, place)


# --- x86-64 ----------------------------------------------------------------------------------

_X86_ABSOLUTE = {1: "R_X86_64_64", 10: "R_X86_64_32", 11: "R_X86_64_32S"}
_PC32, _PLT32, _GOTPCREL, _PC64, _GOTPCRELX, _REX_GOTPCRELX = 2, 4, 9, 24, 41, 42


def _x86_64(body: bytearray, at: int, type_: int, target: int, addend: int, place: int) -> None:
    value = target + addend - place
    if type_ in (_PC32, _PLT32):
        _store_signed(body, at, value, 4)
    elif type_ == _PC64:
        _store_signed(body, at, value, 8)
    elif type_ in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
        _relax_got(body, at)
        _store_signed(body, at, value, 4)
    elif type_ in _X86_ABSOLUTE:
        raise RelocationError(f"{_X86_ABSOLUTE[type_]} depends on the load address")
    else:
        raise RelocationError(f"x86-64 relocation {type_} is not supported")


def _relax_got(body: bytearray, at: int) -> None:
    """Turn an instruction that reads a table slot into one that uses the address itself."""
    opcode, operand = body[at - 2], body[at - 1]
    if opcode == 0x8B:  # mov reg, [rip + slot] -> lea reg, [rip + symbol]
        body[at - 2] = 0x8D
    elif (opcode, operand) == (0xFF, 0x15):  # call [rip + slot] -> addr32 call symbol
        body[at - 2 : at] = b"\x67\xe8"
    else:
        raise RelocationError(f"cannot relax a table reference in opcode {opcode:#x}")


def _store_signed(body: bytearray, at: int, value: int, nbytes: int) -> None:
    try:
        body[at : at + nbytes] = value.to_bytes(nbytes, "little", signed=True)
    except OverflowError:
        raise RelocationError(f"a distance of {value} does not fit {8 * nbytes} bits") from None


# --- aarch64 ---------------------------------------------------------------------------------

_ABS64, _PREL64, _PREL32 = 257, 260, 261
_ADR_LO21, _ADR_PAGE, _ADD_LO12 = 274, 275, 277
_TSTBR14, _CONDBR19, _JUMP26, _CALL26 = 279, 280, 282, 283
_LDST_SHIFT = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_GOT_PAGE, _GOT_LO12 = 311, 312


def _aarch64(body: bytearray, at: int, type_: int, target: int, addend: int, place: int) -> None:
    value = target + addend
    if type_ in (_PREL64, _PREL32):
        _store_signed(body, at, value - place, 8 if type_ == _PREL64 else 4)
        return
    word, = struct.unpack_from("<I", body, at)
    if type_ in (_ADR_PAGE, _GOT_PAGE):
        word = _adr(word, (value >> 12) - (place >> 12))
    elif type_ == _ADR_LO21:
        word = _adr(word, value - place)
    elif type_ == _ADD_LO12:
        word = _field(word, value & 0xFFF, 10, 12)
    elif type_ in _LDST_SHIFT:
        word = _field(word, _scaled(value & 0xFFF, _LDST_SHIFT[type_]), 10, 12)
    elif type_ == _GOT_LO12:
        # ldr Xt, [Xn, slot] -> add Xt, Xn, #low: the address instead of a slot that holds it.
        word = _field(0x91000000 | (word & 0x3FF), value & 0xFFF, 10, 12)
    elif type_ in (_JUMP26, _CALL26):
        word = _field(word, _branch(value - place, 26), 0, 26)
    elif type_ == _CONDBR19:
        word = _field(word, _branch(value - place, 19), 5, 19)
    elif type_ == _TSTBR14:
        word = _field(word, _branch(value - place, 14), 5, 14)
    elif type_ == _ABS64:
        raise RelocationError("R_AARCH64_ABS64 depends on the load address")
    else:
        raise RelocationError(f"aarch64 relocation {type_} is not supported")
    struct.pack_into("<I", body, at, word)


def _field(word: int, value: int, shift: int, bits: int) -> int:
    mask = ((1 << bits) - 1) << shift
    return (word & ~mask & 0xFFFFFFFF) | ((value << shift) & mask)


def _adr(word: int, value: int) -> int:
    if not -(1 << 20) <= value < 1 << 20:
        raise RelocationError(f"a distance of {value} does not fit 21 bits")
    return _field(_field(word, value & 3, 29, 2), value >> 2, 5, 19)


def _branch(distance: int, bits: int) -> int:
    steps = _scaled(distance, 2)
    if not -(1 << (bits - 1)) <= steps < 1 << (bits - 1):
        raise RelocationError(f"a branch over {distance} bytes does not fit {bits} bits")
    return steps


def _scaled(value: int, shift: int) -> int:
    if value & ((1 << shift) - 1):
        raise RelocationError(f"an offset of {value} is not a multiple of {1 << shift}")
    return value >> shift
