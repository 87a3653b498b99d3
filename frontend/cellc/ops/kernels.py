"""Users' own kernels: the decorator `kernel`, and `Custom`, the operator that runs one.

A kernel of the type `hybrid` is part of the graph: its text is the attribute of a node, and it is
native code in either mode (`cellc_compiler/ops/custom.py`). One of the type `pyfunc` is called
back, one of the type `aot` is a function of a library. Source: `mindspore.ops`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from cellc_compiler.hybrid.functions import CALLABLE, PYTHON
from cellc_compiler.hybrid.language import Source, read
from cellc_runtime.dtypes import DType, from_numpy
from cellc_runtime.errors import message_text, run_error

from ..calls.bprop import with_gradient
from ..calls.hooks import written
from ..core import dispatch
from ..core.declared import misuse
from ..core.dispatch import active_tracer, apply, apply_one
from ..lang.source import source_lines
from ..tensors.index_plan import known_elements
from ..tensors.tensor import Tensor
from .functional.host import bprop_rule, call_python, plain_function, result_types
from .libraries import library_function
from .primitive import Primitive

FUNC_TYPES = ("hybrid", "pyfunc", "aot")  # The types of functions that `Custom` runs
_ELSEWHERE = ("akg", "tbe", "aicpu", "julia")
"""Those of MindSpore's that need what cellc has not."""


# --- the decorator --------------------------------------------------------------------------------


