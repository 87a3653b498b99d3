"""Language models of the Llama family: Llama, Mistral, Qwen2 and Qwen3, from Hugging Face's files.

    python samples/llama.py MODEL_FOLDER --prompt "The sea is" --tokens 40 --temperature 0.7

The folder has `config.json`, `model.safetensors` (or its parts, with an index), and
`tokenizer.json`, which needs `pip install tokenizers`. An artifact with both entries:

    cellc compile 'samples/llama.py:pretrained("MODEL_FOLDER")' \
        --entry prompt=choose --entry decode=choose -o llama.cellc \
        --input 'prompt.tokens=int32[1,T]' --input 'prompt.places=int32[S]' \
        --input 'decode.tokens=int32[1,1]' --input 'decode.places=int32[S]' \
        --input 'temperature=float32[]' --input 'top_k=int32[]' --input 'top_p=float32[]' \
        --input 'draw=float32[]'
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import nn, ops
from cellc_runtime import checkpoint

CACHES = ("float32", "bfloat16", "float16")
CANDIDATES = 64
"""The most probable tokens, among which one is drawn: the largest `top_k`."""


@dataclass(frozen=True)
class Config:
    """The sizes of a model. `Config.read` takes them from a `config.json`.

    Args:
        vocabulary: number of tokens.
        width: of the model.
        depth: number of blocks.
        heads, kv_heads: of queries, and of keys and values, which divides `heads`.
        head: width of a head.
        hidden: width of the gated network.
        context: the most tokens of a conversation, for which the cache has room.
        batch: conversations at a time, of equal length.
        epsilon: of the norms.
        theta: base of the rotary angles.
        scaling: how they are scaled, as `rope_scaling` of a `config.json`; None: not.
        tied: the table of the tokens is the matrix of the last layer, too.
        bias: queries, keys and values have biases (Qwen2).
        head_norm: queries and keys are normalised in each head (Qwen3).
        cache: element type of the cached keys and values: "float32", or "bfloat16" or "float16"
            for half of the memory and of the time to read it. Attention computes in float32.
    """

    vocabulary: int = 256
    width: int = 64
    depth: int = 2
    heads: int = 4
    kv_heads: int = 2
    head: int = 16
    hidden: int = 176
    context: int = 256
    batch: int = 1
    epsilon: float = 1e-5
    theta: float = 10000.0
    scaling: dict[str, Any] | None = None
    tied: bool = False
    bias: bool = False
    head_norm: bool = False
    cache: str = "float32"

    def __post_init__(self) -> None:
        if self.cache not in CACHES:
            raise ValueError(f"'cache' must be one of {', '.join(CACHES)}, but got {self.cache!r}")

    @classmethod
    def read(
        cls, path: str | Path, context: int = 0, batch: int = 1, cache: str = "float32"
    ) -> Config:
        """The sizes in a `config.json`.

        Args:
            context: tokens for which the cache has room; 0: as many as the model is made for,
                at most 4,096.
            batch, cache: see the class.

        Raises:
            ValueError: it is no model of this family, or it has a part that is not here.
        """
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
        kind = raw.get("model_type")
        if kind not in ("llama", "mistral", "qwen2", "qwen3"):
            raise ValueError(f"{path}: 'model_type' must be llama, mistral, qwen2 or qwen3, "
                             f"but got {kind!r}")
        rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
        rope_type = rope.get("rope_type", rope.get("type", "default"))
        if rope_type not in ("default", "linear", "llama3"):
            raise ValueError(f"{path}: 'rope_type' must be default, linear or llama3, but got "
                             f"{rope_type!r}")
        if raw.get("hidden_act", "silu") != "silu":
            raise ValueError(f"{path}: 'hidden_act' must be silu, but got {raw['hidden_act']!r}")
        if raw.get("mlp_bias") or (kind == "llama" and raw.get("attention_bias")):
            raise ValueError(f"{path}: 'mlp_bias' and 'attention_bias' must be false")
        longest = raw.get("max_position_embeddings", 2048)
        windowed = raw.get("use_sliding_window", kind == "mistral")
        window = raw.get("sliding_window") if windowed else 0
        context = context or min(longest, window or longest, 4096)
        if window and context > window:
            raise ValueError(f"{path}: attention has a window of {window} tokens, so 'context' "
                             f"must be at most {window}, but got {context}")
        heads = raw["num_attention_heads"]
        return cls(
            raw["vocab_size"], raw["hidden_size"], raw["num_hidden_layers"], heads,
            raw.get("num_key_value_heads") or heads,
            raw.get("head_dim") or raw["hidden_size"] // heads, raw["intermediate_size"],
            context, batch, raw.get("rms_norm_eps", 1e-6),
            rope.get("rope_theta", raw.get("rope_theta", 10000.0)),
            rope if rope_type != "default" else None, raw.get("tie_word_embeddings", False),
            kind == "qwen2", kind == "qwen3", cache)

    def angles(self) -> np.ndarray[Any, Any]:
        """The rotary angle of each place and pair of a head: (context, head / 2)."""
        turns = self.theta ** (-np.arange(0, self.head, 2, dtype=np.float64) / self.head)
        rope = self.scaling or {}
        if rope.get("rope_type", rope.get("type")) == "linear":
            turns /= rope["factor"]
        elif rope:  # llama3: long waves are stretched, short ones kept, those between mixed
            longest = rope["original_max_position_embeddings"]
            low, high = rope["low_freq_factor"], rope["high_freq_factor"]
            share = np.clip((longest * turns / (2 * np.pi) - low) / (high - low), 0, 1)
            turns = share * turns + (1 - share) * turns / rope["factor"]
        return np.outer(np.arange(self.context), turns)


class RMSNorm(nn.Cell):
    """Rows of a mean square of 1, each column times a weight: (..., width) to the same."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = ms.Parameter(np.ones(width, np.float32), name="weight")
        self.epsilon = epsilon

    def construct(self, x):
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + self.epsilon) * self.weight


