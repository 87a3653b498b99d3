"""Calls: what is interpreted, what is called, what is refused."""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import re
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from string import Template
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Any, get_origin

import numpy as np

from cellc_compiler.ir.graph import NOWHERE, Span
from cellc_compiler.ir.size_functions import of_math
from cellc_runtime import dtypes
from cellc_runtime.methods import native_method_type

from ..calls import budget, inner_primitives, recompute
from ..calls.bprop import call_with_bprop
from ..calls.hooks import call_around
from ..core import invalidation, naming
from ..core.dispatch import apply, tracing
from ..core.invalidation import own_member
from ..core.module_names import is_exactly, module_of, plain
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.numbers import GraphNumber, stacked
from ..tracing.reads import in_class, is_iterator, own_attributes
from ..tracing.state_numbers import StateNumber
from ..tracing.tracer import ElementsUnknown, GraphTensor, is_variable
from . import _model
from .asking import called, place_of_call
from .assignment import delete_attribute, of_attribute, put_attribute
from .builtin_functions import BUILTINS, OF_OPERATOR, REFUSED, read_fields
from .control import under
from .dataclass_fields import is_generated, set_fields
from .frames import Frame
from .functions import Callback, InterpretedFunction, bind
from .generators import generator
from .hints import python_instead
from .iteration import asked_ranges, in_list, items, listed, walk, walked
from .journal import BOXES
from .lengths import arguments, carried, measured
from .made_parameters import (
    begin_parameters,
    made_parameter,
    parameters_in,
    refuse_drawn,
    undrawn,
)
from .natively import watched
from .open_numbers import is_math_of_sizes, tensor_of_sizes
from .operators import counted, of_the_graph, position
from .outcome import RETURN, Diverged, Outcome
from .own_gradients import call_own_gradient
from .per_trip import refuse_in
from .pieces.calls import call_of_python
from .pieces.operations import is_piece, of_tensor
from .protocols import (
    LISTS,
    as_index,
    compared,
    guard_extended,
    of_builtin,
    report_parts,
    run_by_python,
    written_by_python,
)
from .source import function_source
from .text import format_text, is_of_run, join_text, known
from .trust import (
    is_foreign_class,
    is_interpreted,
    is_library,
    is_own_class,
    is_readable,
    is_structural,
    is_user_function,
)
from .values import MISSING, any_runtime, as_key, as_known, holds, holds_runtime, in_text
from .world import outside_call, refuse_proxy

if TYPE_CHECKING:
    from .interpreter import Interpreter

Args = list[Any]
Kwargs = dict[str, Any]


