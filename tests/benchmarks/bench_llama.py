"""Language models beside torch, llama.cpp, ONNX Runtime and OpenVINO: prompts, and token by token.

    CELLC_PEERS_PYTHON=~/peers/bin/python CELLC_LLAMA_PYTHON=~/llama/bin/python \
        python tests/benchmarks/bench_llama.py --size 110m --weights float32 int8 int4

`CELLC_PEERS_PYTHON` has torch, transformers, onnx, onnxruntime, openvino and nncf,
`CELLC_LLAMA_PYTHON` llama-cpp-python and gguf; those that are not named, and peers that cannot be
imported, are left out. All read one folder with random weights, have two threads, and take turns.
They must give the same tokens for a prompt. Prints milliseconds and ratios, and which part of the
machine's read bandwidth the weights and the cache of one token take, by their bytes.

What a width means: cellc and ONNX Runtime (`MatMulNBits`) have four bits in groups of 64, OpenVINO
(`nncf`) too, llama.cpp Q8_0 (8.5 bits in fact) and Q4_0 (4.5). Caches: cellc's is in the header,
llama.cpp's has 16 bits, torch's and ONNX Runtime's 32, OpenVINO chooses (eight bits by default).

`--folder F --prepare` writes the models and stops; a run with the same folder then measures alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peer_llama import PEERS, REST, WIDTHS

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "samples"
THREADS = 2
LENGTHS = (32, 128, 512, 960)
"""Of prompts, and of conversations that go on token by token."""
TOKENS = 16
"""Tokens that are made for one measurement."""
PAUSE = 0.2
"""Seconds between peers, in which the threads of the last one fall asleep."""
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "torch_dtype": "float32",
}
SIZES = {
    "110m": (32000, 768, 12, 12, 12, 2048, True), "0.5b": (151936, 896, 24, 14, 2, 4864, True),
    "1.1b": (32000, 2048, 22, 32, 4, 5632, False), "tiny": (512, 128, 2, 4, 2, 256, True),
}
"""Vocabulary, width, depth, heads, heads of keys, hidden width, tied: a GPT of old, the shapes of
Qwen2.5 0.5B and of TinyLlama 1.1B, and one to try this script."""


def config_for(size: str, depth: int) -> dict[str, Any]:
    """The `config.json` of a size; with another depth if that is not 0."""
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
             "num_key_value_heads", "intermediate_size", "tie_word_embeddings")
    found = {**CONFIG, **dict(zip(names, SIZES[size], strict=True))}
    return {**found, "num_hidden_layers": depth or found["num_hidden_layers"]}


def work(peer: str, folder: Path, name: str, batch: int) -> None:
    """A process that says "ready", then answers `{"length": n}` with seconds of a prompt and of a
    token after it, `{"tokens": n}` with the tokens that follow a prompt."""
    model: Any = PEERS[peer](folder, name, batch, THREADS)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "tokens" in asked:
            made = [model.prompt(list(range(5, 37)))]
            while len(made) < asked["tokens"]:
                made.append(model.token(made[-1]))
            print(json.dumps(made), flush=True)
            continue
        given = [i % 400 + 1 for i in range(asked["length"])]
        start = time.perf_counter()
        token = model.prompt(given)
        middle = time.perf_counter()
        for _ in range(TOKENS):
            token = model.token(token)
        print(json.dumps([middle - start, (time.perf_counter() - middle) / TOKENS]), flush=True)


class Process:
    """A peer in a process of its own."""

    def __init__(self, peer: str, python: str, folder: Path, name: str, batch: int) -> None:
        self.process = subprocess.Popen(
            [python, str(Path(__file__)), "--work", peer, "--folder", str(folder), "--name", name,
             "--batch", str(batch)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(THREADS), "CELLC_THREADS": str(THREADS)})

    def ready(self) -> bool:
        """Whether the peer is there; else its last words are printed."""
        assert self.process.stdout is not None and self.process.stderr is not None
        if any('"ready"' in line for line in iter(self.process.stdout.readline, "")):
            return True
        said = self.process.stderr.read().strip().splitlines()
        print("left out:", self.process.args[3:], said[-1:])
        return False

    def ask(self, **what: int) -> Any:
        """The answer of the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        time.sleep(PAUSE)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended")
        return json.loads(line)

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.wait()