class Attention(nn.Cell):
    """Causal attention over the tokens in the cache and the new ones: (N, T, width) to the same.

    Queries, keys and values come from one matrix, which is read once.
    """

    def __init__(self, config):
        super().__init__()
        self.head, self.kv_heads = config.head, config.kv_heads
        self.heads = config.heads
        self.qkv = nn.Dense(config.width, (config.heads + 2 * config.kv_heads) * config.head,
                            has_bias=config.bias)
        self.out = nn.Dense(config.heads * config.head, config.width, has_bias=False)
        self.query_norm, self.key_norm = (
            RMSNorm(config.head, config.epsilon) if config.head_norm else None for _ in range(2))
        self.cache = getattr(ms, config.cache)
        shape = (config.batch, config.kv_heads, config.context, config.head)
        self.keys, self.values = (
            ms.Parameter(ops.zeros(shape, self.cache), name=name, requires_grad=False)
            for name in ("keys", "values"))

    def construct(self, x, cos, sin, seen):
        n, t, _ = x.shape
        end = seen.shape[1]
        heads = self.qkv(x).reshape(n, t, -1, self.head).swapaxes(1, 2)
        q, k, v = ops.split(heads, [self.heads, self.kv_heads, self.kv_heads], 1)
        if self.query_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.keys[:, :, end - t:end] = k.astype(self.cache)
        self.values[:, :, end - t:end] = v.astype(self.cache)
        q = q.reshape(n, self.kv_heads, -1, t, self.head)
        keys, values = (cache[:, :, :end].astype(ms.float32).expand_dims(2)
                        for cache in (self.keys, self.values))
        scores = ops.matmul(q, keys.swapaxes(-1, -2)) * self.head ** -0.5
        weights = ops.softmax(ops.where(seen, scores, float("-inf")), -1)
        mixed = ops.matmul(weights, values)
        return self.out(mixed.reshape(n, -1, t, self.head).swapaxes(1, 2).reshape(n, t, -1))


