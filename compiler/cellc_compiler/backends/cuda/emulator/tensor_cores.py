"""Products of tensor cores: `ldmatrix`, `mma.sync` and `wgmma`, once for all lanes of a warp.

Fragments lie in lanes, and operands in shared memory, as the PTX manual says (sections "Matrix
fragments", "Shared memory matrix layout", "Matrix descriptor"). An element is one chain of fused
multiply-adds in float32 over k ascending, from the accumulator on: a promise of the emulator, not
of tensor cores, which add several products at once and round otherwise.

A `wgmma` reads its operands at any time until its group is waited for: what it read is summed up,
and summed up again then; an error if it changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...llvm.math.lanes import X
from ...llvm.notation import read_code
from ...llvm.text import V
from ...plain.writer import PlainFunction
from ..code import HOST, WARP
from .async_copies import COPIES_END

PRODUCTS = 64  # Products that a warp may have under way
STRUCTURES = {"product": tuple((name, "i64") for name in ("a", "b", "shape", "group", "sum"))}
_PRODUCT_BYTES = 40
PRODUCTS_AT = COPIES_END
PRODUCTS_END = PRODUCTS_AT + PRODUCTS * 32 * _PRODUCT_BYTES

KINDS = ("f16", "bf16", "tf32")  # Types of operands
_HASH = 1099511628211  # Fowler, Noll, Vo


def groups_code() -> str:
    """The functions of groups of products, in the notation of the host's."""
    return read_code(__file__, "tensor_cores", PRODUCTS=PRODUCTS, PRODUCTS_AT=PRODUCTS_AT,
                  PRODUCT_BYTES=_PRODUCT_BYTES, WARP=WARP)


def entries() -> str:
    """Return the functions of kernels: each lane passes the places of its operands and results."""
    names = ["ldmatrix", "ldmatrix_trans", *(f"{op}_{k}" for op in ("mma", "wgmma") for k in KINDS)]
    return "".join(f"""
define hidden void @cellc_emulated_{name}(ptr %thread, ptr %data) nounwind {{
  @meet(%thread, @{name}, %data)
}}
""" for name in names)


Structures = Mapping[str, Sequence[tuple[str, str]]]


class _Operation(PlainFunction):
    """A function of the emulator, written with the structures of the notation."""

    def __init__(
        self, name: str, params: Sequence[tuple[str, str]], structures: Structures,
        ret: str = "void",
    ) -> None:
        super().__init__(name, params, HOST, ret, "internal")
        self.structures = structures

    def x(self, name: str) -> X:
        """A parameter."""
        return X(self, self.arg(name))

    def field(self, name: str, member: str, base: V) -> V:
        """The value of a field of a structure."""
        names = [n for n, _ in self.structures[name]]
        at = names.index(member)
        place = self.emit("ptr", f"getelementptr %{name}, {base}, i32 0, i32 {at}")
        return self.load(self.structures[name][at][1], place)

    def lane_data(self, lane: X | int) -> V:
        """Return the argument of a lane."""
        index = lane.v if isinstance(lane, X) else self.i64(lane)
        return self.field("thread", "data", self.gep(self.arg("warp"), index, "%thread"))

    def fail(self, launch: V, code: int) -> None:
        """Remember an error."""
        self.line(f"call void @fail({launch}, i64 {code})")

    def put(self, value: V, base: V, at: X) -> None:
        """An element of an array."""
        self.store(value, self.gep(base, at.v, value.ty))

    def widened(self, bits: V, kind: str) -> V:
        """An operand's element as float32: an i16, or an i32 whose low bits are not looked at."""
        if kind == "f16":
            return self.cast("fpext", self.cast("bitcast", bits, "half"), "float")
        if kind == "bf16":
            wide = self.binary("shl", self.cast("zext", bits, "i32"), V("i32", "16"))
            return self.cast("bitcast", wide, "float")
        kept = self.binary("and", bits, V("i32", str(-1 << 13)))
        return self.cast("bitcast", kept, "float")