def kernel(
    fn: Callable[..., Any] | None = None, reg_info: Any = None,
    compile_attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A function in the hybrid language: loops over the elements of tensors.

    Called, it runs as Python over numpy arrays. `ops.Custom(fn, func_type="hybrid")` compiles it,
    which takes `pip install 'cellc[numba]'`.

    The language: `output_tensor(shape, dtype)` and `allocate(shape, dtype)` make tensors of zeros;
    single elements are read and assigned; `for` over `range`, `grid`, `serial`, `parallel`,
    `vectorize` or `reduce`, which all count alike; `if`, `while`, arithmetic, comparisons; `sqrt`,
    `exp`, `log`, `tanh`, `sin`, `erf`, `power`, `max`, `min` and their like, and casts by the name
    of a dtype. It ends with the return of its output tensors.

    Args:
        fn: the function; None to decorate with other arguments.
        reg_info: accepted, and handed on to `Custom`.
        compile_attrs: accepted, with strings as keys.

    Examples:
        >>> @ops.kernel
        ... def scaled(x):
        ...     y = output_tensor(x.shape, x.dtype)
        ...     for i in range(x.shape[0]):
        ...         y[i] = 2.0 * x[i]
        ...     return y
        >>> op = ops.Custom(scaled, func_type="hybrid")
    """
    attrs = {} if compile_attrs is None else compile_attrs
    if not isinstance(attrs, dict):
        raise TypeError(f"The input 'compile_attrs' of @kernel must be a dict, but got "
                        f"{type(attrs)}.")
    for key in attrs:
        if not isinstance(key, str):
            raise TypeError(f"The key of 'compile_attrs' of @kernel must be a str, but got "
                            f"{type(key)}.")
    if reg_info is not None and not isinstance(reg_info, (str, dict, tuple)):
        raise TypeError(f"The input 'reg_info' of @kernel should be one of str, dict and tuple, "
                        f"but got {type(reg_info)}.")

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        return _decorate(function, reg_info)

    return decorated if fn is None else decorated(fn)


def _decorate(function: Any, reg_info: Any) -> Callable[..., Any]:
    if not isinstance(function, FunctionType):
        raise TypeError(f"@kernel decorates a function written with def, but got "
                        f"{type(function).__name__}.")

    @functools.wraps(function)
    def run(*arrays: Any) -> Any:
        if any(isinstance(a, Tensor) for a in arrays):
            name = function.__name__
            raise TypeError(f"the kernel {name}() takes numpy arrays: for Tensors make an operator "
                            f"of it, ops.Custom({name}, func_type='hybrid').")
        # Names of the language come before those of the module, as in MindSpore.
        space = {**function.__globals__, **PYTHON}
        return FunctionType(function.__code__, space, function.__name__, function.__defaults__,
                            function.__closure__)(*arrays)

    made: Any = run
    made.ms_kernel_flag = True
    if reg_info is not None:
        made.reg_info = reg_info
    return run


def ms_kernel(
    fn: Callable[..., Any] | None = None, reg_info: Any = None,
    compile_attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Make a function of numpy arrays a kernel that is compiled: the older name of `kernel`, with
    the same arguments."""
    return kernel(fn, reg_info, compile_attrs)


def source_of(function: Any) -> Source:
    """The text of a kernel, and what it takes from around it. Raises CompileRuntimeError if it has
    no text, or its file has changed (CE001, CE002); KernelError if it is not written in the
    language."""
    if not getattr(function, "ms_kernel_flag", False):
        raise TypeError(f"For 'Custom' with 'func_type' hybrid, 'func' must be a function "
                        f"decorated by kernel, but got {function!r}.")
    inner = inspect.unwrap(function)
    code = inner.__code__
    first = code.co_firstlineno
    text = textwrap.dedent("".join(
        inspect.getblock(source_lines(code, inner.__globals__)[first - 1:])))
    tree = ast.parse(text).body[0]
    start = getattr(tree, "lineno", 1) - 1  # after the decorators
    own = "\n".join(text.splitlines()[start:getattr(tree, "end_lineno", None)]) + "\n"
    source = Source(own, (), code.co_filename, first + start)
    return Source(own, _constants(inner, source, tree), code.co_filename, first + start)


def _constants(function: Any, source: Source, tree: ast.AST) -> tuple[tuple[str, Any], ...]:
    """Return the outer values of a kernel's names, as far as it uses them."""
    outside = inspect.getclosurevars(function)
    around = {**outside.globals, **outside.nonlocals}
    used = {n.id: n for n in ast.walk(tree) if isinstance(n, ast.Name)}
    bound = {n.id for n in used.values() if isinstance(n.ctx, ast.Store)}
    found = []
    for name in sorted(used.keys() & around.keys() - CALLABLE - bound):
        found.append((name, _constant(around[name], name, used[name], source)))
    return tuple(found)


def _constant(value: Any, name: str, node: ast.AST, source: Source) -> Any:
    if isinstance(value, (bool, int, float, str, DType)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, (tuple, list)):
        return tuple(_constant(v, name, node, source) for v in value)
    if isinstance(value, (np.dtype, type)):
        return from_numpy(np.dtype(value))
    return source.fail(node.lineno if isinstance(node, ast.Name) else 1,
                       f"{name!r} is a {type(value).__name__}: of what is around it, a kernel may "
                       f"use numbers, dtypes and tuples of them")


# --- the operator ---------------------------------------------------------------------------------


class Custom(Primitive):
    """An operator of the user's own.

    With `func_type="hybrid"` it is compiled and linked into the program: no Python runs in it, in
    artifacts neither. A position out of bounds is an IndexError that names the line.

    Args:
        func: for `"hybrid"` a function decorated by `kernel`; for `"pyfunc"` one that is called
            with a numpy array for each input and gives an array or a tuple of them; for `"aot"` the
            path of a library and the name of a C function in it, `"./add.so:CustomAdd"`.
        out_shape: shape of the output, a tuple of shapes, or a function of the inputs' shapes.
            A hybrid function says it itself; what is given is compared.
        out_dtype: dtype of the output, a tuple, or a function of the inputs' dtypes; likewise.
        func_type: `"hybrid"`, `"pyfunc"` or `"aot"`.
        bprop: `bprop(*inputs, out, dout)` gives the gradients of the inputs; it may call further
            operators of the user's own.
        reg_info: accepted and not used (`CustomRegOp` makes it).

    Raises:
        OSError: there is no such library.
    """

    def __init__(
        self, func: Any, out_shape: Any = None, out_dtype: Any = None, func_type: str = "pyfunc",
        bprop: Callable[..., Any] | None = None, reg_info: Any = None,
    ) -> None:
        if func_type not in FUNC_TYPES:
            more = f" ({func_type!r} needs devices or compilers that cellc does not have)" \
                if func_type in _ELSEWHERE else ""
            raise misuse("Custom", f"'func_type' must be one of {list(FUNC_TYPES)}",
                         f"{func_type!r}{more}")
        self.name = "Custom"
        self.out_shape, self.out_dtype, self.bprop = out_shape, out_dtype, bprop
        self.attrs = {"func_type": func_type}
        self.source: Source | None = None
        if func_type == "hybrid":
            self.func = func
            self.source = source_of(written(func))
            read(self.source)
            return
        for key, value in (("out_shape", out_shape), ("out_dtype", out_dtype)):
            if value is None:
                raise TypeError(f"For 'Custom', '{key}' must be given: a value or a function.")
        self.func = plain_function("Custom", func) if func_type == "pyfunc" else \
            library_function(func)

    def __call__(self, *operands: Any, **kwargs: Any) -> Any:
        tensors = [t for t in operands if isinstance(t, Tensor)]
        shape, dtype = self.out_shape, self.out_dtype
        if callable(shape):
            shape = shape(*[t.shape for t in tensors])
        if callable(dtype):
            dtype = dtype(*[t.dtype for t in tensors])
        if self.source is not None:
            return self._hybrid(self.source, operands, shape, dtype)
        single, types = result_types("Custom", shape, dtype)
        function = self.func
        if self.attrs["func_type"] == "aot":
            function = self.func.returning(types)
        return call_python("Custom", function, operands, single, types, self.bprop)

    def _hybrid(self, source: Source, operands: tuple[Any, ...], shape: Any, dtype: Any) -> Any:
        for i, t in enumerate(operands):
            if not isinstance(t, Tensor):
                raise misuse("Custom", f"a hybrid function takes Tensors, but input {i} of "
                             f"{read(source).name}() is a {type(t).__name__}", kind=TypeError)
        if self.bprop is None:
            results = run_kernel(source, *operands)
        else:
            rule = bprop_rule(self.func, self.bprop, operands, len(read(source).results) == 1)
            results = with_gradient(
                list(operands), lambda given: run_kernel(source, *given), rule, self.bprop)
        _compare(read(source).name, results, shape, dtype)
        return results[0] if len(results) == 1 else tuple(results)


def _compare(name: str, results: list[Tensor], shape: Any, dtype: Any) -> None:
    """Raise where a hybrid function gives something else than its Custom declares."""
    if shape is not None:
        shapes = [tuple(t.shape) for t in results]
        given = [shape] if all(isinstance(d, int) for d in shape) else list(shape)
        if [tuple(s) for s in given] != shapes:
            raise misuse("Custom", f"'out_shape' is {shape}, but the function {name}() gives "
                         f"{', '.join(map(str, shapes))}")
    if dtype is not None:
        dtypes = [t.dtype for t in results]
        if (list(dtype) if isinstance(dtype, (tuple, list)) else [dtype]) != dtypes:
            raise misuse("Custom", f"'out_dtype' is {dtype}, but the function {name}() gives "
                         f"{', '.join(map(str, dtypes))}", kind=TypeError)


def run_kernel(source: Source, *operands: Tensor) -> list[Tensor]:
    """The results of a kernel, which runs now or is traced. Raises KernelError if it does not fit
    the operands; UnboundLocalError if a variable is read before it is assigned (when it runs)."""
    results: list[Tensor]
    *results, status = apply(
        "custom_kernel", *operands, text=source.text, constants=source.constants,
        file=source.file, line=source.line)
    known = known_elements(status)
    if known is None:
        tracer = active_tracer()
        assert tracer is not None
        shown = [apply("slice", status, start=(i,), stop=(i + 1,)) for i in range(4)]
        tracer.check(shown[0], "IndexError", _message(source), [_scalar(s) for s in shown[1:]],
                     low=-1 << 31, high=1)
        tracer.check(shown[0], "UnboundLocalError", _find_unassigned(source), [_scalar(shown[3])],
                     low=0, high=1)
        return results
    dispatch.elements_read()
    if known[0]:
        if known[0] < 0:
            text = message_text(_find_unassigned(source), known[0], [int(known[3])], str)
            raise run_error("UnboundLocalError", text, source.file, int(known[3]))
        text = message_text(_message(source), known[0], known[1:].tolist(), str)
        raise run_error("IndexError", text, source.file, int(known[0]))
    return results


def _scalar(one: Tensor) -> Tensor:
    return apply_one("reshape", one, shape=())


def _find_unassigned(source: Source) -> tuple[str | int | None, ...]:
    return (f"the kernel {read(source).name}() reads a variable before it is assigned "
            f"({source.file}:", None, ")")


def _message(source: Source) -> tuple[str | int | None, ...]:
    return (f"in the kernel {read(source).name}() the index ", None,
            " is out of bounds for axis ", None, " with size ", None,
            f" ({source.file}:", 0, ")")


__all__ = ["Custom", "kernel", "ms_kernel"]
