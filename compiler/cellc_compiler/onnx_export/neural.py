"""Activations, softmax, normalisation, matrix products, convolution, pooling."""

from __future__ import annotations

import numpy as np

from cellc_runtime import dtypes

from ..ir.dims import is_symbolic, surely_equal
from ..ir.graph import Node
from ..ir.types import normalize_axis
from .reductions import reduced
from .table import formulas, maps, refused
from .tensors import cut
from .writer import Names, Writer, refuse

formulas(
    hard_swish="HardSwish", selu="Selu", softsign="Softsign", silu="Mul(a, Sigmoid(a))",
    relu6="Clip(a, 0, 6)", hard_tanh="Clip(a, min, max)", celu="Celu(a, alpha=alpha)",
    elu="Elu(a, alpha=alpha)", leaky_relu="LeakyRelu(a, alpha=alpha)",
    hard_sigmoid="HardSigmoid(a, alpha=0.16666666666666666, beta=0.5)",
)
refused(
    "only gradients compute it; export the network, not its gradient", "conv2d_backward_weight",
    "adaptive_avg_pool2d_backward", "adaptive_max_pool2d_backward", "avg_pool2d_backward",
    "max_pool2d_backward",
)
refused(
    "the passes of the compiler make it, no network does", "avg_pool2d_blocked", "conv2d_blocked",
    "from_blocked", "max_pool2d_blocked", "pixel_sum_blocked", "regroup_blocked",
    "small_conv2d_blocked", "to_blocked", "winograd_input", "winograd_output",
)

# --- activations ----------------------------------------------------------------------------------


@maps("relu")
def _relu(w: Writer, node: Node, x: str) -> Names:
    return w.op("Relu", x) if w.types[x].is_float else w.op("Max", x, w.like(0, x))


@maps("gelu")
def _gelu(w: Writer, node: Node, x: str) -> Names | None:
    return w.op("Gelu", x, approximate=node.attrs["approximate"]) if w.opset >= 20 else None


@maps("mish")
def _mish(w: Writer, node: Node, x: str) -> Names | None:
    return w.op("Mish", x) if w.opset >= 18 else None


@maps("hard_shrink", "soft_shrink")
def _shrink(w: Writer, node: Node, x: str) -> Names | None:
    lambd = float(node.attrs["lambd"])
    if lambd < 0:
        return None
    return w.op("Shrink", x, lambd=lambd, bias=lambd if node.op == "soft_shrink" else 0.0)


@maps("softmax", "log_softmax")
def _softmax(w: Writer, node: Node, x: str) -> Names | None:
    rank = node.operands[0].type.rank
    if rank == 0:
        return None
    kind = "Softmax" if node.op == "softmax" else "LogSoftmax"
    return w.op(kind, x, axis=normalize_axis(node.attrs["axis"], rank))


# --- normalisation --------------------------------------------------------------------------------


@maps("layer_norm")
def _layer_norm(w: Writer, node: Node, x: str, gamma: str, beta: str) -> Names | None:
    statistics = any(r in w.used for r in node.results[1:])
    if statistics or w.types[x] is dtypes.float64:
        return None
    axis = normalize_axis(node.attrs["begin"], node.operands[0].type.rank)
    y = w.op("LayerNormalization", x, w.cast(gamma, w.types[x]), w.cast(beta, w.types[x]),
             axis=axis, epsilon=float(node.attrs["eps"]))
    return y, "", ""


@maps("batch_norm_inference")
def _batch_norm(w: Writer, node: Node, x: str, *rest: str) -> Names | None:
    rank = node.operands[0].type.rank
    if rank < 2 or normalize_axis(node.attrs["axis"], rank) != 1:
        return None
    params = [w.cast(p, w.types[x]) for p in rest]
    return w.op("BatchNormalization", x, *params, epsilon=float(node.attrs["eps"]))


@maps("instance_norm")
def _instance_norm(w: Writer, node: Node, x: str, gamma: str, beta: str) -> Names | None:
    if any(r in w.used for r in node.results[1:]) or node.operands[0].type.rank < 3:
        return None
    y = w.op("InstanceNormalization", x, w.cast(gamma, w.types[x]), w.cast(beta, w.types[x]),
             epsilon=float(node.attrs["eps"]))
    return y, "", ""