def rotate(x, cos, sin):
    """Turn the pairs of each head, (N, heads, T, head), by the angles of its place."""
    a, b = ops.chunk(x, 2, -1)
    return ops.concat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Cell):
    """Attention and a gated two-layer network, each added to its input."""

    def __init__(self, config):
        super().__init__()
        self.norm1 = RMSNorm(config.width, config.epsilon)
        self.attention = Attention(config)
        self.norm2 = RMSNorm(config.width, config.epsilon)
        self.gate_up = nn.Dense(config.width, 2 * config.hidden, has_bias=False)
        self.down = nn.Dense(config.hidden, config.width, has_bias=False)

    def construct(self, x, cos, sin, seen):
        x = x + self.attention(self.norm1(x), cos, sin, seen)
        gate, up = ops.chunk(self.gate_up(self.norm2(x)), 2, -1)
        return x + self.down(ops.silu(gate) * up)


class Llama(nn.Cell):
    """A decoder with a cache of the keys and values of all tokens so far.

    A call takes the new tokens, int32 (N, T), and the places in the conversation of all tokens up
    to these, int32 (S,): `arange(S)`. The last T places are those of the new tokens. So one program
    serves prompts and single tokens after any number of others.
    """

    def __init__(self, config=None):
        super().__init__()
        self.config = config = config or Config()
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.CellList([Block(config) for _ in range(config.depth)])
        self.norm = RMSNorm(config.width, config.epsilon)
        self.head = nn.Dense(config.width, config.vocabulary, has_bias=False)
        if config.tied:
            self.head.weight = self.embedding.embedding_table
        angles = config.angles()
        self.cos = ms.Tensor(np.cos(angles).astype(np.float32))
        self.sin = ms.Tensor(np.sin(angles).astype(np.float32))

    def features(self, tokens, places):
        """What the last block gives for the new tokens: (N, T, width).

        Raises:
            ValueError: the cache has no room for them, or is for another number of conversations.
        """
        self.check_sizes(*tokens.shape, places.shape[0])
        new = places[places.shape[0] - tokens.shape[1]:]
        cos, sin = self.cos[new], self.sin[new]
        seen = places <= new.expand_dims(1)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cos, sin, seen)
        return self.norm(x)

    def check_sizes(self, n, new, end):
        """Whether the cache takes `new` tokens that end at place `end - 1` of n conversations."""
        c = self.config
        if end > c.context:
            raise ValueError(f"the cache is full: it has room for {c.context} tokens, but the new "
                             f"ones end with token {end}")
        if n != c.batch:
            raise ValueError(f"the cache is for {c.batch} conversations at a time, but got {n}")
        if new > end:
            raise ValueError(f"{new} new tokens need at least as many places, but got {end}")

    def construct(self, tokens, places):
        """Logits of the token after each new one: (N, T, vocabulary)."""
        return self.head(self.features(tokens, places))

    def choose(self, tokens, places, temperature, top_k, top_p, draw):
        """The token after the last one, int32 (N,).

        Args:
            tokens, places: see the class.
            temperature: float32 (); logits are divided by it. 0: the most probable token.
            top_k: int32 (); among how many of the most probable tokens it is drawn, at most 64.
            top_p: float32 (); among the fewest tokens whose probabilities come to this.
            draw: float32 (); a number in [0, 1), which decides.
        """
        logits = self.head(self.features(tokens, places)[:, -1])
        logits, candidates = ops.topk(logits, min(CANDIDATES, self.config.vocabulary))
        scaled = logits / ops.maximum(temperature, 1e-6)
        rank = ops.arange(candidates.shape[1])
        p = ops.softmax(ops.where(rank < top_k, scaled, float("-inf")), -1)
        p = ops.where(ops.cumsum(p, -1) - p < top_p, p, 0.0)
        reached = ops.cumsum(p, -1)
        index = (reached <= draw * reached[:, -1:]).astype(ms.int32).sum(-1, keepdims=True)
        index = ops.where(temperature > 0, ops.minimum(index, CANDIDATES - 1), 0)
        return ops.where(rank == index, candidates, 0).sum(-1).astype(ms.int32)


