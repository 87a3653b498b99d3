"""A call of a network as a file: its graph, what it was given, what it gave, and the versions.

A *case* is a container (`cellc_runtime.container`) with the sections `graph` (IR text) and
`arrays` (safetensors layout): `in0`, `in1`, ... in the order of the graph's inputs (arguments,
parameters and the states of generators), and `out0`, ... if the call gave something. It holds no
code. A reproducer is a case as text: comments that give the inputs, then the graph.

Reading verifies the whole file, the graph and the types of all arrays, and refuses a graph whose
values would not fit in memory, before anything is computed.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler import __version__, backends
from cellc_compiler.ir.graph import Graph, Literal
from cellc_compiler.ir.printing import print_attr, print_graph
from cellc_compiler.ir.text import ParseError, parse_literal
from cellc_compiler.ir.verify import untrusted_graph
from cellc_runtime import checkpoint
from cellc_runtime.container import pack, unpack
from cellc_runtime.errors import ArtifactError, in_file
from cellc_runtime.files import read_file, write_atomically
from cellc_runtime.records import dataclass, field

from .. import context
from ..compiled.traced import Traced
from ..tensors.tensor import host_arrays_of
from ..tracing.pytree import take_apart
from ..verification.runs import fresh, traced_on
from ..verification.snapshot import Snapshot

Array = np.ndarray[Any, Any]

MAGIC = b"CELLCASE"
VERSION = 1
SUFFIX = ".cellcase"
MAX_TEXT = 256 << 20  # Bytes of a graph's text
MAX_VALUES = 16 << 30  # Bytes of all values of a graph together
_MARK = "# cellc case"


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a network.

    Attributes:
        graph: what was traced; None if the call failed before there was a graph.
        arrays: in the order of the graph's inputs.
        outputs: what the call gave, with its updated values last; empty if it failed.
        message: of the error it failed with; "".
        versions: of what took part, by name; `machine` is the target of the code.
        options: of the context: `numerics`, `mode`, `threads`.
    """

    graph: Graph | None
    arrays: Sequence[Array]
    outputs: Sequence[Array] = ()
    message: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def numerics(self) -> str:
        """How it was compiled."""
        return self.options.get("numerics", "strict")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the case, whole or not at all: as text unless the path ends in `.cellcase`.

        Raises:
            ValueError: it has no graph and cannot be text.
            OSError: the file cannot be written; an older one is as it was.
        """
        if Path(path).suffix != SUFFIX:
            write_atomically(path, [self.text().encode()])
            return
        arrays = {f"in{i}": a for i, a in enumerate(self.arrays)}
        arrays.update({f"out{i}": a for i, a in enumerate(self.outputs)})
        text = print_graph(self.graph) if self.graph is not None else ""
        meta = {"message": self.message, "versions": dict(self.versions),
                "options": dict(self.options)}
        write_atomically(path, pack(MAGIC, VERSION, meta, [
            ("graph", text.encode()), ("arrays", b"".join(checkpoint.encode(arrays)))]))

    def text(self) -> str:
        """The case as text that `load_case` reads: inputs in comments, then the graph.

        Raises:
            ValueError: it has no graph.
        """
        if self.graph is None:
            raise ValueError(f"the case has no graph: {self.message}")
        options = "".join(f" {k}={v}" for k, v in self.options.items())
        lines = [f"{_MARK}{options}"]
        lines += [f"# in {print_attr(Literal(np.asarray(a)))}" for a in self.arrays]
        lines += [f"# out {print_attr(Literal(np.asarray(a)))}" for a in self.outputs]
        return "\n".join(lines) + "\n" + print_graph(self.graph)


def load_case(path: str | os.PathLike[str]) -> Case:
    """Read and verify a case, in either form; nothing is run.

    Raises:
        ArtifactError: the file is corrupt, truncated, hostile, or something else.
        OSError: it cannot be read.
    """
    with in_file(path):
        with open(path, "rb") as file:
            head = file.read(len(_MARK))
            if head == _MARK.encode():
                return _from_text(head + file.read(MAX_TEXT + 1))
        return _from_bytes(read_file(path))


def _from_bytes(data: bytes | memoryview) -> Case:
    box = unpack(data, MAGIC, VERSION, "case")
    arrays, _ = checkpoint.decode(box.section("arrays"), "case's arrays")
    text = _decoded(bytes(box.section("graph")[: MAX_TEXT + 1]))
    strings = {}
    for name in ("versions", "options"):
        found = box.meta.get(name)
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise ArtifactError("the case's header is malformed")
        strings[name] = found
    graph = untrusted_graph(text, "the case's graph") if text else None
    case = Case(graph, _numbered(arrays, "in"), _numbered(arrays, "out"),
                str(box.meta.get("message", "")), **strings)
    if len(case.arrays) + len(case.outputs) != len(arrays):
        raise ArtifactError("the case has arrays that belong to nothing")
    return _checked(case)


def _decoded(text: bytes) -> str:
    if len(text) > MAX_TEXT:
        raise ArtifactError(f"the case's graph has more than {MAX_TEXT} bytes")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ArtifactError("the case's graph is not text") from None


def _from_text(data: bytes) -> Case:
    lines = _decoded(data).splitlines()
    head = [line for line in lines if line.startswith("#")]
    try:
        arrays, outputs = ([parse_literal(line[len(kind):]).array for line in head
                            if line.startswith(kind)] for kind in ("# in ", "# out "))
    except ParseError as e:
        raise ArtifactError(f"an array of the case cannot be read: {e}") from None
    options = dict(word.split("=", 1) for word in head[0][len(_MARK):].split() if "=" in word)
    text = "\n".join(line for line in lines if not line.startswith("#"))
    graph = untrusted_graph(text, "the case's graph")
    return _checked(Case(graph, arrays, outputs, options=options))


def _numbered(arrays: Mapping[str, Array], kind: str) -> list[Array]:
    count = sum(name.startswith(kind) for name in arrays)
    try:
        return [arrays[f"{kind}{i}"] for i in range(count)]
    except KeyError as e:
        raise ArtifactError(f"the case has no array {e.args[0]!r}") from None


def _checked(case: Case) -> Case:
    """The case, if its arrays are those of its graph, whose values have a bounded size."""
    if case.graph is None:
        return case
    _agree("input", case.graph.inputs, case.arrays)
    if case.outputs:
        _agree("output", case.graph.results(), case.outputs)
    values = [*case.graph.inputs, *(r for node in case.graph.walk() for r in node.results)]
    total = sum(v.type.nbytes for v in values if v.type.is_static)
    if total > MAX_VALUES:
        raise ArtifactError(f"the values of the case's graph have {total} bytes, more than "
                            f"{MAX_VALUES}")
    return case


def _agree(what: str, values: Sequence[Any], arrays: Sequence[Array]) -> None:
    if len(values) != len(arrays):
        raise ArtifactError(f"the case's graph has {len(values)} {what}s, the case {len(arrays)}")
    for i, (v, a) in enumerate(zip(values, arrays, strict=True)):
        if v.shape != a.shape or v.dtype.numpy != a.dtype:
            raise ArtifactError(f"{what} {i} of the case's graph is {v.type}, the case has "
                                f"{a.dtype.name}{list(a.shape)}")


def versions() -> dict[str, str]:
    """Return the parts of a run here, with their versions."""
    found = {"cellc": __version__, "python": platform.python_version(),
             "system": platform.system(), "machine": backends.default_target().name}
    for name in ("numpy", "llvmlite", "ml_dtypes"):
        try:
            found[name] = installed(name)
        except PackageNotFoundError:  # run from a folder
            found[name] = "unknown"
    return found


def in_pynative(function: Any, args: Sequence[Any], traced: Traced) -> list[Array]:
    """Return the results of a call in PyNative, in the order of its graph's results; empty where
    the two have other types. Nothing is changed by it."""
    given = fresh(args)
    with Snapshot({"network": function, "arguments": given}):
        with contextlib.redirect_stdout(io.StringIO()), context.running_op_by_op():
            out = function(*given)
        return results_of(traced, out)


def results_of(traced: Traced, out: Any) -> list[Array]:
    """Return the results and updates of a call that has just been made, in the order of its
    graph's results; empty where the two have other types."""
    graph = traced.graph
    after = dict(zip(graph.inputs[traced.arguments:], traced.parameters, strict=True))
    tensors = [*take_apart(out)[1], *(after[old] for old, _ in graph.updates if old in after)]
    arrays = [np.array(a) for a in host_arrays_of(tensors)]
    types = [(v.shape, v.dtype.numpy) for v in graph.results()]
    return arrays if types == [(a.shape, a.dtype) for a in arrays] else []


def traced_call(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None,
    mode: int = context.GRAPH_MODE,
) -> tuple[Traced, list[Array]]:
    """As `traced_on`; nothing is changed by it."""
    given, named = fresh(args), dict(kwargs or {})
    with Snapshot({"network": function, "arguments": (given, named)}):
        return traced_on(function, given, named, mode)
