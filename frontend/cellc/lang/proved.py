"""Texts that are proved to be the source of a code object: compiling the text gives that code.

A file can change after Python imported it, and `linecache` can still hold the text from before a
reload. So no text is used because of its file name: each is compiled with the flags of the code,
and the result is compared with the code, lines and nested functions included. Where an import hook
changes the program (pytest rewrites `assert`; typeguard, beartype and jaxtyping insert checks), the
hook itself compiles the text for the comparison.
"""

from __future__ import annotations

import ast
import io
import linecache
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from textwrap import indent
from types import CodeType
from typing import Any

from ..core.console_source import all_codes, code_mark
from ..core.lru import LRU

_FUTURES = 0x1FF0000  # The bits of `co_flags` that `from __future__` sets

_Codes = dict[tuple[str, int], list[CodeType]]
"""The codes that a text compiles to, by name and first line."""

_earlier: LRU[tuple[str, str], list[str]] = LRU(512)
"""Lines by file and text: the registered texts, and those that gave a code.

Functions from before a reload, or from an earlier text of the same name, still find theirs here.
"""


def lines_of(text: str) -> list[str]:
    """The lines of a text as Python counts them; `str.splitlines` also ends one at a form feed."""
    return io.StringIO(text, newline=None).readlines()


def remember(file: str, text: str) -> list[str]:
    """Keep a text as one that a file held; its lines."""
    lines = lines_of(text)
    return _earlier.setdefault((file, text), lines)


def proved_lines(code: CodeType, names: dict[str, Any]) -> tuple[list[str], bool]:
    """The lines of the file that a code was compiled from.

    Args:
        code: of the function.
        names: its globals.

    Returns:
        The lines, empty if no text gives this code; whether there was any text to try.
    """
    tried: set[str] = set()
    for lines in _candidates(code.co_filename, names):
        text = "".join(lines)
        if not text or text in tried:
            continue
        tried.add(text)
        if gives(text, code, names):
            return _earlier.setdefault((code.co_filename, text), lines), True
    return [], bool(tried)


def gives(text: str, code: CodeType, names: dict[str, Any] | None = None) -> bool:
    """Whether compiling a text gives this code."""
    flags = code.co_flags & _FUTURES
    if _holds(_compiled(text, flags), code) or _holds(_compiled_apart(text, flags), code):
        return True
    loader = (names or {}).get("__loader__")
    return _changes_programs(loader) and _holds(_by_hook(text, code.co_filename, loader), code)


def reloaded_definition(
    code: CodeType, names: dict[str, Any]
) -> tuple[list[str], ast.FunctionDef] | None:
    """The lines of a file and the definition in them that IPython's autoreload compiled apart.

    It compiles `ast.unparse` of a changed function, a method within a class of a name of its own,
    and so their codes have other lines than the file.
    """
    if "IPython.extensions.autoreload" not in sys.modules:
        return None
    for lines in _candidates(code.co_filename, names):
        try:
            tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                text = ast.unparse(node)
                plain = text if not node.decorator_list else text[text.index(f"def {node.name}"):]
                for each in (text, plain, f"class _:\n{indent(text, '    ')}"):
                    if gives(each, code):
                        return lines, node
    return None


def _candidates(file: str, names: dict[str, Any]) -> Iterator[list[str]]:
    """The texts that a file may have had when it was imported, the likeliest first."""
    try:
        linecache.lazycache(file, names)
        yield linecache.getlines(file)
        yield _read_again(file, names)
    except Exception:  # a loader of the user's, a damaged archive
        linecache.cache.pop(file, None)
    yield _from_loader(names)
    for (other, _), lines in _earlier.items():
        if other == file:
            yield lines


def _read_again(file: str, names: dict[str, Any]) -> list[str]:
    """The text that is on the disk now, whatever linecache holds; what it holds if there is none.

    `linecache.checkcache` misses an edit within one tick of the file system's clock.
    """
    held = linecache.cache.get(file)
    lines = linecache.updatecache(file, names)
    if not lines and held is not None:
        linecache.cache[file] = held
    return lines


def _from_loader(names: dict[str, Any]) -> list[str]:
    """The text that a module's loader has; linecache ends its lines at form feeds, too."""
    try:
        return lines_of(names["__loader__"].get_source(names["__name__"]))
    except Exception:  # it is not there, has no text, or is the user's own
        return []


@lru_cache(maxsize=128)
def _compiled(text: str, flags: int) -> _Codes:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python gave them when it imported the text
            return _by_place(compile(text, "<text>", "exec", flags, True))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


@lru_cache(maxsize=128)
def _compiled_apart(text: str, flags: int) -> _Codes:
    """The codes of a text whose statements are compiled one by one, as IPython does. Python calls
    functions of a module in another way where its import is compiled with them."""
    codes: _Codes = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for node in ast.parse(text).body:
                alone = compile(ast.Module([node], []), "<text>", "exec", flags, True)
                for place, found in _by_place(alone).items():
                    codes.setdefault(place, []).extend(found)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return codes


def _changes_programs(loader: Any) -> bool:
    kind = type(loader)
    return kind.__module__ == _PYTEST or (
        kind is not SourceFileLoader and hasattr(kind, "source_to_code"))


_PYTEST = "_pytest.assertion.rewrite"


@lru_cache(maxsize=32)
def _by_hook(text: str, file: str, loader: Any) -> _Codes:
    """Return the codes that an import hook makes of a text."""
    data = text.encode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if type(loader).__module__ == _PYTEST:
                tree = ast.parse(text, file)
                sys.modules[_PYTEST].rewrite_asserts(tree, data, file, loader.config)
                return _by_place(compile(tree, file, "exec", dont_inherit=True))
            return _by_place(loader.source_to_code(data, file))
    except Exception:  # any hook's: then the text is not proved
        return {}


def _by_place(whole: CodeType) -> _Codes:
    codes: _Codes = {}
    for code in all_codes(whole):
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return codes


def _holds(codes: _Codes, code: CodeType) -> bool:
    near = codes.get((code.co_name, code.co_firstlineno))
    if near is None:
        return False
    mark = code_mark(code)
    return any(code_mark(c) == mark for c in near)
