"""`AutoParallel`: a network whose graph is cut over ranks, by settings of its own.

Source: `mindspore.parallel.auto_parallel.AutoParallel`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.world import world

from .. import context
from ..nn.cell import Cell
from ..ranks.layout import check_strategy
from ..ranks.settings import (
    ParallelMode,
    get_auto_parallel_context,
    parallel_within,
    set_auto_parallel_context,
)

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

    Raises:
        ValueError: an unknown mode.

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
            interleave: the network may come to a stage more than once.
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
            TypeError: something else.
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

    def print_local_norm(self) -> None:
        """Print norms of what single ranks hold of gradients: nothing, as one process holds all.

        Raises:
            RuntimeError: several processes, whose parts of a gradient have no norms here.
        """
        if world().size > 1:
            raise RuntimeError("AutoParallel.print_local_norm: norms of the parts of gradients are "
                               "not there. Use nn.Norm or ops.clip_by_global_norm on the whole.")

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
        """What the network gives."""
        _outermost(self._parallel["parallel_mode"])
        return self.network(*args, **kwargs)


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
