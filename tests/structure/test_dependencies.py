"""What the package needs: bounds, the versions and hashes that CI installs, and their bill."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
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
    installed = (e for e in EXTRAS if e not in ("bench", "nccl"))  # these two CI does without
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
