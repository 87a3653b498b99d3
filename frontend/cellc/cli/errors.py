"""Errors of the command line for impossible requests."""

from __future__ import annotations


class UserError(Exception):
    """Wrong usage, with what to do instead."""
