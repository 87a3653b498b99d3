"""From LLVM text to ELF objects, and on to an image: de-duplicated, cached, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime import cache as disk
from cellc_runtime.abi import FIRST_CALLBACK, MAIN, PARTS, PRECOMPUTE, WIN64
from cellc_runtime.image import Image
from cellc_runtime.lazy import tempfile
from cellc_runtime.target import Target

from .abi import PLACEHOLDER
from .compile_pool import CompilePool, WorkerError
from .emit import OPTIONS, EmitError, emit_object
from .link import LinkInput, link
from .llvm_version import llvm_version
from .workers import compile_jobs


class CompilerBug(RuntimeError):
    """cellc generated something that cannot be compiled; the text says where it was saved."""


def object_key(text: str, target: Target) -> str:
    """The cache key of the object of `text` on `target`."""
    return disk.make_key(
        "object", text, target.name, target.triple, target.cpu, target.features, llvm_version(),
        *OPTIONS,
    )


_EXPORTS = (MAIN, PARTS, PRECOMPUTE, PRECOMPUTE + WIN64)
"""The symbols that the module of `cellc_main` may define for others."""


def build_image(
    main_text: str, kernels: Sequence[tuple[str, str]], target: Target, *,
    support: Sequence[str] = (), callbacks: int = 0, builder: Builder | None = None,
) -> Image:
    """Compile `main` (which defines `@cellc_main`) and its kernels, and link them.

    Args:
        callbacks: host callbacks in the external table.
        (others): see `link_inputs`.

    Raises:
        CompilerBug: LLVM refuses a text.
        LinkError: a symbol is missing or defined twice.
    """
    inputs = link_inputs(main_text, kernels, target, support=support, builder=builder)
    return link(inputs, table_entries=FIRST_CALLBACK + callbacks)


def link_inputs(
    main_text: str, kernels: Sequence[tuple[str, str]], target: Target, *,
    support: Sequence[str] = (), builder: Builder | None = None,
) -> list[LinkInput]:
    """Compile `main` and its kernels: the objects, that of `main` first, then the support.

    Args:
        main_text: module with `cellc_main`; kernels are `declare hidden void @name(...)`.
        kernels: the name `main` calls each kernel by, and its text (which calls it `@KERNEL`);
            equal texts become one object with several names.
        support: other modules, all of whose functions are linked.
        builder: has been given kernels already.

    Raises:
        CompilerBug: LLVM refuses a text.
    """
    names: dict[str, list[str]] = {}
    for name, body in kernels:
        names.setdefault(body, []).append(name)
    texts = [main_text, *support, *names]
    made = builder.objects(texts) if builder is not None else compile_texts(texts, target)
    exports = {name: name for name in _EXPORTS if f"@{name}(" in main_text}
    own = 1 + len(support)
    return [LinkInput(made[0], exports), *map(LinkInput, made[1:own]),
            *(LinkInput(obj, dict.fromkeys(known, PLACEHOLDER))
              for obj, known in zip(made[own:], names.values(), strict=True))]


def compile_texts(texts: Sequence[str], target: Target, jobs: int | None = None) -> list[bytes]:
    """The objects of texts, in order; cached ones are looked up first. Raises CompilerBug if LLVM
    refuses a text."""
    with Builder(target, jobs) as builder:
        return builder.objects(texts)


class Builder:
    """Makes objects of texts that are handed in one by one, while the caller writes the next.

    Leaving the context ends the processes that still compile, whatever happened.

    Args:
        jobs: processes that compile at once; the knob or the processors when None.
    """

    def __init__(self, target: Target, jobs: int | None = None) -> None:
        self._target = target
        self._store = disk.default()
        self._keys: dict[str, str] = {}
        self._objects: dict[str, bytes] = {}
        self._say: Callable[[int, int], None] | None = None
        self._pool = CompilePool(
            target, jobs or compile_jobs(),
            lambda text: _compile_here(text, target), self._keep,
        )

    def __enter__(self) -> Builder:
        self._pool.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self._pool.__exit__(*args)

    def add(self, text: str) -> None:
        """An object of `text` will be requested."""
        if text in self._keys:
            return
        key = self._keys[text] = object_key(text, self._target)
        found = self._store.get(key)
        if found is None:
            self._pool.add(text)
        else:
            self._objects[text] = found

    def watch(self, say: Callable[[int, int], None]) -> None:
        """Call `say` with how many objects are made, of how many, now and whenever it changes."""
        self._say = say
        say(len(self._objects), len(self._keys))

    def objects(self, texts: Sequence[str]) -> list[bytes]:
        """The objects of texts, in order; none can be added afterwards. Raises CompilerBug if LLVM
        refuses a text."""
        for text in texts:
            self.add(text)
        try:
            self._pool.finish()
        except WorkerError as error:
            raise _bug(error.text, self._target, error.reason) from None
        return [self._objects[text] for text in texts]

    def _keep(self, text: str, obj: bytes) -> None:
        self._objects[text] = obj
        if self._say is not None:
            self._say(len(self._objects), len(self._keys))
        self._store.put(self._keys[text], obj)


def _compile_here(text: str, target: Target) -> bytes:
    try:
        return emit_object(text, target)
    except EmitError as error:
        raise _bug(text, target, str(error)) from None


def _bug(text: str, target: Target, reason: str) -> CompilerBug:
    try:  # under a name that nobody can foresee: others may write to this folder
        handle, where = tempfile.mkstemp(".ll", "cellc-bug-")
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        saved = f"the code is in {where}"
    except OSError:
        saved = "the code could not be saved"
    return CompilerBug(
        f"cellc generated code for {target.name} that LLVM refuses; {saved}\n{reason.strip()}"
    )
