"""Random programs with control flow, as Python source.

Every variable has one type for its life, so a program is one that compiles: what differs between
the modes is a fault. Loops on tensors count up to a bound, so every program ends; by an error that
it raises, now and then, which some programs catch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

F, G, S, I, N, B = "f", "g", "s", "i", "n", "b"  # noqa: E741
"""float32[3], float32[2, 3], float32[], int32[3], int32[], bool[]."""
TENSORS = (F, G, S, I, N)
FLOATS = (F, G, S)
PARAMETERS = (("x", F), ("y", G), ("n", N))
HELD = """class Held:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self.value * 2

    def __exit__(self, kind, error, trace):
        return kind is KeyError
"""
"""What `with` is given in programs."""


@dataclass
class Scope:
    """What is visible: variables by type, and what statements may do here.

    Attributes:
        names: variable -> type. `l:f` is a list of two or more, `d:f` a dict with "a" and "b".
        functions: (name, argument types, result type).
        known: loop variables, Python ints from 0 to 2.
        loop: "" outside loops, else "known" or "run".
        frozen: variables that must keep their value (counters).
    """

    names: dict[str, str]
    functions: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)
    known: tuple[str, ...] = ()
    loop: str = ""
    frozen: frozenset[str] = frozenset()
    depth: int = 0

    def of(self, kind: str) -> list[str]:
        """Variables of a type."""
        return sorted(v for v, t in self.names.items() if t == kind)


class Writer:
    """Draws one program.

    Args:
        draw: hypothesis' function.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0
        self.fails = draw(st.integers(0, 3)) == 0
        self.budget = draw(st.integers(4, 14))

    def pick(self, options: list[str] | tuple[str, ...]) -> str:
        """One of some strings."""
        return self.draw(st.sampled_from(options))

    def fresh(self, prefix: str) -> str:
        """A new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    # --- expressions ----------------------------------------------------------------------------

    def expr(self, kind: str, s: Scope, depth: int = 2) -> str:
        """An expression of a type."""
        leaves = self.leaves(kind, s)
        if depth <= 0 or self.draw(st.integers(0, 3)) == 0:
            return self.pick(leaves)
        d = depth - 1
        e = lambda k: self.expr(k, s, d)  # noqa: E731
        if kind == B:
            return self.condition(s, d)
        forms = [
            lambda: f"({e(kind)} {self.pick(('+', '-', '*'))} {e(kind)})",
            lambda: f"({e(kind)} {self.pick(('+', '-', '*'))} {self.number(kind, s)})",
            lambda: f"({self.number(kind, s)} {self.pick(('+', '-', '*'))} {e(kind)})",
            lambda: f"(-{e(kind)})",
            lambda: f"ops.{self.pick(('maximum', 'minimum'))}({e(kind)}, {e(kind)})",
            lambda: f"ops.where({e(B)}, {e(kind)}, {e(kind)})",
            lambda: f"({e(kind)} if {self.condition(s, d)} else {e(kind)})",
        ]
        forms += [self.python(kind, s, d), *self.special(kind, s, d)]
        calls = [f for f in s.functions if f[2] == kind]
        for name, args, _ in calls:
            forms.append(lambda name=name, args=args:
                         f"{name}({', '.join(self.expr(a, s, 0) for a in args)})")
        return self.draw(st.sampled_from(forms))()

    def python(self, kind: str, s: Scope, d: int) -> Callable[[], str]:
        """One of the forms of the language that any type has: calls, comprehensions, slices of what
        Python holds."""
        e = lambda: self.expr(kind, s, d)  # noqa: E731
        k = self.fresh("e")
        forms = [
            lambda: f"(lambda {k}, w=2: {k} * w)({e()})",
            lambda: f"(lambda *{k}, **w: {k}[-1] + w['a'])({e()}, a={e()})",
            lambda: f"sum(({k} * w for {k}, w in zip(({e()}, {e()}), (2, 3))), {e()})",
            lambda: f"{{{k}: w for {k}, w in zip('ab', ({e()}, {e()}))}}['b']",
            lambda: f"[{e()}, {e()}, {e()}][::-1][{self.pick(('0', '-1', '1'))}]",
            lambda: f"[{k} for {k} in ({e()}, {e()})][{self.pick(('0', '-1'))}]",
            lambda: f"list(map(lambda {k}: {k} + {e()}, [{e()}]))[0]",
            lambda: f"({e()} if {self.number(kind, s)} < {e()}.sum() <= 3 else {e()})",
            lambda: f"dict([(f'{{{self.pick(('1', '2'))}}}', {e()})], x={e()}).popitem()[1]",
            lambda: f"max([({self.pick(('1', '2'))}, {e()})], key=lambda {k}: {k}[0])[1]",
            lambda: f"[lambda v: v * {k} for {k} in (2, 3)][{self.pick(('0', '1'))}]({e()})",
            lambda: f"[lambda v, {k}={k}: v * {k} for {k} in (2, 3)][0]({e()})",
            lambda: f"(lambda {k}, *w: w[0] - {k} if w else {k})"
                    f"(*[{e()}, {e()}][:{self.pick(('1', '2'))}])",
        ]
        return self.draw(st.sampled_from(forms))

    def special(self, kind: str, s: Scope, d: int) -> list:
        """Forms that only some types have."""
        e = lambda k: self.expr(k, s, d)  # noqa: E731
        index = lambda n: self.pick([*s.known, *[str(i) for i in range(-n, n)]]  # noqa: E731
                                    if n == 3 else [str(i) for i in range(-n, n)])
        unary = lambda k: f"ops.{self.pick(('tanh', 'abs', 'relu', 'sin'))}({e(k)})"  # noqa: E731
        if kind == F:
            return [
                lambda: unary(F), lambda: f"{e(G)}[{index(2)}]", lambda: f"{e(G)}.sum(axis=0)",
                lambda: f"{e(F)}[::-1]", lambda: f"({e(F)} * {e(S)})", lambda: f"{e(G)}[-1, :]",
                lambda: f"ops.cat(({e(F)}[1:], {e(F)}[:1]))", lambda: f"{e(I)}.astype(ms.float32)",
                lambda: f"ops.stack([{e(S)} for _ in range(3)])",
                lambda: f"{e(G)}[:int({e(N)}) % 3].sum(axis=0)",
                lambda: f"ops.ones((int({e(N)}) % 3, 3)).sum(axis=0)",
                *[lambda v=v: f"sum([v for v in {v} if {self.condition(s, 0)}], x)"
                  for v in s.of("l:" + F)],
                *[lambda v=v: f"sum({v}.values(), x)" for v in s.of("d:" + F)],
            ]
        if kind == G:
            return [
                lambda: unary(G), lambda: f"ops.stack(({e(F)}, {e(F)}))",
                lambda: f"({e(G)} + {e(F)})", lambda: f"{e(G)}[:, ::-1]",
                lambda: f"{e(G)}[::-1]", lambda: f"({e(S)} * {e(G)})",
            ]
        if kind == S:
            return [
                lambda: unary(S), lambda: f"{e(F)}[{index(3)}]", lambda: f"{e(F)}.sum()",
                lambda: f"{e(G)}.mean()", lambda: f"{e(G)}[{index(2)}, {index(3)}]",
                lambda: f"{e(F)}.max()", lambda: f"sum([{e(S)}, {e(S)}])",
                lambda: f"{e(F)}[{e(N)} % {4 if self.fails else 3}]",
            ]
        if kind == I:
            return [
                lambda: f"({e(I)} + {e(N)})", lambda: f"({e(I)} // {self.pick(('2', '3'))})",
                lambda: f"({e(I)} % {self.pick(('2', '3'))})", lambda: f"{e(I)}[::-1]",
                lambda: f"({e(F)} > {e(F)}).astype(ms.int32)",
            ]
        return [
            lambda: f"{e(I)}[{index(3)}]", lambda: f"({e(N)} % 3)", lambda: f"({e(N)} // 2)",
            lambda: f"({e(S)} > 0).astype(ms.int32)", lambda: f"{e(I)}.max()",
        ]

    def leaves(self, kind: str, s: Scope) -> list[str]:
        """Variables and elements of containers of a type, or a constant of it."""
        found = s.of(kind)
        found += [f"{v}[{i}]" for v in s.of("l:" + kind) for i in (0, -1)]
        found += [f"{v}['{k}']" for v in s.of("d:" + kind) for k in "ab"]
        if kind == B:
            found.append(self.condition(s, 0))
        return found or [self.constant(kind)]

    def constant(self, kind: str) -> str:
        """A constant tensor."""
        return {F: "x", G: "y", S: "x[0]", N: "n", I: "(n + ms.Tensor([0, 1, 2], ms.int32))"}[kind]

    def number(self, kind: str, s: Scope) -> str:
        """A number known at compile time."""
        if kind in FLOATS:
            return self.pick(["0.5", "2.0", "-1.5", "3", *s.known])
        return self.pick(["1", "2", "-1", *s.known])

    def condition(self, s: Scope, depth: int) -> str:
        """A run-time bool scalar, or a comparison of known numbers."""
        e = lambda k: self.expr(k, s, depth)  # noqa: E731
        forms = [
            lambda: f"({e(S)} {self.pick(('<', '>', '<=', '>='))} {self.number(S, s)})",
            lambda: f"({e(N)} {self.pick(('<', '>', '==', '!='))} {self.number(N, s)})",
            lambda: f"({e(F)} > {e(F)}).any()",
        ]
        if s.known:
            forms.append(lambda: f"({self.pick(s.known)} {self.pick(('<', '==', '!='))} "
                                 f"{self.pick(('0', '1', '2'))})")
        if depth > 0:
            forms.append(lambda: f"({self.condition(s, depth - 1)} "
                                 f"{self.pick(('and', 'or'))} {self.condition(s, depth - 1)})")
            forms.append(lambda: f"(not {self.condition(s, depth - 1)})")
        return self.draw(st.sampled_from(forms))()

    # --- statements -----------------------------------------------------------------------------

    def block(self, s: Scope, most: int = 3) -> list[str]:
        """Some statements."""
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, most))):
            lines += self.statement(s)
        return lines

    def statement(self, s: Scope) -> list[str]:
        """One statement."""
        self.budget -= 1
        forms = [self.assign, self.assign, self.augment, self.container]
        if self.fails:
            forms.append(self.fail)
        if self.budget > 0 and s.depth < 3:
            forms += [self.branch, self.branch, self.counted, self.repeated, self.rows, self.pairs,
                      self.caught, self.matched, self.managed]
            if s.depth == 0:
                forms += [self.function, self.assigning, self.recursive]
        if s.loop:
            forms.append(self.leave)
        if s.depth in (1, 2):
            forms.append(self.finish)
        return self.draw(st.sampled_from(forms))(s)

    def targets(self, s: Scope) -> list[str]:
        """Variables that may be assigned."""
        return sorted(v for v, t in s.names.items() if t in TENSORS and v not in s.frozen)

    def assign(self, s: Scope) -> list[str]:
        """`v = e`, to a new variable where all later code is in the same block."""
        if s.depth == 0 and self.draw(st.booleans()):
            kind = self.pick(TENSORS)
            line = f"{self.fresh('v')} = {self.expr(kind, s)}"
            s.names[line.split(" ")[0]] = kind
            return [line]
        v = self.pick(self.targets(s))
        if self.draw(st.integers(0, 4)) == 0:
            w = self.pick(self.targets(s))
            if s.names[v] == s.names[w] and v != w:
                e = self.expr(s.names[v], s)
                return [self.pick((f"{v}, {w} = {w}, {e}", f"{v} = {w} = {e}",
                                   f"{v} = ({w} := {e}) + {w}",
                                   f"({w}, {v}), *_ = ([{v}, {e}], 2)"))]
        return [f"{v} = {self.expr(s.names[v], s)}"]

    def augment(self, s: Scope) -> list[str]:
        """`v += e`, of a variable or of an element of a container."""
        v = self.pick([*self.targets(s), *(v for v, t in sorted(s.names.items()) if ":" in t)])
        kind = s.names[v]
        if ":" in kind:
            v += self.pick(("['a']", "['b']") if kind[0] == "d" else ("[0]", "[-1]"))
            kind = kind[2:]
        return [f"{v} {self.pick(('+=', '-=', '*='))} {self.expr(kind, s)}"]

    def container(self, s: Scope) -> list[str]:
        """Make or change a list or dict."""
        boxes = sorted(v for v, t in s.names.items() if ":" in t)
        if boxes and self.draw(st.booleans()):
            v = self.pick(boxes)
            kind = s.names[v][2:]
            e = self.expr(kind, s, 1)
            if s.names[v][0] == "d":
                return [f"{v}['{self.pick(('a', 'b', 'c'))}'] = {e}"]
            if v not in s.frozen and self.draw(st.booleans()):
                return [f"{v}.append({e})"]
            return [f"{v}[{self.pick(('0', '-1'))}] = {e}"]
        if s.depth:
            return self.assign(s)
        kind = self.pick((F, S, G, N))
        name = self.fresh("c")
        one, two = self.expr(kind, s, 1), self.expr(kind, s, 1)
        if self.draw(st.booleans()):
            s.names[name] = "l:" + kind
            return [f"{name} = [{one}, {two}]"]
        s.names[name] = "d:" + kind
        return [f"{name} = dict(a={one}, b={two})"]

    def inner(self, s: Scope, known: str = "", loop: str | None = None,
              frozen: str = "", **names: str) -> Scope:
        """The scope of a nested block."""
        return Scope({**s.names, **names}, list(s.functions),
                     (*s.known, known) if known else s.known, s.loop if loop is None else loop,
                     s.frozen | {frozen} if frozen else s.frozen, s.depth + 1)

    def branch(self, s: Scope) -> list[str]:
        """`if`, perhaps with `elif` and `else`."""
        lines = [f"if {self.condition(s, 1)}:", *indented(self.block(self.inner(s)))]
        if self.draw(st.integers(0, 3)) == 0:
            lines += [f"elif {self.condition(s, 1)}:", *indented(self.block(self.inner(s)))]
        if self.draw(st.booleans()):
            lines += ["else:", *indented(self.block(self.inner(s)))]
        return lines

    def counted(self, s: Scope) -> list[str]:
        """`for k in range(...)`, perhaps with `else`."""
        k = self.fresh("k")
        body = self.block(self.inner(s, known=k, loop="known"))
        lines = [f"for {k} in range({self.pick(('1', '2', '3'))}):", *indented(body)]
        return lines + self.otherwise(s)

    def rows(self, s: Scope) -> list[str]:
        """`for row in y`."""
        row = self.fresh("r")
        body = self.block(self.inner(s, loop="known", **{row: F}))
        over = self.pick(s.of(G) or ["y"])
        return [f"for {row} in {over}:", *indented(body), *self.otherwise(s)]

    def repeated(self, s: Scope) -> list[str]:
        """`while` on a tensor, bounded by a counter."""
        c = self.fresh("t")
        body = self.block(self.inner(s, loop="run", frozen=c, **{c: N}))
        test = f"{c} < {self.pick(('1', '2', '3'))}"
        if self.draw(st.booleans()):
            test += f" and {self.condition(s, 0)}"
        lines = [f"{c} = n * 0", f"while {test}:", *indented([f"{c} = {c} + 1", *body])]
        return lines + self.otherwise(s)

    def otherwise(self, s: Scope) -> list[str]:
        """`else` of a loop, perhaps."""
        if self.draw(st.integers(0, 3)):
            return []
        return ["else:", *indented(self.block(self.inner(s)))]

    def pairs(self, s: Scope) -> list[str]:
        """A loop over what Python pairs up."""
        k, v = self.fresh("k"), self.fresh("v")
        kind = self.pick((F, S, G))
        boxes = s.of("d:" + kind)
        one, two = self.expr(kind, s, 1), self.expr(kind, s, 1)
        over = self.pick([f"enumerate([{one}, {two}])", f"zip(range(2), ({one}, {two}))",
                          f"reversed([(0, {one}), (1, {two})])",
                          *[f"enumerate(list({b}.values()))" for b in boxes]])
        # (A dict has up to three entries: `k` is a Python int from 0 to 2 in each of these.)
        body = self.block(self.inner(s, known=k, loop="known", **{v: kind}), 2)
        return [f"for {k}, {v} in {over}:", *indented(body), *self.otherwise(s)]

    def fail(self, s: Scope) -> list[str]:
        """An error that the run raises, under a condition."""
        if self.draw(st.booleans()):
            return [f"assert {self.condition(s, 0)}, 'assured'"]
        return [f"if {self.condition(s, 0)}:",
                f"    raise {self.pick(('ValueError', 'IndexError', 'RuntimeError'))}('raised')"]

    def caught(self, s: Scope) -> list[str]:
        """`try`, with an error that comes or not, and `else` or `finally` perhaps."""
        known = self.pick(("True", "False", *[f"{k} == 1" for k in s.known]))
        lines = ["try:", *indented(self.block(self.inner(s), 1)),
                 f"    if {known}:", "        raise KeyError('raised')",
                 f"except {self.pick(('KeyError', 'LookupError', '(ValueError, KeyError)'))}:",
                 *indented(self.block(self.inner(s), 1))]
        fails, self.fails = self.fails, False  # (which of two errors is raised is not compared)
        for word in ("else", "finally"):
            if self.draw(st.integers(0, 3)) == 0:
                lines += [f"{word}:", *indented(self.block(self.inner(s, loop=""), 1))]
        self.fails = fails
        return lines

    def matched(self, s: Scope) -> list[str]:
        """`match` on what Python knows."""
        what = self.pick(("(1, 'a')", "[2, 3]", "{'a': 1}", *s.known))
        lines = [f"match {what}:"]
        for case in ("(1, _)", "[2, *_]", "0 | 1"):
            lines += [f"    case {case}:", *indented(indented(self.block(self.inner(s), 1)))]
        return [*lines, "    case _:", *indented(indented(self.block(self.inner(s), 1)))]

    def managed(self, s: Scope) -> list[str]:
        """`with`: what is entered is another value, and what leaves it may be dropped."""
        v, kind = self.fresh("w"), self.pick((F, S, G))
        known = self.pick(("False", "True", *[f"{k} == 1" for k in s.known]))
        body = self.block(self.inner(s, **{v: kind}), 2)
        if self.draw(st.booleans()):
            body += [f"if {known}:", "    raise KeyError('dropped')"]
        return [f"with Held({self.expr(kind, s, 1)}) as {v}:", *indented(body)]

    def leave(self, s: Scope) -> list[str]:
        """`break` or `continue`, under a condition."""
        return [f"if {self.condition(s, 0)}:", f"    {self.pick(('break', 'continue'))}"]

    def finish(self, s: Scope) -> list[str]:
        """An early return, under a condition."""
        return [f"if {self.condition(s, 0)}:", f"    return {self.result(s)}"]

    def result(self, s: Scope) -> str:
        """What every `return` gives."""
        if self.returns is not None:
            return self.expr(self.returns, s, 1)
        return f"{self.expr(F, s, 1)}, [{self.expr(S, s, 1)}, {self.expr(N, s, 1)}]"

    returns: str | None = None

    def function(self, s: Scope) -> list[str]:
        """A nested function; it may read what is outside."""
        name, kind = self.fresh("h"), self.pick((F, S, G))
        args = [self.pick((F, S, G)) for _ in range(self.draw(st.integers(1, 2)))]
        names = {self.fresh("p"): a for a in args}
        # (It sees the variables outside as they are when it is called, but cannot assign them.)
        inner = Scope({**s.names, **names}, list(s.functions), frozen=frozenset(s.names), depth=2)
        saved, self.returns = self.returns, kind
        body = self.block(inner, 2)
        body.append(f"return {self.expr(kind, inner, 1)}")
        self.returns = saved
        s.functions.append((name, tuple(names.values()), kind))
        return [f"def {name}({', '.join(names)}):", *indented(body)]

    def assigning(self, s: Scope) -> list[str]:
        """A nested function that assigns a variable outside; a call of it, maybe in a branch."""
        name, v = self.fresh("h"), self.pick(self.targets(s))
        kind = s.names[v]
        p = self.fresh("p")
        inner = Scope({**s.names, p: kind}, list(s.functions), frozen=frozenset(s.names) - {v},
                      depth=2)
        saved, self.returns = self.returns, kind
        body = [*self.block(inner, 2), f"{v} = {self.expr(kind, inner, 1)}",
                f"return {self.expr(kind, inner, 0)}"]
        self.returns = saved
        made = [f"def {name}({p}):", *indented([f"nonlocal {v}", *body])]
        call = [f"{self.pick([t for t in self.targets(s) if s.names[t] == kind])} = "
                f"{name}({self.expr(kind, s, 1)})"]
        if self.draw(st.booleans()):
            call = [f"if {self.condition(s, 1)}:", *indented(call)]
        return [*made, *call]

    def recursive(self, s: Scope) -> list[str]:
        """A function that calls itself."""
        name, kind = self.fresh("h"), self.pick((F, S, G))
        p, k = self.fresh("p"), self.fresh("k")
        inner = Scope({**s.names, p: kind}, list(s.functions), (k,), frozen=frozenset(s.names),
                      depth=2)
        saved, self.returns = self.returns, kind
        body = [f"if {k} == 0:", f"    return {self.expr(kind, inner, 1)}", *self.block(inner, 1),
                f"return {name}({self.expr(kind, inner, 1)}, {k} - 1)"]
        self.returns = saved
        s.functions.append((name, (kind,), kind))
        return [f"def {name}({p}, {k}={self.pick('12')}):", *indented(body)]

    def program(self) -> str:
        """The source of `program(x, y, n)`."""
        s = Scope(dict(PARAMETERS))
        lines = self.block(s, 4)
        while self.budget > 0 and len(lines) < 30:
            lines += self.statement(s)
        lines.append(f"return {self.result(s)}")
        head = f"def program({', '.join(v for v, _ in PARAMETERS)}):"
        text = "\n".join([head, *indented(lines), ""])
        return f"{HELD}\n\n{text}" if "with Held(" in text else text


def indented(lines: list[str]) -> list[str]:
    """One level further in."""
    return ["    " + line for line in lines]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Sources of `program(x: float32[3], y: float32[2, 3], n: int32[])`."""
    return Writer(draw).program()
