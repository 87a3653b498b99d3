"""Layout: convolutions and what lies between them move to images with blocked channels.

A convolution kernel that keeps channels in the lanes of a vector needs no copies of its image
(see `backends.cpu.kernels.blocked.conv`). The pass walks the graph once in order, chooses for each
convolution by an estimate of cycles, and carries blocked images through elementwise ops,
concatenation of channels and maximum pools. Reorders stand only where a blocked image meets an op
that needs NCHW. Every op computes the same elements with the same arithmetic: bits stay.

16-bit floats are held as float32 while they are blocked: a kernel that widens what it reads would
do so once for each use. Every op still rounds to its own type, so nothing but memory is wider.

Padding becomes a border: the value is padded with zeros where it is made (lowering writes the
border in the convolution's own stores), and everyone who reads it looks past the border it has
no use for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.dims import estimate, is_symbolic, largest, surely_at_least
from ....ir.graph import Builder, Graph, Node, Value
from ....ir.op import lookup
from ....ir.types import prod
from ....loops.order import LONG_ROW
from ....ops.blocked import BLOCK_DTYPES, SmallKernel, blocks, groups_fit, held
from ....ops.elementwise import Elementwise
from ....passes.base import Pass
from ....passes.cleanup import Dce, Simplify
from ..kernels.blocked.regroup import MOST_BLOCKS

Border = tuple[int, int, int, int]  # Rows and columns around an image: top, bottom, left, right

_CONVOLUTIONS = ("conv2d", "conv2d_backward_data")
_JOINS = ("join", "join_copy")
_TRAINING = "conv2d_backward_weight"
"""Marks a training step, whose backward convolutions read what the forward ones made."""
_FEW_PIXELS = 8
"""Where an image has fewer, lanes of the NCHW kernels are empty, and so is a part of the chains of
the blocked ones."""
_FEW_PIXELS_SHARE = 0.4
_PLAIN_SHARE = 0.6
"""Share of the peak that the NCHW kernels reach, and blocked ones with full vectors."""
_BLOCKED_SHARE = 0.85
_DEPTHWISE_SHARES = (0.2, 0.4)
_NARROW_SHARES = (0.38, 0.42)  # The same of both kinds where a block holds several groups
_REORDER_CYCLES = 0.35  # Cycles to reorder one element


@dataclass(slots=True)
class Image:
    """A blocked form of a value: `value`, its channels, and the border around its pixels."""

    value: Value
    channels: int
    size: tuple[int, int]
    border: Border = (0, 0, 0, 0)
    bare: Value | None = None


def _widest(a: Border, b: Border) -> Border:
    return (_wider(a[0], b[0]), _wider(a[1], b[1]), _wider(a[2], b[2]), _wider(a[3], b[3]))


def _wider(a: int, b: int) -> int:
    """The larger of two widths, which may follow from open sizes."""
    if surely_at_least(a, b):
        return a
    wider: int = b if surely_at_least(b, a) else largest(a, b)
    return wider


def _is_transposed(node: Node) -> bool:
    """Whether a node is a transposed convolution whose windows tile the result: a product with the
    channels of each place in a window."""
    if node.op != "conv2d_backward_data":
        return False
    (dy, w), a = node.operands, node.attrs
    return (a["groups"] == 1 and a["stride"] == w.shape[2:] and not any(a["pads"])
            and (a["dilation"] == (1, 1) or w.shape[2:] == (1, 1))
            and node.result.shape[2:] == (dy.shape[2] * w.shape[2], dy.shape[3] * w.shape[3]))


def _tokens_of(v: Value) -> Value | None:
    """The tokens `[n, h, w, c]` or `[n, h w, c]` that an NCHW value is a transposition of."""
    node = v.node
    if node is None or v.dtype is not held(v.dtype) or any(map(is_symbolic, v.shape)):
        return None
    if node.op == "transpose" and node.attrs["perm"] == (0, 3, 1, 2):
        return node.operands[0]
    turned = node.operands[0].node if node.op == "reshape" else None
    same = turned is not None and turned.op == "transpose" \
        and turned.attrs["perm"] == (0, 2, 1) and turned.result.shape[:2] == v.shape[:2]
    return turned.operands[0] if same and turned is not None else None


def _elementwise(node: Node) -> bool:
    return node.op in ("where", "cast") or isinstance(lookup(node.op), Elementwise)


class Layout(Pass):
    """Choose layouts for a target; see the module."""

    name = "layout"

    def __init__(self, target: Target) -> None:
        self.target = target

    def run(self, graph: Graph) -> bool:
        """See the class; values that enter or leave a region keep NCHW."""
        graphs = [graph]
        for each in graphs:  # (grows)
            graphs += [region for node in each.nodes for region in node.regions]
        if any(node.op == _TRAINING for each in graphs for node in each.nodes):
            return False
        changed = [self._lay_out(each) for each in graphs]
        return any(changed)

    def _lay_out(self, graph: Graph) -> bool:
        """The pass on one graph without its regions."""
        if not any(node.op in _CONVOLUTIONS for node in graph.nodes):
            return False
        choice = Choice(graph, self.target)
        if not choice.convolutions:
            return False
        _Rewriter(graph, choice).run()
        Simplify().run(graph)
        Dce().run(graph)
        return True


class Choice:
    """Which convolutions and values are blocked, and the border each value needs."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.target = target
        self.users = graph.users()
        self.results = set(graph.results())
        self.convolutions: set[Node] = set()
        self.blocked: set[Value] = set()
        self.borders: dict[Value, Border] = {}
        for node in graph.nodes:
            if self._blocks(node):
                self.blocked.update(node.results)
        for node in self.convolutions:
            if node.op == "conv2d":
                self._widen(node.operands[0], node.attrs["pads"])
        # Joined values have the border of the whole: it is written with them, not copied.
        for node in reversed(graph.nodes):
            if node.op in _JOINS and node.result in self.borders and self._whole_blocks(node):
                for v in node.operands:
                    self._widen(v, self.borders[node.result])

    def _widen(self, value: Value, border: Border) -> None:
        if value in self.blocked:
            self.borders[value] = _widest(self.borders.get(value, (0, 0, 0, 0)), border)

    def block(self, value: Value) -> int:
        """Channels of a block of a value."""
        return self.target.lanes(held(value.dtype).itemsize)

    def _blocks(self, node: Node) -> bool:
        """Whether the result of a node is blocked, its operands decided."""
        if node.op == "conv2d" or _is_transposed(node):
            if self._pays(node):
                self.convolutions.add(node)
                return True
            return False
        if node.op == "max_pool2d":
            return node.operands[0] in self.blocked and not node.attrs["indices"]
        if node.op == "avg_pool2d":  # a single window is summed as a reduction is
            return node.operands[0] in self.blocked and estimate(prod(node.result.shape[2:])) > 1
        if node.op == "reduce_sum":
            return self._sums_pixels(node)
        if node.op in _JOINS and node.result.type.rank == 4 and node.attrs["axis"] in (1, -3):
            return all(v in self.blocked for v in node.operands) and (
                self._whole_blocks(node) or self._regroups(node))
        if node.op == "slice":
            return node.operands[0] in self.blocked and self._slices_channels(node) \
                and self._regroups(node)
        return self.passes(node)

    def _whole_blocks(self, join: Node) -> bool:
        """Whether each part of a join fills its blocks."""
        return all(v.shape[1] % self.block(v) == 0 for v in join.operands)

    def _slices_channels(self, node: Node) -> bool:
        """Whether a slice takes neighbouring channels of whole images."""
        x, a = node.operands[0], node.attrs
        if x.type.rank != 4 or any(s != 1 for s in a["step"] or ()):
            return False
        return all(a["start"][i] == 0 and a["stop"][i] == x.shape[i] for i in (0, 2, 3)) \
            and type(a["start"][1]) is type(a["stop"][1]) is int \
            and 0 <= a["start"][1] < a["stop"][1] <= x.shape[1]

    def _regroups(self, node: Node) -> bool:
        """Whether channels may move to other blocks: someone takes them there, and sizes are
        known."""
        out = node.result
        return (not any(map(is_symbolic, (*out.shape, *node.operands[0].shape)))
                and out.type.size > 0 and blocks(out.shape[1], self.block(out)) <= MOST_BLOCKS
                and any(self._carries(u) for u in self.users.get(out, ())))

    def _sums_pixels(self, node: Node) -> bool:
        """Whether a node adds up all pixels of a blocked image, in rows that are not cut."""
        x, size = node.operands[0], node.operands[0].shape[2:]
        return (x in self.blocked and node.attrs["axes"] == (2, 3) and node.attrs["keepdims"]
                and x.dtype is held(x.dtype) and not any(map(is_symbolic, size))
                and 0 < prod(size) < LONG_ROW)

    def passes(self, node: Node) -> bool:
        """Whether an elementwise node computes on blocked images."""
        if not _elementwise(node):
            return False
        out = node.result
        if not any(v in self.blocked and v.shape == out.shape for v in node.operands):
            return False
        large = [v for v in (*node.operands, out) if v.type.size != 1]
        numbers = {held(v.dtype) for v in large if v.dtype.kind != "bool"}
        if len(numbers) != 1 or not numbers.issubset(BLOCK_DTYPES):
            return False
        if any(v not in self.blocked for v in large
               if v is not out and held(v.dtype) not in numbers):
            return False
        # A condition has no NCHW form to go back to: only what chooses by it may read it.
        return held(out.dtype) in numbers or (out not in self.results and all(
            u.op == "where" and held(u.result.dtype) in numbers and u.result.shape == out.shape
            for u in self.users.get(out, ())))

    # --- estimates ------------------------------------------------------------------------------

    def _pays(self, node: Node) -> bool:
        x, w = node.operands
        if held(x.dtype) not in BLOCK_DTYPES or node.result.type.size == 0:
            return False
        n, oc, oh, ow = map(estimate, node.result.shape)
        block = self.block(x)
        groups = node.attrs["groups"]
        if not groups_fit(x.shape[1], oc, groups, block):
            return False
        if any(map(is_symbolic, x.shape[2:])):  # (tiles of a row waste less than those of a plane)
            return min(oh * ow, estimate(prod(x.shape[2:]))) >= 2 * block
        if node.op != "conv2d":  # each pixel that is read gives a window of the result
            oh, ow = map(estimate, x.shape[2:])
        work = n * oh * ow * prod(w.shape) / (2 * block)
        filled = oc / (blocks(oc, block) * block)
        if groups > 1 and w.shape[1] < block:
            shares = _DEPTHWISE_SHARES if w.shape[1] == 1 else _NARROW_SHARES
            plain, blocked = work / shares[0], work / (shares[1] * filled)
        else:
            plain, blocked = work / _PLAIN_SHARE, work / (_BLOCKED_SHARE * filled)
        if oh * ow < _FEW_PIXELS:
            plain /= min(1.0, n * oh * ow / block)
            blocked *= _BLOCKED_SHARE / _FEW_PIXELS_SHARE
        if x in self.blocked:
            plain += _REORDER_CYCLES * estimate(x.type.size)
        elif (x.shape[1] >= block or groups > 1) and _tokens_of(x) is None:
            blocked += _REORDER_CYCLES * estimate(x.type.size)
        if node.result in self.results or not any(
                self._carries(u) for u in self.users.get(node.result, ())):
            blocked += _REORDER_CYCLES * estimate(node.result.type.size)
        return blocked < plain

    def _to_rows(self, user: Node) -> bool:
        """Whether a reader moves channels to the end: of blocks those are whole runs."""
        if user.op == "reshape" and user.result.type.rank == 3:
            return any(u.op == "transpose" and u.attrs["perm"] == (0, 2, 1)
                       for u in self.users.get(user.result, ()))
        return user.op == "transpose" and user.attrs["perm"] == (0, 2, 3, 1)

    def _carries(self, user: Node) -> bool:
        """Whether a reader of a blocked image may take it as it is."""
        return (user.op in ("conv2d", "max_pool2d", "avg_pool2d", *_JOINS) or _is_transposed(user)
                or (user.op == "slice" and self._slices_channels(user)) or self._to_rows(user)
                or _elementwise(user))


