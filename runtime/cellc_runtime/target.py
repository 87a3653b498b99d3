"""Targets: what code generation needs to know, and which of them this machine's processor runs.

A target is a *feature level*, not a machine: code for one level is the same wherever it was
compiled, so an artifact and a cache entry are portable between machines of one level.
Detection (`processor`) needs no compiler library, so a warm start never loads one.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from . import knobs, platform
from .lazy import lazy_imports
from .records import dataclass, replace

with lazy_imports(__name__):
    from . import processor


@dataclass(frozen=True, slots=True)
class Target:
    """A feature level of a processor, or an architecture of GPUs."""

    name: str  # stable name, used in artifacts and cache keys
    triple: str  # LLVM triple. Always ELF: images are linked and mapped by cellc itself.
    cpu: str  # LLVM cpu name that gives the feature set
    features: str  # LLVM feature string added to `cpu`
    vector_bytes: int  # width of a vector register in bytes
    vector_registers: int  # number of vector registers
    requires: frozenset[str]  # operating-system feature names that must all be present to run
    tiles: bool = False  # whether products of bfloat16 use AMX's tile registers
    # whether kernels run on a device of their own; `cellc_main`, which launches them, is code for
    # the machine at hand
    accelerator: bool = False
    # whether sums may have any order, and factors of float32 the ten bits of TF32's fraction.
    # Programs are the same to whoever runs them: the name does not say it.
    fast: bool = False

    def lanes(self, itemsize: int) -> int:
        """Elements of `itemsize` bytes in one vector register."""
        return max(1, self.vector_bytes // itemsize)


AVX512 = Target(
    name="x86_64-avx512",
    triple="x86_64-unknown-linux-gnu",
    cpu="x86-64-v4",
    features="+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+fma,+f16c",
    vector_bytes=64,
    vector_registers=32,
    requires=frozenset(
        {"avx2", "fma", "f16c", "bmi1", "bmi2", "avx512f", "avx512bw", "avx512cd", "avx512dq",
         "avx512vl"}
    ),
)
AVX2 = Target(
    name="x86_64-avx2",
    triple="x86_64-unknown-linux-gnu",
    cpu="x86-64-v3",
    features="+avx2,+fma,+f16c",
    vector_bytes=32,
    vector_registers=16,
    requires=frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2"}),
)
NEON = Target(
    name="aarch64-neon",
    triple="aarch64-unknown-linux-gnu",
    cpu="generic",
    features="+neon,+reserve-x18",
    vector_bytes=16,
    vector_registers=32,
    requires=frozenset({"asimd"}),
)

AMX = replace(
    AVX512,
    name="x86_64-amx",
    features=AVX512.features + ",+amx-tile,+amx-bf16",
    requires=AVX512.requires | {"amx_tile", "amx_bf16"},
    tiles=True,
)
"""AVX-512 with products of bfloat16 in tile registers, whose sums have an order of their own: for
`numerics="fast"`, or where it is requested by name."""

TARGETS: dict[str, Target] = {t.name: t for t in (AVX512, AVX2, NEON, AMX)}


def _gpu(architecture: str, ptx: str) -> Target:
    return Target(
        name=f"cuda-{architecture}", triple="nvptx64-nvidia-cuda", cpu=architecture,
        features=f"+{ptx}", vector_bytes=16, vector_registers=64, requires=frozenset(),
        accelerator=True,
    )


CUDA: dict[str, Target] = {
    t.name: t for t in (_gpu("sm_80", "ptx83"), _gpu("sm_90a", "ptx83"), _gpu("sm_100a", "ptx88"))
}
"""NVIDIA's GPUs. A number without a letter runs on later ones of its generation, one with `a` on
this one alone."""
EMULATED: dict[str, Target] = {
    t.name: t for t in (replace(g, name=g.name.replace("cuda", "emulated")) for g in CUDA.values())
}
"""The same, their kernels done by an emulator in this process."""
CHECKED: dict[str, Target] = {
    t.name: t for t in (replace(g, name=g.name.replace("cuda", "checked")) for g in CUDA.values())
}
"""The same, with every access of memory recorded."""

_OTHERS: dict[str, Target] = {}


def register_target(target: Target) -> None:
    """Let programs name a target of another device than this machine's processor. Raises ValueError
    if there is one of this name."""
    if known_target(target.name) is not None:
        raise ValueError(f"there is a target {target.name!r} already")
    _OTHERS[target.name] = target


def forget_target(target: Target) -> None:
    """Undo `register_target`."""
    del _OTHERS[target.name]


def known_target(name: str) -> Target | None:
    """A target that a program may name, or None."""
    tables = (TARGETS, CUDA, EMULATED, CHECKED, _OTHERS)
    return next((table[name] for table in tables if name in table), None)


@cache
def host_targets() -> tuple[Target, ...]:
    """The feature levels this machine has, best first. Raises RuntimeError if no target fits this
    machine."""
    features = processor.features()
    machine = platform.machine()
    found = tuple(
        t for t in TARGETS.values()
        if t.triple.startswith(machine) and t.requires <= features and not t.tiles
    )
    if not found:
        raise RuntimeError(
            f"cellc generates code for x86-64 with AVX2 and FMA, or for aarch64; this machine is "
            f"{machine} without them"
        )
    return found


@cache
def machine_target() -> Target:
    """The least feature level of this machine's kind, whatever it has: code that any of them runs
    where speed does not matter."""
    return NEON if platform.machine() == "aarch64" else AVX2


def tiles_usable() -> bool:
    """Whether this process may run code for `AMX`; the system is asked for it."""
    return AMX in runnable_targets() and platform.allow_tiles()


@cache
def runnable_targets() -> tuple[Target, ...]:
    """All targets whose code this machine can run: its levels, best first, then those that are
    an explicit choice."""
    features = processor.features()
    return (*host_targets(), *(t for t in TARGETS.values() if t.tiles and t.requires <= features
                               and t.triple.startswith(platform.machine())))


def best_of(names: Collection[str]) -> Target | None:
    """Of targets that there is code for, the best one that this machine runs: one that is an
    explicit choice if it is there and granted."""
    named = [t for t in runnable_targets() if t.name in names]
    chosen = next((t for t in named if t.tiles and tiles_usable()), None)
    return chosen or next((t for t in named if not t.tiles), None)


def host_target() -> Target:
    """The best target of this machine, or the one the knob `CELLC_TARGET` names. Raises ValueError
    if the knob names none that this machine can run."""
    wanted = knobs.read().target
    if wanted is None:
        return host_targets()[0]
    for target in runnable_targets():
        if target.name == wanted:
            return target
    names = ", ".join(t.name for t in runnable_targets())
    raise ValueError(f"CELLC_TARGET={wanted!r}: this machine runs {names}")
