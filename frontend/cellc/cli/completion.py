"""`cellc completion`: commands, options, choices, files and networks, completed by a shell.

The printed script asks `cellc completion SHELL WORDS...` for what may stand in the place of the
last word. So what is completed follows from the parser of the command line, by one rule for all
shells, and never lags behind it.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import parser

SCRIPTS = {
    "bash": r'''_cellc() {
    local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT} words cur
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[-1]}
    IFS=$'\n'
    COMPREPLY=($(cellc completion bash "${words[@]:1}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*[:=]}"}"}")  # what bash keeps, as it breaks words
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[/:=] ]] && compopt -o nospace
}
complete -F _cellc cellc''',
    "zsh": r'''#compdef cellc
_cellc() {
    local -a found
    found=(${(f)"$(cellc completion zsh "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    compadd -Q -S '' -- ${(M)found:#*[/:]}
    compadd -Q -- ${found:#*[/:]}
}
compdef _cellc cellc''',
    "fish": r'''set -l asks '(cellc completion fish (commandline -opc)[2..] (commandline -ct))'
complete -c cellc -f -a $asks''',
}


def completion(args: argparse.Namespace) -> int:
    """`cellc completion`: the script, or what completes the words that it asks about."""
    if args.words:
        print("\n".join(candidates(args.words)))
    else:
        print(SCRIPTS[args.shell].rstrip())
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What the last of the words after `cellc` may become; sorted."""
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
    """What a value may be: one of the choices, or a file of those that its name (`FILE.py:NAME`,
    `NET.cellc`) speaks of."""
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
    endings = tuple(e for e in (".py", ".cellc", ".onnx", ".mindir", ".json", ".html", ".npz")
                    if e in wanted)
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
        if not path.name.startswith(name) or (path.name.startswith(".") and not name):
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