def operations(structures: Structures) -> str:
    """The text of what is done once for a warp."""
    functions = [_ldmatrix("ldmatrix", False, structures), _ldmatrix("ldmatrix_trans", True,
                                                                     structures)]
    functions += [_mma(kind, structures) for kind in KINDS]
    functions += [_gather(structures), _operands(structures)]
    functions += [_wgmma(kind, structures) for kind in KINDS]
    declares = sorted({d for f in functions for d in f.declares})
    return "\n".join([*(f.text() for f in functions), *declares]) + "\n"


def _ldmatrix(name: str, trans: bool, structures: Structures) -> _Operation:
    """Four matrices of 8 x 8 elements of 2 bytes: lane 8 i + r gives the address of row r of matrix
    i; lane l gets elements 2 (l % 4) and the next of row l / 4, of the transposed one if asked."""
    f = _Operation(name, [("ptr", "warp")], structures)
    launch = f.field("thread", "launch", f.arg("warp"))
    with f.each(4) as (matrix,):
        with f.each(8) as (r,):
            row = f.load("ptr", f.lane_data(matrix * 8 + r))
            good = f.call("is_shared", "i1", launch, row, f.i64(16), f.i64(16))
            with f.given(~X(f, good)):
                f.fail(launch, 704)
        with f.each(WARP) as (lane,):
            for e in (0, 1):
                across, along = lane >> 2, ((lane & 3) << 1) + e
                if trans:
                    across, along = along, across
                row = f.load("ptr", f.lane_data(matrix * 8 + across))
                bits = f.load("i16", f.gep(row, along.v, "i16"))
                f.put(bits, f.gep(f.lane_data(lane), 8), (matrix << 1) + e)
    f.ret_()
    f.declares = {d for d in f.declares if "@is_shared" not in d}
    return f


def _mma(kind: str, structures: Structures) -> _Operation:
    """C += A B of 16 x 8 elements: registers of A, B and C as 4, 2 and 4 words; C is replaced."""
    f = _Operation(f"mma_{kind}", [("ptr", "warp")], structures)
    depth = 8 if kind == "tf32" else 16
    a, b, c = f.alloca(16 * depth * 4), f.alloca(depth * 8 * 4), f.alloca(16 * 8 * 4)
    with f.each(WARP) as (lane,):
        data, g, t = f.lane_data(lane), lane >> 2, lane & 3
        for i in range(4):
            for e, k in _depths(t, i >> 1, kind):
                value = f.widened(_element(f, data, i, e, kind), kind)
                f.put(value, a, (g + 8 * (i & 1)) * depth + k)
            f.put(f.load("float", f.gep(data, 24 + 4 * i)), c,
                  (g + 8 * (i >> 1)) * 8 + t * 2 + (i & 1))
        for i in range(2):
            for e, k in _depths(t, i, kind):
                f.put(f.widened(_element(f, data, 4 + i, e, kind), kind), b, k * 8 + g)
    with f.each(16) as (row,):
        at = f.gep(c, (row * 8).v, "float")
        total = f.load("<8 x float>", at)
        for step in range(depth):
            x = f.load("float", f.gep(a, (row * depth + step).v, "float"))
            total = f.fma(f.splat(x, 8), f.load("<8 x float>", f.gep(b, 32 * step)), total)
        f.store(total, at)
    with f.each(WARP) as (lane,):
        data, g, t = f.lane_data(lane), lane >> 2, lane & 3
        for i in range(4):
            at = f.gep(c, ((g + 8 * (i >> 1)) * 8 + t * 2 + (i & 1)).v, "float")
            f.store(f.load("float", at), f.gep(data, 24 + 4 * i))
    f.ret_()
    return f


