"""Random tensors. Each draw takes a key from the generator, or is fixed by an explicit seed.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.ir.types import MOST_BYTES, broadcast_all
from cellc_runtime.dtypes import DType, float32, int32, int64
from cellc_runtime.lazy import lazy_imports

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...tensors.promotion import cast_to, common, constant, fresh, inexact, is_scalar
from ...tensors.seed import Generator, next_key, stream_of
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import Ints, axis_of, boolean, dtype_of, integer, is_int, number, shape_of, tensor
from ..operands import operands_of
from . import activation, arith, joining, reductions, sorting

with lazy_imports(__name__):
    from ...tensors import shuffles

Seed = int | Generator | Tensor | None
"""A seed, the stream of a Primitive that was made with one, a key, or none of them."""


def drawing_key(seed: Seed, what: str) -> Tensor:
    """The next key: of the global generator, of a seed's stream, or of a Primitive's own."""
    if seed is None:
        return next_key()
    if isinstance(seed, Tensor):
        return seed
    if isinstance(seed, Generator):
        return seed.next_key()
    value = integer(seed, what, "seed")
    if value < 0:
        raise misuse(what, "'seed' must be non-negative", value)
    return stream_of(value).next_key()


def _draw(op: str, key: Tensor, shape: Ints, dtype: DType, **attrs: Any) -> Tensor:
    return apply_one(op, key, shape=shape, dtype=dtype, **attrs)


def _size(size: tuple[Any, ...], what: str) -> Ints:
    dims = size[0] if len(size) == 1 and not is_int(size[0]) else size
    return shape_of(dims, what, "size")


def _float_type(dtype: DType | None, what: str) -> DType:
    to = float32 if dtype is None else dtype_of(dtype, what)
    if not to.is_float:
        raise misuse(what, "'dtype' must be a float type", to)
    return to


# --- uniform and normal ---------------------------------------------------------------------------


def rand(*size: Any, dtype: DType | None = None, seed: Seed = None) -> Tensor:
    """Uniform numbers in [0, 1) of a given shape, float32 by default; from the seed of
    `ms.set_seed`, in both modes the same."""
    return _draw("random_uniform", drawing_key(seed, "rand"), _size(size, "rand"),
                 _float_type(dtype, "rand"))


def randn(*size: Any, dtype: DType | None = None, seed: Seed = None) -> Tensor:
    """Normal numbers of mean 0 and deviation 1 of a given shape, float32 by default; from the seed
    of `ms.set_seed`."""
    return _draw("random_normal", drawing_key(seed, "randn"), _size(size, "randn"),
                 _float_type(dtype, "randn"))


def rand_like(input: Tensor, seed: Seed = None, *, dtype: DType | None = None) -> Tensor:
    """Uniform numbers in [0, 1) of the shape of `input`, and of its type unless `dtype` is given;
    from the seed of `ms.set_seed`."""
    x = tensor(input, "rand_like")
    return rand(x.shape, dtype=dtype or x.dtype, seed=seed)


def randn_like(input: Tensor, seed: Seed = None, *, dtype: DType | None = None) -> Tensor:
    """Normal numbers of mean 0 and deviation 1 of the shape of `input`, and of its type unless
    `dtype` is given."""
    x = tensor(input, "randn_like")
    return randn(x.shape, dtype=dtype or x.dtype, seed=seed)


def randint(
    low: int, high: int, size: Any, seed: Seed = None, *, dtype: DType | None = None
) -> Tensor:
    """Uniform ints in [low, high) of the shape `size`, int64 by default; from the seed of
    `ms.set_seed`."""
    a, b = integer(low, "randint", "low"), integer(high, "randint", "high")
    if a >= b:
        raise misuse("randint", "'low' must be below 'high'", f"{a} and {b}")
    to = int64 if dtype is None else dtype_of(dtype, "randint")
    draw = to if to.is_integer else int64
    out = _draw("random_int", drawing_key(seed, "randint"), shape_of(size, "randint", "size"), draw,
                low=a, high=b)
    return cast_to(out, to)


def randint_like(
    input: Tensor, low: int, high: int, seed: Seed = None, *, dtype: DType | None = None
) -> Tensor:
    """Uniform ints in [low, high) of the shape of `input`, and of its type unless `dtype` is given;
    from the seed of `ms.set_seed`."""
    x = tensor(input, "randint_like")
    return randint(low, high, x.shape, seed, dtype=dtype or x.dtype)


def standard_normal(shape: Any, seed: Seed = None) -> Tensor:
    """Normal numbers of mean 0 and deviation 1 of a given shape, float32; from `seed`, or that of
    `ms.set_seed`."""
    return randn(shape_of(shape, "standard_normal"), seed=seed)


def _broadcast_parameters(shape: Any, what: str, *params: Any) -> tuple[Ints, list[Tensor]]:
    """The shape of a draw with tensor parameters, and those as tensors."""
    ps = [inexact(p) for p in common(what, *params)]
    dims = broadcast_all(shape_of(shape, what), *(p.shape for p in ps))
    return dims, ps


def uniform(
    shape: Any, minval: Any, maxval: Any, seed: Seed = None, dtype: DType = float32
) -> Tensor:
    """Uniform numbers in [minval, maxval); ints if `dtype` is int32.

    Args:
        shape: broadcast with the shapes of the bounds.
        minval, maxval: tensors or numbers.
    """
    if not dtype_of(dtype, "uniform").is_float:
        dims = broadcast_all(shape_of(shape, "uniform"),
                                   *(b.shape for b in (minval, maxval) if isinstance(b, Tensor)))
        span = arith.sub(maxval, minval)
        unit = _draw("random_uniform", drawing_key(seed, "uniform"), dims, float32)
        return cast_to(arith.add(cast_to(arith.floor(unit * span), dtype), minval), dtype)
    dims, (low, high) = _broadcast_parameters(shape, "uniform", minval, maxval)
    unit = _draw("random_uniform", drawing_key(seed, "uniform"), dims, dtype)
    return unit * cast_to(arith.sub(high, low), dtype) + cast_to(low, dtype)


def normal(shape: Any, mean: Any, stddev: Any, seed: Seed = None) -> Tensor:
    """Normal numbers of given mean and standard deviation (tensors or numbers), float32."""
    dims, (center, spread) = _broadcast_parameters(shape, "normal", mean, stddev)
    unit = _draw("random_normal", drawing_key(seed, "normal"), dims, float32)
    return unit * cast_to(spread, float32) + cast_to(center, float32)


def standard_laplace(shape: Any, seed: Seed = None) -> Tensor:
    """Laplace numbers of mean 0 and scale 1, float32: the difference of two exponentials."""
    dims = shape_of(shape, "standard_laplace")
    first = _draw("random_exponential", drawing_key(seed, "standard_laplace"), (2, *dims), float32)
    a, b = joining.unstack(first)
    return a - b


def laplace(shape: Any, mean: Any, lambda_param: Any, seed: Seed = None) -> Tensor:
    """Numbers with the density exp(-|x - mean| / lambda_param) / (2 lambda_param), float32, of the
    shape `shape`."""
    dims, (center, scale) = _broadcast_parameters(shape, "laplace", mean, lambda_param)
    return arith.add(arith.mul(standard_laplace(dims, seed), scale), center)


# --- choices --------------------------------------------------------------------------------------


def bernoulli(input: Tensor, p: Any = 0.5, seed: Seed = None) -> Tensor:
    """1 with probability p, else 0, in the shape and type of `input`.

    Args:
        p: a number or a tensor that broadcasts to `input`.
    """
    x = tensor(input, "bernoulli")
    to = x.dtype
    key = drawing_key(seed, "bernoulli")
    if is_scalar(p):
        prob = float(number(p, "bernoulli", "p"))
        if not 0.0 <= prob <= 1.0:
            raise misuse("bernoulli", "'p' must be in [0, 1]", prob)
        return cast_to(apply("random_bernoulli", key, shape=x.shape, p=prob), to)
    unit = _draw("random_uniform", key, x.shape, float32)
    return cast_to(unit < tensor(p, "bernoulli", "p"), to)


def permutation(count: int, dtype: DType) -> Tensor:
    """A permutation of 0 .. count - 1 by the global generator."""
    return cast_to(apply("random_permutation", next_key(), n=count), dtype)


def randperm(n: int, seed: int = 0, offset: int = 0, dtype: DType = int64) -> Tensor:
    """A permutation of 0 .. n - 1, the same for the same seed: that of MindSpore's CPU.

    Args:
        n: how many, 0 or more.
        seed: of the permutation; with -1, and no offset, it is the global generator's.
        offset: used instead of the seed unless it is 0.
    """
    what = "randperm"
    count, start, skip = (integer(v, what, k) for v, k in
                          ((n, "n"), (seed, "seed"), (offset, "offset")))
    if not 0 <= count <= MOST_BYTES or skip < 0:
        raise ValueError(f"For 'randperm', 'n' and 'offset' must be non-negative and 'n' at most "
                         f"{MOST_BYTES}, but got {count} and {skip}.")
    if start < -1:
        raise misuse("randperm", "'seed' must be -1 or more", start)
    to = dtype_of(dtype, what)
    if start == -1 and not skip:
        return permutation(count, to)
    return cast_to(tensor_of(np.array(shuffles.shuffled(count, skip or start), np.int64)), to)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = True, seed: Seed = None
) -> Tensor:
    """Positions drawn with the probabilities in each row of (..., n): int32 (..., num_samples).

    Args:
        replacement: a position may be drawn more than once; else each is drawn once at most.
    """
    x = inexact(tensor(input, "multinomial"))
    count = integer(num_samples, "multinomial", "num_samples")
    if x.ndim not in (1, 2) or count < 1:
        raise misuse("multinomial", "one or two axes and a positive number of samples are needed",
                     f"{x.shape} and {count}")
    if not boolean(replacement, "multinomial", "replacement"):
        return _without_replacement(x, count, drawing_key(seed, "multinomial"))
    rising = reductions.cumsum(x, -1)
    total = joining.part(rising, x.ndim - 1, x.shape[-1] - 1, x.shape[-1])
    key = drawing_key(seed, "multinomial")
    unit = _draw("random_uniform", key, (*x.shape[:-1], count), x.dtype)
    found = sorting.searchsorted(rising, unit * total, right=True)
    return cast_to(arith.minimum(found, x.shape[-1] - 1), int32)


def _without_replacement(x: Tensor, count: int, key: Tensor) -> Tensor:
    """The positions of the largest log p + Gumbel noise (Efraimidis & Spirakis 2006)."""
    if count > x.shape[-1]:
        raise misuse("multinomial", f"{count} samples without replacement exceed {x.shape[-1]}")
    noise = _draw("random_exponential", key, x.shape, x.dtype)
    return sorting.topk(x / noise, count)[1]


def random_categorical(logits: Tensor, num_sample: int, seed: int = 0, dtype: DType = int64
                       ) -> Tensor:
    """`num_sample` positions for each row of logits (N, C), drawn with the probabilities
    softmax(logits): (N, num_sample)."""
    p = apply("softmax", inexact(tensor(logits, "random_categorical", "logits")), axis=1)
    return cast_to(multinomial(p, num_sample, True, seed or None), dtype)


def shuffle(x: Tensor, seed: Seed = None) -> Tensor:
    """The slices of the first axis in random order, of the same shape; draws from the seed of
    `ms.set_seed`."""
    (t,) = operands_of("shuffle", "x (n, ...)", x)
    order = apply("random_permutation", drawing_key(seed, "shuffle"), n=t.shape[0])
    return apply_one("gather", t, order, axis=0)


# --- dropout --------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, seed: Seed = None) -> Tensor:
    """Elements zeroed with probability p, the others scaled by 1 / (1 - p), while training."""
    x = tensor(input, "dropout")
    prob = float(number(p, "dropout", "p"))
    if not 0.0 <= prob < 1.0:
        raise misuse("dropout", "'p' must be in [0, 1)", prob)
    if not boolean(training, "dropout", "training"):
        return x
    if prob == 0.0:
        return fresh(x)
    return apply_one("dropout", x, drawing_key(seed, "dropout"), p=prob)


def _channel_dropout(input: Tensor, p: float, training: bool, spatial: int, what: str) -> Tensor:
    x = tensor(input, what)
    prob = float(number(p, what, "p"))
    if not 0.0 <= prob <= 1.0:
        raise misuse(what, "'p' must be in [0, 1]", prob)
    if x.ndim not in (spatial + 1, spatial + 2):
        raise misuse(what, f"{spatial + 1} or {spatial + 2} axes are needed", x.shape)
    if not training:
        return x
    if prob == 0.0:
        return fresh(x)
    lead = x.shape[: x.ndim - spatial] + (1,) * spatial
    keep = cast_to(apply("random_bernoulli", next_key(), shape=lead, p=1.0 - prob), x.dtype)
    scale = 0.0 if prob == 1.0 else 1.0 / (1.0 - prob)
    return x * (keep * constant(scale, x.dtype))


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each channel of (N, C, L) or (C, L) zeroed as a whole with probability p, the others times 1
    / (1 - p), while `training`."""
    return _channel_dropout(input, p, training, 1, "dropout1d")


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each channel of (N, C, H, W) zeroed as a whole with probability p, the others times 1 / (1 -
    p), while `training`."""
    return _channel_dropout(input, p, training, 2, "dropout2d")


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each channel of (N, C, D, H, W) zeroed as a whole with probability p, the others times 1 / (1
    - p), while `training`."""
    return _channel_dropout(input, p, training, 3, "dropout3d")


