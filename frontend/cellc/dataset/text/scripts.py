"""Which script each character is of: Latin, Greek, Han, common to several...

The property Script of Unicode 15.1 (`Scripts.txt` of the Unicode Character Database) is in the file
`scripts.txt`, as runs of characters of one script: the distance of each begin from the one before,
in base 36, and the script's four letters of ISO 15924.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@cache
def _runs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where each run begins, and the number of its script."""
    data = Path(__file__).with_name("scripts.txt").read_text(encoding="ascii")
    found = re.findall(r"([0-9a-z]+)([A-Z][a-z]{3})", data)
    names = sorted({name for _, name in found})
    return np.cumsum([int(step, 36) for step, _ in found]), \
        np.array([names.index(name) for _, name in found])


def scripts_of(text: str) -> np.ndarray[Any, Any]:
    """A number for each character of a text: equal for those of one script."""
    starts, scripts = _runs()
    places = np.searchsorted(starts, [ord(c) for c in text], side="right") - 1
    return np.asarray(scripts[places])
