"""Functions of Python and numpy that are not functions of their arguments alone.

Functions that a run can call for itself (the time, a random number, a line in the log) become host
calls of the graph, so each call asks anew, in program order. The environment is compared before
each call. Everything else of the standard library that reads or changes the world is an error: a
trace would do it once. The modules whose functions give the same for the same arguments are listed.
"""

from __future__ import annotations

import copyreg
import os
import sys
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.types import TensorType

from ..core.module_names import function_name, is_exactly, module_of, plain
from ..tracing.numbers import DTYPES, GraphNumber, Kind
from ..tracing.reads import is_iterator
from ..tracing.tracer import GraphTensor
from .recipes import recipe_of
from .trust import root
from .values import MISSING

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

_CLOCKS: dict[str, Kind] = {
    **dict.fromkeys(("time", "monotonic", "perf_counter", "process_time", "thread_time"), float),
    **dict.fromkeys(("time_ns", "monotonic_ns", "perf_counter_ns", "process_time_ns",
                     "thread_time_ns"), int),
}
_DRAWS: dict[str, Kind] = {
    **dict.fromkeys(("random", "uniform", "gauss", "normalvariate", "betavariate", "expovariate",
                     "triangular", "gammavariate", "lognormvariate", "paretovariate",
                     "vonmisesvariate", "weibullvariate"), float),
    **dict.fromkeys(("randint", "randrange", "getrandbits"), int),
}
_NUMPY_DRAWS: dict[str, Kind] = {
    **dict.fromkeys(("rand", "randn", "random", "random_sample", "standard_normal", "uniform",
                     "normal", "exponential", "beta", "gamma"), float),
    "randint": int,
}
_NUMPY_SIZES = {"rand": 0, "randn": 0, "random": 0, "random_sample": 0, "standard_normal": 0,
                "uniform": 2, "normal": 2, "exponential": 1, "beta": 2, "gamma": 2, "randint": 2}
"""Arguments up to which these give one number, not an array."""
_LOGS = frozenset(("debug", "info", "warning", "error", "critical", "log", "warn"))

_PURE = frozenset(
    ("abc", "ast", "array", "base64", "binascii", "bisect", "builtins", "calendar", "cmath",
     "collections", "colorsys", "contextlib", "copy", "copyreg", "dataclasses", "datetime",
     "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "html", "inspect",
     "itertools", "json", "keyword", "math", "numbers", "operator", "pprint", "re", "reprlib",
     "statistics", "string", "struct", "textwrap", "types", "typing", "unicodedata", "uuid",
     "weakref", "zlib", "posixpath", "ntpath", "genericpath", "pathlib", "sre_compile",
     "sre_parse", "zoneinfo", "ipaddress", "urllib", "abc")
)
"""Modules of the standard library whose functions follow from their arguments, but for those of
`_IMPURE`. (Names in C begin with an underscore.)"""
_IMPURE = frozenset(
    ("now", "today", "utcnow", "uuid1", "uuid4", "getnode", "exists", "lexists", "isfile", "isdir",
     "islink", "ismount", "getsize", "getmtime", "getatime", "getctime", "samefile", "realpath",
     "abspath", "expanduser", "expandvars", "urlopen", "urlretrieve", "currentframe", "stack",
     "getsource", "getsourcelines", "file_digest", "cache_info", "cache_clear", "getcontext",
     "localcontext", "setcontext", "pprint", "pp", "prmonth", "prweek", "pryear", "prcal",
     "setfirstweekday")
)
_HASHES = frozenset(("hashlib", "blake2", "md5", "sha1", "sha2", "sha3", "sha256", "sha512"))
"""Modules of objects that keep what they have been given."""
_OF_NUMPY = frozenset(
    ("get_printoptions", "geterr", "geterrcall", "getbufsize", "set_printoptions", "seterr",
     "seterrcall", "setbufsize", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "save",
     "savez", "savez_compressed",
     "savetxt", "tofile")
)


def outside_call(
    vm: Interpreter, fn: Any, args: list[Any], kwargs: dict[str, Any], frame: Frame
) -> Any:
    """The result of a function that is no function of its arguments alone; MISSING for the others.

    Raises:
        CompileRuntimeError: it reads or changes the world as no run can (CE307), or it moves an
            iterator that was there before (CE308).
    """
    module, name = _identity(fn)
    if isinstance(fn, weakref.ref):
        raise vm.error("CE307", RuntimeError, "a weak reference is called: whether its object is "
                       "still there is known when it is", frame, hint=_instead(module))
    if _seeded(vm, fn, module, name, args, kwargs):
        return MISSING
    kind = _number(module, name, args, kwargs)
    if kind is not None:
        return _asked(vm, fn, f"{module}.{name}", kind, args, kwargs, frame)
    if (module, name) in (("random", "seed"), ("numpy.random", "seed"), ("time", "sleep")) or (
        root(module) == "logging" and name in _LOGS
    ) or (module, name) in (("warnings", "warn"), ("_warnings", "warn")):
        return _asked(vm, fn, f"{module}.{name}", None, args, kwargs, frame)
    if (module, name) == ("os", "getenv") or _of_environment(fn, name):
        vm.state.environment(args[0], vm)
        return MISSING
    if module in _HASHES and _is_of_outside(vm, fn):
        raise _refused(vm, fn, module, name, frame)
    if module == "copy":  # it asks a table how objects of a class are taken apart
        vm.report_global(copyreg.__dict__, "dispatch_table")
    if _reads_world(fn, module, name):
        raise _refused(vm, fn, module, name, frame)
    refuse_iterators(vm, (plain(fn, "__self__"), *args, *kwargs.values()), frame)
    return MISSING