def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3) -> Tensor:
    """x where x > 0, elsewhere x times a slope drawn uniformly from [lower, upper) for each
    element; the mean slope outside of training."""
    x = tensor(input, "rrelu")
    unit = _draw("random_uniform", next_key(), x.shape, x.dtype)
    slope = arith.add(arith.mul(unit, upper - lower), lower)
    return arith.where(x >= 0, x, x * slope)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """A softmax of logits with Gumbel noise.

    Args:
        tau: the temperature, above 0.
        hard: the result is one-hot; its gradient is that of the soft one.
    """
    x = tensor(logits, "gumbel_softmax", "logits")
    if number(tau, "gumbel_softmax", "tau") <= 0:
        raise misuse("gumbel_softmax", "'tau' must be above 0", tau)
    drawn = 1.0 - rand_like(x)  # in (0, 1]
    noise = arith.neg(apply("log", arith.neg(apply("log", drawn)) + 1e-20))
    soft = activation.softmax((x + noise) / float(tau), dim)
    if not hard:
        return soft
    a = axis_of(dim, x.ndim, "gumbel_softmax", "dim")
    cells = apply("iota", shape=x.shape, axis=a, dtype=int64)
    best = cast_to(arith.eq(cells, reductions.argmax(soft, a, True)), x.dtype)
    return apply_one("stop_gradient", best - soft) + soft
