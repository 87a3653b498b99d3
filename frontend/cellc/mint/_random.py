"""Random tensors of `mint`; a `generator` may be given, whose state each draw moves on."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, float32, int64

from .. import context, ops
from ..core.declared import INT, instance, misuse
from ..ops.arguments import dtype_of, integer, tensor
from ..ops.functional.draws import permutation
from ..tensors.promotion import cast_to
from ..tensors.seed import Generator
from ..tensors.tensor import Tensor


def _place(device: str | None, what: str) -> None:
    """Raise unless tensors can be on a device; None is that of what they are made from."""
    if device is not None and not isinstance(device, str):
        raise misuse(what, "'device' must be None, 'CPU' or 'GPU'", repr(device), TypeError)
    context.check_device(device)


def _on(device: str | None, x: Tensor) -> Tensor:
    """A new tensor on a device; in a graph, where the graph runs."""
    return x if device is None else x.to(device)


def _from(generator: Any, what: str) -> Generator | None:
    """A generator, or None for the global one."""
    if generator is not None and not isinstance(generator, Generator):
        raise misuse(what, "'generator' must be a Generator", type(generator).__name__, TypeError)
    return generator


def _drawn(
    what: str, size: tuple[Any, ...], seed: Generator | None, dtype: DType | None, usual: DType,
    device: str | None,
) -> Tensor:
    """A draw in the type asked for (drawn in float32 if that is no float), on a device."""
    _place(device, what)
    draw = ops.randn if what.startswith("randn") else ops.rand
    to = usual if dtype is None else dtype_of(dtype, what)
    return _on(device, cast_to(draw(*size, dtype=to if to.is_float else float32, seed=seed), to))


def rand(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """Uniform numbers in [0, 1).

    Args:
        size: ints, or one tuple or list of them.
        generator: what to draw from; the global one if None.
        dtype: element type; float32 if None.
        device: `"CPU"` or `"GPU"`, where the result is; None leaves that open.

    Raises:
        RuntimeError: a device this installation cannot use.
    """
    return _drawn("rand", size, _from(generator, "rand"), dtype, float32, device)


def randn(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """Standard normal numbers; see `rand`."""
    return _drawn("randn", size, _from(generator, "randn"), dtype, float32, device)


def rand_like(
    input: Tensor, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Uniform numbers in [0, 1) of the shape, and type, of `input`. `mindspore.mint.rand_like`."""
    x = tensor(input, "rand_like")
    return _drawn("rand_like", (x.shape,), None, dtype, x.dtype, device)


def randn_like(
    input: Tensor, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Standard normal numbers of the shape, and type, of `input`. `mindspore.mint.randn_like`."""
    x = tensor(input, "randn_like")
    return _drawn("randn_like", (x.shape,), None, dtype, x.dtype, device)


def _bounds(given: tuple[Any, ...], named: dict[str, Any], names: tuple[str, ...], what: str
            ) -> list[Any]:
    """low, high and what follows them, of which low may be left out."""
    unknown = set(named) - set(names)
    left_out = "low" not in named and len(given) + len(named) == len(names) - 1
    order = names[1:] if left_out else names
    if unknown or len(given) + len(named) != len(order) or set(order[:len(given)]) & set(named):
        raise misuse(what,
                     f"the arguments must be ({', '.join(names)}) or ({', '.join(names[1:])})",
                     f"{len(given)} by position and {sorted(named)}", TypeError)
    values = dict(zip(order, given, strict=False)) | named
    return [values.get("low", 0), *(values[n] for n in names[1:])]


def randint(
    *args: Any, generator: Generator | None = None, dtype: DType | None = None,
    device: str | None = None, **named: Any,
) -> Tensor:
    """randint(low=0, high, size): uniform ints in [low, high).

    Args:
        generator: what to draw from; the global one if None.
        dtype: element type; int64 if None.
        device: `"CPU"` or `"GPU"`, where the result is; None leaves that open.
    """
    _place(device, "randint")
    low, high, size = _bounds(args, named, ("low", "high", "size"), "randint")
    instance(tuple, list)(size, "randint", "size")
    return _on(device, ops.randint(
        low, high, size, _from(generator, "randint"), dtype=dtype or int64))


def randint_like(
    *args: Any, dtype: DType | None = None, device: str | None = None, **named: Any
) -> Tensor:
    """randint_like(input, low=0, high): ints in [low, high) of the shape and type of `input`."""
    _place(device, "randint_like")
    if args:
        input, *rest = args
    else:
        input, rest = named.pop("input", None), []
    x = tensor(input, "randint_like")
    low, high = _bounds(tuple(rest), named, ("low", "high"), "randint_like")
    return _on(device, ops.randint(low, high, x.shape, None, dtype=dtype or x.dtype))


def randperm(n: Any, *, generator: Generator | None = None, dtype: DType = int64) -> Tensor:
    """A random permutation of 0 .. n - 1."""
    seed, count = _from(generator, "randperm"), integer(n, "randperm", "n")
    to = dtype_of(dtype, "randperm")
    if to.is_integer and count > 0 and count - 1 > (1 << (
            8 * to.itemsize - (0 if to.kind == "uint" else 1))) - 1:
        raise misuse("randperm", f"{count - 1} does not fit {to}")
    if count < 0:
        raise misuse("randperm", "'n' must be non-negative", count)
    if seed is None:
        return permutation(count, to)
    return cast_to(ops.shuffle(ops.arange(count), seed), to)


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, generator: Generator | None = None
) -> Tensor:
    """Normal numbers of given mean and standard deviation.

    Args:
        mean, std: numbers or Tensors.
        size: the shape, where both are numbers.
        generator: what to draw from; the global one if None.
    """
    for value, name in ((mean, "mean"), (std, "std")):
        if not isinstance(value, Tensor) and (
                isinstance(value, bool) or not isinstance(value, (int, float))):
            raise misuse("normal", f"'{name}' must be a number or a Tensor", type(value).__name__,
                         TypeError)
    seed = _from(generator, "normal")
    if not isinstance(std, Tensor) and std < 0:
        raise misuse("normal", "'std' must be non-negative", std)
    of = [v for v in (mean, std) if isinstance(v, Tensor)]
    if not of:
        if not isinstance(size, (tuple, list)):
            raise misuse("normal",
                         "'size' must be a tuple or list where 'mean' and 'std' are numbers",
                         repr(size), TypeError)
        drawn: Tensor = ops.randn(tuple(size), seed=seed) * std + mean
        return drawn
    if size is not None:
        raise TypeError("For 'normal', 'size' is only taken where 'mean' and 'std' are numbers.")
    base = of[0] if len(of) == 1 else of[0] + of[1]
    kind = base.dtype if base.dtype.is_float else float32
    out: Tensor = ops.randn(base.shape, dtype=kind, seed=seed) * std + mean
    return out


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:
    """Positions drawn with the weights in each row, int64.

    Args:
        input: (n) or (m, n), non-negative.
        num_samples: how many from each row.
        replacement: a position may be drawn more than once.
        generator: what to draw from; the global one if None.
    """
    x = tensor(input, "multinomial")
    INT(num_samples, "multinomial", "num_samples")
    return cast_to(
        ops.multinomial(x, num_samples, replacement, _from(generator, "multinomial")), int64)


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element is, else 0."""
    return ops.bernoulli(input, input, _from(generator, "bernoulli"))


TABLE = {f.__name__: f for f in (
    rand, randn, rand_like, randn_like, randint, randint_like, randperm, normal, multinomial,
    bernoulli)}
"""The functions of this module by name."""
