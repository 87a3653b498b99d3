"""A documentation example with the call that it is about put under `jit`.

Standard library only: it runs in MindSpore's Python and in cellc's.
"""

from __future__ import annotations

import ast

MAKERS = ("grad", "value_and_grad", "get_grad", "vmap", "jvp", "vjp", "jacfwd", "jacrev")
"""Functions that return a function: it is the calls of that which go under `jit`."""
_FUNCTION = "@mindspore.jit\ndef {name}({given}):\n    return {call}\n"


class _Calls(ast.NodeTransformer):
    """Replaces each outermost call of what the example is about by that of a jitted function."""

    def __init__(self, subject: str, variables: set[str], makes: bool) -> None:
        self.subject, self.variables, self.makes = subject, variables, makes
        self.holders: set[str] = set()
        self.made: list[str] = []
        self.pending: list[ast.stmt] = []

    def _is_subject(self, called: ast.expr) -> bool:
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name == self.subject

    def _wanted(self, node: ast.Call) -> bool:
        if any(isinstance(a, ast.Starred) for a in node.args) or None in {
            k.arg for k in node.keywords
        }:
            return False
        if not self.makes:
            return self._is_subject(node.func)
        if isinstance(node.func, ast.Name):
            return node.func.id in self.holders
        return isinstance(node.func, ast.Call) and self._is_subject(node.func.func)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not self._wanted(node):
            return self.generic_visit(node)
        given: dict[str, ast.expr] = {}

        def parameter(value: ast.expr) -> ast.expr:
            if isinstance(value, ast.Constant):
                return value
            given[f"a{len(given)}"] = value
            return ast.Name(f"a{len(given) - 1}", ast.Load())

        if isinstance(node.func, ast.Attribute) and self._is_receiver(node.func.value):
            node.func.value = parameter(node.func.value)
        node.args = [parameter(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = parameter(keyword.value)
        name = f"jitted_{len(self.made)}"
        self.made.append(name)
        text = _FUNCTION.format(name=name, given=", ".join(given), call=ast.unparse(node))
        self.pending += ast.parse(text).body
        return ast.Call(ast.Name(name, ast.Load()), list(given.values()), [])

    def _is_receiver(self, value: ast.expr) -> bool:
        """Whether a method's object is a value of the example, not a module."""
        return not isinstance(value, (ast.Name, ast.Attribute)) or (
            isinstance(value, ast.Name) and value.id in self.variables)

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_ClassDef = visit_Lambda = _leave
    visit_ListComp = visit_GeneratorExp = visit_With = _leave

    def note(self, node: ast.stmt) -> None:
        """Remember which variable holds the object that the example is about."""
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign) and isinstance(value, ast.Call) and self._is_subject(
            value.func
        ):
            self.holders |= {t.id for t in node.targets if isinstance(t, ast.Name)}


def under_jit(name: str, text: str) -> str:
    """The example `text` of `name` with its calls in jitted functions ("" if it has none).

    Arguments are the jitted function's own, literal numbers and strings stand in it.
    """
    tree = ast.parse(text)
    subject = name.rsplit(".", 1)[-1]
    variables = {n.id for n in ast.walk(tree)
                 if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    calls = _Calls(subject, variables, subject[0].isupper() or subject in MAKERS)
    body: list[ast.stmt] = ast.parse("import mindspore").body
    for node in tree.body:
        changed = calls.visit(node)
        body += [*calls.pending, changed]
        calls.pending = []
        calls.note(node)
    if not calls.made:
        return ""
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