def pretrained(
    folder: str, context: int = 0, batch: int = 1, cache: str = "float32"
) -> Llama:
    """A model with the weights of a folder from Hugging Face.

    Args:
        context, batch, cache: see `Config.read`.

    Raises:
        ValueError: a weight is missing, of another shape than `config.json` says, or unknown.
    """
    folder = Path(folder)
    config = Config.read(folder / "config.json", context, batch, cache)
    net = Llama(config).set_train(False)
    parameters = {p.name: p for p in net.get_parameters() if p.requires_grad}
    wanted = {name: source_names(name) for name in parameters}
    parts = {}
    for file in weight_files(folder):
        parts.update(checkpoint.load(file))
        for name in [n for n in wanted if all(part in parts for part in wanted[n])]:
            assign(parameters[name], [(part, parts.pop(part)) for part in wanted.pop(name)], folder)
    if wanted:
        missing = [part for names in wanted.values() for part in names if part not in parts]
        raise ValueError(f"{folder}: {len(missing)} weights are missing: "
                         f"{', '.join(map(repr, missing[:3]))}")
    unknown = [n for n in parts if not n.endswith("rotary_emb.inv_freq")
               and not (net.config.tied and n == "lm_head.weight")]
    if unknown:
        raise ValueError(f"{folder}: the model that config.json describes has no place for "
                         f"{len(unknown)} weights: {', '.join(map(repr, unknown[:3]))}")
    return net


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return [folder / "model.safetensors"]
    parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    for name in parts.values():
        if Path(name).name != name:
            raise ValueError(f"{index}: {name!r} must be a file of this folder")
    return [folder / name for name in sorted(set(parts.values()))]


def source_names(name: str) -> list[str]:
    """The names that Hugging Face's files have for the parts of a parameter, in their order."""
    if name == "head.weight":
        return ["lm_head.weight"]
    name = "model." + name.replace("blocks.", "layers.")
    for ours, theirs in (
        ("embedding.embedding_table", "embed_tokens.weight"), (".norm1.", ".input_layernorm."),
        (".norm2.", ".post_attention_layernorm."), (".attention.query_norm.", ".self_attn.q_norm."),
        (".attention.key_norm.", ".self_attn.k_norm."), (".attention.out.", ".self_attn.o_proj."),
        (".down.", ".mlp.down_proj."),
    ):
        name = name.replace(ours, theirs)
    for ours, parts in ((".attention.qkv.", (".self_attn.q_proj.", ".self_attn.k_proj.",
                                             ".self_attn.v_proj.")),
                        (".gate_up.", (".mlp.gate_proj.", ".mlp.up_proj."))):
        if ours in name:
            return [name.replace(ours, part) for part in parts]
    return [name]


def assign(parameter: ms.Parameter, parts: list[tuple[str, Any]], folder: Path) -> None:
    """Give a parameter the value that a model's files have in parts."""
    rows = sum(part.shape[0] if part.ndim else 0 for _, part in parts)
    if (rows, *parts[0][1].shape[1:]) != parameter.shape or \
            any(part.shape[1:] != parts[0][1].shape[1:] for _, part in parts):
        shapes = ", ".join(f"{name!r} is {tuple(part.shape)}" for name, part in parts)
        raise ValueError(f"{folder}: config.json asks for {parameter.shape} as the rows of "
                         f"{parameter.name!r}, but {shapes}")
    value = np.concatenate([np.asarray(part, np.float32) for _, part in parts])
    parameter.set_data(ms.Tensor(value))


