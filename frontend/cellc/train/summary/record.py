"""SummaryRecord: values of a training in event files that TensorBoard shows."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np

from cellc_compiler.ir.graph import Graph
from cellc_runtime.files import replacing

from ...core.declared import Flag, Function, Int, Positive, checks_arguments, instance
from ...core.native import names_itself
from ...nn.cell import Cell
from ...ops.primitives.summary import PENDING
from ...records.tfrecord import framed
from ...tensors.tensor import Tensor
from . import events

_PLUGINS = ("scalar", "tensor", "histogram", "image", "graph", "dataset_graph", "train_lineage",
            "eval_lineage", "custom_lineage_data", "landscape")
_MODES = ("train", "eval")


Text = Annotated[str, instance(str)]


@names_itself
class SummaryRecord:
    """Writes values, tensors, images and graphs of a training to event files.

    Results of the network's own summary operators (`ops.ScalarSummary` and its like) are written
    with the next `record`. The files are those of TensorBoard (`tensorboard --logdir LOG_DIR`).

    Args:
        log_dir: the folder; it is made.
        file_prefix, file_suffix: begin and end of the files' names.
        num_process: accepted for compatibility: values are written at once.
        network: a Cell whose graph is written once inputs are known (`record(train_network=...)`).
        max_file_size: when a file is larger, nothing more is written.
        raise_exception: whether an OSError of writing ends the program; else it is written to
            standard error once.
        export_options: `{"tensor_format": "npy"}`: tensors become files of their own too.

    Source: `mindspore.train.SummaryRecord` (whose files have a format of their own).
    """

    def __init__(
        self, log_dir: Text, file_prefix: Text = "events", file_suffix: Text = "_MS",
        num_process: int = 32, network: Annotated[Cell, instance(Cell)] | None = None,
        max_file_size: Positive | None = None, raise_exception: Flag = False,
        export_options: dict[str, Any] | None = None,
    ) -> None:
        _check_export(export_options)
        self._folder = Path(log_dir).resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{time.time():.6f}".split(".")
        host = platform.node() or "localhost"
        self._path = self._folder / (
            f"{file_prefix}.out.tfevents.{stamp[0]}.{stamp[1]}.{host}{file_suffix}")
        self._network, self._limit, self._raise = network, max_file_size, raise_exception
        self._export = bool(export_options and export_options.get("tensor_format") == "npy")
        self._mode = "train"
        self._values: list[tuple[str, str, Any]] = []
        self._file: BinaryIO | None = None
        self._closed = self._full = False
        PENDING.clear()

    def __enter__(self) -> SummaryRecord:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    @property
    def log_dir(self) -> str:
        """The file that is written."""
        return str(self._path)

    def set_mode(self, mode: str) -> None:
        """`"train"` or `"eval"`: tags of what is recorded in an evaluation begin with `eval/`."""
        if mode not in _MODES:
            raise ValueError(f"For 'SummaryRecord', the mode must be one of {_MODES}, but got "
                             f"{mode!r}.")
        self._mode = mode

    def add_value(self, plugin: str, name: str, value: Any) -> None:
        """Note a value for the next `record`.

        Args:
            plugin: "scalar", "tensor", "histogram", "image" (a Tensor of each); "graph" (a graph
                of cellc); or a lineage, "dataset_graph" or "landscape" (a dict, kept as text).
            name: its tag.
            value: the value.

        Raises:
            ValueError: another plugin, or a shape that it has no place for.
        """
        if plugin not in _PLUGINS:
            raise ValueError(f"For 'SummaryRecord', 'plugin' must be one of {_PLUGINS}, but got "
                             f"{plugin!r}.")
        if not isinstance(name, str) or not name:
            raise TypeError(f"For 'SummaryRecord', 'name' must be a string, but got {name!r}.")
        self._values.append((plugin, name, _kept(plugin, value)))

    @checks_arguments
    def record(
        self, step: Int, train_network: Cell | None = None,
        plugin_filter: Function | None = None,
    ) -> bool:
        """Write what was added and what the network's summary operators gave.

        Args:
            step: the step it belongs to.
            train_network: accepted for compatibility.
            plugin_filter: gives whether values of a plugin are written.

        Returns:
            Whether something could be written.

        Raises:
            RuntimeError: the record is closed.
        """
        if self._closed:
            raise RuntimeError("For 'SummaryRecord', the record is closed: make a new one.")
        noted = [*self._values, *((p, n, _kept(p, v)) for p, n, v in PENDING)]
        self._values.clear()
        PENDING.clear()
        now = time.time()
        good = True
        for plugin, name, value in noted:
            if plugin_filter is None or plugin_filter(plugin):
                good &= self._write(self._event(plugin, name, value, now, step))
                if self._export and plugin == "tensor":
                    self._save(name, value, step)
        return good

    def flush(self) -> None:
        """Give the file to the system."""
        if self._file is not None and not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """Write what is left and close the file; later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        if self._file is not None:
            self._file.close()

    # --- writing --------------------------------------------------------------------------------

    def _event(self, plugin: str, name: str, value: Any, now: float, step: int) -> bytes:
        if plugin == "graph":
            return events.event(now, step, graph=events.graph_def(graph_nodes(value)))
        tag = name if self._mode == "train" else f"eval/{name}"
        make: dict[str, Callable[[str, Any], bytes]] = {
            "scalar": events.scalar, "tensor": events.tensor, "histogram": events.histogram,
            "image": events.image}
        return events.event(now, step, values=[make.get(plugin, events.text)(tag, value)])

    def _write(self, data: bytes) -> bool:
        if self._full:
            return False
        try:
            if self._file is None:
                self._file = open(self._path, "xb")  # noqa: SIM115 (closed by `close`)
                version = events.event(time.time(), version="brain.Event:2")
                self._file.write(framed(version))
            record = framed(data)
            if self._limit is not None and self._file.tell() + len(record) > self._limit:
                self._full = True
                return False
            self._file.write(record)
        except OSError:
            if self._raise:
                raise
            self._full = True
            return False
        return True

    def _save(self, name: str, value: Any, step: int) -> None:
        folder = self._folder / "export_tensor"
        folder.mkdir(exist_ok=True)
        with replacing(folder / f"{name.replace('/', '_')}_{step}.npy") as file:
            np.save(file, value)


