"""A program of kernels in LLVM text: compiled by other processes during lowering, linked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Self

from cellc_runtime.abi import FIRST_CALLBACK, MAIN, PRECOMPUTE
from cellc_runtime.image import Image
from cellc_runtime.target import Target

from ...build import objects
from ...build.link import LinkInput, link
from ...lower.instructions import Call
from ...lower.kernel import Kernel
from ...lower.lowered import Lowered, PrecomputedBlock
from ..base import Built
from .main import PRECOMPUTE_PARAMS, FunctionWriter, Kernels, write_main


class LlvmBuild:
    """See `Build`.

    Args:
        support: modules that every image holds.
    """

    writer: ClassVar[type[FunctionWriter]] = FunctionWriter
    """The writer of the functions that call kernels."""

    def __init__(self, target: Target, support: Sequence[str] = ()) -> None:
        self.target = target
        self._support = support
        self._builder = objects.Builder(target)

    def __enter__(self) -> Self:
        self._builder.__enter__()
        for text in self._support:  # workers need not wait for kernels to begin
            self._builder.add(text)
        return self

    def __exit__(self, *args: object) -> None:
        self._builder.__exit__(*args)

    def add(self, kernel: Kernel) -> None:
        self._builder.add(kernel.code)

    def watch(self, say: Callable[[int, int], None]) -> None:
        self._builder.watch(say)

    def finish(self, lowered: Lowered, profile_behind: int | None = None) -> Built:
        kernels = Kernels()
        inputs = self.inputs(lowered, self.writer(MAIN, self.target, kernels))
        own = 1 + len(self._support)
        return Built(self.linked(inputs, lowered), len(kernels.named),
                     objects=(inputs[0], *inputs[own:]))

    def inputs(self, lowered: Lowered, writer: FunctionWriter) -> list[LinkInput]:
        """The objects of an image whose `cellc_main` is written by `writer`."""
        writer.reads_sizes(lowered.sizes_at)
        text = self.main_text(lowered, writer)
        kernels = [(name, k.code) for name, k in writer.kernels.named.items()]
        return objects.link_inputs(text, kernels, self.target, support=self._support,
                                   builder=self._builder)

    def linked(self, inputs: Sequence[LinkInput], lowered: Lowered) -> Image:
        """The image of these objects."""
        return link(inputs, table_entries=FIRST_CALLBACK + len(lowered.callbacks))

    def main_text(self, lowered: Lowered, writer: FunctionWriter) -> str:
        """The module of the functions that call kernels."""
        other = self.writer(PRECOMPUTE, self.target, writer.kernels, PRECOMPUTE_PARAMS)
        other.reads_sizes(lowered.sizes_at)
        precompute = [b.instructions for b in lowered.precomputed]
        return write_main(lowered.instructions, precompute, writer, other)

    def block_key(self, block: PrecomputedBlock, slot: int) -> tuple[bytes, bool]:
        sources = block.sources(slot)
        if len(block.instructions) == 1 and isinstance(block.instructions[0], Call):
            call = block.instructions[0]  # no slot numbers: they differ from program to program
            order = [(sources.index(p.base) if p.base in sources else "block", p.offset)
                     for p in call.places]
            text = f"{call.kernel.code}\n{call.kernel.numbers}\n{order}"
            return text.encode(), any(p.base == "const" for p in call.places)
        # (A text that says all that they do: kernels are named by their contents.)
        text = self.writer("block", self.target, Kernels()).write(block.instructions).text()
        return text.encode(), "%consts" in text.split("{", 1)[1]
