"""AdaFactor: adaptive rates whose second moments of matrices are kept as two vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float16, float32

from ... import ops
from ...core.declared import FLOAT, Flag, Float, Number, OpenShare, instance, misuse
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor
from ..registering import opt_init_args_register
from .optimizer import Optimizer


def _pair(eps: Any) -> tuple[float, float]:
    """The two small numbers."""
    what = "AdaFactor"
    if len(instance(list, tuple)(eps, what, "eps")) != 2:
        raise misuse("AdaFactor", "'eps' must be two floats", repr(eps))
    for i, value in enumerate(eps):
        if FLOAT(value, what, f"eps{i}") < 0.0:
            raise misuse("AdaFactor", f"the 'eps{i}' must be float and must >= 0",
                         f"'{value}' with type 'float'")
    return eps[0], eps[1]


class AdaFactor(Optimizer):
    """Adam with factored second moments (Shazeer and Stern, 2018).

    With b = 1 - t**-decay_rate, the mean squares of a matrix's rows and columns are averaged
    (r, c); u = g / sqrt(r c / mean(r)) is cut to a root mean square of `clip_threshold`, and
    p -= lr u. Of a vector, the squares themselves are averaged.

    Args:
        params, weight_decay, loss_scale: see `Optimizer`; the decay is p -= weight_decay lr p, of
            all parameters unless groups say otherwise.
        learning_rate: None with `relative_step`; else as in `Optimizer`.
        eps: what is added to squares, and the smallest scale of a parameter.
        clip_threshold: the largest root mean square of a step (before the rate).
        decay_rate: in (0, 1).
        beta1: decay rate of the averaged step; None: the step itself.
        scale_parameter: whether the rate is multiplied by the parameter's root mean square (not
            one that changes from step to step, as in MindSpore).
        relative_step: the rate is 1 / sqrt(t), at most 0.01.
        warmup_init: (with `relative_step`) at most t / 1e6 instead.
        compression: keep averages of vectors (and of steps) in float16.
    """

    takes_rows = False  # averages of rows and columns are of whole gradients
    _decay_is_scaled = False  # it is taken of the parameter, not added to the gradient

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = None, eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: Float = 1.0, decay_rate: OpenShare = 0.8, beta1: Number | None = 0.9,
        weight_decay: Any = 0.0, scale_parameter: Flag = True, relative_step: Flag = True,
        warmup_init: Flag = False, compression: Flag = False, loss_scale: float = 1.0,
    ) -> None:
        if learning_rate is not None and relative_step:
            raise misuse("AdaFactor", "a 'learning_rate' cannot be combined with "
                         "relative_step=True; set relative_step=False to use the rate "
                         f"{learning_rate}")
        if warmup_init and not relative_step:
            raise misuse("AdaFactor", "warmup_init=True requires relative_step=True")
        if learning_rate is None and not relative_step:
            raise misuse("AdaFactor", "relative_step=False requires a 'learning_rate'")
        super().__init__(0.0 if learning_rate is None else learning_rate, params, weight_decay,
                         loss_scale)
        self.eps = _pair(eps)
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta1 = beta1
        self.scale_lr = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init
        self.compression = compression
        if self.beta1 is not None:
            self.exp_avg = self.state_of("exp_avg", "zeros")
        self._init_squares()
        self.step = Parameter(Tensor(np.zeros((1,), np.float32)), name="afactor_step")

        self.exec_weight_decay = self.exec_weight_decay or (
            not self.is_group and (self.dynamic_weight_decay or float(self.weight_decay) > 0))

    def _init_squares(self) -> None:
        """Averages of rows, columns and elements; of one element where they are not used."""
        rows, columns, squares = [], [], []
        self.factored = tuple(p.ndim >= 2 for p in self.parameters)
        for p, factored in zip(self.parameters, self.factored, strict=True):
            small = float16 if self.compression else float32
            shapes = (p.shape[:-1], p.shape[:-2] + p.shape[-1:], (1,)) if factored \
                else ((1,), (1,), p.shape)
            kinds = (float32, float32, float32 if factored else small)
            made = [Tensor(np.zeros(s, np.float32)).astype(k)
                    for s, k in zip(shapes, kinds, strict=True)]
            rows.append(Parameter(made[0], name=f"exp_avg_sq_row_{p.name}"))
            columns.append(Parameter(made[1], name=f"exp_avg_sq_col_{p.name}"))
            squares.append(Parameter(made[2], name=f"exp_avg_sq_{p.name}"))
        self.exp_avg_sq_row = ParameterTuple(rows)
        self.exp_avg_sq_col = ParameterTuple(columns)
        self.exp_avg_sq = ParameterTuple(squares)

    def _scaled(self, squares: Any, gradient: Any, i: int, decay: Any) -> Any:
        """The gradient over the root of its averaged squares, which are assigned."""
        rest = 1.0 - decay
        if not self.factored[i]:
            average = ops.cast(self.exp_avg_sq[i], float32) * decay + squares * rest
            ops.assign(self.exp_avg_sq[i], average)
            return gradient * ops.rsqrt(average)
        row = self.exp_avg_sq_row[i] * decay + ops.mean(squares, -1) * rest
        column = self.exp_avg_sq_col[i] * decay + ops.mean(squares, -2) * rest
        ops.assign(self.exp_avg_sq_row[i], row)
        ops.assign(self.exp_avg_sq_col[i], column)
        near = ops.rsqrt(row / ops.mean(row, -1, True))
        return gradient * ops.expand_dims(near, -1) * ops.expand_dims(ops.rsqrt(column), -2)

    def _rate_at(self, given: Any, weight: Any, step: Any) -> Any:
        """The rate of a parameter in a step."""
        if self.relative_step:
            most = step * 1e-6 if self.warmup_init else 1e-2
            given = ops.minimum(most, ops.rsqrt(step))
        if not self.scale_lr or self.dynamic_lr:
            return given
        return given * ops.maximum(self.eps[1], _root_mean_square(weight))

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their averages."""
        gradients = self.scale_grad(self.gradients_centralization(gradients))
        decays = self.get_weight_decay()
        lr = self.next_rate()
        counted = self.step + 1.0
        ops.assign(self.step, counted)
        step = ops.reshape(counted, ())
        decay = 1.0 - ops.pow(step, -self.decay_rate)
        for i in range(self.param_length):
            weight = ops.cast(self.parameters[i], float32)
            gradient = ops.cast(gradients[i], float32)
            rate = self._rate_at(lr[i] if self.is_group_lr else lr, weight, step)
            u = self._scaled(ops.square(gradient) + self.eps[0], gradient, i, decay)
            u = u / ops.maximum(1.0, _root_mean_square(u) / self.clip_threshold) * rate
            if self.beta1 is not None:
                u = ops.cast(self.exp_avg[i], float32) * self.beta1 + \
                    self.own_rows(i, u) * (1.0 - self.beta1)
                ops.assign(self.exp_avg[i], u)
                u = self.all_rows(i, u)
            if self.exec_weight_decay and (self.decay_flags[i] or not self.is_group):
                weight = weight - weight * self.decay_of(decays, i) * rate
            ops.assign(self.parameters[i], weight - u)
        return self.done()


def _root_mean_square(x: Any) -> Any:
    return ops.sqrt(ops.mean(ops.square(x)))
