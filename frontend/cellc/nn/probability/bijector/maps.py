"""Maps of one value to one: powers, lines, softplus, Gumbel, and the inverse of each.

Source: the same names in `mindspore.nn.probability.bijector`.
"""

from __future__ import annotations

from typing import Any

from .... import ops
from ....core.declared import instance
from ....tensors.tensor import Tensor
from ..parameters import LocScale, held, known, need_positive
from ..transforms import Bijector, formula


class PowerTransform(Bijector):
    """(1 + c x) to the power 1 / c, for x > -1 / c; exp(x) where c is 0.

    Args:
        power: c, not below 0.
        name: of the bijector.
    """

    def __init__(self, power: Any = 0.0, name: str = "PowerTransform") -> None:
        self._keep(name, power=power)
        c = known(self._power_value)
        if not (c >= 0).all():
            raise ValueError("Power must be greater than or equal to zero.")
        self._is_exp = bool((c == 0).all())

    power = held("_power_value", "c.")

    def _powers(self, value: Tensor) -> Any:
        """Where c is 0, and c with 1 in these places."""
        (c,) = self._of(value)
        return c == 0, ops.where(c == 0, 1.0, c)

    def _forward(self, x: Tensor) -> Tensor:
        if self._is_exp:
            return ops.exp(x)
        zero, c = self._powers(x)
        return ops.where(zero, ops.exp(x), ops.exp(ops.log1p(c * x) / c))

    def _inverse(self, y: Tensor) -> Tensor:
        if self._is_exp:
            return ops.log(y)
        zero, c = self._powers(y)
        return ops.where(zero, ops.log(y), ops.expm1(c * ops.log(y)) / c)

    def _forward_log_jacobian(self, x: Tensor) -> Tensor:
        if self._is_exp:
            return x
        zero, c = self._powers(x)
        return ops.where(zero, x, (1.0 / c - 1.0) * ops.log1p(c * x))

    _inverse_log_jacobian = formula(lambda self, y, c: (c - 1.0) * ops.log(y))


class Exp(PowerTransform):
    """The map exp(x)."""

    def __init__(self, name: str = "Exp") -> None:
        super().__init__(0.0, name)

    def extend_repr(self) -> str:
        """Return the name of its function."""
        return "exp"


class ScalarAffine(Bijector):
    """scale * x + shift.

    Args:
        scale: not 0.
        shift: what is added.
        name: of the bijector.
    """

    def __init__(self, scale: Any = 1.0, shift: Any = 0.0, name: str = "ScalarAffine") -> None:
        self._keep(name, True, scale=scale, shift=shift)
        if (known(self._scale_value) == 0).any():
            raise ValueError("For ScalarAffine, scale must not be zero, as there is no inverse.")

    scale = held("_scale_value", "The factor.")
    shift = held("_shift_value", "The summand.")

    _forward = formula(lambda self, x, scale, shift: scale * x + shift)
    _inverse = formula(lambda self, y, scale, shift: (y - shift) / scale)
    _forward_log_jacobian = formula(lambda self, x, scale, shift: ops.log(ops.abs(scale)))
    _inverse_log_jacobian = formula(lambda self, y, scale, shift: -ops.log(ops.abs(scale)))


class Softplus(Bijector):
    """log(1 + exp(k x)) / k.

    Args:
        sharpness: k, not 0.
        name: of the bijector.
    """

    def __init__(self, sharpness: Any = 1.0, name: str = "Softplus") -> None:
        self._keep(name, sharpness=sharpness)
        if (known(self._sharpness_value) == 0).any():
            raise ValueError("For Softplus, sharpness must not be zero.")

    sharpness = held("_sharpness_value", "k.")

    _forward = formula(lambda self, x, k: -ops.logsigmoid(-k * x) / k)
    _inverse = formula(lambda self, y, k: y + ops.log(-ops.expm1(-k * y)) / k)
    _forward_log_jacobian = formula(lambda self, x, k: ops.logsigmoid(k * x))
    _inverse_log_jacobian = formula(lambda self, y, k: -ops.log(-ops.expm1(-k * y)))


class GumbelCDF(LocScale, Bijector):
    """exp(-exp(-(x - loc) / scale)), the distribution function of Gumbel.

    Args:
        loc: the location.
        scale: above 0.
        name: of the bijector.
    """

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, name: str = "GumbelCDF") -> None:
        self._keep(name, loc=loc, scale=scale)
        need_positive(self._scale_value, "scale")

    _forward = formula(lambda self, x, loc, scale: ops.exp(-ops.exp((loc - x) / scale)))
    _inverse = formula(lambda self, y, loc, scale: loc - scale * ops.log(-ops.log(y)))

    @formula
    def _forward_log_jacobian(self, x: Any, loc: Any, scale: Any) -> Tensor:
        z = (x - loc) / scale
        return -z - ops.exp(-z) - ops.log(scale)

    @formula
    def _inverse_log_jacobian(self, y: Any, loc: Any, scale: Any) -> Tensor:
        log = ops.log(y)
        return ops.log(scale) - log - ops.log(-log)


class Invert(Bijector):
    """A bijector the other way round.

    Args:
        bijector: whose inverse it is.
        name: "Invert" and the bijector's name, if empty.
    """

    def __init__(self, bijector: Bijector, name: str = "") -> None:
        instance(Bijector)(bijector, "Invert", "bijector")
        name = name or f"Invert{bijector.name}"
        super().__init__(bijector.is_constant_jacobian, bijector.is_injective, name,
                         bijector.dtype, {"bijector": bijector, "name": name})
        self._bijector = bijector
        self._batch_shape = bijector.batch_shape
        self._is_scalar_batch = bijector.is_scalar_batch

    bijector = held("_bijector", "The bijector whose inverse it is.")

    def extend_repr(self) -> str:
        """Nothing besides the bijector."""
        return ""

    def _forward(self, x: Tensor) -> Tensor:
        return self._bijector.inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._bijector.forward(y)

    def _forward_log_jacobian(self, x: Tensor) -> Tensor:
        return self._bijector.inverse_log_jacobian(x)

    def _inverse_log_jacobian(self, y: Tensor) -> Tensor:
        return self._bijector.forward_log_jacobian(y)
