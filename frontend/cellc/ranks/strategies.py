"""Strategy files: the layouts of a network's parameters, as MindSpore writes and reads them.

A file is a Protocol Buffers message, or JSON where its name ends so:

    map      = 1: stage   2: strategy of an op   3: layout of a parameter, repeated
    strategy = 1: name    2: { 1: stage  2: { 1: parts of an axis }, repeated }
    layout   = 1: name    2: { 1: devices  2: tensor map  3: rows of parts  4: offsets  5: field
                               6: step and 7: size of the optimizer's shards }

Layouts of several stages in one file have the stage before the name: `1-weight`.
Source: `mindspore.parallel.build_searched_strategy`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from cellc_runtime.files import write_atomically
from cellc_runtime.protobuf import Message, field_of, number_of, signed_numbers
from cellc_runtime.records import dataclass, field

from ..core.declared import instance
from .layouts import PartLayout

_LISTS = {1: "dev_matrix", 2: "tensor_map", 3: "param_split_shape", 4: "indices_offset"}
_NUMBERS = {5: "field", 6: "opt_weight_shard_step", 7: "opt_weight_shard_size"}


@dataclass(slots=True)
class Dim:
    """A list of numbers, as a message of its own."""

    dim: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class ParallelLayouts:
    """The layout of a parameter, with the names that MindSpore's message has."""

    dev_matrix: list[Dim] = field(default_factory=list)
    tensor_map: list[Dim] = field(default_factory=list)
    param_split_shape: list[Dim] = field(default_factory=list)
    indices_offset: list[Dim] = field(default_factory=list)
    field: int = 0
    opt_weight_shard_step: int = 0
    opt_weight_shard_size: int = 0

    def part_layout(self, stages: tuple[int, ...] = (0,)) -> PartLayout:
        """Which part each rank has."""
        if self.field:
            raise ValueError(f"parts of {self.field} fields are not supported.")
        if not self.dev_matrix or not self.tensor_map:
            raise ValueError("a layout lacks its device matrix or its tensor map.")
        maps = [m.dim for m in self.tensor_map]
        # Several axes of the matrix for one axis of the tensor are written as several maps.
        cuts = [(a,) if a != -1 else () for a in maps[0]] if len(maps) == 1 else \
            [tuple(a for a in m if a != -1) for m in maps if m]
        rows = self.param_split_shape[0].dim if self.param_split_shape else []
        return PartLayout(tuple(self.dev_matrix[0].dim), tuple(cuts), self.opt_weight_shard_size,
                          tuple(rows), stages)


@dataclass(slots=True)
class Strategy:
    """The contents of a strategy file."""

    layouts: dict[str, ParallelLayouts] = field(default_factory=dict)  # of parameters, by name
    # the parts of each operand of ops, and their stage, by name
    ops: dict[str, tuple[int, list[list[int]]]] = field(default_factory=dict)
    stage: int = 0  # the stage of the file

    def first_stage(self) -> int:
        """The stage of the ops; 0 without any."""
        return next((stage for stage, _ in self.ops.values()), 0)


# --- reading ------------------------------------------------------------------------------------


def read(name: Any, what: str) -> Strategy:
    """A strategy file."""
    instance(str)(name, what, "strategy_filename")
    if not os.path.isfile(name):
        raise ValueError(f"For '{what}', no such strategy file: {name}. Please check whether the "
                         "'strategy_filename' exists.")
    with open(name, "rb") as file:
        data = file.read()
    if not data:
        raise ValueError(f"For '{what}', the strategy file {name} should not be empty. Please "
                         "check whether the 'strategy_filename' is correct.")
    try:
        return _from_json(data) if name.endswith(".json") else _from_message(data, name)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as e:
        raise TypeError("The strategy file type should be one of json or protobuf. When the file "
                        "name extension is not '.json', the file is considered as a protobuf file."
                        f" {name}: {e}") from e


def _from_json(data: bytes) -> Strategy:
    content = json.loads(data)
    out = Strategy(stage=int(content.get("current_stage", 0)))
    for name, item in content.get("parallel_layout_item", {}).items():
        made = ParallelLayouts()
        for key in _NUMBERS.values():
            setattr(made, key, int(item.get(key) or 0))
        for key in _LISTS.values():
            setattr(made, key, [Dim(list(item.get(key, [])))])
        out.layouts[name] = made
    for name, item in content.get("parallel_strategy_item", {}).items():
        out.ops[name] = int(item["stage"]), [list(p) for p in item.get("parallel_strategy", [])]
    return out


