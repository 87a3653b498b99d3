"""Entries of an artifact: those of `--entry`, and those of networks in memory."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler import backends
from cellc_runtime.artifact import DEFAULT_ENTRY
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.target import Target

from ..compiled.dynamic import parameter_names
from ..compiled.found_sizes import is_staged
from ..compiled.traced import trace
from ..lang import CompileError
from ..nn.cell import Cell
from ..tensors.tensor import OpenTensor, Tensor, tensor_of
from . import artifacts
from .errors import UserError
from .loading import InputType, ordered_inputs, parse_input, sample_inputs
from .open_sizes import Listed, Plan, plan, plan_fixed

with lazy_imports(__name__):
    from . import c_libraries


def named_entries(module: Any, net: Any, options: Sequence[str]) -> dict[str, Any]:
    """`--entry NAME=FUNC` options: by name, a method of the network or a function of its file."""
    found: dict[str, Any] = {}
    for option in options:
        name, _, function = option.partition("=")
        if not name.isidentifier() or not function.isidentifier() or function.startswith("_"):
            raise UserError(f"--entry {option!r}: expected NAME=FUNC, an entry and a method of the "
                            "network or a function of its file")
        if name in found:
            raise UserError(f"--entry {option!r}: {name} is given twice")
        made = getattr(net, function, None) if isinstance(net, Cell) else None
        made = getattr(module, function, None) if made is None else made
        if not inspect.isroutine(made) and not isinstance(made, Cell):
            raise UserError(f"--entry {option!r}: neither {type(net).__name__} nor its file has a "
                            f"function {function!r}")
        found[name] = net if function == "construct" else made
    return found


def entry_inputs(entries: Mapping[str, Any], options: Sequence[str]) -> dict[str, list[str]]:
    """`--input` options for each entry, in its order: `ENTRY.x=...`, or `x=...` for all that have
    an `x`."""
    keys = [s.partition("=")[0] for s in options]
    for key in keys:
        if keys.count(key) > 1:
            raise UserError(f"--input {key}: it is given twice")
    left, found = dict.fromkeys(options), {}
    for name, fn in entries.items():
        takes = parameter_names(fn)
        own = {s: s.removeprefix(f"{name}.") for s in options if s.startswith(f"{name}.")}
        named = {s.partition("=")[0] for s in own.values()}
        own |= {s: s for s in options if (key := s.partition("=")[0]) in takes and key not in named}
        left = {s: None for s in left if s not in own and s.partition("=")[0] not in takes}
        found[name] = own
    for spec in left:
        takes = [f"{name}({', '.join(parameter_names(fn))})" for name, fn in entries.items()]
        raise UserError(f"--input {spec.partition('=')[0]}: no entry has this input; there are "
                        f"{', '.join(takes)}")
    return {name: ordered_inputs(entries[name], [*own.values()], "--input")
            for name, own in found.items()}


def compile_artifact(
    path: str | os.PathLike[str], entries: Mapping[str, Any] | Sequence[Any], *,
    targets: Sequence[str] | str | None = None, sizes: Mapping[str, Sequence[int]] | None = None,
    graphs: bool = True, donate: Mapping[str, Sequence[str]] | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> str:
    """Compile networks in memory ahead of time into one artifact, as `cellc compile` does.

    Args:
        path: the file to write. A name that ends in `.so`, `.a` or `.o` makes a library with a C
            interface, for targets of one kind, with its headers beside it.
        entries: by name, a tuple of what is called and its inputs: a Cell, a method of one or a
            function; Tensors, or texts of their types as on the command line (`"float32[N,3]"`),
            and values that are fixed. A tuple alone is the entry "infer". Entries share the
            Parameters that they share here.
        targets: names of targets, as `"x86_64-avx2"`; by default this machine's.
        sizes: values of sizes that are open, by name, that get programs of their own; then one of
            the other sizes may be any.
        graphs: whether the file holds the graphs, without which it cannot be dumped, verified or
            compiled for another machine.
        donate: by entry, names of inputs whose memory takes a result of their type, so that a cache
            that is passed in and out is not copied; a call gives the array itself as that result.
        weights: of a C library, a safetensors file for its weights, which its sessions map; by
            default they are inside.

    Returns:
        Lines about what was written, as the command prints them.

    Raises:
        CompileError: an error in a network (of the builtin kind it is of).
        TypeError, ValueError: an entry that cannot be compiled, or an unknown target.
        OSError: the file cannot be written; an older one is as it was.

    Example:
        >>> net = nn.Dense(3, 2)
        >>> report = ms.compile_artifact("dense.cellc", {"infer": (net, "float32[N,3]")})

    Only in cellc; `cellc compile` is the same from the command line.
    """
    given = entries if isinstance(entries, Mapping) else {DEFAULT_ENTRY: entries}
    _check_arguments(path, given, targets, sizes, donate)
    names = [targets] if isinstance(targets, str) else targets or ()
    listed = {name: sorted(set(values)) for name, values in (sizes or {}).items()}
    try:
        chosen = [backends.target_named(n) for n in names] or [backends.default_target()]
        plans = {name: _plan(name, entry, listed, chosen) for name, entry in given.items()}
        _refuse_unused(listed, plans)
        donated, file = donated_inputs(plans, donate or {}), os.fspath(path)
        if file.endswith((".so", ".a", ".o")):
            return c_libraries.write_library(
                file, plans, chosen, donate=donated,
                weights=None if weights is None else os.fspath(weights))
        if weights is not None:
            raise UserError("'weights' goes with a C library: an artifact holds its weights")
        return artifacts.write(file, plans, chosen, graphs=graphs, donate=donated)
    except backends.UnknownTarget as e:
        raise ValueError(f"For 'compile_artifact', {e}.") from e
    except UserError as e:
        if isinstance(e.__cause__, (OSError, CompileError)):
            raise e.__cause__ from None
        raise ValueError(f"For 'compile_artifact', {e}") from e


def _check_arguments(path: Any, entries: Any, targets: Any, sizes: Any, donate: Any) -> None:
    """Raise TypeError or ValueError about an argument of `compile_artifact`."""
    def all_lists(value: Any) -> bool:
        return value is None or (isinstance(value, Mapping) and all(
            isinstance(v, Iterable) for v in value.values()))

    must = {
        "path": (isinstance(path, (str, os.PathLike)), "a str or a pathlib.Path", path),
        "targets": (targets is None or isinstance(targets, Iterable),
                    "the name of a target, a list of names or None", targets),
        "sizes": (all_lists(sizes), "lists of ints by name or None", sizes),
        "donate": (all_lists(donate), "names of inputs by entry, as {'infer': ['cache']}, or None",
                   donate),
    }
    for name, (good, expected, value) in must.items():
        if not good:
            raise TypeError(f"For 'compile_artifact', '{name}' must be {expected}, but got "
                            f"{value!r}.")
    if not entries:
        raise ValueError("For 'compile_artifact', 'entries' must have at least one entry, but got "
                         "none.")


def donated_inputs(
    entries: Iterable[str], given: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """The inputs to donate, by entry. Raises UserError: an entry there is not."""
    for name in given:
        if name not in entries:
            raise UserError(f"inputs of the entry {name!r} cannot be donated: there is "
                            f"{', '.join(entries)}")
    return {name: [v] if isinstance(v, str) else [*v] for name, v in given.items()}


def _plan(name: str, entry: Any, listed: Listed, targets: Sequence[Target]) -> Plan:
    """An entry as graphs."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"For 'compile_artifact', the name of an entry must be an identifier, but "
                         f"got {name!r}.")
    if not isinstance(entry, (tuple, list)) or not entry or not callable(entry[0]):
        raise TypeError(f"For 'compile_artifact', the entry {name!r} must be a tuple of a Cell or "
                        f"function and its inputs, but got {type(entry).__name__}.")
    net, *inputs = entry
    fn = net if isinstance(net, Cell) else getattr(net, "fn", net)
    names = parameter_names(fn)
    types = [_type(names[i] if i < len(names) else f"input {i}", v) for i, v in enumerate(inputs)]
    if not any(isinstance(d, str) for t in types if t is not None for d in t.shape):
        tensors = [tensor_of(v) if isinstance(v, np.ndarray) else v if t is None or isinstance(
            v, Tensor) else sample_inputs([f"{t.name}={v}"])[0]
            for t, v in zip(types, inputs, strict=True)]
        traced = trace(fn, tensors, {})
        if not is_staged(traced.graph):
            return plan_fixed(traced)
    known = [t for t in types if t is not None]
    if len(known) != len(types):
        raise TypeError(f"For 'compile_artifact', the inputs of the entry {name!r} must be tensors "
                        "or their types, as some sizes are open or follow from elements.")
    return plan(fn, known, listed, targets)


