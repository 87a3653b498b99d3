"""NVIDIA's GPUs, and their emulation, through LLVM text."""
