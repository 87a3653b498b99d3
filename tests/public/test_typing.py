"""What type checkers see of the public API, in scripts as users write them."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import cellc
from cellc import ops

from .places import PLACES, listed, module_of

TYPED = Path(__file__).with_name("typed")
WRONG = re.compile(r"  # wrong: ([a-z-]+)$")


def expected() -> dict[int, str]:
    """The lines of `mistakes.py` with their errors."""
    lines = (TYPED / "mistakes.py").read_text(encoding="utf-8").splitlines()
    return {i: found[1] for i, line in enumerate(lines, 1) if (found := WRONG.search(line))}


def every_name() -> Iterator[tuple[str, str]]:
    """Each public place with each of its names."""
    for place in PLACES:
        yield from ((place, name) for name in listed(module_of(place)))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What mypy says, by file and line, of the scripts and of one that names all there is."""
    pytest.importorskip("mypy", reason="mypy, of the extra 'dev', is not installed")
    folder = tmp_path_factory.mktemp("typing")
    names = folder / "names.py"
    names.write_text("import cellc\n" + "".join(
        f"import cellc.{place}\n" for place in PLACES if place) + "".join(
        f"reveal_type(cellc{'.' * bool(place)}{place}.{name})\n" for place, name in every_name()))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir",
               str(folder / "cache"), str(TYPED / "results.py"), str(TYPED / "mistakes.py"),
               str(names)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert not done.stderr, done.stderr
    out: dict[str, dict[int, str]] = {"results.py": {}, "mistakes.py": {}, "names.py": {}}
    for line in done.stdout.splitlines():
        path, number, said = line.split(":", 2)
        out[Path(path).name].setdefault(int(number), said.strip())
    return out


def test_results_are_typed(reports: dict[str, dict[int, str]]) -> None:
    assert reports["results.py"] == {}


def test_mistakes_are_errors(reports: dict[str, dict[int, str]]) -> None:
    found = {line: re.sub(r".*\[([a-z-]+)\]$", r"\1", said)
             for line, said in reports["mistakes.py"].items()}
    assert found == expected()


def test_every_public_name_is_typed(reports: dict[str, dict[int, str]]) -> None:
    """Each name has a type of its own: none is unknown, and none is Any."""
    said = reports["names.py"]
    first = len([p for p in PLACES if p]) + 2
    bad = {f"{place}.{name}": said.get(first + i, "nothing")
           for i, (place, name) in enumerate(every_name())
           if "Revealed type" not in (now := said.get(first + i, "")) or now.endswith('"Any"')}
    assert not bad, "\n".join(f"{name}: {now}" for name, now in bad.items())


def test_pyright_agrees() -> None:
    """The same scripts under pyright, where it is installed."""
    checker = shutil.which("pyright") or shutil.which("basedpyright")
    if checker is None:
        pytest.skip("pyright is not installed")
    done = subprocess.run(
        [checker, "--outputjson", "--level", "error", "--pythonpath", sys.executable,
         str(TYPED / "results.py"), str(TYPED / "mistakes.py")],
        capture_output=True, text=True)
    found = {(Path(d["file"]).name, d["range"]["start"]["line"] + 1)
             for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"}
    assert found == {("mistakes.py", line) for line in expected()}


def generator() -> ModuleType:
    """`docs/make_stubs.py`."""
    file = Path(__file__).parents[2] / "docs" / "make_stubs.py"
    spec = importlib.util.spec_from_file_location("make_stubs", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_stubs_are_checked(monkeypatch: pytest.MonkeyPatch,
                           capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` accepts what is there, and says which stub another function would change."""
    stubs = generator()
    monkeypatch.setattr(sys, "argv", ["make_stubs.py", "--check"])
    assert stubs.main() == 0
    monkeypatch.setitem(stubs.MINT, "another", ops.softmax)
    assert stubs.main() == 1
    assert "mint.pyi" in capsys.readouterr().err


def test_stubs_are_in_the_package() -> None:
    home = Path(cellc.__file__).parent
    assert (home / "py.typed").exists()
    assert {f.stem for f in (home / "stubs").glob("*.pyi")} == set(generator().STUBS)
