"""Model: the training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

from .. import context as context
from .. import nn
from ..amp import LossScaleManager, build_train_network
from ..amp.precision import LEVELS
from ..core.declared import BOOL, NON_NEGATIVE, POSITIVE, instance, one_of
from ..core.native import names_itself
from ..nn.boost.training import AutoBoost, BoostTrainOneStepCell
from ..nn.cell import Cell
from ..parallel.auto_parallel import AutoParallel
from ..ranks.settings import ParallelMode as ParallelMode
from ..tensors.tensor import Tensor
from .callback.callback import CallbackParams, Callbacks, RunContext
from .data import Batches, note_batch
from .metrics import Loss, get_metrics
from .rules import SINK_SIZE
from .serialization import finish_saves

_NETWORK_OPTIONS = ("loss_scale_manager", "keep_batchnorm_fp32", "boost_config_dict")


@names_itself
class Model:
    """Trains, evaluates and runs a network.

    Args:
        network: the network.
        loss_fn: a loss of its output and the label; None if the network gives the loss.
        optimizer: updates the parameters; None if the network does it.
        metrics: names of metrics (a set), or metrics by name (a dict).
        eval_network: gives what metrics take; default: loss, output and label of `network`.
        eval_indexes: where the loss, the output and the label are in what `eval_network` gives;
            default: metrics get all of it.
        amp_level: mixed precision of training: "O0", "O1", "O2", "O3", "auto" (see
            `amp.auto_mixed_precision`).
        boost_level: "O0" (nothing), "O1" or "O2": see `boost.AutoBoost`.
        kwargs: `loss_scale_manager`, `keep_batchnorm_fp32` (see `amp.build_train_network`);
            `boost_config_dict` (see `boost.AutoBoost`).

    Data are anything to iterate over in each epoch (see `train.data.Batches`): a list of batches,
    a loader, a function that gives an iterator, a MindSpore dataset.
    """

    def __init__(
        self, network: Cell, loss_fn: Any = None, optimizer: Any = None, metrics: Any = None,
        eval_network: Cell | None = None, eval_indexes: list[int] | None = None,
        amp_level: str = "O0", boost_level: str = "O0", **kwargs: Any,
    ) -> None:
        _check_arguments(network, loss_fn, optimizer, eval_network, eval_indexes, amp_level,
                         boost_level, kwargs)
        parallel = network if isinstance(network, AutoParallel) else None
        self._network = network.network if isinstance(network, AutoParallel) else network
        self._loss_fn, self._optimizer = loss_fn, optimizer
        self._amp_level = amp_level
        self._scaling: LossScaleManager | None = kwargs.get("loss_scale_manager")
        self._options = {k: v for k, v in kwargs.items() if k != "boost_config_dict"}
        self._boost = AutoBoost(boost_level, kwargs.get("boost_config_dict", ""))
        self._metrics = get_metrics(metrics)
        self._eval_indexes = eval_indexes
        self._train_network = _around(parallel, self._for_training())
        self._eval_network = _around(parallel, self._for_evaluation(eval_network))
        self._predict_network = network
        self._in_training = False

    # --- networks -------------------------------------------------------------------------------

    @property
    def train_network(self) -> Any:
        """The network with loss and optimizer."""
        return self._train_network

    @property
    def eval_network(self) -> Any:
        """The network that gives what metrics take; None without metrics."""
        return self._eval_network

    @property
    def predict_network(self) -> Any:
        """The network."""
        return self._predict_network

    def _for_training(self) -> Any:
        if self._optimizer is not None and any(self._boost.boost_config.values()):
            return self._boosted()
        if self._optimizer is not None:
            return build_train_network(
                self._network, self._optimizer, self._loss_fn, level=self._amp_level,
                **self._options,
            )
        if self._loss_fn is not None:
            return nn.WithLossCell(self._network, self._loss_fn)
        return self._network

    def _boosted(self) -> Any:
        """The network with loss and optimizer, as boost changes them."""
        if self._amp_level != "O0" or self._scaling is not None:
            raise ValueError("For 'Model', boost goes with amp_level 'O0' and no loss scale, but "
                             f"got {self._amp_level!r} and {self._scaling}.")
        network, optimizer = self._boost.network_auto_process_train(self._network, self._optimizer)
        losses = network if self._loss_fn is None else nn.WithLossCell(network, self._loss_fn)
        return BoostTrainOneStepCell(losses, optimizer, auto_boost=self._boost)

    def _for_evaluation(self, given: Cell | None) -> Any:
        if not self._metrics:
            return given
        if given is not None:
            return given
        if self._loss_fn is None:
            raise ValueError("If `metrics` is set, `eval_network` (or `loss_fn`) must not be None: "
                             "metrics take what it gives. Leave `metrics` out if there is to be no "
                             "evaluation.")
        self._eval_indexes = [0, 1, 2]
        fp32 = self._amp_level in ("O2", "O3", "auto")
        return nn.WithEvalCell(self._network, self._loss_fn, fp32)

    # --- training -------------------------------------------------------------------------------

    def train(
        self, epoch: int, train_dataset: Any, callbacks: Any = None,
        dataset_sink_mode: bool = False, sink_size: int = -1, initial_epoch: int = 0,
    ) -> None:
        """Train for some epochs.

        Args:
            epoch: the last epoch (counted from 1).
            train_dataset: the data; each batch is given to the network, or its first part to the
                network and its second to the loss.
            callbacks: a callback or a list of them.
            dataset_sink_mode: with `sink_size` above 0: an epoch has that many steps, and goes on
                in the data where the one before ended.
            sink_size: see `dataset_sink_mode`.
            initial_epoch: how many epochs are done already.
        """
        self._run(epoch, train_dataset, callbacks, dataset_sink_mode, sink_size, initial_epoch)

    def fit(
        self, epoch: int, train_dataset: Any, valid_dataset: Any = None,
        valid_frequency: int | Sequence[int] = 1, callbacks: Any = None,
        dataset_sink_mode: bool = False, valid_dataset_sink_mode: bool = False,
        sink_size: int = -1, initial_epoch: int = 0,
    ) -> None:
        """Train for some epochs and evaluate in between.

        Args:
            epoch, train_dataset, callbacks, dataset_sink_mode, sink_size, initial_epoch: as in
                `train`.
            valid_dataset: the data of evaluations; None for none.
            valid_frequency: after every how many epochs, or after which epochs, to evaluate.
            valid_dataset_sink_mode: accepted for compatibility.
        """
        if valid_dataset is not None and not self._metrics:
            raise ValueError("For Model.fit, the argument 'metrics' of Model can not be None or "
                             "empty where 'valid_dataset' is given.")
        BOOL(valid_dataset_sink_mode, "Model.fit", "valid_dataset_sink_mode")
        if not isinstance(valid_frequency, (list, tuple, range)):
            NON_NEGATIVE(valid_frequency, "Model.fit", "valid_frequency")
        self._run(epoch, train_dataset, callbacks, dataset_sink_mode, sink_size, initial_epoch,
                  valid_dataset, valid_frequency, fit=True)

    def _run(
        self, epoch: int, train_dataset: Any, callbacks: Any, sink: bool, sink_size: int,
        initial_epoch: int, valid_dataset: Any = None, frequency: Any = 1, fit: bool = False,
    ) -> None:
        _check_epochs(epoch, initial_epoch, sink, sink_size)
        data = Batches(train_dataset, "train_dataset")
        valid = Batches(valid_dataset, "valid_dataset") if valid_dataset is not None else None
        with Callbacks(callbacks) as all_callbacks:
            if fit:
                all_callbacks.refuse_older_names()
            self._put_into_mode(self._train_network, True)
            params = self._parameters(data, train_dataset, epoch, sink)
            params.list_callback = all_callbacks
            context = RunContext(params)
            all_callbacks.call("on_train_begin", context)
            batches = _Endless(data) if sink and sink_size > 0 else None
            for number in range(initial_epoch + 1, epoch + 1):
                params.cur_epoch_num = number
                all_callbacks.call("on_train_epoch_begin", context)
                steps = batches.take(sink_size) if batches is not None else data.epoch()
                self._epoch(steps, params, context, all_callbacks)
                if batches is None and not params.batch_num:
                    params.batch_num = params.step_in_epoch
                if valid is not None and _is_due(frequency, number) and \
                        not context.get_stop_requested():
                    self._evaluate_in_fit(valid, params, context, all_callbacks)
                all_callbacks.call("on_train_epoch_end", context)
                params.pop("eval_results", None)
                params.pop("metrics", None)
                if context.get_stop_requested():
                    break
            all_callbacks.call("on_train_end", context)
            finish_saves()

    def _put_into_mode(self, network: Cell, training: bool) -> None:
        """Put one of the model's networks, and the layers it shares with the others, into training
        or evaluation."""
        network.set_train(training)
        self._in_training = training

    def _parameters(
        self, data: Batches, dataset: Any, epoch: int, sink: bool
    ) -> CallbackParams:
        return CallbackParams(
            train_network=self._train_network, epoch_num=epoch, batch_num=len(data) or None,
            mode="train", loss_fn=self._loss_fn, optimizer=self._optimizer,
            parallel_mode="stand_alone", device_number=1, train_dataset=dataset,
            train_dataset_element=None, network=self._network, cur_step_num=0, initial_step=0,
            last_save_ckpt_step=None, latest_ckpt_file=None, dataset_sink_mode=sink,
            loss_scale_mananger=self._scaling,
        )

    def _epoch(
        self, steps: Any, params: CallbackParams, context: RunContext, callbacks: Callbacks
    ) -> None:
        params.step_in_epoch = 0
        for batch in steps:
            params.cur_step_num += 1
            params.step_in_epoch += 1
            params.train_dataset_element = batch
            callbacks.call("on_train_step_begin", context)
            if not self._in_training:  # a callback evaluated or predicted
                self._put_into_mode(self._train_network, True)
            try:
                params.net_outputs = self._train_network(*batch)
            except (TypeError, ValueError) as error:
                note_batch(error, batch, params.train_dataset, self._loss_fn is not None)
                raise
            self._follow_overflow(params.net_outputs)
            callbacks.call("on_train_step_end", context)
            if context.get_stop_requested():
                return

    def _follow_overflow(self, outputs: Any) -> None:
        """Tell a loss scale manager that is kept outside the network about the step."""
        if self._scaling is not None and self._scaling.get_drop_overflow_update() and \
                isinstance(outputs, tuple) and len(outputs) > 1:
            self._scaling.update_loss_scale(bool(outputs[1]))

    def _evaluate_in_fit(
        self, valid: Batches, params: CallbackParams, context: RunContext, callbacks: Callbacks
    ) -> None:
        """Evaluate within a training, under the same callback parameters."""
        kept = {name: params.get(name) for name in
                ("cur_step_num", "batch_num", "net_outputs", "dataset_sink_mode", "step_in_epoch")}
        params.valid_dataset, params.eval_network = valid.source, self._eval_network
        results = self._evaluate(valid, params, context, callbacks)
        params.update(kept, mode="train", eval_results=results)
        self._put_into_mode(self._train_network, True)

    # --- evaluation -----------------------------------------------------------------------------

    def eval(
        self, valid_dataset: Any, callbacks: Any = None, dataset_sink_mode: bool = False
    ) -> dict[str, Any]:
        """The metrics of the network on data.

        Args:
            valid_dataset: the data.
            callbacks: a callback or a list of them.
            dataset_sink_mode: accepted for compatibility.
        """
        if not self._metrics:
            raise ValueError("For Model.eval, the model argument 'metrics' can not be None or "
                             "empty, you should set the argument 'metrics' for model.")
        data = Batches(valid_dataset, "valid_dataset")
        params = CallbackParams(
            eval_network=self._eval_network, valid_dataset=valid_dataset, network=self._network,
            dataset_sink_mode=bool(dataset_sink_mode),
        )
        with Callbacks(callbacks) as all_callbacks:
            params.list_callback = all_callbacks
            return self._evaluate(data, params, RunContext(params), all_callbacks)

    def _evaluate(
        self, data: Batches, params: CallbackParams, context: RunContext, callbacks: Callbacks
    ) -> dict[str, Any]:
        for metric in self._metrics.values():
            metric.clear()
        self._put_into_mode(self._eval_network, False)
        params.update(mode="eval", batch_num=len(data) or None, cur_step_num=0)
        callbacks.call("on_eval_begin", context)
        callbacks.call("on_eval_epoch_begin", context)
        for batch in data.epoch():
            params.cur_step_num += 1
            params.step_in_epoch = params.cur_step_num
            params.eval_dataset_element = batch
            callbacks.call("on_eval_step_begin", context)
            try:
                outputs = self._eval_network(*batch)
            except (TypeError, ValueError) as error:
                note_batch(error, batch, data.source, self._loss_fn is not None)
                raise
            params.net_outputs = outputs
            callbacks.call("on_eval_step_end", context)
            self._update_metrics(outputs)
            if context.get_stop_requested():
                break
        params.batch_num = params.batch_num or params.cur_step_num
        callbacks.call("on_eval_epoch_end", context)
        results = {name: metric.eval() for name, metric in self._metrics.items()}
        params.metrics = params.eval_results = results
        callbacks.call("on_eval_end", context)
        return results

    def _update_metrics(self, outputs: Any) -> None:
        given = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        places = self._eval_indexes
        if places is not None and len(given) <= max(places):
            raise ValueError(f"'eval_indexes' is {places}, but the evaluation network gives "
                             f"{len(given)} values.")
        for metric in self._metrics.values():
            if places is None or metric.indexes is not None:
                metric.update(*given)
            elif isinstance(metric, Loss):
                metric.update(given[places[0]])
            else:
                metric.update(given[places[1]], given[places[2]])

    # --- inference ------------------------------------------------------------------------------

    def predict(self, *predict_data: Any, backend: str | None = None, config: Any = None) -> Any:
        """Return the network's result, in eval mode.

        Args:
            predict_data: its inputs: Tensors, or a tuple or list of them.
            backend, config: for MindSpore Lite; must be None.

        Raises:
            ValueError: a backend is requested.
        """
        if backend is not None or config is not None:
            raise ValueError(f"For Model.predict, 'backend' must be None, but got {backend!r}: "
                             "MindSpore Lite is not part of cellc; `cellc compile` writes an "
                             "artifact for deployment.")
        for value in predict_data:
            instance(Tensor, list, tuple, int, float, bool, dict, wanted="Tensors")(
                value, "Model.predict", "data")
        self._put_into_mode(self._predict_network, False)
        return self._predict_network(*predict_data)

    def build(
        self, train_dataset: Any = None, valid_dataset: Any = None, sink_size: int = -1,
        epoch: int = 1, sink_mode: bool = True,
    ) -> None:
        """Compile for the first batch of the data, so that the first step need not.

        Args:
            train_dataset, valid_dataset: the data; None for none.
            sink_size, epoch, sink_mode: accepted for compatibility.

        Raises:
            ValueError: data to validate with, but no metrics.
        """
        for data, network, train in ((train_dataset, self._train_network, True),
                                     (valid_dataset, self._eval_network, False)):
            if data is None:
                continue
            if network is None:
                raise ValueError("For Model.build, 'valid_dataset' needs a Model with metrics.")
            self._put_into_mode(network, train)
            network.compile(*next(Batches(data, "train_dataset").epoch()))

    def infer_train_layout(self, *args: Any, **kwargs: Any) -> None:
        """Layouts of parameters over devices: there is one device.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(_ONE_DEVICE.format("infer_train_layout"))

    def infer_predict_layout(self, *args: Any, **kwargs: Any) -> None:
        """Layouts of parameters over devices: there is one device.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(_ONE_DEVICE.format("infer_predict_layout"))


_ONE_DEVICE = (
    "For 'Model.{}', the layout of parameters over devices is asked for, but cellc runs in one "
    "process on one device."
)


def _around(parallel: AutoParallel | None, network: Any) -> Any:
    """A network derived from a sharded one keeps its sharding."""
    return network if parallel is None or network is None else parallel.around(network)


class _Endless:
    """Batches over the ends of epochs."""

    def __init__(self, data: Batches) -> None:
        self.data = data
        self.running = data.epoch()

    def take(self, count: int) -> Any:
        """The next `count` batches."""
        for _ in range(count):
            batch = next(self.running, None)
            if batch is None:
                self.running = self.data.epoch()
                batch = next(self.running)
            yield batch


def _is_due(frequency: Any, epoch: int) -> bool:
    if isinstance(frequency, int):
        return frequency > 0 and epoch % frequency == 0
    return epoch in frequency


def _check_arguments(
    network: Any, loss_fn: Any, optimizer: Any, eval_network: Any, eval_indexes: Any,
    amp_level: Any, boost_level: Any, options: Mapping[str, Any],
) -> None:
    instance(Cell)(network, "Model", "network")
    instance(Callable, NoneType, wanted="a Cell or a function")(loss_fn, "Model", "loss_fn")
    instance(Cell, NoneType)(optimizer, "Model", "optimizer")
    instance(Cell, NoneType)(eval_network, "Model", "eval_network")
    if eval_indexes is not None and (not isinstance(eval_indexes, list) or len(eval_indexes) != 3):
        raise ValueError("The argument 'eval_indexes' must be a list or None. If 'eval_indexes' is "
                         "a list, length of it must be three. But got 'eval_indexes' "
                         f"{eval_indexes}")
    one_of(*LEVELS)(amp_level, "Model", "amp_level")
    one_of("O0", "O1", "O2")(boost_level, "Model", "boost_level")
    for name, value in options.items():
        if name not in _NETWORK_OPTIONS:
            raise ValueError(f"For 'Model', the option {name!r} is not known; there are "
                             f"{', '.join(_NETWORK_OPTIONS)}.")
        if name == "keep_batchnorm_fp32":
            BOOL(value, "Model", name)


def _check_epochs(epoch: Any, initial: Any, sink: Any, sink_size: Any) -> None:
    POSITIVE(epoch, "Model.train", "epoch")
    NON_NEGATIVE(initial, "Model.train", "initial_epoch")
    if epoch <= initial:
        raise ValueError("For 'Model.train', the parameter 'epoch' must bigger than parameter "
                         f"'initial_epoch', but got the parameter 'epoch' is {epoch}, "
                         f"'initial_epoch' is {initial}.")
    BOOL(sink, "Model.train", "dataset_sink_mode")
    SINK_SIZE(sink_size, "Model.train", "sink_size")
