"""Loop nests as LLVM text."""
