"""Builds ONNX nodes: names, constants, element types that ONNX ops take, sizes that are open.

An op of ONNX takes fewer element types than ours. `Writer.op` looks into the op's schema and, where
a type is missing (or runtimes are known to have no kernel for it), casts the operands to one that
holds all values and the results back; integers wrap as they would have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import Array, DType
from cellc_runtime.open_sizes import WHOLE
from cellc_runtime.records import dataclass, field

from ..ir.dims import Applied, Atom, Dim, Ratio, Size, is_symbolic
from ..ir.graph import NOWHERE, Node, Value
from .library import onnx

Names = str | tuple[str, ...]

_SPEC = {
    "bool_": "bool", "float16": "float16", "bfloat16": "bfloat16", "float32": "float",
    "float64": "double",
}
_NUMBERS = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "bool_": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14,
    "complex128": 15, "bfloat16": 16,
}
_BY_SPEC = {"float": dtypes.float32, "double": dtypes.float64, "bool": dtypes.bool_}

# Ops that move elements as they are: runtimes have them for every type of the schema.
_MOVES = frozenset((
    "Cast", "Compress", "Concat", "Expand", "Gather", "GatherElements", "GatherND", "Identity",
    "If", "Loop", "NonZero", "Reshape", "Scan", "ScatterElements", "ScatterND", "Shape", "Slice",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "And", "Or", "Not", "Xor", "BitShift",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "ConstantOfShape",
))
_NARROW = {
    "int8": dtypes.int32, "int16": dtypes.int32, "uint8": dtypes.int32, "uint16": dtypes.int32,
    "bool_": dtypes.int32, "uint32": dtypes.int64, "bfloat16": dtypes.float32,
}
# But ONNX Runtime has these for no bfloat16, the scatters for no 16-bit float.
_NOT_HALVES = {
    "Expand": ("bfloat16",), "Tile": ("bfloat16",), "ScatterElements": ("bfloat16", "float16"),
    "ScatterND": ("bfloat16", "float16"),
}
# Results of these depend on the order of numbers, so uint64 may not pass through int64.
_ORDERED = frozenset(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "Div",
                      "Mod", "TopK", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "Clip"))


class ExportError(TypeError):
    """A network that ONNX cannot hold, with the op and the place in the user's source."""


def refuse(node: Node, why: str) -> ExportError:
    """The error for a node that ONNX has nothing for."""
    where = "" if node.span is NOWHERE else f"{node.span.file}:{node.span.line}: "
    return ExportError(f"{where}the op {node.op} cannot be exported to ONNX: {why}")


def onnx_type(dtype: DType) -> int:
    """The number of an element type in ONNX."""
    return _NUMBERS[dtype.name]


def _from_spec(text: str) -> DType:
    word = text.removeprefix("tensor(").removesuffix(")")
    return _BY_SPEC.get(word) or dtypes.by_name(word)


def tensor_proto(name: str, array: Array) -> onnx.TensorProto:
    """An array as ONNX stores it."""
    flat = np.ascontiguousarray(array)
    proto = onnx.TensorProto(
        name=name, data_type=onnx_type(dtypes.from_numpy(array.dtype)), dims=list(array.shape)
    )
    proto.raw_data = (flat.byteswap() if flat.dtype.byteorder == ">" else flat).tobytes()
    return proto