class _Rewriter:
    """Rebuilds a graph under a choice."""

    def __init__(self, graph: Graph, choice: Choice) -> None:
        self.graph = graph
        self.choice = choice
        self.fresh = Graph(graph.name)
        self.b: Any = Builder(self.fresh)
        self.plain: dict[Value, Value] = {}
        self.images: dict[Value, Image] = {}
        self.narrow: dict[Value, Value] = {}
        self.moved: dict[Value, Value] = {}
        self.flat: dict[Value, Value] = {}

    def run(self) -> None:
        """Rewrite the graph in place."""
        for node in self.graph.nodes:
            self.b.span, self.b.scope = node.span, node.scope
            if node in self.choice.convolutions:
                make = self._convolution if node.op == "conv2d" else self._transposed
                self._keep(node.result, make(node))
            elif node.results and node.results[0] in self.choice.blocked:
                self._keep(node.result, self._carried(node))
            else:
                source = self._channels_moved_last(node)
                if source is not None:
                    self.moved[node.result] = self._rows(source, node.result.shape)
                    continue
                if node.op == "reshape" and node.result.type.rank == 3 \
                        and node.operands[0].shape[:2] == node.result.shape[:2]:
                    self.flat[node.result] = node.operands[0]
                node.operands = [self.nchw(v) for v in node.operands]
                self.fresh.nodes.append(node)
        self.graph.outputs = [self.nchw(v) for v in self.graph.outputs]
        self.graph.updates = [(old, self.nchw(new)) for old, new in self.graph.updates]
        self.graph.nodes = self.fresh.nodes

    # --- forms of a value -----------------------------------------------------------------------

    def nchw(self, v: Value) -> Value:
        """A value in NCHW."""
        if v not in self.choice.blocked:
            return self.moved.get(v, v)
        found = self.plain.get(v)
        if found is None and self._is_vector(v) and not any(self.images[v].border):
            found = self.plain[v] = self._as(
                self._reshaped(self.images[v].value, v.shape), v.dtype)
        if found is None:
            im = self.images[v]
            origin = (im.border[0], im.border[2])
            found = self.plain[v] = self.b.from_blocked(
                im.value, channels=im.channels, size=im.size, origin=origin,
                dtype=None if im.value.dtype is v.dtype else v.dtype)
        return found

    def _is_vector(self, v: Value) -> bool:
        """Whether an image of one pixel fills its blocks: both forms then lie in memory alike."""
        return v.shape[2:] == (1, 1) and v.shape[1] % self.choice.block(v) == 0

    def image(self, v: Value) -> Image:
        """A value as a blocked image."""
        found = self.images.get(v)
        if found is None and self._is_vector(v):
            value = self._vector(self._as(v, held(v.dtype)))
            found = self.images[v] = Image(value, v.shape[1], (1, 1))
        if found is None:
            rows = self._channels_moved_first(v)
            value = self.b.to_blocked(
                v if rows is None else rows, block=self.choice.block(v), last=rows is not None)
            found = self.images[v] = Image(value, v.shape[1], (v.shape[2], v.shape[3]))
        return found

    # --- channels last ------------------------------------------------------------------------

    def _channels_moved_first(self, v: Value) -> Value | None:
        """The `[n, h, w, c]` that an NCHW value is a transposition of: its blocks are whole runs
        of that."""
        rows = _tokens_of(v)
        n, c, h, w = v.shape
        return None if rows is None else self._reshaped(rows, (n, h, w, c))

    def _channels_moved_last(self, node: Node) -> Value | None:
        """The blocked image whose channels a node moves to the end."""
        if node.op != "transpose":
            return None
        v, perm = node.operands[0], node.attrs["perm"]
        if perm == (0, 2, 1) and v in self.flat:
            pixels = v.shape[2]
            v = self.flat[v]
            perm = (0, 2, 3, 1) if v.shape[2] * v.shape[3] == pixels else perm
        if perm != (0, 2, 3, 1) or v not in self.choice.blocked \
                or v.dtype is not held(v.dtype) or any(map(is_symbolic, v.shape)):
            return None
        return v

    def _rows(self, v: Value, shape: Sequence[int]) -> Value:
        """A blocked image as `[n, h, w, c]`, in a given shape."""
        im = self.images[v]
        rows = self.b.from_blocked(im.value, channels=im.channels, size=im.size,
                                   origin=(im.border[0], im.border[2]), last=True)
        return self._reshaped(rows, tuple(shape))

    def bare(self, im: Image) -> Value:
        """The pixels of an image without its border."""
        if not any(im.border):
            return im.value
        if im.bare is None:
            dims, (top, _, left, _) = im.value.shape, im.border
            im.bare = self.b.slice(
                im.value, start=(0, 0, top, left, 0),
                stop=(dims[0], dims[1], top + im.size[0], left + im.size[1], dims[4]))
        return im.bare

    def _keep(self, v: Value, value: Value) -> None:
        """Note the blocked form of a value, with the border its readers need."""
        _, channels, h, w = v.shape
        if value.dtype is not held(value.dtype):
            self.narrow[v] = value
            value = self._as(value, held(value.dtype))
        border = self.choice.borders.get(v, (0, 0, 0, 0))
        if value.shape[2:4] == (h, w):  # else it has its border already
            value = self._padded(value, border)
        self.images[v] = Image(value, channels, (h, w), border)

    def _padded(self, value: Value, border: Border) -> Value:
        top, bottom, left, right = border
        if not any(border):
            return value
        out: Value = self.b.pad(value, low=(0, 0, top, left, 0), high=(0, 0, bottom, right, 0))
        return out

    # --- nodes ----------------------------------------------------------------------------------

    def _convolution(self, node: Node) -> Value:
        (x, w), a = node.operands, node.attrs
        block = self.choice.block(x)
        im = self._source(x, a["pads"], a["groups"])
        origin = (im.border[0] - a["pads"][0], im.border[2] - a["pads"][2])
        attrs = {"block": block, "size": node.result.shape[2:], "origin": origin,
                 **{name: a[name] for name in ("stride", "dilation", "groups")}}
        out: Value
        if w.node is not None and w.node.op == SmallKernel.name and block > 1:
            out = self.b.small_conv2d_blocked(im.value, *w.node.operands, **w.node.attrs, **attrs)
        else:
            out = self.b.conv2d_blocked(im.value, self.nchw(w), **attrs)
        return self._as(out, x.dtype)

    def _transposed(self, node: Node) -> Value:
        (x, w), block = node.operands, self.choice.block(node.result)
        ic, oc, kh, kw = w.shape
        im = self._source(x, (0, 0, 0, 0), 1)
        weights = self.b.transpose(self.nchw(w), perm=(2, 3, 1, 0))
        if oc % block:
            weights = self.b.pad(weights, low=(0,) * 4, high=(0, 0, -oc % block, 0))
        weights = self._reshaped(weights, (kh * kw * blocks(oc, block) * block, ic, 1, 1))
        out: Value = self.b.conv2d_blocked(
            im.value, weights, block=block, size=x.shape[2:],
            origin=(im.border[0], im.border[2]), spread=(kh, kw))
        return self._as(out, x.dtype)

    def _source(self, x: Value, pads: Border, groups: int) -> Image:
        """The image a convolution reads, with at least its border."""
        if x in self.images and x in self.choice.blocked:
            return self.images[x]
        _, c, h, w = x.shape
        if c < self.choice.block(x) and groups == 1:  # NCHW is blocks of one channel
            top, bottom, left, right = pads
            x = self._as(x, held(x.dtype))
            if any(pads):
                x = self.b.pad(x, low=(0, 0, top, left), high=(0, 0, bottom, right))
            return Image(self.b.reshape(x, shape=(*x.shape, 1)), c, (h, w), pads)
        im = self.image(x)
        if im.border != _widest(im.border, pads):
            return Image(self._padded(self.bare(im), pads), c, (h, w), pads)
        return im

    def _carried(self, node: Node) -> Value:
        """An elementwise op, concatenation, pool or sum on blocked images."""
        out: Value
        if node.op in ("max_pool2d", "avg_pool2d"):
            im = self.images[node.operands[0]]
            attrs = {k: v for k, v in node.attrs.items() if k != "indices"}
            inner = (im.border[0], im.border[2], *im.size)
            out = self.b.emit(f"{node.op}_blocked", im.value, inner=inner, **attrs)
            out = self._as(out, node.result.dtype)
        elif node.op == "reduce_sum":
            im = self.images[node.operands[0]]
            out = self.b.pixel_sum_blocked(
                im.value, size=im.size, origin=(im.border[0], im.border[2]))
        elif node.op == "slice" or (
                node.op in _JOINS and not self.choice._whole_blocks(node)):
            out = self._regrouped(node)
        elif node.op in _JOINS:
            border = self.choice.borders.get(node.result)
            parts = [self.images[v] for v in node.operands]
            whole = all(im.border == border for im in parts)
            out = self.b.emit(
                node.op, *(im.value if whole else self.bare(im) for im in parts), axis=1)
        else:
            shape = node.result.shape
            operands = [self._operand(v, shape) for v in node.operands]
            out = self.b.emit(node.op, *operands, **node.attrs)
        return out

    def _regrouped(self, node: Node) -> Value:
        """A slice or a join of channels that move to other places in their blocks."""
        parts = [self.images[v] for v in node.operands]
        first = node.attrs["start"][1] if node.op == "slice" else 0
        out: Value = self.b.regroup_blocked(
            *(im.value for im in parts), channels=tuple(im.channels for im in parts),
            origins=tuple(o for im in parts for o in (im.border[0], im.border[2])),
            size=parts[0].size, start=first, stop=first + node.result.shape[1])
        return out

    def _operand(self, v: Value, shape: Sequence[int]) -> Value:
        """An operand of an elementwise op whose result has `shape` in NCHW."""
        channels = shape[1]
        if v in self.choice.blocked and v.shape[1] == channels:
            if v in self.narrow and len(self.choice.users[v]) == 1:
                return self.narrow[v]  # rounded once, and nobody else needs it wide
            return self._as(self.bare(self.images[v]), v.dtype)
        v = self.nchw(v)
        dims = (1,) * (4 - v.type.rank) + v.shape
        if dims[1] == 1 != channels or v.type.size == 1:
            return self._reshaped(v, (*dims, 1) if v.type.rank else ())
        if dims[2:] != (1, 1):
            return self._as(self.bare(self.image(self._reshaped(v, dims))), v.dtype)
        return self._vector(self._reshaped(v, dims))

    def _vector(self, v: Value) -> Value:
        """A value per channel, `[n, C, 1, 1]`, in blocks."""
        n, c = v.shape[:2]
        block = self.choice.block(v)
        if c % block:
            v = self.b.pad(v, low=(0,) * 4, high=(0, -c % block, 0, 0))
        return self._reshaped(v, (n, blocks(c, block), 1, 1, block))

    def _as(self, v: Value, dtype: DType) -> Value:
        out: Value = v if v.dtype is dtype else self.b.cast(v, dtype=dtype)
        return out

    def _reshaped(self, v: Value, shape: tuple[int, ...]) -> Value:
        out: Value = v if v.shape == shape else self.b.reshape(v, shape=shape)
        return out
