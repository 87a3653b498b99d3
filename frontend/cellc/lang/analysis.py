"""Static facts about a function before it is interpreted: its names, and which are live where.

Liveness is the usual backward data flow (Aho et al., "Compilers", 9.2.5), done on the tree: a
loop is iterated to a fixed point, `break`, `continue` and `return` carry their own live sets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from cellc_runtime.records import dataclass, field

Names = frozenset[str]
NONE: Names = frozenset()

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names of one function."""

    local: Names  # assigned here (parameters included), neither global nor nonlocal
    # globals, nonlocals: declared so
    globals: Names
    nonlocals: Names
    captured: Names  # read by nested functions, hence live everywhere
    generator: bool  # it has `yield` or is async


def parameters(args: ast.arguments) -> list[str]:
    """All parameter names of a definition."""
    names = [a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs]]
    return names + [a.arg for a in (args.vararg, args.kwarg) if a is not None]


def body_of(node: ast.AST) -> list[ast.stmt]:
    """The statements of a function; a lambda's body as one `return`."""
    if isinstance(node, ast.Lambda):
        return [ast.copy_location(ast.Return(node.body), node.body)]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return node.body


def _binds(node: ast.AST) -> list[str]:
    """The names a node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return [name]
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return [a.asname or a.name.split(".")[0] for a in aliases]
    return []


class _Collector:
    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.captured: set[str] = set()
        self.generator = False

    def visit(self, node: ast.AST, inner: bool = False) -> None:
        """Walk; `inner` inside a comprehension, whose targets are its own."""
        if not inner:
            self.bound.update(_binds(node))
        match node:
            case ast.NamedExpr(target=target):
                self.bound.add(target.id)
            case ast.Global(names=names):
                self.globals.update(names)
            case ast.Nonlocal(names=names):
                self.nonlocals.update(names)
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                self.generator = True
        if isinstance(node, _SCOPES):
            self.captured.update(reads(node))
            outer = [*getattr(node, "decorator_list", ()), *_defaults(node)]
            for child in outer:
                self.visit(child, inner)
            return
        comprehension = inner or isinstance(node, _COMPREHENSIONS)
        for child in ast.iter_child_nodes(node):
            self.visit(child, comprehension)


def _defaults(node: ast.AST) -> list[ast.expr]:
    args = getattr(node, "args", None)
    if not isinstance(args, ast.arguments):
        return []
    return [*args.defaults, *(d for d in args.kw_defaults if d is not None)]


def analyse(node: ast.AST) -> Facts:
    """The names of a function definition or lambda."""
    c = _Collector()
    body = body_of(node)
    for stmt in body:
        c.visit(stmt)
    args = getattr(node, "args", None)
    names = parameters(args) if isinstance(args, ast.arguments) else []
    local = (c.bound | set(names)) - c.globals - c.nonlocals
    return Facts(
        frozenset(local), frozenset(c.globals), frozenset(c.nonlocals), frozenset(c.captured),
        c.generator or isinstance(node, ast.AsyncFunctionDef),
    )


def reads(*nodes: ast.AST) -> set[str]:
    """Every name read anywhere under the nodes, nested functions included."""
    found: set[str] = set()
    for node in nodes:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
                found.add(n.id)
            elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
                found.add(n.target.id)
            elif isinstance(n, (ast.Nonlocal, ast.Global)):
                found.update(n.names)
    return found


def assigned(nodes: Iterable[ast.AST]) -> set[str]:
    """Names bound by statements, nested functions excluded."""
    c = _Collector()
    for node in nodes:
        c.visit(node)
    return c.bound


def always_jumps(stmts: Sequence[ast.stmt]) -> bool:
    """Whether a block surely ends in return, break or continue.

    A run-time `raise` ends the call, so what follows it may stand where it is."""
    if not stmts:
        return False
    last = stmts[-1]
    if isinstance(last, (ast.Return, ast.Break, ast.Continue)):
        return True
    if isinstance(last, ast.If):
        return always_jumps(last.body) and always_jumps(last.orelse)
    return isinstance(last, ast.With) and always_jumps(last.body)


_TOTAL_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)


def is_total(node: ast.expr) -> bool:
    """Whether evaluating an expression can neither fail at run time nor have an effect."""
    for n in ast.walk(node):
        ok = isinstance(n, (
            ast.Name, ast.Constant, ast.Attribute, ast.Compare, ast.UnaryOp, ast.BoolOp,
            ast.BinOp, ast.cmpop, ast.boolop, ast.unaryop, ast.expr_context, ast.operator,
        ))
        if not ok or (isinstance(n, ast.BinOp) and not isinstance(n.op, _TOTAL_OPERATORS)):
            return False
    return True


# --- liveness ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Liveness:
    """Live names: `after` each statement and at the `head` of each loop."""

    captured: Names
    after: dict[ast.stmt, Names] = field(default_factory=dict)
    head: dict[ast.stmt, Names] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Exits:
    """The names that are live at the exits of the enclosing constructs."""

    on_break: Names = NONE
    on_continue: Names = NONE
    on_raise: Names = NONE


def liveness(node: ast.AST, facts: Facts) -> Liveness:
    """Live variables of a function; captured names are live everywhere."""
    out = Liveness(facts.captured)
    _block(body_of(node), NONE, _Exits(), out)
    return out


def read_first(stmts: Sequence[ast.stmt]) -> Names:
    """The variables that statements may read before they assign them."""
    return _block(stmts, NONE, _Exits(), Liveness(NONE))


def _block(stmts: Sequence[ast.stmt], live: Names, exits: _Exits, out: Liveness) -> Names:
    for stmt in reversed(stmts):
        out.after[stmt] = out.after.get(stmt, NONE) | live
        live = _statement(stmt, live, exits, out) | exits.on_raise
    return live


def _use(nodes: Iterable[ast.AST | None]) -> Names:
    return frozenset(reads(*(n for n in nodes if n is not None)))


def _killed(target: ast.AST) -> Names:
    """Names an assignment target surely overwrites."""
    if isinstance(target, ast.Name):
        return frozenset((target.id,))
    if isinstance(target, (ast.Tuple, ast.List)):
        return NONE.union(*(_killed(e) for e in target.elts))
    return _killed(target.value) if isinstance(target, ast.Starred) else NONE


def _statement(stmt: ast.stmt, live: Names, exits: _Exits, out: Liveness) -> Names:
    match stmt:
        case ast.Assign(targets=targets, value=value):
            kill = NONE.union(*(_killed(t) for t in targets))
            return (live - kill) | _use([value, *targets])
        case ast.AnnAssign(target=target, value=value) if value is not None:
            return (live - _killed(target)) | _use([value, target])
        case ast.Return() | ast.Raise():
            return _use([stmt])
        case ast.Break():
            return exits.on_break
        case ast.Continue():
            return exits.on_continue
        case ast.If(test=test, body=body, orelse=orelse):
            both = _block(body, live, exits, out) | _block(orelse, live, exits, out)
            return both | _use([test])
        case ast.While() | ast.For():
            return _loop(stmt, live, exits, out)
        case ast.With(items=items, body=body):
            return _block(body, live, exits, out) | _use(items)
        case ast.Try():
            return _try(stmt, live, exits, out)
        case ast.Match(subject=subject, cases=cases):
            inner = NONE.union(live, *(_block(c.body, live, exits, out) for c in cases))
            return inner | _use([subject, *(c.pattern for c in cases), *(c.guard for c in cases)])
        case ast.FunctionDef(name=name):
            return (live - {name}) | _use([stmt])
    return live | _use([stmt])


def _loop(stmt: ast.While | ast.For, live: Names, exits: _Exits, out: Liveness) -> Names:
    leave = _block(stmt.orelse, live, exits, out)
    if isinstance(stmt, ast.While):
        start, kill = _use([stmt.test]), NONE
    else:
        start, kill = NONE, _killed(stmt.target)
    head = leave | start
    while True:
        inner = _Exits(live, head, exits.on_raise)
        body = _block(stmt.body, head, inner, out)
        if isinstance(stmt, ast.For):
            body = (body - kill) | _use([stmt.target])
        grown = head | body
        if grown == head:
            break
        head = grown
    out.head[stmt] = head
    return head | (_use([stmt.iter]) if isinstance(stmt, ast.For) else NONE)


def _try(stmt: ast.Try, live: Names, exits: _Exits, out: Liveness) -> Names:
    final = _block(stmt.finalbody, live, exits, out)
    handlers = NONE.union(*(_block(h.body, final, exits, out) for h in stmt.handlers))
    handlers |= _use(h.type for h in stmt.handlers)
    # An exception may leave the body anywhere; a jump out of it runs `finally` first.
    caught = _Exits(
        exits.on_break | final, exits.on_continue | final, exits.on_raise | handlers | final
    )
    orelse = _block(stmt.orelse, final, caught, out)
    return _block(stmt.body, orelse, caught, out) | handlers