@dataclass
class Writer:
    """The ONNX graph that is being built; nested graphs share all but `nodes`."""

    opset: int  # version of the standard op set
    # the nodes of the graph that is being written
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    # initializers that are no weights, by content
    constants: dict[tuple[str, tuple[int, ...], bytes], tuple[str, Array]] = field(
        default_factory=dict)
    # nodes without a counterpart that change no result (checks, prints)
    left_out: list[str] = field(default_factory=list)
    types: dict[str, DType] = field(default_factory=dict)
    values: dict[Value, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    used: set[Value] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _sizes: list[dict[Any, str]] = field(default_factory=lambda: [{}])
    _at: Node | None = None

    # --- names --------------------------------------------------------------------------------

    def name(self, wish: str) -> str:
        """A name that is not taken yet."""
        name, n = wish, 1
        while name in self._names or not name:
            name, n = f"{wish or 'value'}_{n}", n + 1
        self._names.add(name)
        return name

    def declare(self, name: str, dtype: DType) -> str:
        """Note the element type of a name."""
        self.types[name] = dtype
        return name

    def of(self, value: Value) -> str:
        """The name of a value."""
        return self.values[value]

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Within the block, ONNX nodes belong to this node."""
        before, self._at = self._at, node
        try:
            yield
        finally:
            self._at = before

    @contextmanager
    def nested(self) -> Iterator[list[onnx.NodeProto]]:
        """Within the block, nodes go to the body of an If, Loop or Scan: the list it gives."""
        before, self.nodes = self.nodes, []
        self._sizes.append({})
        try:
            yield self.nodes
        finally:
            self.nodes = before
            self._sizes.pop()

    # --- constants ----------------------------------------------------------------------------

    def const(self, array: Any, dtype: DType | None = None) -> str:
        """An initializer; equal ones are one."""
        a = np.asarray(array, dtype=None if dtype is None else dtype.numpy)
        key = (a.dtype.name, a.shape, a.tobytes())
        if key not in self.constants:
            name = self.declare(self.name(f"const_{len(self.constants)}"),
                                dtypes.from_numpy(a.dtype))
            self.constants[key] = name, a
        return self.constants[key][0]

    def ints(self, numbers: Sequence[int]) -> str:
        """An int64 vector."""
        return self.const(np.array(numbers, np.int64).reshape(len(numbers)))

    def like(self, number: float, name: str) -> str:
        """A rank-0 constant of the element type of `name`."""
        return self.const(number, self.types[name])

    # --- sizes --------------------------------------------------------------------------------

    def size(self, d: Size) -> str:
        """A size as an int64 vector of one element."""
        if not is_symbolic(d):
            return self.ints([int(d)])
        for known in self._sizes:
            if d in known:
                return known[d]
        assert isinstance(d, Dim)
        total: str | None = None
        for monomial, count in d.terms:
            part = self.ints([count])
            for atom in monomial:
                part = self.op("Mul", part, self._atom(atom))
            total = part if total is None else self.op("Add", total, part)
        self._sizes[-1][d] = out = total or self.ints([0])
        return out

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, str):
            return self.sources[atom]
        if isinstance(atom, Applied):
            return self._whole(atom)
        a, b = self.size(atom.numerator), self.size(atom.divisor)
        # Rounded down, where ONNX rounds towards zero: a - (a mod b) comes out even.
        return self.op("Div", self.op("Sub", a, self.op("Mod", a, b)), b)

    def _whole(self, atom: Applied) -> str:
        """A number made whole (other functions are made by code generation)."""
        assert atom.function in WHOLE
        x = self.number(atom.args[0], dtypes.float64)
        kind = atom.function.title()  # (a cast cuts the fraction off)
        made = self.cast(x if kind == "Trunc" else self.op(kind, x), dtypes.int64)
        return self.op("Unsqueeze", made, self.ints([0]))

    def shape(self, dims: Sequence[Size]) -> str:
        """Sizes as an int64 vector."""
        if not any(is_symbolic(d) for d in dims):
            return self.ints([int(d) for d in dims])
        parts: list[str] = []
        fixed: list[int] = []
        for d in dims:
            if is_symbolic(d):
                if fixed:
                    parts.append(self.ints(fixed))
                fixed = []
                parts.append(self.size(d))
            else:
                fixed.append(int(d))
        if fixed:
            parts.append(self.ints(fixed))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def number(self, x: Any, dtype: DType) -> str:
        """A number made of sizes, as a rank-0 tensor."""
        if type(x) is Ratio:
            wide = dtypes.float64
            args = [self.number(v, wide) for v in x.args]
            if len(args) == 1:
                return self.cast(self._function(x.op, args[0]), dtype)
            a, b = args
            kinds = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow",
                     "min": "Min", "max": "Max"}
            if x.op == "//":
                return self.cast(self.op("Floor", self.op("Div", a, b)), dtype)
            return self.cast(self.op(kinds[x.op], a, b), dtype)
        if is_symbolic(x):
            return self.cast(self.op("Squeeze", self.size(x), self.ints([0])), dtype)
        return self.const(x, dtype)

    def _function(self, name: str, x: str) -> str:
        """A function of one number, in float64."""
        base = {"log2": 2.0, "log10": 10.0}.get(name)
        if base is None:
            return self.op(name.title(), x)
        scale = self.const(1 / math.log(base), dtypes.float64)
        return self.op("Mul", self.op("Log", x), scale)

    # --- nodes --------------------------------------------------------------------------------

    def cast(self, name: str, dtype: DType) -> str:
        """A value as another element type."""
        if self.types[name] is dtype:
            return name
        (out,) = self.raw("Cast", [name], [dtype], to=onnx_type(dtype))
        return out

    def reshape(self, name: str, dims: Sequence[Size]) -> str:
        """A view; at most one open size is written as -1, for what reads the model."""
        opened = [d for d in dims if is_symbolic(d)]
        if len(opened) == 1 and 0 not in [d for d in dims if not is_symbolic(d)]:
            sizes = [-1 if is_symbolic(d) else int(d) for d in dims]
            return self.op("Reshape", name, self.ints(sizes))
        empty = {"allowzero": 1} if any(not is_symbolic(d) and d == 0 for d in dims) else {}
        return self.op("Reshape", name, self.shape(dims), **empty)

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Append a node with one result, whose element type its schema says."""
        (out,) = self.ops(kind, inputs, 1, **attrs)
        return out

    def ops(self, kind: str, inputs: Sequence[str], results: int, **attrs: Any) -> list[str]:
        """Append a node with any number of results."""
        schema = self._schema(kind)
        bound = self._bind(kind, schema, inputs)
        names = [
            name if not name or _formal(schema.inputs, i) not in bound
            else self.cast(name, bound[_formal(schema.inputs, i)][1])
            for i, name in enumerate(inputs)
        ]
        out_types: list[DType] = []
        for i in range(results):
            var = _formal(schema.outputs, i)
            if kind == "Cast":
                raise AssertionError("casts are made by `cast`")
            out_types.append(bound[var][1] if var in bound else self._declared(schema, var))
        made = self.raw(kind, names, out_types, **attrs)
        return [
            self.cast(name, bound[var][0]) if (var := _formal(schema.outputs, i)) in bound else name
            for i, name in enumerate(made)
        ]

    def _declared(self, schema: Any, var: str) -> DType:
        if var.startswith("tensor("):
            return _from_spec(var)
        allowed = next(c.allowed_type_strs for c in schema.type_constraints
                       if c.type_param_str == var)
        if len(allowed) != 1:
            raise AssertionError(f"{schema.name} does not say what its result {var} is")
        return _from_spec(allowed[0])

    def _schema(self, kind: str) -> Any:
        try:
            return onnx.defs.get_schema(kind, self.opset)
        except onnx.defs.SchemaError:
            why = f"it needs {kind}, which the op set {self.opset} lacks: ask for a later one"
            assert self._at is not None
            raise refuse(self._at, why) from None

    def _bind(
        self, kind: str, schema: Any, inputs: Sequence[str]
    ) -> dict[str, tuple[DType, DType]]:
        """Each type variable of a schema: the type that came, and the one the op runs in."""
        allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        bound: dict[str, tuple[DType, DType]] = {}
        for i, name in enumerate(inputs):
            var = _formal(schema.inputs, i)
            if not name or var in bound or var not in allowed:
                continue
            dtype = self.types[name]
            bound[var] = dtype, self._run_type(kind, dtype, allowed[var])
        return bound

    def _run_type(self, kind: str, dtype: DType, allowed: set[str]) -> DType:
        def takes(d: DType) -> bool:
            return f"tensor({_SPEC.get(d.name, d.name)})" in allowed

        if kind in _MOVES and takes(dtype):
            return dtypes.float32 if dtype.name in _NOT_HALVES.get(kind, ()) else dtype
        if not dtype.is_complex:
            wide = _NARROW.get(dtype.name, dtype)
            if dtype is dtypes.uint64 and kind not in _ORDERED and takes(dtypes.int64):
                wide = dtypes.int64
            for candidate in (wide, dtype, dtypes.float32, dtypes.float64):
                if takes(candidate):
                    return candidate
        assert self._at is not None
        raise refuse(self._at, f"ONNX's {kind} does not take {dtype.name}")

    def raw(
        self, kind: str, inputs: Sequence[str], types: Sequence[DType], **attrs: Any
    ) -> list[str]:
        """Append a node with valid operands and known result types."""
        at = self._at
        scope = at.scope if at is not None else ""
        label = f"{scope}.{at.op}" if at is not None and scope else (at.op if at else kind)
        outputs = [self.declare(self.name(label), t) for t in types]
        node = onnx.helper.make_node(
            kind, list(inputs), outputs, name=self.name(f"{label}/{kind}"), **attrs)
        if at is not None and at.span.short:
            node.doc_string = at.span.short
        self.nodes.append(node)
        return outputs


def _formal(formals: Sequence[Any], i: int) -> str:
    """The type of an op's i-th operand or result; the last may stand for many."""
    text: str = formals[min(i, len(formals) - 1)].type_str
    return text
