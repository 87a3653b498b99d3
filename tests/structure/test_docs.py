"""What pages and docstrings cite is there: modules, and the glossary's names in them."""

from __future__ import annotations

import re
from functools import cache

import pytest

from .ratchets import ROOT, sources

CITED = re.compile(r"`((?:\w+/)*\w+\.py)`")
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \| `([^`]+)` \| (?:`(\w+)` )?\|$", re.MULTILINE)
PAGES = [p.relative_to(ROOT).as_posix() for p in (
    ROOT / "docs/architecture.md", *sorted((ROOT / "docs/architecture").glob("*.md")))]
TREE = re.compile(r"```\n(frontend/cellc/.*?)```", re.DOTALL)
ENTRY = re.compile(r"( *)((?:[\w{},./]+ )*[\w{},./]+)(?:  |$)")
GLOSSARY = (ROOT / "docs/architecture/glossary.md").read_text()


@cache
def files() -> dict[str, str]:
    """The text of every Python file, by its path."""
    return dict(sources("frontend", "compiler", "runtime", "tests", "docs", "samples"))


def named(path: str) -> list[str]:
    """The files that a path, or the end of one, stands for."""
    return [f for f in files() if f == path or f.endswith(f"/{path}")]


def unknown(text: str) -> list[str]:
    """The modules that a text cites and that are not there."""
    return sorted({path for path in CITED.findall(text) if not named(path)})


@pytest.mark.parametrize("page", PAGES)
def test_modules_of_a_page_exist(page: str) -> None:
    assert not unknown((ROOT / page).read_text())


def drawn(page: str) -> set[str]:
    """The paths of the tree that a page draws: two blanks for each folder, `{a,b}` for either."""
    found: set[str] = set()
    folders: list[str] = []
    block = TREE.search(page)
    for line in block[1].splitlines() if block is not None else ():
        entry = ENTRY.match(line)
        if entry is None or len(entry[1]) > 8:  # the second line of a description
            continue
        depth, names = len(entry[1]) // 2, entry[2].split()
        for name in names:
            either = re.search(r"\{(.*)\}", name)
            for part in either[1].split(",") if either else ("",):
                own = name.replace(either[0], part) if either else name
                path = "".join([*folders[:depth], own])
                found |= {path.rstrip("/"), path.rpartition("/")[0]}
        folders[depth:] = [names[0]]
    return found


def test_the_tree_is_that_of_the_repository() -> None:
    """Every path exists, and every module and folder of a package is drawn."""
    paths = drawn((ROOT / "docs/architecture.md").read_text())
    assert not {p for p in paths if not (ROOT / p).exists()}
    for root in ("frontend/cellc", "compiler/cellc_compiler", "runtime/cellc_runtime"):
        there = {p.relative_to(ROOT).as_posix() for p in (ROOT / root).iterdir()
                 if (p.suffix == ".py" or p.is_dir()) and not p.name.startswith("_")}
        assert there - paths == set()


def test_a_path_that_is_gone_is_found() -> None:
    page = "```\nfrontend/cellc/  x\n  gone/ {a,b}_c.py  more\n```"
    assert drawn(page) == {"frontend/cellc", *(
        f"frontend/cellc/{name}" for name in ("gone", "a_c.py", "b_c.py"))}


def test_modules_that_docstrings_cite_exist() -> None:
    found = {path: unknown(text) for path, text in sources("compiler", "runtime")}
    assert not {path: names for path, names in found.items() if names}


def test_the_glossary_is_linked_and_has_rows() -> None:
    assert "(architecture/glossary.md)" in (ROOT / "docs/architecture.md").read_text()
    assert len(ROW.findall(GLOSSARY)) == GLOSSARY.count("\n| ") - 3 > 20  # (three heads)


@pytest.mark.parametrize(("word", "path", "name"), ROW.findall(GLOSSARY))
def test_a_word_of_the_glossary_is_in_its_module(word: str, path: str, name: str) -> None:
    texts = [files()[f] for f in named(path)]
    assert texts and any(re.search(rf"\b{name}\b", text) for text in texts), word


def test_a_module_that_is_gone_is_found() -> None:
    assert unknown("see `ir/graph.py`, `ir/gone.py`, `gone.py`") == ["gone.py", "ir/gone.py"]
