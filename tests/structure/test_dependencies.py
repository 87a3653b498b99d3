"""What the package needs: bounds, the versions and hashes that CI installs, and their bill."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCK = (ROOT / ".ci" / "requirements.txt").read_text()
ENTRIES = [e for e in LOCK.replace("\\\n", " ").splitlines() if e and not e.startswith("#")]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(*parts: list[str]) -> list[Requirement]:
    return [r for part in parts for r in map(Requirement, part) if r.name != "cellc"]


def test_a_release_that_may_break_is_bounded():
    """Tools of development alone may be newer than any that was tried."""
    shipped = requirements(PROJECT["dependencies"],
                           *(EXTRAS[e] for e in EXTRAS if e not in ("test", "dev")))
    open_ = [str(r) for r in shipped
             if not any(s.operator in ("<", "<=", "==", "~=") for s in r.specifier)]
    assert shipped and not open_


def test_ci_installs_versions_within_the_bounds():
    pinned: dict[str, list[str]] = {}
    for entry in ENTRIES:
        name, version = re.match(r"([\w.-]+)==([^\s;]+)", entry).groups()
        pinned.setdefault(plain(name), []).append(version)
    installed = (e for e in EXTRAS if e not in ("bench", "nccl", "torch"))  # CI does without
    wanted = requirements(PROJECT["dependencies"], *(EXTRAS[e] for e in installed))
    for r in wanted:
        assert plain(r.name) in pinned, f"{r} is not locked: run .ci/lock"
        for version in pinned[plain(r.name)]:
            assert r.specifier.contains(version, prereleases=True), (str(r), version)


def test_the_lock_names_hashes_and_no_host():
    assert len(ENTRIES) > 30
    for entry in ENTRIES:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry
    assert not re.search(r"https?:|--(?:extra-)?index|--find-links|file:", LOCK)


def test_the_bill_of_materials(tmp_path):
    subprocess.run([sys.executable, ROOT / "docs" / "make_sbom.py", tmp_path / "bill.json"],
                   check=True)
    bill = json.loads((tmp_path / "bill.json").read_text())
    parts = {c["name"]: c for c in bill["components"]}
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "cellc")
    assert {plain(r.name) for r in requirements(PROJECT["dependencies"])} <= set(parts)
    assert "pygments" in parts  # which rich needs
    assert all(c["version"] == metadata.version(n) for n, c in parts.items())
    references = {c["bom-ref"] for c in (*parts.values(), bill["metadata"]["component"])}
    assert {d["ref"] for d in bill["dependencies"]} == references
    assert all(set(d["dependsOn"]) <= references for d in bill["dependencies"])


# --- the runtime as a distribution of its own ----------------------------------------------------


def test_the_runtime_needs_two_distributions():
    """And its files import nothing else, but for MPI where a program is run by it."""
    project = tomllib.loads((RUNTIME / "pyproject.toml").read_text())["project"]
    assert set(project["dependencies"]) <= set(PROJECT["dependencies"])
    assert {r.name for r in map(Requirement, project["dependencies"])} == {"numpy", "ml_dtypes"}
    for key in ("requires-python", "license"):
        assert project[key] == PROJECT[key]
    assert (RUNTIME / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    imported = set()
    for path in (RUNTIME / "cellc_runtime").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {a.name.partition(".")[0] for a in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    others = imported - set(sys.stdlib_module_names)
    assert others <= {"numpy", "ml_dtypes", "mpi4py", "cellc_runtime"}


ALONE = """
import sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
import cellc_runtime
print(cellc_runtime.__file__, cellc_runtime.load(sys.argv[3], trust_native_code=True)(np.ones(3)))
for name in ("cellc", "cellc_compiler", "llvmlite"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} is there")
"""


def test_the_wheel_of_the_runtime_runs_an_artifact(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, RUNTIME],
        capture_output=True, text=True, check=False)
    if "hatchling" in done.stderr and done.returncode:
        pytest.skip("no package index, from which a build takes hatchling")
    assert done.returncode == 0, done.stderr
    wheel, = tmp_path.glob("cellc_runtime-*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        file.extractall(tmp_path / "there")
    assert {n.partition("/")[0].partition("-")[0] for n in names} == {"cellc_runtime"}
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert "cellc_runtime/py.typed" in names

    import cellc as ms

    path = tmp_path / "net.cellc"
    ms.compile_artifact(path, (lambda x: x * 2 + 1, "float32[3]"))
    (tmp_path / "deps").mkdir()
    for part in Path(np.__file__).parents[1].glob("numpy*"):
        os.symlink(part, tmp_path / "deps" / part.name)
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", ALONE, tmp_path / "there", tmp_path / "deps", path],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'there' / 'cellc_runtime' / '__init__.py'} [3. 3. 3.]\n"


def test_another_runtime_than_the_one_it_brings_is_refused():
    """Somebody has installed `cellc-runtime` of another version over it."""
    code = "import cellc_runtime\ncellc_runtime.__version__ = '9.0'\nimport cellc"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs the cellc_runtime" in done.stderr and "but there is 9.0" in done.stderr
