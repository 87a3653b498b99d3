"""The cases in JAX: one jitted function each; training steps update donated parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from cases import CASES, MOBILE
from jax import lax
from spec import Case, Data


class Params:
    """Weights in the order in which layers take them, and the moving averages of batch norms."""

    def __init__(self, weights: list[Any], stats: list[Any], train: bool = False) -> None:
        self._weights, self._stats, self.train = iter(weights), iter(stats), train
        self.renewed: list[Any] = []

    def __call__(self) -> Any:
        return next(self._weights)

    def batch_norm(self, x: Any) -> Any:
        """Normalise over images and pixels; while training by this batch's statistics."""
        mean, variance = next(self._stats), next(self._stats)
        if self.train:
            old = mean, variance
            mean, count = x.mean((0, 2, 3)), x.size // x.shape[1]
            variance = jnp.square(x - mean[:, None, None]).mean((0, 2, 3))
            self.renewed += [0.9 * old[0] + 0.1 * mean,
                             0.9 * old[1] + 0.1 * variance * (count / (count - 1))]
        scale = self() * lax.rsqrt(variance + 1e-5)
        return x * scale[:, None, None] + (self() - mean * scale)[:, None, None]


def _conv(x: Any, w: Any, stride: int = 1, pad: int = 0, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2, feature_group_count=groups,
        dimension_numbers=("NCHW", "OIHW", "NCHW"))


def _conv_bias(x: Any, p: Params, stride: int = 1, pad: int = 0, groups: int = 1) -> Any:
    return _conv(x, p(), stride, pad, groups) + p()[:, None, None]


def _conv_bn(x: Any, p: Params, stride: int = 1, pad: int = 0, groups: int = 1) -> Any:
    return p.batch_norm(_conv(x, p(), stride, pad, groups))


def _max_pool(x: Any, size: int, stride: int, pad: int = 0) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, size, size), (1, 1, stride, stride),
                             [(0, 0), (0, 0), (pad, pad), (pad, pad)])


def _dense(x: Any, p: Params) -> Any:
    return x @ p().T + p()


def _norm(x: Any, p: Params) -> Any:
    x = x - x.mean(-1, keepdims=True)
    x = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-7)
    return x * p() + p()


def lenet(p: Params, x: Any) -> Any:
    """As samples/lenet.py."""
    x = _max_pool(jax.nn.relu(_conv(x, p())), 2, 2)
    x = _max_pool(jax.nn.relu(_conv(x, p())), 2, 2)
    x = x.reshape(x.shape[0], -1)
    return mlp(p, x)


def mlp(p: Params, x: Any) -> Any:
    """As samples/mlp.py."""
    return _dense(jax.nn.relu(_dense(jax.nn.relu(_dense(x, p)), p)), p)


def resnet(p: Params, x: Any, depths: Any, bottleneck: bool, **_: Any) -> Any:
    """As samples/resnet.py."""
    x = _max_pool(jax.nn.relu(_conv_bn(x, p, 2, 3)), 3, 2, 1)
    for stage, depth in enumerate(depths):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            if bottleneck:
                y = jax.nn.relu(_conv_bn(x, p))
                y = jax.nn.relu(_conv_bn(y, p, stride, 1))
                y = _conv_bn(y, p)
            else:
                y = jax.nn.relu(_conv_bn(x, p, stride, 1))
                y = _conv_bn(y, p, 1, 1)
            x = jax.nn.relu(y + (x if x.shape == y.shape else _conv_bn(x, p, stride)))
    return _dense(x.mean((2, 3)), p)


def mobilenet(p: Params, x: Any, **_: Any) -> Any:
    """As samples/mobilenet.py."""
    x = jax.nn.relu6(_conv_bn(x, p, 2, 1))
    for expansion, width, blocks, stride in MOBILE:
        for i in range(blocks):
            y = jax.nn.relu6(_conv_bn(x, p)) if expansion != 1 else x
            y = jax.nn.relu6(_conv_bn(y, p, stride if i == 0 else 1, 1, y.shape[1]))
            y = _conv_bn(y, p)
            x = x + y if i and x.shape[1] == width else y
    return _dense(jax.nn.relu6(_conv_bn(x, p)).mean((2, 3)), p)


