"""SummaryCollector: what a training looks like, in event files. Source: `mindspore.train`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from cellc_runtime.files import write_text

from ...compiled.traced import trace
from ...core.declared import Flag, Positive, instance
from ...nn.learning_rate_schedule import LearningRateSchedule
from ...nn.optim.optimizer import Optimizer
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor, ir_type
from ..rules import LINEAGE
from ..summary.record import SummaryRecord
from .callback import Callback, RunContext

_DEFAULTS: dict[str, Any] = {
    "collect_metric": True, "collect_graph": True, "collect_train_lineage": True,
    "collect_eval_lineage": True, "collect_input_data": True, "collect_dataset_graph": True,
    "histogram_regular": None,
}
_FIRST = 5  # Without a pattern, this number of parameters gets histograms
_TENSOR_TIMES = 20  # Without a frequency, tensors are collected so often at most


Lineage = Annotated[dict[str, Any], LINEAGE]


class SummaryCollector(Callback):
    """Writes the loss, learning rate, histograms of parameters, the graph, input images, what the
    training was made of, and what summary operators give, to event files (see `SummaryRecord`).

    Args:
        summary_dir: the folder.
        collect_freq: every how many steps (with data sinking: epochs); the first counts too.
        num_process: accepted for compatibility.
        collect_specified_data: what to collect: bools `collect_metric`, `collect_graph`,
            `collect_train_lineage`, `collect_eval_lineage`, `collect_input_data`,
            `collect_dataset_graph`, and `histogram_regular`, a pattern of parameters' names.
        keep_default_action: whether what the dict does not name is collected.
        custom_lineage_data: more facts of the training: strings, ints and floats by name.
        collect_tensor_freq: every how many steps `ops.TensorSummary` is written; default: 20 times.
        max_file_size, export_options: see `SummaryRecord`.
    """

    def __init__(
        self, summary_dir: Annotated[str, instance(str)], collect_freq: Positive = 10,
        num_process: Positive = 32,
        collect_specified_data: Annotated[dict[str, Any], instance(dict)] | None = None,
        keep_default_action: Flag = True, custom_lineage_data: Lineage | None = None,
        collect_tensor_freq: Positive | None = None, max_file_size: int | None = None,
        export_options: dict[str, Any] | None = None,
    ) -> None:
        self._folder, self._freq = summary_dir, collect_freq
        self._tensor_freq = collect_tensor_freq
        self._wanted = _specified(collect_specified_data, keep_default_action)
        self._custom = dict(custom_lineage_data or {})
        self._options: dict[str, Any] = {"max_file_size": max_file_size,
                                         "export_options": export_options}
        self._record: SummaryRecord | None = None
        self._done: set[str] = set()
        self._epoch = 0

    def __enter__(self) -> SummaryCollector:
        self._record = SummaryRecord(self._folder, **self._options)
        self._done = set()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._record is not None:
            self._record.close()
            self._record = None

    @property
    def record(self) -> SummaryRecord:
        """The record of a run under way.

        Raises:
            RuntimeError: no run goes on.
        """
        if self._record is None:
            raise RuntimeError("For 'SummaryCollector', there is a record during a run only.")
        return self._record

    # --- moments --------------------------------------------------------------------------------

    def begin(self, run_context: RunContext) -> None:
        """Note what kind of run it is, and that there is one collector.

        Raises:
            ValueError: there are several.
        """
        params = run_context.original_args()
        own = [c for c in params.list_callback.all if isinstance(c, SummaryCollector)]
        if len(own) > 1:
            raise ValueError("For 'SummaryCollector', there must be one of them in the callbacks, "
                             f"but there are {len(own)}.")
        self.record.set_mode("eval" if params.get("mode", "eval") == "eval" else "train")

    def step_end(self, run_context: RunContext) -> None:
        """Collect, if it is time."""
        params = run_context.original_args()
        if params.get("mode", "eval") == "eval":
            return
        if not params.get("dataset_sink_mode") and self._is_due(params.cur_step_num, self._freq):
            self._collect(params)

    def epoch_end(self, run_context: RunContext) -> None:
        """Collect, if epochs count."""
        params = run_context.original_args()
        if params.get("mode", "eval") == "train" and params.get("dataset_sink_mode") \
                and self._is_due(params.cur_epoch_num, self._freq):
            self._collect(params)

    def end(self, run_context: RunContext) -> None:
        """Write what the run was made of."""
        params = run_context.original_args()
        if params.get("mode", "eval") == "train":
            if self._wanted["collect_train_lineage"]:
                self._write_lineage("train_lineage", self._training(params), params.cur_step_num)
            if self._custom:
                self._write_lineage("custom_lineage_data", self._custom, params.cur_step_num)
        elif self._wanted["collect_eval_lineage"] and params.get("metrics"):
            self._write_lineage("eval_lineage", {"metrics": params["metrics"]}, 0)
        self.record.flush()

    @staticmethod
    def _is_due(number: int, every: int) -> bool:
        return number == 1 or number % every == 0

    # --- what is collected ----------------------------------------------------------------------

    def _collect(self, params: Any) -> None:
        record, step = self.record, params.cur_step_num
        if self._wanted["collect_metric"]:
            loss = params.net_outputs
            loss = loss[0] if isinstance(loss, (tuple, list)) and loss else loss
            if isinstance(loss, Tensor) and loss.size:
                record.add_value("scalar", "loss/auto", Tensor(np.mean(loss.asnumpy())))
        rate = _rate(params.optimizer) if isinstance(params.get("optimizer"), Optimizer) else None
        if self._wanted["collect_metric"] and rate is not None:
            record.add_value("scalar", "learning_rate/auto", Tensor(np.float32(rate)))
        for parameter in self._chosen(params):
            record.add_value("histogram", f"{parameter.name}/auto", parameter)
        if self._wanted["collect_input_data"]:
            self._input(params.train_dataset_element)
        self._once(params)
        record.record(step, plugin_filter=None if self._tensors_due(params) else
                      lambda plugin: plugin != "tensor")

    def _tensors_due(self, params: Any) -> bool:
        every = self._tensor_freq
        if every is None:
            total = (params.get("batch_num") or 0) * params.epoch_num
            every = max(self._freq, total // _TENSOR_TIMES)
        return self._is_due(params.cur_step_num, every)

    def _chosen(self, params: Any) -> list[Parameter]:
        pattern = self._wanted["histogram_regular"]
        if pattern is False:
            return []
        weights: list[Parameter] = list(params.network.trainable_params())
        if pattern is None:
            return weights[:_FIRST]
        return [p for p in weights if re.match(pattern, p.name)]

    def _input(self, element: Any) -> None:
        first = element[0] if isinstance(element, (tuple, list)) and element else element
        if isinstance(first, Tensor) and first.ndim == 4 and first.shape[1] in (1, 3):
            self.record.add_value("image", "input_data/auto", first)

    def _once(self, params: Any) -> None:
        if self._wanted["collect_graph"] and "graph" not in self._done:
            self._done.add("graph")
            traced = trace(params.train_network, params.train_dataset_element, {})
            self.record.add_value("graph", "train_network/auto", traced.graph)
        if self._wanted["collect_dataset_graph"] and "data" not in self._done:
            self._done.add("data")
            self._write_lineage("dataset_graph", self._data(params), params.cur_step_num)

    def _write_lineage(self, plugin: str, facts: dict[str, Any], step: int) -> None:
        """Facts as text in the event file, and as JSON beside it."""
        self.record.add_value(plugin, plugin, facts)
        self.record.record(step)
        write_text(Path(self._folder) / f"{plugin}.json", json.dumps(facts, indent=1, default=str))

    @staticmethod
    def _data(params: Any) -> dict[str, Any]:
        batch = params.train_dataset_element
        columns = batch if isinstance(batch, (tuple, list)) else [batch]
        return {
            "dataset": type(params.train_dataset).__name__, "batch_num": params.get("batch_num"),
            "columns": [str(ir_type(c)) if isinstance(c, Tensor) else type(c).__name__
                        for c in columns],
        }

    @staticmethod
    def _training(params: Any) -> dict[str, Any]:
        optimizer, loss = params.get("optimizer"), params.get("loss_fn")
        out = params.get("net_outputs")
        out = out[0] if isinstance(out, (tuple, list)) and out else out
        return {
            "network": type(params.network).__name__,
            "parameters": sum(p.size for p in params.network.get_parameters()),
            "optimizer": type(optimizer).__name__ if optimizer is not None else None,
            "learning_rate": _rate(optimizer) if isinstance(optimizer, Optimizer) else None,
            "loss_function": type(loss).__name__ if loss is not None else None,
            "loss": float(np.mean(out.asnumpy())) if isinstance(out, Tensor) else None,
            "epoch": params.epoch_num, "steps": params.cur_step_num,
            "batch_num": params.get("batch_num"), "parallel_mode": params.parallel_mode,
            "device_num": params.device_number,
        }


def _rate(optimizer: Optimizer) -> float | None:
    """The learning rate of the next step; None where groups have their own."""
    if optimizer.is_group_lr:
        return None
    rate = optimizer.learning_rate
    if isinstance(rate, LearningRateSchedule):
        rate = optimizer.get_lr()
    return float(np.asarray(rate.asnumpy()))


def _specified(given: Any, keep: bool) -> dict[str, Any]:
    """Return the data to collect."""
    if given is None:
        return dict(_DEFAULTS)
    if "collect_landscape" in given:
        raise ValueError("For 'SummaryCollector', 'collect_landscape' is not there: cellc computes "
                         "no loss landscapes.")
    unknown = set(given) - set(_DEFAULTS)
    if unknown:
        raise ValueError(f"For \"SummaryCollector\", the keys {unknown} of `collect_specified_data`"
                         f" are unsupported, expect the follow keys: {list(_DEFAULTS)}")
    for key, value in given.items():
        kinds: Any = (str, type(None)) if key == "histogram_regular" else bool
        if not isinstance(value, kinds):
            raise TypeError(f"For 'SummaryCollector', {key!r} must be a "
                            f"{'pattern' if key == 'histogram_regular' else 'bool'}, but got "
                            f"{value!r}.")
    rest = dict(_DEFAULTS) if keep else dict.fromkeys(_DEFAULTS, False)
    return {**rest, **given}


__all__ = ["SummaryCollector"]
