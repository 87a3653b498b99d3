"""From LLVM text to an image: worker processes, objects, the linker."""
