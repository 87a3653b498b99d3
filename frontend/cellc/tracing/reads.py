"""What a trace read from outside, and whether it has changed since.

Attributes of Cells need no look: setting one tells its readers (`watch`). Everything else is
compared before each call of the entry that read it: variables and attributes of plain objects by
identity (numbers and strings by value), lists, dicts, sets, small tensors and arrays by a copy of
what was in them. A network that reads none of that pays nothing.
"""

from __future__ import annotations

import types
from array import array
from collections import deque
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.lazy import lazy_module
from cellc_runtime.records import dataclass

from ..core.module_names import module_of
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from .tracer import BAKED, GraphTensor

if TYPE_CHECKING:
    from ..storage import elsewhere
else:  # numbers of the network that lie on another rank
    elsewhere = lazy_module("cellc.storage.elsewhere")

LARGEST_ARRAY = 1 << 20
"""Bytes of a numpy array up to which a change in place is noticed."""
_BOOKS = frozenset(
    {"_flags", "_hooks", "_cells", "_params", "_buffers", "_inner", "_recompute_options",
     "_recompute_budget"}
)
"""What Cells keep of their own: methods that change it tell."""
_OFFERED = frozenset({"param_groups"})
"""What Cells of cellc hold for users to change in place."""
_GONE = object()
_PLAIN = (bool, int, float, complex, str, bytes)


