"""MindSpore's documentation examples, run under MindSpore and under cellc, and compared.

The examples are read from the MindSpore installation that CELLC_ORACLE_PYTHON names; what is
expected is what MindSpore really prints, not what its text says it prints. Examples that fail
under MindSpore on this machine (other devices, missing files) are left out.

    CELLC_ORACLE_PYTHON=... python tests/oracle/doc_examples.py MODE [NAME PART ...]

prints every example that differs in a mode: "pynative", "graph", or "jit" for PyNative with the
documented call under `jit` (those whose name contains a part, in full). What MindSpore prints is
kept in the folder that CELLC_ORACLE_CACHE names, if it is set.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WORKER = Path(__file__).with_name("example_worker.py")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|\binf\b|\bnan\b)", re.I)
SEED = re.compile(r"(?<!random\.)(\b(?:set_)?seed\w*\s*[=(]\s*)(\d+)")
INNER = re.compile(r"(<(?:class ')?)mindspore\.[\w.]*\.(?=\w+(?:'| object))")
"""The module in what Python shows of a class or an object: not a public name, but by chance."""
TOLERANCE = 1e-4
HALF_TOLERANCE = 2.0**-10  # of examples in float16: one unit in the last place
PATIENCE = 45  # seconds
PIECE = 250  # examples that are kept at once
_NAMES = (
    "import json, sys, cellc.shim as s; s.install(); import example_worker as w; "
    "print(json.dumps([n for n in json.load(sys.stdin) if w.has(n)]))"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one example printed, and the error that ended it ("" for none)."""

    out: str
    error: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One example under both: `verdict` is "same", "differs" or "fails"."""

    text: str
    expected: str
    found: Outcome
    verdict: str


def _environment() -> dict[str, str]:
    given = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(WORKER.parent), *given.split(os.pathsep)] if given else
                           [str(WORKER.parent)])
    return {**os.environ, "GLOG_v": "4", "PYTHONPATH": path}


def collect(oracle: str, everything: bool = False) -> dict[str, str]:
    """The examples by name: of the names that cellc has too, or of all of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "examples.json")
        subprocess.run(
            [oracle, WORKER, "extract", path], env=_environment(), capture_output=True, check=True,
        )
        examples: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    names = set(json.loads(subprocess.run(
        [sys.executable, "-c", _NAMES], input=json.dumps(list(examples)), env=_environment(),
        capture_output=True, text=True, check=True,
    ).stdout))
    chosen: dict[str, str] = {}  # by program: the first of its names that cellc has
    for name, text in examples.items():
        better = text not in chosen or (chosen[text] not in names and name in names)
        if better and (name in names or everything):
            chosen[text] = name
    return {name: text for text, name in chosen.items()}


def _read(path: Path) -> dict[str, Outcome]:
    done: dict[str, Outcome] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        done[row["name"]] = Outcome(row.get("out", ""), row.get("error", "the process died"))
    return done


def _watch(process: subprocess.Popen[bytes], results: Path) -> None:
    """Wait for a process; one that has written nothing for long hangs in native code: end it."""
    size, since = -1, 0
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        now = results.stat().st_size if results.exists() else 0
        size, since = now, since + 1 if now == size else 0
        if since > PATIENCE:
            process.kill()


def outcomes(
    python: str, provider: str, mode: str, examples: Mapping[str, str],
) -> dict[str, Outcome]:
    """Run examples in processes of `python`, a new one after each that dies."""
    done: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        given, results = Path(folder, "examples.json"), Path(folder, "results.jsonl")
        while len(done) < len(examples):
            left = {n: t for n, t in examples.items() if n not in done}
            given.write_text(json.dumps(left), encoding="utf-8")
            _watch(subprocess.Popen(
                [python, WORKER, "run", provider, mode, given, results], cwd=folder,
                env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            ), results)
            before = len(done)
            done = _read(results) if results.exists() else {}
            if len(done) == before:
                raise RuntimeError(f"{python} runs no example of {provider}")
    return done


