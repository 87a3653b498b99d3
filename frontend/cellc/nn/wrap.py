"""Networks around networks: with a loss, for evaluation, for a training step.

Source: the same names in `mindspore.nn`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from cellc_runtime.dtypes import float16, float32
from cellc_runtime.lazy import lazy_imports, lazy_names

from .. import ops
from ..core.declared import NUMBER, Called, Flag, checks_arguments, instance
from ..ops.mapping import HyperMap
from ..ops.primitives.virtual_dataset import VirtualDataset
from ..ranks.settings import ParallelMode, get_auto_parallel_context
from ..tensors.parameter import Parameter, ParameterTuple
from ..tensors.tensor import Tensor
from ..transforms.gradient import GradFunction, GradOperation, make_request, value_and_grad
from .cell import Cell
from .layer.basic import Identity

with lazy_imports(__name__):  # one process needs none
    from . import grad_reducer

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below


class WithLossCell(Cell):
    """loss_fn(backbone(data), label).

    Args:
        backbone: the network.
        loss_fn: a loss of its output and the label.
    """

    def __init__(self, backbone: Called, loss_fn: Called) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn
        if isinstance(backbone, Cell) and backbone.training:
            self.set_train()

    @property
    def backbone_network(self) -> Any:
        """The network."""
        return self._backbone

    def construct(self, data: Any, label: Any) -> Any:
        """The loss."""
        return self._loss_fn(self._backbone(data), label)


class WithEvalCell(Cell):
    """(loss, output, label) of a network.

    Args:
        network: the network.
        loss_fn: a loss of its output and the label.
        add_cast_fp32: convert the output and label to float32 first.
    """

    def __init__(self, network: Called, loss_fn: Called, add_cast_fp32: Flag = False) -> None:
        super().__init__(auto_prefix=False)
        self._network = network
        self._loss_fn = loss_fn
        self.add_cast_fp32 = add_cast_fp32

    def construct(self, data: Any, label: Any) -> Any:
        """The loss, the output and the label."""
        outputs = self._network(data)
        if self.add_cast_fp32:
            if label.dtype == float16:
                label = ops.cast(label, float32)
            outputs = ops.cast(outputs, float32)
        return self._loss_fn(outputs, label), outputs, label


class WithGradCell(Cell):
    """The gradients of a loss with respect to the trainable parameters.

    Args:
        network: the network, or with `loss_fn` None a network that gives the loss.
        loss_fn: a loss of its output and the label.
        sens: factor of the gradients.
    """

    @checks_arguments
    def __init__(self, network: Cell, loss_fn: Any = None, sens: float | None = None) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.loss_fn = loss_fn
        self.weights = ParameterTuple(network.trainable_params())
        self.network_with_loss = network if loss_fn is None else WithLossCell(network, loss_fn)
        self.network_with_loss.set_train()
        self.scaled = _Scaled(self.network_with_loss, 1.0 if sens is None else float(sens))
        self.grad_fn = value_and_grad(self.scaled, None, self.weights, has_aux=True)

    def construct(self, *inputs: Any) -> Any:
        """The gradients, as a tuple."""
        _, grads = self.grad_fn(*inputs)
        return grads


class _Scaled(Cell):
    """The loss times a factor, and the loss: the factor scales all cotangents."""

    def __init__(self, network: Any, sens: float) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.sens = sens

    def construct(self, *inputs: Any) -> Any:
        """Return the value to differentiate, then the network's result."""
        out = self.network(*inputs)
        if self.sens == 1.0:
            return out, out
        if isinstance(out, Tensor):
            return out * self.sens, out
        return tuple([x * self.sens for x in out]), out


def _parameters(weights: Any, network: Any) -> ParameterTuple:
    if weights is None:
        return ParameterTuple(network.trainable_params())
    if isinstance(weights, Parameter):
        return ParameterTuple((weights,))
    if not isinstance(weights, Iterable):
        raise TypeError(f"the weights must be Parameters, but got {type(weights).__name__}")
    return ParameterTuple(weights)


