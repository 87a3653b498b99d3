"""Networks in files: `export` and `load`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.text import print_graph
from cellc_compiler.ir.verify import untrusted_graph
from cellc_runtime import portable
from cellc_runtime.errors import ArtifactError
from cellc_runtime.files import write_atomically
from cellc_runtime.lazy import lazy_imports

from ..compiled.traced import Traced, trace
from ..core.declared import CALLABLE, instance
from ..nn.cell import Cell
from ..nn.graph_cell import LoadedGraph
from ..tensors.parameter import Parameter
from ..tensors.tensor import elements_now
from ..tracing.pytree import Structure, take_apart
from ..tracing.pytree_json import from_json, to_json

with lazy_imports(__name__):  # the rules of all ops, which only files of others need
    from .. import mindir, onnx_import
    from ..mindir import proto
    from . import export_onnx

Array = np.ndarray[Any, Any]

_SUFFIX = {"MINDIR": ".mindir", "ONNX": ".onnx", "CIR": ".cir"}
_NO_MEANING = ("enc_key", "enc_mode", "dataset", "incremental")


def export(net: Any, *inputs: Any, file_name: str, file_format: str, **kwargs: Any) -> None:
    """Write a network, compiled for these inputs, to a file.

    Args:
        net: a Cell, or a function compiled by `jit`.
        inputs: what it is called with: Tensors, containers of them, and values that are fixed.
        file_name: the file; its suffix is added if it is missing.
        file_format: `"MINDIR"`: MindSpore's MindIR, which MindSpore 2.10 loads (see
            docs/mindir.md). `"CIR"`: cellc's own portable file (IR and weights) for whatever a
            graph can hold. `"ONNX"`: needs `pip install cellc[onnx]`; weights of more than 1.9 GB
            go to a second file, `file_name` with `.data` added. In MindIR and ONNX, sizes that
            `set_inputs` left open stay open, and inputs may be types with open sizes themselves
            (`Tensor(shape=[None, 3], dtype=...)`).
        kwargs: for ONNX, `opset_version`: its op set, 17 to 21 (default 20). For MindIR,
            `custom_func`: it gets the model before it is written, as `load_mindir` gives one, and
            may change its header and `user_info`. MindSpore's `enc_key`, `enc_mode`, `dataset`,
            `incremental` must be left out or None.

    Raises:
        CompileError: an error in the network (of the builtin kind it is of).
        TypeError: `net`, `file_name` or a value in the result has a wrong type; or ONNX has
            nothing for an op (the message names it and its place in the source).
        ValueError: an unknown format, an option that is not supported, or a question of the
            network about a size that is open.
        ImportError: the library `onnx` is not installed.
        OSError: the file cannot be written; an older one is as it was.
    """
    if not isinstance(file_name, str) or not file_name:
        raise TypeError(f"For 'export', 'file_name' must be a string, but got {file_name!r}.")
    if file_format == "AIR":
        raise ValueError("For 'export', AIR is the format of Ascend devices, which cellc does not "
                         "know; use 'MINDIR' or 'ONNX'.")
    if file_format == "CELLC":
        raise ValueError("For 'export', 'file_format' must be 'MINDIR', 'CIR' or 'ONNX', but got "
                         "'CELLC'; cellc.compile_artifact('NET.cellc', (net, *inputs)) writes an "
                         "artifact.")
    if file_format not in _SUFFIX:
        raise ValueError("For 'export', 'file_format' must be 'MINDIR', 'CIR' or 'ONNX', but got "
                         f"{file_format!r}.")
    opset, custom_func = _options(file_format, **kwargs)
    CALLABLE(net, "export", "net")
    function = net if isinstance(net, Cell) else getattr(net, "fn", net)
    suffix = _SUFFIX[file_format]
    path = file_name if file_name.endswith(suffix) else file_name + suffix
    if file_format == "ONNX":
        spec = net.get_inputs() if isinstance(net, Cell) else None
        traced, assumed = export_onnx.traced_for_export(function, inputs, spec)
        if traced.state is not None:
            traced.state.refuse()
        weights, _ = named_weights(traced)
        opset = export_onnx.OPSET if opset is None else opset
        export_onnx.onnx_model(traced, weights, opset, assumed).save(path)
        return
    if file_format == "CIR":
        traced = trace(function, inputs, {})
        _refuse_python(traced)
        portable.save(path, _network(traced, inputs))
        return
    spec = net.get_inputs() if isinstance(net, Cell) else None
    traced, _ = export_onnx.traced_for_export(function, inputs, spec)
    write_mindir(path, traced, take_apart(inputs)[0], custom_func)


def _options(
    file_format: str, opset_version: int | None = None, custom_func: Any = None, **others: Any
) -> tuple[int | None, Any]:
    """The options of `export` that go with a format, checked."""
    if opset_version is not None and file_format != "ONNX":
        raise ValueError("For 'export', 'opset_version' goes with file_format='ONNX'.")
    if custom_func is not None:
        CALLABLE(custom_func, "export", "custom_func")
        if file_format != "MINDIR":
            raise ValueError("For 'export', 'custom_func' goes with file_format='MINDIR'.")
    for name, value in others.items():
        if name not in _NO_MEANING:
            raise TypeError(f"export() got an unexpected keyword argument {name!r}")
        if value not in (None, False):
            raise ValueError(f"For 'export', the option {name!r} is not supported: leave it out.")
    return opset_version, custom_func


def write_mindir(
    path: str, traced: Traced, arguments: Structure | None = None,
    changes: Callable[[proto.ModelProto], Any] | None = None,
) -> None:
    """Write a traced call as a MindIR file.

    Args:
        arguments: how its inputs are nested (default: not at all).
        changes: changes the header of the file before it is written.

    Raises:
        ValueError: MindIR has no form for it.
        OSError: the file cannot be written; an older one is as it was.
    """
    _refuse_python(traced)
    weights, _ = named_weights(traced)
    pieces = [mindir.mindir_bytes(traced.graph, weights, traced.out, arguments)]
    if changes is not None:
        model = proto.ModelProto(memoryview(pieces[0]))
        changes(model)
        pieces = model.pieces()
    write_atomically(path, pieces)


def _refuse_python(traced: Traced) -> None:
    """A file holds no function of Python, and no state of its own."""
    if traced.state is not None:
        traced.state.refuse()
    for node in traced.graph.walk():
        if node.op == "host_call":
            raise ValueError("For 'export', the network calls the Python function "
                             f"{node.attrs['name']!r} ({node.span.file}, line {node.span.line}), "
                             "which a file cannot hold; write it with ops.")


def _network(traced: Traced, inputs: tuple[Any, ...]) -> portable.Network:
    arguments, _ = take_apart((inputs, {}))
    weights, frozen = named_weights(traced)
    meta = {
        "arguments": to_json(arguments), "results": to_json(traced.out), "frozen": sorted(frozen),
    }
    return portable.Network(print_graph(traced.graph), weights, meta)


def named_weights(traced: Traced) -> tuple[dict[str, Array], set[str]]:
    """Return the values of a graph's inputs that are no arguments, and those that are not trained.

    The state of the global random generator is left out: whoever loads the graph draws from
    their own.
    """
    weights: dict[str, Array] = {}
    frozen: set[str] = set()
    outside = traced.graph.inputs[traced.arguments :]
    for value, tensor in zip(outside, traced.parameters, strict=True):
        if value.kind == "state":
            continue
        weights[value.name] = elements_now(tensor)
        if not (isinstance(tensor, Parameter) and tensor.requires_grad):
            frozen.add(value.name)
    return weights, frozen


def load(file_name: str, **kwargs: Any) -> LoadedGraph:
    """Read a network: MindSpore's MindIR, what `export` wrote, or an ONNX model. `nn.GraphCell`
    runs it.

    Nothing in the file is executed; all of it is verified. The parameters of a MindIR file and the
    float initializers of an ONNX model become Parameters; sizes may be open (see docs/onnx.md and
    docs/mindir.md).

    Args:
        file_name: a `.mindir`, `.cir` or `.onnx` file. Weights of a MindIR file that are in a
            folder next to it (`NAME_variables`) are found there.
        kwargs: MindSpore's `dec_key` and `dec_mode`: encrypted files are not read, so they must be
            left out or None.

    Raises:
        ValueError: there is no such file, or encryption is requested.
        RuntimeError: the file is damaged or encrypted, or uses what nothing here is like.
    """
    for name, value in kwargs.items():
        if value is not None:
            raise ValueError(f"For 'load', the option {name!r} is not supported: leave it out.")
    instance(str).always(ValueError)(file_name, "load", "file_name")
    if not os.path.isfile(file_name):
        raise ValueError(f"For 'load', there is no file {os.path.realpath(file_name)}.")
    if not file_name.endswith(tuple(_SUFFIX.values())):
        raise ValueError("For 'load', the file must end in '.mindir', '.cir' or '.onnx', but got "
                         f"{file_name}.")
    if not is_own(file_name):
        read = onnx_import.load_onnx if file_name.endswith(".onnx") else mindir.load_mindir
        try:
            return read(file_name)
        except ArtifactError as e:
            raise RuntimeError(f"For 'load', {file_name} cannot be read: {e}.") from e
    try:
        network = portable.load(file_name)
        return _loaded(network)
    except (ArtifactError, KeyError) as e:
        raise RuntimeError(f"For 'load', {file_name} cannot be read: {e}. It must be a file that "
                           "export() wrote; for weights alone use load_checkpoint().") from e


def is_own(file_name: str) -> bool:
    """Whether a file is of cellc's own format, by its name or, for `.mindir`, by its first bytes.
    True also for a file that cannot be read."""
    if not file_name.endswith(".mindir"):
        return file_name.endswith(".cir")
    try:
        with open(file_name, "rb") as file:
            return file.read(len(portable.MAGIC)) == portable.MAGIC
    except OSError:
        return True


def _loaded(network: portable.Network) -> LoadedGraph:
    graph = untrusted_graph(network.graph, "its graph")
    arguments = [v for v in graph.inputs if v.kind == "input"]
    for value in graph.inputs:
        array = network.weights.get(value.name)
        if value.kind in ("param", "constant") and (
            array is None or array.shape != value.type.shape
            or array.dtype != value.type.dtype.numpy
        ):
            raise ArtifactError(f"the weight {value.name!r} is not there, or no {value.type}")
    if graph.inputs[: len(arguments)] != arguments:
        raise ArtifactError("the graph's inputs are out of order")
    frozen = network.meta["frozen"]
    if not isinstance(frozen, list) or not all(isinstance(n, str) for n in frozen):
        raise ArtifactError("the network's list of frozen weights is malformed")
    return LoadedGraph(
        graph, network.weights, frozenset(frozen),
        from_json(network.meta["arguments"], len(arguments)),
        from_json(network.meta["results"], len(graph.outputs)),
    )
