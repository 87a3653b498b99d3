"""Public places hold MindSpore's names and the few of ours that the documentation tells of."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest

import cellc
from cellc import ops

from ..others import mindspore, needs_oracle
from . import signatures
from .places import LISTING, PLACES, listed, module_of, theirs

DOCS = Path(__file__).parents[2] / "docs"
OURS = {
    "": {"ProgressBar", "explain", "profile"},
    "ops": {"fori_loop", "py_func", "scan", "while_loop"},
    "common.initializer": {"BilinearFiller"},
    "train": {"ProgressBar", "get_metrics"},
    "train.callback": {"ProgressBar"},
}
OURS[""] |= {"latest_checkpoint", "load_torch_weights", "quantize"}
OURS["train"] |= {"latest_checkpoint", "load_torch_weights"}
OURS[""] |= {"NonFiniteError", "compile_artifact", "watch_nans", "watch_ranges"}
"""What only cellc has. To add a name here, tell of it in the guide or in support.md."""
PLACES_OF_OURS = {
    "testing": {
        "Bisection", "Case", "Replay", "assert_close", "assert_modes_equal", "assert_no_recompile",
        "bisect", "check_grads", "load_case", "record", "replay", "run_ranks",
    },
}
"""Places that MindSpore has not."""
UNTOLD = {"get_metrics"}
"""MindSpore has it one level deeper."""


@pytest.mark.parametrize("place", PLACES)
def test_lists_hold_no_other_names(place: str) -> None:
    assert set(listed(module_of(place))) - theirs()[place] == OURS.get(place, set())


def test_signatures_are_those_recorded() -> None:
    """`python -m tests.public.signatures` records those of an intended change."""
    assert signatures.present() == signatures.RECORDED.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("place", PLACES_OF_OURS)
def test_places_of_ours(place: str) -> None:
    module = module_of(place)
    assert set(listed(module)) == PLACES_OF_OURS[place]
    assert [n for n in module.__all__ if not (getattr(module, n).__doc__ or "").strip()] == []
    assert getattr(cellc, place) is module
    assert f"`cellc.{place}`" in (DOCS / "guide/verifying.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", PLACES)
def test_listed_names_are_there(place: str) -> None:
    module = module_of(place)
    assert [n for n in module.__all__ if not hasattr(module, n)] == []


@pytest.mark.parametrize("place", PLACES)
def test_completion_shows_no_imports(place: str) -> None:
    """`dir` gives what is offered, and the modules below: a notebook completes no others."""
    module = module_of(place)
    shown = {n for n in dir(module) if not n.startswith(("_", "@"))}  # pytest's own have an @
    modules = {n for n in shown if isinstance(getattr(module, n), types.ModuleType)}
    more = set(module_of("common.dtype").__all__) if place == "common" else OURS.get(place, set())
    assert shown - modules - theirs()[place] <= more
    assert all(getattr(module, n).__name__.startswith("cellc") for n in modules)


def test_star_imports() -> None:
    names: dict[str, object] = {}
    exec("from cellc.ops import *", names)
    assert names.keys() - {"__builtins__"} == set(ops.__all__)
    for helper in ("binary", "unary", "largest", "same", "part", "arith", "Any"):
        assert helper not in names
    with pytest.raises(AttributeError, match=r"module 'cellc\.ops' has no attribute 'binary'"):
        ops.binary  # noqa: B018


def test_the_library_uses_names_that_are_there() -> None:
    """A function is seldom called for each of its branches: what they ask of `ops` is looked up."""
    absent = set()
    for file in Path(cellc.__file__).parent.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if any(isinstance(n, ast.ImportFrom) and any(a.name == "ops" for a in n.names)
               for n in tree.body):
            absent |= {(file.name, n.lineno, n.attr) for n in ast.walk(tree)
                       if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
                       and n.value.id == "ops" and not hasattr(ops, n.attr)}
    assert absent == set()


def test_ours_are_documented() -> None:
    told = "".join(p.read_text(encoding="utf-8")
                   for p in (*DOCS.glob("guide/*.md"), DOCS / "support.md"))
    ours = set().union(*OURS.values()) - UNTOLD
    assert [n for n in sorted(ours) if n not in told] == []
    assert cellc.explain.__doc__ and cellc.profile.__doc__


@needs_oracle
def test_the_record_is_mindspores() -> None:
    assert {p: set(n) for p, n in mindspore(LISTING, given=PLACES).items()} == theirs()