def _is_of_outside(vm: Interpreter, method: Any) -> bool:
    """Whether a method is one of an object that was there before the trace."""
    owner = plain(method, "__self__")
    return owner is not None and not isinstance(owner, (type, ModuleType)) and \
        vm.state.is_outside(owner)


def _refused(vm: Interpreter, fn: Any, module: str, name: str, frame: Frame) -> Exception:
    return vm.error(
        "CE307", RuntimeError,
        f"{_shown(fn, module, name)}() reads or changes what is outside of the network, which "
        "a compiled function would do only once", frame, hint=_instead(module))


def _shown(fn: Any, module: str, name: str) -> str:
    owner = plain(fn, "__self__")
    return f"{module}.{owner.__name__}.{name}" if isinstance(owner, type) else f"{module}.{name}"


def _identity(fn: Any) -> tuple[str, str]:
    """The module (without the underscores of C) and the name of a function or class."""
    owner = plain(fn, "__self__")
    module = plain(fn, "__module__")
    if isinstance(owner, ModuleType):
        module = owner.__name__
    elif owner is not None and not isinstance(module, str):
        module = module_of(owner if isinstance(owner, type) else type(owner))
    if not isinstance(module, str):
        module = module_of(type(fn))
    if module.startswith("numpy.random"):
        module = "numpy.random"
    return module.lstrip("_"), function_name(fn)


_GENERATORS = frozenset(("Random", "RandomState", "default_rng", "Generator", "SeedSequence",
                         "PCG64", "MT19937", "Philox", "SFC64"))


def _seeded(
    vm: Interpreter, fn: Any, module: str, name: str, args: list[Any], kwargs: dict[str, Any]
) -> bool:
    """Whether a generator of random numbers is made of a seed, or was by this trace."""
    if module not in ("random", "numpy.random"):
        return False
    if name in _GENERATORS:
        return bool(args or kwargs)
    owner = plain(fn, "__self__")
    return owner is not None and not isinstance(owner, (type, ModuleType)) and \
        not _is_of_outside(vm, fn)


def _number(module: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Kind | None:
    if module == "time":
        return _CLOCKS.get(name)
    if module == "random":
        return _DRAWS.get(name)
    if module == "numpy.random" and len(args) <= _NUMPY_SIZES.get(name, -1) \
            and "size" not in kwargs and "dtype" not in kwargs:
        return _NUMPY_DRAWS.get(name)
    return None


def _of_environment(fn: Any, name: str) -> bool:
    return plain(fn, "__self__") is os.environ and name in ("get", "__getitem__",
                                                                   "__contains__")


def _reads_world(fn: Any, module: str, name: str) -> bool:
    top = root(module)
    if top == "numpy":
        return module == "numpy.random" or name in _OF_NUMPY
    if top == "pathlib":
        owner = plain(fn, "__self__")
        return owner is not None and not any(
            name in c.__dict__ for c in type(owner).__mro__ if c.__name__ == "PurePath")
    if top in ("os", "posix", "nt") and name in ("fspath", "fsencode", "fsdecode"):
        return False
    if top not in sys.stdlib_module_names and f"_{top}" not in sys.stdlib_module_names:
        return False
    return top not in ("__main__", "main") and (top not in _PURE or name in _IMPURE)


def _instead(module: str) -> str:
    if module in ("random", "numpy.random", "secrets"):
        return "use ops.rand, ops.randn, ops.randint or nn.Dropout, or pass it as an argument"
    return "call it outside, and pass what it gives as an argument"


def _asked(
    vm: Interpreter, fn: Any, name: str, kind: Kind | None, args: list[Any],
    kwargs: dict[str, Any], frame: Frame,
) -> Any:
    """Make each run call a function: the number that it gives; without `kind`, None."""
    named = list(kwargs)
    recipe = recipe_of(vm, [*args, *kwargs.values()], f"{name}()", frame)

    def ask(*tensors: Any) -> Any:
        values = recipe.values(tensors)
        found = fn(*values[:len(args)], **dict(zip(named, values[len(args):], strict=True)))
        return None if kind is None else found

    types = [] if kind is None else [TensorType((), DTYPES[kind])]
    made = vm.tracer.host_call(ask, name, recipe.leaves, types)
    if kind is None:
        return None
    assert isinstance(made[0], GraphTensor)
    return GraphNumber(made[0].ir_value, kind)


def refuse_proxy(vm: Interpreter, value: Any, frame: Frame) -> None:
    """Refuse a weak proxy: its object may be gone when a later call uses it.

    Raises:
        CompileRuntimeError: the value is a weak proxy (CE307).
    """
    if is_exactly(value, weakref.ProxyTypes):
        raise vm.error("CE307", RuntimeError, "a weak proxy is used, whose object may be gone "
                       "in a later call", frame, hint="hold the object itself")


def refuse_iterators(vm: Interpreter, values: Any, frame: Frame) -> None:
    """An iterator from outside continues from call to call, which a trace cannot.

    Raises:
        CompileTypeError: one of the values is such an iterator (CE308).
    """
    for value in values:
        if is_iterator(value) and vm.state.is_outside(value):
            raise vm.error(
                "CE308", TypeError,
                f"a {type(value).__name__} that was made outside would be taken further in a "
                "compiled function", frame,
                hint="take its element outside (next(it)), and pass it as an argument",
            )