def _type(name: str, value: Any) -> InputType | None:
    """The type of an input that is a tensor, or the text of a type."""
    if isinstance(value, OpenTensor):
        if value.axes is None:
            raise ValueError(f"For 'compile_artifact', the number of axes of {name!r} must be "
                             "known: give Tensor(shape=[None, 3], dtype=...) with None for a size "
                             "that is open.")
        axes = [f"{name}_{i}" if not isinstance(d, int) else d for i, d in enumerate(value.axes)]
        return InputType(name, tuple(axes), value.element)
    if isinstance(value, (Tensor, np.ndarray)):
        tensor = value if isinstance(value, Tensor) else tensor_of(value)
        return InputType(name, tensor.shape, tensor.dtype)
    if isinstance(value, str) and "[" in value:
        try:
            return parse_input(f"{name}={value}")
        except UserError as e:  # of an option of the command line
            raise ValueError(f"For 'compile_artifact', {str(e).removeprefix('--input ')}") from e
    return None


def _refuse_unused(listed: Listed, plans: Mapping[str, Plan]) -> None:
    """Refuse `sizes` of a name that no input has."""
    there = {s for p in plans.values() for s in p.sizes.symbols}
    for name in listed:
        if name not in there:
            raise ValueError(f"For 'compile_artifact', 'sizes' must be of open sizes "
                             f"({', '.join(sorted(there)) or 'there are none'}), but got {name!r}.")
