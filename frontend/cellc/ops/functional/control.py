"""Control flow as functions: `cond`, `while_loop`, `fori_loop`, `scan`.

In graph mode a condition or bound known only at run time becomes control flow of the graph, with
any number of carried values (tensors and numbers in nested tuples, lists and dicts). In PyNative
mode they are Python loops. Both modes give the same bits, gradients included.

Source: `mindspore.ops.WhileLoop`, `ForiLoop` and `Scan`; `cond` after `jax.lax.cond`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from cellc_runtime.lazy import lazy_imports

from ...compiled.inline import call_here
from ...core.declared import misuse
from ...core.dispatch import active_tracer
from ...tensors.tensor import Tensor
from ..arguments import boolean
from . import control_source

with lazy_imports(__name__):
    from . import matrix_norms


def cond(
    pred: Any = None, true_fun: Any = None, false_fun: Any = None, *operands: Any, A: Any = None,
    p: Any = None,
) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`.

    Called as `cond(A, p=None)` with matrices, as MindSpore's `ops.cond` is, it gives their
    condition numbers; see `matrix_norms.condition_number`.

    Args:
        pred: a bool, a number, or a Tensor of one element.
        true_fun, false_fun: functions or Cells; the results must have the same structure, shapes
            and dtypes where the choice is made at run time.
        operands: what the chosen function is called with.
    """
    matrix = pred if A is None else A
    if (false_fun is None and not callable(true_fun) and isinstance(matrix, Tensor)
            and matrix.ndim > 1):
        return matrix_norms.condition_number(matrix, true_fun if p is None else p)
    for name, fn in (("true_fun", true_fun), ("false_fun", false_fun)):
        if not callable(fn):
            raise misuse("cond", f"'{name}' must be a function", f"{type(fn).__name__}. It is "
                         "called as cond(pred, true_fun, false_fun, *operands)", TypeError)
    return call_here(control_source.cond, (pred, true_fun, false_fun, operands))


def while_loop(cond_func: Callable[[Any], Any], loop_func: Callable[[Any], Any],
               init_val: Any) -> Any:
    """Repeat `val = loop_func(val)` while `cond_func(val)` holds.

    Args:
        cond_func: from the carried value to a truth value.
        loop_func: from the carried value to the next one, of the same structure and types.
        init_val: a Tensor, number, string, or a tuple, list or dict of these.

    Returns:
        The final value.
    """
    _function("WhileLoop", "cond_func", cond_func)
    _function("WhileLoop", "loop_func", loop_func)
    return _loop("WhileLoop", control_source.while_loop, cond_func, loop_func, init_val)


def fori_loop(lower: int | Tensor, upper: int | Tensor, loop_func: Callable[[Any, Any], Any],
              init_val: Any, unroll: bool = True) -> Any:
    """Repeat `val = loop_func(i, val)` for `i` from `lower` to `upper - 1`.

    Args:
        lower, upper: ints, or integer Tensors of one element (known at run time).
        loop_func: from the index and the carried value to the next one.
        init_val: as in `while_loop`.
        unroll: whether a known range may be unrolled; the result is the same.

    Returns:
        The final value.
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, bool) or not isinstance(bound, (int, Tensor)):
            raise misuse("ForiLoop", f"'{name}' must be an int or a Tensor", type(bound).__name__,
                         TypeError)
    _function("ForiLoop", "loop_func", loop_func)
    boolean(unroll, "ForiLoop", "unroll")
    return _loop("ForiLoop", control_source.fori_loop, lower, upper, loop_func, init_val)


def scan(loop_func: Callable[[Any, Any], Any], init: Any, xs: Any, length: int | None = None,
         unroll: bool = True) -> Any:
    """Carry a value over the elements of `xs`: `carry, y = loop_func(carry, x)` for each.

    Args:
        loop_func: from the carried value and an element to the next one and a result.
        init: as `init_val` of `while_loop`.
        xs: a tuple, a list, a Tensor (its rows), or None.
        length: the number of steps where `xs` is None.
        unroll: whether the loop may be unrolled; the result is the same.

    Returns:
        The last carried value, and the list of the results.
    """
    _function("Scan", "loop_func", loop_func)
    if xs is not None and not isinstance(xs, (tuple, list, Tensor)):
        raise misuse("Scan", "'xs' must be a tuple, a list, a Tensor or None", type(xs).__name__,
                     TypeError)
    if (xs is None or length is not None) and (
        isinstance(length, bool) or not isinstance(length, int)
    ):
        raise misuse("Scan", "'length' must be an int", type(length).__name__, TypeError)
    boolean(unroll, "Scan", "unroll")
    if xs is None:
        assert length is not None
        xs = [None] * length
    if len(xs) == 0:
        return init, []
    return _loop("Scan", control_source.scan, loop_func, init, xs)


def _function(what: str, name: str, fn: Any) -> None:
    if not callable(fn) or isinstance(fn, (type, BuiltinFunctionType)):
        raise misuse(what, f"'{name}' must be a function", type(fn).__name__, TypeError)


def _loop(what: str, fn: Callable[..., Any], *args: Any) -> Any:
    """A loop; in PyNative an error of its function is a ValueError, as in MindSpore."""
    if active_tracer() is not None:
        return call_here(fn, args)
    try:
        return fn(*args)
    except ValueError:
        raise
    except Exception as e:
        raise ValueError(
            f"For '{what}', 'loop_func' failed; check what it takes and returns: {e}") from e
