"""Networks that nobody tuned for: classifiers of timm, through ONNX, beside the ONNX runtimes.

    CELLC_PEERS_PYTHON=~/peers/bin/python python tests/benchmarks/bench_unseen.py \
        [NETWORK ...] [--batch N] [--threads N] [--rounds N] [--json FILE] [--markdown FILE]
    ... bench_unseen.py --prepared FOLDER

`tests.onnx_import.timm_networks` writes each network once into `--files`, by the interpreter that
`CELLC_PEERS_PYTHON` names (timm, torch, onnxscript). All peers read that file: cellc in graph mode
and as an artifact, ONNX Runtime, OpenVINO. They take turns as in `run.py`, and each result is
compared with torch's. Prints milliseconds, the time of the best peer over that of cellc (graph
mode), its geometric mean and the worst. `--prepared` takes the models that
`tests.onnx_import.real prepare` wrote (models that packages carry) instead.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import run
from report import OURS, Figures, Result, ahead, best, find, geomean, span, times
from worker import compared

NETWORKS = (
    "coat_lite_tiny", "convnext_atto", "cspresnet50", "deit_tiny_patch16_224", "densenet121",
    "dla34", "dpn68", "edgenext_small", "efficientformer_l1", "efficientnet_b0",
    "ese_vovnet19b_dw", "ghostnet_100", "hrnet_w18_small", "inception_v3", "levit_128s",
    "mixnet_s", "mnasnet_100", "mobilenetv3_large_100", "mobilevit_s", "poolformer_s12",
    "pvt_v2_b0", "regnety_008", "repvgg_a0", "res2net50_14w_8s", "resnext50_32x4d", "rexnet_100",
    "seresnet50", "skresnet50", "swin_tiny_patch4_window7_224", "tinynet_a", "xception41",
    "xcit_nano_12_p16_224",
)
PEERS = (OURS, "cellc artifact", "onnxruntime", "openvino")
NEAR = 1e-3
"""How far an output may be from torch's, by the root mean square of that."""


def exported(names: list[str], batch: int, files: Path) -> list[str]:
    """Write the networks that are not there yet; those that are there now."""
    folder = (files / f"batch{batch}").absolute()
    missing = [n for n in names if not (folder / n / "model.onnx").exists()]
    if missing:
        run.note(f"torch exports {len(missing)} networks")
        done = subprocess.run(
            [run.interpreter("torch"), "-m", "tests.onnx_import.timm_networks", "export-own",
             str(folder), str(batch), *missing], capture_output=True, text=True, check=False,
            cwd=run.HERE.parents[1])
        if said := done.stdout.strip() or (done.returncode and done.stderr.strip()[-500:]):
            print(said)
    return [n for n in names if (folder / n / "model.onnx").exists()]


def measure(name: str, folder: Path, peers: list[str], root: Path, plan: run.Plan) -> list[Result]:
    """The results of one network."""
    results = [Result(peer) for peer in peers]
    running: list[run.Running] = []
    try:
        for result in results:
            run.note(f"{name}: {result.peer} starts")
            own = root / f"{name}-{result.peer.replace(' ', '_')}"
            new = not own.exists()
            own.mkdir(parents=True, exist_ok=True)
            try:
                worker = run.Worker(result.peer, str(folder / "model.onnx"), own, plan)
            except (RuntimeError, OSError) as error:
                result.note = f"left out: {error}"
                continue
            result.values = worker.values
            running.append((worker, result, new))
        run.take_rounds(name, running, plan)
        for worker, result, new in running:
            if worker.process.poll() is None:
                setattr(result, "cold" if new else "warm", worker.close())
    finally:
        for worker, _, _ in running:
            worker.process.kill()
    run.note("")
    return results


def far(folder: Path, results: list[Result]) -> list[str]:
    """The peers whose output is not torch's."""
    import numpy as np

    right = compared(np.load(folder / "output.npy"), "infer", lambda: None)
    return [r.peer for r in results if r.values and any(
        not abs(a - b) <= NEAR * right[0] for a, b in zip(r.values, right, strict=True))]


