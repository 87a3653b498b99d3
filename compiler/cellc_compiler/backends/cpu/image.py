"""A program of the CPU back end: kernels, `cellc_main` and the host side as one image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.image import Image
from cellc_runtime.target import Target

from ...build import objects
from ...lower.instructions import Call
from ...lower.kernel import Kernel
from ...lower.lowered import Lowered, PrecomputedBlock
from ..base import Built, ProfileLayout, ShapePolymorphic
from .host import main, profiling, shape_polymorphic
from .host.entry import support_text


def build_image(
    main_text: str, kernels: Sequence[tuple[str, str]], target: Target, *, callbacks: int = 0,
    builder: objects.Builder | None = None,
) -> Image:
    """Kernels and `main` linked with the host side; see `objects.build_image`."""
    return objects.build_image(main_text, kernels, target, support=(support_text(target),),
                               callbacks=callbacks, builder=builder)


class CpuBuild:
    """See `Build`: kernels are compiled by other processes while lowering goes on."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._builder = objects.Builder(target)

    def __enter__(self) -> CpuBuild:
        self._builder.__enter__()
        # Every image holds it: workers need not wait for kernels to begin.
        self._builder.add(support_text(self._target))
        return self

    def __exit__(self, *args: object) -> None:
        self._builder.__exit__(*args)

    def add(self, kernel: Kernel) -> None:
        """See `Build`."""
        self._builder.add(kernel.code)

    def watch(self, say: Callable[[int, int], None]) -> None:
        """See `Build`."""
        self._builder.watch(say)

    def finish(self, lowered: Lowered, profile_behind: int | None = None) -> Built:
        """See `Build`."""
        kernels, writer = main.Kernels(), None
        if profile_behind is not None:
            writer = profiling.ProfilingWriter(
                lowered.instructions, profile_behind, self._target, kernels)
        text = main.write_main(lowered.instructions, [b.instructions for b in lowered.precomputed],
                               self._target, kernels, writer)
        image = build_image(text, [(n, k.code) for n, k in kernels.named.items()], self._target,
                            callbacks=len(lowered.callbacks), builder=self._builder)
        how = None if writer is None else ProfileLayout(
            writer.calls, writer.start, writer.capacity, writer.arena)
        return Built(image, len(kernels.named), how)

    def block_key(self, block: PrecomputedBlock, slot: int) -> tuple[bytes, bool]:
        """See `Build`."""
        sources = block.sources(slot)
        if len(block.instructions) == 1 and isinstance(block.instructions[0], Call):
            call = block.instructions[0]  # no slot numbers: they differ from program to program
            order = [(sources.index(p.base) if p.base in sources else "block", p.offset)
                     for p in call.places]
            text = f"{call.kernel.code}\n{call.kernel.numbers}\n{order}"
            return text.encode(), any(p.base == "const" for p in call.places)
        text = main.block_text(block.instructions, self._target)
        return text.encode(), "%consts" in text.split("{", 1)[1]


def build_shape_polymorphic(
    code: shape_polymorphic.ShapePolymorphic, target: Target
) -> ShapePolymorphic:
    """The code of an op for any sizes, linked."""
    image = build_image(code.main, [(code.name, code.kernel)], target)
    return ShapePolymorphic(image, code.sizes, code.cost)