def gpt(p: Params, tokens: Any, heads: int, depth: int, width: int, tied: bool, **_: Any) -> Any:
    """As samples/gpt.py."""
    n, t = tokens.shape
    positions, table = p(), p()
    x = table[tokens] + positions[:t]
    mask = jnp.triu(jnp.ones((t, t), bool), 1)
    for _ in range(depth):
        qkv = _dense(_norm(x, p), p).reshape(n, t, 3, heads, width // heads)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(jnp.float32(width // heads))
        weights = jax.nn.softmax(jnp.where(mask, -jnp.inf, scores))
        x = x + _dense((weights @ v).swapaxes(1, 2).reshape(n, t, width), p)
        x = x + _dense(jax.nn.gelu(_dense(_norm(x, p), p)), p)
    x = _norm(x, p)
    return x @ (table if tied else p()).T


def recurrent(p: Params, x: Any, layers: int, gates: int, **_: Any) -> Any:
    """As samples/lstm.py, and the GRU of cells.py."""
    for _ in range(layers):
        x = (_lstm if gates == 4 else _gru)(x, p(), p(), p(), p())
    return _dense(x[:, -1], p)


def _lstm(x: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row + h @ u.T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[0], u.shape[1]), jnp.float32)
    return lax.scan(step, (zero, zero), (x @ w.T + b + c).swapaxes(0, 1))[1].swapaxes(0, 1)


def _gru(x: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        r, z, n = jnp.split(row, 3, -1)
        s, y, m = jnp.split(h @ u.T + c, 3, -1)
        z = jax.nn.sigmoid(z + y)
        h = (1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + s) * m) + z * h
        return h, h

    zero = jnp.zeros((x.shape[0], u.shape[1]), jnp.float32)
    return lax.scan(step, zero, (x @ w.T + b).swapaxes(0, 1))[1].swapaxes(0, 1)


def unet(p: Params, x: Any, depth: int, **_: Any) -> Any:
    """As samples/unet.py; the filters going up are listed before the layers that merge."""
    def double(x: Any) -> Any:
        return jax.nn.relu(_conv_bn(jax.nn.relu(_conv_bn(x, p, 1, 1)), p, 1, 1))

    def up(x: Any, w: Any) -> Any:  # (N, A, H, W), (A, B, 2, 2): every pixel becomes four
        n, _, h, v = x.shape
        y = jnp.einsum("nahw,abij->nbhiwj", x, w)
        return y.reshape(n, w.shape[1], 2 * h, 2 * v)

    x = double(x)
    levels = [x]
    for _ in range(depth):
        x = double(_max_pool(x, 2, 2))
        levels.append(x)
    levels.pop()
    for w in [p() for _ in range(depth)]:
        x = double(jnp.concatenate((levels.pop(), up(x, w)), 1))
    return _conv(x, p())


def chain(p: Params, x: Any, softmax: bool, **_: Any) -> Any:
    """As in cells.py."""
    y = jnp.tanh(x) * jax.nn.sigmoid(x) + lax.erf(x)
    return jax.nn.softmax(y) if softmax else y


def vgg(p: Params, x: Any, plan: Any) -> Any:
    """As in cells.py."""
    for widths in plan:
        for _ in widths:
            x = jax.nn.relu(_conv_bias(x, p, 1, 1))
        x = _max_pool(x, 2, 2)
    return _dense(jax.nn.relu(_dense(x.reshape(x.shape[0], -1), p)), p)


def convnext(p: Params, x: Any, widths: Any, depths: Any) -> Any:
    """As in cells.py, but with channels last between the convolutions."""
    def first(x: Any) -> Any:
        return x.transpose(0, 3, 1, 2)

    def last(x: Any) -> Any:
        return x.transpose(0, 2, 3, 1)

    x = _norm(last(_conv_bias(x, p, 4)), p)
    for i, depth in enumerate(depths):
        if i:
            x = last(_conv_bias(first(_norm(x, p)), p, 2))
        for _ in range(depth):
            scale = p()
            y = _norm(last(_conv_bias(first(x), p, 1, 3, widths[i])), p)
            x = x + _dense(jax.nn.gelu(_dense(y, p)), p) * scale
    return _dense(_norm(x.mean((1, 2)), p), p)


def mixer(p: Params, x: Any, patch: int, depth: int, **_: Any) -> Any:
    """As in cells.py."""
    x = _conv_bias(x, p, patch)
    x = x.reshape(*x.shape[:2], -1).swapaxes(1, 2)
    for _ in range(depth):
        y = _norm(x, p).swapaxes(1, 2)
        x = x + _dense(jax.nn.gelu(_dense(y, p)), p).swapaxes(1, 2)
        x = x + _dense(jax.nn.gelu(_dense(_norm(x, p), p)), p)
    return _dense(_norm(x, p).mean(1), p)