def _depths(t: X, half: int, kind: str) -> list[tuple[int, X]]:
    """The places along k of the elements of a register, in a half of them."""
    if kind == "tf32":
        return [(0, t + 4 * half)]
    return [(e, t * 2 + (e + 8 * half)) for e in (0, 1)]


def _element(f: _Operation, data: V, word: int, e: int, kind: str) -> V:
    if kind == "tf32":
        return f.load("i32", f.gep(data, 4 * word))
    return f.load("i16", f.gep(data, 4 * word + 2 * e))


_GATHER = [("ptr", "launch"), ("i64", "descriptor"), ("i64", "transposed"), ("i64", "first"),
           ("i64", "extent"), ("ptr", "out")]


def _gather(structures: Structures) -> _Operation:
    """`extent` rows of an operand, from one on, 16 elements of k each: `[row][k]`, or `[k][row]` if
    it is transposed. Gives a sum over what was read.

    A descriptor holds the address in 16 bytes, the distances of 64 rows and of 8 of them (of k, if
    transposed), and that memory is swizzled by 128 bytes.
    """
    f = _Operation("gather", _GATHER, structures, "i64")
    launch, word = f.arg("launch"), f.x("descriptor")
    base, size = f.field("launch", "shared", launch), X(f, f.field("launch", "bytes", launch))
    start, leading, stride = ((word >> s & 0x3FFF) << 4 for s in (0, 16, 32))
    good = (word >> 62).cmp("eq", 1) & (word >> 49 & 7).cmp("eq", 0)
    with f.given(~good):
        f.fail(launch, 703)
    transposed = f.x("transposed").cmp("ne", 0)
    lines, total = f.x("extent") * 2, f.var(f.i(14695981039346656037 - (1 << 64)))
    per_line = f.x("extent") >> 3
    with f.each(lines) as (n,):
        r, half = (n >> 1) + f.x("first"), n & 1
        plain = (r >> 3) * stride + ((r & 7) << 7) + (half << 4)
        k, chunk = n.op("udiv", per_line), n.op("urem", per_line)
        mn = (chunk << 3) + f.x("first")
        other = (mn >> 6) * leading + (k >> 3) * stride + ((k & 7) << 7) + ((mn & 63) << 1)
        at = start + transposed.where(other, plain)
        at = at ^ ((at >> 7 & 7) << 4)
        inside = good & at.cmp("ule", size - 16)
        with f.given(~inside):
            f.fail(launch, 703)
        with f.given(inside):
            chunk16 = f.load("<2 x i64>", f.gep(base, at.v), 16)
            f.store(chunk16, f.gep(f.arg("out"), (n << 4).v), 16)
            for i in range(2):
                total.set((total.get() ^ X(f, f.extract(chunk16, i))) * _HASH)
    f.ret_(total.get().v)
    return f


_OPERANDS = [("ptr", "launch"), ("i64", "a"), ("i64", "b"), ("i64", "shape"), ("i64", "rank"),
             ("ptr", "as"), ("ptr", "bs")]


def _operands(structures: Structures) -> _Operation:
    """Both operands of a warp's part of a `wgmma`, to where they are wanted; their sum. The shape
    is n, and bits 16 and 17 where A and B are transposed."""
    f = _Operation("operands", _OPERANDS, structures, "i64")
    shape, scratch = f.x("shape"), f.alloca(16 * 256 * 2)
    null = V("ptr", "null")

    def place(name: str) -> V:
        given = f.arg(name)
        return f.select(f.cmp("eq", given, null), scratch, given)

    def read(name: str, out: str, bit: int, first: X, extent: X) -> X:
        return X(f, f.call("gather", "i64", f.arg("launch"), f.arg(name), (shape >> bit & 1).v,
                           first.v, extent.v, place(out)))

    first = read("a", "as", 16, f.x("rank") << 4, f.i(16))
    second = read("b", "bs", 17, f.i(0), shape & 0xFFFF)
    f.ret_(((first * _HASH) ^ second).v)
    f.declares = set()
    return f