# --- contractions ---------------------------------------------------------------------------------


def _turned(w: Writer, x: str, rank: int) -> str:
    return w.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@maps("matmul")
def _matmul(w: Writer, node: Node, a: str, b: str) -> Names:
    x, y = node.operands
    if node.attrs["transpose_a"]:
        a = _turned(w, a, x.type.rank)
    if node.attrs["transpose_b"]:
        b = _turned(w, b, y.type.rank)
    return w.op("MatMul", a, b)


def _window(node: Node) -> dict[str, object]:
    top, bottom, left, right = node.attrs["pads"]
    return {"strides": list(node.attrs["stride"]), "pads": [top, left, bottom, right],
            "dilations": list(node.attrs["dilation"]), "group": node.attrs["groups"]}


@maps("conv2d")
def _conv2d(w: Writer, node: Node, x: str, weight: str) -> Names:
    kernel, attrs = list(node.operands[1].shape[2:]), _window(node)
    if _open_pads(node):
        x, attrs["pads"] = _padded(w, node, x, 0), [0, 0, 0, 0]
    return w.op("Conv", x, weight, kernel_shape=kernel, **attrs)


def _open_pads(node: Node) -> bool:
    """Whether the padding follows from an open size: an attribute cannot say it."""
    return any(map(is_symbolic, node.attrs["pads"]))


def _padded(w: Writer, node: Node, x: str, value: float) -> str:
    """The image with its padding."""
    top, bottom, left, right = node.attrs["pads"]
    return w.op("Pad", x, w.shape((0, 0, top, left, 0, 0, bottom, right)), w.like(value, x))


@maps("conv2d_backward_data")
def _transposed(w: Writer, node: Node, dy: str, weight: str) -> Names:
    kernel, (top, bottom, left, right) = node.operands[1].shape[2:], node.attrs["pads"]
    extra = []
    for k, pads in enumerate((top + bottom, left + right)):
        reach = node.attrs["dilation"][k] * (kernel[k] - 1) + 1
        rows = node.operands[0].shape[2 + k]
        room = node.attrs["size"][k] - (node.attrs["stride"][k] * (rows - 1) + reach - pads)
        if is_symbolic(room):
            raise refuse(node, "its size is open in a way that ConvTranspose cannot say")
        extra.append(room)
    limits = [max(node.attrs["stride"][k], node.attrs["dilation"][k]) for k in range(2)]
    outside = [e if e >= n else 0 for e, n in zip(extra, limits, strict=True)]
    y = w.op("ConvTranspose", dy, weight, kernel_shape=list(kernel), **_window(node),
             output_padding=[e - o for e, o in zip(extra, outside, strict=True)])
    if any(outside):  # rows that no window reached: zeros
        y = w.op("Pad", y, w.ints([0, 0, 0, 0, 0, 0, *outside]))
    return y


# --- pooling --------------------------------------------------------------------------------------


def _sliding(node: Node) -> tuple[list[int], int]:
    """ONNX's pads, and its ceil_mode: more padding says the same where sizes are known."""
    (top, bottom, left, right), attrs = node.attrs["pads"], node.attrs
    if not attrs["ceil_mode"]:
        return [top, left, bottom, right], 0
    x, y = node.operands[0].shape, node.results[0].shape
    if any(is_symbolic(d) for d in (*x[2:], *y[2:])):
        return [top, left, bottom, right], 1
    after = []
    for k, (before, least) in enumerate(((top, bottom), (left, right))):
        reach = attrs.get("dilation", (1, 1))[k] * (attrs["kernel"][k] - 1) + 1
        need = (y[2 + k] - 1) * attrs["stride"][k] + reach - x[2 + k] - before
        after.append(max(need, least))
    return [top, left, *after], 0


def _whole(node: Node) -> bool:
    """Whether the window of a pool is the image.

    Raises:
        ExportError: the window has another open size.
    """
    kernel, size = node.attrs["kernel"], node.operands[0].shape[2:]
    if not any(map(is_symbolic, kernel)):
        return False
    if any(node.attrs["pads"]) or not all(map(surely_equal, kernel, size)):
        raise refuse(node, "its window has an open size, but is not the image")
    return True