HEAD = ("network", *PEERS, "ratio", "best peer")
WIDTHS = (30, 13, 16, 13, 10, 7, 12)


def cells(name: str, results: list[Result]) -> list[str]:
    """The row of a network, as `HEAD` says."""
    peer = best(results)
    return [name, *(span(r.time) if (r := find(results, p)) else "-" for p in PEERS),
            times(ahead(results)), peer.peer if peer else "-"]


def line(row: Sequence[str], remarks: Sequence[str] = ()) -> str:
    """A row of the table on a terminal."""
    return "".join(c.ljust(w) for c, w in zip(row, WIDTHS, strict=True)) + "  ".join(remarks)


def summary(figures: Figures) -> str:
    """The geometric mean and the worst of all networks, and of artifacts over graph mode."""
    ratios = {name: ahead(results) for name, results in figures.cases.items()}
    known = {n: r for n, r in ratios.items() if r == r}
    if not known:
        return "nothing was measured"
    pairs = [(find(rs, OURS), find(rs, "cellc artifact")) for rs in figures.cases.values()]
    artifact = geomean(g.time / a.time for g, a in pairs if g and a)
    behind = [f"{n} ({r:.2f})" for n, r in sorted(known.items(), key=lambda i: i[1]) if r < 1]
    worst = min(known, key=known.__getitem__)
    return (f"{len(known)} networks: geometric mean {geomean(known.values()):.3f} of the best "
            f"peer, worst {known[worst]:.2f} ({worst}); {len(behind)} behind: "
            f"{', '.join(behind) or '-'}; graph mode over artifact {artifact:.2f}")


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Networks that nobody tuned for.")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="NETWORK",
                        help="names of timm")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=run.THREADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=run.SLICE,
                        help="that a peer measures in a round (0.3)")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS, metavar="PEER")
    parser.add_argument("--files", type=Path, metavar="DIR",
                        default=Path.home() / ".cache" / "cellc-unseen", help="of ONNX files")
    parser.add_argument("--prepared", type=Path, metavar="DIR",
                        help="of models with inputs and results")
    parser.add_argument("--caches", metavar="DIR", default="", help="keep what peers compile there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="put the figures into this file")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the table into this one")
    return parser


def folders(args: argparse.Namespace) -> list[Path]:
    """Those of the models: `model.onnx`, what it takes, and `output.npy`."""
    if args.prepared:
        return sorted(f.parent for f in args.prepared.absolute().glob("*/model.onnx"))
    files = args.files.absolute() / f"batch{args.batch}"
    return [files / name for name in exported(args.networks, args.batch, args.files)]


def main() -> int:
    """Measure; the status is 1 where an output of cellc is not torch's."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = arguments().parse_args()
    plan = run.Plan(args.rounds, False, 300.0, 60.0, args.caches, "", args.threads, args.seconds)
    peers = [p for p in args.peers if run.installed(p)]
    figures = Figures(args.threads, run.processor())
    rows, failed = [list(HEAD), ["---"] * len(HEAD)], False
    print(f"batch {args.batch}, {args.threads} threads, {args.rounds} rounds\n\n{line(HEAD)}")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(os.path.abspath(args.caches or temporary))
        for folder in folders(args):
            name = folder.name
            results = measure(name, folder, peers, root, plan)
            wrong = far(folder, results)
            failed |= any(p.startswith("cellc") for p in wrong)
            figures.add(name, results)
            rows.append(cells(name, results))
            print(line(rows[-1], [*(f"{p} DIFFERS" for p in wrong),
                                  *(f"{r.peer} {r.note}" for r in results if r.note)]), flush=True)
            if args.json:
                figures.write(args.json)
    print("\n" + summary(figures))
    if args.markdown:
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        args.markdown.write_text(f"{table}\n\n{summary(figures)}\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
