"""Products of matrices and vectors: every one is a batched matmul with views around it.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cellc_runtime.dtypes import int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, scan
from ...core.native import native
from ...tensors.promotion import operands
from ...tensors.tensor import Tensor
from ..arguments import axis_of, integer, ints, is_int, own_axis, ranked, repeated, tensor
from ..operands import operands_of
from . import arith, creation, grid, joining, shapes

Ints = tuple[int, ...]


def _pair(what: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    a, b = operands(what, tensor(x, what), tensor(y, what, "other"))
    return arith.as_numbers(a, b)


@native
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product over the last two axes; leading axes broadcast.

    A vector on the left is a row, on the right a column; its axis is dropped from the result.
    """
    x, y = _pair("matmul", input, other)
    if x.ndim == 0 or y.ndim == 0:
        raise misuse("matmul", "operands must have at least one axis")
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise misuse("matmul", f"the last axis of input {x.shape} must be as long as the "
                     f"{'second to last' if y.ndim > 1 else 'only'} axis of other {y.shape}")
    a = shapes.expand_dims(x, 0) if x.ndim == 1 else x
    b = shapes.expand_dims(y, 1) if y.ndim == 1 else y
    out: Tensor = apply("matmul", a, b)
    if x.ndim == 1:
        out = shapes.squeeze(out, -2)
    return shapes.squeeze(out, -1) if y.ndim == 1 else out


@native
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The matrix product input @ mat2: (n, m) and (m, p) give (n, p). Other numbers of axes are a
    ValueError."""
    return matmul(ranked(input, 2, 2, "mm", "input"), ranked(mat2, 2, 2, "mm", "mat2"))


@native
def bmm(input_x: Tensor, mat2: Tensor) -> Tensor:
    """input_x[i] @ mat2[i] for each i: (b, n, m) and (b, m, p) give (b, n, p), two matrices their
    product. Lengths that do not fit are a ValueError."""
    x, y = operands_of("bmm", "input_x (..., n, m), mat2 (..., m, k)", input_x, mat2)
    return matmul(x, y)


@native
def mv(mat: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector: (n, m) and (m,) give (n,), the sum of mat[i, j] vec[j]
    over j."""
    return matmul(ranked(mat, 2, 2, "mv", "mat"), ranked(vec, 1, 1, "mv", "vec"))


@native
def dot(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last axis of input and the second to last (or only) of other."""
    x, y = _pair("dot", input, other)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return tensordot(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)))


@native
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sum of products over the last axes of both: (..., n) and (m, n) give (..., m). Scalars
    are multiplied."""
    x, y = _pair("inner", input, other)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@native
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The products of every element of one vector with every one of another: (n,) and (m,) give (n,
    m)."""
    x, y = _pair("outer", ranked(input, 1, 1, "outer", "input"),
                 ranked(vec2, 1, 1, "outer", "vec2"))
    return shapes.expand_dims(x, 1) * y


ger = outer


@native
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of the input times the whole of `other`; (a, b) and (c,
    d) give (a c, b d)."""
    x, y = _pair("kron", input, other)
    n = max(x.ndim, y.ndim)
    a, b = (1,) * (n - x.ndim) + x.shape, (1,) * (n - y.ndim) + y.shape
    left = shapes.reshape(x, tuple(d for p in a for d in (p, 1)))
    right = shapes.reshape(y, tuple(d for p in b for d in (1, p)))
    return shapes.reshape(left * right, tuple(p * q for p, q in zip(a, b, strict=True)))


@native
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of 3 along an axis (the first of length 3 if dim is None)."""
    x, y = _pair("cross", input, other)
    if dim is None:
        dim = next((i for i, d in enumerate(x.shape) if d == 3), -1)
    a = own_axis(dim, x.ndim, "cross", "dim")
    if x.ndim != y.ndim or x.shape[a] != 3 or y.shape[a] != 3:
        raise misuse("cross", f"'input' and 'other' must have as many axes and axis {a} length 3, "
                     f"but have the shapes {x.shape} and {y.shape}")
    ahead, back = (joining.roll(v, -1, a) for v in (x, y)), (joining.roll(v, -2, a) for v in (x, y))
    (x1, y1), (x2, y2) = tuple(ahead), tuple(back)
    return arith.mul(x1, y2) - arith.mul(x2, y1)


# --- with an addend -------------------------------------------------------------------------------


def _scale(x: Tensor, by: Any) -> Tensor:
    return x if by == 1 else arith.mul(x, by)


def _add_product(input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _scale(input, beta) + _scale(product, alpha)


@native
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) for matrices (n, m) and (m, p) and an input that
    broadcasts to (n, p)."""
    return _add_product(input, mm(mat1, mat2), beta, alpha)


@native
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec) for a matrix (n, m), a vector (m,) and an input that
    broadcasts to (n,)."""
    return _add_product(input, mv(mat, vec), beta, alpha)


@native
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * outer(vec1, vec2) for vectors (n,) and (m,) and an x that broadcasts to
    (n, m)."""
    return _add_product(x, outer(vec1, vec2), beta, alpha)