def _pads_outside(w: Writer, node: Node, x: str) -> str | None:
    """The image of an average with its padding, where that follows from an open size; None: it
    does not."""
    if not _open_pads(node):
        return None
    if node.attrs["ceil_mode"]:
        raise refuse(node, "its padding is open, and the windows are rounded up")
    return _padded(w, node, x, 0)


@maps("max_pool2d")
def _max_pool(w: Writer, node: Node, x: str) -> Names:
    if _whole(node) and not node.attrs["indices"]:
        return w.op("GlobalMaxPool", x)
    if _open_pads(node) or _whole(node):
        if node.attrs["indices"] or not w.types[x].is_float or node.attrs["ceil_mode"]:
            raise refuse(node, "its padding or its window is open")
        return w.op("MaxPool", _padded(w, node, x, -np.inf), kernel_shape=list(
            node.attrs["kernel"]), strides=list(node.attrs["stride"]),
            dilations=list(node.attrs["dilation"]))
    pads, ceil = _sliding(node)
    attrs = {"kernel_shape": list(node.attrs["kernel"]), "strides": list(node.attrs["stride"]),
             "dilations": list(node.attrs["dilation"]), "pads": pads, "ceil_mode": ceil}
    if not node.attrs["indices"]:
        return w.op("MaxPool", x, **attrs)
    y, at = w.ops("MaxPool", [x], 2, **attrs)
    h, width = node.operands[0].shape[2:]
    plane = w.op("Squeeze", w.size(h * width), w.ints([0]))
    return y, w.op("Mod", at, plane)  # ONNX counts through images and channels


@maps("avg_pool2d")
def _avg_pool(w: Writer, node: Node, x: str) -> Names:
    kernel, divisor = node.attrs["kernel"], node.attrs["divisor"]
    if _whole(node):
        if divisor is not None:
            raise refuse(node, "its window is open, and its divisor is not")
        return w.op("GlobalAveragePool", x)
    if (padded := _pads_outside(w, node, x)) is not None:
        return _avg_of_padded(w, node, x, padded)
    pads, ceil = _sliding(node)
    attrs = {"kernel_shape": list(kernel), "strides": list(node.attrs["stride"]), "ceil_mode": ceil}
    if divisor is not None:
        mean = w.op("AveragePool", x, pads=pads, count_include_pad=1, **attrs)
        return w.op("Mul", mean, w.like(kernel[0] * kernel[1] / divisor, mean))
    top, bottom, left, right = node.attrs["pads"]
    given = [top, left, bottom, right]
    if not node.attrs["count_include_pad"] or not any(pads):
        return w.op("AveragePool", x, pads=pads, count_include_pad=0, **attrs)
    if pads == given and not ceil:
        return w.op("AveragePool", x, pads=pads, count_include_pad=1, **attrs)
    if any(given):  # what was given counts, what rounding up adds does not
        x = w.op("Pad", x, w.ints([0, 0, top, left, 0, 0, bottom, right]))
    rest = [p - g for p, g in zip(pads, given, strict=True)]
    return w.op("AveragePool", x, pads=rest, count_include_pad=0, **attrs)


def _avg_of_padded(w: Writer, node: Node, x: str, padded: str) -> str:
    """The averages of windows over an image with its padding."""
    kernel, divisor = node.attrs["kernel"], node.attrs["divisor"]
    window = {"kernel_shape": list(kernel), "strides": list(node.attrs["stride"])}
    mean = w.op("AveragePool", padded, **window)
    if divisor is not None:
        return w.op("Mul", mean, w.like(kernel[0] * kernel[1] / divisor, mean))
    if node.attrs["count_include_pad"]:
        return mean
    one = w.op("Expand", w.like(1, x), w.shape((1, 1, *node.operands[0].shape[2:])))
    return w.op("Div", mean, w.op("AveragePool", _padded(w, node, one, 0), **window))


_MOST_CUTS = 64  # Windows of an open axis that are cut out one by one


