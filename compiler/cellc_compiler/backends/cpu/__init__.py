"""The CPU back end: x86-64 and aarch64 through LLVM text."""
