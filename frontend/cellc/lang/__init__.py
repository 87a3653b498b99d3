"""The construct compiler: Python functions over tensors, interpreted from their source.

`interpret_call` traces a call into a graph; `check_call` finds all errors of one;
`register_source` makes the text of an `exec`'d string known.
"""

from ._model import scope_paths
from .api import check_call, interpret_call, note_read, position
from .errors import CODES, CellcError, CompileError, error_at, explanation, kind
from .foresight import foresee
from .interpreter import Hooks
from .pieces.emit import Known, Pieces
from .pieces.first_run import FirstRun
from .source import register_source
from .state import State

__all__ = [
    "CODES", "CellcError", "CompileError", "FirstRun", "Hooks", "Known", "Pieces", "State",
    "check_call", "error_at", "explanation", "foresee", "interpret_call", "kind", "note_read",
    "position", "register_source", "scope_paths",
]