@native
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2) for batches (b, n, m) and (b, m, p) and an input
    that broadcasts to (b, n, p)."""
    return _add_product(input, bmm(batch1, batch2), beta, alpha)


@native
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * sum of batch1[i] @ batch2[i] over i, for batches (b, n, m) and (b, m,
    p) and an input that broadcasts to (n, p)."""
    product: Tensor = apply("reduce_sum", bmm(batch1, batch2), axes=(0,), keepdims=False)
    return _add_product(input, product, beta, alpha)


# --- over chosen axes -----------------------------------------------------------------------------


def _axes_pair(axes: Any, x: Tensor, y: Tensor) -> tuple[Ints, Ints]:
    if is_int(axes):
        n = int(axes)
        return tuple(range(x.ndim - n, x.ndim)), tuple(range(n))
    if not isinstance(axes, (list, tuple)) or len(axes) != 2:
        raise misuse("tensor_dot", "'axes' must be an int or two of axes", axes)
    first, second = ((a,) if is_int(a) else ints(a, "tensor_dot", "axes") for a in axes)
    if len(first) != len(second):
        raise misuse("tensor_dot", "both must have equally many axes", axes)
    return (tuple(axis_of(a, x.ndim, "tensor_dot", "axes") for a in first),
            tuple(axis_of(a, y.ndim, "tensor_dot", "axes") for a in second))


@native
def tensordot(x1: Tensor, x2: Tensor, axes: Any = 2) -> Tensor:
    """The sums of products over axes of x1 and as many axes of x2.

    Args:
        axes: n: the last n of x1 and the first n of x2; or two axes, or two tuples of axes.
    """
    x, y = _pair("tensor_dot", x1, x2)
    first, second = _axes_pair(axes, x, y)
    if any(x.shape[a] != y.shape[b] for a, b in zip(first, second, strict=True)):
        raise misuse("tensor_dot",
                     f"axes {first} of {x.shape} and {second} of {y.shape} must be equally long")
    rest_x = tuple(i for i in range(x.ndim) if i not in first)
    rest_y = tuple(i for i in range(y.ndim) if i not in second)
    depth = math.prod(x.shape[a] for a in first)
    out_x, out_y = tuple(x.shape[i] for i in rest_x), tuple(y.shape[i] for i in rest_y)
    a = shapes.reshape(shapes.transpose(x, rest_x + first), (math.prod(out_x), depth))
    b = shapes.reshape(shapes.transpose(y, second + rest_y), (depth, math.prod(out_y)))
    product: Tensor = apply("matmul", a, b)
    return shapes.reshape(product, out_x + out_y)


def tensor_dot(x1: Tensor, x2: Tensor, axes: Any) -> Tensor:
    """`tensordot` under MindSpore's older name: sums of products over pairs of axes of two
    tensors."""
    return tensordot(x1, x2, axes)


@native
def batch_dot(x1: Tensor, x2: Tensor, axes: Any = None) -> Tensor:
    """The sums of products over one axis of each, batch element by batch element.

    Args:
        axes: one axis for both, or one for each; (last of x1, second to last of x2) if None.
    """
    x, y = _pair("batch_dot", x1, x2)
    if axes is None:
        axes = (x.ndim - 1, y.ndim - 2 if y.ndim > 2 else y.ndim - 1)
    first, second = repeated(axes, 2, "batch_dot", "axes")
    a, b = (axis_of(v, t.ndim, "batch_dot", "axes") for v, t in ((first, x), (second, y)))
    left, right = shapes.moveaxis(x, a, -1), shapes.moveaxis(y, b, 1)
    n = x.shape[0]
    out_x, out_y = left.shape[1:-1], right.shape[2:]
    product = matmul(
        shapes.reshape(left, (n, math.prod(out_x), left.shape[-1])),
        shapes.reshape(right, (n, right.shape[1], math.prod(out_y))),
    )
    shape = (n, *out_x, *out_y)
    return shapes.reshape(product, shape if len(shape) > 1 else (n, 1))


