"""Boost's changes of a training, by level or by a dict of options; its training step.

Source: the same names in `mindspore.boost`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.native import names_itself
from ..accumulation import GradientAccumulation
from ..cell import Cell
from ..wrap import TrainOneStepCell
from .freezing import FreezeOpt, GradientFreeze, freeze_cell
from .less_bn import LessBN
from .processes import OptimizerProcess, ParameterProcess

_WAYS = ("less_bn", "grad_freeze", "adasum", "grad_accumulation", "dim_reduce", "loss_scale_group")
_SEVERAL = ("adasum", "dim_reduce", "loss_scale_group")
"""Those that are for clusters of Ascend devices."""
_LEVELS = {"O0": (), "O1": ("less_bn", "grad_freeze"), "O2": ("less_bn", "grad_freeze", "adasum")}
_MODES = ("auto", "manual", "enable_all", "disable_all")
_OPTIONS = {"fn_flag": True, "gc_flag": True, "param_groups": 10, "freeze_type": 1,
            "freeze_p": 0.7, "total_steps": 65536, "device_number": 8,
            "gradient_split_groups": None, "grad_accumulation_step": 1}


@names_itself
class AutoBoost:
    """Chooses how a training is made faster.

    Args:
        level: "O0" (nothing), "O1" (less_bn, grad_freeze) or "O2" (adasum, too).
        boost_config_dict: `{"boost": {"mode": ..., way: bool}, way: {option: value}, "common":
            {...}}`. The mode is "auto" (by the level), "manual" (by the bools), "enable_all" or
            "disable_all".

    Raises:
        RuntimeError: (when it is applied) "adasum", "dim_reduce" or "loss_scale_group", which are
            for clusters of Ascend devices.
    """

    def __init__(self, level: str = "O0", boost_config_dict: Any = "") -> None:
        self.level = level if level in _LEVELS else "O0"
        self.boost_config_dict = boost_config_dict
        given: Mapping[str, Any] = boost_config_dict or {}
        self.boost_config = {way: way in _LEVELS[self.level] for way in _WAYS}
        asked = given.get("boost", {})
        mode = asked.get("mode", "auto")
        if mode not in _MODES:
            raise ValueError(f"The boost mode must be in {list(_MODES)}, but got {mode}")
        if mode == "manual":
            self.boost_config |= {k: v for k, v in asked.items() if k in self.boost_config}
        elif mode != "auto":
            self.boost_config = dict.fromkeys(_WAYS, mode == "enable_all")
        self.options: dict[str, Any] = dict(_OPTIONS)
        for way, options in given.items():
            if self.boost_config.get(way) or way == "common":
                self.options |= {k: v for k, v in options.items() if k in _OPTIONS}

    def _check(self) -> None:
        asked = [way for way in _SEVERAL if self.boost_config[way]]
        if asked:
            raise RuntimeError(
                f"boost: {', '.join(asked)} is for clusters of Ascend devices. Leave boost_level "
                "at 'O0' or 'O1', or switch it off in the boost_config_dict: {'boost': {'mode': "
                f"'manual', '{asked[0]}': False}}}}.")

    def network_auto_process_train(self, network: Cell, optimizer: Any) -> tuple[Cell, Any]:
        """A network and an optimizer to train with.

        Raises:
            RuntimeError: a way that is for clusters.
        """
        self._check()
        options = self.options
        if self.boost_config["less_bn"]:
            network = LessBN(network, fn_flag=options["fn_flag"])
            process = OptimizerProcess(optimizer)
            params = ParameterProcess().assign_parameter_group(
                network.trainable_params(), options["gradient_split_groups"])
            process.origin_params = ParameterProcess.generate_group_params(
                params, process.origin_params)
            if options["gc_flag"]:
                process.add_grad_centralization(network)
            optimizer = process.generate_new_optimizer()
        if self.boost_config["grad_freeze"]:
            freeze = GradientFreeze(options["param_groups"], options["freeze_type"],
                                    options["freeze_p"], options["total_steps"])
            return freeze.freeze_generate(network, optimizer)
        return network, optimizer

    def network_auto_process_eval(self, network: Cell) -> Cell:
        """A network to evaluate.

        Raises:
            RuntimeError: a way that is for clusters.
        """
        self._check()
        return LessBN(network) if self.boost_config["less_bn"] else network


class BoostTrainOneStepCell(TrainOneStepCell):
    """A training step, with frozen layers if the optimizer is a `FreezeOpt`.

    Args:
        network: gives the loss.
        optimizer: updates its Parameters.
        sens: factor of the gradients; None: 1.
        auto_boost: whose options say over how many steps gradients are added up.
    """

    def __init__(
        self, network: Any, optimizer: Any, sens: float | None = None,
        auto_boost: AutoBoost | None = None,
    ) -> None:
        super().__init__(network, optimizer, sens)
        self.auto_boost = auto_boost or AutoBoost()
        self.use_grad_accumulation = self.auto_boost.boost_config["grad_accumulation"]
        self.max_accumulation_step = self.auto_boost.options["grad_accumulation_step"]
        self.freeze = isinstance(optimizer, FreezeOpt)
        self.step = 0
        self.train_strategy: list[int] = []
        self.freeze_nets: tuple[Cell, ...] = ()
        if self.freeze:
            self.freeze_nets = freeze_cell(
                False, network, optimizer, self.sens, self.grad, self.use_grad_accumulation,
                max_accumulation_step=self.max_accumulation_step)
            chosen = optimizer.train_strategy
            self.train_strategy = list(range(len(self.freeze_nets))) if chosen is None else (
                chosen.asnumpy().tolist())
        elif self.use_grad_accumulation:
            self.accumulate = GradientAccumulation(self.max_accumulation_step, optimizer)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """The loss. Which layers a step trains is chosen here, outside of compiled code."""
        if self.freeze:
            return self.gradient_freeze_process(*inputs)
        return super().__call__(*inputs, **kwargs)

    def gradient_freeze_process(self, *inputs: Any) -> Any:
        """The loss of a step that trains the layers whose turn it is."""
        loss = self.freeze_nets[self.train_strategy[self.step]](*inputs)
        self.step = (self.step + 1) % len(self.train_strategy)
        return loss

    def construct(self, *inputs: Any) -> Any:
        """The loss of a step that trains all layers."""
        if not self.use_grad_accumulation:
            return super().construct(*inputs)
        value, grads = self.grad_fn(*inputs)
        return self.accumulate(value[1] if self.scaled else value, self.grad_reducer(grads))
