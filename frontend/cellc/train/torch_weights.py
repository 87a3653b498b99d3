"""Weights of PyTorch models into networks of `nn` layers, by their names.

A network is walked along its attributes, as torch walks a module. `_LAYERS` says where a layer here
names a weight or a part otherwise than torch's layer of the same kind.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any

import numpy as np

from cellc_runtime.dtypes import from_numpy
from cellc_runtime.errors import ArtifactError, in_file
from cellc_runtime.records import dataclass

from .. import nn
from ..core.declared import checks_arguments, misuse
from ..nn.cell import Cell
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, tensor_of
from . import weights_file
from .serialization import _array_of, _parted, load_param_into_net
from .torch_file import read_torch
from .torch_norms import with_computed_weights

Array = np.ndarray[Any, Any]
Rename = Mapping[str, str] | Callable[[str], str] | None

_SCALE = {"gamma": "weight", "beta": "bias"}
_STATISTICS = {**_SCALE, "moving_mean": "running_mean", "moving_variance": "running_var"}
_TABLE = {"embedding_table": "weight"}
_OF_INSTANCES = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, *_OF_INSTANCES)
_LINEAR = {"dense1": "linear1", "dense2": "linear2"}
_LAYERS: dict[type[Cell], dict[str, str]] = {
    nn.BatchNorm1d: _STATISTICS, nn.BatchNorm2d: _STATISTICS, nn.SyncBatchNorm: _STATISTICS,
    nn.BatchNorm3d: {"bn2d": ""},
    nn.InstanceNorm1d: _STATISTICS, nn.InstanceNorm2d: _STATISTICS,
    nn.InstanceNorm3d: _STATISTICS,
    nn.LayerNorm: _SCALE, nn.GroupNorm: _SCALE,
    nn.Embedding: _TABLE, nn.EmbeddingLookup: _TABLE, nn.PReLU: {"a": "weight"},
    nn.TransformerEncoderLayer: _LINEAR, nn.TransformerDecoderLayer: _LINEAR,
}
"""Names of attributes in torch, by layer; "" for a part that torch does not have."""
_TRANSPOSED = (nn.Conv1dTranspose, nn.Conv2dTranspose, nn.Conv3dTranspose)
_FLAT = (nn.Conv1d, nn.Conv1dTranspose)  # Layers whose weights have an axis of 1 that torch's lack
_OPTIONAL = "num_batches_tracked"  # A count that batch normalisation of `nn` does not keep
_WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "weights", "params")
_SHOWN = 8
_MOST_OF_INDEX = 1 << 26  # Bytes of an index of several files


@dataclass(frozen=True, slots=True)
class Match:
    """One weight of a network and the one of a file that it takes."""

    name: str  # of the network
    torch_name: str  # of the file
    shape: tuple[int, ...]  # in the network
    torch_shape: tuple[int, ...] | None  # in the file; None if the file lacks it


@dataclass(frozen=True, slots=True)
class WeightsReport:
    """The result of `load_torch_weights`, printed as a table."""

    matched: tuple[Match, ...]  # weights that were loaded
    missing: tuple[Match, ...]  # weights of the network that the file lacks
    differing: tuple[Match, ...]  # weights whose shapes differ
    unused: tuple[str, ...]  # names of the file that the network does not have

    @property
    def is_complete(self) -> bool:
        """Whether each weight was loaded, and each of the file used."""
        return not (self.missing or self.differing or self.unused)

    def __str__(self) -> str:
        rows = [("network", "file", "shape", "")]
        rows += [(m.name, m.torch_name, str(m.shape), "") for m in self.matched]
        rows += [(m.name, m.torch_name, str(m.shape), f"differs: {m.torch_shape}")
                 for m in self.differing]
        rows += [(m.name, m.torch_name, str(m.shape), "missing") for m in self.missing]
        rows += [("", name, "", "unused") for name in self.unused]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, [*widths, 0], strict=True)).rstrip()
                 for row in rows]
        return "\n".join([*lines, self.summary()])

    def summary(self) -> str:
        """The counts in one line."""
        return (f"{len(self.matched)} matched, {len(self.differing)} differ in shape, "
                f"{len(self.missing)} missing, {len(self.unused)} unused")


@checks_arguments
def load_torch_weights(
    net: Cell, source: Any, rename: Rename = None, strict: bool = True
) -> WeightsReport:
    """Load the weights of a PyTorch model into a network of `nn` or `mint.nn` layers.

    Neither torch nor any code of the file is needed or run. Names follow the attributes of the
    network, which must be those of the module: `self.conv1` there is `self.conv1` here, and the
    layers of a Sequential are numbered. Names of weights are mapped: `running_mean` of a
    BatchNorm is `moving_mean` of `nn.BatchNorm2d`, `weight` of an Embedding is `embedding_table`.
    Weights under `weight_norm` or `spectral_norm` are computed from their parts. Nothing is loaded
    if something does not fit.

    Args:
        net: the network.
        source: a file of `torch.save` (`.pt`, `.pth`), a safetensors file, the `.index.json` of
            several of them, or a dict of names to arrays or tensors, also torch's. In a checkpoint
            with more than weights those of "state_dict" or "model" are taken.
        rename: how the names of the file become those of the module: a dict of beginnings
            (`{"backbone.": ""}`), or a function of a name.
        strict: whether each weight must match. Otherwise what matches is loaded, and the report
            tells the rest.

    Returns:
        WeightsReport, which prints as a table.

    Only in cellc.

    Raises:
        ValueError: the file is damaged, or holds what is no data.
        RuntimeError: names, shapes or types do not fit.

    Examples:
        >>> net = nn.SequentialCell(nn.Dense(4, 2), nn.LayerNorm((2,)))
        >>> theirs = {"0.weight": np.ones((2, 4), np.float32), "0.bias": np.zeros(2, np.float32),
        ...           "1.weight": np.ones(2, np.float32), "1.bias": np.zeros(2, np.float32)}
        >>> print(load_torch_weights(net, theirs))
        network   file      shape
        0.weight  0.weight  (2, 4)
        0.bias    0.bias    (2,)
        1.gamma   1.weight  (2,)
        1.beta    1.bias    (2,)
        4 matched, 0 differ in shape, 0 missing, 0 unused
    """
    own, layouts = list(_own(net)), _parted(net)
    given = with_computed_weights(_rename(_arrays(source), rename), {
        torch_name: int(isinstance(cell, _TRANSPOSED)) for _, torch_name, _, cell in own})
    values: dict[str, Parameter] = {}
    found: dict[str, list[Match]] = {"matched": [], "missing": [], "differing": []}
    for name, torch_name, tensor, cell in own:
        shape = layouts[name].whole(tensor.shape) if name in layouts else tensor.shape
        array = given.get(torch_name)
        match = Match(name, torch_name, tuple(shape), None if array is None else array.shape)
        flat = isinstance(cell, _FLAT) and len(shape) == 4
        plain = (*shape[:2], *shape[3:]) if flat else shape
        if array is None:
            if torch_name.rpartition(".")[2] != _OPTIONAL and not _is_fixed(cell, tensor):
                found["missing"].append(match)
        elif array.shape not in (shape, plain):
            found["differing"].append(match)
        else:
            found["matched"].append(match)
            new = tensor_of(np.array(array, order="C").reshape(shape))
            if name in values and _array_of(values[name]).tobytes() != _array_of(new).tobytes():
                raise RuntimeError(f"For 'load_torch_weights', {values[name].name} and "
                                   f"{torch_name} differ, but {name} is both.")
            values[name] = Parameter(new, name=torch_name)
    # One that stands at several places may have one name in the file.
    found["missing"] = [m for m in found["missing"] if m.name not in values]
    taken = {torch_name for _, torch_name, _, _ in own}
    report = WeightsReport(**{k: tuple(v) for k, v in found.items()}, unused=tuple(
        n for n in given if n not in taken and n.rpartition(".")[2] != _OPTIONAL))
    if not values or (strict and not report.is_complete):
        raise RuntimeError(_explain(report))
    load_param_into_net(net, values)
    return report


def _own(net: Cell) -> Iterator[tuple[str, str, Tensor, Cell]]:
    """The weights of a network: their names, those in torch, and the layers that have them."""
    for path, tensor in net.state_dict().items():
        *parts, last = path.split(".")
        cell, torch_path = net, []
        for part in parts:
            torch_path.append(_names(cell).get(part, part))
            cell = getattr(cell, part)
        torch_path.append(_names(cell).get(last, last))
        yield (tensor.name if isinstance(tensor, Parameter) else path,
               ".".join(filter(None, torch_path)), tensor, cell)


def _is_fixed(cell: Cell, tensor: Tensor) -> bool:
    """Whether a weight is one that torch's layer does not have: the scale of a normalisation that
    is not affine, and statistics that an instance normalisation gathers, but does not use."""
    if not isinstance(cell, _NORMALISATIONS):
        return False
    if tensor is cell.gamma or tensor is cell.beta:
        plain = float(tensor is cell.gamma)
        return not cell.affine and bool((_array_of(tensor) == plain).all())
    return isinstance(cell, _OF_INSTANCES)


def _names(cell: Cell) -> dict[str, str]:
    return next((names for kind, names in _LAYERS.items() if isinstance(cell, kind)), {})


def _arrays(source: Any) -> dict[str, Array]:
    """The weights of a file or dict by name."""
    if isinstance(source, Mapping):
        return _flat(source)
    if not isinstance(source, (str, os.PathLike)):
        raise misuse("load_torch_weights", "'source' must be a file or a dict of names to arrays",
                     type(source), TypeError)
    path = os.fspath(source)
    if not os.path.isfile(path):
        raise ValueError(f"For 'load_torch_weights', there is no file {path}.")
    if path.endswith(".index.json"):
        return _sharded(path)
    with open(path, "rb") as file:
        safetensors = file.read(9)[8:] == b"{"
    if safetensors:
        read = weights_file.read(path, "safetensors")
        return {name: a for name, a in read.items() if not isinstance(a, str)}
    with in_file(path):
        return _flat(read_torch(path))


def _sharded(path: str) -> dict[str, Array]:
    """The weights of a model in several files, by the index that says which file has which."""
    with in_file(path):
        if os.path.getsize(path) > _MOST_OF_INDEX:
            raise ArtifactError(f"an index of more than {_MOST_OF_INDEX} bytes is not read")
        with open(path, encoding="utf-8") as file:
            try:
                content = json.load(file)
            except (ValueError, RecursionError) as e:
                raise ArtifactError("it is no JSON") from e
        places = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(places, dict) or not places or not all(
                isinstance(f, str) and f == os.path.basename(f) and f.strip(".")
                and not f.endswith(".index.json") for f in places.values()):
            raise ArtifactError("it has no 'weight_map' of names to files beside it")
    out: dict[str, Array] = {}
    for name in sorted(set(places.values())):
        part = _arrays(os.path.join(os.path.dirname(path), name))
        lost = next((n for n, f in places.items() if f == name and n not in part), None)
        if lost is not None:
            with in_file(path):
                raise ArtifactError(f"{lost!r} is not in {name}")
        out.update((n, part[n]) for n, f in places.items() if f == name)
    return out


def _flat(found: Any) -> dict[str, Array]:
    """The arrays of a state_dict, or of a checkpoint that has one."""
    for _ in range(2):  # a checkpoint, and what is in it
        if not isinstance(found, Mapping):
            raise ArtifactError(f"it holds a {type(found).__name__}, and no dict of names to "
                                "tensors: save the state_dict of the module")
        inner = next((k for k in _WRAPPERS if isinstance(found.get(k), Mapping)), None)
        if inner is None:
            break
        found = found[inner]
    arrays = {name: _array(name, v) for name, v in found.items() if _is_array(v)}
    if arrays:
        return arrays
    raise ArtifactError(f"it holds no tensors by name; it has {list(found)[:_SHOWN]}")


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, Tensor)) or hasattr(value, "detach")


def _array(name: Any, value: Any) -> Array:
    """The elements of an array or tensor, also of torch's."""
    if not isinstance(name, str):
        raise misuse("load_torch_weights", "the names of weights must be texts", type(name),
                     TypeError)
    weights_file.check_name(name, "it")
    if isinstance(value, Tensor):
        return _array_of(value)
    if not isinstance(value, np.ndarray):
        if str(value.layout) != "torch.strided" or value.is_quantized:
            raise misuse("load_torch_weights", f"{name!r} must be a dense tensor, not quantised",
                         value.layout)
        plain = value.detach().cpu().resolve_conj().resolve_neg()
        value = (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()
    from_numpy(value.dtype)  # (raises for elements that no tensor has)
    array: Array = value
    return array


def _rename(given: dict[str, Array], rename: Rename) -> dict[str, Array]:
    """The weights by the names of the module."""
    if not callable(rename) and not isinstance(rename, (Mapping, NoneType)):
        raise misuse("load_torch_weights", "'rename' must be a dict of beginnings or a function",
                     type(rename), TypeError)
    for wrapper in ("module.", "_orig_mod."):  # of DataParallel, and of torch.compile
        if all(name.startswith(wrapper) for name in given):
            given = {name.removeprefix(wrapper): v for name, v in given.items()}
    out: dict[str, Array] = {}
    for name, value in given.items():
        if callable(rename):
            new = rename(name)
        else:
            start = next((s for s in rename or {} if name.startswith(s)), None)
            new = name if not rename or start is None else rename[start] + name[len(start):]
        if not isinstance(new, str) or new in out:
            raise misuse("load_torch_weights", "'rename' must give each weight another name, a "
                         f"text, but gives {new!r} to {name!r}")
        out[new] = value
    return out


def _explain(report: WeightsReport) -> str:
    """Why the weights do not fit, with the first of each kind."""
    def listed(title: str, lines: Iterable[str]) -> list[str]:
        every = list(lines)
        more = [f"    and {len(every) - _SHOWN} more"] * (len(every) > _SHOWN)
        return [f"  {title}:", *(f"    {x}" for x in every[:_SHOWN]), *more] if every else []

    return "\n".join([
        f"For 'load_torch_weights', the weights do not fit the network, and none was loaded: "
        f"{report.summary()}.",
        *listed("shapes differ", (f"{m.name} is {m.shape}, but {m.torch_name} is {m.torch_shape}"
                                  for m in report.differing)),
        *listed("missing", (f"{m.torch_name} for {m.name} {m.shape}" for m in report.missing)),
        *listed("unused", report.unused), *_hint(report)])


def _hint(report: WeightsReport) -> list[str]:
    """A beginning that, left out or put before them, would make most of the missing names fit."""
    unused, missing = {*report.unused}, [m.torch_name for m in report.missing]
    fits: Counter[tuple[str, str]] = Counter()
    for m in missing[:_SHOWN]:
        fits.update((u[: -len(m)], "") for u in unused if u.endswith(f".{m}"))
        fits.update(("", m[: -len(u)]) for u in unused if m.endswith(f".{u}"))
    if not fits:
        return []
    (start, new), _ = fits.most_common(1)[0]
    return [f"  With rename={{{start!r}: {new!r}}} some of the missing names would be found."]