# --- einsum ---------------------------------------------------------------------------------------


@native
def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products named by subscripts, as in numpy: `einsum("bij,bjk->bik", x, y)`.

    Operands are contracted from left to right, each pair by one batched matmul. `...` stands for
    leading axes that broadcast. A letter repeated within one operand takes its diagonal.
    """
    if not isinstance(equation, str):
        raise misuse("einsum", "'equation' must be a string", repr(equation), TypeError)
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) \
        else operands
    xs = [tensor(x, "einsum", f"operand {i}") for i, x in enumerate(given)]
    inputs, output = _parse(equation.replace(" ", ""), xs)
    terms = [_diagonal(x, s) for x, s in zip(xs, inputs, strict=True)]
    _check_lengths(terms)
    x, subs = terms[0]
    x, subs = _sum_away(x, subs, "".join(s for _, s in terms[1:]) + output)
    for k, (y, other) in enumerate(terms[1:], 1):
        later = "".join(s for _, s in terms[k + 1 :]) + output
        x, subs = _contract(x, subs, *_sum_away(y, other, subs + later), later)
    return _arrange(x, subs, output)


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def einsum_ext(equation: Any, *operands: Any) -> Tensor:
    """Sums of products named by subscripts; see `einsum`. Source:
    `mindspore.mint.einsum`.

    Args:
        equation: the subscripts as a string. Or the first operand, where each operand is followed
            by a list of its subscripts (ints from 0 to 51, or `...`), and the last list is the
            result's.
    """
    if not isinstance(equation, Tensor):
        return einsum(equation, *operands)
    given = (equation, *operands)
    tensors, lists = given[0:len(given) - len(given) % 2:2], given[1::2]
    left = ",".join(_subscripts(s) for s in lists)
    right = "->" + _subscripts(given[-1]) if len(given) % 2 else ""
    return einsum(left + right, *tensors)


def _subscripts(given: Any) -> str:
    if not isinstance(given, (list, tuple)):
        raise misuse("einsum", "a list of subscripts is needed", repr(given), TypeError)
    out = ""
    for s in given:
        if s is not Ellipsis and not is_int(s):
            raise misuse("einsum", "subscripts must be ints or '...'", repr(s), TypeError)
        if s is not Ellipsis and not 0 <= s < len(_LETTERS):
            raise misuse("einsum", f"subscripts must be in [0, {len(_LETTERS)})", s)
        out += "..." if s is Ellipsis else _LETTERS[s]
    return out


def _parse(equation: str, xs: Sequence[Tensor]) -> tuple[list[str], str]:
    """Subscripts of the operands and the result; upper-case Greek stands for axes of `...`."""
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(xs):
        raise misuse("einsum", f"{equation!r} names {len(inputs)} operands, not {len(xs)}")
    extra = max((x.ndim - len(s.replace("...", "")) for s, x in zip(inputs, xs, strict=True)
                 if "..." in s), default=0)
    dots = "".join(chr(0x391 + i) for i in range(max(extra, 0)))
    out: list[str] = []
    for s, x in zip(inputs, xs, strict=True):
        count = x.ndim - len(s.replace("...", ""))
        s = s.replace("...", dots[len(dots) - count :] if count > 0 else "")
        if len(s) != x.ndim or not all(c.isalpha() for c in s):
            raise misuse("einsum", f"{equation!r} does not fit an operand of {x.shape}")
        out.append(s)
    if arrow:
        result = right.replace("...", dots)
    else:
        letters = "".join(out)
        single = sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1)
        result = dots + "".join(single)
    if len(set(result)) != len(result) or set(result) - set("".join(out)):
        raise misuse("einsum", f"the result of {equation!r} repeats or invents a letter")
    return out, result


def _diagonal(x: Tensor, subs: str) -> tuple[Tensor, str]:
    """Repeated letters reduced to one axis each."""
    for c in sorted(set(subs)):
        while subs.count(c) > 1:
            i = subs.index(c)
            j = subs.index(c, i + 1)
            x = grid.diagonal(x, 0, i, j)
            subs = subs[:i] + subs[i + 1 : j] + subs[j + 1 :] + c
    return x, subs


def _check_lengths(terms: Sequence[tuple[Tensor, str]]) -> None:
    seen: dict[str, int] = {}
    for x, subs in terms:
        for c, d in zip(subs, x.shape, strict=True):
            if seen.setdefault(c, d) != d and 1 not in (d, seen[c]):
                raise misuse("einsum", f"the letter {c} is {seen[c]} long, and {d}")
            seen[c] = max(seen[c], d)


def _sum_away(x: Tensor, subs: str, needed: str) -> tuple[Tensor, str]:
    """Axes nobody else names summed over."""
    axes = tuple(i for i, c in enumerate(subs) if c not in needed)
    if not axes:
        return x, subs
    out: Tensor = apply("reduce_sum", x, axes=axes, keepdims=False)
    return out, "".join(c for c in subs if c in needed)


def _arrange(x: Tensor, subs: str, order: str) -> Tensor:
    return shapes.transpose(x, tuple(subs.index(c) for c in order))


def _contract(x: Tensor, a: str, y: Tensor, b: str, later: str) -> tuple[Tensor, str]:
    """One batched matmul: letters of both that are needed later are the batch."""
    x, y = operands("einsum", x, y)
    lengths = dict(zip(a, x.shape, strict=True))
    for c, d in zip(b, y.shape, strict=True):
        lengths[c] = max(d, lengths.get(c, 1))
    both = [c for c in a if c in b]
    batch = "".join(c for c in both if c in later)
    inner = "".join(c for c in both if c not in later)
    rows = "".join(c for c in a if c not in b)
    columns = "".join(c for c in b if c not in a)

    def shaped(t: Tensor, subs: str, *groups: str) -> Tensor:
        t = _arrange(t, subs, "".join(groups))
        t = shapes.broadcast_to(t, tuple(lengths[c] for g in groups for c in g))
        dims = [lengths[c] for c in groups[0]]
        dims += [math.prod(lengths[c] for c in g) for g in groups[1:]]
        return shapes.reshape(t, tuple(dims))

    product: Tensor = apply(
        "matmul", shaped(x, a, batch, rows, inner), shaped(y, b, batch, inner, columns)
    )
    out = batch + rows + columns
    return shapes.reshape(product, tuple(lengths[c] for c in out)), out


@native
def adjoint(x: Tensor) -> Tensor:
    """The conjugate transposes of matrices: (..., m, n) to (..., n, m), complex numbers conjugated.
    Any type."""
    return arith.conj(shapes.swapaxes(tensor(x, "adjoint", "x"), -1, -2))


@native
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Each square matrix of (..., m, m) to the power n: multiplied with itself n times, the
    identity for n = 0. A negative n is a ValueError."""
    x, count = tensor(input, "matrix_power"), integer(n, "matrix_power", "n")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or count < 0:
        raise misuse("matrix_power", "square matrices and n >= 0 are needed",
                     f"shape {x.shape} and n={count}; negative powers need an inverse")
    return power(x, count)