def _wgmma(kind: str, structures: Structures) -> _Operation:
    """A warp's 16 of the 64 rows of C += A B: each lane gives both descriptors, the shape and the
    accumulators, which are replaced."""
    f = _Operation(f"wgmma_{kind}", [("ptr", "warp")], structures)
    warp, data = f.arg("warp"), f.lane_data(0)
    launch = f.field("thread", "launch", warp)
    a, b, word = (f.load("i64", f.gep(data, 8 * i)) for i in range(3))
    tid = X(f, f.cast("zext", f.field("thread", "tid", warp), "i64"))
    shape, rank = X(f, word), tid >> 5 & 3
    narrow_a, narrow_b = f.alloca(16 * 16 * 2), f.alloca(16 * 256 * 2)
    with f.given(X(f, f.call("is_uniform", "i1", warp, f.i64(3)))):
        total = f.call("operands", "i64", launch, a, b, word, rank.v, narrow_a, narrow_b)
        with f.given(X(f, f.call("begin_product", "i1", warp, a, b, word, total))):
            _accumulate(f, kind, shape, narrow_a, narrow_b)
    f.ret_()
    f.declares = {d for d in f.declares if "@llvm." in d}
    return f


def _accumulate(f: _Operation, kind: str, shape: X, narrow_a: V, narrow_b: V) -> None:
    """The products of 16 rows and n columns, sixteen columns at a time. Rows of k have 32 bytes;
    those of 4-byte elements are never transposed."""
    n = shape & 0xFFFF
    depth, ty = (8, "i32") if kind == "tf32" else (16, "i16")
    wide_a, wide_b, c = f.alloca(16 * 16 * 4), f.alloca(16 * 256 * 4), f.alloca(16 * 256 * 4)
    for narrow, wide, bit, extent in ((narrow_a, wide_a, 16, f.i(16)), (narrow_b, wide_b, 17, n)):
        transposed = (shape >> bit & 1).cmp("ne", 0)
        along_row, along_k = transposed.where(f.i(1), f.i(depth)), transposed.where(extent, f.i(1))
        with f.each(extent, depth) as (r, k):
            at = f.gep(narrow, (r * along_row + k * along_k).v, ty)
            where = r * depth + k if wide is wide_a else k * n + r
            f.put(f.widened(f.load(ty, at), kind), wide, where)
    _exchange(f, n, c, False)
    with f.each(16, n >> 4) as (row, block):
        at = f.gep(c, (row * n + (block << 4)).v, "float")
        total = [f.load("<8 x float>", f.gep(at, 32 * h)) for h in (0, 1)]
        for step in range(depth):
            x = f.splat(f.load("float", f.gep(wide_a, (row * depth + step).v, "float")), 8)
            y = f.gep(wide_b, (n * step + (block << 4)).v, "float")
            total = [f.fma(x, f.load("<8 x float>", f.gep(y, 32 * h)), total[h]) for h in (0, 1)]
        for h in (0, 1):
            f.store(total[h], f.gep(at, 32 * h))
    _exchange(f, n, c, True)


def _exchange(f: _Operation, n: X, c: V, back: bool) -> None:
    """Accumulators of lanes to an array of 16 rows, or back: register 4 j + 2 h + e of lane l is
    row l / 4 + 8 h, column 8 j + 2 (l % 4) + e."""
    with f.each(WARP) as (lane,):
        held = f.gep(f.lane_data(lane), 24)
        with f.each(n >> 1) as (i,):
            row = (lane >> 2) + ((i >> 1 & 1) << 3)
            column = ((i >> 2) << 3) + ((lane & 3) << 1) + (i & 1)
            own, there = f.gep(held, i.v, "float"), f.gep(c, (row * n + column).v, "float")
            source, to = (there, own) if back else (own, there)
            f.store(f.load("float", source), to)
