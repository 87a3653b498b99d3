"""Checks and normal forms of the arguments of the functional API."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from cellc_compiler.ir.dims import Dim, is_symbolic
from cellc_compiler.ir.types import MOST_BYTES, normalize_axis
from cellc_runtime.dtypes import ALL, DType, int16, int32, int64

from ..core.declared import is_int as is_int
from ..core.declared import misuse
from ..core.dispatch import active_tracer, apply_one, elements_read
from ..core.later import naming
from ..tensors.index_plan import known_elements
from ..tensors.tensor import Tensor
from ..tracing.tracer import SizeInside

Ints = tuple[int, ...]
_INT = frozenset((int,))
_BITS = {2: int16, 4: int32, 8: int64}  # Ints as long as floats, by size in bytes

F = TypeVar("F", bound=Callable[..., Any])


def named(function: F, name: str, doc: str) -> F:
    """A function that a row of a table makes: with its public name and its text."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def tensor(x: Any, what: str, name: str = "input") -> Tensor:
    """`x`, which must be a Tensor."""
    if not isinstance(x, Tensor):
        raise misuse(what, f"'{name}' must be a Tensor", type(x).__name__, TypeError)
    return x


def ranked(x: Any, least: int, most: int | None, what: str, name: str = "input") -> Tensor:
    """`x`, which must be a Tensor of `least` to `most` axes (None: or more)."""
    t = tensor(x, what, name)
    if t.ndim < least or (most is not None and t.ndim > most):
        wanted = _axes(least) + " or more" if most is None else _axes(least) \
            if most == least else f"{least} to {_axes(most)}"
        raise misuse(what, f"'{name}' must have {wanted}, but has shape {t.shape}")
    return t


def _axes(count: int) -> str:
    return f"{count} {'axis' if count == 1 else 'axes'}"


def int_tensor(x: Any, what: str, name: str) -> Tensor:
    """`x`, which must be a Tensor of ints."""
    t = tensor(x, what, name)
    if not t.dtype.is_integer:
        raise misuse(what, f"'{name}' must be a tensor of ints", t.dtype, TypeError)
    return t


def size(x: Any, what: str, name: str, least: int = 0, most: int = MOST_BYTES) -> int:
    """A number of elements, or of what is counted: an int from `least` to `most`."""
    n = integer(x, what, name)
    if n < least:
        wanted = f"be {least} or more" if least else "not be negative"
        raise misuse(what, f"'{name}' must {wanted}", n)
    if n > most:
        raise misuse(what, f"'{name}' must be at most {most}", n)
    return n


def sequence(x: Any, what: str, name: str) -> Sequence[Any]:
    """A list or tuple."""
    if not isinstance(x, (list, tuple)):
        raise misuse(what, f"'{name}' must be a list or tuple", kind_of(x), TypeError)
    return x


def pairs(x: Any, what: str, name: str) -> tuple[tuple[int, int], ...]:
    """Pairs of ints, from a list or tuple of them or a Tensor (n, 2)."""
    rows = x.tolist() if isinstance(x, Tensor) else x
    found = [ints(r, what, name) for r in sequence(rows, what, name)]
    if any(len(r) != 2 for r in found):
        raise misuse(what, f"'{name}' must hold pairs of ints", rows)
    return tuple((r[0], r[1]) for r in found)


def tensors(xs: Any, what: str, name: str = "tensors") -> list[Tensor]:
    """The elements of a list or tuple, which must be Tensors; at least one."""
    if not isinstance(xs, (list, tuple)):
        raise misuse(what, f"'{name}' must be a list or tuple of Tensors", type(xs).__name__,
                     TypeError)
    if not xs:
        raise misuse(what, f"'{name}' must hold at least one Tensor, but it is empty")
    found = [x for x in xs if isinstance(x, Tensor)]
    if len(found) < len(xs):
        for i, x in enumerate(xs):
            tensor(x, what, f"{name}[{i}]")
    return found


