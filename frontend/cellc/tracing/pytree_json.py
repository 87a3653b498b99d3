"""Structures of arguments and results as JSON, for files."""

from __future__ import annotations

from typing import Any

from cellc_runtime.errors import ArtifactError

from .pytree import Box, Built, Known, Leaf, ObjectKind, Structure

_KINDS: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict}


def to_json(structure: Structure) -> Any:
    """A JSON value; named tuples become tuples."""
    if isinstance(structure, Leaf):
        if isinstance(structure.kind, ObjectKind):
            raise TypeError(f"a {structure.kind.cls.__name__} that only a run knows is among the "
                            "results, and cannot be saved")
        if structure.kind is not None:
            return {"leaf": structure.number, "kind": structure.kind.__name__}
        return structure.number
    if isinstance(structure, Known):
        value = structure.value
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise TypeError(
                f"a value of type {type(value).__name__} among the results (or arguments) cannot "
                "be saved; only tensors, None, bool, int, float, str and tuples, lists and dicts "
                "of them can"
            )
        return {"known": value}
    if isinstance(structure, Built):
        raise TypeError("an object that each call makes is among the results, and cannot be saved")
    kind = next((name for name, k in _KINDS.items() if issubclass(structure.kind, k)), None)
    if kind is None:
        raise TypeError(
            f"a {structure.kind.__name__} among the results (or arguments) cannot be saved; only "
            "tuples, lists and dicts can"
        )
    if not all(isinstance(k, (str, int)) for k in structure.keys):
        raise TypeError("a dict among the results (or arguments) has keys that cannot be saved")
    parts = [to_json(p) for p in structure.parts]
    return {"box": kind, "keys": list(structure.keys), "parts": parts}


def from_json(value: Any, count: int, depth: int = 0) -> Structure:
    """The structure of a JSON value from an untrusted file, with `count` leaves. Raises
    ArtifactError if it is none."""
    if type(value) is int and 0 <= value < count:
        return Leaf(value)
    if isinstance(value, dict) and value.keys() == {"leaf", "kind"}:
        number, name = value["leaf"], value["kind"]
        if type(number) is int and 0 <= number < count and name in ("bool", "int", "float"):
            return Leaf(number, {"bool": bool, "int": int, "float": float}[name])
    if isinstance(value, dict) and value.keys() == {"known"}:
        known = value["known"]
        if known is None or isinstance(known, (bool, int, float, str)):
            return Known(known)
    if isinstance(value, dict) and value.keys() == {"box", "keys", "parts"} and depth < 100:
        kind = _KINDS.get(value["box"]) if isinstance(value["box"], str) else None
        keys, parts = value["keys"], value["parts"]
        good = kind is not None and isinstance(keys, list) and isinstance(parts, list)
        if good and all(isinstance(k, (str, int)) for k in keys) and (
            len(keys) == (len(parts) if kind is dict else 0)
        ):
            assert kind is not None
            return Box(kind, tuple(keys), tuple(from_json(p, count, depth + 1) for p in parts))
    raise ArtifactError("the network's arguments or results are malformed")
