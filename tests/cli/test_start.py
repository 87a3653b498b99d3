"""What the command line loads before it knows what to do, and what a shell completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cellc.cli import COMMANDS, parser
from cellc.cli.completion import _for_bash, candidates

HEAVY = ("numpy", "llvmlite", "networkx", "rich", "cellc_compiler.ir", "cellc.tensors",
         "cellc.cli.commands")


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["compile", "--help"], ["compile"],
                                  ["nothing"], [], ["completion", "bash", "cellc comp"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    program = f"""
import sys
from cellc import cli
try:
    cli.main({args!r})
except SystemExit:
    pass
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout + done.stderr, done.stderr


def test_every_command_has_its_function() -> None:
    from cellc import cli

    assert set(parser().commands) == set(COMMANDS)
    assert all(callable(cli.function(name)) for name in COMMANDS)


NET = "class Net:\n    pass\n\n\ndef make(x):\n    return x\n\n\nnet = Net()\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "net.cellc").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.npy").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "expected"), [
    ("co", ["compile", "completion"]),
    ("--v", ["--verbose", "--version"]),
    ("compile ", ["data/", "net.cellc", "net.py:"]),
    ("compile net.py:", ["net.py:Net", "net.py:make", "net.py:net"]),
    ("compile net.py:n", ["net.py:net"]),
    ("compile nowhere.py:n", []),
    ("compile net.py:Net --nume", ["--numerics"]),
    ("compile net.py:Net --numerics ", ["fast", "strict"]),
    ("compile net.py:Net -i x=@data/", ["x=@data/x.npy"]),
    ("compile net.py:Net -i ", []),
    ("compile net.py:Net --output n", ["net.cellc"]),
    ("compile net.py:Net --train ", []),
    ("dump net.py:Net -o ", ["data/"]),
    ("run n", ["net.cellc", "net.py"]),
    ("run net.py da", ["data/"]),
    ("cache c", ["clear"]),
    ("nothing ", []),
    ("completion ", ["bash", "fish", "zsh"]),
])
def test_candidates(line: str, expected: list[str], folder: Path) -> None:
    assert candidates(line.split(" ")) == expected


BASH = '''
source <(cellc completion bash)
compopt() { :; }
for COMP_LINE in "cellc comp" "cellc dump net.py:N" "cellc dump net.py:Net -i x=@data/x"; do
    COMP_POINT=${#COMP_LINE}; _cellc; echo "${COMPREPLY[@]}"
done
'''
ZSH = '''
compdef() { : }
compadd() { shift $@[(i)--]; print -r -- $@ }
source <(cellc completion zsh)
words=(cellc comp); CURRENT=2; PREFIX=comp; _cellc
words=(cellc dump net.py:N); CURRENT=3; PREFIX=net.py:N; _cellc
'''
FISH = '''
cellc completion fish | source
complete -C "cellc comp"; complete -C "cellc dump net.py:N"
'''


HOSTILE = ["a$(touch ran).py", "b`touch ran`.py", "c'$(touch ran)'.py", 'u"$(touch ran)".py',
           "e;touch ran;.py", "f g & touch ran.py", "h!!.py", "~i.py", "j*?[k].py", "lé{m,n}.py",
           "o:$(touch ran).py", "p=$(touch ran).py", "q\\$(touch ran).py"]


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("name", HOSTILE)
def test_bash_is_given_quoted_names(name: str, quote: str, folder: Path) -> None:
    """What bash makes of the line with what is inserted is the name, and nothing runs."""
    (folder / name).write_text("")
    inserted, = _for_bash(f"cellc run {quote}{name[0]}")
    done = subprocess.run(["bash", "-c", f"printf '%s\n' {quote}{inserted}{quote}"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == f"{name}\n" and not (folder / "ran").exists()


def test_names_of_control_characters_are_not_completed(folder: Path) -> None:
    for name in ("r\t$(touch ran).py", "r\n$(touch ran).py", "r\x1b[A.py"):
        (folder / name).write_text("")
    assert candidates(["run", "r"]) == []


@pytest.mark.parametrize(("line", "inserted"), [
    ("cellc run my\\ f", ["my\\ file.py"]), ("cellc run 'my f", ["my file.py"]),
    ('cellc run "my f', ["my file.py"]), ("cellc check my\\ file.py:n", ["net"]),
    ('cellc check "my file.py:n', ["my file.py:net"]), ("cellc check 'my file.py':n", ["net"]),
    ("cellc check net.py:Net -i x=@da", ["@data/"]), ("cellc ", sorted([
        *COMMANDS, "--help", "--verbose", "--version", "-h"])), ("cellc", sorted([
        *COMMANDS, "--help", "--verbose", "--version", "-h"]))])
def test_bash_lines(line: str, inserted: list[str], folder: Path) -> None:
    (folder / "my file.py").write_text(NET)
    assert _for_bash(line) == inserted


@pytest.mark.parametrize(("shell", "program", "expected"), [
    ("bash", BASH, ["compile", "completion", "Net", "@data/x.npy"]),
    ("zsh", ZSH, ["compile", "completion", "net.py:Net"]),
    ("fish", FISH, ["compile", "completion", "net.py:Net"]),
])
def test_shells(shell: str, program: str, expected: list[str], folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    (folder / "bin").mkdir()
    command = folder / "bin" / "cellc"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m cellc "$@"\n')
    command.chmod(0o755)
    plain = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *plain, "-c", program], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"})
    assert (done.stdout.split(), done.stderr) == (expected, "")