def generate(
    step: Any, tokens: Any, count: int, temperature: float = 0.0, top_k: int = CANDIDATES,
    top_p: float = 1.0, seed: int = 0, vocabulary: int = 0, context: int = 0,
) -> Iterator[Any]:
    """Continue conversations, token by token.

    Args:
        step: `Llama.choose`, or the entries of an artifact: takes arrays, gives the next tokens.
        tokens: int32 (N, T), prompts of equal length.
        count: how many tokens.
        temperature, top_k, top_p: see `Llama.choose`.
        seed: of the draws: the same seed gives the same tokens in both modes and from an artifact.
        vocabulary, context: what the model has, for messages; 0: unknown.

    Yields:
        The next tokens, int32 (N,).

    Raises:
        ValueError: an argument is out of its range, or the cache has no room.
    """
    tokens = np.asarray(tokens, np.int32)
    if tokens.ndim != 2 or not tokens.size:
        raise ValueError(f"the tokens must be of shape (N, T) with T of at least 1, but got "
                         f"{tokens.shape}")
    wrong = np.argwhere((tokens < 0) | (tokens >= vocabulary)) if vocabulary else ()
    if len(wrong):
        row, place = wrong[0]
        raise ValueError(f"token {tokens[row, place]} at place {place} of prompt {row} is not in "
                         f"the vocabulary of {vocabulary} tokens")
    if context and tokens.shape[1] + count - 1 > context:
        raise ValueError(f"{tokens.shape[1]} tokens and {count} more do not fit the cache, which "
                         f"has room for {context}")
    if not (temperature >= 0 and 1 <= top_k <= CANDIDATES and 0 < top_p <= 1):
        raise ValueError(f"temperature must be at least 0, top_k from 1 to {CANDIDATES}, top_p "
                         f"above 0 and at most 1, but got {temperature}, {top_k}, {top_p}")
    draws = np.random.default_rng(seed)
    end = 0
    for _ in range(count):
        end += tokens.shape[1]
        out = step(tokens, np.arange(end, dtype=np.int32), np.float32(temperature),
                   np.int32(top_k), np.float32(top_p), draws.random(dtype=np.float32))
        yield out
        tokens = out.reshape(-1, 1)


def calls(net: Llama) -> Any:
    """`net.choose` for arrays, compiled in graph mode."""
    choose = ms.jit(net.choose) if ms.get_context("mode") == ms.GRAPH_MODE else net.choose
    return lambda *arrays: choose(*map(ms.Tensor, arrays)).asnumpy()


def make_input(n: int = 1, steps: int = 32, seed: int = 0) -> tuple[ms.Tensor, ...]:
    """Random tokens, and their places."""
    tokens = np.random.default_rng(seed).integers(0, 256, (n, steps))
    return ms.Tensor(tokens.astype(np.int32)), ms.Tensor(np.arange(steps, dtype=np.int32))


def main() -> None:
    """Continue a text."""
    parser = argparse.ArgumentParser(description="Continue a text with a language model.")
    parser.add_argument("folder", help="with config.json, safetensors and tokenizer.json")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--tokens", type=int, default=40, help="how many more")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-k", type=int, default=CANDIDATES)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError:
        sys.exit("to read a tokenizer.json: pip install tokenizers")
    tokenizer = Tokenizer.from_file(str(Path(args.folder) / "tokenizer.json"))
    ms.set_context(mode=ms.GRAPH_MODE)
    net = pretrained(args.folder)
    ids = tokenizer.encode(args.prompt).ids
    shown = tokenizer.decode(ids)
    print(shown, end="", flush=True)
    for token in generate(calls(net), [ids], args.tokens, args.temperature, args.top_k, args.top_p,
                          args.seed, net.config.vocabulary, net.config.context):
        ids.append(int(token[0]))
        text = tokenizer.decode(ids)
        print(text[len(shown):], end="", flush=True)
        shown = text
    print()


if __name__ == "__main__":
    main()
