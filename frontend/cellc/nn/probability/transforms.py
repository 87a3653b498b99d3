"""Bijectors, and the distributions that they make of others.

Both bases are here, as each makes use of the other: a bijector called with a distribution gives the
transformed one.

Source: the same names in `mindspore.nn.probability.bijector` and `.distribution`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType

from ... import ops
from ...core.declared import Flag, instance, misuse
from ...tensors.tensor import Tensor
from .base import Distribution
from .parameters import Parametrized, held, need_tensor

_NAMES = ("forward", "inverse", "forward_log_jacobian", "inverse_log_jacobian")
Map = Callable[[Tensor], Tensor]


def formula(rule: Callable[..., Tensor]) -> Any:
    """A hook of a bijector: `rule(self, value, *parameters)`, these in the type of the value."""
    def hook(self: Any, value: Tensor) -> Tensor:
        return rule(self, value, *self._of(value))

    return hook


class Bijector(Parametrized):
    """A one-to-one map of values, with the logarithm of its derivative's size.

    A derived class defines `_forward`, `_inverse` and one of `_forward_log_jacobian` and
    `_inverse_log_jacobian`.

    Args:
        is_constant_jacobian: whether the derivative is the same everywhere.
        is_injective: whether no two values have the same image.
        name: of the bijector.
        dtype: that values must have; None: any float type.
        param: what it was made with; its "param_dict" holds the parameters by name.
    """

    _forward: Map
    _inverse: Map
    _forward_log_jacobian: Map
    _inverse_log_jacobian: Map

    def __init__(self, is_constant_jacobian: Flag = False, is_injective: Flag = True,
                 name: str | None = None, dtype: DType | None = None,
                 param: dict[str, Any] | None = None) -> None:
        what = type(self).__name__
        if dtype is not None and not dtype.is_float:
            raise misuse(what, "the 'dtype' should be a float type", dtype, TypeError)
        super().__init__(what if name is None else name, dtype, param or {})
        self._is_constant_jacobian = is_constant_jacobian
        self._is_injective = is_injective

    def _keep(self, name: str, is_constant: bool = False, **given: Any) -> None:
        """Construct the base of a bijector with these parameters."""
        Bijector.__init__(self, is_constant, name=name, param={
            **given, "name": name, "param_dict": given})
        for key, value in given.items():
            self._add_parameter(value, key)

    def _of(self, value: Tensor) -> list[Tensor]:
        """The parameters in the type of a value."""
        return [ops.cast(own, value.dtype) for own in self.default_parameters]

    def _check_value(self, value: Any, name: str = "value") -> Tensor:
        """A value that the bijector takes."""
        found = need_tensor(value, f"input {name} of bijector")
        if not found.dtype.is_float:
            raise TypeError(f"For input {name} of bijector, the type must be or be subclass of "
                            f"Float, but got {found.dtype}")
        if self._dtype is not None and found.dtype is not self._dtype:
            raise TypeError(f"For input {name} of bijector '{self._name}', the type must be "
                            f"{self._dtype}, but got {found.dtype}.")
        return found

    def cast_param_by_value(self, value: Tensor, para: Tensor) -> Tensor:
        """A parameter in the type of a value."""
        return ops.cast(para, value.dtype)

    _check_value_dtype = _check_value  # MindSpore's name for it, which bijectors of users call

    is_constant_jacobian = held(
        "_is_constant_jacobian", "Whether the derivative is the same everywhere.")
    is_injective = held("_is_injective", "Whether no two values have the same image.")

    def extend_repr(self) -> str:
        """Its parameters."""
        return self._described()

    def forward(self, value: Tensor) -> Tensor:
        """The image of a value."""
        return self._forward(self._check_value(value))

    def inverse(self, value: Tensor) -> Tensor:
        """Return the value that is mapped to this one."""
        return self._inverse(self._check_value(value))

    def forward_log_jacobian(self, value: Tensor) -> Tensor:
        """The logarithm of the size of the derivative of `forward`."""
        x = self._check_value(value)
        if hasattr(self, "_forward_log_jacobian"):
            return self._forward_log_jacobian(x)
        return -self._inverse_log_jacobian(self._forward(x))

    def inverse_log_jacobian(self, value: Tensor) -> Tensor:
        """The logarithm of the size of the derivative of `inverse`."""
        y = self._check_value(value)
        if hasattr(self, "_inverse_log_jacobian"):
            return self._inverse_log_jacobian(y)
        return -self._forward_log_jacobian(self._inverse(y))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A transformed distribution, or the method of a name on the other arguments."""
        if args and isinstance(args[0], Distribution):
            return TransformedDistribution(self, args[0])
        return super().__call__(*args, **kwargs)

    def construct(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The method of this name, called with the other arguments."""
        if name not in _NAMES:
            raise ValueError(f"Invalid name: for bijector '{self._name}', one of {_NAMES} is "
                             f"wanted, but got {name!r}.")
        return getattr(self, name)(*args, **kwargs)


def _of_inverse(method: str) -> Callable[..., Tensor]:
    """A hook that is a method of the distribution that is mapped, where the value comes from."""
    def hook(self: Any, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        answer = getattr(self._distribution, method)
        return answer(self._bijector.inverse(value), *args, **kwargs)

    return hook


class TransformedDistribution(Distribution):
    """The distribution of another one's draws after an increasing bijector.

    Args:
        bijector: the map; the mean needs a linear one.
        distribution: of which the draws are mapped. Parameters given at a call are this one's.
        seed: None: that of the distribution.
        name: of the result.
    """

    def __init__(self, bijector: Bijector, distribution: Distribution, seed: int | None = None,
                 name: str = "transformed_distribution") -> None:
        what = type(self).__name__
        for value, kind, key in ((bijector, Bijector, "bijector"),
                                 (distribution, Distribution, "distribution")):
            instance(kind)(value, what, key)
        used = distribution.seed if seed is None else seed
        super().__init__(used, distribution.dtype, name, {
            "bijector": bijector, "distribution": distribution, "seed": seed, "name": name})
        self._bijector = bijector
        self._distribution = distribution
        shapes = (bijector.batch_shape, distribution.batch_shape)
        known = [s for s in shapes if s is not None]
        self._batch_shape = tuple(broadcast_all(*known)) if len(known) == len(shapes) else None
        self._is_scalar_batch = bijector.is_scalar_batch and distribution.is_scalar_batch
        self.parameter_type = distribution.parameter_type

    bijector = held("_bijector", "The map.")
    distribution = held("_distribution", "The distribution that is mapped.")

    @property
    def is_linear_transformation(self) -> bool:
        """Whether the map is linear, so that there is a mean."""
        return self._bijector.is_constant_jacobian

    def extend_repr(self) -> str:
        """Nothing besides the bijector and the distribution."""
        return ""

    def _log_prob(self, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = self._bijector.inverse(value)
        log = self._distribution.log_prob(x, *args, **kwargs)
        return log + self._bijector.inverse_log_jacobian(value)

    _cdf, _log_cdf = _of_inverse("cdf"), _of_inverse("log_cdf")
    _survival_function = _of_inverse("survival_function")
    _log_survival = _of_inverse("log_survival")

    def _mean(self, *args: Any, **kwargs: Any) -> Tensor:
        if not self._bijector.is_constant_jacobian:
            raise ValueError("mean function must be implemented for non-linear transformation")
        return self._bijector.forward(self._distribution.mean(*args, **kwargs))

    def _sample(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._bijector.forward(self._distribution.sample(*args, **kwargs))
