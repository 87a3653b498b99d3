"""From LLVM text to ELF objects, and on to an image: de-duplicated, cached, in parallel.

llvmlite holds one lock for a whole process, so many objects are compiled by worker processes.
They are started with a fresh interpreter (a fork of a process with threads may deadlock), take
texts from a common queue next to this process, and end with the call.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache as memoize
from pathlib import Path

import cellc_runtime
from cellc_runtime import cache as disk
from cellc_runtime import knobs
from cellc_runtime.abi import AHEAD, FIRST_CALLBACK, MAIN, WIN64
from cellc_runtime.image import Image
from cellc_runtime.platform import usable_cpus
from cellc_runtime.target import Target

from .codegen.kernel import PLACEHOLDER
from .codegen.llvm.entry import support_text
from .compile_worker import HELLO, OK, receive, send
from .emit_object import EmitError, emit_object
from .link import LinkInput, link

_PER_WORKER = 6
"""Objects that repay starting a worker (about 0.2 s of interpreter and LLVM start-up)."""


class CompilerBug(RuntimeError):
    """cellc generated something that cannot be compiled; the text says where it was saved."""


@memoize
def llvm_version() -> str:
    """What the object cache knows of LLVM: llvmlite's version, without importing it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or not spec.origin:
        return "none"
    package = Path(spec.origin).parent
    for info in sorted(package.parent.glob("llvmlite-*.dist-info")):
        return info.name.removesuffix(".dist-info")
    # No metadata beside it (a source tree): its own version file tells it apart.
    version = package / "_version.py"
    return hashlib.sha256(version.read_bytes()).hexdigest() if version.exists() else "unknown"


def object_key(text: str, target: Target) -> str:
    """The cache key of the object of `text` on `target`."""
    return disk.make_key(
        "object", text, target.name, target.triple, target.cpu, target.features, llvm_version()
    )


def compile_module(llvm_text: str, target: Target) -> bytes:
    """The ELF object of one module, from the cache or from LLVM.

    Raises:
        CompilerBug: LLVM refuses the text.
    """
    return compile_texts([llvm_text], target, jobs=1)[0]


def compile_kernels(
    kernels: Sequence[tuple[str, str]], target: Target, jobs: int | None = None
) -> list[LinkInput]:
    """Objects of `(name, body)` kernels: equal bodies become one object with several names.

    Args:
        kernels: the name `main` calls each kernel by, and its text (which calls it `@KERNEL`).
        target: what to compile for.
        jobs: processes at most; the knob or the processors when None.

    Raises:
        CompilerBug: LLVM refuses a text.
    """
    texts, names = _distinct(kernels)
    return _named(compile_texts(texts, target, jobs), names)


def _distinct(kernels: Sequence[tuple[str, str]]) -> tuple[list[str], list[list[str]]]:
    names: dict[str, list[str]] = {}
    for name, body in kernels:
        names.setdefault(body, []).append(name)
    return list(names), list(names.values())


def _named(objects: Sequence[bytes], names: Sequence[Sequence[str]]) -> list[LinkInput]:
    return [
        LinkInput(obj, dict.fromkeys(known, PLACEHOLDER))
        for obj, known in zip(objects, names, strict=True)
    ]

_EXPORTS = (MAIN, AHEAD, AHEAD + WIN64)
"""What the module of `cellc_main` may define for others."""


def build_image(
    main_text: str,
    kernels: Sequence[tuple[str, str]],
    target: Target,
    *,
    callbacks: int = 0,
    jobs: int | None = None,
) -> Image:
    """Compile `main` (which defines `@cellc_main`) and its kernels, and link them.

    Args:
        main_text: module with `cellc_main`; kernels are `declare hidden void @name(...)`.
        kernels: see `compile_kernels`.
        target: what to compile for.
        callbacks: host callbacks in the external table.
        jobs: processes at most.

    Raises:
        CompilerBug: LLVM refuses a text.
        LinkError: a symbol is missing or defined twice.
    """
    bodies, names = _distinct(kernels)
    main, support, *rest = compile_texts([main_text, support_text(target), *bodies], target, jobs)
    exports = {name: name for name in _EXPORTS if f"@{name}(" in main_text}
    inputs = [LinkInput(main, exports), LinkInput(support), *_named(rest, names)]
    return link(inputs, table_entries=FIRST_CALLBACK + callbacks)


