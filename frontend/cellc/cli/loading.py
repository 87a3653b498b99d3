"""Networks and inputs as the command line names them."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
import tokenize
import traceback
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from .. import shim
from ..lang.hints import note_maker
from ..nn.cell import Cell
from ..nn.graph_cell import GraphCell
from ..tensors.tensor import Tensor, tensor_of
from ..train.export import is_own, load
from .errors import UserError

Array = np.ndarray[Any, Any]
MODELS = (".onnx", ".mindir")
_NETWORK = re.compile(r"(.+?):([^\W\d]\w*)(\(.*\))?", re.DOTALL)
_SPEC = re.compile(r"(\w+)\[([^\[\]]*)\](?::(.+))?", re.DOTALL)
_SIZE = re.compile(r"\d{1,18}|[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class InputType:
    """An input of `--input`."""

    name: str
    shape: tuple[int | str, ...]  # the sizes of its axes; a name for one that is open
    dtype: dtypes.DType
    # low, high: what random elements lie between: integers include both
    low: float | None = None
    high: float | None = None
    array: Array | None = None  # the elements, where they are given


@contextmanager
def writing(path: str | Path, what: str = "cannot be written") -> Iterator[None]:
    """Within the block `path` is written. Raises UserError: it cannot be."""
    try:
        yield
    except OSError as e:
        raise UserError(f"{path}: {what} ({e.strerror or e})") from e


def load_file(path: str) -> Any:
    """A Python file as a module; if it imports `mindspore`, that is cellc."""
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
    """`FILE.py:NAME`, `FILE.py:NAME(...)` or a model as (the module, the Cell or function).

    A class is instantiated, by default without arguments. With arguments, which are literals, a
    function is called for the network.
    """
    if is_model(text):
        return None, load_model(text)
    m = _NETWORK.fullmatch(text)
    if m is None:
        raise UserError(f"{text!r}: expected FILE.py:NAME, the file and the network in it, or "
                        "NET.cellc, MODEL.onnx or MODEL.mindir")
    path, name, call = m.groups()
    given = None if call is None else _literals(text, name + call)
    module = load_file(path)
    found = getattr(module, name, None)
    if found is None:
        cells = [n for n, v in vars(module).items() if isinstance(v, (Cell, type))
                 and (isinstance(v, Cell) or issubclass(v, Cell)) and v is not Cell]
        hint = f"; it has {', '.join(sorted(cells))}" if cells else ""
        raise UserError(f"{path} has no {name!r}{hint}")
    if given is not None:
        return module, _made(text, found, *given)
    if isinstance(found, type):
        try:
            found = found()
        except TypeError as e:
            raise UserError(
                f"{name}() cannot be made without arguments ({e}); give them, as in "
                f"'{path}:{name}(layers=4)', or name a function or an instance in {path} instead"
            ) from e
    if not callable(found):
        raise UserError(f"{text}: it is a {type(found).__name__}; expected a Cell or function")
    return module, found


def is_model(text: str) -> bool:
    """Whether the text of the command line names a model of ONNX or MindSpore."""
    return text.endswith(MODELS) and not is_own(text)


def load_model(path: str) -> GraphCell:
    """A model of ONNX or MindSpore as a Cell."""
    try:
        return GraphCell(load(path))
    except (RuntimeError, ValueError) as e:
        raise UserError(str(e)) from e


def model_inputs(net: GraphCell, given: Sequence[str], option: str = "--input") -> list[str]:
    """The values of `--input` in the order of a model's inputs; where one is not given, its type,
    with the names of open sizes."""
    names = net.argument_names
    by_name = {parse_input(text).name: text for text in given}
    for name in by_name:
        if name not in names:
            raise UserError(f"{option} {name}: the model has no such input; it has "
                            f"{', '.join(names)}")
    if len(by_name) != len(given):
        raise UserError(f"{option} {given[0]}: an input is given twice")
    return [by_name.get(n) or f"{n}={ty.dtype.name}[{','.join(map(str, ty.shape))}]"
            for n, ty in zip(names, net.argument_types, strict=True)]


def _literals(text: str, call: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call in the command line: parsed, not run."""
    expected = f"{text!r}: the arguments must be literals, as in Net(4, name='small', sizes=[1, 2])"
    try:
        node = ast.parse(call, mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or any(
                k.arg is None for k in node.keywords):
            raise UserError(expected)
        return ([_literal(a, expected) for a in node.args],
                {str(k.arg): _literal(k.value, expected) for k in node.keywords})
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as e:
        raise UserError(f"{expected} ({str(e)[:100]})") from e


def _literal(node: ast.expr, expected: str) -> Any:
    """The value of an argument in the command line. Raises UserError: it is no literal."""
    try:
        return ast.literal_eval(node)
    except ValueError as e:
        raise UserError(f"{expected}, but got {ast.unparse(node)[:100]}") from e


def _made(text: str, make: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The network that a class or function gives for these arguments."""
    if isinstance(make, Cell) or not callable(make):
        raise UserError(f"{text}: it is a {type(make).__name__}, which takes no arguments here; "
                        "only a class or a function that returns the network does")
    try:
        net = make(*args, **kwargs)
    except Exception as e:
        file = inspect.getfile(make) if inspect.isfunction(make) or isinstance(make, type) else ""
        raise UserError(f"{text} fails\n{_own_part(e, file)}") from e
    if not isinstance(net, Cell) and not inspect.isroutine(net):
        raise UserError(f"{text}: it returned a {type(net).__name__}; expected a Cell or function")
    return net


def parse_input(text: str) -> InputType:
    """An `--input` option.

    `x=float32[1,3]`, `x=float32[N,3]`, `x=float32[3]:-1..1` (elements between), `x=@file.npy` or
    `x=@batch.npz:x` (a member; its name may be left out where it is that of the input, or there
    is one only).
    """
    name, sep, spec = text.partition("=")
    if not sep or not name:
        raise UserError(f"--input {text!r}: expected NAME=float32[1,1,32,32] or NAME=@file.npy")
    if spec.startswith("@"):
        array = _load_array(spec[1:], name)
        try:
            return InputType(name, array.shape, dtypes.from_numpy(array.dtype), array=array)
        except (TypeError, ValueError) as e:
            raise UserError(f"--input {text!r}: {e}") from None
    m = _SPEC.fullmatch(spec.strip())
    words = [d.strip() for d in m.group(2).split(",")] if m else []
    if words and not words[-1]:
        del words[-1]  # a comma at the end
    low, dots, high = (m.group(3) or "..").partition("..") if m else ("", "", "")
    if m is None or not dots or not all(map(_SIZE.fullmatch, words)):
        raise UserError(f"--input {text!r}: expected a type such as float32[1,1,32,32], or one "
                        "with a range, such as int32[8]:0..999")
    try:
        dtype = dtypes.by_name(m.group(1))
    except ValueError as e:
        raise UserError(f"--input {text!r}: {e}") from None
    dims = tuple(int(d) if d.isdigit() else d for d in words)
    return InputType(name, dims, dtype, *_range(text, dtype, low.strip(), high.strip()))


def _range(
    text: str, dtype: dtypes.DType, low: str, high: str
) -> tuple[float | None, float | None]:
    """The numbers of `:LOW..HIGH`, checked."""
    if not low and not high:
        return None, None
    if dtype.is_complex or dtype.kind == "bool":
        raise UserError(f"--input {text!r}: {dtype} takes no range")
    number: type[int] | type[float] = int if dtype.is_integer else float
    try:
        a, b = number(low), number(high)
    except ValueError:
        raise UserError(f"--input {text!r}: the range of {dtype} must be two "
                        f"{number.__name__}s, LOW..HIGH") from None
    limits = np.iinfo(dtype.numpy) if dtype.is_integer else None
    if not a <= b or (limits is not None and not limits.min <= a <= b <= limits.max) or \
            not np.isfinite([a, b]).all():
        raise UserError(f"--input {text!r}: the range must go from a smaller number to a larger "
                        f"one, both of {dtype}")
    return a, b


def _load_array(path: str, name: str) -> Array:
    """The array of `FILE.npy`, `FILE.npz` or `FILE.npz:MEMBER`."""
    file, sep, member = path.rpartition(":")
    if not sep or not file.endswith(".npz"):
        file, member = path, ""
    try:
        with open(file, "rb") as opened:  # (numpy leaves a damaged archive open)
            found = np.load(opened, allow_pickle=False)
            return found if isinstance(found, np.ndarray) else _member(found, file, member, name)
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except (OSError, ValueError, EOFError, NotImplementedError, SyntaxError, tokenize.TokenError,
            zipfile.BadZipFile, zlib.error) as e:  # (numpy reads the header as a Python literal)
        kind = ".npz" if file.endswith(".npz") else ".npy"
        why = "it holds no plain array" if "allow_pickle" in str(e) else e
        raise UserError(f"{file}: not a numpy {kind} file ({why})") from None


def _member(archive: Any, file: str, member: str, name: str) -> Array:
    names = list(archive.files)
    wanted = member or (names[0] if len(names) == 1 else name)
    if wanted not in names:
        raise UserError(f"{file} has no array {wanted!r}; it has {', '.join(names) or 'none'}: "
                        f"--input {name}=@{file}:{names[0] if names else 'NAME'}")
    array: Array = archive[wanted]
    return array


def sample_inputs(
    specs: Sequence[str], seed: int = 0, ranges: Mapping[int, tuple[int, int]] | None = None,
) -> list[Tensor]:
    """Tensors for `--input` options: given arrays, or random elements of the given type.

    Args:
        specs: the options.
        seed: of the random elements.
        ranges: of the integers of an input, by its number, where the option gives none
            (default: 0 and 1).
    """
    return [tensor_of(a) for a in sample_arrays(specs, seed, ranges)]


def sample_arrays(
    specs: Sequence[str], seed: int = 0, ranges: Mapping[int, tuple[int, int]] | None = None,
) -> list[Array]:
    """The same as arrays."""
    rng = np.random.default_rng(seed)
    ranges = ranges or {}
    return [_elements(parse_input(text), rng, ranges.get(i, (0, 1)))
            for i, text in enumerate(specs)]


def input_types(specs: Sequence[str]) -> list[InputType] | None:
    """The types of `--input` options, if some have open sizes (`float32[N,3]`)."""
    out = list(map(parse_input, specs))
    return out if any(isinstance(d, str) for t in out for d in t.shape) else None


def training_step(
    module: Any, net: Any, name: str, specs: Sequence[str], option: str = "--input"
) -> tuple[Any, list[str]]:
    """The training step of `--train NAME`, and `specs`, the values of `option`, in its order."""
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
    if isinstance(step, Cell) and inspect.isfunction(make):
        note_maker(step, make)
    try:
        return step, ordered_inputs(step, specs, option)
    except UserError as e:
        raise UserError(f"--train {name}: of its step, {e}") from e


def ordered_inputs(net: Any, specs: Sequence[str], option: str = "--input") -> list[str]:
    """The values of `--input` (or another `option`) in the order of the network's parameters, by
    their names."""
    if isinstance(net, GraphCell):
        return model_inputs(net, specs, option)
    fn = net.construct if isinstance(net, Cell) else net
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return list(specs)
    names = list(parameters)
    given = [parse_input(s).name for s in specs]
    if given and not names and inspect.isfunction(net):
        raise UserError(f"{option} {given[0]}: the function {net.__name__} takes no arguments; to "
                        f"compile the network that it returns, write '{net.__name__}()'")
    if not names or any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        return list(specs)
    for name in given:
        if name not in names or given.count(name) > 1:
            of = getattr(net, "__name__", type(net).__name__)
            raise UserError(f"{option} {name} is given twice" if name in names else
                            f"{option} {name}: {of} has no such input; it has "
                            f"{', '.join(names)}")
    missing = [n for n, p in parameters.items()
               if n not in given and p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if missing:
        raise UserError(
            f"{type(net).__name__} takes {', '.join(missing)}: give a type, as in "
            f"{option} '{missing[0]}=float32[1,3,32,32]', or an array, as in "
            f"{option} {missing[0]}=@file.npy"
        )
    return sorted(specs, key=lambda s: names.index(parse_input(s).name))


def known_shape(spec: str) -> tuple[int, ...]:
    """The shape of an `--input` option."""
    return _known(parse_input(spec).shape)


def _known(sizes: Sequence[int | str]) -> tuple[int, ...]:
    """Sizes that are all numbers."""
    name = next((d for d in sizes if isinstance(d, str)), None)
    if name is not None:
        raise UserError(
            f"the size {name} is open, but this command needs it as a number: write it in the "
            "place of the name"
        )
    return tuple(d for d in sizes if isinstance(d, int))


def _elements(given: InputType, rng: np.random.Generator, integers: tuple[int, int]) -> Array:
    dtype, shape = given.dtype, _known(given.shape)
    if given.array is not None:
        return np.ascontiguousarray(given.array).reshape(shape)
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    if dtype.is_integer:
        low, high = integers if given.low is None or given.high is None else \
            (int(given.low), int(given.high))
        kind = np.uint64 if high > np.iinfo(np.int64).max else np.int64
        return np.asarray(rng.integers(low, high, shape, kind, endpoint=True)).astype(dtype.numpy)
    if given.low is not None and given.high is not None:
        return np.asarray(rng.uniform(given.low, given.high, shape)).astype(dtype.numpy)
    return np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