def power(x: Tensor, count: int) -> Tensor:
    """Square matrices multiplied with themselves, by squaring."""
    if not count:
        return shapes.broadcast_to(creation.eye(x.shape[-1], None, x.dtype), x.shape)
    out: Tensor | None = None
    while count:
        if count & 1:
            out = x if out is None else matmul(out, x)
        count >>= 1
        x = matmul(x, x) if count else x
    assert out is not None
    return out


# --- batches of matrices: positions of axes, back substitution -----------------------------------


def as_batch(x: Tensor) -> Tensor:
    """All leading axes as one."""
    return shapes.reshape(x, (math.prod(x.shape[:-2]), *x.shape[-2:]))


def at(x: Tensor, i: Tensor, axis: int) -> Tensor:
    """Position i of an axis, the axis kept."""
    return apply_one("gather", x, shapes.reshape(i, (1,)), axis=axis)


def positions(n: int) -> Tensor:
    """0 .. n - 1 along axis 1 of three."""
    return apply_one("iota", shape=(1, n, 1), axis=1, dtype=int64)


def _row(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """One row of the back substitution, the last first.

    Carried: right sides (B, n, k), solved from the last row up; captured: the upper triangle.
    """
    y, (rows, upper) = carried[0], captures
    row = arith.sub(upper.shape[1] - 1, i)
    column = at(upper, row, 2)
    solved = at(y, row, 1) / at(column, row, 1)
    rest = arith.sub(y, arith.where(arith.lt(rows, row), column * solved, 0.0))
    return [arith.where(arith.eq(rows, row), solved, rest)], []


def substitute(upper: Tensor, right: Tensor) -> Tensor:
    """x of upper @ x = right for (B, n, n), of which the upper triangle is read, and (B, n, k)."""
    n = upper.shape[1]
    (out,), _ = scan(("substitute",), [right], [], [positions(n), upper], n, _row)
    return out