def compile_texts(texts: Sequence[str], target: Target, jobs: int | None = None) -> list[bytes]:
    """The objects of distinct texts, in order; cached ones are looked up first.

    Raises:
        CompilerBug: LLVM refuses a text.
    """
    store = disk.default()
    keys = [object_key(text, target) for text in texts]
    found = {i: obj for i, key in enumerate(keys) if (obj := store.get(key)) is not None}
    missing = [i for i in range(len(texts)) if i not in found]
    if missing:
        made = _compile_all([texts[i] for i in missing], target, jobs)
        for i, obj in zip(missing, made, strict=True):
            found[i] = obj
            store.put(keys[i], obj)
    return [found[i] for i in range(len(texts))]


def _compile_all(texts: Sequence[str], target: Target, jobs: int | None) -> list[bytes]:
    limit = jobs or knobs.read().compile_jobs or usable_cpus()[0]
    workers = min(limit - 1, len(texts) // _PER_WORKER) if sys.executable else 0
    if workers <= 0:
        return [_compile_here(text, target) for text in texts]
    with _Crew(texts, target, workers) as crew:
        return crew.run()


def _compile_here(text: str, target: Target) -> bytes:
    try:
        return emit_object(text, target)
    except EmitError as error:
        raise _bug(text, target, str(error)) from None


def _bug(text: str, target: Target, reason: str) -> CompilerBug:
    name = f"cellc-bug-{hashlib.sha256(text.encode()).hexdigest()[:12]}.ll"
    where = Path(tempfile.gettempdir()) / name
    try:
        where.write_text(text)
        saved = f"the code is in {where}"
    except OSError:
        saved = "the code could not be saved"
    return CompilerBug(
        f"cellc generated code for {target.name} that LLVM refuses; {saved}\n{reason.strip()}"
    )


class _Crew:
    """Worker processes and this one, taking texts from one queue.

    One thread per worker feeds it; leaving the context ends the workers whatever happened, so
    an interrupt leaves nothing behind.
    """

    def __init__(self, texts: Sequence[str], target: Target, workers: int) -> None:
        self._texts = texts
        self._target = target
        # Longest first, for an even finish; popped from the end.
        self._queue = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        self._done: dict[int, bytes] = {}
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> _Crew:
        with suppress(OSError):  # no more processes: fewer workers, or none
            for _ in range(self._workers):
                self._processes.append(_start_worker())
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):  # what was left to send to a dead worker
                        stream.close()

    def run(self) -> list[bytes]:
        """All objects, in the order of the texts."""
        threads = [
            threading.Thread(target=self._feed, args=(p,), daemon=True) for p in self._processes
        ]
        for thread in threads:
            thread.start()
        while (index := self._take()) is not None:
            self._done[index] = _compile_here(self._texts[index], self._target)
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
        return [self._done[i] for i in range(len(self._texts))]

    def _take(self) -> int | None:
        with self._lock:
            return self._queue.pop() if self._queue and not self._errors else None

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        if receive(process.stdout) != HELLO:
            return  # it could not start: the others do its part
        while (index := self._take()) is not None:
            text = self._texts[index]
            try:
                send(process.stdin, json.dumps([self._target.name, text]).encode())
                answer = receive(process.stdout)
            except (OSError, ValueError):
                answer = None
            if answer is None:
                # LLVM ends the process on some errors: say so instead of trying it here.
                self._fail(_bug(text, self._target, "the compiling process ended"))
                return
            if answer[0] != OK:
                self._fail(_bug(text, self._target, answer[1:].decode(errors="replace")))
                return
            self._done[index] = answer[1:]

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._errors.append(error)


def _start_worker() -> subprocess.Popen[bytes]:
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join([*_roots(), *filter(None, [env.get("PYTHONPATH")])])
    # A process group of its own: the terminal's Ctrl-C reaches the parent, which ends workers.
    group = -1 if sys.platform == "win32" else 0
    return subprocess.Popen(
        [sys.executable, "-m", "cellc_compiler.compile_worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
        process_group=group,
    )  # fmt: skip


def _roots() -> Iterable[str]:
    return (str(Path(__file__).parent.parent), str(Path(cellc_runtime.__file__).parent.parent))