def write_model(folder: Path, config: dict[str, Any]) -> None:
    """Random weights as Hugging Face's files. (A small table: else tokens repeat themselves.)"""
    import numpy as np

    from cellc_runtime import checkpoint

    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(0)
    width, hidden = config["hidden_size"], config["intermediate_size"]
    kv = width // config["num_attention_heads"] * config["num_key_value_heads"]
    weights = {"model.embed_tokens.weight": (config["vocab_size"], width)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        weights |= {f"{layer}.self_attn.{p}_proj.weight": (kv if p in "kv" else width, width)
                    for p in "qkvo"}
        weights |= {f"{layer}.mlp.{p}_proj.weight": (hidden, width) for p in ("gate", "up")}
        weights[f"{layer}.mlp.down_proj.weight"] = width, hidden
        weights |= {f"{layer}.{n}.weight": (width,)
                    for n in ("input_layernorm", "post_attention_layernorm")}
    weights["model.norm.weight"] = (width,)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = config["vocab_size"], width
    checkpoint.save(folder / "model.safetensors", {
        n: rng.standard_normal(s, np.float32) * np.float32(0.002 if "embed" in n else 0.05)
        + np.float32(len(s) == 1) for n, s in weights.items()})


def artifact_name(width: str, cache: str) -> str:
    """The name of cellc's artifact with such weights and such a cache."""
    return f"{width}+{cache}"


def compile_model(folder: Path, width: str, cache: str, batch: int) -> None:
    """The artifact, by the command of `samples/llama.py`."""
    from cellc.cli import main

    path = folder / f"{artifact_name(width, cache)}-{batch}.cellc"
    if path.exists():
        return
    inputs = [f"prompt.tokens=int32[{batch},T]", f"decode.tokens=int32[{batch},1]",
              *(f"{e}.places=int32[S]" for e in ("prompt", "decode")),
              *(f"{n}={kind}[]" for n, _, kind in REST)]
    model = f"pretrained({str(folder)!r}, batch={batch}, cache={cache!r})"
    status = main(["compile", f"{SAMPLES / 'llama.py'}:{model}", "--no-graph",
                   "--entry", "prompt=choose", "--entry", "decode=choose",
                   *(("--weights", width) if width != "float32" else ()),
                   "-o", str(path), *(f"--input={i}" for i in inputs)])
    assert status == 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="110m", help="how many parameters")
    parser.add_argument("--weights", nargs="*", default=["float32"],
                        choices=WIDTHS["cellc"], help="widths of weights")
    parser.add_argument("--cache", nargs="*", default=["float32", "bfloat16"],
                        choices=WIDTHS["cellc"][:3], help="element types of cellc's cache")
    parser.add_argument("--batch", type=int, default=1, help="conversations at a time")
    parser.add_argument("--peers", nargs="*", default=list(PEERS)[1:], choices=list(PEERS)[1:])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--depth", type=int, default=0, help="other than that of the size")
    parser.add_argument("--folder", type=Path, help="where models are kept for the next run")
    parser.add_argument("--prepare", action="store_true", help="write models, measure nothing")
    for name in ("--work", "--name"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.folder, options.name, options.batch)
    elif options.folder:
        options.folder.mkdir(exist_ok=True, parents=True)
        measure(options.folder, options)
    else:
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name), options)


def started(folder: Path, options: argparse.Namespace) -> dict[str, Process]:
    """The peers that are there, by their names in the table."""
    others = os.environ.get("CELLC_PEERS_PYTHON")
    pythons = {"cellc": sys.executable, "llama.cpp": os.environ.get("CELLC_LLAMA_PYTHON")}
    found: dict[str, Process] = {}
    for width in options.weights:
        for peer in ("cellc", *options.peers):
            python = pythons.get(peer, others)
            if python is None or width not in WIDTHS[peer]:
                continue
            names = {f"{peer} {width}": width}
            if peer == "cellc":
                names = {f"cellc {width}, cache {c}": artifact_name(width, c)
                         for c in options.cache}
            for label, name in names.items():
                made = Process(peer, python, folder, name, options.batch)
                if made.ready():
                    found[label] = made
    return found


