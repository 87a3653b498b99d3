"""The cases in JAX: one jitted function each; training steps update donated parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from cases import GPT_SIZES, LSTM_SIZES, RESNET_DEPTHS, Data
from jax import lax

Params = Iterator[Any]


def _conv(x: Any, w: Any, stride: int = 1, pad: int = 0) -> Any:
    return lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2,
                                    dimension_numbers=("NCHW", "OIHW", "NCHW"))


def _max_pool(x: Any, size: int, stride: int, pad: int = 0) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, size, size), (1, 1, stride, stride),
                             [(0, 0), (0, 0), (pad, pad), (pad, pad)])


def _dense(x: Any, p: Params) -> Any:
    return x @ next(p).T + next(p)


def _norm(x: Any, p: Params) -> Any:
    x = x - x.mean(-1, keepdims=True)
    x = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-7)
    return x * next(p) + next(p)


def lenet(p: Params, x: Any) -> Any:
    """As samples/lenet.py."""
    x = _max_pool(jax.nn.relu(_conv(x, next(p))), 2, 2)
    x = _max_pool(jax.nn.relu(_conv(x, next(p))), 2, 2)
    x = x.reshape(x.shape[0], -1)
    return _dense(jax.nn.relu(_dense(jax.nn.relu(_dense(x, p)), p)), p)


def mlp(p: Params, x: Any) -> Any:
    """As samples/mlp.py."""
    return _dense(jax.nn.relu(_dense(jax.nn.relu(_dense(x, p)), p)), p)


def chain(p: Params, x: Any) -> Any:
    """The elementwise case."""
    return jnp.tanh(x) * jax.nn.sigmoid(x) + lax.erf(x)


def resnet(p: Params, x: Any) -> Any:
    """As samples/resnet.py."""
    def conv_bn(x: Any, stride: int, pad: int) -> Any:
        x = _conv(x, next(p), stride, pad) * (1 / jnp.sqrt(jnp.float32(1 + 1e-5)))
        return x * next(p)[:, None, None] + next(p)[:, None, None]

    x = _max_pool(jax.nn.relu(conv_bn(x, 2, 3)), 3, 2, 1)
    for stage, depth in enumerate(RESNET_DEPTHS):
        for block in range(depth):
            down = stage > 0 and block == 0
            out = jax.nn.relu(conv_bn(x, 2 if down else 1, 1))
            out = conv_bn(out, 1, 1)
            x = jax.nn.relu(out + (conv_bn(x, 2, 0) if down else x))
    return _dense(x.mean((2, 3)), p)


def gpt(p: Params, tokens: Any) -> Any:
    """As samples/gpt.py."""
    n, t = tokens.shape
    heads, width = GPT_SIZES["heads"], GPT_SIZES["width"]
    positions, table = next(p), next(p)
    x = table[tokens] + positions[:t]
    mask = jnp.triu(jnp.ones((t, t), bool), 1)
    for _ in range(GPT_SIZES["depth"]):
        qkv = _dense(_norm(x, p), p).reshape(n, t, 3, heads, width // heads)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(jnp.float32(width // heads))
        weights = jax.nn.softmax(jnp.where(mask, -jnp.inf, scores))
        x = x + _dense((weights @ v).swapaxes(1, 2).reshape(n, t, width), p)
        x = x + _dense(jax.nn.gelu(_dense(_norm(x, p), p)), p)
    x = _norm(x, p)
    return (x @ next(p).T).reshape(n * t, -1)


def lstm(p: Params, x: Any) -> Any:
    """As samples/lstm.py."""
    for _ in range(LSTM_SIZES["layers"]):
        w, u, b, c = next(p), next(p), next(p), next(p)
        x = _layer(x, w, u, b + c)
    return _dense(x[:, -1], p)


def _layer(x: Any, w: Any, u: Any, bias: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row + h @ u.T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[0], u.shape[1]), jnp.float32)
    return lax.scan(step, (zero, zero), (x @ w.T + bias).swapaxes(0, 1))[1].swapaxes(0, 1)


NETWORKS: dict[str, Callable[..., Any]] = {
    "lenet": lenet, "mlp": mlp, "chain": chain, "resnet": resnet, "gpt": gpt, "lstm": lstm,
    "gemm": lambda p, a, b: a @ b,
    "conv": lambda p, x: _conv(x, next(p), 1, 1),
    "tiny": lambda p, x: jax.nn.relu(_dense(x, p)),
}


def build(case: str, train: bool, data: Data) -> Callable[[], Any]:
    """One call of a case; it returns when the result is there."""
    inputs = [jnp.asarray(a) for a in data.inputs]
    params = [jnp.asarray(a) for a in data.weights]
    network = NETWORKS[case]
    if train:
        return _step(network, params, inputs)
    forward = jax.jit(lambda p, *x: network(iter(p), *x))
    return lambda: forward(params, *inputs).block_until_ready()


def _step(network: Callable[..., Any], params: list[Any], inputs: list[Any]) -> Callable[[], Any]:
    def loss_of(params: Any, x: Any, labels: Any) -> Any:
        logp = jax.nn.log_softmax(network(iter(params), x))
        return -jnp.take_along_axis(logp, labels.reshape(-1, 1), 1).mean()

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, moments: Any, x: Any, labels: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, labels)
        moments = [0.9 * m + g for m, g in zip(moments, grads, strict=True)]
        return loss, [p - 0.02 * m for p, m in zip(params, moments, strict=True)], moments

    state = [params, [jnp.zeros_like(p) for p in params]]

    def run() -> Any:
        loss, state[0], state[1] = step(*state, *inputs)
        return float(loss)

    return run
