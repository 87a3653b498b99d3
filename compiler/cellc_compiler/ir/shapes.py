"""The facts about symbolic sizes while a network is traced or code is generated, and what is
assumed about them: see `ir/dims.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cellc_runtime.records import dataclass, field, replace

from .dims import (
    Dim,
    Met,
    Quotient,
    Ratio,
    Size,
    Sizes,
    SymbolInfo,
    active_facts,
    bounds,
    evaluate,
    size_of,
    substitute,
    symbols_of,
    terms_of,
)

_LONGEST = (1 << 63) - 1  # No axis is longer: numpy and the runtime hold a size in 64 bits


@dataclass(frozen=True, slots=True)
class Guard:
    """An assumption about sizes while tracing: `expr` is 0, is not 0, or is at least 0."""

    relation: str
    expr: Size
    # the place in the source that asked, for reports; `expression` what stands there
    where: str = ""
    expression: str = ""

    @property
    def names(self) -> set[str]:
        """The sizes that it depends on."""
        return symbols_of(self.expr)

    def holds(self, sizes: Sizes) -> bool:
        """Whether it is so for these sizes."""
        try:
            value = evaluate(self.expr, sizes)
        except ZeroDivisionError:
            return False
        return value == 0 if self.relation == "==" else (
            value != 0 if self.relation == "!=" else value >= 0)

    def __str__(self) -> str:
        terms = terms_of(self.expr)
        left = {m: c for m, c in terms.items() if c > 0}
        right = {m: -c for m, c in terms.items() if c < 0}
        text = f"{size_of(left)} {self.relation} {size_of(right)}"
        return f"{text} ({self.where})" if self.where else text


STAND_IN = 10061
"""A size that stands for those that are not known before the run. One for all, where they may be as
large: a network in which two of them meet takes them for equal, which is then guarded."""


@dataclass
class Shapes:
    """The symbols of one trace, what is known of them, and what was assumed."""

    symbols: dict[str, SymbolInfo] = field(default_factory=dict)  # by name
    # a value for each, those of the call that is traced
    hints: dict[str, int] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    # says where in the source the trace is; `expression` what stands there
    where: Callable[[], str] = str
    expression: Callable[[], str] = str
    # what the sizes that follow from elements turned out to be, in order
    measured: list[int] = field(default_factory=list)
    # what they are in the call of a trace that failed, as far as that is known; `foresee` finds out
    foreseen: list[int] = field(default_factory=list)
    foresee: Callable[[], list[int]] = list
    # what those turned out to be by where they are met, before what is foreseen
    answered: Mapping[Met, int] = field(default_factory=dict)
    # the most that others are taken for, until the run has found them
    largest_guess: int = STAND_IN
    # where the trace has met them; `asked` by the name of the symbol
    met: list[Met] = field(default_factory=list)
    asked: dict[str, Met] = field(default_factory=dict)
    general: bool = False  # code is generated that serves all sizes
    # the sizes that the code reads when it runs, by their places in a table
    table: dict[Dim | Ratio, int] = field(default_factory=dict)
    answers: dict[tuple[str, Size], bool] = field(default_factory=dict)
    equal: dict[str, Size] = field(default_factory=dict)

    def new(self, name: str, hint: int, info: SymbolInfo) -> Dim:
        """A new symbol, renamed if there is one of this name."""
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in name) or "n"
        plain = f"n{plain}" if plain[0].isdigit() else plain
        unique, k = plain, 1
        while unique in self.symbols:
            k += 1
            unique = f"{plain}_{k}"
        self.symbols[unique] = info
        self.hints[unique] = hint
        return Dim.symbol(unique)

    def copy(self) -> Shapes:
        """Return a copy of the known facts and assumptions."""
        return Shapes(dict(self.symbols), dict(self.hints), list(self.guards), self.where,
                      self.expression,
                      list(self.measured), list(self.foreseen), self.foresee, self.answered,
                      self.largest_guess, list(self.met), dict(self.asked),
                      self.general, dict(self.table), dict(self.answers), dict(self.equal))

    def at(self, sizes: Sizes) -> Shapes:
        """The facts about the other symbols where these have these values."""
        table: dict[str, Size] = dict(sizes)
        guards = [replace(g, expr=substitute(g.expr, table)) for g in self.guards]
        answers = {("==" if g.relation == "!=" else g.relation, g.expr): g.relation != "!="
                   for g in guards}
        return Shapes(
            {s: replace(info, limit=substitute(info.limit, table) if info.limit else None)
             for s, info in self.symbols.items() if s not in sizes},
            {s: n for s, n in self.hints.items() if s not in sizes}, guards, answers=answers,
            equal={s: substitute(x, table) for s, x in self.equal.items() if s not in sizes})

    def assume(self, guards: Sequence[Guard]) -> None:
        """Take conditions as facts."""
        for g in guards:
            self.guards.append(g)
            if type(g.expr) is not Dim:
                continue
            self.answers["==" if g.relation == "!=" else g.relation, g.expr] = g.relation != "!="
            if g.relation == "==":
                self._solve(g.expr)
            elif g.relation == ">=":
                self._narrow(g.expr)

    def restore(self, before: Shapes) -> None:
        """Forget what a trace that is thrown away has asked and assumed; what was measured stays.

        A question is written down when it is first asked, so all answers go with the guards.
        """
        fresh = before.copy()
        self.symbols, self.hints, self.guards = fresh.symbols, fresh.hints, fresh.guards
        self.met, self.asked = fresh.met, fresh.asked
        self.answers, self.equal = fresh.answers, fresh.equal

    def shown(self, guard: Guard) -> str:
        """A guard for messages, without the value of a stand-in."""
        named = symbols_of(guard.expr)
        if guard.relation == "==" and len(named) == 1 and all(
                self.symbols[s].stand_in for s in named if s in self.symbols):
            place = f" ({guard.where})" if guard.where else ""
            return f"{named.pop()} is one known number{place}"
        return str(guard)

    def pins(self, guard: Guard) -> bool:
        """Whether a guard that holds needs a size as a number: an equality that multiples of the
        sizes do not keep, as those do that say that a number divides a size."""
        if guard.relation != "==":
            return False
        return not any(guard.holds({name: by * size for name, size in self.hints.items()})
                       for by in (2, 3, 5))

    def known(self, name: str) -> bool:
        """Whether a symbol has one value."""
        info = self.symbols[name]
        return type(self.equal.get(name)) is int or info.low == info.high

    def ask(self, relation: str, x: Size) -> bool:
        """Whether `x == 0` or `x >= 0`: decided, or assumed as it is for the hints."""
        x = substitute(x, self.equal) if self.equal else x
        if type(x) is not Dim:
            return x == 0 if relation == "==" else x >= 0
        known = self.decide(relation, x)
        if known is None:
            # (Two sizes that are not always equal are different in code for all sizes.)
            known = self._assume(relation, x) if not self.general or relation == ">=" else False
        return known

    def decide(self, relation: str, x: Dim) -> bool | None:
        """Whether `x == 0` or `x >= 0`, if that is known."""
        found = self.answers.get((relation, x))
        if found is not None:
            return found
        low, high = self.bounds(x)
        if abs(terms_of(x).get((), 0)) >= _LONGEST:  # (the range of an element type)
            low, high = bounds(x, {n: i if i.high is not None else replace(i, high=_LONGEST)
                                   for n, i in self.symbols.items()})
        if high is not None and high < 0:
            found = False
        elif low is not None and low >= (relation != ">="):
            found = relation == ">="
        elif low == high == 0 or self.answers.get(("==", x)) or self.answers.get(("==", -x)):
            found = True
        else:
            return None if relation == ">=" else self.answers.get((relation, -x))
        self.answers[(relation, x)] = found
        return found

    def _assume(self, relation: str, x: Dim) -> bool:
        value = evaluate(x, self.hints)
        answer = value == 0 if relation == "==" else value >= 0
        self.answers[(relation, x)] = answer
        asked = self.where(), self.expression()
        if relation == "==":
            self.guards.append(Guard("==" if answer else "!=", x, *asked))
            if answer:
                self._solve(x)
        else:
            self.guards.append(Guard(">=", x if answer else -x - 1, *asked))
            self._narrow(self.guards[-1].expr)
        return answer

    def _solve(self, x: Dim) -> None:
        """From `x == 0`: one symbol is worked out from the others and replaced from now on, or what
        a quotient divides is bounded."""
        for monomial, c in x.terms:
            if abs(c) == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                rest = size_of({m: k for m, k in x.terms if m != monomial})
                value = -rest if c == 1 else rest
                if monomial[0] not in symbols_of(value):
                    table = {monomial[0]: value}
                    self.equal = {s: substitute(v, table) for s, v in self.equal.items()}
                    self.equal[monomial[0]] = value
                    return
        self._narrow(x)
        self._narrow(-x)

    def _narrow(self, x: Size) -> None:
        """From `x >= 0` with one symbol, or a quotient of one: its bounds."""
        terms = terms_of(x)
        constant = terms.pop((), 0)
        if len(terms) != 1:
            return
        (((*atoms,), c),) = terms.items()
        if len(atoms) != 1:
            return
        atom = atoms[0]
        if isinstance(atom, Quotient) and type(atom.divisor) is int and atom.divisor > 0:
            n, by = atom.numerator, atom.divisor
            self._narrow(n + constant // c * by if c > 0 else (constant // -c + 1) * by - 1 - n)
        if not isinstance(atom, str):
            return
        info = self.symbols[atom]
        low, high = info.low, info.high
        if c > 0:
            low = max(low, -(constant // c))
        else:
            most = constant // -c
            high = most if high is None else min(high, most)
        self.symbols[atom] = replace(info, low=low, high=high)
        if low == high:
            self._solve(Dim.symbol(atom) - low)

    def bounds(self, x: Size) -> tuple[int | None, int | None]:
        return bounds(x, self.symbols)


def active_shapes() -> Shapes | None:
    """The symbols of the trace that this thread is in."""
    found = active_facts()
    return found if isinstance(found, Shapes) else None
