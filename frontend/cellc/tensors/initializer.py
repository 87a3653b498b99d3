"""Initializers: how the elements of a new parameter are drawn.

An initializer fills a numpy array in place. Each array gets a seed of its own, drawn from numpy's
global generator, which `set_seed` restarts; `draws` makes of it what MindSpore does. So a network
that is made after `set_seed` starts from MindSpore's weights. Source:
`mindspore.common.initializer`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from cellc_runtime.dtypes import DType, float32
from cellc_runtime.lazy import public_names

from ..core.declared import Arguments, is_number, misuse, one_of
from ..core.later import advice
from ..core.native import names_itself
from .draws import Draw, fill_normal, fill_truncated, fill_uniform, new_seed
from .tensor import Tensor

Array = np.ndarray[Any, Any]
_MODES = ("fan_in", "fan_out")


@names_itself
class Initializer:
    """Base of initializers: a subclass gives `_initialize(arr)`, which fills an array.

    Args:
        kwargs: kept for `clone`.
    """

    __module__ = "cellc.common.initializer"  # MindSpore's import path, which layers print

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:
            cls.__module__ = Initializer.__module__

    draws: ClassVar[bool] = True  # Whether the values are random: another array of each call

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._seed: int | None = None

    @property
    def seed(self) -> int | None:
        """A seed for this initializer alone, or None for the global one."""
        return self._seed

    @seed.setter
    def seed(self, value: int | None) -> None:
        self._seed = value

    def _initialize(self, arr: Array) -> None:
        raise NotImplementedError(f"the initializer {type(self).__name__} gives no '_initialize'")

    def __call__(self, arr: Array) -> None:
        self._initialize(arr)

    def _drawing_seed(self) -> int:
        """The seed of the next array."""
        return new_seed() if self._seed is None else self._seed

    def later(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[Array], None] | None:
        """Return a function that gives an array of zeros the present values, whenever called.

        Args:
            shape, dtype: of the array.

        Returns:
            None where that is not known: a subclass may do anything.
        """
        return None


class _Options(Arguments, Initializer):
    """One whose constructor keeps its fields, for `clone` too."""

    def __post_init__(self) -> None:
        self._kwargs = {name: getattr(self, name) for name in self._options}


class _Drawn(_Options):
    """One whose elements are draws of one seed: `_draws` says how."""

    def _draws(self, shape: tuple[int, ...]) -> Draw:
        raise NotImplementedError

    def _initialize(self, arr: Array) -> None:
        draw = self._draws(arr.shape)
        draw(self._drawing_seed(), arr)

    def later(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[Array], None] | None:
        """See `Initializer.later`: the seed is taken now, so the draws are those of now."""
        cls = type(self)
        if cls._initialize is not _Drawn._initialize or cls.__call__ is not Initializer.__call__:
            return None
        draw = self._draws(shape)
        # Arguments that cannot be drawn with are noticed here and not at some later reading.
        draw(0, np.zeros((1,) * len(shape), dtype))
        return partial(draw, self._drawing_seed())


# --- constants -----------------------------------------------------------------------------------


class Zero(Initializer):
    """Every element is 0."""

    draws = False

    def _initialize(self, arr: Array) -> None:
        arr[...] = 0

    def later(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[Array], None] | None:
        """See `Initializer.later`: zeros are there."""
        cls = type(self)
        if cls._initialize is not Zero._initialize or cls.__call__ is not Initializer.__call__:
            return None
        return lambda arr: None


class One(Initializer):
    """Every element is 1."""

    draws = False

    def _initialize(self, arr: Array) -> None:
        arr[...] = 1


class Constant(_Options):
    """All one value.

    Args:
        value: a number, or a Tensor of one element.
    """

    draws = False
    value: Any

    def _initialize(self, arr: Array) -> None:
        if not isinstance(self.value, (int, float, complex, np.generic, Tensor)) or (
            isinstance(self.value, Tensor) and self.value.size != 1
        ):
            raise misuse("Constant", "the value must be a number or a Tensor of one element",
                         repr(self.value))
        arr[...] = self.value.item() if isinstance(self.value, Tensor) else self.value


class Identity(Initializer):
    """Ones on the main diagonal of a matrix."""

    draws = False

    def _initialize(self, arr: Array) -> None:
        _check_matrix("Identity", arr)
        arr[...] = np.eye(*arr.shape)


def _check_matrix(what: str, arr: Array) -> None:
    if arr.ndim != 2:
        raise ValueError(f"For {what} initializer, the dimension of the initialized tensor should "
                         f"be 2, but got {arr.ndim}.")


class Dirac(_Options):
    """A convolution weight (3 to 5 axes) that passes each input channel on, as far as possible.

    Args:
        groups: groups of output channels, each treated alike; it divides axis 0.
    """

    draws = False
    groups: int = 1

    def _initialize(self, arr: Array) -> None:
        if arr.ndim not in (3, 4, 5):
            raise ValueError("For Dirac initializer, only support to initialize tensor with "
                             f"dimension of 3, 4 or 5, but got {arr.ndim}.")
        if arr.shape[0] % self.groups:
            raise ValueError(f"For Dirac initializer, the first dimension {arr.shape[0]} must be "
                             f"divisible by groups {self.groups}.")
        per_group = arr.shape[0] // self.groups
        centre = tuple(d // 2 for d in arr.shape[2:])
        arr[...] = 0
        for group in range(self.groups):
            for i in range(min(per_group, arr.shape[1])):
                arr[(group * per_group + i, i, *centre)] = 1


# --- plain distributions -------------------------------------------------------------------------


class Normal(_Drawn):
    """The normal distribution.

    Args:
        sigma: standard deviation.
        mean: mean.
    """

    sigma: float = 0.01
    mean: float = 0.0

    def _draws(self, shape: tuple[int, ...]) -> Draw:
        _check_normal("Normal", self.sigma, self.mean)
        return partial(fill_normal, mean=self.mean, sigma=self.sigma)


def _check_normal(what: str, sigma: Any, mean: Any) -> None:
    for name, value in (("sigma", sigma), ("mean", mean)):
        if not is_number(value):
            raise misuse(what, f"'{name}' must be a number", type(value).__name__, TypeError)
    if not sigma >= 0:
        raise misuse(what, "'sigma' must be non-negative", sigma)


class Uniform(_Drawn):
    """The uniform distribution on [-scale, scale).

    Args:
        scale: half the width.
    """

    scale: float = 0.07

    def _draws(self, shape: tuple[int, ...]) -> Draw:
        return partial(fill_uniform, low=-self.scale, high=self.scale)


class TruncatedNormal(_Drawn):
    """The normal distribution restricted to [a, b].

    Args:
        sigma, mean: standard deviation and mean before the restriction.
        a, b: the bounds.
    """

    sigma: float = 0.01
    mean: float = 0.0
    a: float = -2.0
    b: float = 2.0

    def _draws(self, shape: tuple[int, ...]) -> Draw:
        _check_normal("TruncatedNormal", self.sigma, self.mean)
        return partial(fill_truncated, mean=self.mean, sigma=self.sigma, low=self.a, high=self.b)


class Sparse(_Options):
    """A matrix of normal draws, of which a part of each column is zero.

    Args:
        sparsity: the part of each column that is zero.
        sigma: standard deviation of the others.
    """

    sparsity: float
    sigma: float = 0.01

    def _initialize(self, arr: Array) -> None:
        _check_matrix("Sparse", arr)
        fill_normal(self._drawing_seed(), arr, 0.0, self.sigma)
        zeros = math.ceil(self.sparsity * arr.shape[0])
        for column in range(arr.shape[1]):
            arr[np.random.permutation(arr.shape[0])[:zeros], column] = 0


class Orthogonal(_Options):
    """A matrix of orthonormal rows or columns (Saxe et al., 2013); further axes are flattened.

    Args:
        gain: factor.
    """

    gain: float = 1.0

    def _initialize(self, arr: Array) -> None:
        if arr.ndim < 2:
            raise ValueError("For Orthogonal initializer, the dimension of the initialized tensor "
                             f"should be no less than 2, but got {arr.ndim}.")
        rows, columns = arr.shape[0], int(np.prod(arr.shape[1:]))
        flat = np.empty((rows, columns), np.float32)
        fill_normal(self._drawing_seed(), flat, 0.0, 1.0)
        q = _orthonormal(flat.T if rows < columns else flat)
        arr[...] = self.gain * (q.T if rows < columns else q).reshape(arr.shape)


def _orthonormal(tall: Array) -> Array:
    """Q of the QR factorisation with a positive diagonal of R, which is unique, in float64.

    R is the Cholesky factor of A^T A: products of matrices, which are several times faster than
    Householder reflections. A second round restores orthogonality where A is ill-conditioned
    (CholeskyQR2; Yamamoto et al., 2015).
    """
    q = tall.astype(np.float64)
    try:
        for _ in range(2):
            factor = np.linalg.cholesky(q.T @ q)
            q = q @ np.linalg.inv(factor).T
            scales = np.diag(factor)
            if scales.max(initial=1.0) < 1e2 * scales.min(initial=1.0):
                break
    except np.linalg.LinAlgError:  # the columns depend on each other, to within rounding
        full, r = np.linalg.qr(tall.astype(np.float64))
        q = full * np.copysign(1.0, np.diag(r))
    return q


# --- scaled by the number of connections ---------------------------------------------------------


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Inputs and outputs of one element of a weight (out, in, *window)."""
    if len(shape) < 2:
        raise ValueError("'fan_in' and 'fan_out' can not be computed for tensor with fewer than 2 "
                         f"dimensions, but got dimensions {len(shape)}.")
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "sigmoid": 1.0, "linear": 1.0}


