"""Settings of distributed training: one process has one device, so most have nothing to do.

They are checked and recorded, so that networks written for several devices build and run
here. Those that only several processes can serve raise a RuntimeError that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ...storage.memory import aligned_block
from ...tensors.parameter import Parameter
from .compiling import Compiling


def _wrong(name: str, wanted: str, value: Any) -> TypeError:
    return TypeError(f"'{name}' must be {wanted}, but got {type(value).__name__}.")


def _settings(cell: Parallel) -> dict[str, Any]:
    """What was set; made when first needed."""
    settings: dict[str, Any] = cell.__dict__.setdefault("_parallel_settings", {})
    return settings


class Parallel(Compiling):
    """Settings of distributed training."""

    # --- how ops are spread ---------------------------------------------------------------------

    def set_data_parallel(self) -> None:
        """Record that ops without a strategy are spread by data: over one device, as they are."""
        _settings(self)["data_parallel"] = True

    def set_auto_parallel(self) -> None:
        """Record that this cell is trained in an automatic parallel mode."""
        _settings(self)["auto_parallel"] = True

    def shard(
        self, in_strategy: tuple[Any, ...], out_strategy: tuple[Any, ...] | None = None,
        parameter_plan: dict[str, Any] | None = None,
    ) -> Self:
        """Record layouts of inputs and outputs; on one device there is nothing to split; itself.

        Raises:
            TypeError: a strategy is no tuple, or the plan no dict.
        """
        if not isinstance(in_strategy, tuple):
            raise _wrong("in_strategy", "tuple", in_strategy)
        if not isinstance(out_strategy, (tuple, type(None))):
            raise _wrong("out_strategy", "tuple or None", out_strategy)
        if not isinstance(parameter_plan, (dict, type(None))):
            raise _wrong("parameter_plan", "dict or None", parameter_plan)
        _settings(self)["shard"] = in_strategy, out_strategy, parameter_plan
        return self

    @property
    def pipeline_stage(self) -> int:
        """The stage of a pipeline this cell belongs to.

        Raises:
            AttributeError: none was set.
        """
        if "pipeline_stage" not in _settings(self):
            raise AttributeError(f"The '{type(self).__name__}' object has no pipeline stage set.")
        stage: int = _settings(self)["pipeline_stage"]
        return stage

    @pipeline_stage.setter
    def pipeline_stage(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong("pipeline_stage", "int", value)
        if value < 0:
            raise ValueError(f"'pipeline_stage' must not be negative, but got {value}.")
        _settings(self)["pipeline_stage"] = value

    # --- parameters -----------------------------------------------------------------------------

    def set_comm_fusion(self, fusion_type: int, recurse: bool = True) -> Self:
        """Set `comm_fusion` of the trainable parameters; itself.

        Raises:
            TypeError, ValueError: see `Parameter.comm_fusion`.
        """
        for parameter in self.trainable_params(recurse):
            parameter.comm_fusion = fusion_type
        return self

    def set_broadcast_flag(self, mode: bool = True) -> Self:
        """Record whether parameters are sent to all devices; itself."""
        return self.add_flags_recursive(broadcast_flag=mode)

    def set_param_ps(self, recurse: bool = True, init_in_server: bool = False) -> None:
        """Let parameter servers hold the trainable parameters.

        Raises:
            RuntimeError: always: cellc runs in one process, which has no parameter servers.
        """
        raise RuntimeError(
            "set_param_ps: parameter servers are processes of their own, and cellc runs in one "
            "process; leave the call out: the parameters are in this process's memory"
        )

    def load_parameter_slice(self, params: Mapping[str, Parameter] | None) -> None:
        """Replace parameters by this device's slices of them: on one device, the whole.

        Args:
            params: parameters by name; None: this cell's own.

        Raises:
            TypeError: no mapping of Parameters.
            RuntimeError: a layout in `parameter_layout_dict` splits one of them.
        """
        given: Any = self.parameters_dict() if params is None else params
        if not isinstance(given, Mapping):
            raise _wrong("params", "dict or None", given)
        for name, parameter in given.items():
            if not isinstance(parameter, Parameter):
                raise _wrong(f"params['{name}']", "Parameter", parameter)
            layout = self.parameter_layout_dict.get(name)
            if layout and int(np.prod(layout[0])) > 1:
                raise RuntimeError(
                    f"load_parameter_slice: the layout of '{name}' splits it over "
                    f"{tuple(layout[0])} devices, and cellc runs on one"
                )

    def set_parallel_input_with_inputs(self, *inputs: Any) -> None:
        """Record the inputs' slices of this device: on one device, the whole inputs."""
        _settings(self)["inputs"] = inputs

    def exec_checkpoint_graph(self) -> None:
        """Run the graph that fetches parameters from a device before they are saved.

        Raises:
            RuntimeError: always: parameters are in this process's memory, there is no such graph.
        """
        raise RuntimeError(
            "exec_checkpoint_graph: parameters are in this process's memory, and no graph fetches "
            "them from a device; save them with save_checkpoint"
        )

    def remove_redundant_parameters(self) -> None:
        """Drop parameters other devices hold: on one device, none."""

    def flatten_weights(self, fusion_size: int = 0) -> None:
        """Move the parameters, grouped by element type, into contiguous blocks of memory.

        Args:
            fusion_size: the most bytes of a block; 0: one block for each element type.

        Raises:
            TypeError: no int.
            ValueError: negative.
        """
        if isinstance(fusion_size, bool) or not isinstance(fusion_size, int):
            raise _wrong("fusion_size", "int", fusion_size)
        if fusion_size < 0:
            raise ValueError(f"'fusion_size' must not be negative, but got {fusion_size}.")
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
        """Layouts of parameters over devices, by name."""
        layouts: dict[str, Any] = _settings(self).get("layouts", {})
        return layouts

    @parameter_layout_dict.setter
    def parameter_layout_dict(self, value: dict[str, Any]) -> None:
        if not isinstance(value, dict):
            raise _wrong("parameter_layout_dict", "dict", value)
        _settings(self)["layouts"] = value

    @property
    def parallel_parameter_name_list(self) -> Any:
        """Names of the parameters that are split over devices."""
        return _settings(self).get("names", ())

    @parallel_parameter_name_list.setter
    def parallel_parameter_name_list(self, value: list[str]) -> None:
        if not isinstance(value, list):
            raise _wrong("parallel_parameter_name_list", "list", value)
        _settings(self)["names"] = value

    @property
    def parallel_parameter_merge_net_dict(self) -> dict[str, Any]:
        """Which network each split parameter is put together from."""
        found: dict[str, Any] = _settings(self).get("merge", {})
        return found

    @parallel_parameter_merge_net_dict.setter
    def parallel_parameter_merge_net_dict(self, value: dict[str, Any]) -> None:
        if not isinstance(value, dict):
            raise _wrong("parallel_parameter_merge_net_dict", "dict", value)
        _settings(self)["merge"] = value


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
