"""The error of the command line for impossible requests.

Every function of this package raises it: for texts that cannot be read, files that cannot be read
or written, names that are not there, and what does not fit the network or the file.
"""

from __future__ import annotations

import re


class UserError(Exception):
    """Wrong usage, with what to do instead."""


def about(path: str, error: Exception) -> UserError:
    """The error of a file, which names the file once."""
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    name = path.rpartition("/")[2]
    if path in text or re.search(rf"\b{re.escape(name)}\b", text):
        return UserError(text if path in text else text.replace(name, path, 1))
    return UserError(f"{path}: {text}")