def bert(p: Params, tokens: Any, depth: int, heads: int, width: int, **_: Any) -> Any:
    """As in cells.py."""
    n, t = tokens.shape
    positions, table = p(), p()
    x = _norm(table[tokens] + positions, p)
    for _ in range(depth):
        q, k, v = (_dense(x, p).reshape(n, t, heads, -1).swapaxes(1, 2) for _ in range(3))
        scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(jnp.float32(width // heads))
        mixed = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(n, t, width)
        x = _norm(x + _dense(mixed, p), p)
        x = _norm(x + _dense(jax.nn.gelu(_dense(x, p), approximate=False), p), p)
    return x


def _layernorm(p: Params, x: Any, r: Any) -> Any:
    return _norm(x + r, p)


NETWORKS: dict[str, Callable[..., Any]] = {
    "lenet": lenet, "mlp": mlp, "resnet18": resnet, "resnet50": resnet, "resnet18_train": resnet,
    "resnet50_train": resnet, "mobilenet": mobilenet, "mobilenet_train": mobilenet,
    "gpt_decoder": gpt, "gpt_train": gpt, "lstm_infer": recurrent, "lstm_train": recurrent,
    "gru": recurrent, "unet": unet,
    "unet_train": lambda p, x, **z: unet(p, x, **z).transpose(0, 2, 3, 1),  # as the loss takes it
    "chain": chain, "chain_grad": chain, "elementwise": chain, "layernorm": _layernorm,
    "layernorm_grad": _layernorm, "vgg": vgg, "convnext": convnext, "mixer_train": mixer,
    "bert": bert,
    "gemm": lambda p, a, b: a @ b,
    "conv": lambda p, x: _conv(x, p(), 1, 1),
    "tiny": lambda p, x: jax.nn.relu(_dense(x, p)),
}


def build(name: str, given: Data) -> Callable[[], Any]:
    """One call of a case; it returns when the result is there."""
    jax.config.update("jax_default_matmul_precision", "highest")
    case = CASES[name]
    inputs = [jnp.asarray(a) for a in given.inputs]
    params = [jnp.asarray(a) for a in given.weights]
    network = partial(NETWORKS[name], **case.sizes)
    stats = _statistics(name, case)
    if case.kind == "train":
        return _step(network, case, params, stats, inputs)
    if case.kind == "grad":
        return _gradient(network, params, inputs)
    forward = jax.jit(lambda params, stats, *x: network(Params(params, stats), *x))
    return lambda: forward(params, stats, *inputs).block_until_ready()


def _statistics(name: str, case: Case) -> list[Any]:
    """Moving averages: mean 0 and variance 1 for each batch normalisation."""
    if not name.startswith(("resnet", "mobilenet", "unet")):
        return []
    gains = [shape for kind, shape in case.spec().weights if kind == "gain"]
    return [make(shape, jnp.float32) for shape in gains for make in (jnp.zeros, jnp.ones)]


def _gradient(network: Callable[..., Any], params: list[Any],
              inputs: list[Any]) -> Callable[[], Any]:
    def loss_of(x: Any, params: Any, rest: Any, weight: Any) -> Any:
        return (network(Params(params, []), x, *rest) * weight).sum()

    call = jax.jit(jax.value_and_grad(loss_of, (0, 1)))
    x, *rest, weight = inputs

    def run() -> Any:
        loss, (dx, dp) = jax.block_until_ready(call(x, params, rest, weight))
        return loss, (dx, *dp)

    return run


def _step(network: Callable[..., Any], case: Case, params: list[Any], stats: list[Any],
          inputs: list[Any]) -> Callable[[], Any]:
    def loss_of(params: Any, stats: Any, x: Any, labels: Any) -> Any:
        p = Params(params, stats, train=True)
        out = network(p, x)
        logp = jax.nn.log_softmax(out.reshape(-1, out.shape[-1]))
        return -jnp.take_along_axis(logp, labels.reshape(-1, 1), 1).mean(), p.renewed

    renew = _adam if case.optimizer == "adam" else _momentum

    @partial(jax.jit, donate_argnums=(0,))
    def step(state: Any, x: Any, labels: Any) -> Any:
        params, moments, stats, count = state
        (loss, stats), grads = jax.value_and_grad(loss_of, has_aux=True)(params, stats, x, labels)
        params, moments = renew(params, moments, grads, count)
        return loss, (params, moments, stats, count + 1)

    copies = 2 if case.optimizer == "adam" else 1
    moments = [[jnp.zeros_like(p) for p in params] for _ in range(copies)]
    state = [(params, moments, stats, jnp.float32(1))]

    def run() -> Any:
        loss, state[0] = step(state[0], *inputs)
        return float(loss)

    return run


def _momentum(params: Any, moments: Any, grads: Any, count: Any) -> Any:
    m = [0.9 * m + g for m, g in zip(moments[0], grads, strict=True)]
    return [p - 0.02 * m for p, m in zip(params, m, strict=True)], [m]


def _adam(params: Any, moments: Any, grads: Any, count: Any) -> Any:
    m = [0.9 * m + 0.1 * g for m, g in zip(moments[0], grads, strict=True)]
    v = [0.999 * v + 0.001 * g * g for v, g in zip(moments[1], grads, strict=True)]
    rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    return [p - rate * m / (jnp.sqrt(v) + 1e-8)
            for p, m, v in zip(params, m, v, strict=True)], [m, v]