def gain_of(nonlinearity: str, param: Any = None) -> float:
    """The factor that keeps the variance through an activation (He et al., 2015)."""
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float)):
            raise misuse("HeUniform' and 'HeNormal", "'negative_slope' must be a number",
                         repr(param))
        return math.sqrt(2.0 / (1 + param**2))
    gain = 1.0 if nonlinearity.startswith("conv") else _GAINS.get(nonlinearity)
    if gain is None:
        raise ValueError(f"the gain of the nonlinearity {nonlinearity!r} is not known")
    return gain


class _Scaled(_Drawn):
    """Draws of mean 0 and the standard deviation `_std`, of a normal or a uniform distribution."""

    _uniform = False

    def _std(self, shape: tuple[int, ...]) -> float:
        raise NotImplementedError

    def _draws(self, shape: tuple[int, ...]) -> Draw:
        std = self._std(shape)
        bound = math.sqrt(3.0) * std
        return partial(fill_uniform, low=-bound, high=bound) if self._uniform else \
            partial(fill_normal, mean=0.0, sigma=std)


class _He(_Scaled):
    negative_slope: float = 0
    mode: str = "fan_in"
    nonlinearity: str = "leaky_relu"

    def _std(self, shape: tuple[int, ...]) -> float:
        mode = self.mode.lower()
        if mode not in _MODES:
            raise ValueError(f"'mode' {mode} not supported, please use one of {list(_MODES)}.")
        fan = fans(shape)[_MODES.index(mode)]
        return gain_of(self.nonlinearity, self.negative_slope) / math.sqrt(fan)


