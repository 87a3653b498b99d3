"""DatasetHelper, connect_network_with_dataset and data_sink: networks that fetch their data.

Source: `mindspore.train`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from ..compiled.jit import jit
from ..core.declared import POSITIVE, Flag, Function, checks_arguments
from ..core.native import names_itself
from ..nn.cell import Cell
from ..tensors.tensor import Tensor
from .data import Batch, Batches
from .rules import SINK_SIZE

SinkSize = Annotated[int, SINK_SIZE]


@names_itself
class DatasetHelper:
    """One epoch of a data set, to iterate over; or what a network fetches from.

    Args:
        dataset: anything `Model.train` takes.
        dataset_sink_mode: whether `connect_network_with_dataset` may be used.
        sink_size: with sinking: steps of an epoch, -1 for all of the data.
        epoch_num: epochs that will be fetched; accepted for compatibility.
    """

    def __init__(
        self, dataset: Any, dataset_sink_mode: Flag = True, sink_size: SinkSize = -1,
        epoch_num: Annotated[int, POSITIVE.always(ValueError)] = 1,
    ) -> None:
        self._size = sink_size
        self.dataset, self.sinks = dataset, dataset_sink_mode
        self._batches = Batches(dataset, "dataset")
        self._fetched: Iterator[Batch] | None = None
        self._open = True

    def __iter__(self) -> Iterator[Any]:
        if not self.sinks:
            yield from self._batches.epoch()
            return
        for _ in range(self.sink_size()):
            yield ()  # the network fetches its data

    def sink_size(self) -> int:
        """Steps of an epoch.

        Raises:
            RuntimeError: without sinking.
            ValueError: the number of batches is not known.
        """
        self._needs_sinking("sink_size")
        size = self._size if self._size > 0 else len(self._batches)
        if not size:
            raise ValueError("For 'DatasetHelper', the data do not say how many batches they have: "
                             "give 'sink_size'.")
        return size

    def types_shapes(self) -> tuple[list[Any], list[tuple[int, ...]]]:
        """The dtypes and shapes of a batch.

        Raises:
            RuntimeError: without sinking.
        """
        self._needs_sinking("types_shapes")
        batch = next(iter(self._batches.epoch()))
        columns = [c for c in batch if isinstance(c, Tensor)]
        return [c.dtype for c in columns], [c.shape for c in columns]

    def get_data_info(self) -> tuple[list[Any], list[tuple[int, ...]]]:
        """The dtypes and shapes of a batch; see `types_shapes`."""
        return self.types_shapes()

    def fetch(self) -> Batch:
        """The next batch; after the last comes the first again.

        Raises:
            RuntimeError: without sinking, or sending was stopped.
        """
        self._needs_sinking("fetch")
        if not self._open:
            raise RuntimeError("For 'DatasetHelper', sending was stopped: call continue_send().")
        batch = next(self._fetched, None) if self._fetched is not None else None
        if batch is None:
            self._fetched = self._batches.epoch()
            batch = next(self._fetched)
        return batch

    def stop_send(self) -> None:
        """Fetch no more until `continue_send`."""
        self._open = False

    def continue_send(self) -> None:
        """Fetch again."""
        self._open = True

    def release(self) -> None:
        """Forget the place in the data."""
        self._fetched = None

    def _needs_sinking(self, what: str) -> None:
        if not self.sinks:
            raise RuntimeError(f"For 'DatasetHelper', '{what}' needs dataset_sink_mode=True.")


class _Fetching(Cell):
    """A network whose calls without arguments take the next batch."""

    def __init__(self, network: Cell, helper: DatasetHelper) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        object.__setattr__(self, "_helper", helper)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the network."""
        return self.network(*(args or self._helper.fetch()), **kwargs)

    def construct(self, *args: Any) -> Any:
        """The network's result."""
        return self.network(*args)


def connect_network_with_dataset(network: Cell, dataset_helper: DatasetHelper) -> Cell:
    """A network that fetches its data: each call without arguments takes the next batch.

    Raises:
        RuntimeError: the helper does not sink.
    """
    if not isinstance(network, Cell) or not isinstance(dataset_helper, DatasetHelper):
        raise TypeError("For 'connect_network_with_dataset', a Cell and a DatasetHelper are wanted,"
                        f" but got {type(network)} and {type(dataset_helper)}.")
    if not dataset_helper.sinks:
        raise RuntimeError(
            "The API 'connect_network_with_dataset' should be called in dataset sink mode.")
    return _Fetching(network, dataset_helper)


@checks_arguments
def data_sink(
    fn: Function, dataset: Any, sink_size: Annotated[int, POSITIVE.always(ValueError)] = 1,
    jit_config: Any = None, input_signature: Any = None,
) -> Callable[[], Any]:
    """A function without arguments that calls `fn` on the next batches of a data set.

    Args:
        fn: called with the parts of a batch.
        dataset: anything `Model.train` takes; after its end it begins again.
        sink_size: calls of `fn` for each call of the function.
        jit_config: not None: `fn` is compiled.
        input_signature: Tensors with the shapes and dtypes of a batch; checked.

    Returns:
        The function; it gives the last result of `fn`.

    Raises:
        TypeError: `fn` is no function, or a batch does not fit the signature (at the call).
    """
    called = jit(fn) if jit_config is not None else fn
    helper = DatasetHelper(dataset, True, sink_size)
    signature = None
    if input_signature is not None:
        many = input_signature if isinstance(input_signature, (tuple, list)) else [input_signature]
        signature = [(t.shape, t.dtype) for t in many]

    def step() -> Any:
        result = None
        for _ in range(sink_size):
            batch = helper.fetch()
            if signature is not None:
                found = [(t.shape, t.dtype) for t in batch]
                if found != signature:
                    raise TypeError(f"For 'data_sink', a batch must be {signature}, is {found}.")
            result = called(*batch)
        return result

    return step


__all__ = ["DatasetHelper", "connect_network_with_dataset", "data_sink"]
