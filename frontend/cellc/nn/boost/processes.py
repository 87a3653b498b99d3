"""Parameters of optimizers in groups, and optimizers rebuilt for other groups.

Source: `mindspore.boost`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.declared import instance
from ...core.native import names_itself
from ...tensors.parameter import Parameter
from ..cell import Cell
from ..layer.conv import Conv2d
from ..optim.lars import LARS
from .less_bn import CommonHeadLastFN

Group = Mapping[str, Any]
_UNCENTRED = ("beta", "gamma", "bias")
"""Parts of names of Parameters whose gradients are not centralised."""


def remade(optimizer: Any, params: Any, learning_rate: Any = None) -> Any:
    """An optimizer like another one, for other Parameters (and another rate)."""
    if isinstance(optimizer, LARS):
        return LARS(remade(optimizer.opt, params, learning_rate), **optimizer.init_args)
    rate = optimizer.init_learning_rate if learning_rate is None else learning_rate
    return type(optimizer)(
        params=params, learning_rate=optimizer.learning_rate if rate is None else rate,
        **optimizer.init_args)


def given_params(optimizer: Any) -> Any:
    """The Parameters or groups that an optimizer was made with."""
    return optimizer.init_params["params"]


def _as_list(params: Any) -> list[Any]:
    """Parameters or groups as a list."""
    found = list(params or ())
    if not found:
        raise ValueError("Optimizer got an empty parameter list.")
    instance(Mapping, Parameter)(found[0], "Optimizer", "params")
    return found


@names_itself
class OptimizerProcess:
    """Makes an optimizer again, with gradients centralised where that helps.

    Args:
        opt: the optimizer.
    """

    def __init__(self, opt: Any) -> None:
        self.single_opt = opt
        self.origin_params = given_params(opt)

    @staticmethod
    def build_params_dict(network: Cell) -> dict[int, Cell]:
        """By the identity of each Parameter, the Cell that it is of."""
        return {id(p): cell for _, cell in network.cells_and_names()
                for p in cell.get_parameters(expand=False)}

    @staticmethod
    def build_gc_params_group(
        params_dict: Mapping[int, Cell], parameters: Sequence[Group]
    ) -> list[Group]:
        """Groups, each in two: those with centralised gradients, and the others.

        Args:
            params_dict: what `build_params_dict` gives.
            parameters: the groups.
        """
        def centred(parameter: Parameter) -> bool:
            cell = params_dict[id(parameter)]
            grouped = isinstance(cell, Conv2d) and cell.group > 1
            return not (grouped or isinstance(cell, CommonHeadLastFN)
                        or any(part in parameter.name for part in _UNCENTRED))

        found: list[Group] = []
        for group in parameters:
            if "order_params" in group:
                found.append(group)
                continue
            inside = [p for p in group["params"] if centred(p)]
            others = [p for p in group["params"] if not centred(p)]
            if inside:
                found.append({**group, "params": inside, "grad_centralization": True})
            if others:
                found.append({**group, "params": others})
        return found

    def add_grad_centralization(self, network: Cell) -> None:
        """Let gradients of weights have a mean of zero, where Parameters are in groups."""
        groups = _as_list(self.origin_params)
        if isinstance(groups[0], Mapping):
            self.origin_params = self.build_gc_params_group(self.build_params_dict(network), groups)

    def generate_new_optimizer(self) -> Any:
        """The optimizer for the groups as they are now."""
        return remade(self.single_opt, self.origin_params)


@names_itself
class ParameterProcess:
    """Parameters in groups."""

    def __init__(self) -> None:
        self._fusion = 1

    @staticmethod
    def generate_group_params(parameters: Sequence[Parameter], origin_params: Any) -> list[Group]:
        """Groups of some Parameters, with the options that an optimizer's groups gave to them.

        Args:
            parameters: what the groups are to hold. One that is in no group yet has the options of
                the group with most of them.
            origin_params: the optimizer's Parameters, or groups of them.
        """
        groups = _as_list(origin_params)
        if isinstance(groups[0], Parameter):
            return [{"params": list(parameters)}]
        left = {p.name: p for p in parameters}
        found: list[Group] = []
        for group in groups:
            if "order_params" in group:
                found.append({**group, "order_params": list(parameters)})
                continue
            names = [p.name for p in group["params"] if p.name in left]
            found.append({**group, "params": [left.pop(name) for name in names]})
        if left:
            most: Group = max((g for g in groups if "order_params" not in g), key=len, default={})
            found.append({**most, "params": list(left.values())})
        return found

    def assign_parameter_group(
        self, parameters: Sequence[Parameter], split_point: Sequence[int] | None = None
    ) -> Sequence[Parameter]:
        """Number Parameters by stretches (`comm_fusion`); the Parameters.

        Args:
            split_point: where stretches begin; default: in the middle.
        """
        if not isinstance(parameters, (list, tuple)) or not parameters:
            return parameters
        starts = split_point or [len(parameters) // 2]
        for i, parameter in enumerate(parameters):
            self._fusion += i in starts
            parameter.comm_fusion = self._fusion
        return parameters
