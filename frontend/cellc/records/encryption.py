"""Encryption of MindRecord files, which cellc has not got: the names say so when they are used.

Source: `mindspore.mindrecord.set_enc_key`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MODE = "AES-GCM"
_KEYS = (16, 24, 32)


def set_enc_key(enc_key: str | None) -> None:
    """Ask for encrypted files; None for files that are not.

    Raises:
        RuntimeError: it is one: encrypted files are neither written nor read.
    """
    if enc_key is None:
        return
    if not isinstance(enc_key, str):
        raise ValueError("The input enc_key is not str.")
    if len(enc_key) not in _KEYS:
        raise ValueError("The length of input enc_key is not 16, 24, 32.")
    raise RuntimeError("set_enc_key: cellc neither writes nor reads encrypted MindRecord files. "
                       "Leave the key out, and encrypt the folder or disk they lie on.")


def set_enc_mode(enc_mode: str | Callable[..., Any] = _MODE) -> None:
    """How files would be encrypted: heeded only where there is a key."""
    if enc_mode != _MODE and not callable(enc_mode):
        raise ValueError("The input enc_mode is invalid.")


def set_dec_mode(dec_mode: str | Callable[..., Any] | None = _MODE) -> None:
    """How files would be decrypted: heeded only where there is a key."""
    if dec_mode is not None and dec_mode != _MODE and not callable(dec_mode):
        raise ValueError("The input dec_mode is not str.")
