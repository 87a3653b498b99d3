"""The signatures of the public places, as recorded: a change of the code may not change them.

    python -m tests.public.signatures     # writes what is there now

A line is a name with its parameters and defaults; the methods of a class follow it, without those
that a public base has.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from cellc.tensors.tensor import NotHere

from .places import PLACES, listed, module_of

RECORDED = Path(__file__).with_name("signatures.txt")


def present() -> list[str]:
    """A line for each public name."""
    named = {f"{place}.{name}".lstrip("."): getattr(module_of(place), name)
             for place in PLACES for name in listed(module_of(place))}
    public = {id(value) for value in named.values() if inspect.isclass(value)}
    lines, shown = [], {}
    for name, value in named.items():
        if inspect.isclass(value) and shown.setdefault(id(value), name) != name:
            lines.append(f"{name} = {shown[id(value)]}")
            continue
        lines.append(name + _shown(value))
        if inspect.isclass(value):
            lines += [f"    {n}{_shown(m)}" for n, m in _members(value, public).items()]
    return lines


def _members(cls: type, public: set[int]) -> dict[str, Any]:
    """The members of a class that users reach, without those of other public classes."""
    inherited = {k for base in cls.__mro__[1:] if id(base) in public for k in base.__mro__}
    return {name: getattr(cls, name, None) for name in sorted(dir(cls))
            if not name.startswith("_") and _owner(cls, name) not in inherited
            and not isinstance(vars(_owner(cls, name)).get(name), NotHere)}


def _owner(cls: type, name: str) -> type:
    return next((k for k in cls.__mro__ if name in vars(k)), object)


def _shown(value: Any) -> str:
    if isinstance(value, ModuleType):
        return ": module"
    if not callable(value):
        return f": {type(value).__name__}"
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    plain = [p.replace(annotation=p.empty) for p in parameters]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(plain)))


if __name__ == "__main__":
    RECORDED.write_text("\n".join(present()) + "\n", encoding="utf-8")