class ForwardValueAndGrad(Cell):
    """The value of a network and its gradients.

    Args:
        network: the network, or a function.
        weights: the parameters of `get_by_list`; the network's trainable ones if None.
        get_all: gradients of all inputs, as a tuple (else of the first).
        get_by_list: gradients of the parameters.
        sens_param: the last argument is the cotangent of the output.
    """

    def __init__(
        self, network: Any, weights: Any = None, get_all: Flag = False,
        get_by_list: Flag = False, sens_param: Flag = False,
    ) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.get_all = get_all
        self.get_by_list = get_by_list
        self.sens_param = sens_param
        # Without parameters and without `get_all` it is the gradient of the first input.
        position = None if get_by_list else 0
        params = _parameters(weights, network) if get_by_list else None
        request = make_request(network, position, params, False, sens_param)
        if get_all:
            request.positions, request.single, request.all_inputs = None, False, True
        self.weights = params
        self.grad_fn = GradFunction(request, True)

    def construct(self, *inputs: Any) -> Any:
        """(value, gradients)."""
        return self.grad_fn(*inputs)


class TrainOneStepCell(Cell):
    """One training step: the loss, its gradients, the optimizer; in one compiled graph.

    Args:
        network: gives the loss of its inputs.
        optimizer: updates its parameters.
        sens: factor of the gradients (a loss scale), 1.0 if None.
        return_grad: return also the gradients, by the parameters' names.
    """

    @checks_arguments
    def __init__(
        self, network: Cell, optimizer: Cell, sens: float | None = None, return_grad: Flag = False
    ) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = self.optimizer.parameters
        self.sens = 1.0 if sens is None else NUMBER(sens, self.cls_name, "sens")
        self.return_grad = return_grad
        self.weights_name = [p.name for p in self.weights]
        self.parallel_mode = get_auto_parallel_context("parallel_mode")
        summed = None if self.parallel_mode == ParallelMode.STAND_ALONE else \
            grad_reducer.reducer(self.weights, optimizer, not return_grad and (
                type(self).construct is TrainOneStepCell.construct),
                network.get_flags().get("broadcast_flag"))
        self.reducer_flag = summed is not None
        self.grad_reducer = summed or Identity()
        # Attributes that the `construct` of derived classes uses in published scripts.
        self.grad = GradOperation(get_by_list=True, sens_param=True)
        self.grad_no_sens = GradOperation(get_by_list=True)
        self.hyper_map = HyperMap()
        self.scaled = self.sens != 1.0
        differentiated = _Scaled(network, self.sens) if self.scaled else network
        self.grad_fn = value_and_grad(differentiated, None, self.weights, has_aux=self.scaled)

    def construct(self, *inputs: Any) -> Any:
        """The loss (before the step)."""
        value, grads = self.grad_fn(*inputs)
        loss = value[1] if self.scaled else value
        grads = self.grad_reducer(grads)
        self.optimizer(grads)
        if self.return_grad:
            return loss, dict(zip(self.weights_name, grads, strict=True))
        return loss


class _VirtualDatasetCell(Cell):
    """A network as it is: one device reads all of the data."""

    def __init__(self, backbone: Any) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._virtual_dataset = VirtualDataset()

    def construct(self, *inputs: Any) -> Any:
        """Return the network's result."""
        return self._backbone(*self._virtual_dataset(*inputs))


class VirtualDatasetCellTriple(_VirtualDatasetCell):
    """A network of three inputs as it is: one device reads all of the data.

    Args:
        backbone: the network.
    """

    def construct(self, a: Any, b: Any, c: Any) -> Any:
        """Return the network's result."""
        return super().construct(a, b, c)


class ParameterUpdate(Cell):
    """Gives a Parameter a new value: a call with a Tensor of its shape writes it, converted to its
    type.

    Args:
        param: the parameter.
    """

    def __init__(self, param: Annotated[Parameter, instance(Parameter)]) -> None:
        super().__init__(auto_prefix=False)
        self._param = param

    def construct(self, x: Tensor) -> Tensor:
        """The value assigned."""
        ops.assign(self._param, x)
        return x


__all__ = [
    "ForwardValueAndGrad", "ParameterUpdate", "TrainOneStepCell", "VirtualDatasetCellTriple",
    "WithEvalCell", "WithGradCell", "WithLossCell",
]
if not TYPE_CHECKING:  # names that MindSpore's package offers, of modules that build on this one
    __getattr__ = lazy_names("cellc.nn", {
        ".loss_scale":
            "DynamicLossScaleUpdateCell FixedLossScaleUpdateCell TrainOneStepWithLossScaleCell",
        ".grad_reducer": "DistributedGradReducer",
        ".micro_batch":
            "GradAccumulationCell MicroBatchInterleaved PipelineCell",
    })
