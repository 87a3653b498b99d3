"""The walks of `docs/contributing` are done as they are written, each in a copy of the product."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "contributing").glob("*.md"))
COPIED = ("frontend", "compiler", "runtime", "docs", "samples", "tests", "pyproject.toml")
PLACE = re.compile(r"(?:New file|At the end of) `([^`]+)`:|"
                   r"In `([^`]+)`, (after|instead of) the line (`+) ?(.+?) ?\4:")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the paragraph before it, which says what it is."""

    said: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in re.finditer(r"((?:^\S[^\n]*\n)+)\n^```\w*\n(.*?)^```$", page, re.M | re.S):
        yield Block(" ".join(found[1].split()), found[2])


def write(root: Path, block: Block) -> bool:
    """Do what a block says with a file; whether it is one that goes into a file."""
    found = PLACE.search(block.said)
    if found is None:
        return False
    path = root / (found[1] or found[2])
    if block.said.startswith("New file"):
        assert not path.exists(), f"{path} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        return True
    lines = path.read_text().splitlines(keepends=True)
    at = len(lines)
    if found[2]:
        (at,) = (i for i, line in enumerate(lines) if line.strip() == found[5])
        lines[at : at + 1] = lines[at : at + 1] if found[3] == "after" else []
        at += found[3] == "after"
    path.write_text("".join([*lines[:at], block.text, *lines[at:]]))
    return True


def run(root: Path, script: str) -> str:
    """What the commands of a block print."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
           "PYTHONPATH": ":".join(str(root / p) for p in ("frontend", "compiler", "runtime"))}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=root, env=env, capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def files(root: Path) -> dict[str, bytes]:
    """The files of a copy and what is in them."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*")
            if p.is_file() and "cache" not in p.as_posix().removeprefix(root.as_posix())}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what a contributor changes; compiled modules come along."""
    root = tmp_path / "copy"
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name)
        else:
            shutil.copy2(source, root / name)
    return root


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_walk(page: Path, copy: Path) -> None:
    """Every block does what is said of it, and no file but those named changes."""
    text = page.read_text()
    if "tests/onnx_export" in text:
        pytest.importorskip("onnx")
    before, printed = files(copy), ""
    for block in blocks(text):
        if block.said.endswith("Run:"):
            printed = run(copy, block.text)
        elif block.said.endswith("It prints:"):
            assert printed == block.text
        else:
            assert write(copy, block), f"a block without a place: {block.said!r}"
    after = files(copy)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    (table,) = re.findall(r"^\| file \|.*\n((?:\|.*\n)+)", text, re.M)
    assert set(re.findall(r"^\| `(.+?)` \|", table, re.M)) == changed


def test_all_walks_are_listed() -> None:
    listed = re.findall(r"\(docs/contributing/(\w+)\.md\)", (ROOT / "CONTRIBUTING.md").read_text())
    assert sorted(listed) == [p.stem for p in PAGES]


def test_a_block_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n    two\nthree\n")
    page = ("Text.\n\nIn `a.py`, after the line `two`:\n\n```python\n    new\n```\n\n"
            "In `a.py`, instead of the line `one`:\n\n```python\nfirst\n```\n\n"
            "At the end of `a.py`:\n\n```python\nlast\n```\n\nRun:\n\n```sh\ncat a.py\n```\n")
    *edits, shown = blocks(page)
    assert all(write(tmp_path, block) for block in edits)
    assert not write(tmp_path, shown)
    assert run(tmp_path, shown.text) == "first\n    two\n    new\nthree\nlast\n"
    with pytest.raises(AssertionError, match="is there already"):
        write(tmp_path, Block("New file `a.py`:", ""))
    with pytest.raises(ValueError, match="not enough values"):
        write(tmp_path, Block("In `a.py`, after the line `four`:", ""))
