"""Write `docs/ops.md` from the op registry, or with `--check` say whether it is current.

    python docs/make_ops.py            # writes docs/ops.md
    python docs/make_ops.py --check    # exit status 1 and a line of explanation if it is stale
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cellc_compiler.ir.op import ANY, BOOL, COMPLEX, FLOATS, INTS, NUMBERS, REAL, REQUIRED, Op
from cellc_compiler.ir.op import all_ops as every_op
from cellc_runtime.dtypes import DType

PAGE = Path(__file__).parent / "ops.md"

HEAD = """\
# Ops of the graph IR

This page is made by `docs/make_ops.py` from the op registry; do not edit it by hand
(`python docs/make_ops.py --check` says whether it is current).

These are the names that appear in dumped graphs. What users call (`ops.softmax`, `x.sum()`,
`nn.Dense`) is in [api.md](api.md). Each op is one class in `compiler/cellc_compiler/ops/`;
[architecture/ir.md](architecture/ir.md#ops) says how to add one.

- **Operands**: a name with `*` stands for any number of operands.
- **Attributes**: `name` has no default, `name=value` has one.
- **Dtypes**: accepted element types of the first operand. The rule for the others is in the
  op's `infer`; most ops want all operands of one dtype.
- **Kind**: how the op runs. `value` (an expression per element, fused with its neighbours),
  `reduction` (fused), `opaque` (each back end has a rule for it), `expand` (made of other ops),
  `control` (regions or a host callback, known to the compiler by name).
- **Gradient**: `rule` (the op states it), `expand` (through what it is made of), `-` (none).
"""

_GROUPS: tuple[tuple[tuple[DType, ...], str], ...] = (
    (ANY, "all"), (NUMBERS, "numbers"), (REAL, "real"), (FLOATS, "floats"), (INTS, "ints"),
    (COMPLEX, "complex"), (BOOL, "bool"),
)
_GROUP_NOTE = """
Dtype groups: *floats* float16, bfloat16, float32, float64; *ints* int8 to int64 and uint8 to
uint64; *complex* complex64, complex128; *real* floats and ints; *numbers* real and complex;
*all* numbers and bool.
"""


def kind(op: Op) -> str:
    """How the op runs."""
    kinds = [k for k in ("value", "reduction", "opaque", "expand") if getattr(op, k)]
    return "+".join(kinds) or "control"


def gradient(op: Op) -> str:
    """Where the op's gradient comes from."""
    if op.name in ("cond", "while", "scan", "custom_grad"):
        return "rule"  # in `autodiff/reverse.py`: it transforms the regions
    if not op.differentiable:
        return "-"
    return "rule" if op.has_gradient() else "expand" if op.expand is not None else "-"


def dtype_names(types: tuple[DType, ...]) -> str:
    """Group names that make up the accepted types, then single names."""
    left, out = set(types), []
    for group, name in _GROUPS:
        if set(group) <= left:
            out.append(name)
            left -= set(group)
    return ", ".join([*out, *(t.name for t in types if t in left)])


def attributes(op: Op) -> str:
    """Attribute names with defaults."""
    return ", ".join(k if a.default is REQUIRED else f"{k}={_shown(a.default)}"
                     for k, a in op.attrs.items())


def _shown(value: Any) -> str:
    return f"dtype.{value.name}" if isinstance(value, DType) else repr(value)


def summary(op: Op) -> str:
    """The first paragraph of the docstring, on one line."""
    first = (type(op).__doc__ or "").strip().split("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


def families() -> dict[str, list[Op]]:
    """Ops by the file that defines them."""
    out: dict[str, list[Op]] = {}
    for op in every_op():
        out.setdefault(type(op).__module__.rpartition(".")[2], []).append(op)
    return dict(sorted(out.items()))


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    table = families()
    yield HEAD.rstrip()
    yield _GROUP_NOTE.rstrip()
    yield ""
    yield f"There are {sum(map(len, table.values()))} ops in {len(table)} files."
    for family, ops in table.items():
        yield ""
        yield f"## `{family}.py`"
        yield ""
        yield "| Op | Operands | Attributes | Dtypes | Kind | Gradient | What it does |"
        yield "|---|---|---|---|---|---|---|"
        for op in ops:
            cells = (f"`{op.name}`", ", ".join(op.operands), attributes(op),
                     dtype_names(op.dtypes), kind(op), gradient(op), summary(op))
            yield "| " + " | ".join(c.replace("*", "\\*") if i == 1 else c
                                    for i, c in enumerate(cells)) + " |"


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/ops.md is not current: run `python docs/make_ops.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
