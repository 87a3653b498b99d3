"""`samples/llama.py`: weights of Hugging Face's files, the cache, generation, artifacts.

The judges are a decoder in float64 that shares no code with the sample, and `transformers`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc.cli import main as cellc
from cellc_runtime import checkpoint

from ..others import PEERS, answer
from ..others import run as run_program
from .networks import SAMPLES, load

llama = load("llama")
Array = np.ndarray[Any, Any]

BASE: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 56,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "hidden_act": "silu", "tie_word_embeddings": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama3": {"rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "mistral": {"model_type": "mistral", "head_dim": 12, "sliding_window": None},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True, "use_sliding_window": False},
    "qwen3": {"model_type": "qwen3", "head_dim": 16, "num_key_value_heads": 4},
}
TOLERANCE = 1e-5
"""Of logits, relative to the largest."""
CACHES = {"bfloat16": 3e-2, "float16": 4e-3}
"""The tolerance of caches in 16 bits."""


@dataclass
class Model:
    """A folder as Hugging Face has them, with random weights."""

    folder: Path
    config: dict[str, Any]
    weights: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, name: str, parts: int = 1) -> Model:
        """Write the files of one of `MODELS`."""
        model = cls(folder, {**BASE, **MODELS[name]})
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(model.config))
        rng = np.random.default_rng(len(name))
        for key, shape in model.shapes().items():
            near = 1.0 if key.endswith("norm.weight") else 0.0
            model.weights[key] = (near + rng.normal(size=shape) * 0.2).astype(np.float32)
        model.write(parts)
        return model

    @property
    def head(self) -> int:
        """Width of a head."""
        return int(self.config.get("head_dim")
                   or self.config["hidden_size"] // self.config["num_attention_heads"])

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights by name."""
        c, kind = self.config, self.config["model_type"]
        width, hidden = c["hidden_size"], c["intermediate_size"]
        q, kv = c["num_attention_heads"] * self.head, c["num_key_value_heads"] * self.head
        out: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c["vocab_size"], width),
                                           "model.norm.weight": (width,)}
        if not c["tie_word_embeddings"]:
            out["lm_head.weight"] = c["vocab_size"], width
        for i in range(c["num_hidden_layers"]):
            for part, rows in (("q", q), ("k", kv), ("v", kv)):
                out[f"model.layers.{i}.self_attn.{part}_proj.weight"] = rows, width
                if kind == "qwen2":
                    out[f"model.layers.{i}.self_attn.{part}_proj.bias"] = (rows,)
                if kind == "qwen3" and part != "v":
                    out[f"model.layers.{i}.self_attn.{part}_norm.weight"] = (self.head,)
            out[f"model.layers.{i}.self_attn.o_proj.weight"] = width, q
            for part, shape in (("gate", (hidden, width)), ("up", (hidden, width)),
                                ("down", (width, hidden))):
                out[f"model.layers.{i}.mlp.{part}_proj.weight"] = shape
            for norm in ("input_layernorm", "post_attention_layernorm"):
                out[f"model.layers.{i}.{norm}.weight"] = (width,)
        return out

    def write(self, parts: int = 1) -> None:
        """Write the weights, in one file or several with an index."""
        if parts == 1:
            checkpoint.save(self.folder / "model.safetensors", self.weights)
            return
        names = sorted(self.weights)
        files = {n: f"model-{i % parts}.safetensors" for i, n in enumerate(names)}
        for file in set(files.values()):
            checkpoint.save(self.folder / file,
                            {n: self.weights[n] for n in names if files[n] == file})
        (self.folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": files}))

    def logits(self, tokens: Array) -> Array:
        """What the model gives in float64, from its formulas, for one conversation (T,)."""
        c, w = self.config, {k: v.astype(np.float64) for k, v in self.weights.items()}
        length, head = len(tokens), self.head
        turns = self._turns()
        turn = np.exp(1j * np.outer(np.arange(length), turns))[:, None]

        def norm(x: Array, weight: Array) -> Array:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * weight

        def heads(x: Array, at: str, part: str) -> Array:
            y = x @ w[f"{at}.{part}_proj.weight"].T + w.get(f"{at}.{part}_proj.bias", 0.0)
            return y.reshape(length, -1, head)

        def placed(x: Array, weight: Array | None) -> Array:
            x = x if weight is None else norm(x, weight)
            z = (x[..., :head // 2] + 1j * x[..., head // 2:]) * turn
            return np.concatenate([z.real, z.imag], -1)

        x = w["model.embed_tokens.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}"
            at = f"{layer}.self_attn"
            y = norm(x, w[f"{layer}.input_layernorm.weight"])
            q = placed(heads(y, at, "q"), w.get(f"{at}.q_norm.weight"))
            k = placed(heads(y, at, "k"), w.get(f"{at}.k_norm.weight"))
            v = heads(y, at, "v")
            group = q.shape[1] // k.shape[1]
            scores = np.einsum("thd,shd->hts", q, k.repeat(group, 1)) / np.sqrt(head)
            scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
            p = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = np.einsum("hts,shd->thd", p / p.sum(-1, keepdims=True), v.repeat(group, 1))
            x = x + mixed.reshape(length, -1) @ w[f"{at}.o_proj.weight"].T
            y = norm(x, w[f"{layer}.post_attention_layernorm.weight"])
            gate = y @ w[f"{layer}.mlp.gate_proj.weight"].T
            up = y @ w[f"{layer}.mlp.up_proj.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{layer}.mlp.down_proj.weight"].T
        out = w.get("lm_head.weight", w["model.embed_tokens.weight"])
        return norm(x, w["model.norm.weight"]) @ out.T

    def _turns(self) -> Array:
        turns = np.asarray([self.config["rope_theta"] ** (-2 * i / self.head)
                            for i in range(self.head // 2)])
        scaling = self.config.get("rope_scaling")
        if scaling is None:
            return turns
        if scaling["rope_type"] == "linear":
            return turns / scaling["factor"]
        out = []
        for turn in turns:
            wave = 2 * np.pi / turn
            longest = scaling["original_max_position_embeddings"]
            if wave < longest / scaling["high_freq_factor"]:
                out.append(turn)
            elif wave > longest / scaling["low_freq_factor"]:
                out.append(turn / scaling["factor"])
            else:
                share = ((longest / wave - scaling["low_freq_factor"])
                         / (scaling["high_freq_factor"] - scaling["low_freq_factor"]))
                out.append((1 - share) * turn / scaling["factor"] + share * turn)
        return np.asarray(out)


def tokens_of(count: int, n: int = 1) -> Array:
    """Random tokens, (N, T)."""
    return np.random.default_rng(count).integers(0, 96, (n, count)).astype(np.int32)


def answers(net: Any, tokens: Array, parts: list[int]) -> list[Array]:
    """The logits of calls that take the tokens in parts."""
    out, at = [], 0
    for part in parts:
        given = tokens[:, at:at + part]
        at += part
        out.append(net(ms.Tensor(given), ms.Tensor(np.arange(at, dtype=np.int32))).asnumpy())
    return out


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_formulas(name: str, tmp_path: Path) -> None:
    """A prompt, more tokens, and one by one, in both modes to the bit."""
    model = Model.make(tmp_path / "model", name, parts=3 if name == "qwen3" else 1)
    tokens = tokens_of(24)
    want = model.logits(tokens[0])
    parts = [9, 6, 1, 1, 1, 1, 5]
    given = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        given.append(answers(llama.pretrained(str(model.folder)), tokens, parts))
    for compiled, eager in zip(*given, strict=True):
        np.testing.assert_array_equal(compiled, eager)
    got = np.concatenate(given[0], 1)[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * np.abs(want).max())


@pytest.mark.parametrize(("cache", "name"), [
    ("bfloat16", "llama"), ("float16", "qwen3"), ("bfloat16", "mistral")])
def test_a_cache_of_16_bits_gives_nearly_the_same(cache: str, name: str, tmp_path: Path) -> None:
    """Equal bits in both modes; the distance to float64 is that of the rounded keys and values."""
    model = Model.make(tmp_path / "model", name)
    tokens, parts = tokens_of(40, 2), [9, 1, 1, 1, 6, 1, 1, 2, 1, 17]
    given = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        net = llama.pretrained(str(model.folder), batch=2, cache=cache)
        assert all(p.dtype == getattr(ms, cache) for p in net.get_parameters()
                   if p.name.endswith((".keys", ".values")))
        given.append(answers(net, tokens, parts))
    for compiled, eager in zip(*given, strict=True):
        np.testing.assert_array_equal(compiled, eager)
    got = np.concatenate(given[0], 1)
    want = np.stack([model.logits(row) for row in tokens])
    error = np.abs(got - want).max() / np.abs(want).max()
    assert TOLERANCE < error < CACHES[cache], error


def test_products_read_16_bits_where_they_lie(tmp_path: Path) -> None:
    """One token after any number: no nest widens the cache or moves it, and a row is written in
    place. The loops over all tokens are those of the softmax."""
    source = tmp_path / "llama.py"
    source.write_text((SAMPLES / "llama.py").read_text() + """

def small():
    return Llama(Config(cache="bfloat16", depth=1, context=96)).set_train(False)
""")
    assert cellc(["dump", f"{source}:small()", "--input", "tokens=int32[1,1]", "--input",
                  "places=int32[S]", "-o", str(tmp_path / "dump")]) == 0
    graph = next((tmp_path / "dump").glob("*matmul-prefixes.txt")).read_text()
    assert len(re.findall(r"float32\S* = matmul_prefix\(", graph)) == 2
    nests = (tmp_path / "dump/nests.txt").read_text().split("\n\n")
    over_all = [n.splitlines()[0] for n in nests if re.search(r"<(S|96|[0-9*]*\*S)\)", n)]
    assert over_all == ["where+reduce_max+normal_exp+reduce_sum+div"]
    written = [n for n in nests if "update_slice" in n.splitlines()[0]]
    assert len(written) == 2 and all(re.search(r"\+16\*S-16\] = ", n) for n in written)


PROGRAM = """
import json, sys
import numpy as np, torch
from transformers import AutoConfig, AutoModelForCausalLM
torch.manual_seed(0)
config = AutoConfig.for_model(**json.loads(sys.argv[1]))
config.torch_dtype = "float32"
model = AutoModelForCausalLM.from_config(config).eval()
for p in model.parameters():
    torch.nn.init.normal_(p, 1.0 if p.ndim == 1 else 0.0, 0.2)
model.save_pretrained(sys.argv[2])
with torch.no_grad():
    out = model(torch.tensor(np.load(sys.argv[3]).astype(np.int64))).logits
np.save(sys.argv[4], out.numpy())
print(json.dumps("done"))
"""


@pytest.mark.skipif(not PEERS, reason="CELLC_PEERS_PYTHON is not set")
@pytest.mark.parametrize("name", MODELS)
def test_transformers_gives_the_same(name: str, tmp_path: Path) -> None:
    """Files that `transformers` writes, and its logits."""
    tokens = tokens_of(24, 2)
    np.save(tmp_path / "tokens.npy", tokens)
    config = {k: v for k, v in {**BASE, **MODELS[name]}.items() if v is not None}
    answer(run_program(PEERS, PROGRAM, [json.dumps(config), tmp_path / "model",
                                        tmp_path / "tokens.npy", tmp_path / "logits.npy"]))
    ms.set_context(mode=ms.GRAPH_MODE)
    got = answers(llama.pretrained(str(tmp_path / "model"), batch=2), tokens, [20, 1, 3])
    want = np.load(tmp_path / "logits.npy")
    np.testing.assert_allclose(np.concatenate(got, 1), want, rtol=0,
                               atol=TOLERANCE * np.abs(want).max())


@pytest.mark.parametrize(("batch", "cache"), [(1, "float32"), (4, "bfloat16")])
def test_an_artifact_continues_as_both_modes_do(batch: int, cache: str, tmp_path: Path) -> None:
    """Two entries, one cache; no size has a program of its own."""
    model = Model.make(tmp_path / "model", "llama")
    call = f"pretrained({str(model.folder)!r}, batch={batch}, cache={cache!r})"
    options = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 5}
    made = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        net = llama.pretrained(str(model.folder), batch=batch, cache=cache)
        made.append(np.stack(list(llama.generate(
            llama.calls(net), tokens_of(7, batch), 20, **options))))
    path = tmp_path / "llama.cellc"
    inputs = [f"prompt.tokens=int32[{batch},T]", "prompt.places=int32[S]",
              f"decode.tokens=int32[{batch},1]", "decode.places=int32[S]", "temperature=float32[]",
              "top_k=int32[]", "top_p=float32[]", "draw=float32[]"]
    assert cellc(["compile", f"{SAMPLES / 'llama.py'}:{call}",
                  "--entry", "prompt=choose", "--entry", "decode=choose", "-o", str(path),
                  *(f"--input={i}" for i in inputs)]) == 0
    net = cellc_runtime.load(path, trust_native_code=True)

    def step(tokens: Array, *rest: Any) -> Array:
        entry = "decode" if tokens.shape[1] == 1 else "prompt"
        return np.asarray(net.call(entry, tokens, *rest))

    made.append(np.stack(list(llama.generate(step, tokens_of(7, batch), 20, **options))))
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[0], made[2])
    assert len(np.unique(made[0])) > 3
    rest = [np.float32(0), np.int32(1), np.float32(1), np.float32(0)]
    with pytest.raises(ValueError, match="S = 65 must be from 2 to 64"):
        net.call("decode", np.ones((batch, 1), np.int32), np.arange(65, dtype=np.int32), *rest)
    with pytest.raises(IndexError, match=r"in \[-96, 96\), but got 96"):
        net.call("decode", np.full((batch, 1), 96, np.int32), np.arange(9, dtype=np.int32), *rest)


def test_draws_follow_their_probabilities() -> None:
    """Tokens are drawn as top-k, top-p and the temperature say; at 0 the best one is taken."""
    net = llama.Llama(llama.Config(vocabulary=16, depth=1)).set_train(False)
    given = ms.Tensor(np.array([[3]], np.int32)), ms.Tensor(np.zeros(1, np.int32))
    logits = net(*given).asnumpy()[0, 0].astype(np.float64) / 0.5

    def token(temperature: float, k: int, p: float, draw: float) -> int:
        rest = np.float32(temperature), np.int32(k), np.float32(p), np.float32(draw)
        return int(net.choose(*given, *map(ms.Tensor, rest)).asnumpy()[0])

    order = np.argsort(-logits)
    assert token(0.0, 16, 1.0, 0.99) == order[0]
    for k, p in ((16, 1.0), (5, 1.0), (16, 0.5), (1, 1.0)):
        share = np.exp(logits[order] - logits.max()) * (np.arange(16) < k)
        share /= share.sum()
        share[np.cumsum(share) - share >= p] = 0
        ends = np.cumsum(share / share.sum())
        for draw in (0.0, 0.2, 0.45, 0.7, 0.95, 0.999):
            want = order[np.searchsorted(ends, draw, "right")]
            assert token(0.5, k, p, draw) == want, (k, p, draw)


def bad(folder: Path, change: Any, word: str) -> str:
    """The message, which has this word, for a model that is changed before it is read."""
    model = Model.make(folder / "model", "llama")
    change(model)
    (model.folder / "config.json").write_text(json.dumps(model.config))
    model.write()
    with pytest.raises(ValueError, match=re.escape(word)) as caught:
        llama.pretrained(str(model.folder))
    return str(caught.value)


@pytest.mark.parametrize(("change", "words"), [
    (lambda m: m.config.update(model_type="gpt2"), ["'model_type'", "'gpt2'"]),
    (lambda m: m.config.update(hidden_act="gelu"), ["'hidden_act'", "'gelu'"]),
    (lambda m: m.config.update(rope_scaling={"rope_type": "yarn"}), ["'rope_type'", "'yarn'"]),
    (lambda m: m.config.update(mlp_bias=True), ["'mlp_bias'"]),
    (lambda m: m.config.update(vocab_size=95), ["(95, 32)", "embed_tokens.weight", "(96, 32)"]),
    (lambda m: m.config.update(intermediate_size=60), ["gate_proj.weight", "(56, 32)"]),
    (lambda m: m.config.update(num_hidden_layers=1), ["no place", "model.layers.1."]),
    (lambda m: m.weights.pop("model.norm.weight"), ["missing", "model.norm.weight"]),
    (lambda m: m.weights.update({"model.norm.weight": np.float32(1)}), ["norm.weight", "is ()"]),
    (lambda m: m.config.update(num_key_value_heads=4), ["(96, 32)", "k_proj.weight' is (16, 32)"]),
])
def test_files_that_do_not_fit_are_refused(change: Any, words: list[str], tmp_path: Path) -> None:
    text = bad(tmp_path, change, words[0])
    assert all(word in text for word in words), text


def test_an_index_cannot_leave_its_folder(tmp_path: Path) -> None:
    model = Model.make(tmp_path / "model", "llama", parts=2)
    index = model.folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    with pytest.raises(ValueError, match="must be a file of this folder"):
        llama.pretrained(str(model.folder))


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_calls_that_do_not_fit_the_cache_are_refused(mode: int) -> None:
    ms.set_context(mode=mode)
    net = llama.Llama(llama.Config(context=16, depth=1)).set_train(False)

    def call(n: int, new: int, end: int, token: int = 1) -> Any:
        return net(ms.Tensor(np.full((n, new), token, np.int32)),
                   ms.Tensor(np.arange(end, dtype=np.int32)))

    for end in (3, 4, 5, 16):
        call(1, 3 if end == 3 else 1, end)
    for given, words in (((1, 1, 17), "room for 16 tokens, but the new ones end with token 17"),
                         ((1, 20, 20), "room for 16 tokens, but the new ones end with token 20"),
                         ((2, 1, 6), "for 1 conversations at a time, but got 2"),
                         ((1, 3, 2), "3 new tokens need at least as many places, but got 2")):
        with pytest.raises(ValueError, match=words):
            call(*given)
    with pytest.raises(IndexError, match=r"in \[-256, 256\), but got 256"):
        call(1, 1, 6, 256)


def test_a_cache_has_a_type_that_attention_reads() -> None:
    with pytest.raises(ValueError, match=r"'cache' must be one of float32, .*, but got 'int8'"):
        llama.Config(cache="int8")


@pytest.mark.parametrize(("tokens", "options", "words"), [
    ([[1, 96, 2]], {}, ["token 96", "place 1", "prompt 0", "96 tokens"]),
    ([[-1]], {}, ["token -1", "place 0"]),
    ([[1] * 60], {}, ["60 tokens", "64"]),
    ([[]], {}, ["(1, 0)"]),
    ([[1]], {"top_k": 0}, ["top_k"]),
    ([[1]], {"top_p": 0.0}, ["top_p"]),
    ([[1]], {"temperature": float("nan")}, ["temperature"]),
])
def test_calls_that_make_no_sense_are_refused(
    tokens: Any, options: dict[str, Any], words: list[str]
) -> None:
    def step(*given: Any) -> Array:
        raise AssertionError("the model is called")

    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        list(llama.generate(step, tokens, 8, vocabulary=96, context=64, **options))
    assert all(word in str(caught.value) for word in words), str(caught.value)
