"""Networks and inputs as the command line names them."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import Dim, Shapes, SymbolInfo
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from .. import shim
from ..nn.cell import Cell
from ..tensors.tensor import Tensor, tensor_of
from .errors import UserError

Array = np.ndarray[Any, Any]
_SPEC = re.compile(r"(\w+)\[((?:\s*(?:\d+|[A-Za-z_]\w*)\s*,?)*)\]")


@contextmanager
def writing(path: str | Path, what: str = "cannot be written") -> Iterator[None]:
    """Within the block `path` is written. Raises UserError: it cannot be."""
    try:
        yield
    except OSError as e:
        raise UserError(f"{path}: {what} ({e.strerror or e})") from e


def load_file(path: str) -> Any:
    """A Python file as a module; if it imports `mindspore`, that is cellc.

    Raises:
        UserError: there is no such file, or it fails.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(f"{path}: no such file")
    name = re.sub(r"\W", "_", file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    shim.install()
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        del sys.modules[name]
        raise UserError(f"{path} does not load\n{_own_part(e, str(file))}") from e
    return module


def _own_part(error: Exception, file: str) -> str:
    """The traceback of an error from the user's file on."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != file:
        tb = tb.tb_next
    lines = [*traceback.format_tb(tb), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()


def load_network(text: str) -> tuple[Any, Any]:
    """`FILE.py:NAME` as (the module, the Cell or function).

    A class is instantiated without arguments.

    Raises:
        UserError: the text, file or name is wrong.
    """
    path, sep, name = text.rpartition(":")
    if not sep or not name.isidentifier():
        raise UserError(f"{text!r}: expected FILE.py:NAME, the file and the network in it, or "
                        "NET.cellc")
    module = load_file(path)
    found = getattr(module, name, None)
    if found is None:
        cells = [n for n, v in vars(module).items() if isinstance(v, (Cell, type))
                 and (isinstance(v, Cell) or issubclass(v, Cell)) and v is not Cell]
        hint = f"; it has {', '.join(sorted(cells))}" if cells else ""
        raise UserError(f"{path} has no {name!r}{hint}")
    if isinstance(found, type):
        try:
            return module, found()
        except TypeError as e:
            raise UserError(
                f"{name}() cannot be made without arguments ({e}); name a function or an "
                f"instance in {path} instead"
            ) from e
    return module, found


def parse_input(text: str) -> tuple[str, Array | tuple[tuple[int | str, ...], dtypes.DType]]:
    """`x=float32[1,3]`, `x=float32[N,3]` or `x=@file.npy` as the name and the array or its type.

    Raises:
        UserError: neither of these.
    """
    name, sep, spec = text.partition("=")
    if not sep or not name:
        raise UserError(f"--input {text!r}: expected NAME=float32[1,1,32,32] or NAME=@file.npy")
    if spec.startswith("@"):
        return name, _load_array(spec[1:])
    m = _SPEC.fullmatch(spec.strip())
    if m is None:
        raise UserError(f"--input {text!r}: expected a type such as float32[1,1,32,32]")
    try:
        dtype = dtypes.by_name(m.group(1))
    except ValueError as e:
        raise UserError(f"--input {text!r}: {e}") from None
    words = [d.strip() for d in m.group(2).split(",") if d.strip()]
    dims = tuple(int(d) if d.isdigit() else d for d in words)
    return name, (dims, dtype)


def _load_array(path: str) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError) as e:
        raise UserError(f"{path}: not a numpy .npy file ({e})") from None
    return array


def sample_inputs(specs: Sequence[str], seed: int = 0) -> list[Tensor]:
    """Tensors for `--input` options: given arrays, or random elements of the given type.

    Raises:
        UserError: an option cannot be read.
    """
    return [tensor_of(a) for a in sample_arrays(specs, seed)]


def sample_arrays(specs: Sequence[str], seed: int = 0) -> list[Array]:
    """The same as arrays."""
    rng = np.random.default_rng(seed)
    return [_elements(parse_input(text)[1], rng) for text in specs]


@dataclass(frozen=True, slots=True)
class InputType:
    """An input of `--input`: its type, with names for open sizes."""

    name: str
    shape: tuple[int | str, ...]
    dtype: dtypes.DType


def input_types(specs: Sequence[str]) -> list[InputType] | None:
    """The types of `--input` options, if some have open sizes (`float32[N,3]`).

    Raises:
        UserError: an option cannot be read.
    """
    out: list[InputType] = []
    for text in specs:
        name, given = parse_input(text)
        if isinstance(given, np.ndarray):
            out.append(InputType(name, given.shape, dtypes.from_numpy(given.dtype)))
        else:
            out.append(InputType(name, *given))
    return out if any(isinstance(d, str) for t in out for d in t.shape) else None


def open_types(given: Sequence[InputType]) -> tuple[list[TensorType], Shapes]:
    """Types with a symbol for each open size, which may be any."""
    shapes = Shapes()
    symbols: dict[str, Dim] = {}
    for t in given:
        for axis, d in enumerate(t.shape):
            if isinstance(d, str) and d not in symbols:
                info = SymbolInfo(origin=f"axis {axis} of {t.name}", stand_in=True)
                symbols[d] = shapes.new(d, 10007 + 2 * len(symbols), info)
    return [TensorType(tuple(symbols[d] if isinstance(d, str) else d for d in t.shape), t.dtype)
            for t in given], shapes


def training_step(
    module: Any, net: Any, name: str, specs: Sequence[str], option: str = "--input"
) -> tuple[Any, list[str]]:
    """The training step of `--train NAME`, and `specs`, the values of `option`, in its order.

    Raises:
        UserError: there is no function of this name, it does not make a step out of the network,
            or the options do not fit the step.
    """
    make = getattr(module, name, None)
    expected = "expected a function that takes the network and returns the training step as a Cell"
    if make is None:
        raise UserError(f"--train {name}: the file has no function {name!r}; {expected}")
    if isinstance(make, Cell) or not callable(make):
        raise UserError(f"--train {name}: it is a {type(make).__name__}; {expected}")
    try:
        inspect.signature(make).bind(net)
    except TypeError as e:
        raise UserError(f"--train {name}: it cannot be called with the network alone ({e}); "
                        f"{expected}") from e
    except ValueError:
        pass  # a builtin that does not say what it takes
    try:
        step = make(net)
    except Exception as e:
        raise UserError(f"--train {name}: it fails for the network; {expected}\n"
                        f"{_own_part(e, inspect.getfile(module))}") from e
    if not isinstance(step, Cell) and not inspect.isfunction(step):
        raise UserError(f"--train {name}: it returned a {type(step).__name__}; {expected}")
    try:
        return step, ordered_inputs(step, specs, option)
    except UserError as e:
        raise UserError(f"--train {name}: of its step, {e}") from e


def ordered_inputs(net: Any, specs: Sequence[str], option: str = "--input") -> list[str]:
    """The values of `--input` (or another `option`) in the order of the network's parameters, by
    their names.

    Raises:
        UserError: a name that is none of them, one given twice, or one that is missing.
    """
    fn = net.construct if isinstance(net, Cell) else net
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return list(specs)
    names = list(parameters)
    given = [parse_input(s)[0] for s in specs]
    if not names or any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        return list(specs)
    for name in given:
        if name not in names or given.count(name) > 1:
            what = "is given twice" if name in names else f"is no input; it has {', '.join(names)}"
            raise UserError(f"{option} {name}: {type(net).__name__} {what}")
    missing = [n for n, p in parameters.items()
               if n not in given and p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if missing:
        raise UserError(
            f"{type(net).__name__} takes {', '.join(missing)}: give a type, as in "
            f"{option} '{missing[0]}=float32[1,3,32,32]', or an array, as in "
            f"{option} {missing[0]}=@file.npy"
        )
    return sorted(specs, key=lambda s: names.index(parse_input(s)[0]))


def known_shape(spec: str) -> tuple[int, ...]:
    """The shape of an `--input` option.

    Raises:
        UserError: it cannot be read, or a size is open.
    """
    given = parse_input(spec)[1]
    return given.shape if isinstance(given, np.ndarray) else _known(given[0])


def _known(sizes: Sequence[int | str]) -> tuple[int, ...]:
    """Sizes that are all numbers."""
    name = next((d for d in sizes if isinstance(d, str)), None)
    if name is not None:
        raise UserError(
            f"the size {name} is open; only `cellc compile` and `cellc export` to ONNX take open "
            "sizes; give a number"
        )
    return tuple(d for d in sizes if isinstance(d, int))


def _elements(
    given: Array | tuple[tuple[int | str, ...], dtypes.DType], rng: np.random.Generator
) -> Array:
    if isinstance(given, np.ndarray):
        return np.ascontiguousarray(given).reshape(given.shape)
    shape, dtype = _known(given[0]), given[1]
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    if dtype.is_integer:
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype.numpy)
    return np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
