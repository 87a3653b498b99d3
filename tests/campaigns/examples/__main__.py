"""MindSpore's documentation examples under cellc: `python -m tests.campaigns.examples`.

The examples come from the source of the MindSpore that CELLC_ORACLE_PYTHON names. Each runs with
cellc in the place of `mindspore`; what it prints is compared with its text by the rules of doctest
(ELLIPSIS, no spaces) and numbers closely. An example that differs or raises runs under MindSpore
too, which decides whether the example works at all. Its answers are kept in `--cache`.

    equal    prints what the text shows or what MindSpore prints; if it draws at random: in form
    differs  prints something else
    raises   ends in an error, and MindSpore runs it or nobody here can
    device   ends in an error, and its text names no CPU
    needs    ends in an error there, and is about a file or several ranks that are not there
    broken   ends in an error here and there
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from ...oracle.doc_examples import (
    HALF_TOLERANCE,
    TOLERANCE,
    Outcome,
    alike,
    expectations,
    other_seeds,
    outcomes,
    words_of,
)
from ...oracle.test_doc_examples import KNOWN
from ...others import NO_ORACLE, ORACLE, run
from .collecting import Example, collect, place_of

FOUND = ("equal", "differs", "raises", "device", "needs", "broken")
COUNTED = ("equal", "differs", "raises")
"""The kinds that the share is of."""
NEEDS = re.compile(r"FileNotFound|No such file|not exist|path/to|/path|RANK_|rank_table|\binit\(|"
                   r"dataset_dir|dataset_file|MASTER_ADDR|msrun|mpirun|init_process_group\(")
FIND = "import importlib.util as u; print(u.find_spec('mindspore').submodule_search_locations[0])"
SEPARATORS = re.compile(r"[\[\],]")
Run = Callable[[Mapping[str, str]], Mapping[str, Outcome]]


@dataclass(frozen=True, slots=True)
class Judged:
    """An example: its kind, what cellc printed and raised, what MindSpore printed and raised."""

    kind: str
    printed: str
    error: str
    theirs: str = ""
    their_error: str = ""


def agrees(want: str, printed: str, drawn: bool, program: str) -> bool:
    """Whether an output is the expected one; "..." in the expected one is any text."""
    tolerance = HALF_TOLERANCE if "float16" in program else TOLERANCE
    if alike(want, printed, drawn, tolerance):
        return True
    pattern = ".*".join(re.escape(part) for part in words_of(want).split("..."))
    return "..." in want and re.fullmatch(pattern, words_of(printed)) is not None


def sort(example: Example, ours: Outcome, theirs: Outcome | None, drawn: bool) -> Judged:
    """Judge one example; `theirs` is None where there is no MindSpore to ask."""
    def judged(kind: str) -> Judged:
        return Judged(kind, ours.out, ours.error, *((theirs.out, theirs.error) if theirs else ()))

    if not ours.error:
        outputs = [(example.want, ours.out)]
        if theirs:  # (the text of what MindSpore does not run here was perhaps written by hand)
            outputs += [(SEPARATORS.sub(" ", example.want), SEPARATORS.sub(" ", ours.out))
                        if theirs.error else (theirs.out, ours.out)]
        if any(agrees(want, out, drawn, example.program) for want, out in outputs):
            return judged("equal")
    elif not example.on_cpu and (theirs is None or theirs.error):
        return judged("device")
    failed = "raises" if ours.error else "differs"
    if theirs is None or not theirs.error:
        return judged(failed)
    if NEEDS.search(f"{example.program}\n{theirs.error}\n{ours.error}"):
        return judged("needs")
    return judged("broken" if ours.error else failed)


def judge(examples: Mapping[str, Example], cellc: Run, mindspore: Run | None) -> dict[str, Judged]:
    """Run examples, and sort them."""
    found = cellc({n: e.program for n, e in examples.items()})
    judged = {n: sort(e, found[n], None, False) for n, e in examples.items()}
    rest = {n: examples[n].program for n, j in judged.items() if j.kind != "equal"}
    printing = {n: other_seeds(t) for n, t in rest.items() if not found[n].error}
    again = cellc(printing) if printing else {}
    theirs = mindspore(rest) if mindspore and rest else {}
    for name in rest:
        drawn = name in again and again[name].out != found[name].out
        judged[name] = sort(examples[name], found[name], theirs.get(name), drawn)
    return judged


def in_workers(
    examples: Mapping[str, Example], mode: str, workers: int, cache: Path, path: Path | None,
) -> dict[str, Judged]:
    """Run examples in so many processes at a time; say how far it is, and write what is done."""
    names, size, done = list(examples), 100, {}
    pieces = [names[i:i + size] for i in range(0, len(names), size)]

    def piece(number: int) -> None:
        folder = cache / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        judged = judge({n: examples[n] for n in pieces[number]},
                       lambda e: outcomes(sys.executable, "cellc", mode, e),
                       lambda e: expectations(ORACLE, mode, e, str(folder)))
        done.update(judged)
        print(f"{len(done)} of {len(examples)}: {dict(Counter(j.kind for j in judged.values()))}",
              flush=True)
        if path is not None:
            path.write_text(json.dumps({n: asdict(j) for n, j in list(done.items())}, indent=1))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(piece, range(len(pieces))))
    return {n: done[n] for n in names}


def known() -> dict[str, str]:
    """Reasons of known differences by the last part of a name."""
    lines = [s.split(maxsplit=1) for s in KNOWN.read_text(encoding="utf-8").splitlines()
             if s.startswith("mindspore.")]
    return {name.rpartition(".")[2]: reason.strip() for name, reason in lines}


def report(judged: Mapping[str, Judged]) -> list[str]:
    """The failures, then the shares: by place and of all."""
    reasons, lines = known(), []
    for name, j in judged.items():
        if j.kind in ("differs", "raises"):
            reason = reasons.get(name.rpartition(".")[2])
            lines.append(f"{j.kind} {name}: {j.error[:200]}" + f" (known: {reason})" * bool(reason))
    for place in [*sorted({place_of(n) for n in judged}), ""]:
        counts = Counter(j.kind for n, j in judged.items() if place in ("", place_of(n)))
        of = sum(counts[k] for k in COUNTED)
        share = f"{100 * counts['equal'] / of:.1f} %" if of else "-"
        lines.append(f"{place or 'all'}: {share} of {of} ("
                     + ", ".join(f"{counts[k]} {k}" for k in FOUND) + ")")
    return lines


def main() -> int:
    """Run the command; 1 if an example differs or raises."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.examples",
                                     description="MindSpore's documentation examples under cellc.")
    parser.add_argument("--places", nargs="+", metavar="NAME", default=["mindspore"],
                        help="beginnings of dotted names, such as mindspore.ops (default: all)")
    parser.add_argument("--mode", choices=["pynative", "graph"], default="pynative")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every example's result")
    parser.add_argument("--cache", type=Path, metavar="FOLDER",
                        default=Path(tempfile.gettempdir(), "cellc-examples"),
                        help="of MindSpore's answers, outside of the repository")
    args = parser.parse_args()
    if not ORACLE:
        print(f"nothing runs: {NO_ORACLE}")
        return 0
    package = Path(run(ORACLE, FIND).strip())
    places = tuple(args.places)
    examples = {n: e for n, e in collect(package).items()
                if n.startswith(places) or place_of(n) in places}
    print(f"{len(examples)} examples of {package}", flush=True)
    judged = in_workers(examples, args.mode, args.workers, args.cache, args.json)
    print(*report(judged), sep="\n")
    return int(any(j.kind in ("differs", "raises") for j in judged.values()))


if __name__ == "__main__":
    sys.exit(main())