def _check_export(options: Any) -> None:
    if options is None:
        return
    instance(dict)(options, "SummaryRecord", "export_options")
    for key, value in options.items():
        if key != "tensor_format" or value not in ("npy", None):
            raise ValueError("For 'SummaryRecord', 'export_options' may be "
                             f"{{'tensor_format': 'npy'}}, but is {options!r}.")


def _kept(plugin: str, value: Any) -> Any:
    """A value as it will be written, copied."""
    if plugin == "graph":
        return instance(Graph)(value, "SummaryRecord.add_value", "value")
    if plugin not in ("scalar", "tensor", "histogram", "image"):
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        return value if isinstance(value, str) else json.dumps(value, default=str)
    instance(Tensor, np.ndarray, np.generic)(value, "SummaryRecord.add_value", "value")
    array = np.array(value.asnumpy() if isinstance(value, Tensor) else value)
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if plugin == "scalar":
        if array.size != 1:
            raise ValueError(f"For 'SummaryRecord', a scalar has one element, but got shape "
                             f"{array.shape}.")
        return float(array.reshape(()))
    return as_image(array) if plugin == "image" else array


def as_image(array: Any) -> Any:
    """The first image of a batch [n, channels, height, width], stretched to 0 to 255."""
    if array.ndim != 4 or array.shape[1] not in (1, 3) or not array.size:
        raise ValueError("For 'SummaryRecord', images have shape [n, 1 or 3, height, width], but "
                         f"got {array.shape}.")
    first = np.moveaxis(array[0], 0, -1).astype(np.float64)
    if array.dtype != np.uint8:
        low, high = first.min(), first.max()
        first = (first - low) * (255.0 / (high - low) if high > low else 0.0)
    return first.round().astype(np.uint8)


def graph_nodes(graph: Graph) -> Iterator[tuple[str, str, list[str]]]:
    """The nodes of a graph by name, op and inputs; Cells are folders of names."""
    names: dict[int, str] = {}
    for value in graph.inputs:
        names[id(value)] = str(value.name).replace(".", "/")
        yield names[id(value)], "Parameter" if "." in str(value.name) else "Input", []
    for i, node in enumerate(graph.nodes):
        scope = node.scope.replace(".", "/") if node.scope else ""
        own = f"{scope}/{node.op}_{i}" if scope else f"{node.op}_{i}"
        for value in node.results:
            names[id(value)] = own
        yield own, node.op, [names[id(v)] for v in node.operands if id(v) in names]


__all__ = ["SummaryRecord", "as_image", "graph_nodes"]
