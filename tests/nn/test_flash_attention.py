"""`ops.flash_attention_score` in all layouts and modes, against float64 numpy, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops

Array = np.ndarray[Any, Any]
B, N, S1, S2, D = 2, 4, 6, 8, 16
MODES = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph", "eager"])


def _arrays(few: int = N, s1: int = S1, s2: int = S2) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(5)
    return (rng.standard_normal((B, N, s1, D)).astype(np.float32),
            rng.standard_normal((B, few, s2, D)).astype(np.float32),
            rng.standard_normal((B, few, s2, D)).astype(np.float32))


def _expected(q: Array, k: Array, v: Array, scale: float, unseen: Array | None = None,
              shift: Array | None = None, keep: Array | None = None, p: float = 1.0) -> Array:
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1).astype(np.float64) for t in (k, v))
    s = q.astype(np.float64) @ k.swapaxes(2, 3) * scale
    if shift is not None:
        s = s + shift
    if unseen is not None:
        s = np.where(unseen, -np.inf, s)
    e = np.exp(s - np.maximum(s.max(-1, keepdims=True), -1e300))
    w = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
    if keep is not None:
        w = w * keep / p
    return w @ v


def _in_layout(t: Array, layout: str) -> Array:
    b, n, s, d = t.shape
    return {"BNSD": lambda: t, "BSND": lambda: t.transpose(0, 2, 1, 3),
            "BSH": lambda: t.transpose(0, 2, 1, 3).reshape(b, s, n * d),
            "SBH": lambda: t.transpose(2, 0, 1, 3).reshape(s, b, n * d)}[layout]()


def _run(mode: int, fn: Callable[..., Any], *args: Any) -> Any:
    ms.set_context(mode=mode)
    return ms.jit(fn)(*args) if mode == ms.GRAPH_MODE else fn(*args)


@MODES
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("few", [1, 2, 4])
def test_layouts_and_shared_heads(layout: str, few: int, mode: int) -> None:
    given = _arrays(few)
    out = _run(mode, lambda q, k, v: ops.flash_attention_score(
        q, k, v, N, scalar_value=0.25, input_layout=layout),
        *(Tensor(np.ascontiguousarray(_in_layout(t, layout))) for t in given))
    expected = _in_layout(_expected(*given, 0.25), layout)
    assert out.shape == expected.shape and out.dtype == ms.float32
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=2e-5, atol=2e-6)


ROW, J = np.arange(S1)[:, None], np.arange(S2)
SOME = np.random.default_rng(8).random((B, 1, S1, S2)) < 0.4
MASKS: dict[str, tuple[dict[str, Any], Array]] = {
    "given": ({"attn_mask": SOME}, SOME),
    "bytes, for all heads": ({"attn_mask": SOME[0, 0].astype(np.uint8), "sparse_mode": 1},
                             SOME[0, 0]),
    "given, in a band": ({"attn_mask": SOME, "pre_tokens": 2, "next_tokens": 1},
                         SOME | (J > ROW + 1) | (J < ROW - 2)),
    "no later keys": ({"sparse_mode": 2}, J > ROW),
    "aligned at the end": ({"sparse_mode": 3}, J > ROW + S2 - S1),
    "a band": ({"sparse_mode": 4, "pre_tokens": 3, "next_tokens": 0},
               (J > ROW + S2 - S1) | (J < ROW + S2 - S1 - 3)),
    "a prefix": ({"sparse_mode": 5, "attn_mask": SOME, "prefix": [3, 2]}, SOME),
    "nothing is seen": ({"attn_mask": np.ones((S1, S2), bool)}, np.ones((S1, S2), bool)),
}


@MODES
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str, mode: int) -> None:
    options, unseen = MASKS[name]
    options = {k: Tensor(v) if k == "attn_mask" else v for k, v in options.items()}
    given = _arrays()
    out = _run(mode, lambda q, k, v: ops.flash_attention_score(
        q, k, v, N, scalar_value=0.3, input_layout="BNSD", **options), *map(Tensor, given))
    np.testing.assert_allclose(out.asnumpy(), _expected(*given, 0.3, unseen), rtol=2e-5, atol=2e-6)


@MODES
def test_shift_dropout_and_gradient(mode: int) -> None:
    q, k, v = _arrays()
    rng = np.random.default_rng(1)
    shift = rng.standard_normal((1, N, S1, S2)).astype(np.float32)
    bits = rng.integers(0, 256, (B, N, S1, S2 // 8)).astype(np.uint8)
    keep = np.unpackbits(bits, axis=-1, bitorder="little")

    def loss(q: Any, k: Any, v: Any, shift: Any, bits: Any) -> Any:
        out = ops.flash_attention_score(q, k, v, N, shift, bits, keep_prob=0.75, scalar_value=0.2,
                                        input_layout="BNSD")
        return (out * out).sum()

    tensors = [Tensor(t) for t in (q, k, v, shift, bits)]
    value, grads = _run(mode, lambda *a: ms.value_and_grad(loss, (0, 1, 2, 3))(*a), *tensors)

    def reference(*a: Array) -> float:
        return float((_expected(*a[:3], 0.2, None, a[3], keep, 0.75) ** 2).sum())

    given = [t.astype(np.float64) for t in (q, k, v, shift)]
    np.testing.assert_allclose(float(value), reference(*given), rtol=1e-4)
    for i, grad in enumerate(grads):
        at = tuple(n // 2 for n in given[i].shape)
        up, down = ([t.copy() for t in given] for _ in range(2))
        up[i][at] += 1e-4
        down[i][at] -= 1e-4
        slope = (reference(*up) - reference(*down)) / 2e-4
        np.testing.assert_allclose(grad.asnumpy()[at], slope, rtol=2e-3, atol=1e-4)


@MODES
def test_sequences_one_after_the_other(mode: int) -> None:
    rng = np.random.default_rng(2)
    q = rng.standard_normal((9, N, D)).astype(np.float32)
    k, v = (rng.standard_normal((12, 2, D)).astype(np.float32) for _ in range(2))
    out = _run(mode, lambda q, k, v: ops.flash_attention_score(
        q, k, v, N, scalar_value=0.25, input_layout="TND", sparse_mode=3,
        actual_seq_qlen=[4, 9], actual_seq_kvlen=[5, 12]), Tensor(q), Tensor(k), Tensor(v))
    for (a, b), (c, d) in (((0, 4), (0, 5)), ((4, 9), (5, 12))):
        unseen = np.arange(d - c) > np.arange(b - a)[:, None] + (d - c) - (b - a)
        part = [t.transpose(1, 0, 2)[None] for t in (q[a:b], k[c:d], v[c:d])]
        np.testing.assert_allclose(out.asnumpy()[a:b].transpose(1, 0, 2)[None],
                                   _expected(*part, 0.25, unseen), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.float32])
def test_both_modes_give_the_same_bits(dtype: Any) -> None:
    given = [Tensor(t).astype(dtype) for t in _arrays(2, 40, 70)]

    def call(q: Any, k: Any, v: Any) -> Any:
        return ops.flash_attention_score(q, k, v, N, scalar_value=0.25, input_layout="BNSD",
                                         sparse_mode=3)

    graph, eager = (_run(mode, call, *given) for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE))
    assert graph.dtype == eager.dtype == dtype
    np.testing.assert_array_equal(graph.astype(ms.float32).asnumpy(),
                                  eager.astype(ms.float32).asnumpy())


def test_scores_are_not_in_memory() -> None:
    """One kernel: neither scores nor weights are among the temporaries."""
    from cellc.compiled.traced import trace
    from cellc_compiler.driver import lower, optimize
    from cellc_runtime.target import AVX512

    given = [Tensor(np.zeros((1, 2, 512, 64), np.float32)) for _ in range(3)]
    graph = optimize(trace(lambda q, k, v: ops.flash_attention_score(
        q, k, v, 2, input_layout="BNSD", sparse_mode=2), tuple(given), {}).graph, target=AVX512)
    labels = {i.label for i in lower(graph, AVX512).instructions}  # type: ignore[union-attr]
    assert len(labels) == 1 and labels.pop().count("matmul") == 2


BAD: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "layout": (ValueError, {"input_layout": "HSB"}),
    "mode": (ValueError, {"sparse_mode": 6}),
    "heads": (RuntimeError, {"head_num": 0}),
    "heads that do not fit": (RuntimeError, {"head_num": 3}),
    "mask of another shape": (ValueError, {"attn_mask": Tensor(np.ones((3, 3), bool))}),
    "mask of numbers": (TypeError, {"attn_mask": Tensor(np.ones((S1, S2), np.float32))}),
    "mode without its mask": (ValueError, {"sparse_mode": 1}),
    "small mask of a mode": (ValueError, {"sparse_mode": 2,
                                          "attn_mask": Tensor(np.ones((S1, S2), bool))}),
    "keep_prob": (ValueError, {"keep_prob": 0.0}),
    "no bits": (ValueError, {"keep_prob": 0.5}),
    "prefix": (ValueError, {"prefix": [1, 1]}),
    "lengths": (ValueError, {"actual_seq_qlen": [6]}),
    "key of another dtype": (TypeError, {"key": Tensor(np.ones((B, N, S2, D), np.float16))}),
    "key of another size": (RuntimeError, {"key": Tensor(np.ones((B, N, S2, 8), np.float32))}),
    "a shift of another shape": (ValueError, {"real_shift": Tensor(np.ones((S1, S2), np.float32))}),
    "padding": (ValueError, {"padding_mask": Tensor(np.ones(3, np.float32))}),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name: str) -> None:
    kind, changed = BAD[name]
    q, k, v = map(Tensor, _arrays())
    given = {"query": q, "key": k, "value": v, "head_num": N, "input_layout": "BNSD", **changed}
    with pytest.raises(kind, match="flash_attention_score"):
        ops.flash_attention_score(**given)