class HeNormal(_He):
    """Normal with standard deviation gain / sqrt(fan) (He et al., 2015).

    Args:
        negative_slope: of the leaky relu that follows.
        mode: `"fan_in"` or `"fan_out"`.
        nonlinearity: `"leaky_relu"` or `"relu"`.
    """


class HeUniform(_He):
    """Uniform with the variance of `HeNormal`; the same arguments."""

    _uniform = True


class _Xavier(_Scaled):
    gain: float = 1

    def _std(self, shape: tuple[int, ...]) -> float:
        return float(self.gain) * math.sqrt(2.0 / sum(fans(shape)))


class XavierNormal(_Xavier):
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot, Bengio, 2010).

    Args:
        gain: factor.
    """


class XavierUniform(_Xavier):
    """Uniform with the variance of `XavierNormal`; the same argument."""

    _uniform = True


class VarianceScaling(_Drawn):
    """Draws whose variance is scale / n, with n the number of connections.

    Args:
        scale: factor.
        mode: n is `"fan_in"`, `"fan_out"` or their average `"fan_avg"`.
        distribution: `"truncated_normal"` (at two standard deviations), `"untruncated_normal"`
            or `"uniform"`.
    """

    scale: float = 1.0
    mode: Annotated[str, one_of("fan_in", "fan_out", "fan_avg")] = "fan_in"
    distribution: Annotated[
        str, one_of("uniform", "truncated_normal", "untruncated_normal")] = "truncated_normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale <= 0.0:
            raise ValueError("the argument 'scale' must be greater than 0.0.")

    def _draws(self, shape: tuple[int, ...]) -> Draw:
        fan_in, fan_out = fans(shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        std = math.sqrt(self.scale / max(1.0, n))
        if self.distribution == "truncated_normal":
            # A standard normal cut at two deviations has this standard deviation.
            wide = std / 0.87962566103423978
            return partial(fill_truncated, mean=0.0, sigma=wide, low=-2 * wide, high=2 * wide)
        bound = math.sqrt(3.0) * std
        if self.distribution == "untruncated_normal":
            return partial(fill_normal, mean=0.0, sigma=std)
        return partial(fill_uniform, low=-bound, high=bound)


class BilinearFiller(Initializer):
    """The weight of a transposed convolution that interpolates bilinearly."""

    draws = False

    def _initialize(self, arr: Array) -> None:
        if arr.ndim != 4 or arr.shape[2] != arr.shape[3]:
            raise ValueError(f"BilinearFiller fills an array (n, m, k, k), but got {arr.shape}.")
        k = arr.shape[2]
        half = math.ceil(k / 2)
        centre = (2 * half - 1 - half % 2) / (2.0 * half)
        line = 1 - np.abs(np.arange(k) / half - centre)
        arr[...] = line[:, None] * line[None, :]


ALIASES: dict[str, type[Initializer]] = {
    "zero": Zero, "zeros": Zero, "one": One, "ones": One, "normal": Normal, "uniform": Uniform,
    "truncatednormal": TruncatedNormal, "identity": Identity, "dirac": Dirac, "sparse": Sparse,
    "orthogonal": Orthogonal, "variancescaling": VarianceScaling,
    "henormal": HeNormal, "he_normal": HeNormal, "heuniform": HeUniform, "he_uniform": HeUniform,
    "xaviernormal": XavierNormal, "xavier_normal": XavierNormal,
    "xavieruniform": XavierUniform, "xavier_uniform": XavierUniform,
}


def _named(init: Any) -> Initializer:
    """The initializer of an alias, a number or an initializer itself."""
    if isinstance(init, str):
        found = ALIASES.get(init.lower())
        if found is None:
            like = advice.closest(init.lower(), ALIASES) or next(
                (n for n in ALIASES if n.startswith(f"{init.lower()}_")), "")
            raise misuse("initializer", f"the class corresponding to '{init}' was not found"
                         + (f"; did you mean '{like}'?" if like else ""))
        return found()
    if isinstance(init, Initializer):
        return init
    if isinstance(init, (int, float)):
        return Constant(init)
    raise misuse("initializer", "the type of the 'init' argument should be 'Tensor', 'number', "
                 "'string' or 'initializer'", type(init), TypeError)


def initializer(init: Any, shape: Any = None, dtype: DType = float32) -> Tensor:
    """A Tensor that an initializer fills at the first look at its elements, or by `init_data()`.

    Args:
        init: an initializer, its name in any case, a number, or a Tensor (returned as it is).
        shape: an int, or a list or tuple of positive ints.
        dtype: element type.
    """
    if isinstance(init, Tensor):
        if shape is None or init.shape != _checked_shape(shape):
            raise misuse("initializer",
                         "the shape of the 'init' argument should be same as the argument 'shape'",
                         f"the 'init' shape {list(init.shape)} and the 'shape' {shape}")
        return init
    fill = _named(init)
    return Tensor(shape=_checked_shape(shape), dtype=dtype, init=fill)


def _checked_shape(shape: Any) -> tuple[int, ...]:
    dims = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    for d in dims:
        if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d <= 0:
            raise ValueError("For 'initializer', the argument 'shape' is invalid, the value of "
                             f"'shape' must be positive integer, but got {dims}")
    return tuple(int(d) for d in dims)


__all__ = [
    "BilinearFiller", "Constant", "Dirac", "HeNormal", "HeUniform", "Identity", "Initializer",
    "Normal", "One", "Orthogonal", "Sparse", "TruncatedNormal", "Uniform", "VarianceScaling",
    "XavierNormal", "XavierUniform", "Zero", "initializer",
]
__dir__ = public_names(__name__)