def _from_message(data: bytes, what: str) -> Strategy:
    out = Strategy()
    for number, content in Message(memoryview(data), f"strategy file {what}").fields():
        if number == 1 and isinstance(content, int):
            out.stage = content
            continue
        item = dict(Message(memoryview(data), what).inner(content).fields())
        name = Message(memoryview(b""), what).text(item[1])
        inner = Message(memoryview(b""), what).inner(item[2])
        if number == 3:
            out.layouts[name] = _layout(inner)
        elif number == 2:
            out.ops[name] = _op(inner)
    return out


def _layout(message: Message) -> ParallelLayouts:
    out = ParallelLayouts()
    for number, content in message.fields():
        if number in _LISTS:
            getattr(out, _LISTS[number]).append(Dim(_numbers(message.inner(content))))
        elif number in _NUMBERS and isinstance(content, int):
            setattr(out, _NUMBERS[number], content)
    return out


def _op(message: Message) -> tuple[int, list[list[int]]]:
    stage, parts = 0, []
    for number, content in message.fields():
        if number == 1 and isinstance(content, int):
            stage = content
        elif number == 2:
            parts.append(_numbers(message.inner(content)))
    return stage, parts


def _numbers(message: Message) -> list[int]:
    """The numbers of a `Dim`, packed or one by one."""
    return signed_numbers(message, [content for _, content in message.fields()])


# --- writing ------------------------------------------------------------------------------------


def write(name: str, strategy: Strategy) -> None:
    """Write a strategy file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    data = _to_json(strategy) if name.endswith(".json") else _to_message(strategy)
    write_atomically(name, [data])


def _to_json(strategy: Strategy) -> bytes:
    items: dict[str, Any] = {}
    for name, layout in strategy.layouts.items():
        lists = {key: (getattr(layout, key) or [Dim()])[0].dim for key in _LISTS.values()}
        items[name] = lists | {key: getattr(layout, key) for key in _NUMBERS.values()}
    ops = {n: {"stage": stage, "parallel_strategy": parts}
           for n, (stage, parts) in strategy.ops.items()}
    return json.dumps({"current_stage": strategy.stage, "parallel_strategy_item": ops,
                       "parallel_layout_item": items}, indent=1).encode()


def _to_message(strategy: Strategy) -> bytes:
    out = [number_of(1, strategy.stage)]
    for name, (stage, parts) in strategy.ops.items():
        inner = number_of(1, stage) + b"".join(field_of(2, _dim(p)) for p in parts)
        out.append(field_of(2, field_of(1, name.encode()) + field_of(2, inner)))
    for name, layout in strategy.layouts.items():
        lists = b"".join(field_of(number, _dim(d.dim)) for number, key in _LISTS.items()
                         for d in getattr(layout, key))
        numbers = b"".join(number_of(n, getattr(layout, key)) for n, key in _NUMBERS.items())
        out.append(field_of(3, field_of(1, name.encode()) + field_of(2, lists + numbers)))
    return b"".join(out)


def _dim(numbers: list[int]) -> bytes:
    return b"".join(number_of(1, n) for n in numbers)


def made_of(layouts: Mapping[str, PartLayout]) -> Strategy:
    """A strategy of one stage, from layouts by name."""
    # Readers look the stage up in the first op.
    out = Strategy(ops={"parameters": (0, [])})
    for name, own in layouts.items():
        maps = [Dim([c[0] if c else -1 for c in own.cuts])] if all(len(c) < 2 for c in own.cuts) \
            else [Dim(list(c) or [-1]) for c in own.cuts]
        out.layouts[name] = ParallelLayouts(
            [Dim(list(own.devices))], maps, [Dim(list(own.split_rows))], [Dim()], 0,
            own.opt_step() if own.opt_size else 0, own.opt_size)
    return out


# --- by parameter -------------------------------------------------------------------------------


def by_parameter(
    layouts: Mapping[str, ParallelLayouts], rank: int | None = None
) -> dict[str, PartLayout]:
    """Layouts by the parameters' own names, each with the stages that have it.

    Args:
        layouts: as they are in a file.
        rank: of which stage the layout is meant where stages differ: of the last ones for a rank
            of a later stage; the first one without a rank.
    """
    out: dict[str, PartLayout] = {}
    for name, layout in layouts.items():
        head, dash, own = name.partition("-")
        own = own if dash else name
        try:
            stage = int(head) if dash else 0
            made = layout.part_layout((stage,))
        except (ValueError, AttributeError, TypeError) as e:
            raise ValueError(f"{name}: {e} Please check whether the strategy file is correct."
                             ) from e
        known = out.get(own)
        if known is None:
            out[own] = made
            continue
        later = rank is not None and rank // made.count > 0
        taken = made if (later and stage > 0) or (stage < min(known.stages) and not later) \
            else known
        out[own] = PartLayout(taken.devices, taken.cuts, taken.opt_size, taken.split_rows,
                              (*known.stages, stage))
    return out
