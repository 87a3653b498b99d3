"""Settings of distributed training: layouts over ranks; most others have nothing to do.

Those that cut networks are checked and recorded, so that networks written for several devices build
and run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Self

import numpy as np

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.world import world

from ...context import OPTIONS
from ...core.declared import NON_NEGATIVE, instance, misuse
from ...core.dispatch import active_tracer
from ...core.invalidation import changed
from ...storage.memory import aligned_block
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor, host_arrays_of, tensor_of
from .compiling import Compiling

with lazy_imports(__name__):  # one process needs none
    from ...calls import sharding as laying
    from ...compiled import jit
    from ...ops import primitive
    from ...ranks import layout as placing
    from ...ranks import layouts, settings


def _rows(x: Tensor) -> Tensor:
    """This process's rows of an input."""
    here = world()
    layout = layouts.PartLayout((here.size,), ((0,), *((),) * (x.ndim - 1)))
    box = layout.box(here.rank, x.shape, "set_parallel_input_with_inputs")
    return Tensor(x.asnumpy()[box], x.dtype)


def _settings(cell: Parallel) -> dict[str, Any]:
    """Return the settings; made when first needed."""
    settings: dict[str, Any] = cell.__dict__.setdefault("_parallel_settings", {})
    return settings


class Parallel(Compiling):
    """Settings of distributed training."""

    # --- how ops are spread ---------------------------------------------------------------------

    def set_data_parallel(self) -> None:
        """Let primitives of this cell and those below it that have no strategy be spread by data:
        sets their attribute `strategy_gen_mode`, which the automatic mode reads."""
        for _, cell in self.cells_and_names():
            for value in vars(cell).values():
                if isinstance(value, primitive.Primitive):
                    value.add_prim_attr("strategy_gen_mode", "data_parallel")

    def set_auto_parallel(self) -> None:
        """Set the flag `auto_parallel` of this cell: it is trained in an automatic mode."""
        self.add_flags(auto_parallel=True)

    def shard(
        self, in_strategy: tuple[Any, ...], out_strategy: tuple[Any, ...] | None = None,
        parameter_plan: dict[str, Any] | None = None,
    ) -> Any:
        """This cell as a function with operands and results sharded by strategies.

        In one process, and in modes that cut no graphs: itself. See `cellc.parallel.shard`.
        """
        return sharded(self, in_strategy, out_strategy, parameter_plan)

    @property
    def pipeline_stage(self) -> int:
        """The stage of a pipeline this cell, and what is in it, belongs to.

        Its trainable parameters know the stage from then on (`Parameter.add_pipeline_stage`).

        Raises:
            AttributeError: none was set.
        """
        if "pipeline_stage" not in _settings(self):
            raise AttributeError(f"The '{type(self).__name__}' object has no pipeline stage set.")
        stage: int = _settings(self)["pipeline_stage"]
        return stage

    @pipeline_stage.setter
    def pipeline_stage(self, value: int) -> None:
        NON_NEGATIVE(value, "Cell", "pipeline_stage")
        before = _settings(self).get("pipeline_stage")
        _settings(self)["pipeline_stage"] = value
        for parameter in self.trainable_params():
            if before in parameter.pipeline_stages:
                parameter.__dict__["_pipeline_stages"].remove(before)
            parameter.add_pipeline_stage(value)
        changed(OPTIONS, "ranks")

    def infer_param_pipeline_stage(self) -> list[Parameter]:
        """The trainable parameters of this process's stage.

        Raises:
            RuntimeError: no Cell with a stage has one of the parameters, or the processes cannot
                be shared out among the stages.
        """
        stage = settings.own_stage()
        for parameter in self.trainable_params():
            if not parameter.pipeline_stages:
                raise RuntimeError(
                    f"infer_param_pipeline_stage: the parameter {parameter.name} is in no Cell "
                    "that has a pipeline_stage: set it on one of those around it")
        return [p for p in self.trainable_params() if stage in p.pipeline_stages]

    # --- parameters -----------------------------------------------------------------------------

    def set_comm_fusion(self, fusion_type: int, recurse: bool = True) -> Self:
        """Set `comm_fusion` of the trainable parameters; itself."""
        for parameter in self.trainable_params(recurse):
            parameter.comm_fusion = fusion_type
        return self

    def set_broadcast_flag(self, mode: bool = True) -> Self:
        """Whether data-parallel training starts with the parameters of the first process (True),
        or each with its own (False), whatever `parameter_broadcast` says; itself."""
        return self.add_flags_recursive(broadcast_flag=mode)

    def set_param_ps(self, recurse: bool = True, init_in_server: bool = False) -> None:
        """Let parameter servers hold the trainable parameters.

        Raises:
            RuntimeError: always: there are none, nor in MindSpore 2.10.
        """
        raise RuntimeError("set_param_ps: there are no parameter servers, as in MindSpore 2.10; "
                           "leave the call out: each process has all parameters, and "
                           "parallel_mode='data_parallel' keeps them equal")

    def load_parameter_slice(self, params: Mapping[str, Parameter] | None) -> None:
        """Replace parameters by this rank's parts of them, as `parameter_layout_dict` has them.

        Args:
            params: parameters by name; None: this cell's own.

        Raises:
            RuntimeError: a layout is of another number of ranks than there are.
        """
        given: Any = self.parameters_dict() if params is None else params
        instance(Mapping, wanted="a dict or None")(given, "load_parameter_slice", "params")
        for name, parameter in given.items():
            instance(Parameter)(parameter, "load_parameter_slice", f"params[{name!r}]")
            layout = self.parameter_layout_dict.get(name)
            if layout and int(np.prod(layout[0])) > 1:
                _cut_parameter(name, parameter, layout)

    def set_parallel_input_with_inputs(self, *inputs: Any) -> None:
        """Keep this process's slices of inputs, equal parts, in `_parallel_inputs_run`."""
        self._parallel_inputs_run = tuple(
            _rows(x) if isinstance(x, Tensor) and x.ndim else x for x in inputs)

    def exec_checkpoint_graph(self) -> None:
        """Run the graph that fetches parameters from a device before they are saved.

        Raises:
            RuntimeError: always: parameters are in this process's memory, there is no such graph.
        """
        raise RuntimeError("exec_checkpoint_graph: parameters are in this process's memory, and no "
                           "graph fetches them from a device; save them with save_checkpoint")

    def remove_redundant_parameters(self) -> None:
        """Drop parameters other devices hold: on one device, none."""

    def flatten_weights(self, fusion_size: int = 0) -> None:
        """Move the parameters, grouped by element type, into contiguous blocks of memory.

        Args:
            fusion_size: the most bytes of a block; 0: one block for each element type.
        """
        NON_NEGATIVE(fusion_size, "flatten_weights", "fusion_size")
        groups: dict[Any, list[Parameter]] = {}
        for parameter in self.get_parameters():
            groups.setdefault(parameter.dtype, []).append(parameter)
        for group in groups.values():
            for chunk in _chunks(group, fusion_size):
                blocks = aligned_block([p._data for p in chunk])
                for parameter, block in zip(chunk, blocks, strict=True):
                    parameter._move(block)

    # --- layouts --------------------------------------------------------------------------------

    @property
    def parameter_layout_dict(self) -> dict[str, Any]:
        """Layouts of parameters over ranks, by name, once graphs that are cut have been compiled.

        Each is a list: the array of ranks; for each axis of the parameter the axis of that array
        which cuts it, counted from its last (-1: none); the shape of a part; 0; True; "".
        """
        found: dict[str, Any] = {p.name: p.cut.described() for p in self.get_parameters()
                                 if p.cut is not None}
        found.update(_settings(self).get("layouts", {}))
        return found

    @parameter_layout_dict.setter
    def parameter_layout_dict(self, value: dict[str, Any]) -> None:
        instance(dict)(value, "Cell", "parameter_layout_dict")
        _settings(self)["layouts"] = value

    @property
    def parallel_parameter_name_list(self) -> Any:
        """Names of the parameters that are split over devices."""
        return _settings(self).get("names", ())

    @parallel_parameter_name_list.setter
    def parallel_parameter_name_list(self, value: list[str]) -> None:
        instance(list)(value, "Cell", "parallel_parameter_name_list")
        _settings(self)["names"] = value

    @property
    def parallel_parameter_merge_net_dict(self) -> dict[str, Any]:
        """Which network each split parameter is put together from."""
        found: dict[str, Any] = _settings(self).get("merge", {})
        return found

    @parallel_parameter_merge_net_dict.setter
    def parallel_parameter_merge_net_dict(self, value: dict[str, Any]) -> None:
        instance(dict)(value, "Cell", "parallel_parameter_merge_net_dict")
        _settings(self)["merge"] = value