def kind_of(x: Any) -> str:
    """Return the description of a wrong argument, for a message."""
    if isinstance(x, Tensor):
        article = "an" if str(x.dtype).startswith("Int") else "a"
        return f"{article} {x.dtype} tensor of shape {x.shape}"
    return type(x).__name__


def flag(x: Any, what: str, name: str) -> bool:
    """A bool, for which an int will do."""
    if not isinstance(x, (bool, int, np.bool_, np.integer)):
        raise misuse(what, f"'{name}' must be a bool", kind_of(x), TypeError)
    return bool(x)


def plain_size(x: Any) -> int:
    """An int as a plain int; a symbolic size stays what it is."""
    symbolic: int = x
    return symbolic if type(x) is Dim else int(x)


def integer(x: Any, what: str, name: str) -> int:
    """`x` as an int (a Tensor of one integer will do)."""
    if is_int(x):
        return plain_size(x)
    if isinstance(x, Tensor) and x.dtype.is_integer and x.size == 1:
        return int(x) if known_elements(x) is not None else ints_in(x, what)[0]
    raise misuse(what, f"'{name}' must be an int", kind_of(x), TypeError)


def ints(x: Any, what: str, name: str) -> Ints:
    """A tuple of ints from a list or tuple of them or a 1-D Tensor."""
    if type(x) is tuple and _INT.issuperset(map(type, x)):
        return x
    if isinstance(x, Tensor) and x.dtype.is_integer and x.ndim == 1:
        x = x.tolist() if known_elements(x) is not None else ints_in(x, what)
    if not isinstance(x, (list, tuple)):
        raise misuse(what, f"'{name}' must be a tuple or list of int", kind_of(x), TypeError)
    return tuple(integer(v, what, name) for v in x)


def ints_or_int(x: Any, what: str, name: str) -> Ints:
    """As `ints`, an int giving a tuple of one."""
    if is_int(x):
        return (plain_size(x),)
    if isinstance(x, Tensor) and not x.ndim:
        return (integer(x, what, name),)
    if not isinstance(x, (tuple, list, Tensor)):
        raise misuse(what, f"'{name}' must be an int, or a tuple or list of int", kind_of(x),
                     TypeError)
    return ints(x, what, name)


def repeated(x: Any, count: int, what: str, name: str) -> Ints:
    """`count` ints: an int repeated, or a tuple of one or `count`."""
    out = ints_or_int(x, what, name)
    if len(out) == 1:
        out = out * count
    if len(out) != count:
        many = f" or {count} ints" if count > 1 else ""
        raise misuse(what, f"'{name}' must be an int{many}", x)
    return out


def positive(x: Any, count: int, what: str, name: str) -> Ints:
    """As `repeated`, of ints above 0."""
    values = repeated(x, count, what, name)
    if any(v < 1 for v in values):
        raise misuse(what, f"'{name}' must be positive", values)
    return values


def not_negative(x: Any, count: int, what: str, name: str) -> Ints:
    """As `repeated`, of ints of 0 or more."""
    values = repeated(x, count, what, name)
    if any(v < 0 for v in values):
        raise misuse(what, f"'{name}' must not be negative", values)
    return values


def axis_of(axis: Any, rank: int, what: str, name: str = "axis") -> int:
    """An axis in `0..rank-1` (0 for rank 0)."""
    if type(axis) is int and -rank <= axis < rank:
        return axis if axis >= 0 else axis + rank
    a = integer(axis, what, name)
    try:
        return normalize_axis(a, rank)
    except ValueError:
        limits = f"in [{-rank}, {rank})" if rank else "0 or -1 for a scalar"
        raise misuse(what, f"the '{name}' must be {limits}", a) from None


def own_axis(axis: Any, rank: int, what: str, name: str = "axis") -> int:
    """`axis_of` of an input that has axes."""
    if not rank:
        raise misuse(what, "the input must have at least one axis, but is a scalar")
    return axis_of(axis, rank, what, name)


