"""Parameters have MindSpore's names and defaults, so that a call by keyword works.

`known_signatures.txt` lists what differs, each with its reason. The list may only shrink: a name
that comes to agree must leave it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import cellc.stubs

from ..others import mindspore

WORKER = Path(__file__).with_name("signatures_worker.py")
KNOWN = Path(__file__).with_name("known_signatures.txt")
PLACES = (
    "", "nn", "nn.dynamic_lr", "nn.learning_rate_schedule", "nn.utils", "ops",
    "common.initializer", "train", "train.callback", "train.metrics", "amp", "numpy", "mint",
    "mint.nn", "mint.nn.functional", "mint.linalg", "mint.special", "mint.optim",
    "experimental.optim", "experimental.optim.lr_scheduler", "context", "parallel", "runtime",
    "hal", "profiler", "dataset", "dataset.transforms", "dataset.vision", "boost", "rewrite",
    "utils", "scipy.linalg",
)
REFUSING = ("Not on ", "Not for ", "For Ascend devices only", "Exists for other devices only")
"""How the texts begin of what only raises an error."""
Form = list[tuple[str, str | None]]


def known() -> set[str]:
    """The names in the list."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def found(path: str) -> Any:
    """What cellc has under a name; None if nothing."""
    parts = path.split(".")
    for i in range(len(parts), -1, -1):
        try:
            value: Any = importlib.import_module(".".join(["cellc", *parts[:i]]))
        except ImportError:
            continue
        if i == len(parts):
            continue
        for part in parts[i:]:
            value = getattr(value, part, None)
        return value
    return None


@cache
def _overloads() -> dict[str, list[ast.arguments]]:
    """The forms of Tensor's methods in the stubs, which are made from the methods themselves."""
    folder = Path(next(iter(cellc.stubs.__path__)))
    (page,) = [c for c in ast.parse((folder / "methods.pyi").read_text(encoding="utf-8")).body
               if isinstance(c, ast.ClassDef)]
    forms: dict[str, list[ast.arguments]] = {}
    for method in page.body:
        if isinstance(method, ast.FunctionDef):
            forms.setdefault(method.name, []).append(method.args)
        elif isinstance(method, ast.Assign) and isinstance(method.value, ast.Name):
            aliases = [t.id for t in method.targets if isinstance(t, ast.Name)]
            forms |= dict.fromkeys(aliases, forms.get(method.value.id, []))
    return forms


def ours(path: str, value: Any) -> list[dict[str, Any]]:
    """The forms in which a callable can be called: parameters with their defaults."""
    given = inspect.signature(value).parameters.values()
    forms = [{p.name: p.default for p in given if p.name != "self"
              and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}]
    owner, _, method = path.rpartition(".")
    if owner in ("Tensor", "Parameter"):
        forms += [{a.arg: ... for a in (*form.args, *form.kwonlyargs)}
                  for form in _overloads().get(method, ())]
    return forms


def _same(default: Any, wanted: str | None) -> bool:
    """Whether a default is what MindSpore's text says; one of ours where it has none is more."""
    if wanted is None or default is ... or repr(default) == wanted:
        return True
    try:
        return bool(default == ast.literal_eval(wanted))
    except (ValueError, SyntaxError):
        return repr(default).rpartition(".")[2] == wanted.rpartition(".")[2] or "<" in wanted


def difference(path: str, theirs: list[Form]) -> str:
    """What is other than MindSpore says; empty: nothing."""
    value = found(path)
    if value is None or not callable(value) or (value.__doc__ or "").startswith(REFUSING):
        return ""
    forms = ours(path, value)
    names = dict.fromkeys(n for form in forms for n in form)
    missing = dict.fromkeys(n for form in theirs for n, _ in form if n not in names)
    if missing:
        return f"no {', '.join(missing)} among ({', '.join(names)})"
    if len(theirs) > 1:
        return ""
    wanted = dict(theirs[0])
    other = [f"{n}={forms[0][n]!r}, not {d}" for n, d in wanted.items()
             if n in forms[0] and not _same(forms[0][n], d)]
    if not any([n for n in form if n in wanted] == list(wanted) for form in forms):
        other.append(f"in order: {', '.join(names)}")
    return "; ".join(other)


def test_parameters_have_mindspores_names_and_defaults() -> None:
    forms: dict[str, list[Form]] = mindspore(WORKER, given=PLACES)
    assert len(forms) > 3000
    different = {path: why for path, f in forms.items() if (why := difference(path, f))}
    assert {p: why for p, why in different.items() if p not in known()} == {}
    assert known() - set(different) == set(), "these agree now: take them off the list"
