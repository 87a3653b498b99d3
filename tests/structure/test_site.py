"""The documentation site: every page is in the navigation, every link leads somewhere.

`mkdocs build --strict` checks the same and more, where MkDocs is installed (`.ci/run`).
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import mint, nn, ops
from cellc.core import dispatch
from cellc.eager import engine, prepacking
from cellc_compiler import interpret

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))
LISTED = re.findall(r"[\w/-]+\.md\b", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])


def prose(text: str) -> str:
    """A page without its blocks of code and its comments."""
    return re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.M | re.S)


def anchors(text: str) -> set[str]:
    """The names of the headings of a page, as Python-Markdown makes them."""
    found: dict[str, int] = {}
    for title in re.findall(r"^#+ (.*)$", prose(text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        found[name] = found.get(name, -1) + 1
    return {f"{n}_{i}" if i else n for n, count in found.items() for i in range(count + 1)}


def broken(page: str, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(text)):
        target = Path(os.path.normpath(DOCS / page / ".." / path)) if path else DOCS / page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            found.append(f"{path}#{anchor}")
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(LISTED) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert broken(page, (DOCS / page).read_text()) == []


class Interpreted(engine.EagerEngine):
    """Runs ops by the reference interpreter: thousands of small calls compile no kernel.

    `mkdocs build` runs the same calls with kernels.
    """

    def _build(self, op: str, operands: Any, attrs: Any) -> Any:
        graph = prepacking.graph_of(op, operands, attrs)
        single = len(graph.outputs) == 1

        def entry(*arrays: Any) -> Any:
            results = [np.array(a) for a in interpret.run(graph, arrays)]  # writable
            return results[0] if single else tuple(results)

        return engine._Compiled(entry, None, engine.applied(op, attrs), single)

    def _any_size(self, op: str, operands: Any, attrs: Any) -> None:
        return None


@pytest.fixture(scope="module")
def site() -> Iterator[SimpleNamespace]:
    """The modules that make the reference; ops run by the interpreter."""
    before = dispatch.installed()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "site")
        dispatch.install(Interpreted())
        try:
            yield SimpleNamespace(examples=importlib.import_module("examples"),
                                  reference=importlib.import_module("reference"))
        finally:
            dispatch.install(before)
            if ops.is_initialized():
                ops.destroy_process_group()


COMPLETE = re.compile(r"ops|Tensor|mint(\..+)?|numpy|scipy\..+|common\.initializer")
"""The places of the reference of which every entry shows an example."""


def test_the_examples_of_the_reference_run(
    site: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    example, calls = site.examples.example, site.examples.CALLS
    shown = {name: example(*name.rpartition(".")[::2], None) for name in calls
             if COMPLETE.fullmatch(name.rpartition(".")[0])}  # (test_site_examples.py: the others)
    assert len(shown) > 900 and all(text.startswith(">>> ") for text in shown.values())
    assert example("ops", "add", ops.add).endswith("\n[[ 3.  -1. ]\n [-0.5  3.5]]")
    monkeypatch.setitem(calls, "nn.Dense", "nn.Dense(2)")
    with pytest.raises(ValueError, match=r"nn\.Dense does not run"):
        example("nn", "Dense", None)
    monkeypatch.setitem(calls, "nn.Dense", "!nn.Dense(2, 3)")  # no error to show
    with pytest.raises(ValueError, match=r"nn\.Dense does not run"):
        example("nn", "Dense", None)


def without_example(site: SimpleNamespace) -> list[str]:
    """The entries of these places that show none, of their docstring or made."""
    found = []
    for shown, pages in site.reference.pages():
        place = shown.removeprefix("cellc").lstrip(".")
        entries = [e for page in pages for e in page.names] if COMPLETE.fullmatch(place) else []
        found += [f"{place}.{name}" for name, value in entries
                  if ">>> " not in site.reference.text_of(place, name, value)
                  and not site.examples.example(place, name, value)]
    return found


def test_every_entry_of_the_reference_shows_an_example(
    site: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert without_example(site) == []
    monkeypatch.delitem(site.examples.CALLS, "mint.bincount")
    monkeypatch.setattr(site.examples, "_tried", lambda *_: iter(()))
    assert site.examples.example("mint", "bincount", mint.bincount) == ""


@pytest.mark.parametrize(("place", "name", "value", "shown"), [
    ("mint", "tile", mint.tile, ">>> mint.tile(ms.Tensor([1, 2]), (2,))\n[1 2 1 2]"),
    ("Tensor", "cumsum", ms.Tensor.cumsum, ">>> ms.Tensor([1, 2, 3]).cumsum(0)\n[1 3 6]"),
    ("ops", "CumSum", ops.CumSum, ">>> ops.CumSum()(ms.Tensor([1, 2, 3]), 0)\n[1 3 6]"),
    ("ops", "Renorm", ops.Renorm, ">>> ops.Renorm(2, 0, 1.0)(ms.Tensor([[3.0, 4.0], [0.3, 0.4]]))"
     "\n[[0.6 0.8]\n [0.3 0.4]]"),
    ("Tensor", "sub_", ms.Tensor.sub_, ">>> x = ms.Tensor([5.0, 6.0])\n"
     ">>> _ = x.sub_(ms.Tensor([1.0, 2.0]), alpha=2)\n>>> x\n[3. 2.]"),
    ("ops", "csr_abs", ops.csr_abs, ">>> s = ms.CSRTensor(ms.Tensor([0, 1, 2]), "
     "ms.Tensor([0, 1]), ms.Tensor([1.0, -2.0]), (2, 2))\n>>> ops.csr_abs(s).values\n[1. 2.]"),
    ("ops", "Push", ops.Push, ">>> ops.Push()()\nRuntimeError: ops.Push exists for other devices "
     "only, and has no counterpart in\ncellc. Use ops that compute the same, which `cellc` "
     "compiles together."),
])
def test_an_example_follows_from_that_of_another_name(
    site: SimpleNamespace, place: str, name: str, value: Any, shown: str
) -> None:
    assert site.examples.example(place, name, value) == shown


def test_an_entry_of_the_reference_shows_the_call_and_inherited_arguments(
    site: SimpleNamespace,
) -> None:
    reference = site.reference
    gru = reference.entry("nn", "GRU", nn.GRU)
    assert "<b>layer</b>(x, hx=None, seq_length=None)" in gru
    assert "<code>batch_first</code></dt><dd>the input is (N, T, in), not (T, N, in)." in gru
    added = reference.entry("mint", "scatter_add", mint.scatter_add)  # not that of `ops`
    assert "out[i][index[i][j]] += src[i][j]" in added and "Parameter" not in added
    relu = reference.entry("nn", "ReLU", nn.ReLU)
    assert "<b>layer</b>(input)" in relu and "The function of the input" not in relu


def test_a_broken_link_is_found() -> None:
    text = "[a](guide.md) [b](guide.md#nowhere) [c](gone.md) [d](#here)\n# Here\n"
    assert broken("index.md", text) == ["guide.md#nowhere", "gone.md#", "#here"]


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command that checks external links."""
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("check_links")


def test_external_links_are_well_formed(
    links: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    status = links.main([])
    said = capsys.readouterr().out
    assert status == 0, said
    assert "https://ui.perfetto.dev (docs/guide/profiling.md)" in said


@pytest.mark.parametrize(("link", "reason"), [
    ("https://example.org/a?b=c", ""),
    ("http://example.org", "the scheme must be https"),
    ("https://example", "'example' is no host name"),
    ("https://example.org//a", "the path '//a' is malformed"),
    ("https://example.org/a b", "the path '/a b' is malformed"),
])
def test_a_malformed_link_is_found(links: ModuleType, link: str, reason: str) -> None:
    assert links.fault(link) == reason


def test_links_in_code_are_not_checked(links: ModuleType) -> None:
    text = "[a](https://a.org/x) <https://b.org> `[c](http://c)`\n```\n[d](http://d)\n```\n"
    assert links.external(text) == ["https://a.org/x", "https://b.org"]


def test_all_external_links_answer(links: ModuleType) -> None:
    if not os.environ.get("CELLC_TEST_NETWORK"):
        pytest.skip("CELLC_TEST_NETWORK is not set: no network")
    assert links.main(["--network"]) == 0
