"""Tutorials and other pages that show runs: each runs from top to bottom, in its own process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import pytest

import cellc
from cellc_runtime.target import AVX512, host_target

from .. import pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUN = ("index.md", "performance.md", "faq.md", "tutorials/*.md", "guide/*.md",
       "coming-from/*.md", "c-library.md", "mindir.md", "onnx.md", "planning.md",
       "small-weights.md")
PAGES = [p.relative_to(DOCS).as_posix() for pattern in RUN for p in sorted(DOCS.glob(pattern))]
NEEDS = {"tutorials/several-processes.md": ("mpi4py", "MPI: no mpirun"),
         "guide/processes.md": ("mpi4py", "MPI: no mpirun"),
         "tutorials/onnx-model.md": ("onnx", "onnx is not installed"),
         "onnx.md": ("onnx", "onnx is not installed"),
         "guide/saving.md": ("onnx", "onnx is not installed"),
         "guide/kernels.md": ("numba", "numba is not installed"),
         "tutorials/your-own.md": ("numba", "numba is not installed")}


@pytest.mark.skipif(host_target() is not AVX512, reason="figures are those of such a machine")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_shows(page: str) -> None:
    module, reason = NEEDS.get(page, ("", ""))
    if module and find_spec(module) is None:
        pytest.skip(reason)
    if page.endswith("c-library.md") and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    if shutil.which("nvidia-smi") is None:
        environment["CELLC_GPU"] = "emulated"
    done = subprocess.run([sys.executable, "-m", "tests.pages", str(DOCS / page)], cwd=ROOT,
                          env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


PAGE = '''
Two numbers:

```python
x = 1
print(x + 1)
```

```text
2
```

```python
int("two")
```

```text
ValueError: invalid literal for int() with base 10: 'two'
```

```python title="say.py"
print("three")
```

```console
$ python say.py
three
```
'''


def _run(page: Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", "tests.pages", str(page), "--update"], cwd=ROOT,
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


@pytest.mark.parametrize(("old", "new"), [
    ("x + 1", "x + 2"), ("'two'\n", "'one'\n"), ("\nthree", "\nfour"), ("\n2\n", "\n")])
def test_a_difference_is_found_and_corrected(old: str, new: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert _run(page) == (0, "")
    page.write_text(PAGE.replace(old, new))
    status, said = _run(page)
    assert status == 1 and "page.md:" in said
    assert _run(page) == (0, "")


def test_the_names_of_pages_are_there() -> None:
    missing = []
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for place, path in re.findall(r"`[^`\n]*?\b(ms|ops|mint)\.(\w+(?:\.\w+)*)", text):
            owner = cellc if place == "ms" else getattr(cellc, place)
            with suppress(AttributeError):
                reduce(getattr, path.split("."), owner)
                continue
            missing.append(f"{page}: {place}.{path}")
    assert missing == []


def test_every_block_of_a_page_runs_or_is_a_command_that_installs() -> None:
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        kinds = {line.split()[0] for line in text.splitlines() if line.startswith("```")}
        assert kinds <= {"```", "```python", "```text", "```console", "```sh", "```c"}, page
        assert not re.search(r"^```c\n|^    \$ ", text, re.M), page
        assert pages.steps(text) or "index" in page, page