def measure(folder: Path, options: argparse.Namespace) -> None:
    """All peers in turn."""
    import peaks

    config = config_for(options.size, options.depth)
    if not (folder / "model.safetensors").exists():
        write_model(folder, config)
    if json.loads((folder / "config.json").read_text()) != config:
        raise ValueError(f"{folder} has another model")
    for width in options.weights:
        for cache in options.cache:
            compile_model(folder, width, cache, options.batch)
    peers = started(folder, options)
    try:
        first = next(iter(peers))
        made = {label: p.ask(tokens=8) for label, p in peers.items()}
        for label, tokens in made.items():
            same = sum(a == b for a, b in zip(tokens, made[first], strict=True))
            print(f"{label}: {same} of {len(tokens)} tokens as {first}")
        if options.prepare:
            return
        times: dict[tuple[int, str], list[tuple[float, float]]] = {}
        for _ in range(options.rounds + 1):
            for length in LENGTHS:
                for label, p in peers.items():
                    times.setdefault((length, label), []).append(p.ask(length=length))
        show(folder, config, options, times, peaks.measure(THREADS)[str(THREADS)]["read"])
    finally:
        for p in peers.values():
            p.end()


def show(
    folder: Path, config: dict[str, Any], options: argparse.Namespace,
    times: dict[tuple[int, str], list[tuple[float, float]]], speed: float,
) -> None:
    """The tables of prompts and of tokens, a row for each peer, and the share of the bandwidth."""
    labels = list(dict.fromkeys(label for _, label in times))
    print(f"\n{options.size}, batch {options.batch}, {THREADS} threads, {speed:.1f} GB/s read; "
          "ms (ratio to the fastest cellc of the width), share of the read bandwidth")
    for part, title in enumerate(("prompt of", "token after")):
        print(f"\n| {title} | " + " | ".join(map(str, LENGTHS)) + " |\n|---|" + "---|" * len(
            LENGTHS))
        ms = {key: 1e3 * statistics.median(t[part] for t in each[1:])
              for key, each in times.items()}
        for label in labels:
            width = label.split(",")[0].split()[-1]
            cells = []
            for n in LENGTHS:
                best = min(t for (m, other), t in ms.items() if m == n
                           and other.startswith(f"cellc {width}"))
                cell = f"{ms[n, label]:.1f}"
                if label.startswith("cellc"):
                    share = token_bytes(folder, config, options.batch, label, n) \
                        / ms[n, label] / 1e6 / speed
                    cell += f", {share:.2f}" if part else ""
                else:
                    cell += f" ({ms[n, label] / best:.2f})"
                cells.append(cell)
            print(f"| {label} | " + " | ".join(cells) + " |")


def token_bytes(
    folder: Path, config: dict[str, Any], batch: int, label: str, length: int
) -> float:
    """Bytes of weights and cache that cellc reads for one token of each conversation."""
    import cellc_runtime

    width, cache = label.removeprefix("cellc ").split(", cache ")
    net = cellc_runtime.load(folder / f"{artifact_name(width, cache)}-{batch}.cellc")
    held = {n: a for n, a in net.weights.items() if not n.endswith(("angles", "cos", "sin"))}
    caches = [a for n, a in held.items() if n.endswith((".keys", ".values"))]
    weights = sum(a.nbytes for n, a in held.items() if not n.endswith((".keys", ".values"))
                  and (config["tie_word_embeddings"] or not n.startswith("embedding")))
    places = config["max_position_embeddings"]
    return weights + sum(a.nbytes for a in caches) * (length + TOKENS / 2) / places


if __name__ == "__main__":
    main()
