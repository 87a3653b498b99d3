"""Rules of arguments of `cellc.train`, besides those of `core.declared`.

`typing` keeps the metadata of an `Annotated` until the process ends, and a lambda keeps its module.
So these stand in a module that imports no other of `train`: `serialization` must be freed earlier,
because that is when a failed background save fails the process (`serialization._ExitStatus`).
"""

from __future__ import annotations

from ..core.declared import Rule, is_int

SINK_SIZE = Rule("-1 or a positive int", lambda value: True,
                 lambda value: is_int(value) and (value == -1 or value > 0))
NO_KEY = Rule("None (encrypted checkpoints are not supported)", lambda value: True,
              lambda value: value is None)
PREFIX = Rule("a function or a string without '/'", lambda value: True, lambda value: callable(
    value) or (isinstance(value, str) and "/" not in value))
DIRECTORY = Rule("None, a function or a string", lambda value: True, lambda value: value is None
                 or callable(value) or isinstance(value, str))
FREQUENCY = Rule('"epoch" or a positive int', lambda value: value == "epoch" or is_int(value),
                 lambda value: value == "epoch" or value > 0)
LINEAGE = Rule(
    "a dict of strings, ints and floats by name", lambda value: isinstance(value, dict) and all(
        isinstance(k, str) and isinstance(v, (str, int, float)) for k, v in value.items()))
