"""C libraries played by methods: `cuInit` of `FakeDriver` is its method `_cuInit`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Refused(Exception):
    """A function says no."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class FakeLibrary:
    """Functions that return 0, or the code with which a method has `Refused`.

    Args:
        signatures: the types of the arguments, by name.
        missing: names that it does not have.
        lock: held during each call.

    Attributes:
        fails: by function, the results of its next calls.
    """

    def __init__(
        self, signatures: Mapping[str, Sequence[Any]], missing: Sequence[str] = (),
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.missing = set(missing)
        self.fails: dict[str, list[int]] = {}
        self._held = lock or nullcontext()
        self._functions: dict[str, Any] = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._entry(name))
            for name, types in signatures.items()}

    def __getattr__(self, name: str) -> Any:
        functions = self.__dict__.get("_functions", {})
        if name not in functions or name in self.missing:
            raise AttributeError(name)
        return functions[name]

    def begin(self, name: str) -> None:
        """What stands before each function, whether it fails or not."""

    def check(self, name: str) -> None:
        """What stands before the method.

        Raises:
            Refused: it is not called.
        """

    def _entry(self, name: str) -> Callable[..., int]:
        method = getattr(type(self), f"_{name}")

        def call(*given: Any) -> int:
            with self._held:
                self.begin(name)
                try:
                    if self.fails.get(name):
                        raise Refused(self.fails[name].pop(0))
                    self.check(name)
                    method(self, *given)
                except Refused as refused:
                    return refused.code
            return 0

        return call
