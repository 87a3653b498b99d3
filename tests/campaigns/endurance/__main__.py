"""Long runs: `python -m tests.campaigns.endurance --what training --count 1000000`.

`training`: so many steps with a checkpoint every 1,000, once undisturbed and once killed at random;
both must end with the same bytes, and in flat memory. `calls`, `steps`, `cells`, `shapes`: so many
repetitions in each mode (`flat.py`), with the memory of the process as it goes. `disturbed`: so
many processes that write files are killed, meet a full disk, or fork (`disturbed.py`); what they
wrote must be there, whole.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cellc as ms

from .disturbed import disturbed
from .flat import KINDS, bytes_each, measured
from .killing import Ran, trained

_MODES = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}


def training(steps: int, every: int, seed: int, longest: float) -> int:
    """Both trainings, side by side; 1 if they differ."""
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(2) as pool:
        calm = pool.submit(trained, Path(place) / "calm", steps, every)
        killed = pool.submit(trained, Path(place) / "killed", steps, every, seed, longest)
        for name, ran in (("undisturbed", calm.result()), ("killed", killed.result())):
            print(_said(name, ran), flush=True)
        same = calm.result().result == killed.result().result
    print(f"{steps} steps: the last checkpoints are {'the same' if same else 'DIFFERENT'} bytes")
    return 0 if same else 1


def _said(name: str, ran: Ran) -> str:
    grown = f"grew by {ran.growth() / 2**20:.2f} MiB in the later three quarters" \
        if len(ran.resident) > 4 else "ended soon"
    return (f"{name}: {ran.seconds:.0f} s, {ran.kills} kills ({ran.within} before an epoch was "
            f"done), files left: {ran.left or 'none'}; the last process had "
            f"{ran.resident[-1] / 2**20:.1f} MiB and {grown}" if ran.resident else
            f"{name}: {ran.seconds:.0f} s, {ran.kills} kills")


def writers(folder: Path | None, count: int, seed: int) -> int:
    """Writers of files, disturbed; 1 if something was lost."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        found = disturbed(Path(place), count, seed, lambda text: print(text, flush=True))
    for (name, how), runs in sorted(found.runs.items()):
        print(f"{name}, {how}: {runs}")
    print(f"{found.runs.total()} runs in {time.monotonic() - start:.0f} s, "
          f"{len(found.lost)} with something lost")
    return 1 if found.lost else 0


def main() -> int:
    """Run the command; 1 if trainings differ or something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.endurance",
                                     description="Long runs.")
    parser.add_argument("--what", choices=["training", "disturbed", *KINDS], default="training")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=1000, help="steps between checkpoints")
    parser.add_argument("--seed", type=int, default=0, help="of the times of kills")
    parser.add_argument("--longest", type=float, default=60.0, metavar="SECONDS",
                        help="that a process has before it is killed (default: 60)")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary one)")
    parser.add_argument("--mode", choices=list(_MODES), default="graph")
    args = parser.parse_args()
    if args.what == "training":
        return training(args.count, args.every, args.seed, args.longest)
    if args.what == "disturbed":
        return writers(args.folder, args.count, args.seed)
    found = []
    for m in measured(args.what, _MODES[args.mode], args.count):
        found.append(m)
        print(f"{args.what}, {args.mode}: {m.done}: {m.resident / 2**20:.2f} MiB", flush=True)
    print(f"{bytes_each(found):.1f} bytes each, by the later half")
    return 0


if __name__ == "__main__":
    sys.exit(main())