def axes_of(axis: Any, rank: int, what: str, name: str = "axis") -> Ints:
    """Distinct axes in ascending order; None and () mean all."""
    if type(axis) is int and -rank <= axis < rank:
        return (axis if axis >= 0 else axis + rank,)
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        return tuple(range(rank))
    given = ints_or_int(axis, what, name)
    out = sorted({axis_of(a, rank, what, name) for a in given})
    if rank and len(out) != len(given):
        raise misuse(what, f"'{name}' names an axis twice: {axis}")
    return tuple(out) if rank else ()


def shape_of(shape: Any, what: str, name: str = "shape") -> Ints:
    """A shape: an int or a sequence of non-negative ints."""
    dims = ints_or_int(shape, what, name)
    for i, d in enumerate(dims):
        if d < 0:
            raise misuse(what, f"dimension {i} of '{name}' must be non-negative", d)
    return dims


def dtype_of(dtype: Any, what: str, name: str = "dtype") -> DType:
    """An element type."""
    if isinstance(dtype, DType) and dtype in ALL:
        return dtype
    raise misuse(what, f"the input '{name}' should be an element type such as float32",
                 naming.described(dtype), TypeError)


def boolean(x: Any, what: str, name: str) -> bool:
    """A bool."""
    if not isinstance(x, bool):
        raise misuse(what, f"'{name}' must be a bool", type(x).__name__, TypeError)
    return x


def number(x: Any, what: str, name: str) -> float | int:
    """A real Python number (not a bool)."""
    if isinstance(x, bool) or not isinstance(x, (int, float, np.integer, np.floating)):
        raise misuse(what, f"'{name}' must be a number", kind_of(x), TypeError)
    if isinstance(x, int) and not isinstance(x, Dim) and x.bit_length() > 1023:
        raise misuse(what, f"'{name}' must fit a float, but has {x.bit_length()} bits")
    return x  # type: ignore[return-value]  # numpy's do as Python's


def real(x: Any, what: str, name: str) -> float:
    """A real Python number as a float; one that follows from open sizes stays what it is."""
    value = number(x, what, name)
    return value * 1.0 if is_symbolic(value) else float(value)


def numbers(x: Any, what: str, name: str) -> list[float]:
    """Real numbers, from a list or tuple of them or a Tensor of one axis."""
    given = need_known(x, what).reshape(-1).tolist() if isinstance(x, Tensor) else x
    return [float(number(v, what, name)) for v in sequence(given, what, name)]


def finite(x: Any, what: str, name: str) -> float | int:
    """A real Python number that is neither infinite nor a NaN."""
    value = number(x, what, name)
    if not math.isfinite(value):
        raise misuse(what, f"'{name}' must be finite", value)
    return value


def choice(x: Any, options: Sequence[str], what: str, name: str) -> str:
    """One of a few strings."""
    if not isinstance(x, str) or x not in options:
        raise misuse(what, f"the '{name}' must be one of {list(options)}", naming.described(x))
    return str(x)


def ints_in(x: Tensor, what: str) -> list[int]:
    """The elements of a tensor of ints, in row-major order, that decide the form of a result.

    A graph that does not know them serves the calls that have the same ones.
    """
    known = known_elements(x)
    if known is not None:
        elements_read()
        return known.reshape(-1).tolist()
    tracer = active_tracer()
    assert tracer is not None
    found = tracer.asked(x, what)
    if found is None:
        raise (SizeInside if tracer.inside() else TypeError)(
            f"the shape of the result of '{what}' depends on the elements of its input, which "
            "are not known while a graph is compiled; use it outside of the graph, or a form of "
            "fixed shape (where, masked_fill, tensor_scatter_update)")
    return found


def need_known(x: Tensor, what: str) -> np.ndarray[Any, Any]:
    """The elements of a tensor, for results whose shape depends on them; see `ints_in`."""
    if known_elements(x) is not None:
        elements_read()
        return x.asnumpy()
    kind = _BITS.get(x.dtype.itemsize) if x.dtype.is_float else None
    bits = x if kind is None else apply_one("bitcast", x, dtype=kind)
    found = np.array(ints_in(bits, what), np.int64).reshape(x.shape)
    numbers: np.ndarray[Any, Any] = found.astype(bits.dtype.numpy).view(x.dtype.numpy)
    return numbers
