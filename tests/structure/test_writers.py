"""Files of the user are written by `cellc_runtime.files`, so none is ever half a file."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ratchets import PACKAGES

WRITES = re.compile(
    r"""\bopen\([^()]*(\([^()]*\)[^()]*)*,\s*["'][rb+]*[wax]|\bopen\([^()]*["']r\+b?["']"""
    r"|\.write_(text|bytes)\(|\bnp\.save\w*\(|\bO_CREAT\b|\bos\.(replace|rename)\("
    r"|\bshutil\.(copy|move)\w*\(|\.tofile\(|\btempfile\.\w+\(")
OTHERS = {
    "cellc/cli/commands.py": "np.savez into a file that `replacing` opened",
    "cellc/cli/launching.py": "the log of a run that begins",
    "cellc/cli/worker.py": "the log of a run that begins",
    "cellc/records/commits.py": "the commit of a dataset's files",
    "cellc/records/writer.py": "files that commits.py puts into their places",
    "cellc/dataset/processes.py": "memory that processes share",
    "cellc/testing/probe.py": "a temporary folder, and /dev/null",
    "cellc/train/parts.py": "the parts of ranks, which their manifest commits",
    "cellc/train/summary/record.py": "event files, which grow by records with checksums; np.save "
                                     "into a file that `replacing` opened",
    "cellc_compiler/build/objects.py": "code that LLVM refuses, in a new temporary file",
    "cellc_compiler/build/ptxas.py": "a temporary folder",
    "cellc_compiler/onnx_export/model.py": "a temporary folder for ONNX's checker",
    "cellc_runtime/activity.py": "a temporary file without a name",
    "cellc_runtime/cache.py": "the cache, below the handle of a folder that was checked",
    "cellc_runtime/files.py": "the writer itself",
}


def test_files_are_written_by_one_writer() -> None:
    found = {path.relative_to(root).as_posix() for root in PACKAGES.values()
             for path in root.rglob("*.py") if WRITES.search(path.read_text())}
    assert found == set(OTHERS), "write_atomically, write_text or replacing of cellc_runtime.files"


@pytest.mark.parametrize(("text", "writes"), [
    ('open(path, "wb")', True), ("open(f(a), 'w', encoding='utf-8')", True),
    ('open(p, "rb")', False), ("Path(p).write_text(t)", True), ("write_text(p, t)", False),
    ("os.open(p, os.O_CREAT)", True), ("np.savez(p, *a)", True), ('open(self._data, "r+b")', True),
    ("text.replace(a, b)", False)])
def test_writers_are_found(text: str, writes: bool) -> None:
    assert bool(WRITES.search(text)) == writes


IMPORTS = {
    "cellc/tools/consoles.py": "of a terminal", "cellc/tools/planning/view.py": "of a terminal",
    "cellc/tools/profiling.py": "of a terminal", "cellc/tools/profiling_gpu.py": "of a terminal",
    "cellc/dataset/decoding.py": "in no_fork", "cellc_compiler/build/emit.py": "in no_fork",
    "cellc/ranks/groups.py": "before there are threads", "cellc_runtime/mpi.py": "as above",
    "cellc/tracing/tracer.py": "is loaded already",
    "cellc_compiler/loops/build.py": "is loaded already", "cellc_runtime/lazy.py": "`imported`",
    "cellc_runtime/__init__.py": "the first import of the package",
}


def test_forks_wait_for_imports_within_functions() -> None:
    """A child would wait for ever for a thread that imports: `imported` and `lazy_module`."""
    found = set()
    for root in PACKAGES.values():
        for path in root.rglob("*.py"):
            text = path.read_text()
            functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
            if "import_module" in text or any(isinstance(n, (ast.Import, ast.ImportFrom))
                                              for f in functions for n in ast.walk(f)):
                found.add(path.relative_to(root).as_posix())
    assert found == set(IMPORTS)