def _cut_parameter(name: str, parameter: Parameter, layout: Any) -> None:
    """Leave a whole parameter the part that this rank has."""
    here, parted = world(), layouts.layout_of(layout, f"parameter_layout_dict[{name!r}]")
    if here.size % parted.count:
        raise RuntimeError(f"load_parameter_slice: the layout of '{name}' splits it over "
                           f"{tuple(layout[0])} devices, but there "
                           f"{'is 1 rank' if here.size == 1 else f'are {here.size} ranks'}")
    if not parameter.sliced:
        box = parted.box(here.rank % parted.count, parameter.shape, name)
        parameter.set_data(tensor_of(np.ascontiguousarray(host_arrays_of([parameter])[0][box])))
        parameter.sliced = True


def sharded(
    fn: Any, in_strategy: Any, out_strategy: Any, parameter_plan: Mapping[str, Any] | None
) -> Any:
    """A function or Cell, its operands and results laid out; see `cellc.parallel.shard`."""
    instance(tuple)(in_strategy, "shard", "in_strategy")
    instance(tuple, NoneType)(out_strategy, "shard", "out_strategy")
    instance(dict, NoneType)(parameter_plan, "shard", "parameter_plan")
    if parameter_plan and not hasattr(fn, "parameters_dict"):
        raise TypeError(f"'parameter_plan' is for the parameters of a Cell, but got {type(fn)}.")
    laying.check_strategies("shard", in_strategy, out_strategy)
    if not settings.cuts_networks():
        return fn
    for name, strategy in (parameter_plan or {}).items():
        _plan_cut(fn, name, strategy)

    def laid_out(*args: Any, **kwargs: Any) -> Any:
        return laying.called(fn, "shard", args, kwargs, (in_strategy, out_strategy))

    compiled = jit.jit(laid_out)

    def call(*args: Any, **kwargs: Any) -> Any:
        return (laid_out if active_tracer() is not None else compiled)(*args, **kwargs)

    return call


