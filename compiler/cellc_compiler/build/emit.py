"""The one place that talks to llvmlite: LLVM text in, an ELF object out."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cellc_runtime.forks import no_fork

if TYPE_CHECKING:  # a process that compiles imports little but LLVM
    from cellc_runtime.target import Target

OPTIONS = ("-disable-lsr",)
"""Options of LLVM's code generator. Emitters write the addresses they want: strength reduction of
loops looks for better ones in vain, for a third of the compile time (half a second for one kernel
with many pointers)."""

QUICK = "; quick\n"
"""First line of a module that is long and runs but a moment: compiled at level 0."""


OPTIMIZE = "; optimize\n"
"""First line of a module that others wrote: LLVM's pass pipeline runs over it. No instruction of it
may be contracted or reassociated, so its bits stay."""


class Machine(NamedTuple):
    """The parts of a `Target` that LLVM needs."""

    triple: str
    cpu: str
    features: str


_NO_MEMORY = re.compile("map segment|allocate memory|[Oo]ut of memory")
"""Messages of the system's loader for a library that does not fit into memory."""


class EmitError(Exception):
    """LLVM refused a module; the text is LLVM's."""


@cache
def load_llvm() -> Any:
    """llvmlite, ready to compile.

    Raises:
        MemoryError: this process may not have the memory that LLVM is loaded into.
        OSError: llvmlite's library cannot be loaded for another reason.
    """
    try:
        # llvmlite loads 100 MB of LLVM: only a process that really compiles pays for it.
        with no_fork():
            import llvmlite.binding as llvm
    except OSError as error:
        # llvmlite says that it found no library; why is said by what that was raised from.
        reason = str(error.__cause__ or error.__context__ or error)
        if _NO_MEMORY.search(reason) is None:
            raise
        raise MemoryError("LLVM, which takes 150 MB, does not fit into the memory that this "
                          f"process may have (ulimit -v, or a container's limit): {reason}"
                          ) from None

    for option in OPTIONS:
        llvm.set_option("cellc", option)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm


@cache
def _target(triple: str) -> Any:
    """LLVM's target. Code for other machines is rare, and LLVM for all of them 10 MB more."""
    llvm = load_llvm()
    try:
        return llvm.Target.from_triple(triple)
    except RuntimeError:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(triple)


@cache
def _machine(triple: str, cpu: str, features: str, level: int) -> Any:
    """LLVM's code generator for a target, kept: the first module that it compiles waits for what it
    knows of the processor, 0.4 ms. (llvmlite's lock keeps threads from using it at once.)"""
    return _target(triple).create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small")


def emit_object(text: str, target: Target | Machine) -> bytes:
    """Compile a module to a relocatable object (position-independent, no pass pipeline); for a GPU
    to PTX, which is text. Raises EmitError if LLVM's parser or verifier refuses the text."""
    if target.triple.startswith("nvptx"):
        return assembly(text, target).encode()
    return bytes(_emitted(text, target, "emit_object"))


def assembly(text: str, target: Target | Machine) -> str:
    """The same code as assembly, for people and for counting. Raises EmitError if LLVM's parser or
    verifier refuses the text."""
    return str(_emitted(text, target, "emit_assembly"))


def _emitted(text: str, target: Target | Machine, how: str) -> Any:
    """Return the output of a method of LLVM's code generator for the module."""
    with no_fork():
        return _emitted_now(text, target, how)


def _emitted_now(text: str, target: Target | Machine, how: str) -> Any:
    try:
        llvm = load_llvm()
        module = llvm.parse_assembly(text)
        machine = _machine(target.triple, target.cpu, target.features,
                           0 if text.startswith(QUICK) else 3)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        if text.startswith(OPTIMIZE):
            _optimize(llvm, module, machine)
        return getattr(machine, how)(module)
    except RuntimeError as error:
        raise EmitError(str(error)) from None


def _optimize(llvm: Any, module: Any, machine: Any) -> None:
    """Run LLVM's pipeline for speed."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