def _of_windows(w: Writer, node: Node, x: str, kind: str) -> str:
    """An adaptive pool of images of open size: rows and then columns of each window are cut out."""
    counts = node.attrs["output_size"]
    if any(map(is_symbolic, counts)) or max(counts) > _MOST_CUTS:
        raise refuse(node, f"images of open size have at most {_MOST_CUTS} windows of a known "
                           "number in a row")
    for axis, count in enumerate(counts, 2):
        size = node.operands[0].shape[axis]
        parts = [reduced(w, kind, cut(w, x, axis, i * size // count, -(-(i + 1) * size // count)),
                         (axis,), True) for i in range(count)]
        x = w.op("Concat", *parts, axis=axis) if count > 1 else parts[0]
    return x


def _even(size: int, windows: int) -> bool:
    return not is_symbolic(size) and size % windows == 0


def _bounds(size: int, windows: int) -> list[range]:
    return [range(i * size // windows, -(-(i + 1) * size // windows)) for i in range(windows)]


def _is_open(node: Node) -> bool:
    return any(is_symbolic(d) for d in (*node.operands[0].shape[2:], *node.attrs["output_size"]))


@maps("adaptive_avg_pool2d")
def _adaptive_avg(w: Writer, node: Node, x: str) -> Names:
    (h, width), (rows, columns) = node.operands[0].shape[2:], node.attrs["output_size"]
    if (rows, columns) == (1, 1):
        return w.op("GlobalAveragePool", x)
    wide = dtypes.float32 if w.types[x].itemsize == 2 else w.types[x]
    if _is_open(node):
        return w.cast(_of_windows(w, node, w.cast(x, wide), "ReduceMean"), w.types[x])
    if _even(h, rows) and _even(width, columns):
        step = [h // rows, width // columns]
        return w.op("AveragePool", x, kernel_shape=step, strides=step)

    def mean(size: int, windows: int) -> np.ndarray:
        matrix = np.zeros((windows, size), np.float64)
        for i, r in enumerate(_bounds(size, windows)):
            matrix[i, r] = 1 / len(r)
        return matrix

    left, right = w.const(mean(h, rows), wide), w.const(mean(width, columns).T, wide)
    return w.cast(w.op("MatMul", w.op("MatMul", left, w.cast(x, wide)), right), w.types[x])


@maps("adaptive_max_pool2d")
def _adaptive_max(w: Writer, node: Node, x: str) -> Names:
    (n, c, h, width), (rows, columns) = node.operands[0].shape, node.attrs["output_size"]
    if not node.attrs["indices"] and (rows, columns) == (1, 1):
        return w.op("GlobalMaxPool", x)
    if _is_open(node):
        if node.attrs["indices"]:
            raise refuse(node, "the size of the images is open, so its places are not known")
        return _of_windows(w, node, x, "ReduceMax")
    if not node.attrs["indices"] and _even(h, rows) and _even(width, columns):
        step = [h // rows, width // columns]
        return w.op("MaxPool", x, kernel_shape=step, strides=step)

    def table(size: int, windows: int) -> np.ndarray:
        """Positions of each window, its last one repeated to the longest one's length."""
        bounds = _bounds(size, windows)
        longest = max(len(r) for r in bounds)
        return np.array([[*r, *[r[-1]] * (longest - len(r))] for r in bounds], np.int64)

    ys, xs = table(h, rows), table(width, columns)
    at = ys[:, None, :, None] * width + xs[None, :, None, :]
    windows, taps = rows * columns, ys.shape[1] * xs.shape[1]
    flat = w.reshape(x, (n, c, h * width))
    seen = w.op("Gather", flat, w.const(at.reshape(windows, taps)), axis=2)
    best = w.op("ArgMax", seen, axis=3, keepdims=1)
    out = w.reshape(w.op("GatherElements", seen, best, axis=3), node.results[0].shape)
    if not node.attrs["indices"]:
        return out
    place = w.op("Add", best, w.const(np.arange(windows).reshape(1, 1, windows, 1) * taps))
    found = w.op("Gather", w.const(at.reshape(-1)), place, axis=0)
    return out, w.reshape(found, node.results[1].shape)
