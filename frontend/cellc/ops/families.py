"""The families of functions that load with `cellc.ops`, by the short names that the modules above
them use. (What is above loads later or not at all; families import each other one by one.)
"""

from __future__ import annotations

from . import _generated
from . import functional_array as fa
from . import functional_band as band
from . import functional_classes as classes
from . import functional_create as fc
from . import functional_grid as fg
from . import functional_index as fi
from . import functional_join as fj
from . import functional_linalg as fl
from . import functional_math as m
from . import functional_nn as fn
from . import functional_random as rnd
from . import functional_reduce as fr
from . import functional_scatter as fs
from . import functional_solve as solve
from . import functional_sort as fo
from . import functional_special as fx
from . import functional_statistics as st
from . import functional_window as win

FAMILIES = (_generated, fa, band, classes, fc, fg, fi, fj, fl, m, fn, rnd, fr, fs, solve, fo, fx,
            st, win)

__all__ = ["FAMILIES", "band", "classes", "fa", "fc", "fg", "fi", "fj", "fl", "fn", "fo", "fr",
           "fs", "fx", "m", "rnd", "solve", "st", "win"]
