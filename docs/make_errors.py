"""Write `docs/errors.md` by running its programs, or with `--check` say whether it is current.

What `cellc explain CODE` prints is written too (`cellc/lang/explanations.md`).

    python docs/make_errors.py [--check]
"""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from error_cases import CASES, Case

import cellc as ms
from cellc import ops
from cellc.lang import CODES, check_call, interpret_call, register_source
from cellc.nn.cell import Cell
from cellc.tools.pipeline_view import view
from cellc.tracing.tracer import Tracer
from cellc_runtime.errors import RunError

PAGE = Path(__file__).parent / "errors.md"
BOOK = Path(ms.__file__).parent / "lang" / "explanations.md"
FILE = "net.py"

HEAD = """\
# Errors of the construct compiler

This page is made by `docs/make_errors.py`, which runs every program on it; do not edit it by
hand. `cellc explain CE203` prints the section of a code, `cellc explain` the list of all.

A message has the kind of error and a stable code, the place with the source line and a caret,
the calls through Cells that led there (the cell's path in brackets), and often a hint.

```
'y' is defined only if the condition at line 2 holds, ... [CE203]
  File "net.py", line 4, in net
    return y
           ^
  note: ...
  hint: assign 'y' in both branches or before
```

Every error is a `cellc.lang.CompileError` **and** of the builtin kind it has: a CE601 is a
`TypeError`, so `except TypeError` catches it. Its parts are attributes: `code`, `message`,
`place`, `calls`, `notes`, `hint`.

Errors outside of a network are Python's. An argument of another kind than its description says is a
TypeError, one out of range or of a shape that does not fit a ValueError, and the sentence names it:
`For 'Conv2d', 'stride' must be a positive int or a tuple of 2, but got -1.` Docstrings list the
other errors only; `help` shows the rules of the arguments of a constructor.

`cellc check FILE.py:Net --input x=float32[2]` reports all errors of a network in one run.

In the programs below `net` is compiled with `ms.jit(net)` (or is a Cell in graph mode) and
called with `ms.Tensor([1.0, 2.0])`; `ms`, `ops` and `Cell` are imported.

| Codes | About |
|---|---|
| CE0xx | the source text |
| CE1xx | syntax |
| CE2xx | variables |
| CE3xx | calls |
| CE4xx | conditions known only at run time |
| CE5xx | state |
| CE6xx | exceptions of the program itself |
| CE7xx | errors that only a run can find (the code is in the note of the exception) |
| CE8xx | stages of a pipeline |
"""


def execute(text: str, known: bool = True) -> Any:
    """The `net` that a program defines."""
    linecache.cache.pop(FILE, None)
    if known:
        register_source(FILE, text)
    names: dict[str, Any] = {"ms": ms, "ops": ops, "Cell": Cell, "__name__": "net"}
    exec(compile(text, FILE, "exec"), names)
    return names["net"]


def run(case: Case, text: str) -> str:
    """What the program's failure prints; "" if it runs."""
    x = ms.Tensor([1.0, 2.0])
    if case.how == "changed":
        return _changed(text)
    net = execute(text, known=case.how != "exec" or "register_source" in text)
    tracer = Tracer()
    if case.how == "check":
        return "\n".join(str(e) for e in check_call(tracer, net, [tracer.input(x._type, "x")]))
    try:
        if case.how == "trace":
            interpret_call(tracer, net, [tracer.input(x._type, "x")])
        elif case.how == "export":
            with tempfile.TemporaryDirectory() as folder:
                ms.export(net, x, file_name=f"{folder}/net", file_format="MINDIR")
        elif case.how == "stages":
            view(net, x, stages=2)
        elif isinstance(net, Cell) or case.how == "call":
            net(x)
        else:
            ms.jit(net)(x)
    except ms.lang.CompileError as e:
        return f"{type(e).__bases__[-1].__name__}: {e}"
    except RunError as e:
        return "\n".join([f"{type(e).__bases__[-1].__name__}: {e}", *e.__notes__])
    return ""


def _changed(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("net", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        path.write_text(text.replace("x + 1\n", "x + 500\n"))
        with contextlib.suppress(FileNotFoundError):
            try:
                ms.jit(module.net)(ms.Tensor([1.0, 2.0]))
            except ms.lang.CompileError as e:
                kind = type(e).__bases__[-1].__name__
                return f"{kind}: {e}".replace(folder + "/", "")
    return ""


def section(case: Case) -> list[str]:
    """The section of one code; its programs are run.

    Raises:
        AssertionError: a program does not do what the page says.
    """
    shown = run(case, case.program.lstrip("\n"))
    assert f"[{case.code}]" in shown, f"{case.code}: the program gives {shown!r}"
    lines = [f"## {case.code}: {CODES[case.code]}", "", case.meaning, "", "```python",
             case.program.strip(), "```", "", "```", shown, "```", ""]
    if case.instead:
        failed = run(case, case.instead.lstrip("\n"))
        assert not failed, f"{case.code}: what to write instead gives {failed!r}"
        lines += ["Instead:", "", "```python", case.instead.strip(), "```", ""]
    return [*lines, case.advice, ""] if case.advice else lines


def sections() -> str:
    """The sections of all codes, every program run."""
    ms.set_context(mode=ms.GRAPH_MODE)
    missing = set(CODES) - {c.code for c in CASES}
    assert not missing, f"no program for {sorted(missing)}"
    return "\n".join(line for c in CASES for line in section(c)).rstrip() + "\n"


def main() -> int:
    """Write the page, or check it."""
    text = sections()
    stale = 0
    for path, wanted in ((PAGE, HEAD + "\n" + text), (BOOK, text)):
        if "--check" not in sys.argv[1:]:
            path.write_text(wanted, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != wanted:
            print(f"{path.name} is not current: run `python docs/make_errors.py`",
                  file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
