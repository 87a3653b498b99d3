"""Functions: arguments, closures, nonlocal, lambdas, recursion, decorators, partial."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from cellc import ops

from .table import X, Y, Table

case = Table(X, Y)


def every_kind(a: Any, b: Any = 2, /, c: Any = 3, *args: Any, d: Any, e: Any = 5, **kwargs: Any) -> Any:
    return a, b, c, args, d, e, kwargs


@case
def every_kind_of_parameter(x: Any) -> Any:
    return (every_kind(x, d=1), every_kind(1, 2, x, 4, 5, d=6, e=7, f=8),
            every_kind(*[1, 2], *(3, 4), **{"d": x}, **{"z": 1}), every_kind(1, c=x, d=2))


@case
def defaults_are_evaluated_once(x: Any) -> Any:
    def f(v: Any, seen: list = []) -> Any:
        seen.append(v)
        return len(seen)

    return x, f(1), f(2), f(3, [])


@case
def defaults_from_outside(x: Any) -> Any:
    k = 2
    f = lambda v, n=k: v * n
    k = 100
    return f(x), f(x, 3), f(n=4, v=x)


@case
def keyword_only_and_order(x: Any) -> Any:
    def f(*, a: Any, b: Any = 2) -> Any:
        return a - b

    return f(a=x), f(b=1, a=x)


@case
def star_args_through(x: Any) -> Any:
    def inner(a: Any, *rest: Any, **named: Any) -> Any:
        return a, rest, named

    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs, extra=len(args))

    return outer(x, 1, k=2), outer(*x)


@case
def returns_nothing(x: Any) -> Any:
    def f(v: Any) -> Any:
        v = v + 1

    def g(v: Any) -> Any:
        return

    return f(x), g(x), (lambda: None)()


@case
def returns_many(x: Any) -> Any:
    def f(v: Any) -> Any:
        return v, v + 1, [v]

    a, b, (c,) = f(x)
    return f(x)[1], a + b, c


@case
def closure_over_loop_variable(x: Any) -> Any:
    late = [lambda: i for i in range(3)]
    early = [lambda i=i: i for i in range(3)]
    fs = []
    for j in range(3):
        def f() -> Any:
            return j
        fs.append(f)
    return x, [g() for g in late], [g() for g in early], [g() for g in fs]


@case
def closure_sees_later_values(x: Any) -> Any:
    def f() -> Any:
        return y * 2

    y = x
    first = f()
    y = x + 1
    return first, f()


@case
def nonlocal_two_levels(x: Any) -> Any:
    total = x

    def outer() -> None:
        def inner(v: Any) -> None:
            nonlocal total
            total = total + v

        inner(1)
        inner(2)

    outer()
    return total


@case
def counter_object(x: Any) -> Any:
    def make() -> Any:
        n = 0

        def bump(k: int = 1) -> int:
            nonlocal n
            n += k
            return n

        return bump

    a, b = make(), make()
    return x, a(), a(5), b(), a()


@case
def accumulator_of_tensors(x: Any) -> Any:
    state = x * 0

    def step(v: Any) -> None:
        nonlocal state
        state = state * 0.5 + v

    for k in range(3):
        step(x + k)
    return state


@case
def nonlocal_in_runtime_branch(x: Any) -> Any:
    hits = 0
    best = x

    def visit(v: Any) -> None:
        nonlocal hits, best
        if v.sum() > best.sum():
            best = v
            hits += 1

    visit(x + 1)
    visit(x - 1)
    visit(x * 2)
    return best, hits


@case
def lambdas(x: Any) -> Any:
    add = lambda a, b=1, *c, d=4, **e: a + b + sum(c) + d + sum(e.values())
    compose = lambda f, g: lambda v: f(g(v))
    return add(x), add(x, 2, 3, d=0, z=9), compose(lambda v: v * 2, lambda v: v + 1)(x), (lambda: x)()


@case
def conditional_lambda(x: Any) -> Any:
    f = (lambda v: v + 1) if len(x) > 2 else (lambda v: v - 1)
    return f(x)


@case
def recursion_factorial(x: Any) -> Any:
    def fact(n: int) -> int:
        return 1 if n <= 1 else n * fact(n - 1)

    return x * fact(5)


@case
def recursion_mutual(x: Any) -> Any:
    def even(n: int) -> Any:
        return True if n == 0 else odd(n - 1)

    def odd(n: int) -> Any:
        return False if n == 0 else even(n - 1)

    return x, even(10), odd(7), even(3)


def module_power(x: Any, n: int) -> Any:
    if n == 0:
        return 1
    half = module_power(x, n // 2)
    return half * half * (x if n % 2 else 1)


@case
def recursion_of_a_module_function(x: Any) -> Any:
    return module_power(x, 5)


@case
def recursion_on_structure(x: Any) -> Any:
    def total(t: Any) -> Any:
        if isinstance(t, (list, tuple)):
            return sum([total(v) for v in t])
        if isinstance(t, dict):
            return total(list(t.values()))
        return t

    return total([x, (x, [1, 2]), {"a": x, "b": {"c": 3}}])


@case
def recursion_with_tensor_work(x: Any) -> Any:
    def halve(v: Any, depth: int) -> Any:
        if depth == 0:
            return v
        if v.sum() > 0:
            return halve(v / 2, depth - 1)
        return halve(v + 1, depth - 1)

    return halve(x, 4)


def twice(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return fn(fn(*args, **kwargs))

    return wrapped


def scaled_by(k: Any) -> Any:
    def decorate(fn: Any) -> Any:
        def wrapped(*args: Any) -> Any:
            return fn(*args) * k

        return wrapped

    return decorate


class Memo:
    def __init__(self, fn: Any) -> None:
        self.fn, self.count = fn, 0
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any) -> Any:
        return self.fn(*args) + 1


@twice
def plus_three(v: Any) -> Any:
    return v + 3


@scaled_by(3)
@scaled_by(2)
def plain(v: Any) -> Any:
    return v + 1


@Memo
def by_object(v: Any) -> Any:
    return v * 5


@case
def decorated_functions(x: Any) -> Any:
    return plus_three(x), plain(x), by_object(x), plus_three.__name__


@case
def decorated_inside(x: Any) -> Any:
    @twice
    @scaled_by(2)
    def f(v: Any) -> Any:
        return v - 1

    @functools.wraps(plain)
    def g(v: Any) -> Any:
        return v

    @(lambda fn: lambda v: fn(v) + 100)
    def h(v: Any) -> Any:
        return v

    return f(x), g(x), g.__name__, h(x)


@case
def decorator_of_the_program_itself(x: Any) -> Any:
    return twice(lambda v: v * v)(x)


@case
def partials(x: Any) -> Any:
    def f(a: Any, b: Any, c: Any = 0, *, d: Any = 1) -> Any:
        return a * b + c - d

    g = functools.partial(f, x, c=2)
    h = functools.partial(g, 3, d=0)
    return g(2), g(2, c=5), h(), functools.partial(every_kind, 1, d=x)(), g.func is f, h.args


@case
def partials_of_ops(x: Any) -> Any:
    def f(a: Any, b: Any, c: Any = 0) -> Any:
        return a * b + c

    return ops.partial(f, b=2)(x), ops.partial(f, x, c=1)(3), ops.partial(f)(x, 2, c=x)


@case
def reduce_with_functions(x: Any) -> Any:
    return (functools.reduce(lambda a, b: a * b, [x, 2, 3]), functools.reduce(operator.add, [x, x], 1),
            functools.reduce(lambda f, g: lambda v: g(f(v)), [lambda v: v + 1, lambda v: v * 2])(x))


@case
def functions_in_containers(x: Any) -> Any:
    table = {"inc": lambda v: v + 1, "dbl": lambda v: v * 2}
    steps = [table["inc"], table["dbl"], abs]
    for f in steps:
        x = f(x)
    return x, table["inc"](1)


@case
def operator_module(x: Any) -> Any:
    get = operator.itemgetter(1)
    return (operator.add(x, 1), operator.neg(x), operator.mul(2, 3), get([1, x]), operator.getitem(x, 0),
            operator.attrgetter("ndim")(x), operator.lt(1, 2))


@case
def methods_as_values(x: Any) -> Any:
    total, text = x.sum, "a-b".split
    append = (l := []).append
    append(1)
    append(x)
    return total(), text("-"), l


@case
def positional_only_name_reused(x: Any) -> Any:
    def f(a: Any, /, **kw: Any) -> Any:
        return a, kw

    return f(x, a=1)


@case
def argument_is_rebound(x: Any) -> Any:
    def f(v: Any) -> Any:
        v = v + 1
        return v

    return f(x), x


@case
def list_argument_is_shared(x: Any) -> Any:
    def f(l: Any) -> None:
        l.append(x)
        l = []

    mine = [1]
    f(mine)
    return mine


@case
def early_returns_at_run_time(x: Any) -> Any:
    def sign(v: Any) -> Any:
        if v > 0:
            return 1.0
        if v < 0:
            return -1.0
        return 0.0

    return x * sign(x[0]) + sign(x[1]), sign(x.sum() * 0)


@case
def returned_structures_at_run_time(x: Any) -> Any:
    def f(v: Any) -> Any:
        if v.sum() > 0:
            return {"a": v, "b": [v + 1, 1]}
        return {"a": v * 2, "b": [v - 1, 1]}

    return f(x)


@case
def callback_argument(x: Any) -> Any:
    def apply_all(fs: Any, v: Any) -> Any:
        return [f(v) for f in fs]

    return apply_all([lambda v: v + 1, lambda v: v.sum(), max], x)[:2]


@case
def pipeline(x: Any) -> Any:
    def pipe(*fs: Any) -> Any:
        def run(v: Any) -> Any:
            for f in fs:
                v = f(v)
            return v

        return run

    return pipe(lambda v: v + 1, lambda v: v * 2, lambda v: v - 3)(x)


@case
def generator_functions_over_known_values(x: Any) -> Any:
    return x * sum(squares(4)), list(squares(3)), [v for v in squares(2)], dict(enumerate(squares(2)))


def squares(n: int) -> Any:
    for i in range(n):
        yield i * i


@case
def cached_function(x: Any) -> Any:
    return x * slow(3) + slow(3)


@functools.lru_cache(maxsize=None)
def slow(n: int) -> int:
    return n * 10


@case
def function_attributes(x: Any) -> Any:
    return x, module_power.__name__, every_kind.__defaults__, squares.__module__ == __name__


def with_doc(x: Any) -> Any:
    """Text."""
    return x + 1


@case
def function_with_docstring(x: Any) -> Any:
    return with_doc(x), with_doc.__doc__
