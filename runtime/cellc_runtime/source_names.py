"""How messages name the files of the user's functions: those of notebooks' cells by their numbers.

The file of a cell has a name that its text gives (`/tmp/ipykernel_812/99533460.py`), which tells a
reader nothing. IPython knows which cell it is, and its own tracebacks say `Cell In[3], line 2`.
"""

from __future__ import annotations

import sys


def cell_name(file: str) -> str:
    """`In[3]` for the file of the third cell of a notebook or of IPython's prompt; else ""."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", str)()
    format_name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = None if format_name is None else format_name(file)
    return found[1] if found else ""


def short_name(file: str) -> str:
    """A file without its folders, or a notebook's cell (`In[3]`)."""
    known = "IPython" in sys.modules and cell_name(file)
    return known or file.replace("\\", "/").rpartition("/")[2]


def long_name(file: str) -> str:
    """A file as tracebacks have it: `File "/home/user/net.py"`, `Cell In[3]`."""
    cell = cell_name(file)
    return f"Cell {cell}" if cell else f'File "{file}"'
