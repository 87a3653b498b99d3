"""Verification: a network run in PyNative, compiled and in float64, and what differs.

`verify` holds the compiled network against PyNative end to end (results, gradients, a step of
training, prints, random numbers, what changes), then every node of its graphs against the eager
engine and the float64 reference. `cellc verify` is the same from the command line.
"""

from .report import Finding, Report, Worst
from .verify import verify

__all__ = ["Finding", "Report", "Worst", "verify"]