def expectations(
    oracle: str, mode: str, examples: Mapping[str, str], folder: str = "",
) -> dict[str, Outcome]:
    """What MindSpore gives, from the cache where it has been asked before.

    Args:
        folder: of the cache; the one that CELLC_ORACLE_CACHE names if empty.
    """
    folder = folder or os.environ.get("CELLC_ORACLE_CACHE", "")
    if not folder:
        return outcomes(oracle, "mindspore", mode, examples)
    source = "".join(WORKER.with_name(f).read_text(encoding="utf-8")
                     for f in ("example_worker.py", "jit_examples.py", "example_network.py"))
    keys = {n: hashlib.sha256(f"{n}\n{t}".encode()).hexdigest() for n, t in examples.items()}
    path = Path(folder, f"{mode}.{hashlib.sha256(source.encode()).hexdigest()[:8]}.json")
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    missing = [n for n in examples if keys[n] not in kept]
    for start in range(0, len(missing), PIECE):
        piece = {n: examples[n] for n in missing[start:start + PIECE]}
        asked = outcomes(oracle, "mindspore", mode, piece)
        kept |= {keys[n]: (o.out, o.error) for n, o in asked.items()}
        path.write_text(json.dumps(kept), encoding="utf-8")
    return {n: Outcome(*kept[keys[n]]) for n in examples}


def other_seeds(text: str) -> str:
    """The example with other seeds (numpy's, which both share, stay)."""
    return SEED.sub(lambda m: f"{m[1]}{int(m[2]) + 7}", "import mindspore\n"
                    "mindspore.set_seed(8)\n" + text)


def close(a: str, b: str, tolerance: float) -> bool:
    """Whether two printed numbers agree."""
    x, y = float(a), float(b)
    return a == b or math.isclose(x, y, rel_tol=tolerance, abs_tol=1e-6) or (x != x and y != y)


def words_of(text: str) -> str:
    """The text without its spaces, numbers ("#" for an integer, "#." for a float) and the modules
    of its classes."""
    text = INNER.sub(r"\1", text)
    return "".join(NUMBER.sub(lambda m: "#" if m[0].lstrip("+-").isdigit() else "#.", text).split())


def alike(expected: str, found: str, drawn: bool, tolerance: float = TOLERANCE) -> bool:
    """Whether two outputs agree: words exactly, numbers closely (any numbers if drawn)."""
    if words_of(expected) != words_of(found):
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(found), strict=True)
    return drawn or all(close(a, b, tolerance) for a, b in pairs)


def compare(oracle: str, mode: str, examples: Mapping[str, str]) -> dict[str, Comparison]:
    """Every example that MindSpore can run here, under both."""
    expected = expectations(oracle, mode, examples)
    able = {n: t for n, t in examples.items() if not expected[n].error}
    found = outcomes(sys.executable, "cellc", mode, able)
    tolerances = {n: HALF_TOLERANCE if "float16" in able[n] else TOLERANCE for n in able}
    open_ = [n for n in able if not alike(expected[n].out, found[n].out, False, tolerances[n])]
    again = expectations(oracle, mode, {n: other_seeds(able[n]) for n in open_})
    report: dict[str, Comparison] = {}
    for name, text in able.items():
        want, got = expected[name].out, found[name]
        # What changes with the seed is random: there only its form can be the same.
        drawn = name in again and want != again[name].out
        same = alike(want, got.out, drawn, tolerances[name])
        verdict = "fails" if got.error else "same" if same else "differs"
        report[name] = Comparison(text, want, got, verdict)
    return report


def main() -> None:
    """Print what differs."""
    mode, parts = sys.argv[1], sys.argv[2:]
    examples = collect(os.environ["CELLC_ORACLE_PYTHON"])
    chosen = {n: t for n, t in examples.items() if not parts or any(p in n for p in parts)}
    report = compare(os.environ["CELLC_ORACLE_PYTHON"], mode, chosen)
    for name, c in report.items():
        if c.verdict == "same":
            continue
        print(f"{name} {c.verdict}: {c.found.error[:150]}")
        if parts or c.verdict == "differs":
            print(f"--- expected\n{c.expected}\n--- found\n{c.found.out}\n{c.found.error}")
        if parts:
            print(f"--- example\n{c.text}")
    same = sum(c.verdict == "same" for c in report.values())
    print(f"{same} of {len(report)} examples are the same ({len(chosen)} found)")


if __name__ == "__main__":
    main()
