"""What is said to users of the command line who asked for something that cannot be."""

from __future__ import annotations


class UserError(Exception):
    """Wrong usage, with what to do instead."""