def same(a: Any, b: Any) -> bool:
    """Whether a value still is what it was."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, _PLAIN):
        return False
    return repr(a) == repr(b) if isinstance(a, (float, complex)) else bool(a == b)


def short(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, (*_PLAIN, type(None))):
        text = repr(value)
    elif isinstance(value, GraphTensor):
        text = f"a tensor {value._type}"
    elif isinstance(value, Tensor):
        text = f"Tensor {value._type}"
        if value._type.size <= 4 and not elsewhere.is_elsewhere(value):
            text += f" {value._snapshot().tolist()}"
    elif isinstance(value, np.ndarray):
        text = f"array {value.dtype}{list(value.shape)}"
        if value.size <= 4:
            text += f" {value.tolist()}"
    elif isinstance(value, (list, tuple)):
        text = ", ".join(short(v) for v in value)
        text = f"[{text}]" if isinstance(value, list) else f"({text})"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{k!r}: {short(v)}" for k, v in value.items()) + "}"
    elif value is _GONE:
        text = "nothing"
    elif type(value).__name__ == "CellHooks":
        text = f"{len(value)} hook{'s' * (len(value) != 1)}"
    else:
        name = getattr(value, "__qualname__", None)
        text = f"{name}" if isinstance(name, str) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(slots=True)
class Read:
    """Something read while compiling.

    Attributes:
        label: what messages call it.
        where: the place in the source, `file:line`, or "".
        now: reads it again.
        value: what it was.
        before: `value` in words.
        content: a copy of what was in it, for what can change in place; None for the rest.
        watched: setting it is told by `watch`; only changes in place need a look.
        key: the identity of what holds it, and its name.
    """

    label: str
    where: str
    now: Callable[[], Any]
    value: Any
    before: str = ""
    content: Any = None
    watched: bool = False
    key: tuple[int, str] = (0, "")

    @property
    def compared(self) -> bool:
        """Whether a call must look at it."""
        return not self.watched or self.content is not None

    def changed(self) -> bool:
        """Whether it is another value, or another content, now."""
        if not self.watched and not same(self.now(), self.value):
            return True
        return self.content is not None and not holds_content(self.value, self.content)

    def describe(self) -> str:
        """What it was and is, and where it was read."""
        where = f" (read at {self.where})" if self.where else ""
        now = self.now()
        if now is self.value and self.content is not None and short(now) == self.before:
            return f"{self.label} was changed in place{where}"
        return f"{self.label}: {self.before} -> {short(now)}{where}"


def content(value: Any) -> Any:
    """A copy of what can change in a value in place; None if nothing can."""
    if isinstance(value, (list, tuple, deque)):
        inner = [content(v) for v in value]
        if isinstance(value, tuple) and all(c is None for c in inner):
            return None
        return list(value), inner
    if isinstance(value, dict):
        return list(value.items()), [content(v) for v in value.values()]
    if isinstance(value, (set, bytearray, array)):
        return (copy(value),)
    if isinstance(value, Tensor):
        if isinstance(value, (Parameter, GraphTensor)) or value._layout.size > BAKED:
            return None
        return value._data, value._data.tobytes()
    if isinstance(value, np.ndarray) and value.nbytes <= LARGEST_ARRAY and value.dtype != object:
        return value.shape, value.dtype, value.tobytes()
    return None


def holds_content(value: Any, kept: Any) -> bool:
    """Whether what is in a value still is what was."""
    if isinstance(value, Tensor):
        data, raw = kept
        return value._data is data and bool(data.tobytes() == raw)
    if isinstance(value, np.ndarray):
        shape, dtype, raw = kept
        return value.shape == shape and value.dtype == dtype and bool(value.tobytes() == raw)
    if isinstance(value, (set, bytearray, array)):
        return bool(value == kept[0])
    items, inner = kept
    if len(value) != len(items):
        return False
    if isinstance(value, dict):
        for (k, v), (old_k, old_v) in zip(value.items(), items, strict=True):
            if not (same(k, old_k) or k == old_k) or not same(v, old_v):
                return False
        values: Any = value.values()
    else:
        values = value
        if not all(map(same, value, items)):
            return False
    return all(c is None or holds_content(v, c) for v, c in zip(values, inner, strict=True))


class Reads:
    """Collects what a trace reads from outside.

    Args:
        place: the place in the source that is being compiled, `file:line`.
    """

    def __init__(self, place: Callable[[], str]) -> None:
        self.place = place
        self.found: dict[tuple[int, str], Read] = {}
        self.attributes: dict[tuple[int, str], tuple[Any, str]] = {}

    def of_attribute(self, target: Any, name: str) -> None:
        """An attribute of a Cell, a Parameter or a user's object."""
        key = id(target), name
        if key in self.attributes:
            return
        self.attributes[key] = target, name
        if isinstance(target, type):
            self._of_class(target, name)
            return
        kind, table = type(target), getattr(target, "__dict__", {})
        tells = isinstance(target, Tensor) or _is_cell(kind)
        label = f"{'the hooks' if name == '_hooks' else name} of {kind.__name__}"
        owner = next((c for c in kind.__mro__ if name in c.__dict__), None)
        value = owner.__dict__[name] if owner is not None else _GONE
        if name in table:
            self._note(key, label, lambda: table.get(name, _GONE), table[name], tells)
        elif owner is None and tells:  # a Parameter or Cell of a Cell
            found = getattr(target, name, _GONE)
            self._note(key, label, lambda: getattr(target, name, _GONE), found, True)
        elif isinstance(value, types.MemberDescriptorType):
            found = getattr(target, name, _GONE)
            self._note(key, label, lambda: getattr(target, name, _GONE), found, False)
        elif owner is not None and not _fixed_in_class(owner, value):
            self._note(key, f"{name} of the class {owner.__name__}",
                       lambda: owner.__dict__.get(name, _GONE), value, False)

    def _of_class(self, target: type, name: str) -> None:
        owner = next((c for c in target.__mro__ if name in c.__dict__), None)
        if owner is not None and not _fixed_in_class(owner, owner.__dict__[name]):
            self._note((id(target), name), f"{name} of the class {target.__name__}",
                       lambda: getattr(target, name, _GONE), owner.__dict__[name], False)

    def of_globals(self, table: dict[str, Any], name: str) -> None:
        """A global name; those of modules and of cellc itself do not change."""
        value = table.get(name)
        if not _fixed(value):
            self._note((id(table), name), f"the variable {name}",
                       lambda: table.get(name, _GONE), value, False)

    def of_closure(self, cell: types.CellType, name: str) -> None:
        """A captured variable."""
        if not _fixed(cell.cell_contents):
            self._note((id(cell), name), f"the variable {name}", lambda: _contents(cell),
                       cell.cell_contents, False)

    def _note(
        self, key: tuple[int, str], label: str, now: Callable[[], Any], value: Any, tells: bool
    ) -> None:
        if key not in self.found:
            self.found[key] = Read(label, self.place(), now, value, "", None, tells, key)

    def finish(self) -> list[Read]:
        """All reads, with what is in them now, at the end of the trace."""
        for (owner, name), read in self.found.items():
            target = self.attributes.get((owner, name))
            own = target is not None and (
                name in _BOOKS or (name not in _OFFERED
                and module_of(type(target[0])).startswith("cellc."))
            )  # what a layer of cellc holds does not change in place
            read.content = None if own else content(read.value)
            read.before = short(read.value)
        return list(self.found.values())


def _is_cell(kind: type) -> bool:
    return any(c.__module__ == "cellc.nn.cell" and c.__name__ == "Cell" for c in kind.__mro__)


def _fixed_in_class(owner: type, value: Any) -> bool:
    """Whether a class attribute is taken not to change: functions, and all of cellc's."""
    return module_of(owner).split(".")[0] in ("cellc", "builtins") or callable(value) \
        or hasattr(type(value), "__get__")


def _fixed(value: Any) -> bool:
    module = getattr(value, "__module__", None) if callable(value) else None
    return isinstance(value, types.ModuleType) or (
        isinstance(module, str) and module.split(".")[0] == "cellc"
    )


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # emptied by `del`
        return _GONE

