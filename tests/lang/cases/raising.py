"""Programs that end in an exception: the same kind in both modes and in Python."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from typing import Any

import numpy as np

import cellc as ms

from .table import X, Y, Table

case = Table(X)


class Own(Exception):
    pass


class OwnRuntime(RuntimeError):
    pass


@case.on(raises=NameError)
def undefined_name(x: Any) -> Any:
    return x + undefined


@case.on(raises=UnboundLocalError)
def read_before_assignment(x: Any) -> Any:
    y = z
    z = 1
    return x


@case.on(raises=UnboundLocalError)
def read_after_del(x: Any) -> Any:
    y = 1
    del y
    return x + y


@case.on(raises=AttributeError)
def missing_attribute(x: Any) -> Any:
    return x.no_such_thing


@case.on(raises=AttributeError)
def attribute_of_none(x: Any) -> Any:
    return None.shape


@case.on(raises=TypeError)
def wrong_argument_count(x: Any) -> Any:
    def f(a: Any, b: Any) -> Any:
        return a

    return f(x)


@case.on(raises=TypeError)
def unexpected_keyword(x: Any) -> Any:
    def f(a: Any) -> Any:
        return a

    return f(x, b=1)


@case.on(raises=TypeError)
def twice_the_same_argument(x: Any) -> Any:
    def f(a: Any, b: Any = 1) -> Any:
        return a

    return f(x, a=1)


@case.on(raises=TypeError)
def not_callable(x: Any) -> Any:
    three = 3
    return three(x)


@case.on(raises=TypeError)
def not_iterable(x: Any) -> Any:
    for i in 5:
        x = x + i
    return x


@case.on(raises=TypeError)
def list_plus_int(x: Any) -> Any:
    return [1] + 1


@case.on(raises=TypeError)
def string_plus_int(x: Any) -> Any:
    return "a" + 1


@case.on(raises=ValueError)
def too_many_to_unpack(x: Any) -> Any:
    a, b = [1, 2, 3]
    return x


@case.on(raises=ValueError)
def too_few_to_unpack(x: Any) -> Any:
    a, b, *c = (1,)
    return x


@case.on(raises=ValueError)
def tensor_rows_to_unpack(x: Any) -> Any:
    a, b = x
    return a


@case.on(raises=IndexError)
def list_index(x: Any) -> Any:
    return [1, 2][5]


@case.on(raises=IndexError)
def tensor_index(x: Any) -> Any:
    return x[7]


@case.on(raises=IndexError)
def pop_from_empty(x: Any) -> Any:
    return [].pop()


@case.on(raises=KeyError)
def dict_key(x: Any) -> Any:
    return {"a": x}["b"]


@case.on(raises=ZeroDivisionError)
def division_by_zero(x: Any) -> Any:
    return x * (1 // 0)


@case.on(raises=ValueError)
def int_of_text(x: Any) -> Any:
    return int("abc")


@case.on(raises=ValueError)
def list_remove(x: Any) -> Any:
    [1].remove(2)


@case.on(raises=AssertionError)
def failed_assertion(x: Any) -> Any:
    assert len(x) == 99, "not 99"
    return x


@case.on(raises=Own)
def own_exception(x: Any) -> Any:
    raise Own("mine", 3)


@case.on(raises=OwnRuntime)
def own_subclass(x: Any) -> Any:
    def deep(n: int) -> Any:
        if n == 0:
            raise OwnRuntime(f"at {n}")
        return deep(n - 1)

    return deep(3)


@case.on(raises=ValueError)
def raised_class_only(x: Any) -> Any:
    raise ValueError


@case.on(raises=NotImplementedError)
def not_implemented(x: Any) -> Any:
    raise NotImplementedError("later")


@case.on(raises=RuntimeError)
def raise_without_exception(x: Any) -> Any:
    raise


@case.on(raises=TypeError)
def raise_of_a_number(x: Any) -> Any:
    raise 3


@case.on(raises=StopIteration)
def next_at_the_end(x: Any) -> Any:
    return next(iter([]))


@case.on(raises=TypeError)
def unhashable_key(x: Any) -> Any:
    return {[1]: x}


@case.on(raises=TypeError)
def tuple_assignment(x: Any) -> Any:
    t = (1, 2)
    t[0] = 3
    return x


@case.on(raises=ValueError)
def reshape_to_another_size(x: Any) -> Any:
    return x.reshape(5, 5)


@case.on(raises=TypeError)
def none_plus_tensor(x: Any) -> Any:
    return None + x


@case.on(raises=TypeError)
def missing_return_is_none(x: Any) -> Any:
    def f(v: Any) -> Any:
        v + 1

    return f(x) * 2


@case.on(raises=ValueError)
def ambiguous_truth(x: Any) -> Any:
    if x > 0:
        return x
    return -x


@case.on(raises=ImportError)
def missing_module(x: Any) -> Any:
    import no_such_module_at_all

    return x


@case.on(raises=RecursionError)
def endless_recursion(x: Any) -> Any:
    def f(n: int) -> int:
        return f(n + 1)

    return f(0)


@case.on(raises=ValueError)
def empty_max(x: Any) -> Any:
    return max([])


@case.on(raises=TypeError)
def bad_reduce(x: Any) -> Any:
    import functools

    return functools.reduce(lambda a, b: a, [])


@case.on(raises=ValueError)
def strict_zip(x: Any) -> Any:
    return list(zip([1], [2, 3], strict=True))


@case.on(raises=ValueError)
def finally_does_not_swallow(x: Any) -> Any:
    try:
        raise ValueError("v")
    finally:
        x = x + 1


@case.on(raises=KeyError)
def wrong_handler(x: Any) -> Any:
    try:
        return {}["k"]
    except (IndexError, ValueError):
        return x


@case.on(raises=TypeError)
def matmul_with_number(x: Any) -> Any:
    return x @ "a"


@case.on(raises=ZeroDivisionError)
def run_time_int_division_by_zero(x: Any) -> Any:
    n = int(x.sum()) - 2
    return x, 7 // n


@case.on(raises=ZeroDivisionError)
def run_time_float_division_by_zero(x: Any) -> Any:
    return 1.5 / float(x.sum() - 2)


@case.on(raises=ZeroDivisionError)
def run_time_modulo_by_zero(x: Any) -> Any:
    n = 0
    while x.sum() < 5:
        x = x + 1
        n += 1
    return n % (n - 1)


@case.on(raises=ZeroDivisionError)
def known_zero_divides_a_number_of_the_run(x: Any) -> Any:
    return int(x.sum()) / 0
