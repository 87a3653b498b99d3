"""Steps that train the last layers only: an optimizer for each number of frozen groups.

Source: the same names in `mindspore.boost`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import int32

from ... import ops
from ...core.declared import Listed, checks_arguments, instance, is_int
from ...core.native import names_itself
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..accumulation import GradientAccumulation
from ..cell import Cell
from ..optim.lars import LARS
from ..optim.optimizer import Optimizer
from .processes import ParameterProcess, given_params, remade

CONTINUOUS, INTERVAL = 0, 1  # How frozen steps follow each other: `0 0 0 1 2 3`, or `0 3 0 1 0 2`


class FreezeOpt(Cell):
    """Optimizers like one, each for some of its Parameters; `freeze_cell` makes steps of them.

    Args:
        opt: the optimizer.
        train_parameter_groups: the Parameters (or groups) of each; default: all, once.
        train_strategy: which of them takes each step, ints.
    """

    @checks_arguments
    def __init__(
        self, opt: Optimizer | LARS, train_parameter_groups: Listed | None = None,
        train_strategy: Any = None,
    ) -> None:
        super().__init__()
        if train_strategy is not None and train_parameter_groups is None:
            raise ValueError("When the 'train_strategy' is specified, the value of "
                             "'train_parameter_groups' must also be specified")
        self.single_opt = opt
        self.parameters = opt.parameters
        groups = [list(opt.parameters)] if train_parameter_groups is None else \
            train_parameter_groups
        self.groups_num = len(groups)
        self.train_strategy = _strategy(train_strategy)
        self.opts = [self._made(i, params) for i, params in enumerate(groups)]

    def _made(self, index: int, params: Any) -> Any:
        instance(tuple, list)(params, "FreezeOpt", "each of train_parameter_groups")
        made = remade(self.single_opt, params, self._rates(index))
        weights = {id(p) for p in made.parameters}
        for parameter in made.get_parameters():
            if id(parameter) not in weights:
                parameter.name = f"boost_{index}.{parameter.name}"
        return made

    def _rates(self, index: int) -> Any:
        """Of a list with a rate for each step, those of the steps that an optimizer takes."""
        inner = self.single_opt.opt if isinstance(self.single_opt, LARS) else self.single_opt
        rates = inner.init_learning_rate
        if not isinstance(rates, list) or self.train_strategy is None:
            return None
        steps = self.train_strategy.asnumpy()
        if len(rates) > len(steps):
            return None
        return [r for r, s in zip(rates, steps, strict=False) if s == index] or None


def _strategy(given: Any) -> Tensor | None:
    if given is None:
        return None
    if isinstance(given, Tensor):
        if given.ndim != 1 or given.dtype is not int32:
            raise ValueError("When train_strategy is a Tensor, the dimension should be 1 and the "
                             f"dtype should be int32, but got {given.ndim} and {given.dtype}.")
        return given
    instance(tuple, list)(given, "FreezeOpt", "train_strategy")
    if not all(is_int(step) for step in given):
        raise ValueError("The element in train_strategy should be int number")
    return Tensor(np.array(given, np.int32))


class _TrainFreezeCell(Cell):
    """A step of one of the optimizers."""

    def __init__(self, net: Any, sens: float, grad: Any, optimizer: Any, steps: int) -> None:
        super().__init__(auto_prefix=False)
        self.net = net
        self.grad = grad
        self.opt = optimizer
        self.parameters = optimizer.parameters
        self.sens = sens
        self.grad_accumulation = GradientAccumulation(steps, optimizer) if steps else None

    def construct(self, *inputs: Any) -> Any:
        """The loss."""
        loss = self.net(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        grads = self.grad(self.net, self.parameters)(*inputs, sens)
        if self.grad_accumulation is not None:
            return self.grad_accumulation(loss, grads)
        self.opt(grads)
        return loss


def freeze_cell(
    reducer_flag: bool, network: Cell, optimizer: FreezeOpt, sens: float, grad: Any,
    use_grad_accumulation: bool, mean: bool | None = None, degree: int | None = None,
    max_accumulation_step: int = 1,
) -> tuple[Cell, ...]:
    """A training step for each optimizer of a `FreezeOpt`.

    Args:
        reducer_flag: must be False: gradients of several devices are reduced.
        network: gives the loss.
        optimizer: the optimizers.
        sens: factor of the gradients.
        grad: a `GradOperation` by a list of Parameters, with `sens_param`.
        use_grad_accumulation, max_accumulation_step: whether and over how many steps gradients are
            added up.
        mean, degree: of the reduction.

    Raises:
        RuntimeError: `reducer_flag` is set.
    """
    if reducer_flag:
        raise RuntimeError("For 'freeze_cell', 'reducer_flag' must be False: cellc trains on one "
                           "device, whose gradients need no reduction.")
    steps = max_accumulation_step if use_grad_accumulation else 0
    return tuple(_TrainFreezeCell(network, sens, grad, opt, steps) for opt in optimizer.opts)


@names_itself
class GradientFreeze:
    """Trains all layers in some steps, and the last ones only in the others.

    Args:
        param_groups: the number of groups; number i leaves the first i parts of the layers as
            they are.
        freeze_type: 0: frozen steps follow each other; 1: drawn ones among others.
        freeze_p: how large the part of frozen steps is, from 0 to 1.
        total_steps: steps of the training.
    """

    def __init__(
        self, param_groups: int, freeze_type: int, freeze_p: float, total_steps: int
    ) -> None:
        self._param_groups = param_groups
        self._freeze_type = freeze_type
        self._freeze_p = freeze_p
        self._total_steps = total_steps

    def split_parameters_groups(
        self, net: Cell, freeze_para_groups_number: int
    ) -> list[list[Parameter]]:
        """Parameters to train: all, then fewer and fewer of the last ones.

        A BatchNorm and a bias stay with the layer before them.
        """
        parts: list[list[Parameter]] = []
        for parameter in net.trainable_params():
            follows = "bn" in parameter.name or "bias" in parameter.name
            if not parts or (len(parts[-1]) >= 3 and not follows):
                parts.append([])
            parts[-1].append(parameter)
        stride = len(parts) // freeze_para_groups_number
        return [[p for part in parts[i * stride:] for p in part]
                for i in range(freeze_para_groups_number)]

    def generate_freeze_index_sequence(
        self, parameter_groups_number: int, freeze_strategy: int, freeze_p: float, total_steps: int
    ) -> list[int]:
        """Which group each step trains; numpy's generator draws them for the strategy 1."""
        count = int(total_steps * 1.01)
        groups = list(range(1, parameter_groups_number))
        if not groups:
            return [0] * count
        if freeze_strategy == CONTINUOUS:
            whole = int(freeze_p * len(groups) // (1 - freeze_p) + 0.5)
            once = [0] * whole + groups
            return once * -(-count // len(once))
        if freeze_strategy != INTERVAL:
            raise ValueError(f"Unsupported freezing training strategy '{freeze_strategy}': it must "
                             "be 0 or 1.")
        chances = [i / sum(groups) for i in groups]
        found, frozen = [0], 0
        while len(found) < count:
            drawn = frozen / len(found) < 1 - freeze_p
            found.append(int(np.random.choice(groups[::-1], p=chances)) if drawn else 0)
            frozen += drawn
        return found

    def freeze_generate(self, network: Cell, optimizer: Any) -> tuple[Cell, FreezeOpt]:
        """The network, and the optimizers that `freeze_cell` makes steps of."""
        groups = [ParameterProcess.generate_group_params(params, given_params(optimizer))
                  for params in self.split_parameters_groups(network, self._param_groups)]
        steps = self.generate_freeze_index_sequence(
            self._param_groups, self._freeze_type, self._freeze_p, self._total_steps)
        return network, FreezeOpt(optimizer, groups, steps)
