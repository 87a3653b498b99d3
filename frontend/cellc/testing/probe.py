"""A process that judges graphs, so that a crash of the judge does not end the caller.

    python -m cellc.testing.probe [FILE.py]

It loads the file, if one is given (what its graphs need: kernels of the user's own) and says
"ready", or why not. Then it reads the path of a case from each line, and answers with a line of
JSON: the symptom, or null.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from cellc_compiler.build.workers import ISOLATED_PYTHON, isolated_environment
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph

from .. import shim
from .cases import SUFFIX, Case, load_case
from .judging import Array, CannotJudge, Judge, Symptom

_DEAD = "the judging process ended with "
_READY = "ready"


class ChildJudge:
    """Judges graphs in a process of its own, which is started again when it dies.

    Args:
        setup: a Python file that the process runs first.
        seconds: a graph may take.
    """

    def __init__(
        self, numerics: str = "strict", setup: str | None = None, seconds: float = 60.0
    ) -> None:
        self.numerics, self.setup, self.seconds = numerics, setup, seconds
        self.child: subprocess.Popen[str] | None = None
        self.folder = tempfile.TemporaryDirectory(prefix="cellc_bisect_")

    def __enter__(self) -> ChildJudge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        self.folder.cleanup()

    def symptom(self, graph: Graph, arrays: Sequence[Array]) -> Symptom | None:
        """Return the fault of a graph on these inputs; None if there is none."""
        path = Path(self.folder.name) / f"probe{SUFFIX}"
        Case(graph, arrays, options={"numerics": self.numerics}).save(path)
        child = self.child if self.child is not None else self._started()
        stdin, stdout = child.stdin, child.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(f"{path}\n")
            stdin.flush()
            answer = self._answer(stdout)
        except BrokenPipeError:
            answer = ""
        if answer is None:
            self._stop()
            return Symptom("hang", f"no answer within {self.seconds:g} s")
        if not answer:
            code = child.wait()
            self._stop()
            how = f"signal {-code}" if code < 0 else f"status {code}"
            return Symptom("crash", _DEAD + how)
        found = json.loads(answer)
        return None if found is None else Symptom(*found)

    def _answer(self, stdout: IO[str]) -> str | None:
        """A line; "" at the end, None if there is none in time."""
        ready, _, _ = select.select([stdout], [], [], self.seconds)
        return stdout.readline() if ready else None

    def _started(self) -> subprocess.Popen[str]:
        """The process, once it has run the file."""
        child = self._start()
        assert child.stdout is not None
        told = json.loads(self._answer(child.stdout) or '"it ends the process"')
        if told != _READY:
            self._stop()
            raise ValueError(f"{self.setup} does not load in a process of its own: {told}")
        return child

    def _start(self) -> subprocess.Popen[str]:
        command = [*ISOLATED_PYTHON, "-m", "cellc.testing.probe"]
        if self.setup is not None:
            command.append(self.setup)
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, start_new_session=True,
            env={**isolated_environment(str(Path(shim.__file__).parent.parent)),
                 "CELLC_COMPILE_JOBS": "1"})  # its copies start no processes
        return self.child

    def _stop(self) -> None:
        child, self.child = self.child, None
        if child is None:
            return
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)  # its copies too
            else:
                child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()


_FIRST = "graph first(%x: float32[2] input) {\n  %0: float32[2] = abs(%x) {}\n  return %0\n}\n"


def main(argv: Sequence[str]) -> None:
    """Answer until the input ends. Output printed meanwhile is discarded."""
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    shim.install()
    try:
        for path in argv:
            runpy.run_path(path)
    except Exception as e:
        _tell(answers, f"{type(e).__name__}: {e}")
        return
    _tell(answers, _READY)
    Judge().symptom(parse_graph(_FIRST), [np.zeros(2, np.float32)])  # loads what all graphs need
    for line in sys.stdin:
        path = line.rstrip("\n")
        if hasattr(os, "fork"):
            _in_fork(path, answers)
        else:
            _answer(path, answers)


def _in_fork(path: str, answers: int) -> None:
    """Judge in a copy of this process, which has no threads yet: a crash costs no new start."""
    child = os.fork()
    if child == 0:
        try:
            _answer(path, answers)
        finally:
            os._exit(0)  # to take the interpreter down takes longer than most graphs
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        _tell(answers, ("crash", f"{_DEAD}signal {os.WTERMSIG(status)}", -1))


def _answer(path: str, answers: int) -> None:
    case = load_case(path)
    assert case.graph is not None
    try:
        found = Judge(case.numerics).symptom(case.graph, case.arrays)
    except CannotJudge:
        found = None
    except Exception as e:  # whoever asked waits for an answer
        found = Symptom("error", f"{type(e).__name__}: {e}")
    _tell(answers, None if found is None else (found.kind, found.text, found.node))


def _tell(answers: int, what: Any) -> None:
    os.write(answers, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
