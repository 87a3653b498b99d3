"""Models compiled ahead of time: what is shipped, and how long it takes to the first result.

    CELLC_PEERS_PYTHON=... CELLC_AOT_PYTHON=... python tests/benchmarks/bench_deployment.py \
        [CASE ...] [--rounds 7] [--seconds 0.5] [--markdown FILE]

beside AOTInductor and ONNX Runtime (the first interpreter has torch, onnx, onnxscript and
onnxruntime) and TVM and IREE (the second has apache-tvm, onnx, iree-base-compiler and
iree-base-runtime). Peers that are missing or fail are left out, with the reason. In each round
every peer is called in a new process: import of its runtime, load, first call, then calls for
`--seconds`. The times are medians of the rounds. Files are in the system's cache, as after any
first use. The C library has no runtime: a small C program loads it with `dlopen`. All weights are
in the files.

`runtime` is what must be installed beside the model for Python (the distributions, without Python
itself). TVM's schedules are those of its default pipeline; a search for better ones was not made.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import c_program
import deployed
import numpy as np
import worker

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = ("lenet", "resnet18", "bert")
# peer: the file that is shipped, the distributions of its runtime
PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cellc C library": ("libnet.so", ()),
    "cellc": ("net.cellc", ("numpy", "ml_dtypes")),
    "AOTInductor": ("net.pt2", ("torch", "numpy", "sympy", "networkx", "jinja2", "mpmath",
                                "filelock", "fsspec", "typing_extensions", "setuptools")),
    "ONNX Runtime": ("model.onnx", ("onnxruntime", "numpy", "flatbuffers", "protobuf",
                                    "packaging")),
    "TVM": ("net_tvm.so", ("apache-tvm", "apache-tvm-ffi", "numpy", "ml_dtypes",
                           "typing_extensions")),
    "IREE": ("net.vmfb", ("iree-base-runtime", "numpy")),
}
SIZE = """
import importlib.metadata as m, sys
print(sum(p.stat().st_size for name in sys.argv[1:] for f in m.files(name) or ()
          if (p := m.distribution(name).locate_file(f)).exists()))
"""


def interpreter(peer: str) -> str:
    """The interpreter that has a peer."""
    if peer.startswith("cellc"):
        return sys.executable
    name = "CELLC_AOT_PYTHON" if peer in ("TVM", "IREE") else "CELLC_PEERS_PYTHON"
    return os.environ.get(name, sys.executable)


def asked(peer: str, what: str, case: str, folder: Path, *rest: str) -> dict[str, Any]:
    """The answer of a process of `deployed.py`; RuntimeError with the last line of its errors."""
    python = interpreter("AOTInductor" if peer == "onnx" else peer)
    # what an installed package has compiled is not compiled again at each import
    keeping = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    keeping["OMP_NUM_THREADS"] = "2"
    done = subprocess.run([python, HERE / "deployed.py", what, peer, case, folder, *rest],
                          capture_output=True, text=True, check=False, timeout=900, env=keeping)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "ended without a word").splitlines()[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def runtime_bytes(peer: str) -> int:
    """Bytes of what must be installed beside the model."""
    names = PEERS[peer][1]
    if not names:
        return 0
    done = subprocess.run([interpreter(peer), "-c", SIZE, *names], capture_output=True, text=True,
                          check=True)
    own = ROOT / "runtime" / "cellc_runtime"
    ours = sum(p.stat().st_size for p in own.rglob("*.py")) if peer == "cellc" else 0
    return int(done.stdout) + ours


def written(case: str, folder: Path) -> dict[str, float]:
    """Seconds that each peer took to write its files; peers that failed are told and left out."""
    seconds = {}
    for peer in ("cellc", "onnx", "AOTInductor", "TVM", "IREE"):
        try:
            seconds[peer] = asked(peer, "write", case, folder)["seconds"]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{case}: {peer} is left out: {error}", flush=True)
    if "cellc" in seconds:
        seconds["cellc C library"] = seconds["cellc"]
    if "onnx" in seconds:
        seconds["ONNX Runtime"] = seconds.pop("onnx")
    return seconds


def c_call(folder: Path, seconds: float) -> dict[str, Any]:
    """One process of the C program."""
    found, result = c_program.call(folder, seconds)
    return {"import": 0.0, **found, "values": worker.compared(result, "infer", lambda: result)}


def rounds_of(case: str, folder: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The medians of each peer over interleaved rounds, with sizes and seconds to write."""
    seconds = written(case, folder)
    if "cellc" in seconds:
        elements = asked("cellc", "call", case, folder, "0")["elements"]
        c_program.build(folder, deployed.inputs_of(case), elements)
    found: dict[str, list[dict[str, Any]]] = {peer: [] for peer in PEERS if peer in seconds}
    for _ in range(options.rounds):
        for peer, rows in list(found.items()):
            try:
                if peer == "cellc C library":
                    rows.append(c_call(folder, options.seconds))
                else:
                    rows.append(asked(peer, "call", case, folder, str(options.seconds)))
            except (RuntimeError, subprocess.SubprocessError) as error:
                print(f"{case}: {peer} is left out: {error}", flush=True)
                del found[peer]
    wanted = np.array(found["cellc"][0]["values"])
    table = {}
    for peer, rows in found.items():
        row = {key: statistics.median(r[key] for r in rows)
               for key in ("import", "load", "first", "call", "memory")}
        row["start"] = statistics.median(r["import"] + r["load"] + r["first"] for r in rows)
        row["difference"] = float(np.abs(np.array(rows[0]["values"]) - wanted).max() / wanted[0])
        row |= {"write": seconds[peer], "file": (folder / PEERS[peer][0]).stat().st_size / 1e6,
                "runtime": runtime_bytes(peer) / 1e6}
        table[peer] = row
    return table


def shown(case: str, table: dict[str, dict[str, float]]) -> str:
    """The table of a case in Markdown."""
    lines = [f"{case}:", "", "| | compile s | file MB | runtime MB | import ms | load ms "
             "| first call ms | start in all ms | a call ms | peak MiB | largest difference |",
             "|---|" + "---:|" * 10]
    for peer, r in table.items():
        write = "" if peer == "ONNX Runtime" else f"{r['write']:.1f}"
        ms = " | ".join(f"{1e3 * r[k]:.3g}" for k in ("import", "load", "first", "start", "call"))
        lines.append(f"| {peer} | {write} | {r['file']:.3g} | {r['runtime']:.3g} | {ms} "
                     f"| {r['memory']:.0f} | {r['difference']:.0e} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    texts = []
    for case in options.cases:
        with tempfile.TemporaryDirectory() as name:
            texts.append(shown(case, rounds_of(case, Path(name), options)))
        print(texts[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(texts))


if __name__ == "__main__":
    main()
