"""The documentation site: every page is in the navigation, every link leads somewhere.

`mkdocs build --strict` checks the same and more, where MkDocs is installed (`.ci/run`).
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from types import ModuleType

import pytest

from cellc import nn, ops

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


def test_the_examples_of_the_reference_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS / "site")
    examples = importlib.import_module("examples")
    shown = {name: examples.example(*name.rpartition(".")[::2], None) for name in examples.CALLS}
    assert len(shown) > 30 and all(text.startswith(">>> ") for text in shown.values())
    assert examples.example("ops", "add", ops.add).endswith("\n[[ 3.  -1. ]\n [-0.5  3.5]]")
    monkeypatch.setitem(examples.CALLS, "nn.Dense", "nn.Dense(2)")
    with pytest.raises(ValueError, match=r"nn\.Dense does not run"):
        examples.example("nn", "Dense", None)


def test_an_entry_of_the_reference_shows_the_call_and_inherited_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(DOCS / "site")
    reference = importlib.import_module("reference")
    gru = reference.entry("nn", "GRU", nn.GRU)
    assert "<b>layer</b>(x, hx=None, seq_length=None)" in gru
    assert "<code>batch_first</code></dt><dd>the input is (N, T, in), not (T, N, in)." in gru
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
