"""`onnx.export`: an ONNX model in which inputs, results and open sizes have names of the caller's.

Source: `mindspore.onnx`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cellc_runtime.lazy import lazy_imports

from ..core.declared import instance, misuse
from ..nn.cell import Cell
from ..ops.arguments import boolean
from ..tensors.tensor import Tensor
from .export import named_weights

with lazy_imports(__name__):  # the rules of all ops
    from . import export_onnx

_SUFFIX = ".onnx"


def export(
    net: Cell, *inputs: Any, file_name: str, input_names: list[str] | None = None,
    output_names: list[str] | None = None, export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: dict[str, dict[int, str]] | None = None,
) -> None:
    """Write a network as an ONNX model, as `export` with `file_format="ONNX"` does.

    Args:
        net: a Cell.
        inputs: what it is called with: Tensors, containers of them, and values that are fixed.
        file_name: the file; `.onnx` is added if it is missing.
        input_names: names of its first inputs, in order.
        output_names: names of its first results, in order.
        export_params, keep_initializers_as_inputs: weights are values of the model: only the
            defaults are supported.
        dynamic_axes: by name of an input, the axes whose sizes stay open, and the sizes' names.

    Raises:
        ValueError: an argument that does not fit, or an option that is not supported.
    """
    instance(Cell).always(ValueError)(net, "onnx.export", "net")
    if boolean(export_params, "onnx.export", "export_params") is not True or \
            boolean(keep_initializers_as_inputs, "onnx.export", "keep_initializers_as_inputs"):
        raise misuse("onnx.export", "weights are values of the model: 'export_params' must be True "
                     "and 'keep_initializers_as_inputs' False")
    given, wanted = _texts(input_names, "input_names"), _texts(output_names, "output_names")
    if not isinstance(dynamic_axes, dict | None):
        raise misuse("onnx.export", "'dynamic_axes' must be a dict", dynamic_axes)
    axes = {_number(name, given): sizes for name, sizes in (dynamic_axes or {}).items()}
    leaves = iter(range(len([*_tensors(inputs)])))
    opened = [_opened(x, axes, leaves) for x in inputs]
    traced, assumed = export_onnx.traced_for_export(net, opened, None if axes else net.get_inputs())
    if traced.state is not None:
        traced.state.refuse()
    model = export_onnx.onnx_model(traced, named_weights(traced)[0], export_onnx.OPSET, assumed)
    body = model.proto.graph
    for number, sizes in axes.items():
        _name_sizes(body, number, sizes)
    names = {**_pairs(body.input, given, "input_names"), **_pairs(body.output, wanted,
                                                                  "output_names")}
    _check_new(body, [*model.arrays], names)
    _rename(body, names)
    model.save(file_name if file_name.endswith(_SUFFIX) else file_name + _SUFFIX)


def _texts(names: Any, what: str) -> list[str]:
    if names is not None and not (isinstance(names, list) and all(
            isinstance(n, str) and n for n in names) and len({*names}) == len(names)):
        raise misuse("onnx.export", f"'{what}' must be a list of different strings", names)
    return names or []


def _number(name: str, given: Sequence[str]) -> int:
    if name not in given:
        raise misuse("onnx.export", "'dynamic_axes' must have names of 'input_names'", repr(name))
    return given.index(name)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


def _opened(value: Any, axes: Mapping[int, Mapping[int, str]], leaves: Iterator[int]) -> Any:
    """An argument with the axes of its Tensors open, which are counted by `leaves`."""
    if isinstance(value, Tensor):
        named = axes.get(next(leaves))
        if named is None:
            return value
        if not isinstance(named, dict) or not all(
                type(a) is int and 0 <= a < value.ndim and isinstance(n, str) and n
                for a, n in named.items()):
            raise misuse("onnx.export", "'dynamic_axes' must give names of axes from 0 to "
                         f"{value.ndim - 1}", named)
        shape = [None if i in named else d for i, d in enumerate(value.shape)]
        return Tensor(shape=shape, dtype=value.dtype)
    if isinstance(value, dict):
        return {k: _opened(v, axes, leaves) for k, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_opened(v, axes, leaves) for v in value)
    return value


def _pairs(infos: Sequence[Any], wanted: Sequence[str], what: str) -> dict[str, str]:
    if len(wanted) > len(infos):
        raise misuse("onnx.export", f"'{what}' must have at most {len(infos)} names", wanted)
    return {info.name: name for info, name in zip(infos, wanted, strict=False)}


def _check_new(body: Any, arrays: Sequence[str], names: Mapping[str, str]) -> None:
    """Refuse a name that another value of the model has."""
    kept = {*arrays, *(n for node in body.node for n in node.output),
            *(info.name for info in body.input)} - {*names}
    twice = kept.intersection(names.values())
    if twice or len({*names.values()}) < len(names):
        raise misuse("onnx.export", "'input_names' and 'output_names' must be names that no other "
                     "value of the model has", sorted(twice) or [*names.values()])


def _name_sizes(body: Any, number: int, named: Mapping[int, str]) -> None:
    """Give open sizes of an input their names, in all that has them."""
    dims = body.input[number].type.tensor_type.shape.dim
    names = {dims[axis].dim_param: name for axis, name in named.items() if dims[axis].dim_param}
    for info in (*body.input, *body.output, *body.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in names:
                dim.dim_param = names[dim.dim_param]


def _rename(body: Any, names: Mapping[str, str]) -> None:
    """Rename values of a graph, and of the graphs in it."""
    for info in (*body.input, *body.output, *body.value_info):
        info.name = names.get(info.name, info.name)
    for node in body.node:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)


__all__ = ["export"]
