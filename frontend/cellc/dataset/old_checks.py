"""Decorators that check arguments of transforms, for transforms that users write.

Source: `mindspore.dataset.transforms.validators`, `mindspore.dataset.vision.validators`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from . import checks
from .checks import INT32_MAX as INT32_MAX

F = TypeVar("F", bound=Callable[..., Any])


def check_random_transform_ops(method: F) -> F:
    """A decorator of an `__init__` whose argument `transforms` is a list of functions.

    Raises:
        TypeError: (when the method is called) it is none, or holds something else.
        ValueError: it is empty, or `prob` is not within [0, 1].
    """
    signature = inspect.signature(method)

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        transforms = checks.of_type("transforms", given.get("transforms"), list)
        if not transforms:
            raise ValueError("transforms list can not be empty.")
        for i, each in enumerate(transforms):
            if not callable(each):
                raise TypeError(f"transforms[{i}] is neither a transforms op (TensorOperation) nor "
                                "a callable pyfunc.")
        if "prob" in given:
            checks.number("prob", given["prob"], 0.0, 1.0)
        return method(self, *args, **kwargs)

    return checked  # type: ignore[return-value]  # the same function with checks before it
