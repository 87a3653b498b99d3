"""`match` on values known while compiling."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .asking import decided
from .control import condition, truth
from .operators import compare
from .outcome import NEXT, Outcome
from .values import MISSING

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


def match_statement(vm: Interpreter, node: ast.Match, frame: Frame) -> Outcome:
    """The first case that fits."""
    subject = vm.eval(node.subject, frame)
    for case in node.cases:
        bound: dict[str, Any] = {}
        vm.at(case.pattern, frame)
        if not _fits(vm, case.pattern, subject, bound, frame):
            continue
        for name, value in bound.items():
            vm.store(frame, name, value)
        if case.guard is None or _known(vm, condition(vm, case.guard, frame), case.guard, frame):
            return vm.block(case.body, frame)
    return NEXT


def _known(vm: Interpreter, value: Any, node: ast.AST, frame: Frame) -> bool:
    known = truth(vm, value, frame)
    return decided(vm, known, lambda: vm.error(
        "CE404", TypeError, "'match' cannot choose by a value known only at run time", frame,
        node, hint="use if/elif",
    ))


def _fits(
    vm: Interpreter, pattern: ast.pattern, value: Any, bound: dict[str, Any], frame: Frame
) -> bool:
    match pattern:
        case ast.MatchValue(value=expected):
            same = compare(vm, ast.Eq(), value, vm.eval(expected, frame), frame)
            return _known(vm, same, pattern, frame)
        case ast.MatchSingleton(value=expected):
            return value is expected
        case ast.MatchAs(pattern=inner, name=name):
            if inner is not None and not _fits(vm, inner, value, bound, frame):
                return False
            if name is not None:
                bound[name] = value
            return True
        case ast.MatchOr(patterns=patterns):
            return any(_fits(vm, p, value, bound, frame) for p in patterns)
        case ast.MatchSequence(patterns=patterns):
            return _sequence(vm, patterns, value, bound, frame)
        case ast.MatchMapping():
            return _mapping(vm, pattern, value, bound, frame)
        case ast.MatchClass():
            return _class(vm, pattern, value, bound, frame)
    return vm.unsupported(pattern, frame, "CE101")


def _sequence(
    vm: Interpreter, patterns: Sequence[ast.pattern], value: Any, bound: dict[str, Any],
    frame: Frame,
) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return False
    stars = [i for i, p in enumerate(patterns) if isinstance(p, ast.MatchStar)]
    fixed = len(patterns) - len(stars)
    if len(value) < fixed or (not stars and len(value) != fixed):
        return False
    if not stars:
        return all(_fits(vm, p, v, bound, frame) for p, v in zip(patterns, value, strict=True))
    at = stars[0]
    after = len(patterns) - at - 1
    star = patterns[at]
    assert isinstance(star, ast.MatchStar)
    head, tail = list(value[:at]), list(value[len(value) - after:])
    rest = [*patterns[:at], *patterns[at + 1:]]
    if star.name is not None:
        bound[star.name] = list(value[at: len(value) - after])
    return all(_fits(vm, p, v, bound, frame)
                for p, v in zip(rest, head + tail, strict=True))


def _mapping(
    vm: Interpreter, pattern: ast.MatchMapping, value: Any, bound: dict[str, Any], frame: Frame
) -> bool:
    if not isinstance(value, Mapping):
        return False
    keys = [vm.eval(k, frame) for k in pattern.keys]
    if any(k not in value for k in keys):
        return False
    if pattern.rest is not None:
        bound[pattern.rest] = {k: v for k, v in value.items() if k not in keys}
    return all(_fits(vm, p, value[k], bound, frame)
                for k, p in zip(keys, pattern.patterns, strict=True))


_SELF_MATCH = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def _class(
    vm: Interpreter, pattern: ast.MatchClass, value: Any, bound: dict[str, Any], frame: Frame
) -> bool:
    cls = vm.eval(pattern.cls, frame)
    if not isinstance(value, cls):
        return False
    parts: list[tuple[ast.pattern, Any]] = []
    names: Sequence[str] = ()
    if pattern.patterns and any(cls is kind for kind in _SELF_MATCH):
        parts.append((pattern.patterns[0], value))
    elif pattern.patterns:
        names = vm.call(getattr, [cls, "__match_args__", ()], {}, frame)
        if len(names) < len(pattern.patterns):
            raise TypeError(f"{cls.__name__}() accepts {len(names)} positional sub-pattern"
                            f"{'s' * (len(names) != 1)} ({len(pattern.patterns)} given)")
    for name, p in zip((*names[:len(pattern.patterns)], *pattern.kwd_attrs),
                       (*pattern.patterns[:len(names)], *pattern.kwd_patterns), strict=True):
        part = vm.call(getattr, [value, name, MISSING], {}, frame)
        if part is MISSING:
            return False
        parts.append((p, part))
    return all(_fits(vm, p, v, bound, frame) for p, v in parts)
