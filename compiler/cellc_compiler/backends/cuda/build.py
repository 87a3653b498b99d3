"""A program for a GPU: kernels as cubins, or as code of the emulator, and the host's functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from cellc_runtime import collectives
from cellc_runtime.abi import MAIN, PRECOMPUTE
from cellc_runtime.image import Image
from cellc_runtime.program import DeviceKernel
from cellc_runtime.target import Target

from ...build import objects, ptxas
from ...build.workers import compile_jobs
from ...lower.kernel import Kernel
from ...lower.lowered import HostCallback, Lowered, PrecomputedBlock
from ..base import Built
from ..llvm.main import PRECOMPUTE_PARAMS, write_main
from .code import HOST, KernelCode, is_emulated
from .emulator import emulator_text
from .main import Called, EmulatedWriter, LaunchedKernels, LaunchWriter

_SEVERAL = re.compile(r"^\.minnctapersm .*\n", re.MULTILINE)


class GpuBuild:
    """See `Build`."""

    def __init__(self, target: Target) -> None:
        self.target, self.emulated = target, is_emulated(target)
        self._host = objects.Builder(HOST)
        self._device = self._host if self.emulated else objects.Builder(target)

    def __enter__(self) -> Self:
        for builder in self._builders():
            builder.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        for builder in self._builders():
            builder.__exit__(*args)

    def _builders(self) -> list[objects.Builder]:
        return list(dict.fromkeys((self._host, self._device)))

    def add(self, kernel: Kernel) -> None:
        for code in variants(kernel.code):
            self._device.add(code.text)

    def watch(self, say: Callable[[int, int], None]) -> None:
        self._device.watch(say)

    def finish(self, lowered: Lowered, profile_behind: int | None = None) -> Built:
        types = dict(enumerate(map(_called, lowered.callbacks)))
        kind = EmulatedWriter if self.emulated else LaunchWriter
        kernels = LaunchedKernels()
        writer = kind(MAIN, self.target, kernels, types)
        other = kind(PRECOMPUTE, self.target, kernels, types, PRECOMPUTE_PARAMS)
        precompute = [b.instructions for b in lowered.precomputed]
        text = write_main(lowered.instructions, precompute, writer, other)
        return self._linked(text, kernels, len(types))

    def _linked(self, text: str, kernels: LaunchedKernels, callbacks: int) -> Built:
        codes = list(kernels.codes)
        if self.emulated:
            named = [(kernels.name_of(code), code.text) for code in codes]
            image = self._image(text, named, (emulator_text(HOST),), callbacks)
            return Built(image, len(codes))
        image = self._image(text, [], (), callbacks + len(codes))
        ptx = self._device.objects([code.text for code in codes])
        made = assembled(ptx, self.target)
        later = not self.target.cpu.endswith("a")  # such code is for one architecture alone
        on_device = tuple(
            DeviceKernel(m, c.shared, kernels.label(c), p if later and m != p else b"")
            for m, p, c in zip(made, ptx, codes, strict=True))
        return Built(image, len(codes), device_kernels=on_device)

    def _image(
        self, text: str, kernels: Sequence[tuple[str, str]], support: Sequence[str], entries: int
    ) -> Image:
        return objects.build_image(text, kernels, HOST, support=support, callbacks=entries,
                                   builder=self._host)

    def block_key(self, block: PrecomputedBlock, slot: int) -> tuple[bytes, bool]:
        kernels = LaunchedKernels()
        text = EmulatedWriter("block", self.target, kernels, {}).write(block.instructions).text()
        return text.encode(), "%consts" in text.split("{", 1)[1]


def assembled(texts: Sequence[bytes], target: Target) -> list[bytes]:
    """Cubins of PTX, where there is an assembler; else the driver will make them. Raises PtxasError
    if it refuses a text."""
    if ptxas.find() is None:
        return list(texts)
    with ThreadPoolExecutor(compile_jobs()) as pool:
        return list(pool.map(lambda ptx: _assembled(ptx.decode(), target.cpu), texts))


def _assembled(ptx: str, architecture: str) -> bytes:
    """A kernel that asks for several blocks of a multiprocessor has them where its registers then
    still suffice: what is spilled costs more."""
    made = ptxas.assemble(ptx, architecture)
    if made.spill_bytes and _SEVERAL.search(ptx):
        made = ptxas.assemble(_SEVERAL.sub("", ptx), architecture)
    return made.code


def variants(code: KernelCode) -> Iterator[KernelCode]:
    """A kernel, and those that may stand for it."""
    at: KernelCode | None = code
    while at is not None:
        yield at
        at = at.otherwise


def _called(callback: HostCallback) -> Called:
    node = callback.node
    operands = [v.type.nbytes for v in node.operands]
    return Called([*operands, *(v.type.nbytes for v in node.results)], len(operands),
                  callback.phase == collectives.ASK)
