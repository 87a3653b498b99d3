"""Plant faults in the product, see which tests find them: `tests.campaigns.mutants --count 20`.

Each is a change of one place (`planting.py`) in a copy. The tests of the part that it is in look
for it first, then the others as time allows (`rooms.py`). What was tried is entered into
`ledger.jsonl`. Who has looked at a survivor adds to its line `"judged"`: `"equivalent: why"` or
`"test added: which"`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .reaching import load, record
from .rooms import ROOMS, test_files
from .trying import LEDGER, ask, chosen, product, run, summary


def main() -> int:
    """Run the command; 1 if a fault survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.mutants",
                                     description="Plant faults and see which tests find them.")
    parser.add_argument("--count", type=int, default=20, help="of faults (default: 20)")
    parser.add_argument("--seed", type=int, default=None,
                        help="of the first (default: by the clock)")
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS),
                        metavar="ROOM", help="in which faults are planted (default: all)")
    parser.add_argument("--minutes", type=float, default=60.0, help="altogether (default: 60)")
    parser.add_argument("--own", type=float, default=600.0, metavar="SECONDS",
                        help="for the tests of a fault's own part (default: 600)")
    parser.add_argument("--others", type=float, default=3600.0, metavar="SECONDS",
                        help="for the rest, where those find nothing (default: 3600; 0: none)")
    parser.add_argument("--tests", nargs="+", default=(), metavar="TEST",
                        help="instead of those of a fault's part: of a survivor, say")
    parser.add_argument("--cache", type=Path, metavar="FOLDER",
                        help="of compiled kernels, which stays")
    parser.add_argument("--warm", action="store_true",
                        help="run all parts' own tests without a fault, which fills --cache")
    parser.add_argument("--reach", type=Path, metavar="FILE",
                        help="which tests run which lines: those look first")
    parser.add_argument("--record", type=float, metavar="SECONDS",
                        help="write --reach (or go on): each file of all parts' own tests, or of "
                             "--tests, for so long at most")
    parser.add_argument("--show", action="store_true", help="print the faults, plant none")
    parser.add_argument("--no-ledger", action="store_true", help="enter nothing")
    parser.add_argument("--summary", action="store_true", help="show what was found so far")
    args = parser.parse_args()
    if args.record and not args.reach:
        parser.error("--record writes the file of --reach")
    seed = int(time.time()) if args.seed is None else args.seed
    seeds = range(seed, seed + args.count)
    if args.summary:
        print(*summary(), sep="\n")
    elif args.show:
        for s in seeds:
            print(f"{s}: {chosen(s, args.rooms)[1]}")
    elif args.warm:
        return _warm(args.cache, args.own)
    elif args.record:
        every = dict.fromkeys(f for own in ROOMS.values() for t in own for f in test_files(t))
        record(args.reach, args.tests or list(every), args.record)
    else:
        done = run(seeds, args.minutes, args.cache, args.own, args.others,
                   tests=args.tests, reach=load(args.reach) if args.reach else None,
                   rooms=args.rooms, ledger=None if args.no_ledger else LEDGER,
                   tell=lambda line: print(line, flush=True))
        return 0 if all(t.found for t in done) else 1
    return 0


def _warm(cache: Path, seconds: float) -> int:
    """Fill a cache, and see that the tests pass without a fault."""
    failed = 0
    for tests in dict.fromkeys(t for own in ROOMS.values() for t in own):
        with product(cache) as (root, env):
            said = ask(root, env, [tests], seconds)
        print(f"{tests}: {said or 'passes'}", flush=True)
        failed += bool(said)
    return failed


if __name__ == "__main__":
    sys.exit(main())
