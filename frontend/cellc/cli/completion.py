"""`cellc completion`: commands, options, choices, files and networks, completed by a shell.

The printed script calls `cellc completion SHELL WORDS...`, which prints what may stand in the place
of the last word. So completion follows from the parser of the command line, by one rule for all
shells. A file may be called `model$(command).py`: what is inserted is quoted, by zsh and fish
themselves, and for bash, which gives its line as one word, here.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import parser

SCRIPTS = {
    "bash": r'''_cellc() {
    mapfile -t COMPREPLY < <(cellc completion bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[/:=] ]] && compopt -o nospace
}
complete -F _cellc cellc''',
    "zsh": r'''#compdef cellc
_cellc() {
    local -a found
    found=(${(f)"$(cellc completion zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"})
    compadd -S '' -- ${(M)found:#*[/:]}
    compadd -- ${found:#*[/:]}
}
compdef _cellc cellc''',
    "fish": r'''function _cellc
    cellc completion fish (commandline -opc)[2..] (string trim -lc '"\'' -- (commandline -ct))
end
complete -c cellc -f -a "(_cellc)"''',
}


def completion(args: argparse.Namespace) -> int:
    """`cellc completion`: the script, or what completes the words that it asks about."""
    if not args.words:
        print(SCRIPTS[args.shell].rstrip())
    else:
        for word in _for_bash(*args.words) if args.shell == "bash" else candidates(args.words):
            print(word)
    return 0


def _for_bash(line: str) -> list[str]:
    """Return texts that bash may insert at the end of a command line, quoted."""
    words, quote, kept = _split(line)
    how = _QUOTED[quote]
    return [how[0].sub(how[1], word[kept:]) for word in candidates(words[1:] or [""])]


_QUOTED = {
    "": (re.compile(r"([^\w./:=@%+,-])"), r"\\\1"), "'": (re.compile("'"), r"'\\''"),
    '"': (re.compile(r'(["\\$`!])'), r'"\\\1"')}
"""By the quote that is open, what has to be quoted and how."""


def _split(line: str) -> tuple[list[str], str, int]:
    """The words of a command line without their quotes, the quote that is open at its end, and how
    much of the last word bash keeps, as it breaks words at quotes, `:` and `=`."""
    words = [""]
    quote, kept, chars = "", 0, iter(line)
    for c in chars:
        if c == "\\" and quote != "'":
            following = next(chars, "")
            words[-1] += c * (quote == '"' and following not in '"\\$`') + following
        elif c == quote or (not quote and c in "'\""):
            quote = "" if quote else c
            kept = len(words[-1])
        elif c.isspace() and not quote:
            words += [""] * bool(words[-1])
            kept = 0
        else:
            words[-1] += c
            if c in ":=" and not quote:
                kept = len(words[-1])
    return words, quote, kept


def candidates(words: Sequence[str]) -> list[str]:
    """Return completions of the last word after `cellc`; sorted."""
    *before, last = words
    top = parser()
    if not before:
        options = [o for a in top.actions for o in a.option_strings]
        return sorted(w for w in (*top.commands, *options) if w.startswith(last))
    command = top.commands.get(before[0])
    if command is None:
        return []
    action = _asked(command.actions, before[1:])
    if last.startswith("-") and (action is None or not action.option_strings):
        return sorted(o for a in command.actions for o in a.option_strings if o.startswith(last))
    return sorted(_values(action, last))


def _asked(actions: Iterable[argparse.Action], given: Sequence[str]) -> argparse.Action | None:
    """The option whose value comes next, or else the positional argument that does."""
    options = {o: a for a in actions for o in a.option_strings}
    last = options.get(given[-1]) if given else None
    if last is not None and last.nargs != 0:
        return last
    positional = [a for a in actions if not a.option_strings]
    takes = {o for o, a in options.items() if a.nargs != 0}
    done = sum(not w.startswith("-") and (i == 0 or given[i - 1] not in takes)
               for i, w in enumerate(given))
    if done < len(positional):
        return positional[done]
    return positional[-1] if positional and positional[-1].nargs == argparse.REMAINDER else None


def _values(action: argparse.Action | None, last: str) -> Iterable[str]:
    """Return the possible values: the choices, or files that the metavar (`FILE.py:NAME`,
    `NET.cellc`) names."""
    if action is None:
        return ()
    if action.choices is not None:
        return [str(c) for c in action.choices if str(c).startswith(last)]
    wanted = str(action.metavar or "")
    if wanted == "NAME=SPEC":
        name, sep, file = last.partition("=@")
        return [f"{name}=@{path}" for path in _files(file, (".npy",))] if sep else ()
    path, sep, name = last.rpartition(":")
    if "FILE.py:NAME" in wanted and sep:
        return [f"{path}:{n}" for n in _networks(path) if n.startswith(name)]
    if not any(word in wanted for word in ("FILE", "DIR", "NET", "SCRIPT", "...")):
        return ()
    endings = tuple(e for e in (".py", ".cellc", ".onnx", ".mindir", ".cir", ".json", ".html",
                                ".npz") if e in wanted)
    return _files(last, endings, ":" if "FILE.py:NAME" in wanted else "", wanted != "DIR")


def _files(
    start: str, endings: tuple[str, ...], after: str = "", files: bool = True
) -> Iterable[str]:
    """Folders (with a slash) and files of these endings whose path begins so."""
    folder, sep, name = start.rpartition("/")
    try:
        there = list(Path(folder + sep or ".").iterdir())
    except OSError:
        return
    for path in there:
        if not path.name.startswith(name) or (path.name.startswith(".") and not name) \
                or not path.name.isprintable():
            continue
        if path.is_dir():
            yield f"{folder}{sep}{path.name}/"
        elif files and (not endings or path.suffix in endings):
            yield f"{folder}{sep}{path.name}{after if path.suffix == '.py' else ''}"


def _networks(path: str) -> Iterable[str]:
    """The classes, functions and variables at the top of a Python file, which is not run."""
    try:
        body = ast.parse(Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))