def call(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """Call `fn` from `frame`."""
    vm.callee = fn
    refuse_proxy(vm, fn, frame)
    if vm.pieces is not None:
        found = call_of_python(vm, fn, args, kwargs, frame)
        if found is not MISSING:
            return found
    if vm.rolling and not is_exactly(fn, _INTERPRETED):
        refuse_in(args, kwargs)
    kind = type(fn)
    if args and not kwargs and (kind is type or kind is BuiltinFunctionType):
        found = of_builtin(vm, fn, args, frame)
        if found is not MISSING:
            return found
    handler = _BY_TYPE.get(id(kind))
    if handler is not None:
        return handler(vm, fn, args, kwargs, frame)
    if _model.is_cell(fn):
        own = in_class(vm.class_of(fn), "__call__")
        if is_interpreted(own) and not module_of(own).startswith("cellc."):
            vm.report(fn, "__call__")
            return interpret(vm, own, [fn, *args], kwargs, frame)
        return call_cell(vm, fn, args, kwargs, frame)
    if isinstance(fn, type):
        return _construct(vm, fn, args, kwargs, frame)
    inner = _model.unwrap_jit(fn)
    if inner is not fn:
        return call(vm, inner, args, kwargs, frame)
    return _object(vm, fn, args, kwargs, frame)


# --- interpreted functions ----------------------------------------------------------------------


def _function(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if vm.rolling and (fn in BUILTINS or not is_user_function(fn) or _installed(fn)):
        refuse_in(args, kwargs)
    if fn in BUILTINS:
        return BUILTINS[fn](vm, args, kwargs, frame)
    if fn.__code__ is _SINGLE_DISPATCH and args:
        chosen: Any = fn  # by the class of the first argument
        kind = BUILTINS[type](vm, args[:1], {}, frame)
        return call(vm, vm.guarded(fn, "dispatch", lambda: chosen.dispatch(kind)),
                    args, kwargs, frame)
    if is_user_function(fn):
        if args and _model.is_cell(args[0]):
            return interpret(vm, fn, args, kwargs, frame)
        if not _installed(fn) or is_readable(fn):
            return vm.templates.of_call(fn, args, kwargs, frame.scope,
                                        lambda: interpret(vm, fn, args, kwargs, frame))
        return foreign(vm, fn, args, kwargs, frame)
    if is_library(fn.__globals__.get("__name__")):
        made = fn.__name__ == "tensor" and fn.__module__ == "cellc.compat"
        return call(vm, Tensor, args, kwargs, frame) if made else \
            library(vm, fn, args, kwargs, frame)
    return foreign(vm, fn, args, kwargs, frame)


_SINGLE_DISPATCH = functools.singledispatch(len).__code__  # type: ignore[attr-defined]  # a function


def _installed(fn: FunctionType) -> bool:
    """Whether a function comes from an installed package, not from the user's own files."""
    if module_of(fn).startswith("cellc."):
        return False  # cellc's own, wherever it is installed
    file = fn.__code__.co_filename
    return "site-packages" in file or "dist-packages" in file


def interpret(
    vm: Interpreter, fn: FunctionType, args: Args, kwargs: Kwargs, caller: Frame | None,
    laid_out: bool = False,
) -> Any:
    """Interpret a Python function from its source; `laid_out`: one of a layer whose operands lie
    as the settings of its primitives say."""
    if not laid_out and args and _is_layers(fn.__globals__) and _model.is_cell(args[0]):
        within = inner_primitives.within(args[0], lambda: _in_layer(vm.frame, args[0]))
        if within is not None:
            return within.call(lambda a: interpret(vm, fn, a, kwargs, caller, True), args)
    source = function_source(fn)
    vm.report_function(fn)
    if vm.rolling and (source.facts.generator or source.node.args.vararg):
        refuse_in(args, kwargs)
    node = source.node
    for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
        vm.state.default(f"a default of {fn.__qualname__}()", vm.tracer.place(), value)
    table = bind(_shown_name(fn), node.args, fn.__defaults__ or (), fn.__kwdefaults__ or {}, args,
                 kwargs)
    scope = caller.scope if caller is not None else ""
    if args and _model.is_cell(args[0]):
        scope = vm.scope_of(args[0], caller)
    closure = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    frame = Frame(
        source, source.facts, fn.__qualname__, fn.__globals__, closure, scope,
        _class_name(fn.__qualname__), caller, None, table,
        depth=caller.depth + 1 if caller is not None else 1,
        first_argument=args[0] if args else MISSING, site=_site(vm, fn),
        builtins=None if (own := plain(fn, "__builtins__")) is vars(builtins) else own,
    )
    if source.facts.generator:
        return generator(vm, frame, caller)
    return run(vm, frame, caller)


def _is_layers(names: dict[str, Any]) -> bool:
    """Whether global names are those of a module of layers of cellc itself."""
    return f"{names.get('__name__', '')}.".startswith("cellc.nn.")


def _in_layer(frame: Frame | None, layer: Any) -> bool:
    """Whether what is interpreted is code of a layer of cellc, or called by it with itself."""
    return frame is not None and frame.first_argument is layer and _is_layers(frame.globals)


def _site(vm: Interpreter, fn: FunctionType) -> Span | None:
    """The place nodes of a layer of cellc itself are said to come from: the user's call."""
    own = module_of(fn).startswith("cellc.")
    return vm.tracer.span if own and vm.tracer.span is not NOWHERE else None


def _shown_name(fn: FunctionType) -> str:
    """A function's name in messages, with its class: `Dense.construct`."""
    return fn.__qualname__.rpartition("<locals>.")[2]


def _class_name(qualname: str) -> str:
    """The class a method was written in, from its qualified name."""
    parts = qualname.split(".")
    for name, after in pairwise(parts):
        if name != "<locals>" and after != "<locals>":
            return name
    return ""


def _nested(
    vm: Interpreter, fn: InterpretedFunction, args: Args, kwargs: Kwargs, caller: Frame
) -> Any:
    source, outer = fn.source, fn.frame
    if vm.rolling and source.node.args.vararg:
        refuse_in(args, kwargs)
    table = bind(fn.__name__, source.node.args, fn.defaults, fn.kwdefaults, args, kwargs)
    frame = Frame(
        source, source.facts, fn.__qualname__, outer.globals, outer.closure, caller.scope,
        outer.class_name, caller, outer, table, depth=caller.depth + 1,
        first_argument=outer.first_argument,
    )
    if source.facts.generator:
        return generator(vm, frame, caller)
    return run(vm, frame, caller)


def run(vm: Interpreter, frame: Frame, caller: Frame | None) -> Any:
    """The result of a frame's function."""
    vm.check_depth(frame)
    vm.fresh(frame.table)
    vm.frame = frame
    node = frame.source.node
    if isinstance(node, ast.Lambda):
        try:
            result = vm.eval(node.body, frame)
        except Diverged:
            raise
        except Exception as e:
            vm.mark(e, frame)
            raise
    else:
        outcome = vm.block(node.body, frame)
        if outcome.mixed:
            outcome = under(vm, node, outcome, frame, lambda: Outcome.returned(None, None),
                            frozenset())
        result = outcome.value if RETURN in outcome.kinds else None
    vm.frame = caller
    return result


_CYTHON = "cython_function_or_method"


def _method(vm: Interpreter, fn: MethodType, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    function, owner = fn.__func__, fn.__self__
    if isinstance(function, FunctionType) and function in BUILTINS:
        return BUILTINS[function](vm, [owner, *args], kwargs, frame)
    if _model.is_cell(owner) and (not isinstance(function, FunctionType) or (
            function.__name__ == "__call__" and module_of(function).startswith("cellc."))):
        return call_cell(vm, owner, args, kwargs, frame)  # `super().__call__(...)`, or its site
    if vm.rolling and not (isinstance(function, FunctionType) and is_user_function(function)):
        refuse_in(args, kwargs)
    if isinstance(function, FunctionType) and is_user_function(function):
        return interpret(vm, function, [owner, *args], kwargs, frame)
    if isinstance(function, FunctionType) and is_library(function.__globals__.get("__name__")):
        return library(vm, fn, args, kwargs, frame)
    if isinstance(function, FunctionType) or type(function).__name__ == _CYTHON:
        return foreign(vm, fn, args, kwargs, frame)
    return call(vm, function, [owner, *args], kwargs, frame)


# --- Cells --------------------------------------------------------------------------------------


_READ_BY_CALLS = ("construct", "bprop", "__call__", "_hooks", "_flags", "_recompute_options",
                  "_recompute_budget", "_inner")


def call_cell(vm: Interpreter, cell: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """Inline a Cell: its `construct`, or its own gradient through the hook."""
    for name in _READ_BY_CALLS:
        vm.report(cell, name)
    vm.tracer.budget = budget.least(vm.tracer.budget, cell._recompute_budget)
    tracer = vm.tracer

    def construct(a: tuple[Any, ...], k: Kwargs) -> Any:
        span, scope = tracer.span, tracer.scope
        tracer.scope = vm.scope_of(cell, frame)
        if not _model.own_bprop(cell):
            try:
                out = call(vm, cell.construct, list(a), k, frame)
            except Exception as error:
                naming.raise_told_of_cell(error, cell, list(a), k)
        elif k:
            raise TypeError(f"{type(cell).__name__} has a bprop and takes no keyword arguments")
        else:
            out = call_with_bprop(cell, a, partial(call_own_gradient, vm, frame))
        tracer.span, tracer.scope = span, scope  # what is done with it stands where the call does
        return out

    recomputed = None if cell._recompute_options is None else \
        lambda f, a, k: recompute.traced(tracer, (a, k), lambda: f(a, k))
    return vm.templates.of_call(cell, args, kwargs, vm.scope_of(cell, frame), partial(
        call_around, cell, tuple(args), kwargs, construct, recomputed))


# --- classes and other objects ------------------------------------------------------------------


def _construct(vm: Interpreter, cls: type, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if type(cls).__hash__ is type.__hash__ and cls in BUILTINS:  # (a metaclass may have its own)
        return BUILTINS[cls](vm, args, kwargs, frame)
    runtime = any_runtime([*args, *kwargs.values()])
    if issubclass(cls, Tensor):
        return _tensor(vm, cls, args, kwargs, runtime, frame)
    if not runtime and module_of(cls).startswith("cellc."):
        return _made_by_python(vm, cls, args, kwargs, frame)
    if is_library(module_of(cls)):
        return vm.state.new(cls(*args, **kwargs))
    found = outside_call(vm, cls, args, kwargs, frame)
    if found is not MISSING:
        return found
    called = vm.special(cls, "__call__")  # of a metaclass
    if called is not None:
        return interpret(vm, called, [cls, *args], kwargs, frame)
    return _instance(vm, cls, args, kwargs, frame)


def _instance(vm: Interpreter, cls: type, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """An instance of a class of the user or of an installed package."""
    own = type(cls) is type or type(cls).__call__ is type.__call__ or vm.special(cls, "__call__")
    made = _interpreted_object(vm, cls, args, kwargs, frame) if own else MISSING
    if made is not MISSING:
        return made
    runtime = any_runtime([*args, *kwargs.values()])
    if runtime and not _holds_anything(cls):
        return foreign(vm, cls, args, kwargs, frame)
    return _made_by_python(vm, cls, args, kwargs, frame)


def _made_by_python(vm: Interpreter, cls: type, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    args = _asked(args)
    guard_extended(vm, (*args, *kwargs.values()))
    if cls.__module__ == "itertools" or cls is deque:  # (of these product makes tuples first)
        args = [walked(vm, a, listed if cls is itertools.product else walk) for a in args]
        if cls is itertools.accumulate:  # it adds what it is given
            run_by_python(vm, args)
    if issubclass(cls, (dict, set, frozenset)):
        args = [as_key(a) for a in args]
    if cls.__module__ == "itertools":
        args = [Callback(vm, a, frame) if isinstance(a, type) and is_own_class(a)
                else _as_callback(vm, a, frame) for a in args]
    if not _model.is_cell_class(cls) and not module_of(cls).startswith("cellc."):
        run = partial(watched, vm, partial(cls, *args, **kwargs))
        missing = plain(in_class(cls, "_missing_", None), "__func__")  # its metaclass calls it
        if isinstance(missing, FunctionType) and is_user_function(missing):
            return vm.state.whole(vm, missing, (cls, *args), frame, run)
        return vm.state.new(vm.fresh(run()))
    with undrawn(vm, cls, frame), tracing(None):
        made = cls(*args, **kwargs)
    if _model.is_cell(made):
        begin_parameters(vm, made, parameters_in([*args, *kwargs.values()]), frame)
    return vm.state.new(made)


def _init(vm: Interpreter, init: Any, args: Args, kwargs: Kwargs, frame: Frame) -> None:
    """`super().__init__(...)` of a user's class whose base is one of cellc."""
    made, *given = args
    is_cell = _model.is_cell(made)
    known = [*parameters_in([*given, *kwargs.values()])]
    known += made.get_parameters() if is_cell and "_params" in made.__dict__ else ()
    with undrawn(vm, type(made), frame), tracing(None):
        (init.__func__ if isinstance(init, MethodType) else init)(made, *_asked(given), **kwargs)
    if is_cell:
        begin_parameters(vm, made, known, frame)


def _interpreted_object(
    vm: Interpreter, cls: type, args: Args, kwargs: Kwargs, frame: Frame
) -> Any:
    """An instance of a user's class, by methods that are interpreted; MISSING if it has none.

    Raises:
        CompileError: the source of one cannot be had.
    """
    vm.report(cls, "__new__")
    vm.report(cls, "__init__")
    new: Any = in_class(cls, "__new__", MISSING)
    init: Any = in_class(cls, "__init__", MISSING)
    new = new.__func__ if isinstance(new, staticmethod) else new
    for made_by in (new, init):  # one that `dataclass` or `NamedTuple` generated has defaults, too
        if isinstance(made_by, FunctionType):
            vm.report_function(made_by)
    of_python = new is _OBJECT_NEW or (
        type(new) is BuiltinFunctionType and isinstance(new.__self__, type)
        and issubclass(new.__self__, _MADE_BY_PYTHON))
    if not of_python and not is_interpreted(new):
        return MISSING
    inner = getattr(init, "__wrapped__", None)
    if is_interpreted(inner) and not is_user_function(init):
        init = inner  # under `cell_attr_register`
    if not of_python:
        made: Any = interpret(vm, new, [cls, *args], kwargs, frame)
    elif is_generated(cls, init):
        made = vm.state.new(vm.fresh(object.__new__(cls)))
        set_fields(vm, made, init, args, kwargs, frame)
        return made
    elif not isinstance(init, FunctionType) or not is_user_function(init) \
            or module_of(init).startswith("cellc."):
        return MISSING
    else:
        made = vm.state.new(vm.fresh(new(cls, *args) if new is not _OBJECT_NEW else new(cls)))
    if isinstance(made, cls) and init is not object.__init__:  # (which does nothing here)
        found = vm.call(init, [made, *args], kwargs, frame)
        if found is not None:
            raise TypeError(f"__init__() should return None, not '{type(found).__name__}'")
        if _model.is_cell(made):
            next(parameters_in([made]), None)  # raises if it has left out super().__init__()
    return made


_OBJECT_NEW = object.__dict__["__new__"]
_MADE_BY_PYTHON = (list, dict, set, bytearray, deque, BaseException)
"""Bases whose `__new__` runs no code of the user's."""
_ABSTRACT = 1 << 20  # The flag of classes with abstract methods (`Py_TPFLAGS_IS_ABSTRACT`)


def _of_object(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """Methods of `object` and `type`, which `super()` calls, and functions of numbers that follow
    from open sizes; MISSING: `fn` is none."""
    if is_math_of_sizes(fn, args):
        return of_math(fn.__name__, args)
    if fn is object.__setattr__ or fn is type.__setattr__:
        return put_attribute(vm, args[0], args[1], args[2], frame, fn)
    if fn is object.__delattr__:
        return delete_attribute(vm, args[0], args[1], frame, plainly=True)
    if type(fn) is BuiltinFunctionType and fn.__name__ == "__new__" and args \
            and not args[0].__flags__ & _ABSTRACT and not any_runtime(args):
        return vm.state.new(vm.fresh(fn(*_asked(args), **kwargs)))
    if type(fn) is not MethodWrapperType:
        return MISSING
    if fn.__name__ == "__setattr__" and len(args) == 2:
        owner = fn.__self__
        put = type.__setattr__ if isinstance(owner, type) else object.__setattr__
        return put_attribute(vm, owner, args[0], args[1], frame, put)
    if fn.__name__ == "__delattr__" and len(args) == 1:
        return delete_attribute(vm, fn.__self__, args[0], frame, plainly=True)
    if fn.__name__ == "__call__" and isinstance(fn.__self__, type):
        return _instance(vm, fn.__self__, args, kwargs, frame)
    return MISSING


def _holds_anything(cls: type) -> bool:
    """Containers, and classes of the user, may hold tensors."""
    return issubclass(cls, (tuple, list, dict, set)) or cls.__module__ in (
        "collections", "types", "builtins", "functools", "itertools"
    ) or hasattr(cls, "__dataclass_fields__") or not is_foreign_class(cls)


def _tensor(
    vm: Interpreter, cls: type, args: Args, kwargs: Kwargs, runtime: bool, frame: Frame
) -> Any:
    """`Tensor(...)`: a constant, or the run-time tensor it is given."""
    if issubclass(cls, Parameter):
        return made_parameter(vm, cls, _asked(args), kwargs, runtime, frame)
    if not runtime:
        open_ = tensor_of_sizes(*args, **kwargs)
        if open_ is not None:
            return open_
        with tracing(None):
            made = refuse_drawn(vm, cls(*args, **kwargs), frame)
            return vm.state.made_at(made, place_of_call(frame))
    source = args[0] if args else kwargs.get("input_data")
    dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
    if not isinstance(source, Tensor):
        return stacked(source, dtype)
    if dtype is None and isinstance(source, GraphNumber) and source._number is float:
        dtype = dtypes.float32
    return source.astype(dtype) if dtype is not None else GraphTensor(vm.tracer.lift(source))


def _object(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """An instance with `__call__`."""
    found = in_class(vm.class_of(fn), "__call__", MISSING)
    vm.report(type(fn), "__call__")
    if found is MISSING:
        raise TypeError(f"a value of type {type(fn).__name__} cannot be called")
    found = _model.unwrap_jit(found)
    if isinstance(found, FunctionType) and is_user_function(found):
        return interpret(vm, found, [fn, *args], kwargs, frame)
    origin = get_origin(fn) if type(fn).__module__ in ("typing", "types") else None
    if isinstance(origin, type):  # `V[int]()`
        return call(vm, origin, args, kwargs, frame)
    inherited = isinstance(found, FunctionType) and is_library(found.__globals__.get("__name__"))
    if inherited or is_library(module_of(type(fn))):  # a user's Primitive inherits its `__call__`
        _report_options(vm, fn)
        run = partial(library, vm, fn, args, kwargs, frame)
        return watched(vm, run) if _runs_users(fn) else run()
    return foreign(vm, fn, args, kwargs, frame)


def _runs_users(fn: Any) -> bool:
    """Whether an object of cellc calls functions of the user by itself: a `constexpr` function, or
    a primitive with methods of its own."""
    return is_own_class(type(fn)) or "constexpr_prim" in plain(fn, "attrs", ())


def _report_options(vm: Interpreter, fn: Any) -> None:
    """Say that the options of an object of cellc are read: those of a primitive, `get_all`, ..."""
    if not vm.state.is_outside(fn):
        return
    for name in own_attributes(fn) or ():
        if not name.startswith("_"):
            vm.report(fn, name)


def _partial(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if fn is apply:  # its eager implementation is no concern of a graph
        return library(vm, fn, args, kwargs, frame)
    if vm.reads is not None:
        vm.reads.of_partial(fn)
    if vm.state.is_outside(fn):
        for value in (fn.func, *fn.args, *fn.keywords.values()):
            vm.state.mark(value)
    return call(vm, fn.func, [*fn.args, *args], {**fn.keywords, **kwargs}, frame)


def _callback(vm: Interpreter, fn: Callback, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    return call(vm, fn.fn, args, kwargs, frame)


def _native(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A method of cellc that native code stands before: an operator, or `Cell.__call__`."""
    if fn.__name__ == "__call__" and args and _model.is_cell(args[0]):
        return call_cell(vm, args[0], args[1:], kwargs, frame)
    return library(vm, own_member(Tensor, fn.__name__), args, kwargs, frame)


def _builtin(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A function or method written in C."""
    args = [as_index(vm, asked_ranges(vm, a), frame) if fn is round and i else asked_ranges(vm, a)
            for i, a in enumerate(args)]
    handler = BUILTINS.get(fn)
    if handler is not None:
        return handler(vm, args, kwargs, frame)
    owner = fn.__self__
    guard_extended(vm, (owner,))
    if isinstance(owner, (list, dict, set, tuple, str, frozenset)):
        if fn.__name__ == "extend":
            args = [in_list(vm, owner, a) for a in args]
        args = compared(vm, fn, args, kwargs)
        if fn.__name__ == "sort" and isinstance(owner, list):
            return BUILTINS[list.sort](vm, [owner, *args], kwargs, frame)
        vm.note_object(owner)
        if fn.__name__ in ("count", "index") and isinstance(owner, (list, tuple)) and (
                len(args) == 1 or (fn.__name__ == "index" and all(
                    type(a) is int for a in args[1:3]))) and of_the_graph([owner, args]):
            found = counted(vm, owner, args[0], frame) if fn.__name__ == "count" else \
                position(vm, owner, args[0], frame, *args[1:])
            return measured(vm, owner, found)
        if isinstance(owner, str) and fn.__name__ == "format":
            if _DEEP_FIELD.search(owner):
                owner, args = read_fields(vm, owner, args, kwargs, frame)
                fn, kwargs = owner.format, {}
            args, kwargs = in_text(args), in_text(kwargs)
            written_by_python(vm, [*args, *kwargs.values()])
            if is_of_run([*args, *kwargs.values()]):
                return format_text(owner, args, kwargs)
            return known(owner.format(*args, **kwargs), owner)
        if isinstance(owner, str) and fn.__name__ == "join" and len(args) == 1:
            strings = items(vm, args[0])
            return join_text(owner, strings) if any_runtime(strings) else owner.join(strings)
        args = arguments(vm, fn.__name__, owner, args)
        result = vm.state.mutate(vm, [owner], fn, args, kwargs, frame)
        return carried(vm, measured(vm, owner, result), owner) if fn.__name__ in _FOLLOW else result
    if isinstance(owner, type) and fn.__name__ in ("__subclasses__", "mro"):
        return vm.guarded(owner, fn.__name__, partial(fn, *args, **kwargs))
    if fn in REFUSED:
        raise vm.error(
            "CE303", RuntimeError, f"{fn.__name__}() is not available in a compiled function",
            frame, hint="call it outside, and pass what it gives as an argument",
        )
    return foreign(vm, fn, args, kwargs, frame)


_DEEP_FIELD = re.compile(r"\{\w*[.\[]")
"""A field of a format that names an attribute or an item."""
_FOLLOW = frozenset(("copy", "count", "index"))
"""Methods of sequences whose result is unknown where the length is."""


def library(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """Call a function of cellc with tensors of the graph."""
    args = [asked_ranges(vm, a) for a in args]
    name = plain(fn, "__name__", "")
    owner = plain(fn, "__self__")
    if name in ("__setattr__", "__delattr__"):
        return of_attribute(vm, name, args if owner is None else [owner, *args], frame)
    if name == "__init__" and not any_runtime([*args, *kwargs.values()]):
        return _init(vm, fn, args if owner is None else [owner, *args], kwargs, frame)
    if vm.journal is not None and (
        name == "register_hook" or (name.endswith("_") and not name.endswith("__"))
    ):
        for value in (plain(fn, "__self__"), *args):
            vm.note_object(value)
    if name not in _WITH_NUMBERS and not isinstance(plain(fn, "__self__"), StateNumber) \
            and any(map(any_state, (*args, *kwargs.values()))):
        args = _asked(args)
        kwargs = dict(zip(kwargs, _asked(kwargs.values()), strict=True))
    vm.templates.give(owner, *args, *kwargs.values())
    if name in LISTS and _model.is_cell(owner):
        report_parts(vm, owner)
    given = [_as_callback(vm, a, frame) for a in args]
    named = {k: _as_callback(vm, v, frame) for k, v in kwargs.items()} if kwargs else kwargs
    before = invalidation.count()
    if vm.pieces is not None and is_variable(owner) and name in _ELEMENTS:
        return of_tensor(vm, fn, args, kwargs, frame)
    try:
        result = refuse_drawn(vm, called(vm, fn, given, named), frame)
        result = vm.state.of_library(result, (owner, *args, *kwargs.values()), place_of_call(frame))
        if name.startswith("get_") and owner is None and isinstance(result, (str, int, float)):
            vm.note_result(fn, name, partial(fn, *args, **kwargs), result)  # a setting
    except ElementsUnknown as e:
        if vm.pieces is None:
            raise vm.error("CE601", TypeError, str(e), frame, hint=_UNCALLED) from None
        return of_tensor(vm, fn, args, kwargs, frame)
    if invalidation.count() != before and _model.is_cell(owner) and vm.state.is_outside(owner):
        raise vm.error(
            "CE501", TypeError, f"{name}() changes a {type(owner).__name__} while a graph is "
            "compiled", frame, hint="call it outside",
        )
    return result


_UNCALLED = (
    "Python does it where the network is called (docs/guide/python.md, Python in graphs); what is "
    "compiled without a call, or for a file, has no elements"
)
_ELEMENTS = frozenset(("asnumpy", "numpy", "tolist"))
"""Methods that give the elements, which a Parameter has while a graph is compiled."""
_WITH_NUMBERS = frozenset(
    ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "maximum",
     "minimum", "equal", "not_equal", "ne", "eq", "less", "lt", "greater", "gt", "le", "ge",
     "less_equal", "greater_equal")
)
"""Functions that take a number as its operator does; for others a number of state is known."""


def _as_callback(vm: Interpreter, value: Any, frame: Frame) -> Any:
    """A user's function as something library code may call."""
    if isinstance(value, FunctionType) and is_user_function(value):
        return Callback(vm, value, frame)
    if isinstance(value, MethodType) and isinstance(value.__func__, FunctionType) and \
            is_user_function(value.__func__):
        return Callback(vm, value, frame)
    return value


def foreign(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """Run a third-party function on values known now.

    Raises:
        CompileTypeError: an argument is a run-time tensor (CE301).
    """
    found = _of_object(vm, fn, args, kwargs, frame)
    if found is not MISSING:
        return found
    owner = plain(fn, "__self__")
    given = [v for v in (*args, *kwargs.values()) if type(v) is not StateNumber]
    if any_runtime(given) or holds_runtime(owner):
        structural = is_structural(fn)
        if vm.pieces is not None and not isinstance(owner, BOXES) and (
                not structural or any(map(is_piece, (*args, *kwargs.values())))):
            return of_tensor(vm, fn, args, kwargs, frame)
        if not structural:
            named, hint = python_instead(fn)
            raise vm.error(
                "CE301", TypeError,
                f"{named}() is called on a tensor, whose elements are not known while compiling",
                frame, hint=hint)
        args = [_as_callback(vm, a, frame) for a in args]
    args, kwargs = _asked(args), dict(zip(kwargs, _asked(kwargs.values()), strict=True))
    if isinstance(fn, np.ufunc) or isinstance(owner, Template) or \
            plain(fn, "__name__") in ("hash", "ascii", "_count_elements"):  # (the last of Counter)
        args, kwargs = [as_known(a) for a in args], as_known(kwargs)
    elif isinstance(owner, (dict, set, frozenset)):
        args = compared(vm, fn, args, kwargs)
    vm.templates.look_at(*args, *kwargs.values())
    run_by_python(vm, (*args, *kwargs.values()))
    guard_extended(vm, (owner,))
    found = outside_call(vm, fn, args, kwargs, frame)
    if found is not MISSING:
        return found
    boxes = [v for v in (owner, *args, *kwargs.values()) if isinstance(v, BOXES)]
    for value in boxes:
        vm.note_object(value)
    run = partial(watched, vm, partial(vm.state.mutate, vm, boxes, fn, args, kwargs, frame))
    keeps = isinstance(fn, functools._lru_cache_wrapper)  # it runs once in PyNative too
    result = run() if keeps else vm.state.whole(
        vm, fn, (owner, *args, *kwargs.values(), fn), frame, run)
    if keeps:  # the result of an earlier call, which the program may have changed since
        vm.state.default(f"what {fn.__name__}() keeps", vm.tracer.place(), result)
        vm.note_result(fn, f"{fn.__name__}{tuple(args)}",
                       partial(fn, *args, **kwargs), result)
    elif not any(result is v for v in (owner, *args)) and not isinstance(result, BOXES):
        vm.state.new(result)
        if is_iterator(result):
            vm.fresh(result)
    return result


def _asked(values: Iterable[Any]) -> list[Any]:
    """Values for a function that takes Python's numbers only: those of state become guards."""
    return [_known(v) for v in values]


def _known(value: Any, depth: int = 3) -> Any:
    if type(value) is StateNumber:
        return value.asked()
    if depth and is_exactly(value, (tuple, list)) and any_state(value):
        return type(value)(_known(v, depth - 1) for v in value)
    return value


def any_state(value: Any) -> bool:
    """Whether a value is, or holds, a number that follows from state."""
    return holds(value, lambda v: type(v) is StateNumber)


Handler = Callable[["Interpreter", Any, Args, Kwargs, "Frame"], Any]
_INTERPRETED = (FunctionType, MethodType, InterpretedFunction, Callback, functools.partial)
"""Callables that may get a number that differs from trip to trip of a loop being rolled: the body
is interpreted, or refuses by itself."""
_BY_TYPE: dict[int, Handler] = {id(kind): handler for kind, handler in (
    (FunctionType, _function), (MethodType, _method), (BuiltinFunctionType, _builtin),
    (type, _construct), (InterpretedFunction, _nested), (Callback, _callback),
    (functools.partial, _partial), (native_method_type(), _native), *OF_OPERATOR.items(),
)}
"""By the identity of the type of what is called, for a metaclass may define `__hash__`."""
