"""Records what MindSpore gives for the facts of a subject: `python -m tests.nn.facts.record cell`.

Needs CELLC_ORACLE_PYTHON. The JSON beside the subject holds, for each fact, one result, or one for
each mode where they differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def ask(subject: str) -> dict[str, Any]:
    """What MindSpore gives for the facts of a subject; a fact that ends the process is left out."""
    found: dict[str, Any] = {}
    skipped: list[str] = []
    while True:
        done, by_name = _run(subject, [*found, *skipped])
        found.update(by_name)
        died = [x.removeprefix("START ") for x in done.stdout.splitlines() if x.startswith("START")]
        if done.returncode == 0:
            return found
        sys.stderr.write(f"{subject}: MindSpore ended ({done.returncode})\n{done.stderr[-1500:]}\n")
        if not died or died[-1] in found:
            raise SystemExit(1)
        skipped.append(died[-1])


def _run(subject: str, skip: list[str]) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [os.environ["CELLC_ORACLE_PYTHON"], "-W", "ignore", "-m", "facts.runner", subject,
             *(f"-{name}" for name in skip)],
            capture_output=True, text=True, timeout=900, check=False, cwd=folder,
            env={**os.environ, "PYTHONPATH": str(HERE.parent), "GLOG_v": "4",
                 "CELLC_FACTS_OF": "mindspore"},
        )
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("FACT "):
            name, by_mode = json.loads(line.removeprefix("FACT "))
            same = by_mode["graph"] == by_mode["pynative"]
            found[name] = {"both": by_mode["pynative"]} if same else by_mode
    return done, found


def main() -> None:
    """Write the JSON of each subject named."""
    for subject in sys.argv[1:]:
        found = ask(subject)
        text = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
        (HERE / f"{subject}.json").write_text("{\n" + text + "\n}\n")
        print(subject, len(found))


if __name__ == "__main__":
    main()
