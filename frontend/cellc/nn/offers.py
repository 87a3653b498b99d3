"""The names of the packages `nn.layer`, `nn.loss` and `nn.optim`: the names of `nn` that modules in
them define, as MindSpore's packages of these names do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_runtime.lazy import imported, no_attribute


def offers(
    package: str, own: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package below `cellc.nn`.

    `nn` imports these packages' modules, so it is asked when a name is, not before.

    Args:
        own: what only the package has by its name (in `nn` it is something else, or nothing), with
            the module that defines it.
    """

    apart = own or {}

    def names() -> list[str]:
        nn = imported("cellc.nn")
        return [*apart, *(n for n in nn.__all__ if n not in apart and getattr(
            getattr(nn, n), "__module__", "").startswith(package + "."))]

    def find(name: str) -> Any:
        if name == "__all__":
            return names()
        if name in apart:
            return getattr(imported(apart[name]), name)
        if not name.startswith("_"):
            value = getattr(imported("cellc.nn"), name, None)
            if getattr(value, "__module__", "").startswith(package + "."):
                return value
        raise no_attribute(package, name)

    return find, names
