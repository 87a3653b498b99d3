"""Writes the bill of materials of the installed package: CycloneDX 1.6, JSON.

    python docs/make_sbom.py FILE

Its components are what the package needs, and what those need, as the metadata of the environment
says. Hashes are those of `.ci/requirements.txt` where the version is the same.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

LOCK = Path(__file__).parents[1] / ".ci" / "requirements.txt"


def plain(name: str) -> str:
    """A distribution's name as an index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[tuple[str, str], list[str]]:
    """The SHA-256 hashes of each name and version of a lock file."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        if pin := re.match(r"([\w.-]+)==([^\s;]+)", entry):
            found[plain(pin[1]), pin[2]] = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
    return found


def needed(name: str) -> list[str]:
    """What a distribution needs here, without its extras."""
    lines = map(Requirement, metadata.requires(name) or ())
    return sorted({plain(r.name) for r in lines
                   if r.marker is None or r.marker.evaluate({"extra": ""})})


def component(name: str, hashes: list[str]) -> dict[str, Any]:
    """One distribution."""
    about = metadata.metadata(name)
    reference = f"pkg:pypi/{plain(name)}@{about['Version']}"
    licence = about.get("License-Expression")
    return {"type": "library", "bom-ref": reference, "purl": reference, "name": plain(name),
            "version": about["Version"],
            **({"licenses": [{"expression": licence}]} if licence else {}),
            **({"hashes": [{"alg": "SHA-256", "content": h} for h in hashes]} if hashes else {})}


def bill(name: str = "cellc") -> dict[str, Any]:
    """The bill of a distribution that is installed."""
    hashes, known = locked(LOCK.read_text()), {name: needed(name)}
    waiting = [*known[name]]
    while waiting:
        next_ = waiting.pop()
        if next_ not in known:
            known[next_] = needed(next_)
            waiting += known[next_]
    parts = {n: component(n, hashes.get((n, metadata.version(n)), [])) for n in sorted(known)}
    root = parts.pop(name)
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "metadata": {"component": root}, "components": list(parts.values()),
            "dependencies": [
                {"ref": {**parts, name: root}[n]["bom-ref"],
                 "dependsOn": [parts[m]["bom-ref"] for m in known[n]]} for n in sorted(known)]}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill(), indent=1) + "\n")
