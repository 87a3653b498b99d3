"""`AutoParallel`: a network whose graph is cut over ranks, by settings of its own.

Source: `mindspore.parallel.auto_parallel.AutoParallel`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.world import world

from .. import context
from ..core.declared import instance, is_int
from ..nn.cell import Cell
from ..ranks.layout import check_strategy
from ..ranks.settings import (
    ParallelMode,
    get_auto_parallel_context,
    parallel_within,
    set_auto_parallel_context,
)
from . import set_op_strategy_config

_MODES = {
    "semi_auto": (ParallelMode.SEMI_AUTO_PARALLEL, "sharding_propagation"),
    "sharding_propagation": (ParallelMode.AUTO_PARALLEL, "sharding_propagation"),
    "recursive_programming": (ParallelMode.AUTO_PARALLEL, "recursive_programming"),
}


class AutoParallel(Cell):
    """A network, a whole training step for example, whose graph is cut over the ranks.

    Stages of a pipeline concern more than the call: `pipeline` sets what
    `set_auto_parallel_context` sets, for the whole process.

    Args:
        network: what is called.
        parallel_mode: `"semi_auto"` (by the strategies of `shard`), `"sharding_propagation"` (what
            has none follows), `"recursive_programming"` (layouts of weights are searched, too).

    Examples:
        >>> network = AutoParallel(nn.PipelineCell(losses, 4))
        >>> network.pipeline(stages=2)
    """

    def __init__(self, network: Any, parallel_mode: str = "semi_auto") -> None:
        super().__init__(auto_prefix=False)
        if parallel_mode not in _MODES:
            raise ValueError("For 'AutoParallel', the argument 'parallel_mode' must be one of "
                             f"{list(_MODES)}, but got the value : {parallel_mode}.")
        self.network = network
        self._stages = 1
        mode, search = _MODES[parallel_mode]
        self._parallel: dict[str, Any] = {
            "parallel_mode": mode, "search_mode": search, "full_batch": False,
            "dataset_strategy": "data_parallel"}

    def pipeline(
        self, stages: int = 1, output_broadcast: bool = False, interleave: bool = False,
        scheduler: str = "1f1b",
    ) -> None:
        """Cut the network into stages.

        Args:
            stages: how many; the processes are shared out among them in their order.
            output_broadcast: all stages get the result, not the last one alone.
            interleave: the network may reach a stage more than once.
            scheduler: `"1f1b"` or `"gpipe"`.

        Raises:
            TypeError, ValueError: a value of a wrong kind, or none of its choices.
            RuntimeError: a schedule that is not there.
        """
        set_auto_parallel_context(
            pipeline_stages=stages, pipeline_result_broadcast=output_broadcast,
            pipeline_config={"pipeline_interleave": interleave, "pipeline_scheduler": scheduler},
            **self._parallel)
        self._stages = stages

    def get_pipeline_stages(self) -> int:
        """How many stages there are."""
        return self._stages

    def dataset_strategy(self, config: str | tuple[Any, ...]) -> None:
        """How the data lie that ranks feed.

        Args:
            config: `"data_parallel"` (each its part along the first axis), `"full_batch"` (each all
                of them), or for each input the numbers of parts of its axes, or a `Layout`.

        Raises:
            ValueError: None, or an unknown word.
        """
        if config is None:
            raise ValueError("dataset_strategy is none in config!")
        if isinstance(config, str) and config not in ("full_batch", "data_parallel"):
            raise ValueError("For 'AutoParallel.dataset_strategy', the argument 'config' must be "
                             f"'full_batch' or 'data_parallel', but got the value : {config}.")
        if not isinstance(config, str):
            check_strategy(config, "config", "AutoParallel.dataset_strategy")
        self._parallel.update(dataset_strategy=config, full_batch=config == "full_batch")
        if self._stages > 1:
            set_auto_parallel_context(**self._parallel)

    def enable_gradients_mean(self) -> None:
        """Gradients that are summed over processes are divided by their number."""
        set_auto_parallel_context(gradients_mean=True)

    def disable_gradient_fp32_sync(self) -> None:
        """16-bit gradients are summed over processes as they are, not in float32."""
        set_auto_parallel_context(gradient_fp32_sync=False)

    def no_init_parameters_in_compile(self) -> None:
        """Accepted for compatibility: parameters get their values when they are made, or, of those
        made within `no_init_parameters`, by a checkpoint that is loaded before `compile`."""

    def hsdp(
        self, shard_size: int = -1, threshold: int = 64, optimizer_level: str = "level1"
    ) -> None:
        """Part the optimizer's state among the ranks that have the same part of a parameter.

        Args:
            shard_size: among how many ranks; -1: all of them.
            threshold: KiB of a parameter below which its state is not sharded.
            optimizer_level: `"level1"` or `"level2"` (sums of gradients, too).

        Raises:
            ValueError: a value of a wrong kind or size, or an unknown level.
            RuntimeError: `"level3"`, which parts weights, over several processes.
        """
        if not is_int(shard_size) or (shard_size < 1 and shard_size != -1):
            raise ValueError(f"shard_size must be a positive integer or -1, but got {shard_size}.")
        if not is_int(threshold) or threshold < 0:
            raise ValueError(f"threshold must be a positive integer or 0, but got {threshold}.")
        set_auto_parallel_context(
            parallel_optimizer_config={
                "parallel_optimizer_threshold": threshold, "optimizer_level": optimizer_level,
                "optimizer_weight_shard_size": shard_size},
            optimizer_weight_shard_size=shard_size, enable_parallel_optimizer=True)

    def comm_fusion(self, config: dict[str, Any] | None) -> None:
        """Say which collectives are done together; see `set_auto_parallel_context`.

        Raises:
            TypeError, KeyError, ValueError: no dict, or none of its keys and values.
        """
        if config is not None:
            instance(dict)(config, "AutoParallel.comm_fusion", "config")
            set_auto_parallel_context(comm_fusion=config)

    def enable_fp32_communication(self) -> None:
        """Recorded: sums between ranks are made in a type that holds what was summed."""
        set_auto_parallel_context(force_fp32_communication=True)

    def disable_loss_repeated_mean(self) -> None:
        """Recorded: the gradient is that of the one loss, however many ranks compute it."""
        set_auto_parallel_context(loss_repeated_mean=False)

    # --- files ----------------------------------------------------------------------------------

    def save_param_strategy_file(self, file_path: str) -> None:
        """Write the layouts of trained parameters to a file, once graphs are cut."""
        _strategy_config(save_file=_path(file_path))

    def load_param_strategy_file(self, file_path: str) -> None:
        """Name the strategy file by which `load_distributed_checkpoint` reads a checkpoint."""
        _strategy_config(load_file=_path(file_path))

    def disable_strategy_file_only_for_trainable_params(self) -> None:
        """Write the layouts of all parameters."""
        _strategy_config(only_trainable_params=False)

    def save_operator_strategy_file(self, file_path: str) -> None:
        """Strategies of ops are written nowhere: see `load_operator_strategy_file`."""
        _operators(file_path, "SAVE")

    def load_operator_strategy_file(self, file_path: str) -> None:
        """Strategies of ops are read from no file: `shard` says them, or they follow.

        Raises:
            KeyError: no absolute path, or no `.json`.
            RuntimeError: several processes.
        """
        _operators(file_path, "LOAD")

    def set_group_ckpt_save_file(self, file_path: str) -> None:
        """Recorded: `parallel.strategy` says which ranks have the same parts."""
        set_auto_parallel_context(group_ckpt_save_file=_path(file_path))

    def transformer_opt(self, file_path: str | None) -> None:
        """Accepted for compatibility: options of other devices' collectives, which change no
        result."""

    # --- norms ----------------------------------------------------------------------------------

    def print_local_norm(self) -> None:
        """Print norms of what single ranks hold of gradients: nothing, as one process holds all.

        Raises:
            RuntimeError: several processes, whose parts of a gradient have no norms here.
        """
        _no_norms("print_local_norm")

    def dump_local_norm(self, file_path: str) -> None:
        """Write such norms to a file: see `print_local_norm`.

        Raises:
            RuntimeError: several processes.
        """
        _path(file_path)
        _no_norms("dump_local_norm")

    def enable_device_local_norm(self) -> None:
        """Print such norms of all parameters: see `print_local_norm`.

        Raises:
            RuntimeError: several processes.
        """
        _no_norms("enable_device_local_norm")

    def around(self, network: Cell) -> AutoParallel:
        """Another network with the same settings: a training step of this one, say."""
        out = AutoParallel(network)
        out._parallel, out._stages = dict(self._parallel), self._stages
        return out

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The network, cut over the ranks."""
        _graph_mode()
        with parallel_within(**self._parallel):
            return super().__call__(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for these inputs without running."""
        with parallel_within(**self._parallel):
            super().compile(*args, **kwargs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Return the network's result."""
        _outermost(self._parallel["parallel_mode"])
        return self.network(*args, **kwargs)


def _path(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"the argument 'file_path' must be str, but got the type : {type(given)} .")
    return given


def _strategy_config(**given: Any) -> None:
    known = get_auto_parallel_context("strategy_ckpt_config")
    set_auto_parallel_context(strategy_ckpt_config={**known, **given})


def _operators(path: Any, mode: str) -> None:
    """Record the file of strategies of ops, where nothing is cut."""
    set_op_strategy_config(mode, _path(path))
    if world().size > 1:
        raise RuntimeError("AutoParallel: strategies of ops are in no file. Say them with shard, "
                           "or save the layouts of parameters (save_param_strategy_file).")


def _no_norms(what: str) -> None:
    if world().size > 1:
        raise RuntimeError(f"AutoParallel.{what}: norms of the parts of gradients are not there. "
                           "Use nn.Norm or ops.clip_by_global_norm on the whole.")


def _graph_mode() -> None:
    """Several processes must not train one by one where graphs were to be cut."""
    if world().size > 1 and not context.in_graph_mode():
        raise RuntimeError(f"AutoParallel cuts graphs over {world().size} processes: use "
                           "GRAPH_MODE.")


def _outermost(mode: str) -> None:
    """Nor where what calls this network is not cut."""
    if world().size > 1 and get_auto_parallel_context("parallel_mode") != mode:
        raise RuntimeError("AutoParallel is within another network, which is not cut: put "
                           "AutoParallel around the outermost one.")


__all__ = ["AutoParallel"]
