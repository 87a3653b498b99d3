"""A Llama of 110 million parameters beside torch and llama.cpp: prompts, and token by token.

    CELLC_PEERS_PYTHON=~/peers/bin/python CELLC_LLAMA_PYTHON=~/llama/bin/python \
        python tests/benchmarks/bench_llama.py [--rounds N] [--depth N] [--weights W ...]

`CELLC_PEERS_PYTHON` has torch and transformers, `CELLC_LLAMA_PYTHON` llama-cpp-python and gguf;
those that are not named are left out. All read one folder with random weights, have two threads,
and take turns. They must give the same tokens for a prompt. With `--weights`, llama.cpp has the
weights in its own form of as many bits, too: Q8_0 (8.5 bits in fact), Q4_0 (4.5), BF16. Prints
milliseconds, ratios, and which part of the machine's read bandwidth the weights and the cache of
one token take.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "samples"
THREADS = 2
PROMPTS = (32, 128, 512)
PLACES = (64, 256, 960)
TOKENS = 16
"""Tokens that are made for one measurement."""
PAUSE = 0.2
"""Seconds between peers, in which the threads of the last one fall asleep."""
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000,
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "num_key_value_heads": 12, "intermediate_size": 2048, "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "torch_dtype": "float32",
    "tie_word_embeddings": True,
}
REST = (("temperature", 0.0, "float32"), ("top_k", 1, "int32"), ("top_p", 1.0, "float32"),
        ("draw", 0.0, "float32"))


# --- peers: `prompt` takes tokens after none, `token` one after the others ------------------------

class Cellc:
    """An artifact, by the runtime alone."""

    def __init__(self, folder: Path, name: str) -> None:
        import numpy as np

        import cellc_runtime

        self.np = np
        self.net = cellc_runtime.load(folder / f"{name}.cellc", trust_native_code=True)
        self.rest = [np.dtype(kind).type(value) for _, value, kind in REST]
        self.end = 0

    def prompt(self, tokens: Sequence[int]) -> int:
        self.end = 0
        return self.call("prompt", tokens)

    def token(self, token: int) -> int:
        return self.call("decode", [token])

    def call(self, entry: str, tokens: Sequence[int]) -> int:
        self.end += len(tokens)
        places = self.np.arange(self.end, dtype=self.np.int32)
        given = self.np.asarray([tokens], self.np.int32)
        return int(self.net.call(entry, given, places, *self.rest)[0])


class Torch:
    """transformers in eager mode, with its growing cache."""

    def __init__(self, folder: Path, name: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, DynamicCache

        torch.set_num_threads(THREADS)
        torch.set_grad_enabled(False)
        self.torch, self.fresh = torch, DynamicCache
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def prompt(self, tokens: Sequence[int]) -> int:
        self.cache = self.fresh()
        return self.call(tokens)

    def token(self, token: int) -> int:
        return self.call([token])

    def call(self, tokens: Sequence[int]) -> int:
        out = self.model(self.torch.tensor([tokens]), past_key_values=self.cache, use_cache=True,
                         logits_to_keep=1)
        return int(out.logits[0, -1].argmax())


class LlamaCpp:
    """llama.cpp, from a GGUF file with the same weights."""

    def __init__(self, folder: Path, name: str) -> None:
        import llama_cpp

        path = folder / f"{name}.gguf"
        if not path.exists():
            write_gguf(folder, path, FORMS.get(name, "F32"))
        self.model = llama_cpp.Llama(str(path), n_ctx=CONFIG["max_position_embeddings"],
                                     n_batch=512, n_threads=THREADS, n_threads_batch=THREADS,
                                     verbose=False)

    def prompt(self, tokens: Sequence[int]) -> int:
        self.model.reset()
        return self.call(tokens)

    def token(self, token: int) -> int:
        return self.call([token])

    def call(self, tokens: Sequence[int]) -> int:
        import numpy as np

        self.model.eval(list(tokens))
        logits = self.model._ctx.get_logits()
        return int(np.ctypeslib.as_array(logits, shape=(CONFIG["vocab_size"],)).argmax())


FORMS = {"int8": "Q8_0", "int4": "Q4_0", "bfloat16": "BF16", "float16": "F16"}
"""What llama.cpp calls matrices of as many bits."""


def write_gguf(folder: Path, path: Path, form: str) -> None:
    """The weights of the folder as llama.cpp reads them: pairs of a head lie side by side there."""
    import gguf
    import numpy as np

    c = json.loads((folder / "config.json").read_text())
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(c["hidden_size"])
    out.add_block_count(c["num_hidden_layers"])
    out.add_feed_forward_length(c["intermediate_size"])
    out.add_head_count(c["num_attention_heads"])
    out.add_head_count_kv(c["num_key_value_heads"])
    out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    out.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"])
    out.add_rope_freq_base(c["rope_theta"])
    out.add_vocab_size(c["vocab_size"])
    out.add_tokenizer_model("no_vocab")
    out.add_file_type(0)
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    for name, value in np.load(folder / "weights.npz").items():
        if name == "model.embed_tokens.weight":
            made = "token_embd.weight"
        elif name == "model.norm.weight":
            made = "output_norm.weight"
        else:
            _, _, layer, part = name.removesuffix(".weight").split(".", 3)
            made = f"blk.{layer}.{names[part]}.weight"
            if part.endswith(("q_proj", "k_proj")):
                heads = c["num_attention_heads"]
                value = value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2)
                value = np.ascontiguousarray(value.reshape(-1, value.shape[-1]))
        kind = gguf.GGMLQuantizationType[form if value.ndim > 1 else "F32"]
        out.add_tensor(made, gguf.quants.quantize(value, kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


PEERS = {"cellc": Cellc, "torch": Torch, "llama.cpp": LlamaCpp}


def work(peer: str, folder: Path, name: str) -> None:
    """A process that answers `{"prompt": T}` and `{"place": S}` with seconds, `{"tokens": n}` with
    the tokens that follow a prompt."""
    model: Any = PEERS[peer](folder, name)
    for line in sys.stdin:
        asked = json.loads(line)
        if "tokens" in asked:
            made = [model.prompt(list(range(5, 37)))]
            while len(made) < asked["tokens"]:
                made.append(model.token(made[-1]))
            print(json.dumps(made), flush=True)
            continue
        given = [i % 1000 + 1 for i in range(asked.get("prompt") or asked["place"])]
        start = time.perf_counter()
        token = model.prompt(given)
        if "place" in asked:
            start = time.perf_counter()
            for _ in range(TOKENS):
                token = model.token(token)
        seconds = time.perf_counter() - start
        print(json.dumps(seconds / (TOKENS if "place" in asked else 1)), flush=True)


# --- the measurement ------------------------------------------------------------------------------

class Process:
    """A peer in a process of its own."""

    def __init__(self, peer: str, python: str, folder: Path, name: str) -> None:
        self.process = subprocess.Popen(
            [python, str(Path(__file__)), "--work", peer, "--folder", str(folder), "--name", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(THREADS), "CELLC_THREADS": str(THREADS)})

    def ask(self, **what: int) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        time.sleep(PAUSE)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended")
        return json.loads(line)


def write_model(folder: Path, depth: int) -> int:
    """Random weights as Hugging Face's files, and for `write_gguf`; bytes that a token reads."""
    import numpy as np

    from cellc_runtime import checkpoint

    config = {**CONFIG, "num_hidden_layers": depth}
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(0)
    width, hidden = config["hidden_size"], config["intermediate_size"]
    weights = {"model.embed_tokens.weight": (config["vocab_size"], width)}
    for i in range(depth):
        layer = f"model.layers.{i}"
        weights |= {f"{layer}.self_attn.{p}_proj.weight": (width, width) for p in "qkvo"}
        weights |= {f"{layer}.mlp.{p}_proj.weight": (hidden, width) for p in ("gate", "up")}
        weights[f"{layer}.mlp.down_proj.weight"] = width, hidden
        weights |= {f"{layer}.{n}.weight": (width,)
                    for n in ("input_layernorm", "post_attention_layernorm")}
    weights["model.norm.weight"] = (width,)
    made = {n: (rng.normal(size=s) * 0.05 + (len(s) == 1)).astype(np.float32)
            for n, s in weights.items()}
    checkpoint.save(folder / "model.safetensors", made)
    np.savez(folder / "weights.npz", **made)
    return sum(a.nbytes for a in made.values())