def _plan_cut(cell: Parallel, name: str, strategy: Any) -> None:
    """Note how a parameter is to be cut."""
    own = name.removeprefix("self.")
    found = {**dict(cell.parameters_and_names()), **cell.parameters_dict()}.get(own)
    if found is None:
        raise ValueError(f"'parameter_plan' names the parameter {name!r}, but there are "
                         f"{', '.join(cell.parameters_dict())}.")
    placing.check_strategy((strategy,), "parameter_plan", "shard")
    (placement,) = placing.placements((strategy,), "shard", settings.ranks_of_a_stage())
    matrix, layout = placement
    parts = [int(np.prod([matrix[a] for a in cut])) for cut in layout]
    if len(parts) != found.ndim or any(d % n for d, n in zip(found.shape, parts, strict=True)):
        raise misuse(name, f"the shape is {found.shape} and the strategy cuts it into "
                     f"{tuple(parts)} parts: each axis must be divisible by its parts")
    found.planned = placement


def _chunks(parameters: list[Parameter], limit: int) -> list[list[Parameter]]:
    """The parameters in order, in groups of at most `limit` bytes (one alone may be larger)."""
    out: list[list[Parameter]] = []
    size = 0
    for p in parameters:
        if not out or (limit and size + p.nbytes > limit):
            out.append([])
            size = 0
        out[-1].append(p)
        size += p.nbytes
    return out
