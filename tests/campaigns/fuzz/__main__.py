"""Random trials of the whole compiler: `python -m tests.campaigns.fuzz --minutes 60`.

A *kind* is a module that makes trials of one sort from seeds: `networks` (graphs of all ops, in
every way that must give the same), `alone` (one op with attributes and sizes far from its
samples), `graphs` (the IR, its passes and derivatives, without code),
`ranks` (graphs cut over ranks and into stages), `states` (Cells with assignments, views, changes in
place, draws and open sizes), `effects` (Cells that print and check in branches and loops),
`edits` (everything that Python can edit, between calls), `attributes` (those of layers and
optimizers, edited between calls),
`training` (layers, optimizers, loss scales, copies), `spread` (the same on several ranks),
`programs` (Python with control flow),
`arguments` (functions, methods, layers and primitives with what nobody meant), `files` (damaged
ones), `models` (mutated ONNX and MindIR files), `concurrency` (threads that share networks),
`processes` (killed, interrupted, short of disk, memory, descriptors or threads), `jobs` (ranks of
`mpirun`, one of which dies, hangs or errs). `campaign` runs them in processes of their own, so that
a crash or a hang is a finding too, makes what fails small, writes it to the corpus and adds a line
to the ledger.
`test_fuzz.py` plays the corpus and a few trials of each kind.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from .campaign import KINDS, LEDGER, enter, run, totals


def main() -> int:
    """Run the command; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.fuzz",
                                     description="Random trials of the whole compiler.")
    parser.add_argument("--minutes", type=float, default=10.0, help="altogether (default: 10)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=None,
                        help="of the first trial (default: by the clock)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", default="", help="folder of compiled code that is kept for the "
                        "next campaign (default: a new one for each worker)")
    parser.add_argument("--enter", action="store_true", help=f"add to {LEDGER.name}")
    parser.add_argument("--ledger", action="store_true", help="show what was tried so far")
    args = parser.parse_args()
    if args.ledger:
        for kind, counts in totals().items():
            print(f"{kind}: " + ", ".join(f"{n:g} {name}" for name, n in sorted(counts.items())))
        return 0
    seed = int(time.time()) * 1000 if args.seed is None else args.seed
    print(f"seeds from {seed}, {args.minutes:g} minutes, {', '.join(args.kinds)}", flush=True)
    campaign = run(args.kinds, args.minutes, seed, args.workers, cache=args.cache)
    if args.enter:
        enter(campaign, seed)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