def compile_model(folder: Path, name: str, options: Sequence[str]) -> None:
    """The artifact, by the command of `samples/llama.py`."""
    from cellc.cli import main

    inputs = ["prompt.tokens=int32[1,T]", "decode.tokens=int32[1,1]",
              *(f"{e}.places=int32[S]" for e in ("prompt", "decode")),
              *(f"{n}={kind}[]" for n, _, kind in REST)]
    status = main(["compile", f"{SAMPLES / 'llama.py'}:pretrained({str(folder)!r})", "--no-graph",
                   "--entry", "prompt=choose", "--entry", "decode=choose", *options,
                   "-o", str(folder / f"{name}.cellc"), *(f"--input={i}" for i in inputs)])
    assert status == 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depth", type=int, default=CONFIG["num_hidden_layers"])
    parser.add_argument("--weights", nargs="*", default=[],
                        help="further models, with small weights: int8, int4, bfloat16")
    for name in ("--work", "--folder", "--name"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, Path(options.folder), options.name)
        return
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    """All peers in turn."""
    import peaks

    nbytes = write_model(folder, options.depth)
    compile_model(folder, "model", ())
    pythons = {"cellc": sys.executable, "torch": os.environ.get("CELLC_PEERS_PYTHON"),
               "llama.cpp": os.environ.get("CELLC_LLAMA_PYTHON")}
    found = {peer: Process(peer, python, folder, "model") for peer, python in pythons.items()
             if python}
    for kind in options.weights:
        compile_model(folder, kind, ("--weights", kind))
        found |= {f"{peer} {kind}": Process(peer, python, folder, kind)
                  for peer, python in pythons.items() if python and peer != "torch"}
    made = {peer: p.ask(tokens=8) for peer, p in found.items()}
    for peer, tokens in made.items():
        same = sum(a == b for a, b in zip(tokens, made["cellc"], strict=True))
        print(f"{peer}: {same} of {len(tokens)} tokens as cellc's in float32")
    rows = [{"prompt": n} for n in PROMPTS] + [{"place": n} for n in PLACES]
    times: dict[tuple[int, str], list[float]] = {}
    for _ in range(options.rounds + 1):
        for i, row in enumerate(rows):
            for peer, p in found.items():
                times.setdefault((i, peer), []).append(p.ask(**row))
    speed = peaks.measure(THREADS)[str(THREADS)]["read"]
    print(f"\n{nbytes / 1e6:.0f} MB of weights, {speed:.1f} GB/s read")
    print("|  | " + " | ".join(found) + " | bandwidth |\n|---|" + "---|" * (len(found) + 1))
    cache = 8 * options.depth * CONFIG["hidden_size"]
    for i, row in enumerate(rows):
        ((kind, n),) = row.items()
        ms = {peer: 1e3 * statistics.median(times[i, peer][1:]) for peer in found}
        part = "" if kind == "prompt" else \
            f"{(nbytes + n * cache) / ms['cellc'] / 1e6 / speed:.2f}"
        cells = [f"{t:.1f}" + ("" if p == "cellc" else f" ({t / ms['cellc']:.2f})")
                 for p, t in ms.items()]
        label = f"prompt of {n}" if kind == "prompt" else f"token after {n}"
        print(f"| {label}, ms | " + " | ".join(cells) + f" | {part} |")
    for p in found.values():
        p.process.kill()


if __name__ == "__main__":
    main()
