"""The cases of `on_device.py` in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from device_cases import Case, inputs

Run = Callable[[], Any]
_LAST: list[Any] = []


def build(case: Case) -> Run:
    """One call of a case, which returns before the device has done it.

    Raises:
        LookupError: it is not written in JAX.
    """
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if case.fast else "highest")
    call = _function(case)
    given = [jnp.asarray(a, case.dtype) for a in inputs(case)]
    if case.gradient:
        call = _gradient(call, len(given) - 1)
    forward = jax.jit(call)

    def run() -> Any:
        _LAST[:] = [forward(*given)]
        return _LAST[0]

    return run


def wait() -> None:
    """Return when the device has done all: what it was given last is done."""
    jax.block_until_ready(_LAST)


def release() -> None:
    """Let go of the last results."""
    _LAST.clear()


def results(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result, wide."""
    return [np.asarray(a, np.float32) for a in jax.tree_util.tree_leaves(value)]


def _gradient(call: Callable[..., Any], count: int) -> Callable[..., Any]:
    def loss_of(*given: Any) -> Any:
        return (call(*given[:-1]) * given[-1]).sum()

    return jax.value_and_grad(loss_of, tuple(range(count)))


def _function(case: Case) -> Callable[..., Any]:
    found = {
        "chain": lambda x: jnp.tanh(x * 1.5 + 0.5) * jax.nn.sigmoid(x) + jnp.exp(-(x * x)),
        "softmax": lambda x: jax.nn.softmax(x, -1), "layernorm": _layernorm,
        "product": jnp.matmul, "conv": _conv(case), "attention": _attention,
        "launch": lambda x: x + 1.0,
    }.get(case.kind)
    if found is None:
        raise LookupError(f"no {case.kind} in JAX")
    return found


def _layernorm(x: Any, g: Any, b: Any) -> Any:
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + 1e-5)).astype(x.dtype) * g + b


def _conv(case: Case) -> Callable[..., Any]:
    if case.kind != "conv":
        return lambda *_: None
    size, stride = case.sizes[5:]
    return lambda x, w: jax.lax.conv(x, w, (stride, stride), "SAME") if size == 1 else \
        jax.lax.conv_general_dilated(x, w, (stride, stride), ((size // 2, size // 2),) * 2)


def _attention(q: Any, k: Any, v: Any) -> Any:
    heads_last = [a.swapaxes(1, 2) for a in (q, k, v)]
    return jax.nn.dot_product_attention(*heads_last, is_causal=True).swapaxes(1, 2)
