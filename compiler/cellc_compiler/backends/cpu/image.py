"""A program of the CPU back end: kernels, `cellc_main` and the host side as one image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from cellc_runtime.abi import PRECOMPUTE
from cellc_runtime.forks import in_child
from cellc_runtime.image import Image
from cellc_runtime.target import Target

from ...build import objects
from ...lower.lowered import Lowered
from ..base import Built, ProfileLayout
from ..llvm.build import LlvmBuild
from ..llvm.main import PRECOMPUTE_PARAMS, FunctionWriter, Kernels
from .host import main, profiling
from .host.entry import support_text, win64_text


def build_image(
    main_text: str, kernels: Sequence[tuple[str, str]], target: Target, *, callbacks: int = 0
) -> Image:
    """Kernels and `main` linked with the host side; see `objects.build_image`."""
    return objects.build_image(main_text, kernels, target, support=(support_text(target),),
                               callbacks=callbacks)


class CpuBuild(LlvmBuild):
    """See `Build`: with the pool, the native entry and, where it is requested, profiling."""

    writer = main.PoolWriter

    def __init__(self, target: Target) -> None:
        super().__init__(target, (support_text(target),))

    def finish(self, lowered: Lowered, profile_behind: int | None = None) -> Built:
        if profile_behind is None:
            return super().finish(lowered)
        kernels = Kernels()
        writer = profiling.ProfilingWriter(
            lowered.instructions, profile_behind, self.target, kernels)
        image = self.linked(self.inputs(lowered, writer), lowered)
        return Built(image, len(kernels.named), ProfileLayout(
            writer.calls, writer.start, writer.capacity, writer.arena))

    def main_text(self, lowered: Lowered, writer: FunctionWriter) -> str:
        """With `cellc_ahead` in the other calling convention."""
        text = super().main_text(lowered, writer)
        if lowered.precomputed:
            text += win64_text(PRECOMPUTE, self.target, PRECOMPUTE_PARAMS)
        return text


_ahead: list[CpuBuild] = []  # Builds that no program has taken yet

in_child(_ahead.clear)  # (their processes are the parent's)


@contextmanager
def ahead(target: Target) -> Iterator[None]:
    """In the block the host side of programs is compiled, for the first build that begins there."""
    if _ahead:
        yield
        return
    build = CpuBuild(target)
    _ahead.append(build.__enter__())
    try:
        yield
    finally:
        if build in _ahead:  # no program took it
            _ahead.remove(build)
            build.__exit__(None, None, None)


def begun(target: Target) -> CpuBuild | None:
    """The build that has begun ahead for a target, if there is one: it is the caller's now."""
    with suppress(IndexError):
        build = _ahead.pop()
        if build.target == target:
            return build
        _ahead.append(build)
    return None
