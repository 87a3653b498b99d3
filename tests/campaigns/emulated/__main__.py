"""What runs on processors that this machine does not have: `python -m tests.campaigns.emulated`.

    python -m tests.campaigns.emulated --set-up               fetches QEMU and a Python
    python -m tests.campaigns.emulated --machine aarch64      ops, pool and networks, to the bit
    python -m tests.campaigns.emulated --tests tests/runtime  the project's own tests there

Ops, pool, inference and training steps are compiled here for the machine's target, written to
artifacts, and played on both machines, which must give the same bits.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cellc_runtime.target import TARGETS, host_target

from ...samples.networks import NETWORKS
from . import making
from .comparing import compare, grouped
from .machine import FOLDER, NAMES, Machine, machine, set_up

_OPS_OF_A_FILE = 40


def batches(wanted: list[str] | None) -> Iterator[tuple[str, Callable[[Path, Machine], list[str]]]]:
    """What is written into one folder and played at once: its name, and what writes it."""
    ops = making.every_op()
    if wanted is not None:
        ops = [op for op in ops if op.name in wanted]
    for k in range(0, len(ops), _OPS_OF_A_FILE):
        part = ops[k : k + _OPS_OF_A_FILE]
        yield (f"ops {part[0].name} to {part[-1].name}",
               lambda folder, m, part=part: _write(folder, m, "ops", making.op_pieces(part)))
    if wanted is None:
        yield "pool", lambda folder, m: _write(folder, m, "pool", [making.pool_piece()])
        for name in NETWORKS:
            yield name, lambda folder, m, name=name: [
                left for file, piece in making.network_pieces([name])
                for left in _write(folder, m, file, [piece])]


def _write(folder: Path, m: Machine, name: str, pieces: object) -> list[str]:
    targets = [host_target(), TARGETS[m.target]]
    return making.write(folder / f"{name}.cellc", pieces, targets)  # type: ignore[arg-type]


def play(m: Machine, wanted: list[str] | None) -> int:
    """Play everything; how many results differ."""
    wrong = results = 0
    for name, make in batches(wanted):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            left = make(Path(folder), m)
            found = compare(Path(folder), m)
        assert found.there == m.target, f"it ran code for {found.there}"
        results += found.results
        wrong += len(found.different)
        print(f"{name}: {found.results} results of {found.here} and {found.there}, native entry "
              f"{'used' if found.native else 'not used'}, {len(found.different)} differ"
              f"{' in ' + ', '.join(grouped(found.different)) if found.different else ''}"
              f"{'; no code for ' + ', '.join(left) if left else ''} "
              f"({time.monotonic() - start:.0f} s)", flush=True)
        for line in found.different[:5]:
            print(f"  {line}", flush=True)
    print(f"{m.name}: {results} results, {wrong} differ")
    return wrong


def main() -> int:
    """Run the command; 1 if something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.emulated", description="Run code on emulated processors.")
    parser.add_argument("--machine", choices=NAMES, default="aarch64")
    parser.add_argument("--set-up", action="store_true", help=f"fetch what it needs ({FOLDER})")
    parser.add_argument("--whole", action="store_true",
                        help="with LLVM and pytest, which --tests needs")
    parser.add_argument("--ops", nargs="+", metavar="OP", help="these ops alone")
    parser.add_argument("--tests", nargs=argparse.REMAINDER, metavar="ARGUMENT",
                        help="run pytest with these arguments there")
    args = parser.parse_args()
    if args.set_up:
        try:
            set_up(FOLDER, args.whole)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"not to be had: {error}", file=sys.stderr)
            return 1
        return 0
    m = machine(args.machine)
    if args.tests is not None:
        return m.call(["-m", "pytest", "-p", "no:cacheprovider", *args.tests])
    return 1 if play(m, args.ops) else 0


if __name__ == "__main__":
    sys.exit(main())
