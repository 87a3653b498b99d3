"""One network at ten sizes, beside peers whose sizes are open too.

    CELLC_PEERS_PYTHON=... python tests/benchmarks/bench_many_sizes.py [CASE ...] [--rounds 3]
        [--peers NAME ...] [--markdown FILE]

cellc's graph mode opens the sizes by itself at the second call; torch has `torch.compile(dynamic=
True)`; ONNX Runtime and OpenVINO read a file with open axes. The peers take turns at each size, as
in `run.py`. Printed: a peer's time over cellc's at each size (above 1, cellc is faster), its
geometric mean over the sizes, and the seconds of the first calls at all ten sizes, compilation
included.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import run
import sized
from run import Plan, Worker, note, quiet_slice

OURS = "cellc graph"
TOLERANCE = 1e-3
"""Of values that are compared, over the root mean square of a result."""


def start(case: str, peers: list[str], root: Path, plan: Plan) -> dict[str, Worker]:
    """The processes of the peers; those that fail are told and left out."""
    found: dict[str, Worker] = {}
    for peer in peers:
        folder = root / peer.replace(" ", "_")
        folder.mkdir()
        try:
            if peer in ("onnxruntime", "openvino"):
                exported(case, root / "onnx")
                (folder / "onnx").symlink_to(root / "onnx", target_is_directory=True)
            note(f"{case}: {peer} starts")
            found[peer] = Worker(peer, case, folder, plan, "sized.py")
        except (RuntimeError, OSError) as error:
            print(f"{case}: {peer} is left out: {error}", flush=True)
    return found


def exported(case: str, folder: Path) -> None:
    """The ONNX file, made once."""
    if folder.exists():
        return
    done = subprocess.run([run.interpreter("torch"), run.HERE / "sized.py", "export", case,
                           folder / "model.onnx"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"no ONNX file: {(done.stderr.strip() or '?').splitlines()[-1]}")


def measure(case: str, workers: dict[str, Worker], rounds: int) -> dict[str, list[float]]:
    """Seconds of a call at each size: the median over the rounds."""
    count = len(sized.SIZED[case].shapes)
    times: dict[str, list[list[float]]] = {p: [[] for _ in range(count)] for p in workers}
    for turn in range(rounds):
        for size in range(count):
            note(f"{case}: round {turn + 1} of {rounds}, size {size + 1}")
            for peer, worker in workers.items():
                times[peer][size].append(quiet_slice(worker, size=size)[0])
    return {p: [statistics.median(t) for t in rows] for p, rows in times.items()}


def shown(case: str, workers: dict[str, Worker], times: dict[str, list[float]]) -> str:
    """The table of a case in Markdown."""
    names = ["x".join(map(str, shape)) for shape in sized.SIZED[case].shapes]
    others = [p for p in workers if p != OURS]
    lines = [f"{case}:", "", f"| | cellc ms | {' | '.join(others)} |",
             "|---|" + "---:|" * (1 + len(others))]
    for i, name in enumerate(names):
        ratios = (f"{times[p][i] / times[OURS][i]:.2f}" for p in others)
        lines.append(f"| {name} | {1e3 * times[OURS][i]:.3g} | {' | '.join(ratios)} |")
    means = (math.exp(statistics.fmean(math.log(a / b) for a, b in
                                       zip(times[p], times[OURS], strict=True))) for p in others)
    lines.append(f"| geometric mean | | {' | '.join(f'{m:.2f}' for m in means)} |")
    firsts = (f"{workers[p].started.first + workers[p].started.built:.2f}" for p in others)
    ours = workers[OURS].started
    lines.append(f"| to build, and first calls, s | {ours.first + ours.built:.2f} "
                 f"| {' | '.join(firsts)} |")
    wanted = np.array(workers[OURS].values).reshape(len(names), -1)
    for peer in others:
        away = np.abs(np.array(workers[peer].values).reshape(wanted.shape) - wanted)
        if (worst := float((away / wanted[:, :1]).max())) > TOLERANCE:
            lines.append(f"\nRESULT DIFFERS: {peer} by {worst:.1e}")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(sized.SIZED), metavar="CASE")
    parser.add_argument("--peers", nargs="+", default=list(sized.BUILDERS), metavar="PEER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS",
                        help="that a peer may take for its first calls at all sizes (300)")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    peers = [OURS, *(p for p in options.peers if p != OURS)]
    plan = Plan(options.rounds, False, options.limit, math.inf, "")
    texts = []
    for case in options.cases:
        with tempfile.TemporaryDirectory() as name:
            workers = start(case, [p for p in peers if run.installed(p)], Path(name), plan)
            try:
                texts.append(shown(case, workers, measure(case, workers, options.rounds)))
            finally:
                for worker in workers.values():
                    worker.process.kill()  # one that is stopped would stay for ever
        note("")
        print(texts[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(texts))


if __name__ == "__main__":
    sys.exit(main())
