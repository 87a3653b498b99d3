"""NVIDIA's GPUs as devices, and their emulation in this process."""
